//! A copy of a SQLite file that is whole although the service goes on writing. Called by the
//! command line. Never overwrites a file, and never leaves half a copy under its name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::StoreError;
use crate::secret::random_hex;

/// Longest wait for a moment in which the file can be read.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackedUp {
    /// Its size.
    pub bytes: u64,
    /// Version of the schema in it.
    pub schema: i64,
}

/// Copies the database in `file` to the new file `to`, of one moment, readable by its owner alone.
///
/// # Errors
/// When there is no database, `to` exists, or the copy is not whole.
pub async fn back_up(file: &Path, to: &Path) -> Result<BackedUp, StoreError> {
    if !file.is_file() {
        return Err(StoreError::Unavailable(format!("there is no file {}", file.display())));
    }
    if to.symlink_metadata().is_ok() {
        return Err(StoreError::Unavailable(format!(
            "{} exists already, and a backup overwrites nothing",
            to.display()
        )));
    }
    let partial = Partial::beside(to)?;
    copy(file, &partial.0).await?;
    let schema = look_through(&partial.0).await?;
    let at = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", to.display()));
    let copy = std::fs::File::open(&partial.0).map_err(at)?;
    copy.sync_all().map_err(at)?;
    let bytes = copy.metadata().map_err(at)?.len();
    // Unlike a rename, a link refuses a name that somebody took meanwhile.
    std::fs::hard_link(&partial.0, to).map_err(at)?;
    drop(partial);
    std::fs::File::open(folder_of(to))
        .and_then(|folder| folder.sync_all())
        .map_err(at)?;
    Ok(BackedUp { bytes, schema })
}

/// The copy under another name; removed again, however it ends.
struct Partial(PathBuf);

impl Partial {
    fn beside(to: &Path) -> Result<Self, StoreError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", random_hex::<4>()));
        let path = folder_of(to).join(name);
        // SQLite writes into a file that is there and empty, so that its mode is ours from the first byte.
        let made = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        made.map_err(|error| StoreError::Unavailable(format!("create {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for ending in ["", "-journal", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(ending);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(file = %path.display(), %error, "half a backup stays");
                }
                _ => {}
            }
        }
    }
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    file.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

async fn copy(file: &Path, to: &Path) -> Result<(), StoreError> {
    let Some(to) = to.to_str() else {
        return Err(StoreError::Unavailable(
            "the name of the backup is not UTF-8".to_owned(),
        ));
    };
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT);
    let mut connection = options.connect().await?;
    let copied = sqlx::query("VACUUM INTO $1").bind(to).execute(&mut connection).await;
    connection.close().await?;
    copied?;
    Ok(())
}

/// Reads the whole copy once; a damaged source shows here and not on the day of need.
async fn look_through(copy: &Path) -> Result<i64, StoreError> {
    let options = SqliteConnectOptions::new().filename(copy).read_only(true);
    let mut connection = options.connect().await?;
    let found: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(3)")
        .fetch_all(&mut connection)
        .await?;
    if found != ["ok"] {
        return Err(StoreError::Corrupt(format!(
            "the copy is damaged: {}",
            found.join("; ")
        )));
    }
    let schema: Option<i64> = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations WHERE success")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    schema.ok_or_else(|| StoreError::Corrupt("it is no database of Forgehand".to_owned()))
}
