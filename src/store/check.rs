//! Whether a SQLite file is whole after a process that ended without closing it. Called by `app`
//! before the service works with it. Never mends anything: a damaged file is for a person to see.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Store, StoreError, Tx, connect};
use crate::secret::Secret;

/// Most kinds of damage that are named.
const MAX_DAMAGES: &str = "PRAGMA quick_check(5)";

impl Store {
    /// Whether the last process that used the file of a `sqlite:` address did not close it, or still
    /// uses it: what was written last then stands in a file beside it. Asked before it is opened.
    pub fn was_left_open(url: &Secret) -> bool {
        let Ok(Some(file)) = connect::file(url) else {
            return false;
        };
        let mut log = OsString::from(file);
        log.push("-wal");
        std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0)
    }

    /// Reads the whole file and looks for damage. A server looks after itself.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with what is damaged; others of the database.
    pub async fn check_whole(&self) -> Result<(), StoreError> {
        let Tx::Sqlite(mut open) = self.begin().await? else {
            return Ok(());
        };
        let found: Vec<String> = sqlx::query_scalar(MAX_DAMAGES).fetch_all(&mut *open.tx).await?;
        match found.as_slice() {
            [only] if only == "ok" => Ok(()),
            damages => Err(StoreError::Corrupt(damages.join("; "))),
        }
    }
}
