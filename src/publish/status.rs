//! The one status comment of a job, rendered from its log and edited in place until it settles.
//! Called while the work goes on and as the job's last words. Never shows what the log does not
//! hold.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Publisher, dispatch, plan};
use crate::event::{Event, RunEvent, Stage, Totals};
use crate::github::{GitHubError, RepoClient};
use crate::ids::CommentId;
use crate::job::{Job, JobError, LeasedJob, Outcome, Trigger};
use crate::text;

/// What a status comment is made from.
pub struct StatusView<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its log.
    pub events: &'a [Event],
    /// How it ended, once it has.
    pub outcome: Option<&'a Outcome>,
    /// What follows the headline when the work landed; safe already.
    pub details: &'a str,
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
/// Most notes shown.
const MAX_NOTES: usize = 5;

/// The text of the comment when it is created.
pub(super) fn first_words(publisher: &Publisher, job: &Job) -> String {
    render_status(
        &StatusView {
            job,
            events: &[],
            outcome: None,
            details: "",
        },
        &|text| publisher.safe(text),
    )
}

/// Edits the comment to the present state of the log. A failed edit is only noted: the next one
/// makes up for it.
pub async fn update_status(publisher: &Publisher, leased: &LeasedJob) -> Result<(), JobError> {
    let (events, effects) = read(publisher, leased).await?;
    let Some(id) = dispatch::status_comment_id(&effects) else {
        return Ok(());
    };
    let client = publisher.client(&leased.job);
    let view = StatusView {
        job: &leased.job,
        events: &events,
        outcome: None,
        details: "",
    };
    let body = with_marker(publisher, leased, render_status(&view, &|text| publisher.safe(text)));
    if let Err(error) = client.update_comment(id, &body).await {
        tracing::info!(job.id = %leased.job.id, %error, "the status comment was not edited");
    }
    Ok(())
}

/// The last edit. Its outcome is computed from what landed.
pub(super) async fn update_final(
    publisher: &Publisher,
    leased: &LeasedJob,
    client: &RepoClient,
    id: CommentId,
    details: &str,
) -> Result<(), GitHubError> {
    let unclear = |error: JobError| GitHubError::Unclear {
        what: "the job's log".to_owned(),
        detail: format!("{error:?}"),
    };
    let (events, effects) = read(publisher, leased).await.map_err(unclear)?;
    let outcome = leased
        .job
        .outcome
        .as_ref()
        .map(|planned| dispatch::outcome_of(planned, &effects, plan::at(&leased.job, 0)));
    let view = StatusView {
        job: &leased.job,
        events: &events,
        outcome: outcome.as_ref(),
        details,
    };
    let body = with_marker(publisher, leased, render_status(&view, &|text| publisher.safe(text)));
    client.update_comment(id, &body).await.map(|_| ())
}

async fn read(publisher: &Publisher, leased: &LeasedJob) -> Result<(Vec<Event>, Vec<crate::effect::Effect>), JobError> {
    let mut tx = publisher.store.begin().await?;
    let events = tx.events(&leased.job.id, 0, MAX_EVENTS).await?;
    let effects = tx.effects(&leased.job.id).await?;
    Ok((events, effects))
}

/// Most events a status is folded from; a run at its turn limit has fewer.
const MAX_EVENTS: u32 = 5_000;

fn with_marker(publisher: &Publisher, leased: &LeasedJob, body: String) -> String {
    let marker = publisher
        .marker
        .marker(&leased.job.id, plan::at(&leased.job, plan::seq::STATUS));
    format!("{body}\n\n{marker}")
}

/// The Markdown of a status comment. `safe` is applied to everything that people or models wrote.
pub fn render_status(view: &StatusView<'_>, safe: &dyn Fn(&str) -> String) -> String {
    let mut text = headline(view, safe);
    text.push('\n');
    if view.outcome.is_none() {
        steps(&mut text, view.events);
        agent_plan(&mut text, view.events, safe);
    }
    if matches!(view.outcome, Some(Outcome::Pushed { .. })) && !view.details.is_empty() {
        let _ = writeln!(text, "{}", view.details);
    }
    notes(&mut text, view.events, safe);
    let _ = write!(text, "\n<sub>{}</sub>", numbers(view));
    text
}

