//! A failed check: whether its commit is the head of a pull request of ours, as far as the
//! database knows, and one job for all that is said about that commit. Whether it is still the
//! head, what failed, and whether the person still may, is asked by the job when its turn comes:
//! behind work that goes on there, which may leave the head where it is.
//! Never starts work on a pull request that we did not open.

use super::{Applying, Verdict};
use crate::effect::EffectBody;
use crate::ids::{CommitSha, IssueNumber, RepoId, Subject};
use crate::job::{Job, JobKind, JobState, NewJob, Outcome, Pins, Request, Trigger};
use crate::phrase::check as words;
use crate::store::StoreError;

impl Applying<'_> {
    pub(super) async fn checks_failed(
        &mut self,
        repo: RepoId,
        sha: CommitSha,
        max_attempts: u32,
    ) -> Result<Verdict, StoreError> {
        let Some((origin, pull)) = self.whose(repo, &sha).await? else {
            return Ok(self.note(Verdict::Ignored, "not a commit of ours".to_owned()));
        };
        let subject = Subject::Pull(pull);
        if self.looked_at(repo, &subject, &sha).await? {
            let why = "the checks of this commit were looked at already";
            return Ok(self.note(Verdict::Ignored, why.to_owned()));
        }
        let job = NewJob {
            repo_id: repo,
            repo: self
                .delivery
                .repo
                .as_ref()
                .map_or(origin.repo, |repo| repo.name.clone()),
            installation: self.delivery.installation.unwrap_or(origin.installation),
            kind: JobKind::Fix,
            dedupe_key: Some(format!("checks:{repo}:{subject}:{sha}")),
            subject,
            priority: 0,
            run_at: self.now(),
            max_attempts,
            request: Request {
                trigger: Trigger::Checks { sha: sha.clone() },
                // Our own continuation of what this person asked for, who is asked about again.
                actor: origin.request.actor,
                instructions: words::REPAIR.to_owned(),
                triggered_at: self.now(),
            },
            pins: Pins {
                head_sha: Some(sha),
                ..Pins::default()
            },
        };
        match self.tx.insert_job(&job, self.now()).await? {
            Some(id) => {
                self.jobs.push(id.clone());
                Ok(self.note(Verdict::Applied, format!("job {id} looks at failed checks")))
            }
            None => Ok(self.note(Verdict::Ignored, "these checks are looked at already".to_owned())),
        }
    }

    /// The job that left the commit, and the pull request of ours that it is on.
    async fn whose(&mut self, repo: RepoId, sha: &CommitSha) -> Result<Option<(Job, IssueNumber)>, StoreError> {
        for job in self.tx.jobs_that_left(repo, sha).await? {
            let pull = match (&job.outcome, &job.subject) {
                (Some(Outcome::Opened { pull, .. }), _) => Some(*pull),
                (Some(Outcome::Pushed { .. }), Subject::Pull(pull)) => {
                    self.tx.has_opened(repo, *pull).await?.then_some(*pull)
                }
                // Its last effects are under way, and checks may be faster.
                (Some(Outcome::Pushed { .. }), _) => self.opening(&job).await?,
                _ => None,
            };
            if let Some(pull) = pull {
                return Ok(Some((job, pull)));
            }
        }
        Ok(None)
    }

    async fn opening(&mut self, job: &Job) -> Result<Option<IssueNumber>, StoreError> {
        let effects = self.tx.effects(&job.id).await?;
        let open = effects
            .iter()
            .rev()
            .find(|effect| matches!(effect.body, EffectBody::OpenPull { .. }));
        let number = open.and_then(|effect| effect.remote_id.as_deref()?.parse().ok());
        Ok(number.map(IssueNumber))
    }

    /// Work that goes on there may move the head or may not: this one waits behind it and looks
    /// itself, so that no failure is forgotten.
    async fn looked_at(&mut self, repo: RepoId, subject: &Subject, sha: &CommitSha) -> Result<bool, StoreError> {
        let jobs = self.jobs_of(Some(repo), Some(subject), JobState::ALL).await?;
        let of_commit = |job: &Job| matches!(&job.request.trigger, Trigger::Checks { sha: other } if other == sha);
        Ok(jobs.iter().any(of_commit))
    }
}
