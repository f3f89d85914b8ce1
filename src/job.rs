//! The job: one durable row of intended work, what asked for it, and what was pinned when it was
//! asked. Plain data; transitions are in `store` and `queue`. Never holds text that changed after
//! the trigger.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{
    BranchName, CommentId, CommitSha, InstallationId, IssueNumber, JobId, RepoId, RepoName, Subject, UserId,
};

/// Declares an enum that is stored as a word.
macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $( $(#[$item_doc:meta])* $item:ident = $word:literal, )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $( $(#[$item_doc])* $item, )* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[ $( $name::$item, )* ];

            /// The word in the database, in events and in logs.
            pub fn as_str(self) -> &'static str {
                match self { $( $name::$item => $word, )* }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::ids::IdError;
            fn from_str(text: &str) -> Result<Self, $crate::ids::IdError> {
                match text {
                    $( $word => Ok($name::$item), )*
                    _ => Err($crate::ids::IdError::new($what, text, "the word is unknown")),
                }
            }
        }
    };
}
pub(crate) use word_enum;

word_enum! {
    /// Where a job stands. `queued` with `run_at` in the future is a snoozed or retried job.
    JobState, "job state" {
        /// Ready to be claimed once `run_at` has come.
        Queued = "queued",
        /// A worker holds it.
        Leased = "leased",
        /// A person's answer is needed; costs nothing meanwhile.
        Waiting = "waiting",
        /// The work is stored; its effects are being performed.
        Publishing = "publishing",
        /// Finished, with an outcome.
        Done = "done",
        /// Given up, with a reason.
        Dead = "dead",
        /// Stopped by a person, a closed issue or lost permission.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether nothing will happen to the job any more.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Done | JobState::Dead | JobState::Cancelled)
    }
}

word_enum! {
    /// What a job does.
    JobKind, "job kind" {
        /// Change code: an issue becomes a pull request, a pull request gets commits.
        Fix = "fix",
        /// Propose a plan, and change code once a person approved it.
        Plan = "plan",
        /// Answer a question about the repository.
        Ask = "ask",
        /// Review a pull request.
        Review = "review",
        /// Bring the branch of a pull request up to date with its base.
        Rebase = "rebase",
        /// Write drafts of issues.
        Draft = "draft",
        /// Measure on a suite of cases how often retrieval finds what was changed. No agent works.
        Eval = "eval",
        /// Answer a command in a comment: help, status, or an honest "not yet".
        Reply = "reply",
        /// Give the job of the same issue or pull request the answer it waits for.
        Answer = "answer",
        /// Stop the running job of the same issue or pull request.
        Stop = "stop",
        /// Hand an instruction to the job that is at work on the same issue or pull request.
        Steer = "steer",
        /// Start the last job of the same issue or pull request again.
        Retry = "retry",
        /// Change what the work on the same issue or pull request may cost.
        Budget = "budget",
        /// Create the issue that was drafted.
        Create = "create",
    }
}

impl JobKind {
    /// Whether the job changes code, so that words for it can reach it while it works.
    pub fn changes_code(self) -> bool {
        matches!(self, JobKind::Fix | JobKind::Plan | JobKind::Rebase)
    }

    /// Whether words of a person reach the job while it works. A merge asks nobody and is told
    /// nothing.
    pub fn hears(self) -> bool {
        matches!(self, JobKind::Fix | JobKind::Plan)
    }

    /// Whether the job runs the agent, or works for minutes otherwise, and has a status comment where
    /// there is somewhere to comment; the others only steer such jobs or answer.
    pub fn is_work(self) -> bool {
        match self {
            JobKind::Fix
            | JobKind::Plan
            | JobKind::Ask
            | JobKind::Review
            | JobKind::Rebase
            | JobKind::Draft
            | JobKind::Eval => true,
            JobKind::Reply
            | JobKind::Answer
            | JobKind::Stop
            | JobKind::Steer
            | JobKind::Retry
            | JobKind::Budget
            | JobKind::Create => false,
        }
    }
}

/// Who caused something, as GitHub named them in the delivery. The id is authority, the login
/// is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Numeric account id.
    pub id: UserId,
    /// Login at that time.
    pub login: String,
    /// Whether GitHub calls the account a bot.
    pub is_bot: bool,
}

impl Actor {
    /// Whoever runs this machine: no account of GitHub's.
    pub fn operator() -> Self {
        Self {
            id: UserId(0),
            login: "operator".to_owned(),
            is_bot: false,
        }
    }
}

