//! A work graph as a file: what is planned and where it stands, for people to read, keep under
//! version control and bring to another machine. Called by `workgraph`.
//! Never carries who is at a milestone or what lies on a branch of one machine.

use serde::{Deserialize, Serialize};

use super::{Graph, GraphKey, MAX_PROBLEM_BYTES, MilestoneError, MilestoneId, MilestoneState, NewMilestone, Standing};
use crate::ids::CommitSha;
use crate::text;

/// Longest file: two hundred milestones with everything that they may have.
pub const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The version that is written, and the only one there is.
const VERSION: u32 = 1;

/// A work graph as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// Version of the format.
    pub version: u32,
    /// What all of it is for.
    #[serde(default)]
    pub goal: String,
    /// The milestones in order.
    pub milestones: Vec<FileMilestone>,
}

/// A milestone in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileMilestone {
    /// Its name; made from the title where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MilestoneId>,
    /// What it is, in one line.
    pub title: String,
    /// What has to be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The command that alone decides whether it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<String>,
    /// What has to be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<MilestoneId>,
    /// Where it stands; one in progress is written as it was before.
    #[serde(default = "pending")]
    pub state: MilestoneState,
    /// Tries that failed.
    #[serde(default)]
    pub attempts: u32,
    /// What was wrong the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The commit that made it done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSha>,
}

fn pending() -> MilestoneState {
    MilestoneState::Pending
}

impl FileMilestone {
    fn planned(&self) -> NewMilestone {
        NewMilestone {
            id: self.id.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            acceptance: self.acceptance.clone(),
            depends_on: self.depends_on.clone(),
        }
    }
}

impl GraphFile {
    /// A graph as a file.
    pub fn of(graph: &Graph) -> Self {
        let milestones = graph.milestones.iter().map(|milestone| {
            let mut milestone = milestone.clone();
            if milestone.state == MilestoneState::InProgress {
                milestone.be_free();
            }
            FileMilestone {
                id: Some(milestone.id),
                title: milestone.title,
                description: milestone.description,
                acceptance: milestone.acceptance,
                depends_on: milestone.depends_on,
                state: milestone.state,
                attempts: milestone.attempts,
                problem: milestone.problem,
                commit: milestone.commit,
            }
        });
        Self {
            version: VERSION,
            goal: graph.goal.clone(),
            milestones: milestones.collect(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// With the place where it is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, MilestoneError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let unfit = |problem: String| MilestoneError::Unfit(format!("the file is not a work graph: {problem}"));
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(|error| unfit(error.to_string()))?;
        if versioned.version != VERSION {
            return Err(unfit(format!(
                "it has version {}, and this program reads version {VERSION}",
                versioned.version
            )));
        }
        serde_json::from_slice(bytes).map_err(|error| unfit(error.to_string()))
    }

    /// The graph that the file describes.
    ///
    /// # Errors
    /// [`MilestoneError`] with what does not fit.
    pub fn into_graph(self, key: GraphKey, standing: Standing) -> Result<Graph, MilestoneError> {
        let mut graph = Graph::new(key, &self.goal, standing);
        graph.add(self.milestones.iter().map(FileMilestone::planned).collect())?;
        for (milestone, file) in graph.milestones.iter_mut().zip(self.milestones) {
            milestone.state = match (file.state, file.attempts) {
                (MilestoneState::Done, _) => MilestoneState::Done,
                (MilestoneState::NeedsFix, _) | (_, 1..) => MilestoneState::NeedsFix,
                (MilestoneState::Pending | MilestoneState::InProgress, 0) => MilestoneState::Pending,
            };
            milestone.attempts = match milestone.state {
                MilestoneState::NeedsFix => file.attempts.max(1),
                _ => file.attempts,
            };
            milestone.problem = file
                .problem
                .map(|problem| text::cap_middle(&problem, MAX_PROBLEM_BYTES));
            milestone.commit = file.commit.filter(|_| milestone.state == MilestoneState::Done);
        }
        Ok(graph)
    }
}
