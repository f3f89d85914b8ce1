//! Table `drafts`: issues that runs offer, the person who confirmed one, and what it became.
//! Called by `publish`, by `worker` and by the command line. Never changes what was offered: a
//! number means the same text for ever.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::row::{count, from_json, micros, parse, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::audit::{Act, Action, person};
use crate::draft::{DraftState, NewOffer, Offer};
use crate::ids::{DraftId, RepoId, Subject};
use crate::job::{Job, Lease};

row! {
    Stored {
        id: String,
        job_id: String,
        repo_id: i64,
        repo: String,
        subject: String,
        number: i64,
        hash: String,
        proposal: String,
        issue: String,
        is_shown: bool,
        state: String,
        offered_at: DateTime<Utc>,
        confirmed_by: Option<String>,
        confirmed_at: Option<DateTime<Utc>>,
        confirmed_job: Option<String>,
        created_as: Option<String>,
    }
}

impl Tx {
    /// Offers drafts of a run under the next numbers of the job's issue or pull request. What an
    /// earlier attempt of the same job offered and nobody confirmed goes: nobody has seen it as
    /// the end of the job, and a number that was seen is withdrawn, not given again.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn offer_drafts(
        &mut self,
        lease: &Lease,
        job: &Job,
        offers: &[NewOffer],
        at: DateTime<Utc>,
    ) -> Result<Vec<u32>, StoreError> {
        self.hold(lease).await?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE drafts
                 SET state = 'withdrawn'
                 WHERE job_id = $1
                   AND state = 'offered'
                   AND confirmed_job IS NULL"
            )
            .bind(job.id.as_str()),
            execute
        )?;
        let last: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COALESCE(MAX(number), 0)
                 FROM (
                     SELECT number FROM drafts WHERE repo_id = $1 AND subject = $2
                     UNION ALL
                     SELECT last_number AS number FROM draft_numbers WHERE repo_id = $1 AND subject = $2
                 ) AS numbers"
            )
            .bind(job.repo_id.as_i64())
            .bind(job.subject.to_string()),
            fetch_one
        )?;
        let mut numbers = Vec::new();
        for (number, offer) in (last + 1..).zip(offers) {
            on_db!(
                self,
                sqlx::query(
                    "INSERT INTO drafts (id, job_id, repo_id, repo, subject, number, kind, hash, proposal, issue, is_shown,
                                         state, offered_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'offered', $12)"
                )
                .bind(offer.id.as_str())
                .bind(job.id.as_str())
                .bind(job.repo_id.as_i64())
                .bind(job.repo.as_str())
                .bind(job.subject.to_string())
                .bind(number)
                .bind(offer.proposal.draft.kind.as_str())
                .bind(&offer.hash)
                .bind(without_nul(&to_json("drafts.proposal", &offer.proposal)?))
                .bind(without_nul(&to_json("drafts.issue", &offer.issue)?))
                .bind(offer.is_shown)
                .bind(micros(at)),
                execute
            )?;
            numbers.push(count("drafts.number", number)?);
        }
        Ok(numbers)
    }

    /// Takes offers back that a later draft replaces; those that were confirmed stay.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn withdraw_drafts(&mut self, lease: &Lease, ids: &[DraftId]) -> Result<u64, StoreError> {
        self.hold(lease).await?;
        let mut withdrawn = 0;
        for id in ids {
            withdrawn += on_db!(
                self,
                sqlx::query(
                    "UPDATE drafts
                     SET state = 'withdrawn'
                     WHERE id = $1
                       AND state = 'offered'
                       AND confirmed_job IS NULL"
                )
                .bind(id.as_str()),
                execute
            )?;
        }
        Ok(withdrawn)
    }

    /// The drafts of an issue or pull request, the latest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn drafts_of(&mut self, repo: RepoId, subject: &Subject, limit: u32) -> Result<Vec<Offer>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, job_id, repo_id, repo, subject, number, hash, proposal, issue, is_shown, state, offered_at,
                        confirmed_by, confirmed_at, confirmed_job, created_as
                 FROM drafts
                 WHERE repo_id = $1
                   AND subject = $2
                 ORDER BY number DESC
                 LIMIT $3"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string())
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored.into_iter().map(Offer::try_from).collect()
    }

    /// All drafts, the latest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn drafts(&mut self, limit: u32) -> Result<Vec<Offer>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, job_id, repo_id, repo, subject, number, hash, proposal, issue, is_shown, state, offered_at,
                        confirmed_by, confirmed_at, confirmed_job, created_as
                 FROM drafts
                 ORDER BY id DESC
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored.into_iter().map(Offer::try_from).collect()
    }

    /// One draft.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn draft(&mut self, id: &DraftId) -> Result<Option<Offer>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, job_id, repo_id, repo, subject, number, hash, proposal, issue, is_shown, state, offered_at,
                        confirmed_by, confirmed_at, confirmed_job, created_as
                 FROM drafts
                 WHERE id = $1"
            )
            .bind(id.as_str()),
            fetch_optional
        )?;
        stored.map(Offer::try_from).transpose()
    }

    /// Notes that a person confirmed an offer, for the job that creates it. False: it is not
    /// offered any more, or the job of another confirmation is at it. One that ended without
    /// creating it does not count any more.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn confirm_draft(
        &mut self,
        lease: &Lease,
        id: &DraftId,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        self.hold(lease).await?;
        let confirmed = on_db!(
            self,
            sqlx::query(
                "UPDATE drafts
                 SET confirmed_by = $3,
                     confirmed_at = $4,
                     confirmed_job = $2
                 WHERE id = $1
                   AND state = 'offered'
                   AND NOT EXISTS (
                       SELECT 1
                       FROM jobs
                       WHERE jobs.id = drafts.confirmed_job
                         AND jobs.id <> $2
                         AND jobs.state NOT IN ('done', 'dead', 'cancelled')
                   )"
            )
            .bind(id.as_str())
            .bind(lease.job.as_str())
            .bind(without_nul(by))
            .bind(micros(at)),
            execute
        )?;
        if confirmed == 1 {
            let act = Act::new(Action::DraftConfirmed)
                .by(person(by))
                .with("draft", id.as_str());
            self.audit_job(act, &lease.job, Whose::Act).await?;
        }
        Ok(confirmed == 1)
    }

    /// Notes what a confirmed draft became. Done twice, it changes nothing.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when the job is not the one that was
    /// confirmed for.
    pub async fn note_draft_created(
        &mut self,
        lease: &Lease,
        id: &DraftId,
        created_as: &str,
    ) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE drafts
                 SET state = 'created',
                     created_as = COALESCE(created_as, $3)
                 WHERE id = $1
                   AND confirmed_job = $2"
            )
            .bind(id.as_str())
            .bind(lease.job.as_str())
            .bind(without_nul(created_as)),
            execute
        )?;
        if noted != 1 {
            return Err(StoreError::Corrupt(format!(
                "draft {id} was not confirmed for job {}",
                lease.job
            )));
        }
        Ok(())
    }
}

impl TryFrom<Stored> for Offer {
    type Error = StoreError;

    fn try_from(stored: Stored) -> Result<Self, StoreError> {
        let state: DraftState = parse("drafts.state", &stored.state)?;
        let confirmed_job = stored.confirmed_job.as_deref();
        Ok(Self {
            id: parse("drafts.id", &stored.id)?,
            job: parse("drafts.job_id", &stored.job_id)?,
            repo_id: RepoId::from_i64(stored.repo_id),
            repo: parse("drafts.repo", &stored.repo)?,
            subject: parse("drafts.subject", &stored.subject)?,
            number: count("drafts.number", stored.number)?,
            proposal: from_json("drafts.proposal", &stored.proposal)?,
            issue: from_json("drafts.issue", &stored.issue)?,
            hash: stored.hash,
            is_shown: stored.is_shown,
            state,
            offered_at: stored.offered_at,
            confirmed_by: stored.confirmed_by,
            confirmed_at: stored.confirmed_at,
            confirmed_job: confirmed_job
                .map(|job| parse("drafts.confirmed_job", job))
                .transpose()?,
            created_as: stored.created_as,
        })
    }
}
