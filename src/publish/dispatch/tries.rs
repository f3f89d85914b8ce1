//! How often an effect is tried, and how long the pauses are. Called by `dispatch`.
//! Never decides what a failure means.

use chrono::TimeDelta;

use crate::effect::EffectBody;

/// First pause before an effect is tried again; it doubles with each try.
const FIRST_PAUSE: TimeDelta = TimeDelta::seconds(1);
/// Longest pause between two tries.
pub(super) const LONGEST_PAUSE: TimeDelta = TimeDelta::minutes(15);

/// Tries before an effect is given up, pauses included: finished work is tried for a day, since
/// GitHub's outages end within hours; a reaction must not hold up the work that it announces.
pub(super) fn max_tries(body: &EffectBody) -> u32 {
    match body {
        EffectBody::Push { .. }
        | EffectBody::OpenPull { .. }
        | EffectBody::SubmitReview { .. }
        | EffectBody::Comment { .. }
        | EffectBody::CreateIssue { .. }
        | EffectBody::TellCreated { .. } => 100,
        EffectBody::FinalStatus { .. }
        | EffectBody::ReplyThread { .. }
        | EffectBody::ResolveThread { .. }
        | EffectBody::RequestReview { .. }
        | EffectBody::RemoveLabel { .. }
        | EffectBody::StatusComment { .. }
        | EffectBody::CreateAdvisory { .. }
        | EffectBody::AddSubIssue { .. }
        | EffectBody::MarkReady
        | EffectBody::Ask => 12,
        EffectBody::Reaction { .. }
        | EffectBody::RequestReviewer { .. }
        | EffectBody::BeginCheck { .. }
        | EffectBody::RerunCheck { .. } => 4,
        // Nobody waits for it, and others wait for the job; see `settle_ended`.
        EffectBody::SettleCheck => 6,
    }
}

/// The pause after a try, given how many there were before it.
pub(super) fn pause(tries: u32) -> TimeDelta {
    let doubled = FIRST_PAUSE * (1 << tries.min(10));
    doubled.min(LONGEST_PAUSE)
}
