//! What runs keep for later runs: notes under keys, and hypotheses about causes with what speaks
//! for and against them. Plain data. Never an instruction to anybody: models write it under the
//! influence of strangers.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job::word_enum;

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its key.
    pub key: String,
    /// What it says.
    pub value: String,
    /// The run that wrote it.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
}

word_enum! {
    /// What is thought of a hypothesis.
    CauseStatus, "status of a hypothesis" {
        /// Nobody knows yet.
        Open = "open",
        /// It is so.
        Confirmed = "confirmed",
        /// It is not so.
        Refuted = "refuted",
    }
}

/// Something that speaks for or against a hypothesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// How strongly: above zero for it, below zero against it.
    pub weight: i32,
    /// What was seen.
    pub words: String,
    /// The run that saw it.
    pub by: String,
}

/// A hypothesis in a tree of causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its number in the tree, from 1.
    pub node: u32,
    /// The hypothesis that it would explain; none for a root.
    pub parent: Option<u32>,
    /// In words.
    pub hypothesis: String,
    /// What is thought of it.
    pub status: CauseStatus,
    /// What speaks for and against it.
    pub evidence: Vec<Evidence>,
    /// When it was last written.
    pub at: DateTime<Utc>,
}

impl Cause {
    /// The sum of its evidence.
    pub fn score(&self) -> i32 {
        self.evidence.iter().map(|evidence| evidence.weight).sum()
    }
}