fn headline(view: &StatusView<'_>, safe: &dyn Fn(&str) -> String) -> String {
    let again = match &view.job.request.trigger {
        Trigger::Label { label } => format!("To try again, put the label `{label}` on again."),
        _ => "To try again, repeat the command.".to_owned(),
    };
    let kept = |branch: &Option<crate::ids::BranchName>| match branch {
        Some(branch) => format!(" The unfinished work is on the branch `{branch}`."),
        None => String::new(),
    };
    match view.outcome {
        None if view
            .events
            .iter()
            .any(|event| matches!(event.body, RunEvent::StageStarted { .. })) =>
        {
            "### ⏳ Working on it\n".to_owned()
        }
        None => "### ⏳ Starting\n".to_owned(),
        Some(Outcome::Opened { pull, branch, sha }) => {
            format!(
                "### ✅ Done: #{pull}\n\nThe change is on `{branch}` ({}) and waits for review in #{pull}.\n",
                sha.short()
            )
        }
        Some(Outcome::Pushed { branch, sha }) => format!("### ✅ Done\n\nPushed {} to `{branch}`.\n", sha.short()),
        Some(Outcome::Answered) => "### 💬 Answered\n".to_owned(),
        Some(Outcome::NothingToDo { reason }) => format!("### ☑️ No change needed\n\n{}\n", safe(reason)),
        Some(Outcome::Refused { reason }) => format!(
            "### 🚫 Not done\n\nThis was not worked on: {}. {again}\n",
            safe(reason).trim_end_matches('.')
        ),
        Some(Outcome::GaveUp { reason, branch }) => {
            format!(
                "### ❌ It did not work out\n\n{}.{} {again}\n",
                safe(reason).trim_end_matches('.'),
                kept(branch)
            )
        }
        Some(Outcome::Stopped { reason, branch }) => {
            format!(
                "### ⏹️ Stopped\n\n{}.{} {again}\n",
                safe(reason).trim_end_matches('.'),
                kept(branch)
            )
        }
    }
}

fn steps(text: &mut String, events: &[Event]) {
    for stage in STAGES {
        let started = events
            .iter()
            .any(|event| matches!(&event.body, RunEvent::StageStarted { stage: other } if *other == stage));
        let took = events.iter().rev().find_map(|event| match &event.body {
            RunEvent::StageFinished { stage: other, took_ms } if *other == stage => Some(*took_ms),
            _ => None,
        });
        let _ = match (started, took) {
            (_, Some(took_ms)) => writeln!(
                text,
                "- [x] {} ({})",
                stage.words(),
                text::duration_in_words(Duration::from_millis(took_ms))
            ),
            (true, None) => writeln!(text, "- [ ] **{}** …", stage.words()),
            (false, None) => writeln!(text, "- [ ] {}", stage.words()),
        };
    }
}

fn agent_plan(text: &mut String, events: &[Event], safe: &dyn Fn(&str) -> String) {
    let steps = events.iter().rev().find_map(|event| match &event.body {
        RunEvent::PlanUpdated { steps } => Some(steps),
        _ => None,
    });
    let Some(steps) = steps else { return };
    text.push_str("\nThe agent's plan:\n");
    for step in steps.iter().take(20) {
        let line = text::cap_chars(&safe(&step.step).replace('\n', " "), 200);
        let _ = writeln!(text, "- [{}] {line}", if step.done { 'x' } else { ' ' });
    }
}

fn notes(text: &mut String, events: &[Event], safe: &dyn Fn(&str) -> String) {
    let notes: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.body {
            RunEvent::Noted { text } | RunEvent::BudgetWarned { text } => Some(text.as_str()),
            RunEvent::AttemptFailed { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    for note in notes.iter().rev().take(MAX_NOTES).rev() {
        let _ = writeln!(text, "\n> {}", text::cap_chars(&safe(note).replace('\n', " "), 600));
    }
}

fn numbers(view: &StatusView<'_>) -> String {
    let totals = Totals::of(view.events.iter().map(|event| &event.body));
    let mut line = model_of(view.events).map_or_else(String::new, |model| format!("{model} · "));
    if totals.turns > 0 {
        let cost = if totals.price_unknown {
            "price unknown".to_owned()
        } else {
            format!("${:.2}", totals.cost_usd)
        };
        let _ = write!(
            line,
            "{} turns · {} tokens in, {} out · {cost} · ",
            totals.turns, totals.input_tokens, totals.output_tokens
        );
    }
    let attempts = view
        .events
        .iter()
        .filter(|event| matches!(event.body, RunEvent::Claimed { .. }))
        .count();
    if attempts > 1 {
        let _ = write!(line, "attempt {attempts} · ");
    }
    let _ = write!(line, "job {}", view.job.id);
    line
}

/// The model named by the last run.
pub(super) fn model_of(events: &[Event]) -> Option<&str> {
    events.iter().rev().find_map(|event| match &event.body {
        RunEvent::RunStarted { model, .. } => Some(model.as_str()),
        _ => None,
    })
}
