//! Between rows and our nouns: structs that read from a row of either database, and the few
//! conversions that every table needs. Called by the other files of `store`.
//! Never guesses: a stored value that does not parse is an error that names it.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::text;

/// Declares a struct that reads from a row of either database by the names of its fields.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        pub(super) struct $name { $(pub(super) $field: $type,)* }
        $crate::store::row::row!(@read $name, sqlx::sqlite::SqliteRow, $($field)*);
        $crate::store::row::row!(@read $name, sqlx::postgres::PgRow, $($field)*);
    };
    (@read $name:ident, $row:ty, $($field:ident)*) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                use sqlx::Row as _;
                Ok(Self { $($field: row.try_get(stringify!($field))?,)* })
            }
        }
    };
}
pub(super) use row;

/// A word or identifier of ours, back from its column.
pub(super) fn parse<T>(column: &str, value: &str) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: Display,
{
    value
        .parse()
        .map_err(|error| StoreError::Corrupt(format!("{column}: {error}")))
}

/// A value back from a column of JSON text.
pub(super) fn from_json<T: DeserializeOwned>(column: &str, value: &str) -> Result<T, StoreError> {
    serde_json::from_str(value).map_err(|error| StoreError::Corrupt(format!("{column}: {error}")))
}

/// A value as JSON text. JSON is stored as TEXT because PostgreSQL's JSONB refuses `\u0000`.
pub(super) fn to_json<T: Serialize>(column: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(format!("{column}: {error}")))
}

/// A count back from its BIGINT column.
pub(super) fn count(column: &str, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value).map_err(|_| StoreError::Corrupt(format!("{column}: {value} is not a count")))
}

/// A time as both databases keep it: SQLite would store nanoseconds, PostgreSQL would round them.
pub(super) fn micros(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(6)
}

/// Longest explanation kept with a job or effect.
const MAX_REASON_BYTES: usize = 4 * 1024;

/// A text for people, cut to size and without what PostgreSQL cannot store.
pub(super) fn reason(text: &str) -> String {
    without_nul(&text::cap(text, MAX_REASON_BYTES)).into_owned()
}

/// PostgreSQL cannot store NUL in TEXT.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "␀"))
    } else {
        Cow::Borrowed(text)
    }
}
