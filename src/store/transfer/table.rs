//! A table as its catalogue describes it, the values of its rows, and the texts of the three
//! statements that a transfer makes of them. Pure. Called by the rest of `transfer`.
//! Never lets a value into a statement's text, only names of the catalogue.

use chrono::{DateTime, Utc};

use crate::store::row::without_nul;
use crate::text;

/// What a column holds. A migration that needs another kind has to teach it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Bool,
    Time,
    Bytes,
}

impl Kind {
    /// The kind of a type as SQLite keeps its word and PostgreSQL spells it.
    pub(super) fn of_type(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "text" => Kind::Text,
            "bigint" => Kind::Int,
            "boolean" => Kind::Bool,
            "timestamptz" | "timestamp with time zone" => Kind::Time,
            "bytea" => Kind::Bytes,
            _ => return None,
        })
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    /// By name: both databases read, write and sum up in this order.
    pub(super) columns: Vec<Column>,
    /// Places of the primary key's columns, in the key's order.
    pub(super) key: Vec<usize>,
    /// Tables that its foreign keys name.
    pub(super) needs: Vec<String>,
}

/// A value, with its kind also where it is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(Option<bool>),
    Time(Option<DateTime<Utc>>),
    Bytes(Option<Vec<u8>>),
}

/// A row, in the order of the table's columns.
pub(super) type Row = Vec<Value>;

impl Value {
    /// A text as both databases can keep it.
    pub(super) fn text(text: Option<String>) -> Self {
        Value::Text(text.map(|text| match text.contains('\0') {
            true => without_nul(&text).into_owned(),
            false => text,
        }))
    }

    /// What the value takes in memory.
    pub(super) fn size(&self) -> usize {
        16 + match self {
            Value::Text(text) => text.as_ref().map_or(0, String::len),
            Value::Bytes(bytes) => bytes.as_ref().map_or(0, Vec::len),
            Value::Int(_) | Value::Bool(_) | Value::Time(_) => 0,
        }
    }

    /// The same bytes for the same value, wherever it was read, and other bytes for any other.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |tag: u8, bytes: Option<&[u8]>| match bytes {
            None => out.push(b'0'),
            Some(bytes) => {
                out.push(tag);
                out.extend((bytes.len() as u64).to_be_bytes());
                out.extend(bytes);
            }
        };
        match self {
            Value::Text(text) => put(b't', text.as_ref().map(|text| text.as_bytes())),
            Value::Bytes(bytes) => put(b'y', bytes.as_deref()),
            Value::Int(number) => put(b'i', number.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..])),
            Value::Bool(yes) => put(b'b', yes.map(|yes| [u8::from(yes)]).as_ref().map(|bytes| &bytes[..])),
            Value::Time(at) => {
                let micros = at.map(|at| at.timestamp_micros().to_be_bytes());
                put(b'm', micros.as_ref().map(|bytes| &bytes[..]));
            }
        }
    }
}

/// Most characters of a part of a key that is shown.
const MAX_KEY_CHARS: usize = 120;