/// Why work starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Trigger {
    /// The label was put on an issue.
    Label {
        /// The label as it is written on the issue.
        label: String,
    },
    /// A comment on an issue or pull request.
    Comment {
        /// The comment.
        id: CommentId,
    },
    /// A comment on a line of a pull request.
    ReviewComment {
        /// The comment.
        id: CommentId,
    },
    /// A submitted review.
    Review {
        /// GitHub's id of the review.
        id: u64,
    },
    /// Checks failed on a commit that we left on a pull request of ours.
    Checks {
        /// The commit.
        sha: CommitSha,
    },
    /// A person at the command line of this machine.
    CommandLine,
    /// The time came that a schedule of the operator names.
    Schedule {
        /// The schedule.
        name: String,
        /// The time, before any jitter.
        fire_at: DateTime<Utc>,
    },
    /// The turn came of a milestone of a work graph that the operator let run.
    Milestone {
        /// The graph.
        graph: String,
        /// The milestone.
        milestone: String,
        /// The command that alone decides whether it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acceptance: Option<String>,
    },
    /// An issue was found in a queue that is polled. The actor is who put it there.
    Queue {
        /// The label of the queue, where it has one, as it is written on the issue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// What selects the issues of the queue, in words.
        source: String,
    },
}

impl Trigger {
    /// Whether nobody waits in front of the result: it is accounted for in the ledger of unattended work.
    pub fn is_unattended(&self) -> bool {
        matches!(
            self,
            Trigger::Schedule { .. } | Trigger::Milestone { .. } | Trigger::Queue { .. }
        )
    }

    /// Whether the operator of this machine planned the work, so that no person of the repository is
    /// asked for their right to it.
    pub fn is_operators(&self) -> bool {
        matches!(self, Trigger::Schedule { .. } | Trigger::Milestone { .. })
    }

    /// The label that asks for the work: it must be there when work begins, and is taken off when
    /// the work is over.
    pub fn label(&self) -> Option<&str> {
        match self {
            Trigger::Label { label } => Some(label),
            Trigger::Queue { label, .. } => label.as_deref(),
            _ => None,
        }
    }

    /// Whether the same label asks for both, compared without case.
    pub fn has_same_label(&self, other: &Trigger) -> bool {
        let lower = |trigger: &Trigger| trigger.label().map(str::to_lowercase);
        lower(self).is_some() && lower(self) == lower(other)
    }
}

/// What was asked for, fixed at the moment of the trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Why work starts.
    pub trigger: Trigger,
    /// Who asked.
    pub actor: Actor,
    /// The words after the verb, given to the model as text; or the answer of a `reply` job.
    pub instructions: String,
    /// When the trigger happened, by GitHub's clock.
    pub triggered_at: DateTime<Utc>,
}

/// What must still be true when effects are performed. Values of the delivery, not of now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pins {
    /// Title of the issue or pull request at the trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its body at the trigger; an absent body is an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Head of the pull request at the trigger, where the delivery told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_sha: Option<CommitSha>,
    /// Login of the author of the issue or pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What is measured, where the job measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<EvalSuite>,
}

/// An eval suite, and what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalSuite {
    /// The file with the cases, by its path in the repository, on the default branch.
    pub cases: String,
    /// The least mean reciprocal rank of files that counts as good, in percent. 0: any.
    pub min_mrr: u32,
}

/// A job to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The repository, by number.
    pub repo_id: RepoId,
    /// The repository, by name at the trigger.
    pub repo: RepoName,
    /// The installation through which it was asked.
    pub installation: InstallationId,
    /// What to do.
    pub kind: JobKind,
    /// What to do it to.
    pub subject: Subject,
    /// No two non-final jobs have the same key. `None`: no such rule.
    pub dedupe_key: Option<String>,
    /// Higher goes first.
    pub priority: i32,
    /// Not before this time.
    pub run_at: DateTime<Utc>,
    /// Attempts before it is given up.
    pub max_attempts: u32,
    /// What was asked.
    pub request: Request,
    /// What was pinned.
    pub pins: Pins,
}

impl NewJob {
    /// The key of the work that an issue asks for by its label or its place in a queue: however it
    /// came to be known, it is done once at a time.
    pub fn issue_key(repo: RepoId, subject: &Subject) -> String {
        format!("fix:{repo}:{subject}")
    }

    /// The lane of the job: at most one job of a lane is active. Work on a subject has one lane;
    /// commands that control it (stop, replies) have another, so that they need not wait for it.
    pub fn lane(&self) -> String {
        if self.kind.is_work() {
            self.subject.to_string()
        } else {
            format!("{}#control", self.subject)
        }
    }
}

