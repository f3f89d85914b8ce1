//! What may be spent: the caps of a job, its issue or pull request, its repository, its
//! installation and the whole service. Before each call of a model, one transaction looks at what
//! was spent and what others have set aside, and sets aside what the call may cost. So no cap is
//! passed by more than one call, however many jobs and processes spend on it: a call is let through
//! only while its caps are not used up, calls that are under way included. Called by `recorder`,
//! and for what people are told of caps.
//! Never estimates a price that nobody configured, and never holds a job that costs nothing.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::config::BudgetConfig;
use crate::event::RunEvent;
use crate::ids::Subject;
use crate::job::{Job, Lease};
use crate::money::{Cap, Usd};
use crate::phrase::Language;
use crate::phrase::money::{self, Help, Used};
use crate::store::{Account, Spent, Store, StoreError, Tx};

/// Share of a cap from which people and the model are warned.
const WARN_AT: f64 = 0.8;

/// The caps that the operator set. Nothing is no cap.
#[derive(Debug, Clone)]
pub struct Caps {
    config: Arc<BudgetConfig>,
    language: Language,
    command: String,
}

/// The ledger as one job sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger {
    store: Store,
    lease: Lease,
    account: Account,
    caps: Caps,
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The most that it should cost in US dollars; `None` when the price is unknown.
    pub estimate_usd: Option<f64>,
    /// The cap of the job in US dollars, which the repository may have lowered: 0 is none.
    pub job_cap_usd: f64,
}

/// A cap that has come near, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// Whose cap, and how high.
    pub key: (Cap, Usd),
    /// For the model.
    pub words: String,
}

/// What the caps say to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Leave {
    /// It may be made.
    Granted {
        /// What is left of the tightest cap before it, in US dollars; `None`: there is no cap.
        left_usd: Option<f64>,
        /// Caps that have come near.
        near: Vec<Near>,
    },
    /// It must not be made; why and what to do, for people.
    Refused(String),
}

impl Caps {
    /// The caps of the configuration, and what people are told of them in.
    pub fn new(config: &BudgetConfig, language: Language, command: &str) -> Self {
        Self {
            config: Arc::new(config.clone()),
            language,
            command: command.to_owned(),
        }
    }

    /// The largest cap that a comment may set.
    pub fn most_by_comment(&self) -> Usd {
        Usd::from_dollars(self.config.max_comment_usd)
    }

    /// The cap of an issue or pull request, with what its jobs spent: the one that somebody set,
    /// else the operator's. `None`: there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn of_subject(&self, tx: &mut Tx, job: &Job, at: DateTime<Utc>) -> Result<Option<Used>, StoreError> {
        let set = tx.subject_cap(job.repo_id, &job.subject).await?;
        let spent = tx.spent(&account(job), at).await?;
        Ok(Some(Used {
            cap: of_subject(&job.subject),
            most: set.map_or_else(|| self.usual_of(&job.subject), |cap| cap.most),
            // People want to know what was spent; a call that is under way shows when it is charged.
            sum: spent.subject,
        })
        .filter(|used| used.most > Usd::ZERO))
    }

    /// What the operator allows for an issue or pull request on which nobody set anything.
    pub fn subject(&self) -> Usd {
        Usd::from_dollars(self.config.max_issue_usd)
    }

    /// A task comes again and again, such as every night: of all its jobs together nobody means to spend
    /// a sum. Each job has its cap, and each day.
    fn usual_of(&self, subject: &Subject) -> Usd {
        match subject {
            Subject::Task(_) => Usd::ZERO,
            Subject::Issue(_) | Subject::Pull(_) | Subject::Local(_) => self.subject(),
        }
    }

    /// Every cap that holds for a call, with what counts against it.
    fn of(&self, account: &Account, job_cap_usd: f64, set: Option<Usd>, spent: &Spent) -> Vec<Used> {
        let config = &self.config;
        // Whoever sets the cap of the whole work says what it is worth; a job is a part of it.
        let job = match set {
            None => Usd::from_dollars(job_cap_usd),
            Some(_) => Usd::ZERO,
        };
        [
            (Cap::Job, job, spent.job),
            (
                of_subject(&account.subject),
                set.unwrap_or_else(|| self.usual_of(&account.subject)),
                spent.subject + spent.subject_set_aside,
            ),
            (
                Cap::RepositoryDay,
                Usd::from_dollars(config.max_repository_day_usd),
                spent.repository,
            ),
            (
                Cap::InstallationDay,
                Usd::from_dollars(config.max_installation_day_usd),
                spent.installation,
            ),
            (Cap::ServiceDay, Usd::from_dollars(config.max_day_usd), spent.everybody),
        ]
        .into_iter()
        .filter(|(_, most, _)| *most > Usd::ZERO)
        .map(|(cap, most, sum)| Used { cap, most, sum })
        .collect()
    }
}

