//! Makes a delivery durable: the delivery itself, and everything that triage made of it, in one
//! transaction. Called by the webhook receiver, which answers 2xx only after `accept` returned.
//! Never calls GitHub and never leaves half of a delivery behind.

use chrono::{DateTime, Utc};

use super::payload::{Delivery, Payload, Repo};
use super::triage::{CONTROL_PRIORITY, Intent, Rules, triage};
use crate::ids::{InstallationId, JobId, RepoId, Subject};
use crate::job::{Job, JobKind, JobState, NewJob, Trigger};
use crate::store::{DeliveryRow, Inserted, JobFilter, RepoRow, Store, StoreError, Tx};

mod again;
mod checks;

use again::Told;

/// Jobs that one cancelling delivery looks through: far more than one subject or one App ever
/// has open at a time.
const MAX_JOBS: u32 = 10_000;

/// Requests of bots on one issue or pull request that are taken within an hour.
const MAX_BOT_REQUESTS: usize = 5;

/// States in which a job can still be stopped.
const OPEN: [JobState; 4] = [
    JobState::Queued,
    JobState::Leased,
    JobState::Waiting,
    JobState::Publishing,
];

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its kind, for the answer and for metrics.
    pub verdict: Verdict,
    /// In a few words, as stored with the delivery.
    pub outcome: String,
    /// The jobs that were inserted.
    pub jobs: Vec<JobId>,
    /// How many jobs it stopped.
    pub stopped: usize,
}

/// The kinds of outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was seen before; nothing was done.
    Duplicate,
    /// Nothing is made of it.
    Ignored,
    /// It speaks for an installation that we do not hold for its repository; nothing was done.
    Refused,
    /// It was acted upon.
    Applied,
}

impl Verdict {
    /// The word in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Duplicate => "duplicate",
            Verdict::Ignored => "ignored",
            Verdict::Refused => "refused",
            Verdict::Applied => "applied",
        }
    }
}

/// Stores a delivery with all that follows from it, or nothing.
///
/// # Errors
/// When the database does not take it; GitHub may then deliver it again.
pub async fn accept(store: &Store, delivery: &Delivery, rules: &Rules) -> Result<Accepted, StoreError> {
    let mut tx = store.begin().await?;
    fp!("ingest.begun");
    let (held, own_label) = held(&mut tx, delivery).await?;
    let rules = Rules {
        own_label,
        ..rules.clone()
    };
    let intents = triage(delivery, &rules);
    if let Some(sender) = &delivery.sender {
        tx.act_as(crate::audit::person(&sender.login));
    }
    // Most failed checks are of commits that nobody here made.
    let is_noise = |intent: &Intent| matches!(intent, Intent::Ignore(_) | Intent::ChecksFailed { .. });
    let is_ignored = intents.iter().all(is_noise);
    let told = match is_ignored {
        true => Told::default(),
        false => Told::look(&mut tx, delivery, &intents).await?,
    };
    if !is_ignored && told.is_same(&mut tx, delivery).await? {
        return again::note(tx, row(delivery, again::OUTCOME, true)).await;
    }
    let mut applying = Applying {
        tx,
        delivery,
        held,
        told,
        notes: Vec::new(),
        jobs: Vec::new(),
        stopped: 0,
    };
    let verdict = applying.all(intents).await?;
    let Applying {
        mut tx,
        notes,
        jobs,
        stopped,
        ..
    } = applying;
    let outcome = crate::text::cap_chars(&notes.join("; "), 500);
    // The delivery comes last, so that its row says what became of it. When it was seen before,
    // the transaction is dropped and with it everything above.
    if tx.insert_delivery(&row(delivery, &outcome, is_ignored)).await? == Inserted::Duplicate {
        return Ok(Accepted {
            verdict: Verdict::Duplicate,
            outcome: "seen before".to_owned(),
            jobs: Vec::new(),
            stopped: 0,
        });
    }
    fp!("ingest.written");
    tx.commit().await?;
    fp!("receiver.committed");
    Ok(Accepted {
        verdict,
        outcome,
        jobs,
        stopped,
    })
}