/// A job as stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The repository, by number.
    pub repo_id: RepoId,
    /// The repository, by name at the trigger.
    pub repo: RepoName,
    /// The installation.
    pub installation: InstallationId,
    /// What to do.
    pub kind: JobKind,
    /// What to do it to.
    pub subject: Subject,
    /// Where it stands.
    pub state: JobState,
    /// Higher goes first.
    pub priority: i32,
    /// Not before this time.
    pub run_at: DateTime<Utc>,
    /// Attempts begun.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// How many leases ran out without an answer since the last progress.
    pub lost_leases: u32,
    /// How often a person started the job again after its end. Part of the keys and positions of
    /// effects, so that a new round does not find the effects of an earlier one.
    pub round: u32,
    /// The fencing token of the last claim; grows with each.
    pub fence: i64,
    /// Who holds it.
    pub lease_owner: Option<String>,
    /// Until when, by the database's clock.
    pub lease_until: Option<DateTime<Utc>>,
    /// What was asked.
    pub request: Request,
    /// What was pinned.
    pub pins: Pins,
    /// When somebody asked to stop it.
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// Why it stands where it stands, for people.
    pub reason: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When it was inserted.
    pub created_at: DateTime<Utc>,
    /// When it became final.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Job {
    /// The request of this job as a `fix` of its own. One job becomes one such job, however often it
    /// is tried.
    pub fn as_fix(&self, now: DateTime<Utc>) -> NewJob {
        NewJob {
            repo_id: self.repo_id,
            repo: self.repo.clone(),
            installation: self.installation,
            kind: JobKind::Fix,
            subject: self.subject.clone(),
            dedupe_key: Some(format!("fix:of:{}", self.id)),
            priority: 0,
            run_at: now,
            max_attempts: self.max_attempts,
            request: self.request.clone(),
            pins: self.pins.clone(),
        }
    }
}

/// The proof that a worker holds a job. Every write on behalf of the job carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Fencing token: the number of this claim.
    pub fence: i64,
    /// 128 random bits as hex; numbers may repeat after a database failover, this does not.
    pub token: String,
    /// Who holds it.
    pub owner: String,
}

/// A job with the right to work on it.
#[derive(Debug, Clone, PartialEq)]
pub struct LeasedJob {
    /// The row at the time of the claim.
    pub job: Job,
    /// The right.
    pub lease: Lease,
    /// Whether its work is already stored and only effects are left (it was `publishing`).
    pub resumes_publishing: bool,
}

/// How a job ended. Not being able to help is an outcome too, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A pull request was opened.
    Opened {
        /// Its number.
        pull: IssueNumber,
        /// Its branch.
        branch: BranchName,
        /// Its head, verified on the remote.
        sha: CommitSha,
    },
    /// Commits were added to an existing branch.
    Pushed {
        /// The branch.
        branch: BranchName,
        /// Its head, verified on the remote.
        sha: CommitSha,
    },
    /// A question or command was answered.
    Answered,
    /// A pull request was reviewed.
    Reviewed {
        /// `pass`, `needs_fix` or `rebuild`.
        verdict: String,
        /// Comments on lines.
        comments: u32,
    },
    /// Something was measured, and the figures are as good as they have to be.
    Measured {
        /// The figures, in a line.
        summary: String,
    },
    /// The agent found that nothing has to change.
    NothingToDo {
        /// Its reasons.
        reason: String,
    },
    /// The request was not allowed, or may not be done.
    Refused {
        /// Why.
        reason: String,
    },
    /// The run ended without a result that is good enough.
    GaveUp {
        /// Why.
        reason: String,
        /// Where the unfinished work is kept, if there was any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<BranchName>,
    },
    /// Somebody stopped it.
    Stopped {
        /// Who or what.
        reason: String,
        /// Where the unfinished work is kept, if there was any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<BranchName>,
    },
}

/// Why a job did not come to its end, named by what happens to it next.
#[derive(Debug)]
pub enum JobError {
    /// Another attempt may work.
    Retry(String),
    /// Another attempt may work, and this one reached nobody: nothing of it may still arrive.
    Unsent(String),
    /// Wait until then; costs no attempt.
    Snooze(DateTime<Utc>, String),
    /// No attempt will work.
    Fail(String),
    /// The job ends with this outcome right away.
    End(Outcome),
    /// The permission is gone: nothing may be written any more.
    NoRight(String),
    /// Somebody pushed to the branch that the finished work was for: it has to be carried over.
    HeadMoved(String),
    /// Another worker has the job, or may have: write nothing.
    LeaseLost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_words_both_ways() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse::<JobState>().unwrap(), *state);
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        assert!("running".parse::<JobState>().is_err());
    }
}
