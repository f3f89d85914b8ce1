//! Moves every row of a database into another one, SQLite or PostgreSQL: reads the source while
//! nobody can write to it, adds what the target lacks, compares the rest, and sums both up. The
//! tables come from the catalogue, so that a new migration needs nothing here. Called by the
//! command line. Never changes a row on either side, and never writes to the source.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Store, StoreError, connect};
use crate::secret::Secret;
use batch::{Batch, Copied};
use side::Side;
use table::{Row, Table};

mod batch;
mod catalogue;
mod side;
mod table;

/// Most problems of one table that are told with their keys.
const MAX_PROBLEMS: usize = 20;

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// The target gets what it lacks.
    Missing,
    /// Only compares, and says what would be written.
    Nothing,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Rows of the source that were looked at.
    pub done: u64,
    /// All rows of the source.
    pub all: u64,
}

/// What a transfer did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferReport {
    /// `sqlite` or `postgres`.
    pub from: &'static str,
    /// The same of the target.
    pub to: &'static str,
    /// Version of the schema on both sides.
    pub schema: i64,
    /// Nothing was written: `copied` counts what would be.
    pub dry_run: bool,
    /// Rows of the source.
    pub rows: u64,
    /// Rows that the target lacked.
    pub copied: u64,
    /// Rows that were there already and are equal.
    pub skipped: u64,
    /// Rows that differ or did not find a place, and tables whose sums differ.
    pub errors: u64,
    /// Table by table, in the order of their foreign keys.
    pub tables: Vec<TableReport>,
}

/// The same of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// Its name.
    pub table: String,
    /// Rows of the source.
    pub rows: u64,
    /// Rows that the target lacked.
    pub copied: u64,
    /// Rows that were there already and are equal.
    pub skipped: u64,
    /// Rows that differ or did not find a place.
    pub errors: u64,
    /// The first of them.
    pub problems: Vec<RowProblem>,
    /// SHA-256 of all rows of the source in the order of their keys.
    pub source_sha256: String,
    /// The same of the target, after the transfer; nothing in a dry run.
    pub target_sha256: Option<String>,
}

/// A row that was not moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowProblem {
    /// Its key, column by column.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Why nothing was moved, or not everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// One of the databases cannot be used as it is; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// One of the databases did not do it. Another transfer goes on where this one ended.
    #[error("the {side}: {error}")]
    Store {
        /// `source` or `target`.
        side: &'static str,
        /// What it said.
        error: StoreError,
    },
}

/// Moves every row of `from` that `to` lacks.
///
/// # Errors
/// [`TransferError::Refused`] before anything is written, when the source is in use or has another
/// schema, or the target holds rows that the source does not have. Neither repeats an address.
pub async fn transfer(
    from: &Secret,
    to: &Secret,
    writes: Writes,
    progress: &mut (dyn FnMut(Moved) + Send),
) -> Result<TransferReport, TransferError> {
    let schema = connect::schema_version();
    let mut source = Side::open(from, "source").await?;
    let tables = source_tables(&mut source, schema).await?;
    source.refuse_if_connected().await?;
    source.hold_still(&tables).await?;
    source.refuse_if_held().await?;
    let mut target = open_target(&mut source, to, writes, schema).await?;
    if let Some(target) = &mut target {
        fit(&tables, &target.tables().await?)?;
        target.refuse_if_connected().await?;
        target.refuse_if_held().await?;
        refuse_strangers(&mut source, target, &tables).await?;
    }
    let to = if Store::file(to).is_ok_and(|file| file.is_some()) {
        "sqlite"
    } else {
        "postgres"
    };
    let mut report = TransferReport {
        from: source.kind(),
        to,
        schema,
        dry_run: writes == Writes::Nothing,
        rows: 0,
        copied: 0,
        skipped: 0,
        errors: 0,
        tables: Vec::new(),
    };
    let mut moved = Moved { done: 0, all: 0 };
    for table in &tables {
        moved.all += source.count(table).await?;
    }
    for table in &tables {
        let mut moving = Moving {
            table,
            writes,
            moved: &mut moved,
            progress: &mut *progress,
        };
        report.add(moving.table(&mut source, target.as_mut()).await?);
    }
    source.close().await;
    if let Some(target) = target {
        target.close().await;
    }
    Ok(report)
}

