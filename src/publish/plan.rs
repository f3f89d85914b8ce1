//! Decides what a finished run becomes: which outcome, which branch, which effects in which
//! order. The commit is computed here, so that its SHA stands in the row before anything is sent.
//! Never writes to GitHub.

use super::branch::{Place, branch_of, place_for};
use super::fork::{self, ByPatch, Offer};
use super::risk::risks_of;
use super::status::Log;
use super::title::Convention;
use super::{Publisher, body, key, remark, review, status, threads};
use crate::agent::Stop;
use crate::effect::{EffectBody, NewEffect, PushTo};
use crate::git::Import;
use crate::github::GitHubError;
use crate::ids::{BranchName, CommitSha, IssueNumber, Subject};
use crate::job::{Job, JobError, Outcome, Trigger};
use crate::phrase::{Language, plan as words, policy, pull as phrase, reason, risk};
use crate::repo_config::PullRules;
use crate::text;
use crate::tool::Finish;

/// Positions of effects within one round of a job. Gaps leave room for kinds to come.
pub(super) mod seq {
    pub const REACTION: i64 = 1;
    pub const STATUS: i64 = 2;
    pub const BEGIN_CHECK: i64 = 3;
    pub const PUSH: i64 = 10;
    pub const PULL: i64 = 11;
    pub const COMMENT: i64 = 12;
    pub const REVIEW: i64 = 13;
    pub const READY: i64 = 14;
    pub const REVIEWER: i64 = 15;
    /// The issue of a draft; its parts stand one further on each.
    pub const CREATE: i64 = 30;
    /// The parts of an epic, from one further on.
    pub const SUB_ISSUE: i64 = 50;
    pub const CREATED: i64 = 80;
    /// The first check that runs again.
    pub const RERUN: i64 = 85;
    /// The first question is one further on.
    pub const ASK: i64 = 100;
    /// The reply to the first review thread; each thread has two positions, the second resolves it.
    pub const THREADS: i64 = 500;
    pub const REQUEST_REVIEW: i64 = 900;
    pub const FINAL_STATUS: i64 = 980;
    pub const REMOVE_LABEL: i64 = 981;
    pub const SETTLE_CHECK: i64 = 982;
    /// A job that a person starts again gets fresh positions.
    pub const ROUND: i64 = 1000;
}

/// A row position in the job's current round.
pub(super) fn at(job: &Job, position: i64) -> i64 {
    i64::from(job.round) * seq::ROUND + position
}

/// What a run came to, in the words of publishing.
pub struct Result<'a> {
    /// How the agent ended.
    pub stop: &'a Stop,
    /// Who or what stopped it, where it was stopped.
    pub why_stopped: &'a str,
    /// Its last words when it did not finish.
    pub last_words: &'a str,
    /// The checked import, if files differ.
    pub import: Option<&'a Import>,
    /// Its difference to the base, capped.
    pub diff: &'a str,
    /// Rules that the change breaks.
    pub violations: &'a [String],
    /// Verification as the program saw it.
    pub checks: body::Checks<'a>,
    /// Where it goes.
    pub target: Goal,
}

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// A new branch and a pull request that closes the issue.
    NewPull {
        /// Target branch.
        base: BranchName,
        /// The issue's number, where there is one, and the title of the issue or task.
        issue: (Option<IssueNumber>, String),
        /// How it is opened.
        rules: PullRules,
    },
    /// Commits on a pull request's branch.
    ExistingPull {
        /// Its branch.
        branch: BranchName,
        /// Its head when work began.
        head: CommitSha,
        /// The fork that has the branch, where it is one that we may push to, and who gets as a patch
        /// what is not finished.
        fork: Option<(PushTo, ByPatch)>,
    },
    /// A patch for a pull request whose branch we may not push to.
    Patch {
        /// To whom, and why.
        to: ByPatch,
        /// The head when work began.
        head: CommitSha,
    },
}

/// Rows to be inserted with the move to `publishing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The outcome if every effect lands.
    pub outcome: Outcome,
    /// The effects.
    pub effects: Vec<NewEffect>,
    /// What is pushed, where it is not what the run left.
    pub bundle: Option<Vec<u8>>,
}

impl Planned {
    /// The same, and the status comment shows drafts of issues in the end; `drafts` is safe already.
    #[must_use]
    pub fn showing(mut self, shown: String) -> Self {
        for effect in &mut self.effects {
            if let EffectBody::FinalStatus { drafts, .. } = &mut effect.body {
                drafts.clone_from(&shown);
            }
        }
        self
    }
}

