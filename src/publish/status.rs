//! The one status comment of a job, rendered from its log and edited in place until it settles.
//! Called while the work goes on and as the job's last words. Never shows what the log does not
//! hold.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Publisher, dispatch, earlier, outcome, plan, threads};
use crate::effect::{Effect, EffectBody};
use crate::event::{Event, RunEvent, Stage, Totals};
use crate::github::{GitHubError, RepoClient};
use crate::ids::{CommentId, JobId};
use crate::job::{Job, JobError, LeasedJob, Outcome, Trigger};
use crate::money::Usd;
use crate::phrase::money::{self, Used};
use crate::phrase::{Language, status as words};
use crate::question::Question;
use crate::queue::Pulse;
use crate::store::StoreError;
use crate::text;

mod asking;

pub(super) use asking::plan_in_markdown;

/// What a status comment is made from.
pub struct StatusView<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its log.
    pub events: &'a [Event],
    /// How it ended, once it has.
    pub outcome: Option<&'a Outcome>,
    /// How many go before it, while it waits for its turn.
    pub before: Option<u64>,
    /// What follows the headline when the work landed; safe already.
    pub details: &'a str,
    /// What follows the end in any case: drafts of issues; safe already.
    pub drafts: &'a str,
    /// The word that commands begin with.
    pub command: &'a str,
    /// What the work on the issue or pull request may cost and does cost, where it has a cap.
    pub used: Option<Used>,
    /// What the program's own words are written in.
    pub language: Language,
}

/// The stages a person waits through, in order.
const STAGES: [Stage; 7] = [
    Stage::Authorize,
    Stage::Brief,
    Stage::Open,
    Stage::SetUp,
    Stage::Solve,
    Stage::Verify,
    Stage::Publish,
];
/// Most blocked hosts named.
const MAX_BLOCKED: usize = 3;
/// Most notes shown.
const MAX_NOTES: usize = 5;

/// The text of the comment when it is created.
pub(super) fn first_words(publisher: &Publisher, job: &Job) -> String {
    before_work(publisher, job, None)
}

/// The whole text of the comment of a job that waits for its turn behind others.
pub(super) fn queued(publisher: &Publisher, job: &Job, before: u64) -> String {
    with_marker(publisher, job, before_work(publisher, job, Some(before)))
}

fn before_work(publisher: &Publisher, job: &Job, before: Option<u64>) -> String {
    render_status(
        &StatusView {
            job,
            events: &[],
            outcome: None,
            before,
            details: "",
            drafts: "",
            command: &publisher.command,
            used: None,
            language: publisher.language,
        },
        &|text| publisher.safe(text),
    )
}

/// The whole text of the comment as the job's log has it now, for a job that nobody holds.
pub(super) async fn present(publisher: &Publisher, job: &Job, outcome: Option<&Outcome>) -> Result<String, StoreError> {
    let log = Log::of(publisher, &job.id).await?;
    let mut tx = publisher.store.begin().await?;
    let effects = tx.effects(&job.id).await?;
    drop(tx);
    // What the row of the last words had to say is said by whoever says them.
    let (details, drafts) = last_words_of(&effects, plan::at(job, 0));
    let details = threads::before(publisher.language, &effects, plan::at(job, 0), details);
    let view = StatusView {
        job,
        events: log.events(),
        outcome,
        before: None,
        details: &details,
        drafts,
        command: &publisher.command,
        used: publisher.used(job).await?,
        language: publisher.language,
    };
    let body = render_status(&view, &|text| publisher.safe(text));
    Ok(with_ending(publisher, job, with_marker(publisher, job, body), outcome))
}

/// Edits the comment to the present state of the log, unless it says just that already.
///
/// # Errors
/// When the log cannot be read or GitHub does not take the edit; the next one makes up for it.
pub async fn update_status(
    publisher: &Publisher,
    leased: &LeasedJob,
    pulse: &Pulse,
    shown: &mut Shown,
) -> Result<(), JobError> {
    shown.log.read_on(publisher, &leased.job.id).await?;
    let id = match shown.comment {
        Some(id) => id,
        None => {
            let mut tx = publisher.store.begin().await?;
            let effects = tx.effects(&leased.job.id).await?;
            drop(tx);
            let Some(id) = dispatch::status_comment_id(&effects) else {
                return Ok(());
            };
            *shown.comment.insert(id)
        }
    };
    let view = StatusView {
        job: &leased.job,
        events: shown.log.events(),
        outcome: None,
        before: None,
        details: "",
        drafts: "",
        command: &publisher.command,
        used: publisher.used(&leased.job).await?,
        language: publisher.language,
    };
    let body = with_marker(
        publisher,
        &leased.job,
        render_status(&view, &|text| publisher.safe(text)),
    );
    if body == shown.body {
        return Ok(());
    }
    let client = publisher.client_while(&leased.job, pulse);
    client.update_comment(id, &body).await?;
    shown.body = body;
    Ok(())
}

