//! One write to GitHub, as a row of the outbox: what is to be written, under which key it is
//! found again, and how far it got. Plain data. Never performs anything; `publish` does.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{
    BranchName, CommentId, CommitSha, DraftId, EffectId, InstallationId, IssueNumber, JobId, RepoId, RepoName,
};
use crate::job::word_enum;
use crate::phrase::thread::Said;

word_enum! {
    /// How far an effect got.
    EffectState, "effect state" {
        /// Not tried yet.
        Pending = "pending",
        /// A call may be on its way.
        Sending = "sending",
        /// A call was sent and its outcome is not known.
        Unknown = "unknown",
        /// It is on GitHub.
        Done = "done",
        /// It is not wanted any more.
        Skipped = "skipped",
        /// GitHub refused it for good.
        Failed = "failed",
    }
}

impl EffectState {
    /// Whether nothing more will be tried.
    pub fn is_final(self) -> bool {
        matches!(self, EffectState::Done | EffectState::Skipped | EffectState::Failed)
    }
}

/// What a reaction is put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum ReactionTarget {
    /// An issue or pull request itself.
    Issue {
        /// Its number.
        number: IssueNumber,
    },
    /// A comment in the conversation.
    Comment {
        /// The comment.
        id: CommentId,
    },
    /// A comment on a line of a pull request.
    ReviewComment {
        /// The comment.
        id: CommentId,
    },
}

/// Another repository than the job's own, which a push goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushTo {
    /// The installation there.
    pub installation: InstallationId,
    /// The repository, by number.
    pub repo_id: RepoId,
    /// The repository, by name.
    pub repo: RepoName,
}

/// A comment on a line of a pull request's difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineComment {
    /// The file.
    pub path: String,
    /// The line, counted on its side.
    pub line: u64,
    /// The old or the new file.
    pub side: Side,
    /// Text.
    pub body: String,
}

/// Which file of a difference a line is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Side {
    /// The old file, for lines that were taken out.
    Left,
    /// The new file.
    Right,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EffectBody {
    /// 👀 on what triggered the job.
    Reaction {
        /// Where.
        target: ReactionTarget,
        /// GitHub's word, for example `eyes`.
        content: String,
    },
    /// The one status comment of the job; later texts are edits of it.
    StatusComment {
        /// Where.
        number: IssueNumber,
        /// First text, without the marker.
        body: String,
    },
    /// A comment of its own, for example an answer.
    Comment {
        /// Where.
        number: IssueNumber,
        /// Text, without the marker.
        body: String,
    },
    /// The stored solution as a commit on a branch.
    Push {
        /// The branch.
        branch: BranchName,
        /// The fork that has the branch, where it is not the job's repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<PushTo>,
        /// What the branch must point to before: a commit, or nothing for a new branch.
        expect: Option<CommitSha>,
        /// Parent of the new commit.
        parent: CommitSha,
        /// Its further parents, where it is a merge.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<CommitSha>,
        /// The commit, computed beforehand; the same bytes give the same SHA.
        sha: CommitSha,
        /// The commit message.
        message: String,
    },
    /// A pull request from a pushed branch.
    OpenPull {
        /// The branch.
        branch: BranchName,
        /// Where it shall go.
        base: BranchName,
        /// Title.
        title: String,
        /// Body, without the marker.
        body: String,
        /// Whether it is opened as a draft.
        draft: bool,
    },
    /// The pull request that an earlier row opened is no draft any more.
    MarkReady,
    /// Somebody is asked to review the pull request that an earlier row opened.
    RequestReviewer {
        /// Who.
        login: String,
    },
    /// One review of a pull request.
    SubmitReview {
        /// The pull request.
        number: IssueNumber,
        /// The head that was read.
        commit: CommitSha,
        /// Text, without the marker.
        body: String,
        /// Comments on lines of its difference.
        comments: Vec<LineComment>,
    },
    /// A reply in a review thread. Whether something is fixed is said by what landed.
    ReplyThread {
        /// The pull request.
        number: IssueNumber,
        /// The first comment of the thread: GitHub refuses a reply to a reply.
        root: CommentId,
        /// What is said, if the push landed where it was wanted.
        said: Said,
        /// The branch that a fix has to be on; nothing where no push goes to the pull request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<BranchName>,
        /// The agent's words, safe already, without the marker.
        reply: String,
    },
    /// A thread is resolved whose fix is on the branch, unless more was said in it than the run saw
    /// and our reply, which is the effect before this one.
    ResolveThread {
        /// The pull request.
        number: IssueNumber,
        /// The first comment of the thread.
        root: CommentId,
        /// The last comment that the run saw.
        seen: CommentId,
    },
    /// Those who reviewed are asked to look again.
    RequestReview {
        /// The pull request.
        number: IssueNumber,
        /// Who.
        logins: Vec<String>,
    },
    /// The check run of our own on the head that is worked on, under way.
    BeginCheck {
        /// The head.
        sha: CommitSha,
    },
    /// The check run of our own says how the work ended, on the old head and on the new one.
    SettleCheck,
    /// A failed check of another App is asked to run again.
    RerunCheck {
        /// The check run.
        id: u64,
        /// Its name.
        name: String,
        /// When it ended, by which a later end is known.
        ended: Option<DateTime<Utc>>,
    },
    /// The status comment shows what people are asked, rendered from the log when its turn comes.
    Ask,
    /// The status comment's last text, rendered from the log when its turn comes.
    FinalStatus {
        /// What follows the headline when the work landed, for example the verification table.
        #[serde(default)]
        details: String,
        /// What follows in any case: drafts of issues; safe already.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        drafts: String,
    },
    /// An issue that a person confirmed, or a part of one.
    CreateIssue {
        /// The draft.
        draft: DraftId,
        /// 0 for the issue itself, then its parts in order.
        part: u32,
        /// When the draft was offered: it was not created before.
        offered_at: DateTime<Utc>,
        /// Title.
        title: String,
        /// Body, without the marker.
        body: String,
        /// Labels.
        labels: Vec<String>,
    },
    /// A private advisory that a person confirmed.
    CreateAdvisory {
        /// The draft.
        draft: DraftId,
        /// Its title.
        summary: String,
        /// Its text.
        description: String,
        /// GitHub's word for how bad it is.
        severity: String,
    },
    /// An issue becomes a part of another; both are named by the positions of their rows.
    AddSubIssue {
        /// The epic.
        parent: i64,
        /// The part.
        child: i64,
    },
    /// A comment that names what was created, rendered from the rows when its turn comes.
    TellCreated {
        /// Where.
        number: IssueNumber,
    },
    /// The label goes, so that it stays a button that can be pressed again.
    RemoveLabel {
        /// Where.
        number: IssueNumber,
        /// The label.
        label: String,
    },
}

