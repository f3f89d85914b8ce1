//! Cases: a question, the commit it is asked of, and what was changed to answer it. Read from lines of
//! JSON. Never trusts a line: one that is not a case is an error with its number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::CommitSha;

/// Most files that one case names, and most ranges of lines: far more than a change that anybody reads has.
const MAX_PLACES: usize = 1_000;

/// One case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// `owner/name`.
    pub repo: String,
    /// The corpus is the tree of this commit.
    pub parent_commit: CommitSha,
    /// All that was said.
    pub query_full: String,
    /// The first line of it.
    #[serde(default)]
    pub query_subject: Option<String>,
    /// All of it without words that are a changed file's name.
    #[serde(default)]
    pub query_nostem: Option<String>,
    /// What was changed.
    pub gold_files: Vec<String>,
    /// Changed lines of each file, first and last, before the change.
    #[serde(default)]
    pub gold_lines: BTreeMap<String, Vec<(u32, u32)>>,
}

/// Which text of a case is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// All of it.
    Full,
    /// Its first line.
    Subject,
    /// All of it without the names of the changed files.
    NoStem,
}

impl Ask {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Subject => "subject",
            Self::NoStem => "nostem",
        }
    }
}

impl Case {
    /// The text to ask.
    pub fn text(&self, ask: Ask) -> &str {
        let other = match ask {
            Ask::Full => None,
            Ask::Subject => self.query_subject.as_deref().or(self.query_full.lines().next()),
            Ask::NoStem => self.query_nostem.as_deref(),
        };
        other.unwrap_or(&self.query_full)
    }

    /// The cases in lines of JSON; empty lines are left out.
    pub fn parse_all(text: &str) -> anyhow::Result<Vec<Self>> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(number, line)| {
                let case: Self =
                    serde_json::from_str(line).map_err(|error| anyhow::anyhow!("line {number} is no case: {error}"))?;
                anyhow::ensure!(!case.gold_files.is_empty(), "line {number} names no changed file");
                let ranges: usize = case.gold_lines.values().map(Vec::len).sum();
                anyhow::ensure!(
                    case.gold_files.len() <= MAX_PLACES && ranges <= MAX_PLACES,
                    "line {number} names more than {MAX_PLACES} files or ranges of lines"
                );
                Ok(case)
            })
            .collect()
    }
}