/// Plans the publishing of a run's result, with what is said in review threads.
///
/// # Errors
/// When git or GitHub cannot be asked.
pub async fn plan(publisher: &Publisher, job: &Job, result: Result<'_>) -> std::result::Result<Planned, JobError> {
    let said = threads::said(publisher, job, &result);
    let mut planned = plan_work(publisher, job, result).await?;
    planned.effects.extend(said);
    Ok(planned)
}

async fn plan_work(publisher: &Publisher, job: &Job, result: Result<'_>) -> std::result::Result<Planned, JobError> {
    match (result.stop, &result.target) {
        (Stop::Finished(Finish::Answered { answer }), _) => {
            return Ok(answered(job, publisher.safe_within(answer, MAX_ANSWER_CHARS)));
        }
        (Stop::Finished(Finish::Planned(plan)), _) => {
            let plan = status::plan_in_markdown(plan, publisher.language, &|text| publisher.safe(text));
            let how = words::begin_it(publisher.language, &publisher.command);
            return Ok(answered(job, format!("{plan}\n{how}\n")));
        }
        (Stop::Finished(Finish::Reviewed(review)), Goal::ExistingPull { head, .. } | Goal::Patch { head, .. }) => {
            return review::plan_review(publisher, job, review, head).await;
        }
        _ => {}
    }
    let Some(import) = result.import else {
        return Ok(ending(job, without_change(publisher.language, &result)));
    };
    if let Some(kept) = leak(publisher, job, import).await? {
        return Ok(kept);
    }
    match (result.stop, worth_a_pull(publisher.language, &result)) {
        (
            Stop::Finished(Finish::Done {
                title,
                summary,
                risks,
                not_done,
                unfinished,
                ..
            }),
            Ok(()),
        ) => {
            let notice = edited_meanwhile(publisher, job).await?;
            let noticed = noticed(publisher, &result, import);
            let words = body::Words {
                noticed: &noticed,
                title,
                summary,
                risks,
                not_done: &what_is_left(publisher.language, not_done, unfinished),
                notice: notice.as_deref(),
            };
            plan_change(publisher, job, &result, import, &words).await
        }
        (Stop::Finished(Finish::NothingToDo { reason, .. }), _) => {
            Ok(ending(job, Outcome::NothingToDo { reason: reason.clone() }))
        }
        (Stop::Finished(Finish::Refused { reason }), _) => Ok(ending(job, Outcome::Refused { reason: reason.clone() })),
        (stop, why) => {
            let why = why.err().unwrap_or_default();
            let reason = if result.last_words.is_empty() {
                why
            } else {
                reason::last_words(publisher.language, &why, &text::cap(result.last_words, 2_000))
            };
            match &result.target {
                Goal::Patch { to, .. }
                | Goal::ExistingPull {
                    fork: Some((_, to)), ..
                } => {
                    let message = body::message(
                        publisher,
                        &reason::unfinished_work(publisher.language, &job.subject.to_string()),
                        &reason,
                    );
                    let offer = Offer {
                        import,
                        message: &message,
                        to,
                        lead: "",
                        outcome: unfinished(stop, reason, None),
                    };
                    fork::offer(publisher, job, offer).await
                }
                _ => keep_work(publisher, job, import, stop, reason).await,
            }
        }
    }
}

/// Most of a change that is looked through for secrets.
const MAX_SEARCHED_BYTES: usize = 16 * 1024 * 1024;

/// How a run ends whose change must not leave this machine: no agent ever has a secret of the
/// service, so one that is in its work came from somewhere that nobody thought of.
pub(super) async fn leak(
    publisher: &Publisher,
    job: &Job,
    import: &Import,
) -> std::result::Result<Option<Planned>, JobError> {
    let diff = publisher.git.diff(import, MAX_SEARCHED_BYTES).await?;
    let holds = |text: &str| publisher.redactor.finds_live(text) || publisher.redactor.finds_live(&text::visible(text));
    if !holds(&diff) && !import.changes.iter().any(|change| holds(&change.path)) {
        return Ok(None);
    }
    tracing::warn!(target: "forgehand::security", job = %job.id, "a change holds a secret of this service; it is not published");
    let reason = reason::holds_a_secret(publisher.language).to_owned();
    Ok(Some(ending(job, Outcome::GaveUp { reason, branch: None })))
}

