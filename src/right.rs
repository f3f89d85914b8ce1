//! The right to speak for a job, as whoever lends a port to it knows it: a worker that stood still for
//! longer than its lease finds, when it goes on, that it may not even ask any more. Handed to the ports
//! that reach other machines, which look right before each call.
//! Never a judgement of the lease: that is the database's.

use std::fmt;
use std::sync::Arc;

/// Whether a call may be made now.
#[derive(Clone, Default)]
pub struct Right(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Right {
    /// It holds while `check` says so.
    pub fn new(check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    /// Whether it holds; one that nobody limits always does.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|check| check())
    }
}

impl fmt::Debug for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.holds() { "Right(holds)" } else { "Right(over)" })
    }
}
