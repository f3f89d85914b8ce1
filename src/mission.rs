//! The account of one unattended run, as the ledger keeps it: when, why, how it ended, what it cost
//! and what it left. Plain data and its words.
//! Never holds what a model said, but reasons; they are redacted and cut before they come here.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{BranchName, CommitSha, IssueNumber, JobId};
use crate::job::{Job, JobState, Outcome, Trigger, word_enum};
use crate::milestone::{Graph, Milestone, MilestoneState};
use crate::text;

word_enum! {
    /// How a mission ended.
    MissionState, "mission state" {
        /// With work that landed, or with an answer.
        Done = "done",
        /// Nothing had to be done.
        NothingToDo = "nothing_to_do",
        /// Somebody stopped it, or what it was for is gone.
        Stopped = "stopped",
        /// Not allowed.
        Refused = "refused",
        /// Without a result that is good enough, also after every attempt to mend it.
        Stuck = "stuck",
        /// A limit of turns, tokens, money or time stopped it.
        Limit = "limit",
        /// Every milestone that is left waits for one that cannot be done.
        Blocked = "blocked",
        /// Too many failures in a row.
        Breaker = "breaker",
        /// The model, the sandbox or something else broke.
        Failed = "failed",
        /// The work graph has no milestone.
        Empty = "empty",
    }
}

impl MissionState {
    /// Whether somebody has to look at it.
    pub fn is_failure(self) -> bool {
        match self {
            MissionState::Done | MissionState::NothingToDo | MissionState::Stopped => false,
            MissionState::Refused
            | MissionState::Stuck
            | MissionState::Limit
            | MissionState::Blocked
            | MissionState::Breaker
            | MissionState::Failed
            | MissionState::Empty => true,
        }
    }

    /// The exit code of a process that ends so.
    pub fn exit_code(self) -> u8 {
        match self {
            MissionState::Done | MissionState::NothingToDo | MissionState::Stopped => 0,
            MissionState::Refused | MissionState::Stuck | MissionState::Blocked => 2,
            MissionState::Breaker | MissionState::Limit => 3,
            MissionState::Failed => 4,
            MissionState::Empty => 5,
        }
    }
}

/// Why an unattended run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Cause {
    /// A schedule.
    Schedule {
        /// Its name.
        name: String,
        /// The time that it was for.
        fire_at: DateTime<Utc>,
    },
    /// A work graph.
    Graph {
        /// Its name.
        graph: String,
    },
    /// An issue of a queue.
    Queue {
        /// What selects its issues, in words.
        source: String,
    },
    /// The command line, without anybody at a terminal.
    CommandLine,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Schedule { name, .. } => write!(f, "schedule {name}"),
            Cause::Graph { graph } => write!(f, "graph {graph}"),
            Cause::Queue { source } => write!(f, "queue {source}"),
            Cause::CommandLine => f.write_str("command line"),
        }
    }
}

/// What became of one milestone in a mission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MilestoneEnd {
    /// The milestone.
    pub id: String,
    /// `done`, `needs_fix`, `blocked` and so on: where it stands after the mission.
    pub conclusion: String,
    /// Attempts to do it so far.
    #[serde(default)]
    pub attempts: u32,
}

impl MilestoneEnd {
    /// Where the milestones of a graph stand.
    pub fn all(graph: &Graph) -> Vec<Self> {
        let one = |milestone: &Milestone| Self {
            id: milestone.id.to_string(),
            conclusion: match (milestone.state, graph.waits_for(milestone).is_empty()) {
                (MilestoneState::Pending, false) => "blocked".to_owned(),
                (state, _) => state.to_string(),
            },
            attempts: milestone.attempts,
        };
        graph.milestones.iter().map(one).collect()
    }
}

impl MissionState {
    /// How a graph ended in which nothing can be done any more: whether only what was given up is left.
    pub fn of_stuck(graph: &Graph) -> Self {
        let waits = graph
            .milestones
            .iter()
            .any(|milestone| milestone.state == MilestoneState::Pending);
        if waits {
            MissionState::Blocked
        } else {
            MissionState::Stuck
        }
    }
}