/// Rows of a job that ends without a change: the status comment settles and the label goes.
pub fn ending(job: &Job, outcome: Outcome) -> Planned {
    ending_with(job, outcome, String::new())
}

/// The same, with what follows the headline where the work lands.
pub(super) fn ending_with(job: &Job, outcome: Outcome, details: String) -> Planned {
    let mut effects = Vec::new();
    settle(job, &mut effects, details);
    Planned {
        outcome,
        effects,
        bundle: None,
    }
}

/// What the program noticed of a change.
fn noticed(publisher: &Publisher, result: &Result<'_>, import: &Import) -> Vec<String> {
    let mut noticed = risks_of(publisher.language, result.diff);
    noticed.splice(0..0, too_large(publisher, &result.target, import));
    noticed
}

/// What the agent left, with the commands that were ended with it.
fn what_is_left(language: Language, not_done: &str, unfinished: &[String]) -> String {
    match unfinished {
        [] => not_done.to_owned(),
        commands => format!("{}\n\n{not_done}", phrase::cut_off(language, commands)),
    }
}

/// Most bytes of the output of a command that decides, in a reason.
const MAX_OUTPUT_BYTES: usize = 1_500;
/// Most characters of an answer; made safe, it still fits into a comment.
const MAX_ANSWER_CHARS: usize = 10_000;

/// Rows of a job that ends with an answer, which stands in the status comment.
fn answered(job: &Job, details: String) -> Planned {
    ending_with(job, Outcome::Answered, details)
}

fn without_change(language: Language, result: &Result<'_>) -> Outcome {
    let is_finished = matches!(
        result.stop,
        Stop::Finished(Finish::Done { .. } | Finish::NothingToDo { .. })
    );
    if is_finished && result.checks.is_accepted() == Some(false) {
        return not_accepted(language, result);
    }
    match result.stop {
        Stop::Finished(Finish::Refused { reason }) => Outcome::Refused { reason: reason.clone() },
        Stop::Finished(Finish::NothingToDo { reason, .. }) => Outcome::NothingToDo { reason: reason.clone() },
        _ if !result.violations.is_empty() => {
            let reason = reason::against_rules(language, &policy::list(language, result.violations));
            Outcome::GaveUp { reason, branch: None }
        }
        // They are handled before, on whatever they are about.
        Stop::Finished(Finish::Answered { .. } | Finish::Planned(_) | Finish::Reviewed(_)) => Outcome::Answered,
        Stop::Finished(Finish::Done { summary, .. }) => Outcome::NothingToDo {
            reason: reason::no_difference(language, summary),
        },
        Stop::Cancelled => Outcome::Stopped {
            reason: reason::before_any_change(language, result.why_stopped),
            branch: None,
        },
        Stop::Budget(limit) => Outcome::GaveUp {
            reason: reason::nothing_changed_by_then(language, limit),
            branch: None,
        },
        Stop::Stuck(why) => Outcome::GaveUp {
            reason: why.clone(),
            branch: None,
        },
        Stop::NeedsInput(_) => Outcome::GaveUp {
            reason: reason::needs_input(language).to_owned(),
            branch: None,
        },
    }
}

fn not_accepted(language: Language, result: &Result<'_>) -> Outcome {
    Outcome::GaveUp {
        reason: not_accepted_in_words(language, result),
        branch: None,
    }
}

/// The command that decides, with how it ended and the end of what it said: whoever tries again needs it.
fn not_accepted_in_words(language: Language, result: &Result<'_>) -> String {
    let command = result.checks.acceptance.unwrap_or_default();
    let output = result.checks.last(command).map_or("", |check| check.output_tail.trim());
    reason::not_accepted(
        language,
        &text::code_span(command),
        &text::cap_middle(output, MAX_OUTPUT_BYTES),
    )
}

/// A finished change that breaks a check which passed before is kept, but not offered.
fn worth_a_pull(language: Language, result: &Result<'_>) -> std::result::Result<(), String> {
    match result.stop {
        Stop::Finished(_) => match (result.checks.is_accepted(), result.checks.regressions().as_slice()) {
            (Some(true), _) | (None, []) => Ok(()),
            (Some(false), _) => Err(not_accepted_in_words(language, result)),
            (None, broken) => Err(reason::broken_checks(language, &broken.join(", "))),
        },
        Stop::Budget(limit) => Err(limit.clone()),
        Stop::Stuck(why) => Err(why.clone()),
        // Where nobody can be asked, a run that needs an answer ends with its work kept.
        Stop::NeedsInput(_) => Err(reason::needs_input(language).to_owned()),
        Stop::Cancelled => Err(result.why_stopped.to_owned()),
    }
}

