//! Instructions to a job that is at work. One that comes too late becomes a job of its own.
//! Never changes code itself.

use super::{InHand, Worker};
use crate::job::{JobError, Outcome};
use crate::phrase::steer as words;
use crate::publish;
use crate::question::Reply;
use crate::store::Steered;

impl Worker {
    /// Hands the words to the job that changes code here.
    pub(super) async fn steer(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let reply = Reply {
            by: job.request.actor.login.clone(),
            words: job.request.instructions.clone(),
            at: job.request.triggered_at,
        };
        let mut tx = self.publisher.store.begin().await?;
        let steered = tx.steer_job(job.repo_id, &job.subject, &job.id, &reply).await?;
        let planned = match steered {
            Steered::Given(_) => self.answering(in_hand, words::passed_on(self.publisher.language).to_owned())?,
            Steered::NobodyWorks => {
                let now = self.ports.clock.now();
                tx.insert_job(&job.as_fix(now), now).await?;
                // The status comment of that job tells the rest.
                publish::ending(job, Outcome::Answered)
            }
        };
        self.publish_with(in_hand, tx, planned).await
    }
}