impl EffectBody {
    /// The kind as a word.
    pub fn kind(&self) -> &'static str {
        match self {
            EffectBody::Reaction { .. } => "reaction",
            EffectBody::StatusComment { .. } => "status_comment",
            EffectBody::Comment { .. } => "comment",
            EffectBody::Push { .. } => "push",
            EffectBody::OpenPull { .. } => "open_pull",
            EffectBody::MarkReady => "mark_ready",
            EffectBody::RequestReviewer { .. } => "request_reviewer",
            EffectBody::SubmitReview { .. } => "submit_review",
            EffectBody::ReplyThread { .. } => "reply_thread",
            EffectBody::ResolveThread { .. } => "resolve_thread",
            EffectBody::RequestReview { .. } => "request_review",
            EffectBody::BeginCheck { .. } => "begin_check",
            EffectBody::SettleCheck => "settle_check",
            EffectBody::RerunCheck { .. } => "rerun_check",
            EffectBody::Ask => "ask",
            EffectBody::FinalStatus { .. } => "final_status",
            EffectBody::CreateIssue { .. } => "create_issue",
            EffectBody::CreateAdvisory { .. } => "create_advisory",
            EffectBody::AddSubIssue { .. } => "add_sub_issue",
            EffectBody::TellCreated { .. } => "tell_created",
            EffectBody::RemoveLabel { .. } => "remove_label",
        }
    }

    /// The draft that this row turns into something on GitHub; its parts follow from it.
    pub fn draft(&self) -> Option<&DraftId> {
        match self {
            EffectBody::CreateIssue { draft, part: 0, .. } | EffectBody::CreateAdvisory { draft, .. } => Some(draft),
            _ => None,
        }
    }

    /// Whether a second call would make a second object, so that an unclear outcome has to be
    /// waited for. The other kinds have a natural key or are sets: a repeat finds or changes
    /// nothing.
    pub fn repeats_are_visible(&self) -> bool {
        matches!(
            self,
            EffectBody::StatusComment { .. }
                | EffectBody::Comment { .. }
                | EffectBody::BeginCheck { .. }
                | EffectBody::SettleCheck
                | EffectBody::RerunCheck { .. }
                | EffectBody::CreateIssue { .. }
                | EffectBody::CreateAdvisory { .. }
                | EffectBody::TellCreated { .. }
                | EffectBody::SubmitReview { .. }
                | EffectBody::ReplyThread { .. }
        )
    }
}

/// An effect to be inserted. `dedupe_key` is unique in the whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEffect {
    /// Position within the job; effects are performed in this order.
    pub seq: i64,
    /// `JOB/SEQ`-like key.
    pub dedupe_key: String,
    /// What is to be written.
    pub body: EffectBody,
}

/// An effect as stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Its id.
    pub id: EffectId,
    /// The job.
    pub job: JobId,
    /// Position within the job.
    pub seq: i64,
    /// Unique key.
    pub dedupe_key: String,
    /// What is to be written.
    pub body: EffectBody,
    /// How far it got.
    pub state: EffectState,
    /// Fence of the claim that touched it last.
    pub fence: i64,
    /// When a call was last begun, by the database's clock.
    pub sent_at: Option<DateTime<Utc>>,
    /// Calls begun.
    pub tries: u32,
    /// What GitHub calls the result.
    pub remote_id: Option<String>,
    /// Why it failed or was skipped.
    pub problem: Option<String>,
    /// Calls whose outcome was never known.
    pub unclear: u32,
    /// What was taken away because it had arrived twice.
    pub repaired: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_of_older_versions_are_read() {
        let sha = "1".repeat(40);
        let old = format!(
            r#"{{"kind":"push","branch":"agent/1-x","expect":null,"parent":"{sha}","sha":"{sha}","message":"m"}}"#
        );
        let body: EffectBody = serde_json::from_str(&old).unwrap();
        assert!(matches!(&body, EffectBody::Push { to: None, merged, .. } if merged.is_empty()));
        assert_eq!(serde_json::to_string(&body).unwrap(), old);
    }
}
