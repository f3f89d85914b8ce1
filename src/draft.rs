//! Drafts of issues: the contract that each kind of issue keeps, as types; what breaks it, in words
//! that a model can mend; what an issue will say, and the hash that a person confirms. Plain data
//! and pure functions.
//! Never creates anything, and never decides who may.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{DraftId, JobId, RepoId, RepoName, Subject};
use crate::job::word_enum;

mod check;
mod render;
mod similar;
#[cfg(test)]
mod tests;

pub use render::render;
pub use similar::{ALMOST_THE_SAME, WORTH_A_LOOK, queries, similarity};

/// What an issue is about. Each kind has its own sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[allow(missing_docs)] // a description would make the schema a union, which servers refuse
    #[serde(alias = "defect")]
    Bug,
    #[allow(missing_docs)]
    #[serde(alias = "enhancement")]
    Feature,
    #[allow(missing_docs)]
    #[serde(alias = "task", alias = "refactor", alias = "docs")]
    Chore,
    #[allow(missing_docs)]
    #[serde(alias = "infrastructure", alias = "ci", alias = "build")]
    Infra,
    #[allow(missing_docs)]
    #[serde(alias = "vulnerability")]
    Security,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Bug => "bug",
            Kind::Feature => "feature",
            Kind::Chore => "chore",
            Kind::Infra => "infra",
            Kind::Security => "security",
        }
    }

    /// Whether nobody but the maintainers may read it.
    pub fn is_secret(self) -> bool {
        self == Kind::Security
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One draft, as its writer gave it. What was observed, what is expected and what is only supposed
/// stand in fields of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// `bug`, `feature`, `chore`, `infra` or `security`.
    #[serde(alias = "type")]
    pub kind: Kind,
    /// One line that names the problem or the goal.
    pub title: String,
    /// Bug, security: versions, system, configuration in which it was seen.
    #[serde(default)]
    pub environment: String,
    /// Bug: the steps that show it, one each, from a fresh checkout.
    #[serde(default, alias = "steps")]
    pub reproduction: Vec<String>,
    /// What was seen, each with its evidence. No opinion, no guess.
    #[serde(default)]
    pub observed: Vec<Observation>,
    /// What should be the case instead.
    #[serde(default)]
    pub expected: Vec<String>,
    /// What might be the reason or a way to mend it: everything that was not seen.
    #[serde(default, alias = "hypothesis")]
    pub hypotheses: Vec<String>,
    /// Bug, security: who or what suffers, and how badly.
    #[serde(default)]
    pub impact: String,
    /// Security: `low`, `medium`, `high` or `critical`.
    #[serde(default)]
    pub severity: String,
    /// Feature, chore, infra: how things are today and why that is not enough.
    #[serde(default)]
    pub context: String,
    /// Feature, chore, infra: the one state to reach, in one sentence.
    #[serde(default)]
    pub goal: String,
    /// What belongs to it.
    #[serde(default)]
    pub scope: Vec<String>,
    /// Feature, chore, infra: what does not belong to it.
    #[serde(default)]
    pub non_goals: Vec<String>,
    /// What has to be true for the issue to be closed; each can be checked with yes or no.
    #[serde(default, alias = "acceptance")]
    pub acceptance_criteria: Vec<String>,
    /// How that is checked: commands, tests, steps.
    #[serde(default, alias = "validation_plan")]
    pub validation: Vec<String>,
    /// Feature, chore, infra: what it waits for and what can go wrong; say so if there is nothing.
    #[serde(default, alias = "risks")]
    pub dependencies_and_risks: Vec<String>,
    /// Labels that exist in the repository; others are dropped.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Title of an earlier draft that this one is a part of; empty if it stands by itself.
    #[serde(default)]
    pub part_of: String,
}

/// Something that was seen, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// What was seen.
    #[serde(alias = "observation", alias = "text")]
    pub statement: String,
    /// The file, with its line as in `src/a.rs:12`.
    #[serde(default, alias = "path")]
    pub file: String,
    /// The function, type or setting.
    #[serde(default)]
    pub symbol: String,
    /// The command that shows it.
    #[serde(default)]
    pub command: String,
    /// The lines of output that show it.
    #[serde(default, alias = "output")]
    pub log: String,
}

impl Observation {
    /// Whether it says where it was seen.
    pub fn has_evidence(&self) -> bool {
        [&self.file, &self.symbol, &self.command, &self.log]
            .iter()
            .any(|part| !part.trim().is_empty())
    }
}

/// A rule of the contract that a draft breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub words: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.words)
    }
}

impl Draft {
    /// Every rule of the contract that it breaks. `labels` are those of the repository, where they
    /// are known.
    pub fn check(&self, labels: Option<&[String]>) -> Vec<Problem> {
        check::check(self, labels)
    }

