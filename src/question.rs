//! What a run asks people. Plain data, in events and checkpoints too. Never an answer: that is
//! `agent`'s.

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Questions of the model, to be shown with numbers.
    Ask {
        /// The questions.
        questions: Vec<String>,
    },
    /// Whether the model may go on with something.
    Confirm {
        /// What it wants to do, in its words.
        action: String,
    },
    /// Whether a tool call may run that the rules do not allow by themselves.
    Permit {
        /// Its permission key.
        key: String,
        /// The call as it would run.
        call: String,
    },
}
