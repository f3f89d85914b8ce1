//! What the program itself says to people on GitHub, in each language that it speaks. One file for
//! each place where people read: a sentence stands there once, with all its translations side by
//! side, so that none is forgotten. Pure text.
//! Never holds words of a model or of a person, and never decides what is said.

use serde::{Deserialize, Serialize};

pub mod branch;
pub mod check;
pub mod command;
pub mod draft;
pub mod limit;
pub mod measure;
pub mod model;
pub mod money;
pub mod plan;
pub mod policy;
pub mod pull;
pub mod reason;
pub mod repository;
pub mod review;
pub mod risk;
pub mod run;
pub mod status;
pub mod steer;
pub mod stuck;
pub mod thread;

/// The language of what the program writes on GitHub. Models write in whatever language they are
/// asked in; names, commands, reasons of other programs and the log stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// The one of two translations that is this language's.
    pub fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }
}

#[cfg(test)]
mod tests;