/// What is known of the delivery's repository, and its own label.
async fn held(tx: &mut Tx, delivery: &Delivery) -> Result<(Option<RepoRow>, Option<String>), StoreError> {
    let known = match &delivery.repo {
        Some(repo) => tx.repo_with_label(repo.id).await?,
        None => None,
    };
    Ok(known.map_or((None, None), |(repo, label)| (Some(repo), label)))
}

/// The delivery as a row. The body is kept only when something is made of it: most of what
/// GitHub sends concerns nobody here.
fn row(delivery: &Delivery, outcome: &str, is_ignored: bool) -> DeliveryRow {
    DeliveryRow {
        guid: delivery.guid.clone(),
        semantic_key: delivery.semantic_key(),
        event: delivery.event.clone(),
        action: delivery.action.clone(),
        repo_id: delivery.repo.as_ref().map(|repo| repo.id),
        body_sha256: delivery.body_sha256.clone(),
        body: if is_ignored {
            "{}".to_owned()
        } else {
            delivery.body.clone()
        },
        received_at: delivery.received_at,
        outcome: outcome.to_owned(),
    }
}

/// A transaction in which the intents of one delivery are carried out.
struct Applying<'a> {
    tx: Tx,
    delivery: &'a Delivery,
    /// What is known of its repository; locked by nobody.
    held: Option<RepoRow>,
    told: Told,
    notes: Vec<String>,
    jobs: Vec<JobId>,
    stopped: usize,
}