/// What a mission took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Model replies.
    pub turns: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Attempts begun.
    pub attempts: u32,
}

/// A commit that a mission left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its branch.
    pub branch: BranchName,
    /// The commit, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
}

/// One record of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mission {
    /// Its id, an ULID; records sort by it.
    pub id: String,
    /// When it began.
    pub began: DateTime<Utc>,
    /// When it ended.
    pub ended: DateTime<Utc>,
    /// `owner/name`, or `local/FOLDER`.
    pub repository: String,
    /// What it was about: `issue/7`, `task/schedule-nightly`.
    pub subject: String,
    /// Why it began.
    pub cause: Cause,
    /// How it ended.
    pub state: MissionState,
    /// Why it ended so, for people; empty when there is nothing to say.
    #[serde(default)]
    pub reason: String,
    /// The job, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The round of the job, from 0.
    #[serde(default)]
    pub round: u32,
    /// The milestones that it was about.
    #[serde(default)]
    pub milestones: Vec<MilestoneEnd>,
    /// What it took.
    pub counts: Counts,
    /// Known money in US dollars.
    pub cost_usd: f64,
    /// Whether some call had no known price.
    #[serde(default)]
    pub price_unknown: bool,
    /// What it left.
    #[serde(default)]
    pub commits: Vec<Left>,
    /// The pull request that it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<IssueNumber>,
}

/// Longest reason in a record, in bytes.
pub const MAX_REASON_BYTES: usize = 2_000;

impl Mission {
    /// The record of a job that is over; nothing for one that is not, or that was not unattended. Counts
    /// and cost are to be filled in by whoever has read the job's log.
    pub fn of(job: &Job, id: String) -> Option<Self> {
        let (state, reason) = state_of(job)?;
        let cause = match &job.request.trigger {
            Trigger::Schedule { name, fire_at } => Cause::Schedule {
                name: name.clone(),
                fire_at: *fire_at,
            },
            Trigger::Milestone { graph, .. } => Cause::Graph { graph: graph.clone() },
            Trigger::Queue { source, .. } => Cause::Queue { source: source.clone() },
            _ => return None,
        };
        let milestones = match &job.request.trigger {
            Trigger::Milestone { milestone, .. } => vec![MilestoneEnd {
                id: milestone.clone(),
                conclusion: milestone_after(state).to_owned(),
                attempts: 0,
            }],
            _ => Vec::new(),
        };
        let (commits, pull) = left_by(job.outcome.as_ref());
        Some(Self {
            id,
            began: job.created_at,
            ended: job.finished_at.unwrap_or(job.created_at),
            repository: job.repo.to_string(),
            subject: job.subject.to_string(),
            cause,
            state,
            reason: text::cap_middle(&reason, MAX_REASON_BYTES),
            job: Some(job.id.clone()),
            round: job.round,
            milestones,
            counts: Counts {
                attempts: job.attempt,
                ..Counts::default()
            },
            cost_usd: 0.0,
            price_unknown: false,
            commits,
            pull,
        })
    }

    /// Whether somebody has to look at it. That a stranger may not put issues into a queue is how it
    /// should be.
    pub fn is_failure(&self) -> bool {
        let is_stranger = self.state == MissionState::Refused && matches!(self.cause, Cause::Queue { .. });
        self.state.is_failure() && !is_stranger
    }

    /// One or two lines that go into a chat as they are.
    pub fn in_words(&self) -> String {
        let mark = if self.is_failure() { "❌" } else { "✅" };
        let what = format!("{} {} ({})", self.repository, self.subject, self.cause);
        let pull = self
            .pull
            .map(|pull| format!(", pull request #{pull}"))
            .unwrap_or_default();
        let cost = match self.price_unknown {
            true => format!("{} tokens", self.counts.input_tokens + self.counts.output_tokens),
            false => format!("${:.2}", self.cost_usd),
        };
        let first = format!(
            "{mark} {what}: {}{pull} · {cost}",
            self.state.as_str().replace('_', " ")
        );
        match self.reason.lines().next().unwrap_or_default() {
            "" => first,
            reason => format!("{first}\n{}", text::cap_chars(reason, 300)),
        }
    }
}

