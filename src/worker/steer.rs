//! Instructions to a job that is at work. One that comes too late becomes a job of its own.
//! Never changes code itself.

use super::{InHand, Worker};
use crate::job::{JobError, JobKind, NewJob, Outcome};
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
        if steered == Steered::NobodyWorks {
            let own = NewJob {
                repo_id: job.repo_id,
                repo: job.repo.clone(),
                installation: job.installation,
                kind: JobKind::Fix,
                subject: job.subject.clone(),
                dedupe_key: Some(format!("fix:of:{}", job.id)),
                priority: 0,
                run_at: self.ports.clock.now(),
                max_attempts: job.max_attempts,
                request: job.request.clone(),
                pins: job.pins.clone(),
            };
            tx.insert_job(&own, self.ports.clock.now()).await?;
        }
        tx.commit().await?;
        match steered {
            Steered::Given(_) => {
                self.answer(in_hand, words::passed_on(self.publisher.language).to_owned())
                    .await
            }
            // The status comment of that job tells the rest.
            Steered::NobodyWorks => self.end(in_hand, Outcome::Answered).await,
        }
    }
}
