//! `retry` and `retry publish`: the last work on an issue or pull request is begun again, or only
//! its publishing. Never repeats work that landed.

use super::{InHand, Worker};
use crate::audit::person;
use crate::intake::RETRY_PUBLISH;
use crate::job::{Job, JobError, Outcome, Trigger};
use crate::phrase::steer as words;
use crate::publish;
use crate::store::{JobFilter, Republished};

/// Jobs of a subject that are looked through for the last one that worked.
const LOOKED_THROUGH: u32 = 50;

impl Worker {
    pub(super) async fn retry(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let (language, command) = (self.publisher.language, &self.publisher.command);
        let Some(last) = self.last_work(job).await? else {
            return self.answer(in_hand, words::nothing_to_retry(language).to_owned()).await;
        };
        if !last.state.is_final() {
            return self.answer(in_hand, words::still_going_on(language).to_owned()).await;
        }
        let only_publish = job.request.instructions == RETRY_PUBLISH;
        let landed = matches!(
            last.outcome,
            Some(
                Outcome::Opened { .. }
                    | Outcome::Pushed { .. }
                    | Outcome::Answered
                    | Outcome::Reviewed { .. }
                    | Outcome::Measured { .. }
            )
        );
        if landed {
            return self.answer(in_hand, words::went_well(language, command)).await;
        }
        let now = self.ports.clock.now();
        let mut tx = self.publisher.store.begin().await?;
        tx.act_as(person(&job.request.actor.login));
        let refused = if only_publish {
            match tx.republish_job(&last.id, now).await? {
                Republished::Begun => None,
                Republished::NothingStored => Some(words::nothing_to_publish(language, command)),
                Republished::Busy => Some(words::still_going_on(language).to_owned()),
            }
        } else {
            let begun = tx.requeue_job_as(&last.id, now, &job.request, &job.pins).await?;
            (!begun).then(|| words::still_going_on(language).to_owned())
        };
        let planned = match refused {
            Some(words) => self.answering(in_hand, words)?,
            // The status comment of that job tells the rest.
            None => publish::ending(job, Outcome::Answered),
        };
        // Both or neither: a second attempt of this command finds it done.
        self.publish_with(in_hand, tx, planned).await
    }

    /// The last job of the subject that ran the agent. A look at failed checks that came to nothing
    /// was asked for by nobody, and nobody means it.
    async fn last_work(&self, job: &Job) -> Result<Option<Job>, JobError> {
        let filter = JobFilter {
            repo_id: Some(job.repo_id),
            subject: Some(job.subject.clone()),
            limit: LOOKED_THROUGH,
            ..JobFilter::default()
        };
        let mut tx = self.publisher.store.begin().await?;
        let jobs = tx.jobs(&filter).await?;
        Ok(jobs
            .into_iter()
            .filter(|other| other.kind.is_work() && !came_to_nothing(other))
            .max_by_key(|other| other.created_at))
    }
}

fn came_to_nothing(job: &Job) -> bool {
    matches!(job.request.trigger, Trigger::Checks { .. })
        && matches!(job.outcome, Some(Outcome::NothingToDo { .. } | Outcome::Refused { .. }))
}
