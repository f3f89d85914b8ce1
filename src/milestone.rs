//! Milestones of a goal and the work graph that they form: what depends on what, whose turn it is,
//! and what may happen to one. Plain data and pure rules; `workgraph` keeps them in rows.
//! Never looks at a clock or a database, and never takes a model's word for an acceptance command.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::config::WorkgraphConfig;
use crate::ids::{BranchName, CommitSha, IdError, JobId};
use crate::job::word_enum;
use crate::text;

mod file;
mod order;
#[cfg(test)]
mod tests;
mod turn;

pub use file::{GraphFile, MAX_FILE_BYTES};
pub use turn::{Conclusion, Outlook};

/// Most milestones of a graph: more is no plan that a person can approve.
pub const MAX_MILESTONES: usize = 200;
/// Most characters of a title.
pub const MAX_TITLE_CHARS: usize = 120;
/// Most bytes of a description.
pub const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;
/// Most bytes of a goal; longer ones are cut.
pub const MAX_GOAL_BYTES: usize = 8 * 1024;
/// Most bytes of an acceptance command.
pub const MAX_ACCEPTANCE_BYTES: usize = 2 * 1024;
/// Most milestones that one depends on.
pub const MAX_DEPENDENCIES: usize = 50;
/// Most bytes of what was wrong the last time; the end of an output says most.
pub const MAX_PROBLEM_BYTES: usize = 8 * 1024;
/// Longest name of a graph and of a milestone, so that both fit into the name of a branch.
const MAX_GRAPH_NAME: usize = 24;
const MAX_MILESTONE_ID: usize = 40;

/// Declares a short name of lowercase letters, digits and hyphens.
macro_rules! slug_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, $length:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                if text.is_empty() || text.len() > $max {
                    return Err(IdError::new($what, text, $length));
                }
                let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                if !text.bytes().all(fits) || text.starts_with('-') || text.ends_with('-') {
                    return Err(IdError::new(
                        $what,
                        text,
                        "only lowercase letters, digits and hyphens between them are allowed",
                    ));
                }
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

slug_id!(
    /// The name of a milestone within its graph.
    MilestoneId, "milestone's name", MAX_MILESTONE_ID, "it has 1 to 40 characters"
);
slug_id!(
    /// The name of a work graph within its repository.
    GraphName, "graph's name", MAX_GRAPH_NAME, "it has 1 to 24 characters"
);

impl Default for GraphName {
    fn default() -> Self {
        Self("main".to_owned())
    }
}

word_enum! {
    /// Where a milestone stands. That it is blocked follows from the others.
    MilestoneState, "milestone state" {
        /// Nobody has tried it yet.
        Pending = "pending",
        /// Somebody is at it.
        InProgress = "in_progress",
        /// A try failed, or somebody found that it is not done after all.
        NeedsFix = "needs_fix",
        /// It is done.
        Done = "done",
    }
}

word_enum! {
    /// Whether the milestones of a graph may be worked on.
    Standing, "standing of a graph" {
        /// Proposed; a person has to approve it.
        Proposed = "proposed",
        /// They may.
        Approved = "approved",
    }
}

/// Which graph, of which repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GraphKey {
    /// The repository, by a name that no other has: `repository/ID` or `local/PATH`.
    pub repository: String,
    /// The graph's name.
    pub name: GraphName,
}

/// Who is at a milestone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A job of the service; its row says whether it still is.
    Job(JobId),
    /// A process, which has to say again and again that it still is.
    Process(String),
    /// A person, until they say how it ended.
    Person,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Job(id) => write!(f, "job/{id}"),
            Holder::Process(name) => write!(f, "process/{name}"),
            Holder::Person => f.write_str("person"),
        }
    }
}

impl FromStr for Holder {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.split_once('/') {
            None if text == "person" => Ok(Holder::Person),
            Some(("job", id)) => id.parse().map(Holder::Job),
            Some(("process", name)) if !name.is_empty() => Ok(Holder::Process(name.to_owned())),
            _ => Err(IdError::new(
                "holder",
                text,
                "job/ID, process/NAME or person is expected",
            )),
        }
    }
}

/// Who is at a milestone, and until when without a further word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who.
    pub by: Holder,
    /// Until when; a job has no end of its own.
    pub until: Option<DateTime<Utc>>,
}

/// What a try left that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The branch that holds it.
    pub branch: BranchName,
    /// Its commit.
    pub sha: CommitSha,
    /// The commit that the work began from.
    pub base: CommitSha,
    /// Checks that failed before the first try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_before: Vec<String>,
}

/// A milestone as it is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMilestone {
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
}

