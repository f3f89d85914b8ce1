//! Work graphs in rows: each change takes the graph in hand, lets `milestone` judge, and writes what
//! came of it in the same transaction, so that several processes on one database follow one another.
//! Called by the tools, by local runs and by the flow that advances graphs.
//! Never starts work by itself, and never keeps in memory what a killed process would lose.

use std::time::Duration;

use chrono::TimeDelta;

use crate::audit::{Act, Action};
use crate::clock::Clock;
use crate::ids::CommitSha;
use crate::job::Lease;
use crate::milestone::{
    Conclusion, Graph, GraphFile, GraphKey, Hold, Holder, Limits, Milestone, MilestoneError, MilestoneId,
    MilestoneState, NewMilestone, Outlook, Standing,
};
use crate::store::{Store, StoreError, Tx};

mod desk;
mod recorded;
mod request;

pub use desk::{Desk, DeskError, Purpose, standing_of};
pub use recorded::RecordedDesk;
pub use request::{BeginsWith, request};

/// How long a process holds a milestone without a word: a killed one is noticed then at the latest.
pub const HOLD: Duration = Duration::from_secs(120);
/// Time between two words of it: several may be late before the hold is over.
pub const RENEW: Duration = Duration::from_secs(20);

/// Why a graph was not changed.
#[derive(Debug, thiserror::Error)]
pub enum WorkGraphError {
    /// The rules for milestones forbid it.
    #[error(transparent)]
    Refused(#[from] MilestoneError),
    /// There is no such graph.
    #[error("there is no work graph {name} of {repository}; `forgehand goal` or `forgehand milestones add` makes one", name = .0.name, repository = .0.repository)]
    Missing(GraphKey),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One work graph in the database. Cheap to clone.
#[derive(Clone)]
pub struct WorkGraph {
    store: Store,
    clock: Clock,
    key: GraphKey,
    limits: Limits,
    /// The right to write, for a run that has one to lose.
    lease: Option<Lease>,
}

/// What is done with a graph that does not exist yet.
enum Absent<'a> {
    Refuse,
    Make { goal: &'a str, standing: Standing },
}

/// What came of asking for work.
#[derive(Debug)]
pub enum Taken {
    /// This milestone is the holder's now.
    Milestone {
        /// It.
        milestone: Box<Milestone>,
        /// The graph with it.
        graph: Box<Graph>,
    },
    /// There is nothing to begin.
    Nothing(Outlook),
}

impl WorkGraph {
    /// A graph, which need not exist yet.
    pub fn new(store: Store, clock: Clock, key: GraphKey, limits: Limits) -> Self {
        Self {
            store,
            clock,
            key,
            limits,
            lease: None,
        }
    }

    /// The same graph for a job, which changes it only as long as it holds its lease.
    #[must_use]
    pub fn under(self, lease: Lease) -> Self {
        Self {
            lease: Some(lease),
            ..self
        }
    }

    /// Which one it is.
    pub fn key(&self) -> &GraphKey {
        &self.key
    }

    /// How much may fail.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The graph as it stands; nothing where there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn load(&self) -> Result<Option<Graph>, StoreError> {
        self.store.begin().await?.graph(&self.key).await
    }

    /// The graph as it stands.
    ///
    /// # Errors
    /// [`WorkGraphError::Missing`] and those of the database.
    pub async fn existing(&self) -> Result<Graph, WorkGraphError> {
        let found = self.load().await?;
        found.ok_or_else(|| WorkGraphError::Missing(self.key.clone()))
    }

    /// Adds milestones, all or none. A graph that is made for them may be worked on: whoever adds to
    /// it so has approved them.
    ///
    /// # Errors
    /// With what does not fit.
    pub async fn add(&self, new: Vec<NewMilestone>) -> Result<Vec<MilestoneId>, WorkGraphError> {
        let absent = Absent::Make {
            goal: "",
            standing: Standing::Approved,
        };
        self.change(absent, |graph| graph.add(new)).await
    }

    /// Puts milestones for a goal in as a proposal, in place of an earlier proposal that nobody has
    /// approved.
    ///
    /// # Errors
    /// With what does not fit; also when the graph is approved already.
    pub async fn propose(&self, goal: &str, new: Vec<NewMilestone>) -> Result<Vec<MilestoneId>, WorkGraphError> {
        let standing = Standing::Proposed;
        self.change(Absent::Make { goal, standing }, |graph| {
            if graph.standing == Standing::Approved && !graph.milestones.is_empty() {
                return Err(MilestoneError::Unfit(format!(
                    "the graph {} is approved and has milestones already; propose under another name, or add to it",
                    graph.key.name
                )));
            }
            let mut proposed = Graph::new(graph.key.clone(), goal, standing);
            let ids = proposed.add(new)?;
            *graph = proposed;
            Ok(ids)
        })
        .await
    }

    /// Lets a proposal be worked on. False: it was approved before.
    ///
    /// # Errors
    /// [`WorkGraphError::Missing`] and those of the database.
    pub async fn approve(&self) -> Result<bool, WorkGraphError> {
        self.change(Absent::Refuse, |graph| {
            let was_proposed = graph.standing == Standing::Proposed;
            graph.standing = Standing::Approved;
            Ok(was_proposed)
        })
        .await
    }

    /// Begins the milestone whose turn it is, after what is held by those who are gone was freed.
    ///
    /// # Errors
    /// [`WorkGraphError::Missing`] and those of the database.
    pub async fn take_next(&self, by: &Holder, is_gone: impl Fn(&Holder) -> bool) -> Result<Taken, WorkGraphError> {
        let (now, hold, limits) = (self.clock.now(), self.hold(by), self.limits);
        self.change(Absent::Refuse, |graph| {
            for id in graph.take_over(now, is_gone) {
                tracing::warn!(milestone = %id, "whoever was at this milestone is gone; it goes on");
            }
            match graph.outlook(limits) {
                Outlook::Ready(_) if graph.is_busy() => Ok(Taken::Nothing(Outlook::Running)),
                Outlook::Ready(id) => {
                    graph.start(&id, hold, limits)?;
                    Ok(Taken::Milestone {
                        milestone: Box::new(graph.milestone(&id)?.clone()),
                        graph: Box::new(graph.clone()),
                    })
                }
                outlook => Ok(Taken::Nothing(outlook)),
            }
        })
        .await
    }

    /// Begins one milestone.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] with why it cannot begin.
    pub async fn start(&self, id: &MilestoneId, by: &Holder) -> Result<(), WorkGraphError> {
        let (hold, limits) = (self.hold(by), self.limits);
        self.change(Absent::Refuse, |graph| graph.start(id, hold, limits)).await
    }

    /// Says that a holder is still at it. False: the milestone is not theirs any more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn renew(&self, id: &MilestoneId, by: &Holder) -> Result<bool, StoreError> {
        let until = self.clock.now() + TimeDelta::from_std(HOLD).unwrap_or_default();
        let mut tx = self.store.begin().await?;
        let renewed = tx.renew_milestone(&self.key, id, by, until).await?;
        tx.commit().await?;
        Ok(renewed)
    }

