//! What a run knows of its place beside the brief: the environment as found, which checks failed
//! before, the rules of folders, skills, and how strictly the agent is led. Made by `run`.
//! Never holds anything that an untrusted repository wrote as an instruction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::phrase::Language;
use crate::skill::Shelf;

/// What a trusted repository and the administrator say to the agent beside the main rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guidance {
    /// Skills that can be loaded.
    pub skills: Shelf,
    /// Text of `AGENTS.md` by folder, the root's left out.
    pub folder_rules: BTreeMap<String, String>,
    /// What people should know: what was not loaded, and why.
    pub notes: Vec<String>,
}

/// The surroundings of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The system and the tool chains in the sandbox, one a line.
    pub environment: Vec<String>,
    /// Whether commands have a network.
    pub network: bool,
    /// Checks that failed before any change.
    pub failing_checks: Vec<String>,
    /// Skills and the rules of folders.
    pub guidance: Guidance,
    /// Whether `finish` needs a review that passed.
    pub review_before_finish: bool,
    /// Turns without an edit or a run until the agent is told to get on.
    pub max_explore_turns: u32,
    /// What people are told in.
    #[serde(default)]
    pub language: Language,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            environment: Vec::new(),
            network: false,
            failing_checks: Vec::new(),
            guidance: Guidance::default(),
            review_before_finish: false,
            max_explore_turns: 15,
            language: Language::default(),
        }
    }
}
