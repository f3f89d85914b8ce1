//! The right to write to an index, held by an open file and so given back when the process dies.
//! Called by `index`. Never waits longer than the caller has time.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::{Bounds, IndexError};

/// The file that is locked; it is never removed but with its folder.
pub(super) const NAME: &str = "lock";
/// How often a taken lock is tried again.
const INTERVAL: Duration = Duration::from_millis(10);

/// The lock.
pub(super) struct Lock(#[allow(dead_code, reason = "the lock lives as long as the open file")] File);

impl Lock {
    /// Waits for the lock of a folder. Blocks its thread.
    pub(super) fn take(folder: &Path, bounds: &Bounds<'_>) -> Result<Self, IndexError> {
        loop {
            if let Some(lock) = Self::try_take(folder)? {
                return Ok(lock);
            }
            bounds.check()?;
            std::thread::sleep(INTERVAL);
        }
    }

    /// The lock, unless somebody has it.
    pub(super) fn try_take(folder: &Path) -> Result<Option<Self>, IndexError> {
        let path = folder.join(NAME);
        let fail = |error: std::io::Error| IndexError::Folder(format!("{}: {error}", path.display()));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }
}
