//! Which process this is, for leases: an identity kept in the state folder and a lock that only
//! one living process holds. Who gets the lock knows that the process before it is gone, and may
//! take its leases over at once. Never trusts a process id.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::secret::random_hex;

/// This process's identity.
pub struct Instance {
    owner: String,
    /// Held for as long as the process lives; the kernel gives it back however it ends.
    lock: Option<File>,
}

impl Instance {
    /// Takes the folder's identity, or makes up one of its own where another process has it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn claim(state_dir: &Path) -> std::io::Result<Self> {
        let path = state_dir.join("instance");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Who can open it can hold it, too.
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Ok(Self {
                    owner: format!("extra-{}", random_hex::<8>()),
                    lock: None,
                });
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut owner = String::new();
        file.read_to_string(&mut owner)?;
        let owner = match owner.trim() {
            known if known.len() == 16 && known.bytes().all(|byte| byte.is_ascii_hexdigit()) => known.to_owned(),
            _ => {
                let fresh = random_hex::<8>();
                file.set_len(0)?;
                std::io::Seek::rewind(&mut file)?;
                file.write_all(fresh.as_bytes())?;
                file.sync_all()?;
                fresh
            }
        };
        Ok(Self {
            owner,
            lock: Some(file),
        })
    }

    /// Whether a living process holds the folder's identity. Takes and makes nothing.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn is_held(state_dir: &Path) -> std::io::Result<bool> {
        let file = match File::open(state_dir.join("instance")) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The name in leases.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether no other living process uses this identity.
    pub fn is_only_one(&self) -> bool {
        self.lock.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_outlives_the_process_and_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = Instance::claim(folder.path()).unwrap();
        let beside = Instance::claim(folder.path()).unwrap();
        assert!(first.is_only_one() && !beside.is_only_one());
        assert_ne!(first.owner(), beside.owner());
        assert!(Instance::is_held(folder.path()).unwrap());
        let owner = first.owner().to_owned();
        drop(first);
        assert!(!Instance::is_held(folder.path()).unwrap());
        let next = Instance::claim(folder.path()).unwrap();
        assert!(next.is_only_one());
        assert_eq!(next.owner(), owner);
    }
}