/// A milestone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Milestone {
    /// Its name within the graph.
    pub id: MilestoneId,
    /// Its place in the list.
    pub position: u32,
    /// What it is, in one line.
    pub title: String,
    /// What has to be done.
    pub description: String,
    /// The command that alone decides whether it is done.
    pub acceptance: Option<String>,
    /// What has to be done before.
    pub depends_on: Vec<MilestoneId>,
    /// Where it stands.
    pub state: MilestoneState,
    /// Tries that failed since a person last said that it is to be tried.
    pub attempts: u32,
    /// What was wrong the last time.
    pub problem: Option<String>,
    /// What the last try left.
    pub kept: Option<Kept>,
    /// The commit that made it done; nothing where nothing had to change.
    pub commit: Option<CommitSha>,
    /// Who is at it.
    pub hold: Option<Hold>,
}

/// A work graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Which one.
    pub key: GraphKey,
    /// What all of it is for.
    pub goal: String,
    /// Whether it may be worked on.
    pub standing: Standing,
    /// Milestones in a row that were given up.
    pub failures: u32,
    /// Its milestones, by position.
    pub milestones: Vec<Milestone>,
}

/// How much may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most tries of a milestone after its first one failed.
    pub max_fix_attempts: u32,
    /// Milestones given up in a row after which nothing is tried any more.
    pub breaker_failures: u32,
}

impl Limits {
    /// Failed tries of a milestone whose fix attempts begin anew: the first one, unless that would have
    /// been the last.
    pub(crate) fn begun_anew(self) -> u32 {
        self.max_fix_attempts.min(1)
    }
}

impl From<&WorkgraphConfig> for Limits {
    fn from(config: &WorkgraphConfig) -> Self {
        Self {
            max_fix_attempts: config.max_fix_attempts,
            breaker_failures: config.breaker_failures,
        }
    }
}

/// Why a graph cannot be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MilestoneError {
    /// There is no such milestone.
    #[error("there is no milestone {0}")]
    Unknown(MilestoneId),
    /// The name is taken.
    #[error("there is a milestone {0} already")]
    Exists(MilestoneId),
    /// A dependency does not exist.
    #[error("{milestone} depends on {dependency}, which does not exist")]
    UnknownDependency {
        /// Whose.
        milestone: MilestoneId,
        /// The missing one.
        dependency: MilestoneId,
    },
    /// Each of these depends on the next, and the last on the first.
    #[error("the dependencies form a cycle: {}", in_circle(.0))]
    Cycle(Vec<MilestoneId>),
    /// A text or a list is too long or missing.
    #[error("{0}")]
    Unfit(String),
    /// It cannot happen to the milestone now.
    #[error("{milestone} {why}")]
    NotNow {
        /// Which.
        milestone: MilestoneId,
        /// Why not, as the rest of a sentence.
        why: String,
    },
    /// The graph only exists as a proposal.
    #[error("the graph is only proposed; a person has to approve it first (forgehand milestones approve)")]
    Proposed,
    /// The breaker is open.
    #[error(
        "{0} milestones in a row were given up, so nothing is tried any more; see why, then: forgehand milestones reset"
    )]
    Breaker(u32),
}

fn in_circle(ids: &[MilestoneId]) -> String {
    let names = ids.iter().chain(ids.first()).map(MilestoneId::as_str);
    names.collect::<Vec<_>>().join(" → ")
}

impl Graph {
    /// A graph without milestones.
    pub fn new(key: GraphKey, goal: &str, standing: Standing) -> Self {
        Self {
            key,
            goal: text::cap(goal.trim(), MAX_GOAL_BYTES),
            standing,
            failures: 0,
            milestones: Vec::new(),
        }
    }

    /// The milestone of this name.
    ///
    /// # Errors
    /// [`MilestoneError::Unknown`].
    pub fn milestone(&self, id: &MilestoneId) -> Result<&Milestone, MilestoneError> {
        let found = self.milestones.iter().find(|milestone| milestone.id == *id);
        found.ok_or_else(|| MilestoneError::Unknown(id.clone()))
    }

    fn milestone_mut(&mut self, id: &MilestoneId) -> Result<&mut Milestone, MilestoneError> {
        let found = self.milestones.iter_mut().find(|milestone| milestone.id == *id);
        found.ok_or_else(|| MilestoneError::Unknown(id.clone()))
    }

