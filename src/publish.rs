//! Publishing: what a finished run becomes on GitHub, first as rows, then as calls. Called by
//! `worker`. The only module that writes to GitHub, and the only one that asks for a token that
//! can. Never runs the model, and never claims what the remote does not show.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Clock;
use crate::effect::{EffectBody, NewEffect};
use crate::git::{Git, Signature};
use crate::github::{Access, App, GitHub, RepoClient};
use crate::ids::JobId;
use crate::job::{Job, JobError, Outcome};
use crate::ledger::Caps;
use crate::phrase::Language;
use crate::phrase::money::Used;
use crate::queue::Pulse;
use crate::right::Right;
use crate::secret::Redactor;
use crate::store::{Store, StoreError};

mod ask;
mod body;
mod branch;
mod carry;
mod check;
mod create;
mod dispatch;
mod draft;
mod earlier;
mod fork;
mod join;
mod marker;
mod notice;
mod outcome;
mod plan;
mod remark;
mod remind;
mod review;
mod risk;
mod settle;
mod status;
mod template;
mod threads;
mod title;
mod waiting;
mod wind_up;

pub use ask::{ask_people, ask_waiting, asking};
pub use body::Checks;
pub use carry::{CARRY, Carry, FinishedMerge, put_beside};
pub use check::{begin_check, rerun_checks};
pub use create::plan_create;
pub use dispatch::{acknowledge, dispatch};
pub use draft::offer_drafts;
pub use earlier::ended_before;
pub use fork::{ByPatch, way_to};
pub use join::{MergePlan, plan_merge};
pub use marker::MarkerKey;
pub use plan::{Goal, Planned, Result, ending, plan};
pub use remind::remind_waiting;
pub use risk::risks_of;
pub use settle::settle_ended;
pub use status::{Log, Shown, StatusView, render_status, update_status};
pub use waiting::{acknowledge_waiting, announce_waiting, move_up};
pub use wind_up::{Unfinished, wind_up};

/// Everything publishing needs from outside. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    /// The database.
    pub store: Store,
    /// GitHub.
    pub github: GitHub,
    /// The App, whose bot our commits and comments are by.
    pub app: App,
    /// Host git.
    pub git: Git,
    /// Folder for mirrors and imports.
    pub state_dir: PathBuf,
    /// Signs our markers.
    pub marker: MarkerKey,
    /// The word commands begin with, which nothing we write may begin a line with.
    pub command: String,
    /// Whether security findings may become private advisories.
    pub security_advisories: bool,
    /// What the program's own words are written in.
    pub language: Language,
    /// What work may cost.
    pub caps: Caps,
    /// C: longest time of one call.
    pub call_timeout: Duration,
    /// Least time between two writes of one installation.
    pub write_interval: Duration,
    /// V: longest time until a created object shows in lists.
    pub list_lag: Duration,
    /// The time.
    pub clock: Clock,
    /// Takes secrets out of texts.
    pub redactor: Redactor,
}

impl Publisher {
    /// The same for a job in hand: nothing is sent or asked once the right to is over.
    #[must_use]
    pub fn only_while(mut self, right: &Right) -> Self {
        self.github = self.github.only_while(right);
        self.git = self.git.only_while(right);
        self
    }

    /// A client that may write to the job's repository.
    pub fn client(&self, job: &Job) -> RepoClient {
        self.github
            .repo(job.installation, job.repo_id, job.repo.clone(), Access::Write)
    }

    /// The same for a job in hand: nothing is sent once the lease may have ended.
    pub fn client_while(&self, job: &Job, pulse: &Pulse) -> RepoClient {
        let pulse = pulse.clone();
        self.client(job).only_while(move || pulse.is_alive())
    }

    /// Who our commits are by; the date is the job's, so that the same change is the same commit.
    pub fn signature(&self, job: &Job) -> Signature {
        let name = format!("{}[bot]", self.app.slug);
        Signature {
            email: format!("{name}@users.noreply.github.com"),
            name,
            at: job.created_at,
        }
    }

    /// What the work on the job's issue or pull request may cost and did, where it has a cap.
    ///
    /// # Errors
    /// Of the database.
    pub async fn used(&self, job: &Job) -> std::result::Result<Option<Used>, StoreError> {
        let mut tx = self.store.begin().await?;
        self.caps.of_subject(&mut tx, job, self.clock.now()).await
    }

    /// W: how long after a call of unclear outcome nobody may make the same call again. It may have
    /// waited for its turns, then taken its time, then been on its way for as long again.
    pub fn unclear_wait(&self) -> Duration {
        crate::github::turn_patience(self.call_timeout) * 2 + self.call_timeout * 2 + self.list_lag
    }

    /// Text of ours or of a model as it may be posted: without secrets, links, mentions, images,
    /// commands, and within GitHub's length.
    pub fn safe(&self, text: &str) -> String {
        self.safe_within(text, MAX_SAFE_CHARS)
    }

    /// The same for the first `max_chars` characters of a text. It is cut before it is made safe:
    /// a cut afterwards could leave a block open.
    pub fn safe_within(&self, text: &str, max_chars: usize) -> String {
        let short = crate::text::cap_chars(&self.without_secrets(text), max_chars);
        crate::text::neutralise_markdown(&short, &self.command)
    }

    /// Words for titles and commit messages, which are no Markdown.
    fn plain(&self, text: &str, max_chars: usize) -> String {
        crate::text::cap_chars(&crate::text::plain_words(&self.without_secrets(text)), max_chars)
    }

    /// What is invisible goes first: it could split a secret that shows whole. So could the marks
    /// that stand for it; they go only where they do.
    fn without_secrets(&self, text: &str) -> String {
        let seen = crate::text::visible(text);
        let bare = crate::text::without_marks(&seen);
        let clean = self.redactor.redact(&bare);
        if clean == bare {
            self.redactor.redact(&seen)
        } else {
            clean
        }
    }
}

/// Longest text made safe at once: making it safe can lengthen it fivefold.
const MAX_SAFE_CHARS: usize = crate::text::MAX_COMMENT_CHARS / 5;

/// Name of the checkpoint that holds the bundle of a change.
pub const BUNDLE: &str = "bundle";

/// The key of an effect: unique, and the same after any restart.
fn key(job: &JobId, seq: i64) -> String {
    format!("{job}/{seq}")
}

/// A comment of its own, as a row of the job.
pub fn comment(job: &Job, body: EffectBody) -> NewEffect {
    plan::row(job, plan::seq::COMMENT, body)
}

/// How a job in publishing really ended, given what landed.
///
/// # Errors
/// Of the database.
pub async fn final_outcome(publisher: &Publisher, job: &Job) -> std::result::Result<Outcome, JobError> {
    let mut tx = publisher.store.begin().await?;
    let effects = tx.effects(&job.id).await?;
    let planned = job
        .outcome
        .as_ref()
        .ok_or_else(|| JobError::Fail("the job is publishing without an outcome".to_owned()))?;
    Ok(outcome::outcome_of(
        publisher.language,
        planned,
        &effects,
        plan::at(job, 0),
    ))
}