impl TransferReport {
    /// Every row of the source is on the target, byte by byte the same; in a dry run, would be.
    pub fn is_complete(&self) -> bool {
        self.errors == 0
    }

    fn add(&mut self, table: TableReport) {
        let differs = table
            .target_sha256
            .as_ref()
            .is_some_and(|sum| *sum != table.source_sha256);
        self.rows += table.rows;
        self.copied += table.copied;
        self.skipped += table.skipped;
        // Rows that differ are counted; that sums differ without one is an error of its own.
        self.errors += table.errors.max(u64::from(differs));
        self.tables.push(table);
    }
}

/// The tables of the source, which must have the schema that this program knows.
async fn source_tables(source: &mut Side, schema: i64) -> Result<Vec<Table>, TransferError> {
    match source.schema().await? {
        Some(version) if version == schema => source.tables().await,
        Some(version) if version < schema => Err(TransferError::Refused(format!(
            "the source has schema {version}, this program has {schema}: bring it up to date first with \
             `forgehand migrate` (without --from and --to) and its address in database.url"
        ))),
        Some(version) => Err(TransferError::Refused(format!(
            "the source has schema {version}, this program knows {schema}: install a newer Forgehand"
        ))),
        None => Err(TransferError::Refused(
            "the source holds no database of Forgehand".to_owned(),
        )),
    }
}

/// The target with the schema of this program. A dry run makes nothing: where there is no database
/// yet, there is no target.
async fn open_target(
    source: &mut Side,
    to: &Secret,
    writes: Writes,
    schema: i64,
) -> Result<Option<Side>, TransferError> {
    let file = Store::file(to).map_err(|error| side::at("target", error))?;
    if file.as_ref().is_some_and(|file| source.is_file(file)) {
        return Err(TransferError::Refused(SAME.to_owned()));
    }
    let is_new = file.is_some_and(|file| !file.exists());
    if !is_new {
        let mut target = Side::open(to, "target").await?;
        if source.is_same_database(&mut target).await? {
            return Err(TransferError::Refused(SAME.to_owned()));
        }
        match target.schema().await? {
            Some(version) if version == schema => return Ok(Some(target)),
            Some(_) if writes == Writes::Nothing => {
                return Err(TransferError::Refused(
                    "the target has another schema than this program; bring it up to date first with \
                     `forgehand migrate` (without --from and --to) and its address in database.url"
                        .to_owned(),
                ));
            }
            None if !target.tables().await?.is_empty() => {
                return Err(TransferError::Refused(
                    "the target holds tables of another program; make an empty database for Forgehand".to_owned(),
                ));
            }
            _ => target.close().await,
        }
    }
    if writes == Writes::Nothing {
        return Ok(None);
    }
    let at = |error| side::at("target", error);
    let store = Store::open(to, 1).await.map_err(at)?;
    store.migrate().await.map_err(at)?;
    store.close().await;
    Side::open(to, "target").await.map(Some)
}

const SAME: &str = "the source and the target are the same database";

/// Both sides must have the same tables with the same columns.
fn fit(source: &[Table], target: &[Table]) -> Result<(), TransferError> {
    for table in source {
        let other = target.iter().find(|other| other.name == table.name);
        if other.is_none_or(|other| other.columns != table.columns || other.key != table.key) {
            return Err(TransferError::Refused(format!(
                "the table {} is not the same on both sides",
                table.name
            )));
        }
    }
    Ok(())
}