async fn plan_change(
    publisher: &Publisher,
    job: &Job,
    result: &Result<'_>,
    import: &Import,
    words: &body::Words<'_>,
) -> std::result::Result<Planned, JobError> {
    let title = match &result.target {
        Goal::NewPull { base, .. } => {
            let convention = convention_of(publisher, job, base).await;
            body::title_like(publisher, words.title, &convention, import)
        }
        _ => body::title(publisher, words.title),
    };
    let message = body::message(publisher, &title, words.summary);
    let mut sha = publisher
        .git
        .commit(import, &import.base, &message, &publisher.signature(job))
        .await?;
    let mut effects = Vec::new();
    let mut details = String::new();
    let branch = match &result.target {
        Goal::NewPull {
            base,
            issue: (number, issue_title),
            rules,
        } => {
            let Place { branch, expect, opened } =
                place_for(publisher, job, branch_of(job, *number, issue_title)).await?;
            let is_opened = opened.is_some();
            sha = opened.unwrap_or(sha);
            effects.push(row(
                job,
                seq::PUSH,
                push(&branch, None, expect.as_ref(), import, &sha, message),
            ));
            let log = Log::of(publisher, &job.id).await?;
            let used = publisher.used(job).await?;
            let frame = body::Frame {
                issue: &match number {
                    Some(number) => phrase::issue(publisher.language, &number.to_string(), rules.closes),
                    None => body::planned_by(publisher, job),
                },
                template: rules.template.as_deref(),
                footer: &body::footer(publisher, job, import, log.events(), used.as_ref()),
            };
            let is_large = too_large(publisher, &result.target, import).is_some();
            let open = EffectBody::OpenPull {
                branch: branch.clone(),
                base: base.clone(),
                title,
                body: body::pull(publisher, import, words, &result.checks, &frame),
                draft: rules.draft || is_large,
            };
            effects.push(row(job, seq::PULL, open));
            if !is_opened {
                let is_ready = rules.auto_ready && rules.draft && !is_large && result.checks.all_passed();
                effects.extend(after_opening(job, is_ready));
            }
            branch
        }
        Goal::ExistingPull { branch, head, fork } => {
            let to = fork.as_ref().map(|(to, _)| to);
            let push = push(branch, to, Some(head), import, &sha, message);
            effects.push(row(job, seq::PUSH, push));
            details = body::follow_up(publisher, import, words, &result.checks);
            branch.clone()
        }
        Goal::Patch { to, .. } => {
            let offer = Offer {
                import,
                message: &message,
                to,
                lead: &body::follow_up(publisher, import, words, &result.checks),
                outcome: Outcome::Answered,
            };
            return fork::offer(publisher, job, offer).await;
        }
    };
    settle(job, &mut effects, details);
    Ok(Planned {
        outcome: Outcome::Pushed { branch, sha },
        effects,
        bundle: None,
    })
}

/// What follows a pull request that is opened now.
fn after_opening(job: &Job, is_ready: bool) -> impl Iterator<Item = NewEffect> {
    let ready = is_ready.then(|| row(job, seq::READY, EffectBody::MarkReady));
    let asks = !job.request.trigger.is_operators();
    let reviewer = asks.then(|| {
        let login = job.request.actor.login.clone();
        row(job, seq::REVIEWER, EffectBody::RequestReviewer { login })
    });
    ready.into_iter().chain(reviewer)
}

/// How many of the last titles show a convention.
const TITLES_LOOKED_AT: usize = 30;

/// How the repository writes its titles. A title is worth no failure: without an answer it stays as
/// the agent wrote it.
async fn convention_of(publisher: &Publisher, job: &Job, base: &BranchName) -> Convention {
    let titles = publisher.client(job).merged_titles(base, TITLES_LOOKED_AT).await;
    Convention::of(&titles.unwrap_or_else(|error| {
        tracing::info!(%error, "the titles of merged pull requests are not known");
        Vec::new()
    }))
}

/// What is said of a new pull request that is larger than the repository wants.
fn too_large(publisher: &Publisher, target: &Goal, import: &Import) -> Option<String> {
    let Goal::NewPull { rules, .. } = target else {
        return None;
    };
    let (lines, files) = remark::size_of(&import.changes);
    let is_large = lines > rules.max_size.0 || files as u64 > rules.max_size.1;
    is_large.then(|| risk::too_large(publisher.language, (lines, files), rules.max_size))
}

