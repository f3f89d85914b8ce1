//! What people approved for a local checkout "from now on", in one small file of the state folder.
//! Used by `run`. Never holds anything but permission keys, and never lifts a `deny`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::closed;
use crate::permission::Kept;

/// Most approvals of one checkout; whoever gives more wants a rule.
const MAX_KEYS: usize = 500;
/// Longest key that is kept.
const MAX_KEY_BYTES: usize = 4 * 1024;
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The approvals of one checkout.
pub(super) struct Approvals {
    file: PathBuf,
    checkout: String,
    keys: Mutex<BTreeSet<String>>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    /// For people who look into the file.
    checkout: String,
    keys: BTreeSet<String>,
}

impl Approvals {
    /// Reads what was approved for the checkout at `root`.
    ///
    /// # Errors
    /// When there is a file and it cannot be read.
    pub(super) fn load(state_dir: &Path, root: &Path) -> anyhow::Result<Self> {
        let name = hex::encode(&Sha256::digest(root.as_os_str().as_encoded_bytes())[..16]);
        let file = state_dir.join("approvals").join(format!("{name}.json"));
        let keys = match std::fs::metadata(&file) {
            Ok(about) if about.len() <= MAX_FILE_BYTES => {
                let text = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
                let stored: Stored = serde_json::from_slice(&text)
                    .with_context(|| format!("{} is broken; remove it", file.display()))?;
                stored.keys
            }
            Ok(_) => anyhow::bail!("{} is too large; remove it", file.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error).with_context(|| format!("look at {}", file.display())),
        };
        Ok(Self {
            file,
            checkout: root.display().to_string(),
            keys: Mutex::new(keys),
        })
    }

    fn store(&self, keys: &BTreeSet<String>) -> anyhow::Result<()> {
        let folder = self.file.parent().context("a file stands in a folder")?;
        closed::make_folder(folder).with_context(|| format!("make {}", folder.display()))?;
        let stored = Stored {
            checkout: self.checkout.clone(),
            keys: keys.clone(),
        };
        // Readable by its owner alone, and whole at every moment.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&stored)?)?;
        file.persist(&self.file)
            .with_context(|| format!("write {}", self.file.display()))?;
        Ok(())
    }
}

impl Kept for Approvals {
    fn keys(&self) -> BTreeSet<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, key: &str) -> Result<(), String> {
        if key.len() > MAX_KEY_BYTES {
            return Err("the call is too long to be kept".to_owned());
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS {
            return Err(format!(
                "{MAX_KEYS} approvals are kept already; write a rule into permission.allow"
            ));
        }
        keys.insert(key.to_owned());
        self.store(&keys).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::permission::{Decision, Policy, Scope};

    #[test]
    fn an_approval_for_a_checkout_counts_in_later_runs_there_and_nowhere_else() {
        let state = tempfile::tempdir().unwrap();
        let policy = |root: &str| {
            let kept = Approvals::load(state.path(), Path::new(root)).unwrap();
            Policy::default().for_repository(Arc::new(kept))
        };
        let here = policy("/home/mona/here");
        assert_eq!(here.decide("web_fetch:docs.rs"), Decision::Ask);
        here.grant("web_fetch:docs.rs", Scope::Repository).unwrap();
        assert_eq!(here.for_run().decide("web_fetch:docs.rs"), Decision::Allow);
        assert_eq!(policy("/home/mona/here").decide("web_fetch:docs.rs"), Decision::Allow);
        assert_eq!(policy("/home/mona/there").decide("web_fetch:docs.rs"), Decision::Ask);
    }
}