    /// Notes the commit that is about to make a milestone done.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when it is not this holder's any more.
    pub async fn intend(&self, id: &MilestoneId, by: &Holder, commit: &CommitSha) -> Result<(), WorkGraphError> {
        let commit = commit.clone();
        self.change(Absent::Refuse, |graph| graph.intend(id, by, commit)).await
    }

    /// Ends a holder's work on a milestone, and returns the graph as it stands then.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when it is not theirs any more.
    pub async fn conclude(
        &self,
        id: &MilestoneId,
        by: &Holder,
        conclusion: Conclusion,
    ) -> Result<Graph, WorkGraphError> {
        let limits = self.limits;
        self.change(Absent::Refuse, |graph| {
            graph.conclude(id, by, conclusion, limits)?;
            Ok(graph.clone())
        })
        .await
    }

    /// Frees whatever a holder still holds, as it was before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn release_all(&self, by: &Holder) -> Result<Vec<MilestoneId>, WorkGraphError> {
        let now = self.clock.now();
        self.change(Absent::Refuse, |graph| {
            let others_stay = |holder: &Holder| holder == by;
            Ok(graph.take_over(now, others_stay))
        })
        .await
    }

    /// Marks a milestone done by a person's word.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when somebody is at it.
    pub async fn set_done(&self, id: &MilestoneId) -> Result<(), WorkGraphError> {
        self.change(Absent::Refuse, |graph| graph.set_done(id)).await
    }

    /// Says by a person's word that a milestone has to be worked on; its fix attempts begin anew.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when somebody is at it.
    pub async fn set_needs_fix(&self, id: &MilestoneId, problem: &str) -> Result<(), WorkGraphError> {
        let limits = self.limits;
        self.change(Absent::Refuse, |graph| graph.set_needs_fix(id, problem, limits))
            .await
    }

    /// Says by a model's word that a milestone is not done after all, which counts as a failed try.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when it is not done.
    pub async fn reopen(&self, id: &MilestoneId, problem: &str) -> Result<(), WorkGraphError> {
        let limits = self.limits;
        self.change(Absent::Refuse, |graph| graph.reopen(id, problem, limits))
            .await
    }

    /// Removes a milestone.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when somebody is at it or needs it.
    pub async fn remove(&self, id: &MilestoneId) -> Result<(), WorkGraphError> {
        self.change(Absent::Refuse, |graph| graph.remove(id)).await
    }

    /// Removes the whole graph, and says how many milestones it had.
    ///
    /// # Errors
    /// [`WorkGraphError::Refused`] when somebody is at one of them.
    pub async fn remove_all(&self) -> Result<usize, WorkGraphError> {
        let mut tx = self.store.begin().await?;
        let count = change_in(&mut tx, &self.key, |graph| {
            is_idle(graph)?;
            let count = graph.milestones.len();
            graph.milestones.clear();
            Ok(count)
        })
        .await?;
        tx.delete_graph(&self.key).await?;
        tx.commit().await?;
        Ok(count)
    }

    /// Closes the breaker and gives what was given up its fix attempts back; says what that was.
    ///
    /// # Errors
    /// [`WorkGraphError::Missing`] and those of the database.
    pub async fn reset(&self) -> Result<Vec<MilestoneId>, WorkGraphError> {
        let limits = self.limits;
        self.change(Absent::Refuse, |graph| Ok(graph.reset(limits))).await
    }

    /// Puts a graph from a file in the place of this one.
    ///
    /// # Errors
    /// With what does not fit; also when there are milestones already and they are not to be
    /// replaced, or somebody is at one of them.
    pub async fn import(&self, file: GraphFile, standing: Standing, over: Over) -> Result<usize, WorkGraphError> {
        let read = file.into_graph(self.key.clone(), standing)?;
        let absent = Absent::Make { goal: "", standing };
        self.change(absent, |graph| {
            is_idle(graph)?;
            if over == Over::Nothing && !graph.milestones.is_empty() {
                return Err(MilestoneError::Unfit(format!(
                    "the graph {} has milestones already; import under another name, or replace it (--replace)",
                    graph.key.name
                )));
            }
            *graph = read;
            Ok(graph.milestones.len())
        })
        .await
    }

    fn hold(&self, by: &Holder) -> Hold {
        let until = match by {
            Holder::Job(_) | Holder::Person => None,
            Holder::Process(_) => Some(self.clock.now() + TimeDelta::from_std(HOLD).unwrap_or_default()),
        };
        Hold { by: by.clone(), until }
    }

    async fn change<T>(
        &self,
        absent: Absent<'_>,
        change: impl FnOnce(&mut Graph) -> Result<T, MilestoneError>,
    ) -> Result<T, WorkGraphError> {
        let mut tx = self.store.begin().await?;
        if let Some(lease) = &self.lease {
            tx.check_lease(lease).await?;
        }
        if let Absent::Make { goal, standing } = absent {
            tx.insert_graph(&Graph::new(self.key.clone(), goal, standing)).await?;
        }
        let result = change_in(&mut tx, &self.key, change).await?;
        tx.commit().await?;
        Ok(result)
    }
}

