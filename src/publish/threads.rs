//! What a run says in review threads, as rows: a reply to the first comment of each, resolving
//! where the repository wants it, and one request to look again. Called by `plan`, and by the
//! status comment for how many there were. Never calls something fixed without a change, and never
//! gives a verdict that the agent did not give.

use super::Publisher;
use super::plan::{Goal, Result, row, seq};
use crate::agent::Stop;
use crate::effect::{Effect, EffectBody, EffectState, NewEffect};
use crate::ids::BranchName;
use crate::job::{Job, Trigger};
use crate::phrase::Language;
use crate::phrase::thread::{self as words, Said, Tally};
use crate::tool::{Finish, ThreadAnswer, ThreadVerdict};

/// Most characters of the agent's words in a reply.
const MAX_REPLY_CHARS: usize = 2_000;
/// Most people who are asked to look again.
const MAX_REVIEWERS: usize = 15;

/// The rows of a finished run about the threads that it was given.
pub(super) fn said(publisher: &Publisher, job: &Job, result: &Result<'_>) -> Vec<NewEffect> {
    let Stop::Finished(finish) = result.stop else {
        return Vec::new();
    };
    let is_changed = result.import.is_some() && matches!(finish, Finish::Done { .. });
    let branch = match &result.target {
        Goal::ExistingPull { branch, .. } if is_changed => Some(branch),
        _ => None,
    };
    rows(publisher, job, finish, is_changed, branch)
}

/// The same for finished work that goes to a branch of its own.
pub(super) fn said_beside(publisher: &Publisher, job: &Job, finish: &Finish) -> Vec<NewEffect> {
    rows(publisher, job, finish, true, None)
}

/// `branch` is where a fix has to be.
fn rows(
    publisher: &Publisher,
    job: &Job,
    finish: &Finish,
    is_changed: bool,
    branch: Option<&BranchName>,
) -> Vec<NewEffect> {
    let Some(number) = job.subject.number() else {
        return Vec::new();
    };
    let mut effects = Vec::new();
    for (position, answer) in (seq::THREADS..).step_by(2).zip(finish.threads()) {
        let said = said_to(answer, is_changed);
        let reply = EffectBody::ReplyThread {
            number,
            root: answer.root,
            said,
            branch: branch.cloned(),
            reply: publisher.safe_within(&answer.reply, MAX_REPLY_CHARS),
        };
        effects.push(row(job, position, reply));
        if said == Said::Fixed && answer.resolve {
            let resolve = EffectBody::ResolveThread {
                number,
                root: answer.root,
                seen: answer.seen,
            };
            effects.push(row(job, position + 1, resolve));
        }
    }
    let logins = reviewers(job, finish.threads());
    if !logins.is_empty() {
        effects.push(row(
            job,
            seq::REQUEST_REVIEW,
            EffectBody::RequestReview { number, logins },
        ));
    }
    effects
}

fn said_to(answer: &ThreadAnswer, is_changed: bool) -> Said {
    match answer.verdict {
        Some(ThreadVerdict::Fixed) if is_changed => Said::Fixed,
        Some(ThreadVerdict::Fixed) => Said::Unchanged,
        Some(ThreadVerdict::Disputed) => Said::Disputed,
        Some(ThreadVerdict::Deferred) => Said::Deferred,
        None => Said::Unanswered,
    }
}

/// Who began threads that now have a verdict, and whose review asked for the work.
fn reviewers(job: &Job, answers: &[ThreadAnswer]) -> Vec<String> {
    let decided = || answers.iter().filter(|answer| answer.verdict.is_some());
    let by_review = matches!(
        job.request.trigger,
        Trigger::Review { .. } | Trigger::ReviewComment { .. }
    );
    let asked = (by_review && decided().next().is_some()).then(|| job.request.actor.login.clone());
    let mut logins: Vec<String> = Vec::new();
    for login in asked
        .into_iter()
        .chain(decided().filter_map(|answer| answer.by.clone()))
    {
        if !logins.contains(&login) && logins.len() < MAX_REVIEWERS {
            logins.push(login);
        }
    }
    logins
}

/// What the status comment says behind its headline: how many threads got which answer, then the
/// rest.
pub(super) fn before(language: Language, effects: &[Effect], round_start: i64, details: &str) -> String {
    let of_round = effects.iter().filter(|effect| effect.seq >= round_start);
    let mut tally = Tally::default();
    for effect in of_round {
        let EffectBody::ReplyThread { said, .. } = &effect.body else {
            continue;
        };
        let count = match (effect.state, said) {
            (EffectState::Done, Said::Fixed) if effect.problem.is_some() => &mut tally.elsewhere,
            (EffectState::Done, Said::Fixed) => &mut tally.fixed,
            (EffectState::Done, Said::Disputed) => &mut tally.disputed,
            (EffectState::Done, Said::Deferred) => &mut tally.deferred,
            (EffectState::Done, Said::Unchanged) => &mut tally.unchanged,
            _ => &mut tally.unanswered,
        };
        *count += 1;
    }
    if tally == Tally::default() {
        return details.to_owned();
    }
    format!("{}\n\n{details}", words::tally(language, &tally))
}
