//! The people a run can turn to: at a terminal they answer at once, in a service later, in an
//! unattended run never. Called by `turn`. Never takes silence for consent.

use async_trait::async_trait;

pub use crate::question::Question;

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The words of a person.
    Said(String),
    /// Yes, this once.
    Yes,
    /// Yes, for the rest of the run.
    YesForRun,
    /// Yes, in this repository from now on.
    YesForRepository,
    /// No.
    No,
    /// It comes later: the run ends here and goes on with the answer.
    Later,
    /// Nobody is there to ask.
    Nobody,
}

/// Whoever can be asked.
#[async_trait]
pub trait People: Send + Sync {
    /// Asks, and waits for the answer where there is one.
    async fn ask(&self, question: &Question) -> Answer;
}

/// Nobody: the run is unattended.
pub struct Unattended;

#[async_trait]
impl People for Unattended {
    async fn ask(&self, _question: &Question) -> Answer {
        Answer::Nobody
    }
}