/// Rows of the target that the source does not have are of another service, or of one that went
/// on meanwhile: what is there must not be mixed with what comes.
async fn refuse_strangers(source: &mut Side, target: &mut Side, tables: &[Table]) -> Result<(), TransferError> {
    for table in tables {
        let mut rows = target.rows(table);
        let mut batch = Batch::default();
        loop {
            let row = rows.next().await?;
            let is_end = row.is_none();
            batch.extend(row);
            if is_end || batch.is_full(table) {
                let known = source.find(table, &batch.rows).await?;
                if let Some(stranger) = batch.rows.iter().find(|row| !table.has_key_of(&known, row)) {
                    return Err(TransferError::Refused(format!(
                        "the target is not empty: its table {} has the row {}, which the source does not have. Make a \
                         new database for the transfer",
                        table.name,
                        table.key_in_words(stranger)
                    )));
                }
                batch = Batch::default();
            }
            if is_end {
                break;
            }
        }
    }
    Ok(())
}

/// One table on its way.
struct Moving<'a> {
    table: &'a Table,
    writes: Writes,
    moved: &'a mut Moved,
    progress: &'a mut (dyn FnMut(Moved) + Send),
}

impl Moving<'_> {
    async fn table(&mut self, source: &mut Side, mut target: Option<&mut Side>) -> Result<TableReport, TransferError> {
        let mut report = TableReport {
            table: self.table.name.clone(),
            rows: 0,
            copied: 0,
            skipped: 0,
            errors: 0,
            problems: Vec::new(),
            source_sha256: String::new(),
            target_sha256: None,
        };
        let mut sum = Sum::of(self.table);
        let mut rows = source.rows(self.table);
        let mut batch = Batch::default();
        loop {
            let row = rows.next().await?;
            let is_end = row.is_none();
            if let Some(row) = &row {
                sum.add(row);
            }
            batch.extend(row);
            if is_end || batch.is_full(self.table) {
                let full = std::mem::take(&mut batch);
                self.batch(full, target.as_deref_mut(), &mut report).await?;
            }
            if is_end {
                break;
            }
        }
        drop(rows);
        report.source_sha256 = sum.hex();
        if let (Some(target), Writes::Missing) = (target, self.writes) {
            report.target_sha256 = Some(sum_of(target, self.table).await?);
        }
        Ok(report)
    }

    async fn batch(
        &mut self,
        batch: Batch,
        target: Option<&mut Side>,
        report: &mut TableReport,
    ) -> Result<(), TransferError> {
        let rows = batch.rows.len() as u64;
        let Copied {
            copied,
            skipped,
            problems,
        } = match target {
            Some(target) => batch.copy(target, self.table, self.writes).await?,
            None => Copied {
                copied: rows,
                ..Copied::default()
            },
        };
        report.rows += rows;
        report.copied += copied;
        report.skipped += skipped;
        report.errors += problems.len() as u64;
        let room = MAX_PROBLEMS.saturating_sub(report.problems.len());
        report.problems.extend(problems.into_iter().take(room));
        self.moved.done += rows;
        (self.progress)(*self.moved);
        Ok(())
    }
}

async fn sum_of(side: &mut Side, table: &Table) -> Result<String, TransferError> {
    let mut sum = Sum::of(table);
    let mut rows = side.rows(table);
    while let Some(row) = rows.next().await? {
        sum.add(&row);
    }
    Ok(sum.hex())
}

/// SHA-256 of a table: its name and columns, then each row in the order of the keys.
struct Sum(Sha256);

impl Sum {
    fn of(table: &Table) -> Self {
        let mut hash = Sha256::new();
        hash.update(table.name.as_bytes());
        for column in &table.columns {
            hash.update(b"\0");
            hash.update(column.name.as_bytes());
        }
        hash.update(b"\0\0");
        Self(hash)
    }

    fn add(&mut self, row: &Row) {
        let mut bytes = Vec::new();
        for value in row {
            value.encode(&mut bytes);
        }
        self.0.update(&bytes);
    }

    fn hex(self) -> String {
        hex::encode(self.0.finalize())
    }
}
