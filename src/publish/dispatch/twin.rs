//! What arrived twice: a call of unclear outcome can land after it was looked for and made again.
//! Whatever is created after such a call is looked for once more when lists are up to date, and of
//! two the younger one is taken away. Called by the dispatcher.
//! Never takes away anything without this effect's marker, and never the last one.

use chrono::TimeDelta;

use super::super::Publisher;
use super::{CLOCK_SLACK, MAX_LOOKED_THROUGH, Step};
use crate::effect::{EffectBody, EffectState};
use crate::github::{Comment, Issue, RepoClient, Review, ReviewComment};
use crate::ids::IssueNumber;
use crate::job::{Job, JobError};
use crate::phrase::reason;

/// After this long what is known counts, although it could not be looked at again.
const GIVE_UP: TimeDelta = TimeDelta::hours(1);

/// What was found of one effect: its oldest object, and what was taken away beside it.
pub(super) struct Found {
    pub(super) first: Option<String>,
    pub(super) removed: Vec<String>,
}

impl Step<'_> {
    /// Whether an earlier call could still show up beside the one that is made now. A check run needs
    /// no look: GitHub itself shows only the latest of a name.
    pub(super) fn may_have_twin(&self) -> bool {
        let is_in_doubt =
            self.effect.unclear > 0 || matches!(self.effect.state, EffectState::Unknown | EffectState::Sending);
        is_in_doubt && can_be_taken_away(&self.effect.body)
    }

    /// What was made just now is looked for again when lists show everything.
    pub(super) async fn look_again_later(&self, made: &str) -> Result<(), JobError> {
        let why = format!(
            "whether an earlier {} arrived too is looked for",
            self.effect.body.kind()
        );
        self.move_to(EffectState::Unknown, Some(made), Some(&why)).await?;
        let mut tx = self.publisher.store.begin().await?;
        let now = tx.db_now().await?;
        Err(JobError::Snooze(now + self.lag(), why))
    }

    /// What was made after an unclear call, if that is where this effect stands.
    pub(super) fn made(&self) -> Option<&str> {
        let made = self.effect.remote_id.as_deref();
        made.filter(|_| self.effect.state == EffectState::Unknown)
    }

    /// The second look. It does not make anything, so it counts no try.
    pub(super) async fn look_again(&self, made: &str) -> Result<(), JobError> {
        let mut tx = self.publisher.store.begin().await?;
        let now = tx.db_now().await?;
        drop(tx);
        let sent_at = self.effect.sent_at.unwrap_or(now);
        let shown_at = sent_at + self.lag();
        if now < shown_at {
            let why = format!(
                "whether an earlier {} arrived too is looked for",
                self.effect.body.kind()
            );
            return Err(JobError::Snooze(shown_at, why));
        }
        match self.look_up().await {
            Ok(found) => self.note_done(found.as_deref().unwrap_or(made)).await,
            Err(JobError::Retry(why) | JobError::Unsent(why)) if now < sent_at + GIVE_UP => {
                Err(JobError::Snooze(now + self.lag().max(TimeDelta::seconds(1)), why))
            }
            Err(JobError::Retry(_) | JobError::Unsent(_) | JobError::Fail(_)) => self.note_done(made).await,
            Err(error) => Err(error),
        }
    }

    fn lag(&self) -> TimeDelta {
        TimeDelta::from_std(self.publisher.list_lag).unwrap_or_default()
    }

    async fn note_done(&self, remote_id: &str) -> Result<(), JobError> {
        self.move_to(EffectState::Done, Some(remote_id), None).await
    }

    /// Notes what was taken away, if anything, and gives the object that stays.
    pub(super) async fn settled_on(&self, found: Found) -> Result<Option<String>, JobError> {
        if !found.removed.is_empty() {
            let removed = found.removed.join(", ");
            tracing::warn!(effect = self.effect.body.kind(), removed, "it had arrived twice");
            let what = reason::arrived_twice(self.publisher.language, self.effect.body.kind(), &removed);
            let mut tx = self.publisher.store.begin().await?;
            tx.note_repaired(&self.leased.lease, self.effect.seq, &what).await?;
            tx.commit().await?;
        }
        Ok(found.first)
    }

    /// Of several replies the later ones are deleted.
    pub(super) async fn one_reply(&self, own: Vec<&ReviewComment>) -> Result<Found, JobError> {
        let (first, later) = apart(own, |comment| comment.id.0);
        for comment in &later {
            self.client.delete_review_comment(comment.id).await?;
        }
        Ok(found(first, later, |comment| comment.id.to_string()))
    }

    /// A review cannot be deleted once it is submitted: of several the later ones lose their comments
    /// and their text.
    pub(super) async fn one_review(&self, number: IssueNumber, own: Vec<&Review>) -> Result<Found, JobError> {
        let (first, later) = apart(own, |review| review.id);
        if !later.is_empty() {
            let comments = self.client.review_comments(number, None, MAX_LOOKED_THROUGH).await?;
            for comment in &comments {
                if later
                    .iter()
                    .any(|review| Some(review.id) == comment.pull_request_review_id)
                {
                    self.client.delete_review_comment(comment.id).await?;
                }
            }
        }
        for review in &later {
            let words = reason::sent_twice(self.publisher.language);
            self.client.update_review(number, review.id, words).await?;
        }
        Ok(found(first, later, |review| review.id.to_string()))
    }

    /// Of several issues the later ones are closed; what was said in them stays.
    pub(super) async fn one_issue(&self, own: Vec<&Issue>) -> Result<Found, JobError> {
        let (first, mut later) = apart(own, |issue| issue.number.0);
        later.retain(|issue| issue.state == "open");
        for issue in &later {
            self.client.close_issue(issue.number).await?;
        }
        let mut found = found(first, later, |issue| issue.number.to_string());
        found.removed.iter_mut().for_each(|number| number.insert(0, '#'));
        Ok(found)
    }
}