/// What an import may lie over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing: there must be no milestones.
    Nothing,
    /// Whatever is there.
    Everything,
}

fn is_idle(graph: &Graph) -> Result<(), MilestoneError> {
    let busy = |milestone: &&Milestone| milestone.state == MilestoneState::InProgress;
    match graph.milestones.iter().find(busy) {
        Some(milestone) => Err(MilestoneError::NotNow {
            milestone: milestone.id.clone(),
            why: "is in progress; stop that first".to_owned(),
        }),
        None => Ok(()),
    }
}

/// Changes a graph in a transaction of the caller's: others who change it wait for its end.
async fn change_in<T>(
    tx: &mut Tx,
    key: &GraphKey,
    change: impl FnOnce(&mut Graph) -> Result<T, MilestoneError>,
) -> Result<T, WorkGraphError> {
    let before = take_in_hand(tx, key).await?;
    let mut now = before.clone();
    let result = change(&mut now)?;
    write_back(tx, &before, &now).await?;
    Ok(result)
}

/// A graph as it stands, for a transaction that means to change it: others who do wait for its end.
///
/// # Errors
/// [`WorkGraphError::Missing`] and those of the database.
pub async fn take_in_hand(tx: &mut Tx, key: &GraphKey) -> Result<Graph, WorkGraphError> {
    let missing = || WorkGraphError::Missing(key.clone());
    if !tx.hold_graph(key).await? {
        return Err(missing());
    }
    tx.graph(key).await?.ok_or_else(missing)
}