fn milestone_after(state: MissionState) -> &'static str {
    match state {
        MissionState::Done | MissionState::NothingToDo => "done",
        MissionState::Stopped => "pending",
        _ => "needs_fix",
    }
}

fn state_of(job: &Job) -> Option<(MissionState, String)> {
    let why = || job.reason.clone().unwrap_or_default();
    let state = match (job.state, &job.outcome) {
        (JobState::Dead, _) => (MissionState::Failed, why()),
        (JobState::Cancelled, _) => (MissionState::Stopped, why()),
        (JobState::Done, Some(outcome)) => match outcome {
            Outcome::Opened { .. } | Outcome::Pushed { .. } | Outcome::Answered | Outcome::Reviewed { .. } => {
                (MissionState::Done, String::new())
            }
            Outcome::Measured { summary } => (MissionState::Done, summary.clone()),
            Outcome::NothingToDo { reason } => (MissionState::NothingToDo, reason.clone()),
            Outcome::Refused { reason } => (MissionState::Refused, reason.clone()),
            Outcome::GaveUp { reason, .. } => (MissionState::Stuck, reason.clone()),
            Outcome::Stopped { reason, .. } => (MissionState::Stopped, reason.clone()),
        },
        (JobState::Done, None) => (MissionState::Done, why()),
        (JobState::Queued | JobState::Leased | JobState::Waiting | JobState::Publishing, _) => return None,
    };
    Some(state)
}

fn left_by(outcome: Option<&Outcome>) -> (Vec<Left>, Option<IssueNumber>) {
    let left = |branch: &BranchName, sha: Option<&CommitSha>| {
        vec![Left {
            branch: branch.clone(),
            sha: sha.cloned(),
        }]
    };
    match outcome {
        Some(Outcome::Opened { pull, branch, sha }) => (left(branch, Some(sha)), Some(*pull)),
        Some(Outcome::Pushed { branch, sha }) => (left(branch, Some(sha)), None),
        Some(
            Outcome::GaveUp {
                branch: Some(branch), ..
            }
            | Outcome::Stopped {
                branch: Some(branch), ..
            },
        ) => (left(branch, None), None),
        _ => (Vec::new(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_have_their_meaning() {
        let codes = MissionState::ALL
            .iter()
            .map(|state| (state.as_str(), state.exit_code()));
        let expected = [
            ("done", 0),
            ("nothing_to_do", 0),
            ("stopped", 0),
            ("refused", 2),
            ("stuck", 2),
            ("limit", 3),
            ("blocked", 2),
            ("breaker", 3),
            ("failed", 4),
            ("empty", 5),
        ];
        assert!(codes.eq(expected));
        for state in MissionState::ALL {
            assert_eq!(state.is_failure(), state.exit_code() != 0, "{state}");
        }
    }

    #[test]
    fn a_record_is_told_in_words_that_fit_into_a_chat() {
        let mission: Mission = serde_json::from_str(
            r#"{"id":"01","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:05:00Z","repository":"octo/words",
                "subject":"task/nightly","cause":{"by":"schedule","name":"nightly","fire_at":"2026-01-01T00:00:00Z"},
                "state":"stuck","reason":"the limit is reached\nmore","counts":{"turns":3,"tool_calls":2,"input_tokens":10,
                "output_tokens":5,"attempts":1},"cost_usd":0.126}"#,
        )
        .unwrap();
        assert!(mission.is_failure());
        assert_eq!(
            mission.in_words(),
            "❌ octo/words task/nightly (schedule nightly): stuck · $0.13\nthe limit is reached"
        );
        let kept: Mission = serde_json::from_str(&serde_json::to_string(&mission).unwrap()).unwrap();
        assert_eq!(kept, mission);
    }
}