impl Ledger {
    /// The ledger for a job in hand.
    pub fn open(store: Store, lease: Lease, job: &Job, caps: Caps) -> Self {
        Self {
            store,
            lease,
            account: account(job),
            caps,
        }
    }

    /// Asks whether a call may be made, and sets aside what it may cost. A warning is written into
    /// the job's log with it, once for each cap and height.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when the run must stop; other errors of the database.
    pub async fn leave(&self, call: &Call, at: DateTime<Utc>) -> Result<Leave, StoreError> {
        let mut tx = self.store.begin().await?;
        tx.begin_spending(&self.lease).await?;
        let set = tx.subject_cap(self.account.repo_id, &self.account.subject).await?;
        let spent = tx.spent(&self.account, at).await?;
        let used = self
            .caps
            .of(&self.account, call.job_cap_usd, set.map(|cap| cap.most), &spent);
        let near = self.warn(&mut tx, &used, at).await?;
        let reached = used.iter().find(|used| used.sum >= used.most);
        if reached.is_none()
            && let Some(estimate) = call.estimate_usd
        {
            tx.reserve(&self.lease, Usd::from_dollars(estimate), at).await?;
        }
        tx.commit().await?;
        Ok(match reached {
            Some(used) => {
                let help = Help {
                    command: &self.caps.command,
                    most: self.caps.most_by_comment(),
                };
                Leave::Refused(money::reached(self.caps.language, used, &help))
            }
            None => Leave::Granted {
                left_usd: used.iter().map(|used| used.most - used.sum).min().map(Usd::dollars),
                near,
            },
        })
    }

    /// Nothing came of the last call that has to be paid for.
    ///
    /// # Errors
    /// As [`Ledger::leave`].
    pub async fn release(&self) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.release_reservation(&self.lease).await?;
        tx.commit().await
    }

    /// The caps that are near. Those that the job was not warned of yet go into its log.
    async fn warn(&self, tx: &mut Tx, used: &[Used], at: DateTime<Utc>) -> Result<Vec<Near>, StoreError> {
        let mut near = Vec::new();
        for used in used.iter().filter(|used| used.sum.share_of(used.most) >= WARN_AT) {
            if tx.warn_of_cap(&self.account.job, used.cap.word(), used.most).await? {
                let text = money::near(self.caps.language, used);
                tx.append_event(&self.lease, &RunEvent::BudgetWarned { text }, at)
                    .await?;
            }
            near.push(Near {
                key: (used.cap, used.most),
                words: money::near(Language::English, used),
            });
        }
        Ok(near)
    }
}

fn account(job: &Job) -> Account {
    Account {
        job: job.id.clone(),
        repo_id: job.repo_id,
        subject: job.subject.clone(),
        installation: job.installation,
    }
}

fn of_subject(subject: &Subject) -> Cap {
    match subject {
        Subject::Pull(_) => Cap::Pull,
        Subject::Issue(_) | Subject::Local(_) | Subject::Task(_) => Cap::Issue,
    }
}