/// Writes what differs from a graph that was taken in hand in the same transaction.
///
/// # Errors
/// Those of the database; the transaction is not to be committed then.
pub async fn write_back(tx: &mut Tx, before: &Graph, now: &Graph) -> Result<(), StoreError> {
    let key = &before.key;
    let is_as_planned = |old: &Milestone, new: &Milestone| {
        let planned = |milestone: &Milestone| {
            let Milestone {
                position,
                title,
                description,
                acceptance,
                depends_on,
                ..
            } = milestone.clone();
            (position, title, description, acceptance, depends_on)
        };
        planned(old) == planned(new)
    };
    for old in &before.milestones {
        let stays = |new: &&Milestone| new.id == old.id && is_as_planned(old, new);
        match now.milestones.iter().find(stays) {
            None => drop(tx.delete_milestone(key, &old.id).await?),
            Some(new) if new == old => {}
            Some(new) => {
                if !tx.update_milestone(key, old, new).await? {
                    return Err(StoreError::Corrupt(format!(
                        "milestone {} of {} was changed by somebody who had not taken the graph in hand",
                        old.id, key.repository
                    )));
                }
            }
        }
    }
    for new in &now.milestones {
        let was = |old: &Milestone| old.id == new.id && is_as_planned(old, new);
        if !before.milestones.iter().any(was) {
            tx.insert_milestone(key, new).await?;
        }
    }
    if (&before.goal, before.standing, before.failures) != (&now.goal, now.standing, now.failures) {
        tx.update_graph(now).await?;
    }
    if before.standing != now.standing {
        let act = Act::new(Action::GraphStanding)
            .with("graph", now.key.name.as_str())
            .with("of", now.key.repository.as_str());
        tx.audit(act.with("standing", now.standing.as_str()));
    }
    Ok(())
}