/// Unfinished work goes to a branch of its own, without a pull request.
pub(super) async fn keep_work(
    publisher: &Publisher,
    job: &Job,
    import: &Import,
    stop: &Stop,
    reason: String,
) -> std::result::Result<Planned, JobError> {
    if let Some(kept) = leak(publisher, job, import).await? {
        return Ok(kept);
    }
    let name = match (&job.subject, &job.pins.title) {
        (Subject::Issue(number), Some(title)) => BranchName::for_issue(*number, title),
        (subject, _) => BranchName::for_task(&subject.to_string()),
    };
    let Place { branch, expect, .. } = place_for(publisher, job, name.with_suffix("unfinished")).await?;
    let message = body::message(
        publisher,
        &reason::unfinished_work(publisher.language, &job.subject.to_string()),
        &reason,
    );
    let sha = publisher
        .git
        .commit(import, &import.base, &message, &publisher.signature(job))
        .await?;
    let mut effects = Vec::new();
    effects.push(row(
        job,
        seq::PUSH,
        push(&branch, None, expect.as_ref(), import, &sha, message),
    ));
    settle(job, &mut effects, String::new());
    Ok(Planned {
        outcome: unfinished(stop, reason, Some(branch)),
        effects,
        bundle: None,
    })
}

/// The outcome of work that did not come to its end.
pub(super) fn unfinished(stop: &Stop, reason: String, branch: Option<BranchName>) -> Outcome {
    match stop {
        Stop::Cancelled => Outcome::Stopped { reason, branch },
        Stop::Finished(_) | Stop::Budget(_) | Stop::Stuck(_) | Stop::NeedsInput(_) => {
            Outcome::GaveUp { reason, branch }
        }
    }
}

/// P08b: the work was done for the text as it stood when it was asked for. Whoever reads the result
/// is told when that is not the text any more.
async fn edited_meanwhile(publisher: &Publisher, job: &Job) -> std::result::Result<Option<String>, JobError> {
    let Some(number) = job.subject.number() else {
        return Ok(None);
    };
    if matches!(job.request.trigger, Trigger::Checks { .. }) {
        return Ok(None); // nobody read the text and asked for work on it
    }
    let now = match publisher.client(job).issue(number).await {
        Ok(issue) => issue,
        // Whether there is still something to publish for is seen when it is done.
        Err(GitHubError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_same = job.pins.title.as_deref() == Some(&*now.title) && job.pins.body.as_deref() == Some(&*now.body);
    let asked_at = job.request.triggered_at.format("%Y-%m-%d %H:%M UTC").to_string();
    Ok((!is_same).then(|| phrase::edited(publisher.language, &number.to_string(), &asked_at)))
}

/// The stored change as a commit on a branch, computed already.
fn push(
    branch: &BranchName,
    to: Option<&PushTo>,
    expect: Option<&CommitSha>,
    import: &Import,
    sha: &CommitSha,
    message: String,
) -> EffectBody {
    EffectBody::Push {
        branch: branch.clone(),
        to: to.cloned(),
        expect: expect.cloned(),
        parent: import.base.clone(),
        merged: Vec::new(),
        sha: sha.clone(),
        message,
    }
}

fn settle(job: &Job, effects: &mut Vec<NewEffect>, details: String) {
    if !matches!(job.subject, Subject::Task(_)) {
        // A task has no place for a status: the ledger of unattended work has it.
        let drafts = String::new();
        effects.push(row(job, seq::FINAL_STATUS, EffectBody::FinalStatus { details, drafts }));
    }
    if let (Some(label), Some(number)) = (job.request.trigger.label(), job.subject.number()) {
        effects.push(row(
            job,
            seq::REMOVE_LABEL,
            EffectBody::RemoveLabel {
                number,
                label: label.to_owned(),
            },
        ));
    }
    let opens = |effect: &NewEffect| matches!(effect.body, EffectBody::OpenPull { .. });
    let on_pull = job.kind.changes_code() && matches!(job.subject, Subject::Pull(_));
    if on_pull || effects.iter().any(opens) {
        effects.push(row(job, seq::SETTLE_CHECK, EffectBody::SettleCheck));
    }
}

/// An effect row at a position of the job's round.
pub(super) fn row(job: &Job, position: i64, body: EffectBody) -> NewEffect {
    let seq = at(job, position);
    NewEffect {
        seq,
        dedupe_key: key(&job.id, seq),
        body,
    }
}
