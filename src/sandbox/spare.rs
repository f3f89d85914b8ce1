//! Walls that were built before there was anything to do behind them: one helper that waits, so that a
//! command need not. Used by `local`. Never used twice: a command gets walls that nobody was behind.

use std::sync::{Arc, Mutex, PoisonError};

use super::cgroup::Group;
use super::process::Spare;

/// The one that waits, if one does.
#[derive(Debug, Clone, Default)]
pub(super) struct Spares {
    waiting: Arc<Mutex<Option<(Spare, Group)>>>,
}

impl Spares {
    pub(super) fn keep(&self, spare: Spare, group: Group) {
        let replaced = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace((spare, group));
        // Its helper ends with it, and that need not be waited for under the lock.
        drop(replaced);
    }

    /// For a command: from now on it is the command's.
    pub(super) fn take(&self) -> Option<(Spare, Group)> {
        let mut taken = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        taken.0.lives().then_some(taken)
    }
}