impl Table {
    pub(super) fn key_of<'a>(&self, row: &'a Row) -> Vec<&'a Value> {
        self.key.iter().filter_map(|at| row.get(*at)).collect()
    }

    /// The row among others that has the key of a given one.
    pub(super) fn same_key<'a>(&self, others: &'a [Row], row: &Row) -> Option<&'a Row> {
        let key = self.key_of(row);
        others.iter().find(|other| self.key_of(other) == key)
    }

    pub(super) fn has_key_of(&self, others: &[Row], row: &Row) -> bool {
        self.same_key(others, row).is_some()
    }

    /// A row's key as people read it.
    pub(super) fn key_in_words(&self, row: &Row) -> String {
        let part = |at: &usize| {
            let (column, value) = (self.columns.get(*at)?, row.get(*at)?);
            let value = match value {
                Value::Text(text) => text.clone().unwrap_or_default(),
                Value::Int(number) => number.unwrap_or_default().to_string(),
                Value::Bool(yes) => yes.unwrap_or_default().to_string(),
                Value::Time(at) => at.map(|at| at.to_rfc3339()).unwrap_or_default(),
                Value::Bytes(bytes) => hex::encode(bytes.as_deref().unwrap_or_default()),
            };
            let value = text::cap_chars(&value.escape_debug().to_string(), MAX_KEY_CHARS);
            Some(format!("{}={value}", column.name))
        };
        self.key.iter().filter_map(part).collect::<Vec<_>>().join(", ")
    }

    /// Names of the columns in which two rows differ.
    pub(super) fn differences(&self, one: &Row, other: &Row) -> Vec<&str> {
        let pairs = self.columns.iter().zip(one.iter().zip(other));
        let differing = pairs.filter(|(_, (one, other))| one != other);
        differing.map(|(column, _)| column.name.as_str()).collect()
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        names.join(", ")
    }

    fn key_names(&self) -> impl Iterator<Item = (&Column, String)> {
        let columns = self.key.iter().filter_map(|at| self.columns.get(*at));
        columns.map(|column| (column, quoted(&column.name)))
    }

    /// Every row, in the order of the keys' bytes, which no setting of a database changes.
    /// `collate` stands behind each text of the key.
    pub(super) fn select(&self, collate: &str) -> String {
        let order: Vec<String> = self
            .key_names()
            .map(|(column, name)| match column.kind {
                Kind::Text => format!("{name}{collate}"),
                _ => name,
            })
            .collect();
        format!(
            "SELECT {}\nFROM {}\nORDER BY {}",
            self.names(),
            quoted(&self.name),
            order.join(", ")
        )
    }

    pub(super) fn select_by_keys(&self, rows: usize) -> String {
        let key: Vec<String> = self.key_names().map(|(_, name)| name).collect();
        format!(
            "SELECT {}\nFROM {}\nWHERE ({}) IN (VALUES {})",
            self.names(),
            quoted(&self.name),
            key.join(", "),
            places(rows, self.key.len())
        )
    }

    pub(super) fn insert(&self, rows: usize) -> String {
        format!(
            "INSERT INTO {} ({})\nVALUES {}\nON CONFLICT DO NOTHING",
            quoted(&self.name),
            self.names(),
            places(rows, self.columns.len())
        )
    }

    pub(super) fn count(&self) -> String {
        format!("SELECT COUNT(*)\nFROM {}", quoted(&self.name))
    }
}

/// A name of the catalogue in a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `($1, $2), ($3, $4)` for two rows of two columns.
fn places(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (1..=columns)
            .map(|column| format!("${}", row * columns + column))
            .collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Tables in an order in which every foreign key finds its row; by name where that leaves a choice.
pub(super) fn in_order(mut tables: Vec<Table>) -> Vec<Table> {
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    let mut ordered: Vec<Table> = Vec::new();
    while !tables.is_empty() {
        let is_ready = |table: &Table| {
            let waits = |need: &String| *need != table.name && tables.iter().any(|other| other.name == *need);
            !table.needs.iter().any(waits)
        };
        // A circle of keys has no order; then one of them goes first.
        let next = tables.iter().position(is_ready).unwrap_or(0);
        ordered.push(tables.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, needs: &[&str]) -> Table {
        Table {
            name: name.to_owned(),
            columns: vec![
                Column {
                    name: "at".to_owned(),
                    kind: Kind::Time,
                },
                Column {
                    name: "id".to_owned(),
                    kind: Kind::Text,
                },
            ],
            key: vec![1, 0],
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        }
    }

    #[test]
    fn tables_come_after_those_that_they_name() {
        let tables = vec![
            table("answers", &["jobs"]),
            table("drafts", &["jobs", "jobs"]),
            table("jobs", &["repositories", "jobs"]),
            table("repositories", &[]),
        ];
        let names: Vec<String> = in_order(tables).into_iter().map(|table| table.name).collect();
        assert_eq!(names, ["repositories", "jobs", "answers", "drafts"]);
    }

    #[test]
    fn statements_hold_names_and_places_alone() {
        let table = table("odd\"name", &[]);
        assert_eq!(
            table.select(" COLLATE \"C\""),
            "SELECT \"at\", \"id\"\nFROM \"odd\"\"name\"\nORDER BY \"id\" COLLATE \"C\", \"at\""
        );
        assert_eq!(
            table.select_by_keys(2),
            "SELECT \"at\", \"id\"\nFROM \"odd\"\"name\"\nWHERE (\"id\", \"at\") IN (VALUES ($1, $2), ($3, $4))"
        );
        assert_eq!(
            table.insert(1),
            "INSERT INTO \"odd\"\"name\" (\"at\", \"id\")\nVALUES ($1, $2)\nON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn no_two_values_have_the_same_bytes() {
        let at = DateTime::from_timestamp_micros(1);
        let values = [
            Value::Text(None),
            Value::Text(Some(String::new())),
            Value::Text(Some("0".to_owned())),
            Value::Bytes(Some(Vec::new())),
            Value::Bytes(Some(vec![0])),
            Value::Int(Some(0)),
            Value::Int(Some(1)),
            Value::Bool(Some(false)),
            Value::Time(at),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for value in &values {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            assert!(seen.insert(bytes), "{value:?}");
        }
    }
}
