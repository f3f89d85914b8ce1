//! The tables of a database as it describes them itself. Called by `transfer`.
//! Never lists the tables in which the migrations are noted, and who may run on them: each database
//! keeps its own.

use sqlx::{PgConnection, SqliteConnection};

use super::TransferError;
use super::side::{Side, at};
use super::table::{Column, Kind, Table, in_order};
use crate::store::StoreError;

const SQLITE_TABLES: &str = "SELECT name
    FROM sqlite_schema
    WHERE type = 'table'
        AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
        AND name NOT IN ('_sqlx_migrations', 'schema_compat')";
const SQLITE_COLUMNS: &str = "SELECT name, type, pk FROM pragma_table_info($1)";
const SQLITE_NEEDS: &str = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list($1)";

const POSTGRES_TABLES: &str = "SELECT relname::TEXT
    FROM pg_catalog.pg_class
    WHERE relnamespace = CURRENT_SCHEMA()::TEXT::REGNAMESPACE
        AND relkind IN ('r', 'p')
        AND relname NOT IN ('_sqlx_migrations', 'schema_compat')";
const POSTGRES_COLUMNS: &str = "SELECT a.attname::TEXT,
        FORMAT_TYPE(a.atttypid, NULL),
        COALESCE((
            SELECT part.place
            FROM pg_catalog.pg_index AS i
            CROSS JOIN UNNEST(i.indkey::SMALLINT[]) WITH ORDINALITY AS part (attnum, place)
            WHERE i.indrelid = a.attrelid AND i.indisprimary AND part.attnum = a.attnum
        ), 0)
    FROM pg_catalog.pg_attribute AS a
    JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
    WHERE c.relnamespace = CURRENT_SCHEMA()::TEXT::REGNAMESPACE
        AND c.relname = $1
        AND a.attnum > 0
        AND NOT a.attisdropped";
const POSTGRES_NEEDS: &str = "SELECT DISTINCT needed.relname::TEXT
    FROM pg_catalog.pg_constraint AS f
    JOIN pg_catalog.pg_class AS c ON c.oid = f.conrelid
    JOIN pg_catalog.pg_class AS needed ON needed.oid = f.confrelid
    WHERE f.contype = 'f'
        AND c.relnamespace = CURRENT_SCHEMA()::TEXT::REGNAMESPACE
        AND c.relname = $1";

/// A column's name, type and place in the primary key.
type Described = (String, String, i64);

impl Side {
    /// All tables, each after those that it names.
    pub(super) async fn tables(&mut self) -> Result<Vec<Table>, TransferError> {
        let side = self.side();
        let described = match self {
            Side::Sqlite { connection, .. } => sqlite(connection).await,
            Side::Postgres { connection, .. } => postgres(connection).await,
        };
        let mut tables = Vec::new();
        for (name, columns, needs) in described.map_err(|error| at(side, error.into()))? {
            tables.push(table(name, columns, needs).map_err(|error| at(side, error))?);
        }
        Ok(in_order(tables))
    }
}

async fn sqlite(connection: &mut SqliteConnection) -> sqlx::Result<Vec<(String, Vec<Described>, Vec<String>)>> {
    let mut tables = Vec::new();
    let names: Vec<String> = sqlx::query_scalar(SQLITE_TABLES).fetch_all(&mut *connection).await?;
    for name in names {
        let columns = sqlx::query_as(SQLITE_COLUMNS)
            .bind(&name)
            .fetch_all(&mut *connection)
            .await?;
        let needs = sqlx::query_scalar(SQLITE_NEEDS)
            .bind(&name)
            .fetch_all(&mut *connection)
            .await?;
        tables.push((name, columns, needs));
    }
    Ok(tables)
}

async fn postgres(connection: &mut PgConnection) -> sqlx::Result<Vec<(String, Vec<Described>, Vec<String>)>> {
    let mut tables = Vec::new();
    let names: Vec<String> = sqlx::query_scalar(POSTGRES_TABLES).fetch_all(&mut *connection).await?;
    for name in names {
        let columns = sqlx::query_as(POSTGRES_COLUMNS)
            .bind(&name)
            .fetch_all(&mut *connection)
            .await?;
        let needs = sqlx::query_scalar(POSTGRES_NEEDS)
            .bind(&name)
            .fetch_all(&mut *connection)
            .await?;
        tables.push((name, columns, needs));
    }
    Ok(tables)
}

fn table(name: String, mut described: Vec<Described>, needs: Vec<String>) -> Result<Table, StoreError> {
    described.sort();
    let mut columns = Vec::new();
    let mut key: Vec<(i64, usize)> = Vec::new();
    for (at, (column, word, place)) in described.into_iter().enumerate() {
        let Some(kind) = Kind::of_type(&word) else {
            return Err(StoreError::Corrupt(format!(
                "{name}.{column} is of the type {word}, which a transfer does not know"
            )));
        };
        if place > 0 {
            key.push((place, at));
        }
        columns.push(Column { name: column, kind });
    }
    if key.is_empty() {
        return Err(StoreError::Corrupt(format!("the table {name} has no primary key")));
    }
    key.sort_unstable();
    Ok(Table {
        name,
        columns,
        key: key.into_iter().map(|(_, at)| at).collect(),
        needs,
    })
}