/// What the status comment says, so that it is only edited when there is something new.
#[derive(Default)]
pub struct Shown {
    log: Log,
    comment: Option<CommentId>,
    body: String,
}

/// Events read in one statement, so that nobody else waits long for the database.
const PAGE: u32 = 500;

/// A job's log as far as people see it: without outputs, which are most of it.
#[derive(Default)]
pub struct Log {
    events: Vec<Event>,
    seen: i64,
}

impl Log {
    /// The whole log of a job.
    ///
    /// # Errors
    /// Of the database.
    pub async fn of(publisher: &Publisher, job: &JobId) -> Result<Self, StoreError> {
        let mut log = Self::default();
        log.read_on(publisher, job).await?;
        Ok(log)
    }

    /// Adds what happened since.
    async fn read_on(&mut self, publisher: &Publisher, job: &JobId) -> Result<(), StoreError> {
        loop {
            let mut tx = publisher.store.begin().await?;
            let page = tx.events(job, self.seen, PAGE).await?;
            drop(tx);
            let Some(last) = page.last() else { return Ok(()) };
            let is_last = page.len() < PAGE as usize;
            self.seen = last.seq;
            self.events.extend(page.into_iter().filter_map(without_output));
            if is_last {
                return Ok(());
            }
        }
    }

    /// Its events, oldest first.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

fn without_output(mut event: Event) -> Option<Event> {
    match &mut event.body {
        RunEvent::ToolStarted { .. }
        | RunEvent::ToolCalled { .. }
        | RunEvent::SetUpRan { .. }
        | RunEvent::Checked { .. } => return None,
        RunEvent::ModelReplied { text, reasoning, .. } => {
            text.clear();
            reasoning.clear();
        }
        _ => {}
    }
    Some(event)
}

/// What the last edit adds to the log.
pub(super) struct LastWords<'a> {
    /// What follows the headline when the work landed.
    pub(super) details: &'a str,
    /// Drafts of issues.
    pub(super) drafts: &'a str,
}

/// What the last words of a round were to be, as its row has them.
fn last_words_of(effects: &[Effect], round_start: i64) -> (&str, &str) {
    let last = effects.iter().rev().filter(|effect| effect.seq >= round_start);
    last.filter_map(|effect| match &effect.body {
        EffectBody::FinalStatus { details, drafts } => Some((details.as_str(), drafts.as_str())),
        _ => None,
    })
    .next()
    .unwrap_or_default()
}

/// The last edit. Its outcome is computed from what landed.
pub(super) async fn update_final(
    publisher: &Publisher,
    leased: &LeasedJob,
    client: &RepoClient,
    id: CommentId,
    end: &LastWords<'_>,
) -> Result<(), GitHubError> {
    let unclear = |error: JobError| GitHubError::Unclear {
        what: "the job's log".to_owned(),
        detail: format!("{error:?}"),
    };
    let read = async {
        let log = Log::of(publisher, &leased.job.id).await?;
        let used = publisher.used(&leased.job).await?;
        let mut tx = publisher.store.begin().await?;
        Ok((log, used, tx.effects(&leased.job.id).await?))
    };
    let (log, used, effects) = read.await.map_err(unclear)?;
    let outcome = leased
        .job
        .outcome
        .as_ref()
        .map(|planned| outcome::outcome_of(publisher.language, planned, &effects, plan::at(&leased.job, 0)));
    let details = threads::before(publisher.language, &effects, plan::at(&leased.job, 0), end.details);
    let view = StatusView {
        job: &leased.job,
        events: log.events(),
        outcome: outcome.as_ref(),
        before: None,
        details: &details,
        drafts: end.drafts,
        command: &publisher.command,
        used,
        language: publisher.language,
    };
    let body = with_marker(
        publisher,
        &leased.job,
        render_status(&view, &|text| publisher.safe(text)),
    );
    let body = with_ending(publisher, &leased.job, body, outcome.as_ref());
    client.update_comment(id, &body).await.map(|_| ())
}

fn with_ending(publisher: &Publisher, job: &Job, body: String, outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(outcome) => format!("{body}\n{}", publisher.marker.ending(&earlier::ending(job, outcome))),
        None => body,
    }
}

fn with_marker(publisher: &Publisher, job: &Job, body: String) -> String {
    let marker = publisher.marker.marker(&job.id, plan::at(job, plan::seq::STATUS));
    format!("{body}\n\n{marker}")
}