    /// Adds milestones at the end, all or none. Their dependencies may be among themselves.
    ///
    /// # Errors
    /// With what does not fit: a text, a name that is taken, a dependency that does not exist, a
    /// cycle.
    pub fn add(&mut self, new: Vec<NewMilestone>) -> Result<Vec<MilestoneId>, MilestoneError> {
        let mut whole = self.clone();
        let first = whole.milestones.len();
        for new in new {
            whole.append(new)?;
        }
        if whole.milestones.len() > MAX_MILESTONES {
            return Err(MilestoneError::Unfit(format!(
                "a graph has at most {MAX_MILESTONES} milestones"
            )));
        }
        whole.check_dependencies()?;
        *self = whole;
        Ok(self.milestones[first..]
            .iter()
            .map(|milestone| milestone.id.clone())
            .collect())
    }

    fn append(&mut self, new: NewMilestone) -> Result<(), MilestoneError> {
        let title = one_line(&new.title);
        let id = match new.id {
            Some(id) => id,
            None => self.name_for(&title)?,
        };
        if self.milestone(&id).is_ok() {
            return Err(MilestoneError::Exists(id));
        }
        let mut depends_on: Vec<MilestoneId> = Vec::new();
        for dependency in new.depends_on {
            if !depends_on.contains(&dependency) {
                depends_on.push(dependency);
            }
        }
        let acceptance = new.acceptance.map(|command| command.trim().to_owned());
        let last = self.milestones.iter().map(|milestone| milestone.position).max();
        let milestone = Milestone {
            position: last.map_or(0, |last| last.saturating_add(1)),
            title,
            description: new.description.trim().to_owned(),
            acceptance: acceptance.filter(|command| !command.is_empty()),
            depends_on,
            state: MilestoneState::Pending,
            attempts: 0,
            problem: None,
            kept: None,
            commit: None,
            hold: None,
            id,
        };
        milestone.check()?;
        self.milestones.push(milestone);
        Ok(())
    }

    /// A name made from a title.
    fn name_for(&self, title: &str) -> Result<MilestoneId, MilestoneError> {
        let slug = match text::slug(title, MAX_MILESTONE_ID - 4) {
            slug if slug.is_empty() => "milestone".to_owned(),
            slug => slug,
        };
        let names = std::iter::once(slug.clone()).chain((2..=MAX_MILESTONES).map(|count| format!("{slug}-{count}")));
        let mut free = names
            .filter_map(|name| name.parse().ok())
            .filter(|id| self.milestone(id).is_err());
        free.next()
            .ok_or_else(|| MilestoneError::Unfit(format!("no name is left for {title:?}; give it one")))
    }

    /// Takes a milestone away that nobody is at and nothing depends on.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] otherwise.
    pub fn remove(&mut self, id: &MilestoneId) -> Result<(), MilestoneError> {
        let milestone = self.milestone(id)?;
        if milestone.state == MilestoneState::InProgress {
            return Err(milestone.not_now("is in progress; it cannot be removed now"));
        }
        let needs_it = self.milestones.iter().find(|other| other.depends_on.contains(id));
        if let Some(other) = needs_it {
            return Err(milestone.not_now(&format!("cannot be removed, because {} depends on it", other.id)));
        }
        self.milestones.retain(|milestone| milestone.id != *id);
        Ok(())
    }
}

impl Milestone {
    fn check(&self) -> Result<(), MilestoneError> {
        let unfit = |what: &str| {
            Err(MilestoneError::Unfit(format!(
                "{}: {what}",
                text::cap_chars(self.id.as_str(), MAX_MILESTONE_ID)
            )))
        };
        let bytes = |text: &str| text.len();
        match self {
            _ if self.title.is_empty() => unfit("the title is missing"),
            _ if self.title.chars().count() > MAX_TITLE_CHARS => {
                unfit(&format!("the title is longer than {MAX_TITLE_CHARS} characters"))
            }
            _ if bytes(&self.description) > MAX_DESCRIPTION_BYTES => {
                unfit(&format!("the description is longer than {MAX_DESCRIPTION_BYTES} bytes"))
            }
            _ if self.depends_on.len() > MAX_DEPENDENCIES => {
                unfit(&format!("it depends on more than {MAX_DEPENDENCIES} others"))
            }
            Milestone {
                acceptance: Some(command),
                ..
            } if bytes(command) > MAX_ACCEPTANCE_BYTES || command.contains(['\n', '\r', '\0']) => unfit(&format!(
                "the acceptance command is one line of at most {MAX_ACCEPTANCE_BYTES} bytes"
            )),
            _ => Ok(()),
        }
    }

    fn not_now(&self, why: &str) -> MilestoneError {
        MilestoneError::NotNow {
            milestone: self.id.clone(),
            why: why.to_owned(),
        }
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
