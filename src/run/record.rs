//! The head of a run's record: what was asked, of whom, on what, within which limits, and which
//! tree came of it. Together with the log of the conversation it is all that a replay needs.
//! Written by `run`, kept with the job or in a file. Never holds the repository's content.

use serde::{Deserialize, Serialize};

use super::Ports;
use crate::agent::{Brief, Budget, Setting, Stop};
use crate::ids::CommitSha;
use crate::job::JobError;
use crate::memory::Lasting;
use crate::model::Profile;
use crate::secret::random_hex;
use crate::workgraph::RecordedDesk;

/// Checkpoint with the head of the record.
pub const RECORD: &str = "record";

/// Checkpoint with how the recorded run ended.
pub const RECORD_END: &str = "record_end";

/// The head of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the program that wrote it.
    pub program: String,
    /// What the agent was asked, as it was asked.
    pub brief: Brief,
    /// What it found beside the brief.
    #[serde(default)]
    pub setting: Setting,
    /// What delimited text of strangers.
    pub fence: String,
    /// The commit it started from.
    pub base: CommitSha,
    /// Commands that prepared the sandbox.
    pub setup: Vec<String>,
    /// Commands that verified the change.
    pub checks: Vec<String>,
    /// Paths that the change could not touch.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    /// Whether it had the tools of the web.
    #[serde(default)]
    pub web: bool,
    /// Whether it could ask people.
    #[serde(default)]
    pub people: bool,
    /// Whether it could draft issues.
    #[serde(default)]
    pub drafts: bool,
    /// Its memory, if it had one. What stood in it is not recorded.
    #[serde(default)]
    pub memory: Option<RecordedMemory>,
    /// Its place at a work graph, if it had one, with the graph as it stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desk: Option<RecordedDesk>,
    /// The limits.
    pub budget: Budget,
    /// The model.
    pub model: String,
    /// What it could do.
    pub profile: Profile,
    /// Whether its price was known.
    pub price_known: bool,
}

/// The memory of a recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedMemory {
    /// What the run was about.
    pub subject: String,
    /// Whether later runs could read it.
    pub is_lasting: bool,
}

/// How a recorded run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordEnd {
    /// The tree of the change; nothing when no file differed or the change broke a rule.
    pub tree: Option<String>,
    /// Why the agent stopped.
    pub stop: Stop,
}

impl Record {
    /// The same record with the work graph that the run belongs to.
    pub(super) async fn at_desk(mut self, ports: &Ports) -> Result<Self, JobError> {
        if let Some(desk) = &ports.desk {
            self.desk = Some(desk.recorded().await?);
        }
        Ok(self)
    }

    /// The record of a run that begins now. The fence is random for each run.
    pub(super) fn begin(ports: &Ports, work: &super::Work, setting: Setting, budget: Budget) -> Self {
        Self {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            brief: work.brief.clone(),
            setting,
            fence: random_hex::<16>(),
            base: work.base.clone(),
            setup: work.setup.clone(),
            checks: work.brief.checks.clone(),
            protected_paths: work.repo_config.protected_paths.clone(),
            web: ports.web.is_some(),
            people: ports.people.can_ask(),
            drafts: true,
            memory: ports.memory.as_ref().map(|memory| RecordedMemory {
                subject: memory.subject().to_owned(),
                is_lasting: memory.lasting() == Lasting::ForLaterRuns,
            }),
            desk: None,
            budget,
            model: ports.model.name().to_owned(),
            profile: ports.model.profile(),
            price_known: ports.model.price_known(),
        }
    }
}