impl Applying<'_> {
    async fn all(&mut self, intents: Vec<Intent>) -> Result<Verdict, StoreError> {
        let mut verdict = Verdict::Ignored;
        for intent in intents {
            let next = match self.forbidden(&intent).await? {
                Some(why) => {
                    self.notes.push(why);
                    Verdict::Refused
                }
                None => self.one(intent).await?,
            };
            // One thing done is worth more in the summary than another left undone.
            if verdict != Verdict::Applied {
                verdict = next;
            }
        }
        Ok(verdict)
    }

    /// W12: only the installation that holds a repository may have work started or stopped there.
    /// A repository seen for the first time, and one whose installation ended, is taken over.
    async fn forbidden(&mut self, intent: &Intent) -> Result<Option<String>, StoreError> {
        if !matches!(
            intent,
            Intent::Start(_)
                | Intent::Join(_)
                | Intent::CancelSubject { .. }
                | Intent::CancelTrigger { .. }
                | Intent::ChecksFailed { .. }
                | Intent::HeadMoved { .. }
                | Intent::RepoRenamed(_)
        ) {
            return Ok(None);
        }
        let (Some(repo), Some(installation)) = (&self.delivery.repo, self.delivery.installation) else {
            return Ok(Some("no repository or installation is named".to_owned()));
        };
        let Some(held) = &self.held else {
            self.hold(repo, installation).await?;
            return Ok(None);
        };
        match (held.installation == installation, held.active) {
            (true, true) => Ok(None),
            (true, false) => Ok(Some("the App is not installed on this repository any more".to_owned())),
            (false, false) => {
                self.hold(repo, installation).await?;
                Ok(None)
            }
            (false, true) => {
                tracing::warn!(
                    target: "forgehand::security",
                    guid = %self.delivery.guid, repo = %repo.id, %installation, held = %held.installation,
                    "a signed delivery speaks for an installation that does not hold the repository; nothing was done"
                );
                Ok(Some(format!(
                    "installation {installation} does not hold the repository"
                )))
            }
        }
    }

    async fn one(&mut self, intent: Intent) -> Result<Verdict, StoreError> {
        match intent {
            Intent::Start(job) => self.start(&job).await,
            Intent::Join(job) => match self.queued_fix(job.repo_id, &job.subject).await? {
                Some(id) => Ok(self.note(Verdict::Applied, format!("joins job {id}"))),
                None => self.start(&job).await,
            },
            Intent::CancelSubject { repo, subject, reason } if self.delivery.action == "closed" => {
                let jobs = self.jobs_of(Some(repo), Some(&subject), &OPEN).await?;
                let delivery = self.delivery;
                let stops = |job: &Job| job.kind.is_work() && again::came_before(job, delivery);
                self.cancel_all(jobs.into_iter().filter(stops).map(|job| job.id), reason)
                    .await
            }
            Intent::CancelSubject { repo, subject, reason } => {
                let stopped = self.tx.cancel_subject(repo, &subject, reason, self.now()).await?;
                self.stopped += stopped.len();
                Ok(self.note(Verdict::Applied, format!("{reason}: {} job(s) stopped", stopped.len())))
            }
            Intent::CancelTrigger {
                repo,
                subject,
                trigger,
                reason,
            } => self.cancel_trigger(repo, subject, &trigger, reason).await,
            Intent::ChecksFailed {
                repo,
                sha,
                max_attempts,
            } => self.checks_failed(repo, sha, max_attempts).await,
            Intent::HeadMoved { repo, subject, note } => {
                match self.tx.note_on_work(repo, &subject, &note, self.now()).await? {
                    Some(id) => Ok(self.note(Verdict::Applied, format!("job {id} was told of a push"))),
                    None => Ok(self.note(Verdict::Ignored, "nothing is at work there".to_owned())),
                }
            }
            Intent::RepoHeld { repo, installation } => {
                self.hold(&repo, installation).await?;
                Ok(self.note(Verdict::Applied, format!("repository {} is held", repo.id)))
            }
            Intent::RepoMoved {
                repo,
                installation,
                reason,
            } => {
                self.hold(&repo, installation).await?;
                self.cancel_where(reason, |job| job.repo_id == repo.id).await
            }
            Intent::RepoRenamed(repo) => {
                let installation = self.delivery.installation.unwrap_or(InstallationId(0));
                self.hold(&repo, installation).await?;
                Ok(self.note(Verdict::Applied, format!("repository {} is now {}", repo.id, repo.name)))
            }
            Intent::RepoGone {
                repo,
                installation,
                reason,
            } => self.let_go(repo, installation, reason).await,
            Intent::InstallationResumed(installation) => {
                self.tx.set_installation_active(installation, true).await?;
                Ok(self.note(Verdict::Applied, format!("installation {installation} works again")))
            }
            Intent::InstallationEnded { installation, reason } => {
                self.tx.set_installation_active(installation, false).await?;
                self.cancel_where(reason, |job| job.installation == installation).await
            }
            Intent::Ignore(reason) => Ok(self.note(Verdict::Ignored, reason.to_owned())),
        }
    }

    async fn start(&mut self, job: &NewJob) -> Result<Verdict, StoreError> {
        if self.is_a_loop(job).await? {
            tracing::warn!(target: "forgehand::security", repo = %job.repo_id, subject = %job.subject, actor = %job.request.actor.login, "bots ask again and again; no more is taken there for a while");
            return Ok(self.note(Verdict::Ignored, "bots ask here too often".to_owned()));
        }
        if let Some(reason) = self.withdrawn(job).await? {
            return Ok(self.note(Verdict::Ignored, reason.to_owned()));
        }
        if self.told.is_closed(job) {
            return Ok(self.note(Verdict::Ignored, "it was closed since".to_owned()));
        }
        let other = match self.as_answer(job).await? {
            Some(answer) => Some(answer),
            None => self.as_instruction(job).await?,
        };
        let job = other.as_ref().unwrap_or(job);
        let inserted = match self.tx.insert_job(job, self.now()).await? {
            None if self.is_stopping(job).await? => {
                let mut again = job.clone();
                again.dedupe_key = job.dedupe_key.as_ref().map(|key| format!("{key}:again"));
                self.tx.insert_job(&again, self.now()).await?
            }
            inserted => inserted,
        };
        match inserted {
            Some(id) => {
                self.jobs.push(id.clone());
                Ok(self.note(Verdict::Applied, format!("{} job {id}", job.kind)))
            }
            None => Ok(self.note(Verdict::Ignored, "the same request is already open".to_owned())),
        }
    }

    /// Whether the label was put on again while the job of its last coming is still being stopped:
    /// that one will not do the work any more, so it waits for its turn behind it.
    async fn is_stopping(&mut self, job: &NewJob) -> Result<bool, StoreError> {
        if !matches!(job.request.trigger, Trigger::Label { .. }) {
            return Ok(false);
        }
        let open = self.jobs_of(Some(job.repo_id), Some(&job.subject), &OPEN).await?;
        Ok(open.iter().any(|other| {
            let by_label = other.request.trigger.label().is_some();
            by_label && other.kind == job.kind && other.cancel_requested_at.is_some()
        }))
    }

    /// Where a job waits for a person, the words of another `fix` are meant for it: they become its
    /// answer. Whether the person may answer is asked as for every command.
    async fn as_answer(&mut self, job: &NewJob) -> Result<Option<NewJob>, StoreError> {
        let is_words = job.kind == JobKind::Fix && !matches!(job.request.trigger, Trigger::Label { .. });
        if !is_words || self.tx.asking_job(job.repo_id, &job.subject).await?.is_none() {
            return Ok(None);
        }
        let mut answer = job.clone();
        answer.kind = JobKind::Answer;
        answer.priority = CONTROL_PRIORITY;
        answer.dedupe_key = job.dedupe_key.as_ref().map(|key| key.replacen("fix:", "answer:", 1));
        if answer.request.instructions.is_empty() {
            // To a plan that waits this is consent, to a question it is none of an answer.
            answer.request.instructions = "Yes, go on, and decide yourself.".to_owned();
        }
        Ok(Some(answer))
    }

    /// While a job changes code there, the words of another `fix` are meant for it: they reach it
    /// before its next model call. Whether there is still time, and whether the person may, is
    /// looked at when its turn comes; if not, it is a job of its own as before.
    async fn as_instruction(&mut self, job: &NewJob) -> Result<Option<NewJob>, StoreError> {
        let is_said = matches!(job.request.trigger, Trigger::Comment { .. });
        if job.kind != JobKind::Fix || !is_said || job.request.instructions.is_empty() {
            return Ok(None);
        }
        let at_work = self
            .jobs_of(Some(job.repo_id), Some(&job.subject), &[JobState::Leased])
            .await?;
        if !at_work.iter().any(|other| other.kind.hears()) {
            return Ok(None);
        }
        let mut instruction = job.clone();
        instruction.kind = JobKind::Steer;
        instruction.priority = CONTROL_PRIORITY;
        instruction.dedupe_key = job.dedupe_key.as_ref().map(|key| key.replacen("fix:", "steer:", 1));
        Ok(Some(instruction))
    }

    /// P07: Apps that may give work and answer each other could go on for ever. Above this many
    /// requests of bots on one subject within an hour, no more are taken there.
    async fn is_a_loop(&mut self, job: &NewJob) -> Result<bool, StoreError> {
        if !job.request.actor.is_bot {
            return Ok(false);
        }
        // Their deliveries come at the same time: the row of the repository lets them count one
        // after another.
        if let (Some(repo), Some(installation)) = (&self.delivery.repo, self.delivery.installation) {
            self.hold(repo, installation).await?;
        }
        let since = self.now() - chrono::TimeDelta::hours(1);
        let jobs = self
            .jobs_of(Some(job.repo_id), Some(&job.subject), JobState::ALL)
            .await?;
        let recent = jobs
            .iter()
            .filter(|other| other.request.actor.is_bot && other.created_at > since);
        Ok(recent.count() >= MAX_BOT_REQUESTS)
    }

    /// Whether the trigger is known to be gone or dealt with already. What happened in the same second may
    /// have been before: the job looks itself.
    async fn withdrawn(&mut self, job: &NewJob) -> Result<Option<&'static str>, StoreError> {
        let is_gone = self.told.is_gone(self.delivery, job);
        match job.request.trigger {
            Trigger::Comment { .. } | Trigger::ReviewComment { .. } if is_gone => {
                Ok(Some("the comment is deleted already"))
            }
            _ if is_gone => Ok(Some("the label is removed already")),
            Trigger::Label { .. } if matches!(self.delivery.payload, Payload::Issue { .. }) => {
                self.taken_by_queue(job).await
            }
            _ => Ok(None),
        }
    }

    /// Whether the queue that is polled found this coming of the label first, and its job is over:
    /// one that is not over has the same key.
    async fn taken_by_queue(&mut self, job: &NewJob) -> Result<Option<&'static str>, StoreError> {
        let over = [JobState::Done, JobState::Dead, JobState::Cancelled];
        let jobs = self.jobs_of(Some(job.repo_id), Some(&job.subject), &over).await?;
        let is_of_queue = |other: &Job| matches!(other.request.trigger, Trigger::Queue { .. });
        let is_taken = jobs.iter().any(|other| {
            is_of_queue(other)
                && other.request.trigger.has_same_label(&job.request.trigger)
                && other.request.triggered_at >= job.request.triggered_at
        });
        Ok(is_taken.then_some("the queue took the issue already"))
    }

    async fn queued_fix(&mut self, repo: RepoId, subject: &Subject) -> Result<Option<JobId>, StoreError> {
        let jobs = self.jobs_of(Some(repo), Some(subject), &[JobState::Queued]).await?;
        // One of failed checks would end without a word where they pass.
        let is_asked_for =
            |job: &Job| job.kind == JobKind::Fix && !matches!(job.request.trigger, Trigger::Checks { .. });
        Ok(jobs
            .into_iter()
            .find(|job| is_asked_for(job) && job.attempt == 0)
            .map(|job| job.id))
    }

    /// Stops what a trigger started. Without its comment only work that has not begun stops:
    /// people tidy up conversations. Without its label, work that is going on stops too.
    async fn cancel_trigger(
        &mut self,
        repo: RepoId,
        subject: Subject,
        trigger: &Trigger,
        reason: &'static str,
    ) -> Result<Verdict, StoreError> {
        if self.told.is_labelled_again(self.delivery, repo, trigger) {
            return Ok(self.note(Verdict::Ignored, "the label was put on again since".to_owned()));
        }
        let states: &[JobState] = if matches!(trigger, Trigger::Label { .. }) {
            &OPEN
        } else {
            &OPEN[..1]
        };
        let jobs = self.jobs_of(Some(repo), Some(&subject), states).await?;
        let delivery = self.delivery;
        let started = |job: &Job| {
            let is_of_it = job.request.trigger.has_same_label(trigger) || job.request.trigger == *trigger;
            is_of_it && again::came_before(job, delivery)
        };
        self.cancel_all(jobs.into_iter().filter(started).map(|job| job.id), reason)
            .await
    }

    async fn cancel_where(&mut self, reason: &str, which: impl Fn(&Job) -> bool) -> Result<Verdict, StoreError> {
        let jobs = self.jobs_of(None, None, &OPEN).await?;
        self.cancel_all(jobs.into_iter().filter(which).map(|job| job.id), reason)
            .await
    }

    async fn cancel_all(&mut self, jobs: impl Iterator<Item = JobId>, reason: &str) -> Result<Verdict, StoreError> {
        let mut stopped = 0;
        for id in jobs {
            self.tx.cancel_job(&id, reason, self.now()).await?;
            stopped += 1;
        }
        self.stopped += stopped;
        Ok(self.note(Verdict::Applied, format!("{reason}: {stopped} job(s) stopped")))
    }

    async fn jobs_of(
        &mut self,
        repo_id: Option<RepoId>,
        subject: Option<&Subject>,
        states: &[JobState],
    ) -> Result<Vec<Job>, StoreError> {
        let filter = JobFilter {
            states: states.to_vec(),
            repo_id,
            subject: subject.cloned(),
            limit: MAX_JOBS,
        };
        self.tx.jobs(&filter).await
    }

    async fn hold(&mut self, repo: &Repo, installation: InstallationId) -> Result<(), StoreError> {
        let row = RepoRow {
            id: repo.id,
            name: repo.name.clone(),
            installation,
            active: true,
        };
        self.tx.upsert_repo(&row).await?;
        if self.delivery.repo.as_ref().is_some_and(|own| own.id == repo.id) {
            self.held = Some(row);
        }
        Ok(())
    }

    async fn let_go(
        &mut self,
        repo: Repo,
        installation: InstallationId,
        reason: &'static str,
    ) -> Result<Verdict, StoreError> {
        let held = self.tx.repo(repo.id).await?;
        if held.is_some_and(|held| held.installation != installation) {
            return Ok(self.note(
                Verdict::Ignored,
                format!("repository {} has another installation by now", repo.id),
            ));
        }
        let row = RepoRow {
            id: repo.id,
            name: repo.name,
            installation,
            active: false,
        };
        self.tx.upsert_repo(&row).await?;
        self.cancel_where(reason, |job| job.repo_id == repo.id).await
    }

    fn note(&mut self, verdict: Verdict, note: String) -> Verdict {
        self.notes.push(note);
        verdict
    }

    fn now(&self) -> DateTime<Utc> {
        self.delivery.received_at
    }
}
