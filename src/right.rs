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

    /// It holds while both do.
    #[must_use]
    pub fn and(&self, other: &Right) -> Self {
        match (&self.0, &other.0) {
            (None, _) => other.clone(),
            (_, None) => self.clone(),
            (Some(_), Some(_)) => {
                let both = (self.clone(), other.clone());
                Self::new(move || both.0.holds() && both.1.holds())
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rights_hold_together_or_not_at_all() {
        let (yes, no) = (Right::new(|| true), Right::new(|| false));
        let free = Right::default();
        for (one, other, holds) in [
            (&free, &free, true),
            (&free, &yes, true),
            (&yes, &free, true),
            (&yes, &yes, true),
            (&no, &free, false),
            (&free, &no, false),
            (&no, &yes, false),
            (&yes, &no, false),
        ] {
            assert_eq!(one.and(other).holds(), holds, "{one:?} and {other:?}");
        }
    }
}