/// Of several comments the younger ones are deleted.
pub(super) async fn one_comment(client: &RepoClient, own: Vec<&Comment>) -> Result<Found, JobError> {
    let (first, later) = apart(own, |comment| comment.id.0);
    for comment in &later {
        client.delete_comment(comment.id).await?;
    }
    Ok(found(first, later, |comment| comment.id.to_string()))
}

/// Our comments with the marker of an effect.
pub(super) async fn own_comments(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    (number, seq): (IssueNumber, i64),
) -> Result<Found, JobError> {
    let since = job.created_at - CLOCK_SLACK;
    let comments = client.comments(number, Some(since), MAX_LOOKED_THROUGH).await?;
    let marker = publisher.marker.marker(&job.id, seq);
    let own = comments
        .iter()
        .filter(|comment| comment.body.contains(&marker) && is_ours(publisher, comment));
    one_comment(client, own.collect()).await
}

/// Written by our App; where GitHub does not tell the App, by our bot's account.
pub(in crate::publish) fn is_ours(publisher: &Publisher, comment: &Comment) -> bool {
    match (&comment.performed_via_github_app, &comment.user) {
        (Some(app), _) => app.id == publisher.app.id,
        (None, Some(user)) => user.kind == "Bot" && user.login == format!("{}[bot]", publisher.app.slug),
        (None, None) => false,
    }
}

fn can_be_taken_away(body: &EffectBody) -> bool {
    match body {
        EffectBody::StatusComment { .. }
        | EffectBody::Comment { .. }
        | EffectBody::TellCreated { .. }
        | EffectBody::CreateIssue { .. }
        | EffectBody::SubmitReview { .. }
        | EffectBody::ReplyThread { .. } => true,
        EffectBody::Reaction { .. }
        | EffectBody::Push { .. }
        | EffectBody::OpenPull { .. }
        | EffectBody::MarkReady
        | EffectBody::RequestReviewer { .. }
        | EffectBody::ResolveThread { .. }
        | EffectBody::RequestReview { .. }
        | EffectBody::BeginCheck { .. }
        | EffectBody::SettleCheck
        | EffectBody::RerunCheck { .. }
        | EffectBody::Ask
        | EffectBody::FinalStatus { .. }
        | EffectBody::CreateAdvisory { .. }
        | EffectBody::AddSubIssue { .. }
        | EffectBody::RemoveLabel { .. } => false,
    }
}

/// The oldest, and the others.
fn apart<T>(mut own: Vec<&T>, id: impl Fn(&T) -> u64) -> (Option<&T>, Vec<&T>) {
    own.sort_by_key(|one| id(one));
    let later = own.split_off(own.len().min(1));
    (own.first().copied(), later)
}

fn found<T>(first: Option<&T>, later: Vec<&T>, name: impl Fn(&T) -> String) -> Found {
    Found {
        first: first.map(&name),
        removed: later.into_iter().map(name).collect(),
    }
}
