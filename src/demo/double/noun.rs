//! What the double's world is made of, as its own records: accounts, repositories, issues,
//! comments, pull requests, reviews. Plain data. Never JSON: that is `shape`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::advisories::Advisory;
use super::checks::{CheckRun, Status, Suite};
use super::diff::{Comparison, DiffSide};

/// A person, a bot or an organisation.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) id: u64,
    pub(super) login: String,
    /// `User`, `Bot` or `Organization`.
    pub(super) kind: &'static str,
    /// For a bot: the App whose face it is.
    pub(super) app: Option<u64>,
}

/// A repository with everything in it.
#[derive(Debug)]
pub(super) struct Repo {
    pub(super) id: u64,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) default_branch: String,
    pub(super) private: bool,
    pub(super) archived: bool,
    /// For a fork: where it was forked from.
    pub(super) parent: Option<u64>,
    pub(super) created_at: DateTime<Utc>,
    /// The bare repository on disk.
    pub(super) path: PathBuf,
    /// Branches and tags as of the last push, by full name.
    pub(super) refs: BTreeMap<String, String>,
    /// Role names by account id.
    pub(super) roles: BTreeMap<u64, String>,
    pub(super) labels: BTreeMap<String, u64>,
    pub(super) issues: BTreeMap<u64, Issue>,
    /// What happened to issues, in order.
    pub(super) events: Vec<Event>,
    /// Milestones by number.
    pub(super) milestones: BTreeMap<u64, Milestone>,
    pub(super) pulls: BTreeMap<u64, Pull>,
    pub(super) comments: BTreeMap<u64, Comment>,
    pub(super) reviews: BTreeMap<u64, Review>,
    pub(super) review_comments: BTreeMap<u64, ReviewComment>,
    /// Resolved threads: the first comment and who resolved it.
    pub(super) resolved: BTreeMap<u64, u64>,
    /// Numbers of sub-issues by their parent's.
    pub(super) sub_issues: BTreeMap<u64, Vec<u64>>,
    pub(super) check_runs: BTreeMap<u64, CheckRun>,
    pub(super) suites: BTreeMap<u64, Suite>,
    pub(super) statuses: Vec<Status>,
    pub(super) advisories: Vec<Advisory>,
    /// Commits that some ref has pointed to.
    pub(super) seen: BTreeSet<String>,
}

impl Repo {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Whether a commit is one that people could see here.
    pub(super) fn knows(&self, sha: &str) -> bool {
        let in_pull = |pull: &Pull| pull.head_sha == sha || pull.comparison.commits.iter().any(|known| known == sha);
        self.seen.contains(sha) || self.pulls.values().any(in_pull)
    }

    /// A branch that points to a commit.
    pub(super) fn branch_at(&self, sha: &str) -> Option<&str> {
        let found = self.refs.iter().filter(|(_, at)| *at == sha);
        found.filter_map(|(name, _)| name.strip_prefix("refs/heads/")).next()
    }

    pub(super) fn branch(&self, name: &str) -> Option<&String> {
        self.refs.get(&format!("refs/heads/{name}"))
    }

    /// GitHub compares label names without case and keeps the spelling of the first.
    pub(super) fn label_named(&self, name: &str) -> Option<String> {
        self.labels
            .keys()
            .find(|label| label.eq_ignore_ascii_case(name))
            .cloned()
    }
}

/// Something that happened to an issue.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) event: String,
    /// Account id.
    pub(super) by: u64,
    /// What only this kind of event tells.
    pub(super) about: serde_json::Value,
    pub(super) at: DateTime<Utc>,
}

/// A milestone.
#[derive(Debug)]
pub(super) struct Milestone {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) created_at: DateTime<Utc>,
}

/// One earlier text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// When it was replaced.
    pub at: DateTime<Utc>,
    /// Account id of who replaced it.
    pub by: u64,
    /// The text that was there before.
    pub from: String,
}

/// A reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// Its id.
    pub id: u64,
    /// Login of who reacted.
    pub by: String,
    /// `eyes`, `+1`, …
    pub content: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// An issue, or the issue side of a pull request.
#[derive(Debug, Clone)]
pub struct Issue {
    /// GitHub's id of the object.
    pub id: u64,
    /// The number within the repository.
    pub number: u64,
    /// Title.
    pub title: String,
    /// Body; a person may leave it out.
    pub body: Option<String>,
    /// Account id of the author.
    pub author: u64,
    /// Whether it is open.
    pub open: bool,
    /// Label names.
    pub labels: Vec<String>,
    /// Number of its milestone.
    pub milestone: Option<u64>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// Reactions.
    pub reactions: Vec<Reaction>,
    /// Earlier bodies.
    pub edits: Vec<Edit>,
}

/// A comment in a conversation.
#[derive(Debug, Clone)]
pub struct Comment {
    /// Id.
    pub id: u64,
    /// Issue or pull request.
    pub number: u64,
    /// Text.
    pub body: String,
    /// Account id of the author.
    pub author: u64,
    /// Whether our App wrote it.
    pub ours: bool,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
    /// Reactions.
    pub reactions: Vec<Reaction>,
    /// Earlier texts, oldest first.
    pub edits: Vec<Edit>,
}

/// The pull request side of an issue.
#[derive(Debug, Clone)]
pub struct Pull {
    /// GitHub's id of the object.
    pub id: u64,
    /// The number within the repository.
    pub number: u64,
    /// Id of the repository of the head; another one for a fork.
    pub head_repo: u64,
    /// Head branch.
    pub head: String,
    /// Head commit; follows pushes.
    pub head_sha: String,
    /// Base branch.
    pub base: String,
    /// Base commit when it was opened.
    pub base_sha: String,
    /// Whether it is a draft.
    pub draft: bool,
    /// When it was merged.
    pub merged_at: Option<DateTime<Utc>>,
    /// The commit that merged it.
    pub merge_commit: Option<String>,
    /// Whether it can be merged; `None` while GitHub does not know.
    pub mergeable: Option<bool>,
    /// Whether people who may write to the base may push to the head of a fork.
    pub maintainer_can_modify: bool,
    /// Account ids of those whose review is asked for.
    pub requested: Vec<u64>,
    pub(super) comparison: Comparison,
}

/// A submitted review.
#[derive(Debug, Clone)]
pub struct Review {
    /// Id.
    pub id: u64,
    /// Pull request.
    pub number: u64,
    /// Account id of the author.
    pub author: u64,
    /// Text.
    pub body: String,
    /// `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`.
    pub state: String,
    /// The commit it is about.
    pub commit: String,
    /// When.
    pub submitted_at: DateTime<Utc>,
}

/// A comment on a line of a pull request.
#[derive(Debug, Clone)]
pub struct ReviewComment {
    /// Id.
    pub id: u64,
    /// Pull request.
    pub number: u64,
    /// The review it came with.
    pub review: u64,
    /// Account id of the author.
    pub author: u64,
    /// Text.
    pub body: String,
    /// File.
    pub path: String,
    /// Line now; `None` once a push made the hunk outdated.
    pub line: Option<u64>,
    /// First line of several, when it was written.
    pub start_line: Option<u64>,
    /// Line when it was written.
    pub original_line: u64,
    /// Side of the diff.
    pub side: DiffSide,
    /// The diff down to the line.
    pub hunk: String,
    /// The commit it was written on.
    pub commit: String,
    /// The comment it answers.
    pub in_reply_to: Option<u64>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
    /// Reactions.
    pub reactions: Vec<Reaction>,
    /// Earlier texts.
    pub edits: Vec<Edit>,
}
