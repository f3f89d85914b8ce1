//! What a tool call may do without asking: rules over permission keys such as
//! `run_command:git` or `write_file:src/`. Pure; the agent asks before each call.
//! Never a security boundary: that is the sandbox. This is for people's comfort, and for the web.

/// What the rules say of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// A person has to say yes; nobody there means no.
    Ask,
    /// Never, with the reason for the model.
    Deny(String),
}

/// The rules of one run.
#[derive(Debug, Clone, Default)]
pub struct Policy {}

impl Policy {
    /// What the rules say of a call with this key.
    pub fn decide(&self, _key: &str) -> Decision {
        Decision::Allow
    }
}
