//! A SQLite database with rows in every table that its catalogue lists, also of migrations to
//! come: each column gets values that are hard to carry. Called by the stories of `transfer`.

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::secret::Secret;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};

use crate::databases::Database;

/// Rows of each table that takes as many.
pub(super) const ROWS: usize = 4;

/// A column as the catalogue describes it.
struct Column {
    name: String,
    word: String,
    is_required: bool,
    /// The table and column that it names.
    names: Option<(String, String)>,
}

/// A database with rows that nobody would write.
pub(super) async fn filled() -> Database {
    let database = super::with_schema(Database::sqlite()).await;
    let mut connection = SqliteConnection::connect(database.url.expose()).await.unwrap();
    // Rows may come before those that they name: what counts is that all are there in the end.
    let off = "PRAGMA foreign_keys = OFF";
    sqlx::raw_sql(off).execute(&mut connection).await.unwrap();
    for table in tables(&database.url).await {
        let columns = columns(&mut connection, &table).await;
        for number in 0..ROWS {
            insert(&mut connection, &table, &columns, number).await;
        }
    }
    let broken = sqlx::query("PRAGMA foreign_key_check")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(
        broken.is_empty(),
        "{} rows name others that are not there",
        broken.len()
    );
    connection.close().await.unwrap();
    database
}

/// The tables that a database has, without that of the migrations.
pub(super) async fn tables(url: &Secret) -> Vec<String> {
    let query = match url.expose().starts_with("sqlite:") {
        true => "SELECT name FROM sqlite_master WHERE type = 'table'",
        false => "SELECT tablename::TEXT FROM pg_tables WHERE schemaname = 'public'",
    };
    let mut names: Vec<String> = match url.expose().starts_with("sqlite:") {
        true => {
            let mut connection = SqliteConnection::connect(url.expose()).await.unwrap();
            sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
        }
        false => {
            let mut connection = PgConnection::connect(url.expose()).await.unwrap();
            sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
        }
    };
    // What belongs to the schema, and not to what is in it, stays where it is.
    names
        .retain(|name| !["_sqlx_migrations", "schema_compat"].contains(&name.as_str()) && !name.starts_with("sqlite_"));
    names.sort();
    names
}

/// Every row of a SQLite file as SQLite writes it down, with its table.
pub(super) async fn rows_of_file(url: &Secret) -> Vec<String> {
    let mut connection = SqliteConnection::connect(url.expose()).await.unwrap();
    let mut rows = Vec::new();
    for table in tables(url).await {
        let columns = columns(&mut connection, &table).await;
        let quoted: Vec<String> = columns
            .iter()
            .map(|column| format!("QUOTE(\"{}\")", column.name))
            .collect();
        let query = format!("SELECT {} FROM \"{table}\"", quoted.join(" || ', ' || "));
        let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query))
            .fetch_all(&mut connection)
            .await
            .unwrap();
        rows.extend(found.into_iter().map(|row| format!("{table}: {row}")));
    }
    rows.sort();
    rows
}

async fn columns(connection: &mut SqliteConnection, table: &str) -> Vec<Column> {
    let keys = "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list($1)";
    let keys: Vec<(String, String, String)> = sqlx::query_as(keys)
        .bind(table)
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    let described = "SELECT name, type, \"notnull\" OR pk > 0 AS is_required FROM pragma_table_info($1)";
    let rows = sqlx::query(described)
        .bind(table)
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    rows.into_iter()
        .map(|row| {
            let name: String = row.get(0);
            let names = keys.iter().find(|(from, ..)| *from == name);
            Column {
                names: names.map(|(_, table, column)| (table.clone(), column.clone())),
                word: row.get(1),
                is_required: row.get::<i64, _>(2) != 0,
                name,
            }
        })
        .collect()
}

/// A table that holds one row by its own rules keeps that.
async fn insert(connection: &mut SqliteConnection, table: &str, columns: &[Column], number: usize) {
    let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("${place}")).collect();
    let statement = format!(
        "INSERT OR IGNORE INTO \"{table}\" ({}) VALUES ({})",
        names.join(", "),
        places.join(", ")
    );
    let mut query = sqlx::query(AssertSqlSafe(statement));
    for (place, column) in columns.iter().enumerate() {
        // Every column that may be empty is, in one of the rows.
        if !column.is_required && number == place % ROWS {
            query = query.bind(Option::<String>::None);
            continue;
        }
        // What names a row gets that row's own value.
        let (of_table, of_column) = match &column.names {
            Some((table, name)) => (table.as_str(), name.as_str()),
            None => (table, column.name.as_str()),
        };
        query = match column.word.as_str() {
            "TEXT" => query.bind(text(of_table, of_column, number)),
            "BIGINT" => query.bind(int(number, place)),
            "BOOLEAN" => query.bind((number + place).is_multiple_of(2)),
            "TIMESTAMPTZ" => query.bind(time(number, place)),
            "BYTEA" => query.bind(bytes(number)),
            other => panic!(
                "{table}.{}: a value of the type {other} is to be made here",
                column.name
            ),
        };
    }
    query
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{table}: {error}"));
}

/// Texts that sort and compare in other ways in other languages, and do not fit into ASCII.
fn text(table: &str, column: &str, number: usize) -> String {
    let odd = match number {
        0 => "ß ǆ Ünï \u{301}\u{1F9A6} 'quoted\" \\ $1 %s\u{FFFD}",
        1 => "Zebra\r\n\ttab\u{1}\u{7f}\u{85}\u{202e}",
        2 => "apfel, Äpfel _-.; NULL",
        _ => "{\"json\": \"\\u0000\"}",
    };
    // Ids of GitHub and keys have to differ, and the beginning decides how they sort.
    format!("{odd} {table}.{column} {number}")
}

fn int(number: usize, place: usize) -> i64 {
    let place = i64::try_from(place).unwrap();
    match number {
        0 => i64::MIN + place,
        1 => i64::MAX - place,
        2 => -place - 1,
        _ => 9_007_199_254_740_993 + place,
    }
}

/// Moments at the ends of what is written with four digits of a year, to the microsecond.
fn time(number: usize, place: usize) -> DateTime<Utc> {
    let first: DateTime<Utc> = "0001-01-01T00:00:00.000001Z".parse().unwrap();
    let last: DateTime<Utc> = "9999-12-31T23:59:59.999999Z".parse().unwrap();
    let micros = TimeDelta::microseconds(i64::try_from(place).unwrap());
    match number {
        0 => first + micros,
        1 => last - micros,
        2 => DateTime::UNIX_EPOCH - micros,
        _ => "2024-02-29T12:30:00.5Z".parse::<DateTime<Utc>>().unwrap() + micros,
    }
}

fn bytes(number: usize) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => (0..=255).collect(),
        2 => vec![0; 100_000],
        _ => b"\xff\xfe\x00'\\x00".to_vec(),
    }
}