    /// The draft with each text changed.
    #[must_use]
    pub fn cleaned(mut self, clean: &dyn Fn(&str) -> String) -> Self {
        let texts = [
            &mut self.title,
            &mut self.environment,
            &mut self.impact,
            &mut self.severity,
            &mut self.context,
            &mut self.goal,
            &mut self.part_of,
        ];
        let lists = [
            &mut self.reproduction,
            &mut self.expected,
            &mut self.hypotheses,
            &mut self.scope,
            &mut self.non_goals,
            &mut self.acceptance_criteria,
            &mut self.validation,
            &mut self.dependencies_and_risks,
            &mut self.labels,
        ];
        let seen = self.observed.iter_mut().flat_map(|seen| {
            let Observation {
                statement,
                file,
                symbol,
                command,
                log,
            } = seen;
            [statement, file, symbol, command, log]
        });
        let all = texts
            .into_iter()
            .chain(lists.into_iter().flat_map(|list| list.iter_mut()))
            .chain(seen);
        for text in all {
            *text = clean(text).trim().to_owned();
        }
        self
    }
}

/// What is offered and created as one: a draft, or an epic with its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The draft, or the epic.
    pub draft: Draft,
    /// Its parts, in order; empty for a single issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Draft>,
}

impl Proposal {
    /// Whether anything in it is only for the maintainers.
    pub fn is_secret(&self) -> bool {
        self.draft.kind.is_secret() || self.parts.iter().any(|part| part.kind.is_secret())
    }
}

/// Drafts of one run as proposals: parts go to the draft that they name.
pub fn proposals(drafts: &[Draft]) -> Vec<Proposal> {
    let mut proposals: Vec<Proposal> = Vec::new();
    for draft in drafts {
        let whole = proposals
            .iter_mut()
            .find(|other| !draft.part_of.is_empty() && same_title(&other.draft.title, &draft.part_of));
        match whole {
            Some(whole) => whole.parts.push(draft.clone()),
            None => proposals.push(Proposal {
                draft: draft.clone(),
                parts: Vec::new(),
            }),
        }
    }
    proposals
}

/// Whether two titles are the same but for case and spaces.
pub fn same_title(one: &str, other: &str) -> bool {
    let words = |title: &str| title.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    words(one) == words(other)
}

/// Exactly what will stand on GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueText {
    /// Title.
    pub title: String,
    /// Body, without the hidden marker.
    pub body: String,
    /// Labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Sub-issues of an epic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<IssueText>,
}

impl IssueText {
    /// SHA-256, in hex, of what will be created and where: repository, and of the issue and each
    /// sub-issue the title, the body, the labels in order of the alphabet and the parent. What a
    /// person confirms is this hash. Lengths stand before the texts, so that nothing can move from
    /// one field to the next.
    pub fn hash(&self, repo: RepoId) -> String {
        let mut hash = Sha256::new();
        hash.update(b"forgehand issue draft v1\0");
        hash.update(repo.0.to_be_bytes());
        self.add_to(&mut hash, "");
        for part in &self.parts {
            part.add_to(&mut hash, &self.title);
        }
        hex::encode(hash.finalize())
    }

    fn add_to(&self, hash: &mut Sha256, parent: &str) {
        let mut labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        labels.sort_unstable();
        let fields = [self.title.as_str(), &self.body, parent];
        for field in fields.into_iter().chain(labels) {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field.as_bytes());
        }
        hash.update(u64::MAX.to_be_bytes());
    }
}

/// As many characters of a hash as people compare.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

/// An issue or pull request that may be about the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its number.
    pub number: u64,
    /// Its title, without secrets.
    pub title: String,
    /// Whether it is a pull request.
    pub is_pull: bool,
    /// Whether it is open.
    pub is_open: bool,
    /// How alike both are, 0 to 100.
    pub score: u8,
    /// The search that found it.
    pub query: String,
}

word_enum! {
    /// What became of a stored draft.
    DraftState, "draft state" {
        /// It can be created.
        Offered = "offered",
        /// It is an issue now.
        Created = "created",
        /// A later draft took its place.
        Withdrawn = "withdrawn",
    }
}

/// What a run offers people to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOffer {
    /// Its id.
    pub id: DraftId,
    /// What the model gave, without secrets.
    pub proposal: Proposal,
    /// Exactly what will be created.
    pub issue: IssueText,
    /// Its hash, see [`IssueText::hash`].
    pub hash: String,
    /// Whether people can read all of it where it is offered.
    pub is_shown: bool,
}

/// A draft as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Its id.
    pub id: DraftId,
    /// The job whose run gave it.
    pub job: JobId,
    /// The repository, by number.
    pub repo_id: RepoId,
    /// The repository, by name when it was offered.
    pub repo: RepoName,
    /// Where it was offered.
    pub subject: Subject,
    /// Its number there, from 1; never given twice.
    pub number: u32,
    /// What the model gave, without secrets.
    pub proposal: Proposal,
    /// Exactly what will be created.
    pub issue: IssueText,
    /// Its hash when it was offered.
    pub hash: String,
    /// Whether people can read all of it where it was offered.
    pub is_shown: bool,
    /// What became of it.
    pub state: DraftState,
    /// When it was offered.
    pub offered_at: DateTime<Utc>,
    /// Login of the person who confirmed it.
    pub confirmed_by: Option<String>,
    /// When.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// The job of that confirmation.
    pub confirmed_job: Option<JobId>,
    /// What GitHub calls the result: the number of an issue, or the id of an advisory.
    pub created_as: Option<String>,
}

impl Offer {
    /// Whether what is stored is still what was offered.
    pub fn is_whole(&self) -> bool {
        self.issue.hash(self.repo_id) == self.hash
    }
}
