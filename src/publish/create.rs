//! `create`: a person confirms a draft, and the job of that word creates exactly what was offered.
//! Here it is decided which draft is meant and whether it may become an issue; the rows that create
//! it are planned.
//! Never writes to GitHub, and never takes a text from the comment that showed the draft.

use chrono::{DateTime, SubsecRound as _, Utc};

use super::{Planned, Publisher, plan};
use crate::draft::{DraftState, Offer};
use crate::effect::{EffectBody, NewEffect};
use crate::ids::{IssueNumber, JobId};
use crate::job::{JobError, LeasedJob, Outcome};
use crate::phrase::draft as words;
use crate::phrase::draft::Answer;

/// Most drafts of an issue that are looked at.
const MAX_DRAFTS: u32 = 200;

/// Plans what a `create` comes to: the issue and an answer, or only an answer.
///
/// # Errors
/// Of the database; [`JobError::Fail`] where there is nowhere to answer.
pub async fn plan_create(publisher: &Publisher, leased: &LeasedJob) -> Result<Planned, JobError> {
    let job = &leased.job;
    let place = job
        .subject
        .number()
        .ok_or_else(|| JobError::Fail("there is nowhere to answer".to_owned()))?;
    let number = job.request.instructions.trim().parse().ok();
    let mut tx = publisher.store.begin().await?;
    let offers = tx.drafts_of(job.repo_id, &job.subject, MAX_DRAFTS).await?;
    let chosen = choose(&offers, number, job.request.triggered_at, publisher.security_advisories);
    let offer = match chosen {
        Ok(offer) => offer,
        Err(answer) => return Ok(answering(publisher, leased, place, &answer)),
    };
    let by = &job.request.actor.login;
    if !tx
        .confirm_draft(&leased.lease, &offer.id, by, publisher.clock.now())
        .await?
    {
        let now = tx.draft(&offer.id).await?;
        let answer = now.as_ref().map_or(Answer::NoDraft, |offer| taken(offer, &job.id));
        return Ok(answering(publisher, leased, place, &answer));
    }
    tx.commit().await?;
    let mut planned = plan::ending(job, Outcome::Answered);
    planned.effects.extend(creating(leased, place, offer));
    planned.effects.sort_by_key(|effect| effect.seq);
    Ok(planned)
}

/// The draft that is meant, if it can be created.
fn choose(offers: &[Offer], number: Option<u32>, asked_at: DateTime<Utc>, advisories: bool) -> Result<&Offer, Answer> {
    let offer = match number {
        Some(number) => offers
            .iter()
            .find(|offer| offer.number == number)
            .ok_or(Answer::NoSuch { number })?,
        None => the_only_one(offers, asked_at)?,
    };
    let number = offer.number;
    match offer.state {
        DraftState::Withdrawn => return Err(Answer::Withdrawn { number }),
        DraftState::Created => return Err(created(offer)),
        DraftState::Offered => {}
    }
    if !offer.is_shown {
        return Err(Answer::NotShown { number });
    }
    if !offer.is_whole() {
        return Err(Answer::Changed { number });
    }
    if offer.proposal.is_secret() && !advisories {
        return Err(Answer::NoAdvisories {
            id: offer.id.to_string(),
        });
    }
    Ok(offer)
}

/// Without a number only what the person can have seen is meant. GitHub tells seconds.
fn the_only_one(offers: &[Offer], asked_at: DateTime<Utc>) -> Result<&Offer, Answer> {
    let open: Vec<&Offer> = offers
        .iter()
        .filter(|offer| offer.state == DraftState::Offered)
        .collect();
    match open.as_slice() {
        [] => Err(match offers.first() {
            Some(last) if last.state == DraftState::Created => created(last),
            _ => Answer::NoDraft,
        }),
        [only] if only.offered_at.trunc_subsecs(0) > asked_at => Err(Answer::Younger { number: only.number }),
        [only] => Ok(only),
        several => {
            let mut numbers: Vec<u32> = several.iter().map(|offer| offer.number).collect();
            numbers.sort_unstable();
            Err(Answer::WhichOne { numbers })
        }
    }
}

fn created(offer: &Offer) -> Answer {
    let number = offer.number;
    match offer.created_as.as_deref().and_then(|id| id.parse().ok()) {
        Some(issue) => Answer::Exists { number, issue },
        None => Answer::AdvisoryExists { number },
    }
}

/// Why an offer that could be created a moment ago cannot be any more.
fn taken(offer: &Offer, job: &JobId) -> Answer {
    let number = offer.number;
    match offer.state {
        DraftState::Created => created(offer),
        DraftState::Offered if offer.confirmed_job.as_ref().is_some_and(|other| other != job) => {
            Answer::InHand { number }
        }
        DraftState::Offered | DraftState::Withdrawn => Answer::Withdrawn { number },
    }
}

fn answering(publisher: &Publisher, leased: &LeasedJob, number: IssueNumber, answer: &Answer) -> Planned {
    let body = words::answer(publisher.language, &publisher.command, answer);
    let mut planned = plan::ending(&leased.job, Outcome::Answered);
    let comment = super::comment(&leased.job, EffectBody::Comment { number, body });
    planned.effects.insert(0, comment);
    planned
}

/// The rows that create it and answer with a link.
fn creating(leased: &LeasedJob, place: IssueNumber, offer: &Offer) -> Vec<NewEffect> {
    let row = |position, body| plan::row(&leased.job, position, body);
    let mut rows = Vec::new();
    if offer.proposal.is_secret() {
        let advisory = EffectBody::CreateAdvisory {
            draft: offer.id.clone(),
            summary: offer.issue.title.clone(),
            description: offer.issue.body.clone(),
            severity: offer.proposal.draft.severity.trim().to_lowercase(),
        };
        rows.push(row(plan::seq::CREATE, advisory));
    } else {
        let texts = std::iter::once(&offer.issue).chain(&offer.issue.parts);
        for (at, text) in (0_u32..).zip(texts) {
            let position = plan::seq::CREATE + i64::from(at);
            let create = EffectBody::CreateIssue {
                draft: offer.id.clone(),
                part: at,
                offered_at: offer.offered_at,
                title: text.title.clone(),
                body: text.body.clone(),
                labels: text.labels.clone(),
            };
            rows.push(row(position, create));
            if at > 0 {
                let link = EffectBody::AddSubIssue {
                    parent: plan::at(&leased.job, plan::seq::CREATE),
                    child: plan::at(&leased.job, position),
                };
                rows.push(row(plan::seq::SUB_ISSUE + i64::from(at), link));
            }
        }
    }
    rows.push(row(plan::seq::CREATED, EffectBody::TellCreated { number: place }));
    rows
}

#[cfg(test)]
mod tests;
