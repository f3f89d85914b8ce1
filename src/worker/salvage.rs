//! What a run that broke off for good leaves: its work so far goes to a branch as that of every other
//! end. Called by `fix`. Never hides why the run broke off, and never takes up work that goes on.

use super::{InHand, Worker};
use crate::agent::{Checkpoint, Solution, Stop};
use crate::job::JobError;
use crate::phrase::reason;
use crate::run::{self, Earlier, Finished, Place, Ports, Work};

impl Worker {
    /// A run as it ended; one that broke off and is not tried again, as one that got stuck with
    /// what it has.
    pub(super) async fn or_salvaged(
        &self,
        in_hand: &InHand<'_>,
        worked: Result<Finished, JobError>,
        (ports, work, place): (&Ports, Work, &Place),
    ) -> Result<Finished, JobError> {
        let job = &in_hand.leased.job;
        let why = match &worked {
            Err(JobError::Fail(why)) => why.clone(),
            Err(JobError::Retry(why) | JobError::Unsent(why)) if job.attempt >= job.max_attempts => {
                reason::attempts(self.ports.language, why, job.attempt)
            }
            _ => return worked,
        };
        // A service that stops hands the job back: others go on with it.
        if in_hand.cancel.is_cancelled() || !work.brief.mode.changes_code() {
            return worked;
        }
        match self.salvage(in_hand, Stop::Stuck(why), (ports, work, place)).await {
            Ok(Some(finished)) => Ok(finished),
            Ok(None) => worked,
            Err(error) => {
                tracing::warn!(?error, "the work of a run that broke off could not be kept");
                worked
            }
        }
    }

    /// As a run that goes on where the other one ended, with nothing left to do.
    async fn salvage(
        &self,
        in_hand: &InHand<'_>,
        stop: Stop,
        (ports, mut work, place): (&Ports, Work, &Place),
    ) -> Result<Option<Finished>, JobError> {
        let Some((folder, base)) = self.last_folder(&place.job).await? else {
            return Ok(None);
        };
        work.base = base;
        let earlier = Earlier {
            folder: Some(folder),
            solution: Some(Solution {
                stop,
                last_words: String::new(),
                conversation: Checkpoint::NEW,
            }),
            conversation: Some(Checkpoint::NEW),
            base_checks: self.base_checks(&in_hand.leased.job).await?,
            ..Earlier::default()
        };
        let taking = run::work(ports, work, earlier, place, &in_hand.recorder, &in_hand.cancel);
        Ok(Some(Box::pin(taking).await?))
    }
}
