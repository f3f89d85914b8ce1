//! Walls that were built before there was anything to do behind them: helpers that wait, so that a
//! command need not. Used by `local`. Never used twice: a command gets walls that nobody was behind.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cgroup::Group;
use super::process::Spare;

/// Most that wait. Short commands often come in pairs: a test after a change, a look after a search.
const MOST: usize = 2;

/// Those that wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Spares {
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    waiting: VecDeque<(Spare, Group)>,
    /// Whether somebody builds more.
    building: bool,
}

/// The right to build more; nobody else does meanwhile.
#[derive(Debug)]
pub(super) struct Building(Spares);

impl Spares {
    pub(super) fn keep(&self, spare: Spare, group: Group) {
        self.lock().waiting.push_back((spare, group));
    }

    /// For a command: from now on it is the command's.
    pub(super) fn take(&self) -> Option<(Spare, Group)> {
        let mut ended = Vec::new();
        loop {
            let mut taken = self.lock().waiting.pop_front()?;
            if taken.0.lives() {
                return Some(taken);
            }
            // Its helper is waited for without the lock.
            ended.push(taken);
        }
    }

    /// Nothing while somebody else builds.
    pub(super) fn build(&self) -> Option<Building> {
        let was_building = std::mem::replace(&mut self.lock().building, true);
        (!was_building).then(|| Building(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Building {
    /// Whether more are wanted.
    pub(super) fn wants_more(&self) -> bool {
        self.0.lock().waiting.len() < MOST
    }

    pub(super) fn keep(&self, spare: Spare, group: Group) {
        self.0.keep(spare, group);
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.0.lock().building = false;
    }
}
