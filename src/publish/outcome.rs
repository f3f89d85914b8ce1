//! How a job really ended, given what landed on GitHub. Pure. Called by the dispatcher and by the
//! status comment. Never claims what no row shows.

use crate::effect::{Effect, EffectBody, EffectState};
use crate::ids::{BranchName, CommitSha, IssueNumber};
use crate::job::Outcome;
use crate::phrase::{Language, reason as words};

/// How the job really ended, given what landed.
pub fn outcome_of(language: Language, planned: &Outcome, effects: &[Effect], round_start: i64) -> Outcome {
    if let Outcome::Reviewed { verdict, .. } = planned {
        return reviewed(
            language,
            planned,
            verdict,
            effects.iter().filter(|effect| effect.seq >= round_start),
        );
    }
    let Outcome::Pushed { branch: wanted, .. } = planned else {
        return planned.clone();
    };
    let now: Vec<Effect> = effects
        .iter()
        .filter(|effect| effect.seq >= round_start)
        .cloned()
        .collect();
    let is_skipped_push =
        |effect: &&Effect| effect.state == EffectState::Skipped && matches!(effect.body, EffectBody::Push { .. });
    if let Some(skipped) = now.iter().find(is_skipped_push) {
        return Outcome::Stopped {
            reason: skipped.problem.clone().unwrap_or_default(),
            branch: None,
        };
    }
    let Some((branch, sha)) = pushed(&now, i64::MAX) else {
        let why = now
            .iter()
            .find(|effect| matches!(effect.body, EffectBody::Push { .. }))
            .and_then(|push| push.problem.clone())
            .unwrap_or_else(|| words::push_failed(language).to_owned());
        return Outcome::GaveUp {
            reason: words::not_pushed(language, &why),
            branch: None,
        };
    };
    if branch != *wanted {
        let why = now
            .iter()
            .find(|effect| matches!(effect.body, EffectBody::Push { .. }))
            .and_then(|push| push.problem.clone())
            .unwrap_or_else(|| words::pushed_meanwhile(language, wanted.as_str()));
        let reason = words::put_beside(language, &why);
        return Outcome::GaveUp {
            reason,
            branch: Some(branch),
        };
    }
    let opened = now
        .iter()
        .find(|effect| matches!(effect.body, EffectBody::OpenPull { .. }));
    match opened {
        None => Outcome::Pushed { branch, sha },
        Some(effect) => match effect.remote_id.as_deref().and_then(|id| id.parse().ok()) {
            Some(number) => Outcome::Opened {
                pull: IssueNumber(number),
                branch,
                sha,
            },
            None => {
                let why = effect.problem.clone().unwrap_or_default();
                Outcome::GaveUp {
                    reason: words::no_pull(language, &why),
                    branch: Some(branch),
                }
            }
        },
    }
}

/// A review is done once it is on GitHub, and its comments are on lines where GitHub took them.
fn reviewed<'a>(
    language: Language,
    planned: &Outcome,
    verdict: &str,
    mut now: impl Iterator<Item = &'a Effect>,
) -> Outcome {
    let Some(review) = now.find(|effect| matches!(effect.body, EffectBody::SubmitReview { .. })) else {
        return planned.clone();
    };
    let why = review.problem.clone().unwrap_or_default();
    match review.state {
        EffectState::Done if review.problem.is_some() => Outcome::Reviewed {
            verdict: verdict.to_owned(),
            comments: 0,
        },
        EffectState::Skipped => Outcome::Stopped {
            reason: why,
            branch: None,
        },
        EffectState::Failed => Outcome::GaveUp {
            reason: format!("{}: {why}", words::review_not_posted(language)),
            branch: None,
        },
        _ => planned.clone(),
    }
}

/// What a push is called once it landed.
pub(super) fn pushed_id(branch: &BranchName, sha: &CommitSha) -> String {
    format!("{branch}@{sha}")
}

/// The branch and commit that the last push before a position really went to.
pub(super) fn pushed(effects: &[Effect], before: i64) -> Option<(BranchName, CommitSha)> {
    let push = effects
        .iter()
        .rev()
        .find(|effect| effect.seq < before && matches!(effect.body, EffectBody::Push { .. }))?;
    let (branch, sha) = push.remote_id.as_deref()?.rsplit_once('@')?;
    Some((branch.parse().ok()?, sha.parse().ok()?))
}

/// The branch of it.
pub(super) fn pushed_branch(effects: &[Effect], before: i64) -> Option<BranchName> {
    pushed(effects, before).map(|(branch, _)| branch)
}

/// The branch that a push of this round went to.
pub(super) fn pushed_since(effects: &[Effect], round_start: i64) -> Option<BranchName> {
    let now: Vec<Effect> = effects
        .iter()
        .filter(|effect| effect.seq >= round_start)
        .cloned()
        .collect();
    pushed_branch(&now, i64::MAX)
}

/// The pull request that was opened in this round, whatever became of the job afterwards.
pub(super) fn opened_since(effects: &[Effect], round_start: i64) -> Option<Outcome> {
    let opened = effects.iter().rev().find(|effect| {
        let opens = matches!(effect.body, EffectBody::OpenPull { .. });
        opens && effect.seq >= round_start && effect.state == EffectState::Done
    })?;
    let number = opened.remote_id.as_deref()?.parse().ok()?;
    let (branch, sha) = pushed(effects, opened.seq)?;
    Some(Outcome::Opened {
        pull: IssueNumber(number),
        branch,
        sha,
    })
}
