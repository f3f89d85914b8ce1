//! Rows in bounded portions, and what becomes of each portion on the target: added where they are
//! missing, compared where they are there. Called by `transfer`.
//! Never holds more than some megabytes, one large row aside.

use super::side::Side;
use super::table::{Row, Table, Value};
use super::{RowProblem, TransferError, Writes};

/// Most rows of a portion.
const MAX_ROWS: usize = 500;
/// Most values of a portion: SQLite takes 32,766 in a statement.
const MAX_VALUES: usize = 30_000;
/// Bytes with which a portion is full.
const FULL_BYTES: usize = 4 << 20;

/// A portion.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    bytes: usize,
}

/// What became of one.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) copied: u64,
    pub(super) skipped: u64,
    pub(super) problems: Vec<RowProblem>,
}

impl Extend<Row> for Batch {
    fn extend<T: IntoIterator<Item = Row>>(&mut self, rows: T) {
        for row in rows {
            self.bytes += row.iter().map(Value::size).sum::<usize>();
            self.rows.push(row);
        }
    }
}

impl Batch {
    pub(super) fn is_full(&self, table: &Table) -> bool {
        let rows = (MAX_VALUES / table.columns.len().max(1)).min(MAX_ROWS);
        self.rows.len() >= rows || self.bytes >= FULL_BYTES
    }

    /// Adds what the target lacks and compares the rest.
    pub(super) async fn copy(self, target: &mut Side, table: &Table, writes: Writes) -> Result<Copied, TransferError> {
        if self.rows.is_empty() {
            return Ok(Copied::default());
        }
        if writes == Writes::Nothing {
            let there = target.find(table, &self.rows).await?;
            let is_there = |row: &&Row| table.has_key_of(&there, row);
            let (known, missing): (Vec<&Row>, Vec<&Row>) = self.rows.iter().partition(is_there);
            return Ok(compare(table, &known, &there, missing.len() as u64));
        }
        // What a foreign key refuses takes its whole portion with it: then row by row.
        let added = match target.insert(table, &self.rows).await {
            Ok(added) => added,
            Err(refused @ TransferError::Refused(_)) if self.rows.len() == 1 => {
                return Ok(Copied {
                    problems: vec![problem(table, &self.rows[0], refused.to_string())],
                    ..Copied::default()
                });
            }
            Err(TransferError::Refused(_)) => return self.one_by_one(target, table).await,
            Err(error) => return Err(error),
        };
        if added == self.rows.len() as u64 {
            return Ok(Copied {
                copied: added,
                ..Copied::default()
            });
        }
        let there = target.find(table, &self.rows).await?;
        let all: Vec<&Row> = self.rows.iter().collect();
        let mut copied = compare(table, &all, &there, added);
        // What was just added is equal, too.
        copied.skipped = copied.skipped.saturating_sub(added);
        Ok(copied)
    }

    async fn one_by_one(self, target: &mut Side, table: &Table) -> Result<Copied, TransferError> {
        let mut all = Copied::default();
        for row in self.rows {
            let mut alone = Batch::default();
            alone.extend([row]);
            let one = Box::pin(alone.copy(target, table, Writes::Missing)).await?;
            all.copied += one.copied;
            all.skipped += one.skipped;
            all.problems.extend(one.problems);
        }
        Ok(all)
    }
}

fn compare(table: &Table, rows: &[&Row], there: &[Row], copied: u64) -> Copied {
    let mut result = Copied {
        copied,
        ..Copied::default()
    };
    for row in rows {
        match table.same_key(there, row) {
            Some(other) if other == *row => result.skipped += 1,
            Some(other) => {
                let columns = table.differences(row, other).join(", ");
                let what = format!("the target has it with another {columns}");
                result.problems.push(problem(table, row, what));
            }
            None => {
                let what = "another row of the target stands where it must be unique".to_owned();
                result.problems.push(problem(table, row, what));
            }
        }
    }
    result
}

fn problem(table: &Table, row: &Row, problem: String) -> RowProblem {
    RowProblem {
        key: table.key_in_words(row),
        problem,
    }
}