/// The Markdown of a status comment. `safe` is applied to everything that people or models wrote.
pub fn render_status(view: &StatusView<'_>, safe: &dyn Fn(&str) -> String) -> String {
    let waits = open_question(view.events).filter(|_| view.outcome.is_none());
    let mut parts = vec![match waits {
        Some((question, answer_by)) => asking::needs_you(view, question, answer_by, safe),
        None => headline(view, safe),
    }];
    if view.outcome.is_none() && view.before.is_none() && waits.is_none() {
        parts.push(steps(view));
        parts.push(agent_plan(view, safe));
    }
    let landed = match (view.outcome, &view.job.outcome) {
        (Some(Outcome::Pushed { .. } | Outcome::Answered | Outcome::Reviewed { .. }), _) => true,
        // As it was planned to end.
        (Some(outcome), Some(planned)) => std::mem::discriminant(outcome) == std::mem::discriminant(planned),
        _ => false,
    };
    if landed {
        parts.push(view.details.to_owned());
    }
    let totals = Totals::of(view.events.iter().map(|event| &event.body));
    if totals.price_unknown {
        let model = safe(model_of(view.events).unwrap_or(words::the_model(view.language)));
        parts.push(format!("> [!WARNING]\n> {}", money::unpriced(view.language, &model)));
    }
    parts.extend(notes(view.events, safe));
    parts.extend(blocked(view));
    if view.outcome.is_some() {
        parts.push(view.drafts.to_owned());
    }
    parts.push(format!("<sub>{}</sub>", numbers(view, &totals)));
    let parts = parts.iter().map(|part| part.trim_start_matches('\n').trim_end());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The question that the log ends with, and how long its answer is waited for.
fn open_question(events: &[Event]) -> Option<(&Question, DateTime<Utc>)> {
    let last = events.iter().rev().find(|event| {
        matches!(
            event.body,
            RunEvent::Asked { .. }
                | RunEvent::Answered { .. }
                | RunEvent::Unanswered
                | RunEvent::CancelRequested { .. }
                | RunEvent::Claimed { .. }
        )
    })?;
    match &last.body {
        RunEvent::Asked { question, answer_by } => Some((question, *answer_by)),
        _ => None,
    }
}

fn headline(view: &StatusView<'_>, safe: &dyn Fn(&str) -> String) -> String {
    let language = view.language;
    let again = match &view.job.request.trigger {
        Trigger::Checks { .. } => crate::phrase::check::again(language, view.command),
        trigger => words::again(language, trigger.label()),
    };
    let kept = |branch: &Option<crate::ids::BranchName>| match branch {
        Some(branch) => words::kept(language, branch.as_str()),
        None => String::new(),
    };
    if let (None, Some(before)) = (view.outcome, view.before) {
        return words::queued(language, view.command, before);
    }
    match view.outcome {
        None if view
            .events
            .iter()
            .any(|event| matches!(event.body, RunEvent::StageStarted { .. })) =>
        {
            words::working(language).to_owned()
        }
        None => words::starting(language).to_owned(),
        Some(Outcome::Opened { pull, branch, sha }) => {
            words::opened(language, &pull.to_string(), branch.as_str(), sha.short())
        }
        Some(Outcome::Pushed { branch, sha }) => words::pushed(language, branch.as_str(), sha.short()),
        Some(Outcome::Answered) => words::answered(language).to_owned(),
        Some(Outcome::Reviewed { verdict, comments }) => words::reviewed(language, verdict, *comments),
        Some(Outcome::Measured { summary }) => safe(summary),
        Some(Outcome::NothingToDo { reason }) => format!("{}\n\n{}", words::no_change(language), safe(reason)),
        Some(Outcome::Refused { reason }) => {
            let why = sentence(language, words::not_worked_on(language), &safe(reason));
            format!("{}\n\n{why}{again}", words::not_done(language))
        }
        Some(Outcome::GaveUp { reason, branch }) => {
            let why = sentence(language, words::because(language), &safe(reason));
            format!("{}\n\n{why}{}{again}", words::failed(language), kept(branch))
        }
        Some(Outcome::Stopped { reason, branch }) => {
            let why = sentence(language, words::because(language), &safe(reason));
            format!("{}\n\n{why}{}{again}", words::stopped(language), kept(branch))
        }
    }
}

/// A reason as a sentence that others can follow; one of several lines, which may end in a block
/// of code, as a paragraph of its own.
fn sentence(language: Language, before: &str, reason: &str) -> String {
    let reason = reason.trim();
    if reason.contains('\n') {
        format!("{}\n\n{reason}\n\n", before.trim_end())
    } else {
        format!(
            "{before}{}{}",
            reason.trim_end_matches(['.', '。']),
            words::stop(language)
        )
    }
}

fn steps(view: &StatusView<'_>) -> String {
    let events = view.events;
    let mut text = String::new();
    for (stage, name) in STAGES.into_iter().zip(words::stages(view.language)) {
        let started = events
            .iter()
            .any(|event| matches!(&event.body, RunEvent::StageStarted { stage: other } if *other == stage));
        let took = events.iter().rev().find_map(|event| match &event.body {
            RunEvent::StageFinished { stage: other, took_ms } if *other == stage => Some(*took_ms),
            _ => None,
        });
        let _ = match (started, took) {
            (_, Some(took_ms)) => {
                let took = text::duration_in_words(Duration::from_millis(took_ms));
                writeln!(text, "- [x] {}", words::stage_done(view.language, name, &took))
            }
            (true, None) => writeln!(text, "- [ ] **{name}** …"),
            (false, None) => writeln!(text, "- [ ] {name}"),
        };
    }
    text
}

fn agent_plan(view: &StatusView<'_>, safe: &dyn Fn(&str) -> String) -> String {
    let steps = view.events.iter().rev().find_map(|event| match &event.body {
        RunEvent::PlanUpdated { steps } => Some(steps),
        _ => None,
    });
    let Some(steps) = steps else { return String::new() };
    let mut text = format!("{}\n\n", words::agents_plan(view.language));
    for step in steps.iter().take(20) {
        // Cut first: what is made safe must not be cut in the middle of a mark.
        let line = safe(&text::cap_chars(&step.step, 200)).replace('\n', " ");
        let _ = writeln!(text, "- [{}] {line}", if step.done { 'x' } else { ' ' });
    }
    text
}

/// The last notes, each in a line of its own; what is noted again at once is said once.
fn notes(events: &[Event], safe: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut notes: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.body {
            RunEvent::Noted { text } | RunEvent::BudgetWarned { text } => Some(text.as_str()),
            RunEvent::AttemptFailed { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    notes.dedup();
    let last = notes.iter().skip(notes.len().saturating_sub(MAX_NOTES));
    last.map(|note| format!("> {}", safe(&text::cap_chars(note, 600)).replace('\n', " ")))
        .collect()
}

/// One line about hosts that commands did not get to, with what would allow the last of them.
fn blocked(view: &StatusView<'_>) -> Option<String> {
    let rows: Vec<(&String, Option<&String>)> = view
        .events
        .iter()
        .filter_map(|event| match &event.body {
            RunEvent::HostBlocked { host, allow, .. } => Some((host, allow.as_ref())),
            _ => None,
        })
        .collect();
    // What only an administrator can change is worth a line; a server that is down is not.
    let allow = rows.iter().rev().find_map(|(_, allow)| *allow)?;
    let span = |words: &str, max| text::code_span(&text::cap_chars(words, max));
    let mut hosts: Vec<String> = Vec::new();
    for (host, _) in rows.iter().filter(|(_, allow)| allow.is_some()) {
        let host = span(host, 80);
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    let more = hosts.len().saturating_sub(MAX_BLOCKED);
    hosts.drain(..more);
    let line = words::blocked(view.language, &hosts.join(", "), more, &span(allow, 200));
    Some(format!("> {line}"))
}

fn numbers(view: &StatusView<'_>, totals: &Totals) -> String {
    let mut line = model_of(view.events).map_or_else(String::new, |model| format!("{model} · "));
    if totals.turns > 0 {
        let cost = money::cost(view.language, Usd::from_dollars(totals.cost_usd), totals.price_unknown);
        let _ = write!(
            line,
            "{} · {cost} · ",
            words::tokens(view.language, totals.turns, totals.input_tokens, totals.output_tokens)
        );
    }
    if let Some(used) = view.used.filter(|used| used.sum > Usd::ZERO) {
        let _ = write!(line, "{} · ", money::used_of(view.language, &used));
    }
    let attempts = view
        .events
        .iter()
        .filter(|event| matches!(event.body, RunEvent::Claimed { .. }))
        .count();
    // An answer leads to another claim, not to another attempt.
    let pauses = view
        .events
        .iter()
        .filter(|event| matches!(event.body, RunEvent::Asked { .. }))
        .count();
    let attempts = attempts.saturating_sub(pauses);
    if attempts > 1 {
        let _ = write!(line, "{} · ", words::attempt(view.language, attempts));
    }
    line + &words::job(view.language, view.job.id.as_str())
}

/// The model named by the last run.
pub(super) fn model_of(events: &[Event]) -> Option<&str> {
    events.iter().rev().find_map(|event| match &event.body {
        RunEvent::RunStarted { model, .. } => Some(model.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
