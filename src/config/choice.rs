//! Keys whose value is one of a few words. Called by the sections that have them. Never knows what follows
//! from a word.

use super::value::{ConfigValue, choice};

choice! {
    /// What a set-up command that fails means.
    pub enum SetupFailure {
        /// The end of the run.
        Stop = "stop",
        /// A run that only reads.
        ReadOnly = "read_only",
        /// Something that the agent is told.
        GoOn = "go_on",
    }
}
