//! What a run may do with the graph that it belongs to: the model's side of a work graph. Given to
//! the tools `milestone` and `generate_milestones`.
//! Never lets a model say that an acceptance command passed, take such a command away, or approve
//! what it proposed.

use serde::{Deserialize, Serialize};

use super::{WorkGraph, WorkGraphError};
use crate::milestone::{
    Conclusion, Graph, Holder, Milestone, MilestoneError, MilestoneId, MilestoneState, NewMilestone, Standing,
};
use crate::secret::Redactor;
use crate::store::StoreError;

/// What a run is for, as far as its graph goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To propose milestones for a goal.
    Plan {
        /// The goal.
        goal: String,
    },
    /// To work on a milestone, which the program concludes when the run has ended.
    Work {
        /// It.
        at_hand: MilestoneId,
    },
}

/// A run's place at a graph. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    pub(super) graph: WorkGraph,
    by: Holder,
    pub(super) purpose: Purpose,
    redactor: Redactor,
}

/// Why a model may not do something, or why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// It may not be, in words for the model.
    #[error("{0}")]
    Refused(String),
    /// The database did not do it.
    #[error("the work graph cannot be reached now ({0}); go on without it")]
    Store(StoreError),
}

impl From<WorkGraphError> for DeskError {
    fn from(error: WorkGraphError) -> Self {
        match error {
            WorkGraphError::Store(error) => DeskError::Store(error),
            WorkGraphError::Missing(_) => DeskError::Refused("there are no milestones".to_owned()),
            WorkGraphError::Refused(MilestoneError::Breaker(_)) => {
                DeskError::Refused("too many milestones in a row were given up; a person has to look first".to_owned())
            }
            WorkGraphError::Refused(MilestoneError::Proposed) => {
                DeskError::Refused("the milestones are only proposed; a person approves them first".to_owned())
            }
            WorkGraphError::Refused(error) => DeskError::Refused(error.to_string()),
        }
    }
}

impl Desk {
    /// A run's place at a graph.
    pub fn new(graph: WorkGraph, by: Holder, purpose: Purpose, redactor: Redactor) -> Self {
        Self {
            graph,
            by,
            purpose,
            redactor,
        }
    }

    /// What the run is for.
    pub fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    /// The graph's name, for people.
    pub fn name(&self) -> &str {
        self.graph.key().name.as_str()
    }

    /// The graph and how much may fail in it; nothing where there is none yet.
    ///
    /// # Errors
    /// Of the database.
    pub async fn load(&self) -> Result<Option<Graph>, DeskError> {
        self.graph.load().await.map_err(DeskError::Store)
    }

    /// How a milestone stands, in a word that also says what follows from the others.
    pub fn standing(&self, graph: &Graph, milestone: &Milestone) -> String {
        match &self.purpose {
            Purpose::Work { at_hand } if *at_hand == milestone.id => "in_progress, the one at hand".to_owned(),
            _ => standing_of(graph, milestone, self.graph.limits().max_fix_attempts),
        }
    }

    /// The milestone whose turn it is.
    ///
    /// # Errors
    /// Of the database.
    pub async fn next(&self) -> Result<Option<Milestone>, DeskError> {
        let limits = self.graph.limits();
        Ok(self.load().await?.and_then(|graph| graph.next(limits).cloned()))
    }

    /// Proposes milestones for the goal of the run.
    ///
    /// # Errors
    /// [`DeskError::Refused`] with what does not fit.
    pub async fn propose(&self, new: Vec<NewMilestone>) -> Result<Graph, DeskError> {
        let Purpose::Plan { goal } = &self.purpose else {
            return Err(DeskError::Refused(
                "this run works on a milestone; propose no others, add what is missing with `milestone`".to_owned(),
            ));
        };
        if new.is_empty() {
            return Err(DeskError::Refused("there is no milestone in it".to_owned()));
        }
        self.graph.propose(goal, self.cleaned(new)).await?;
        Ok(self.graph.existing().await?)
    }

    /// Adds one milestone.
    ///
    /// # Errors
    /// [`DeskError::Refused`] with what does not fit.
    pub async fn add(&self, new: NewMilestone) -> Result<MilestoneId, DeskError> {
        // A graph that a model made would be one that nobody approved.
        self.graph.existing().await?;
        let ids = self.graph.add(self.cleaned(vec![new])).await?;
        let added = ids.into_iter().next();
        added.ok_or_else(|| DeskError::Refused("nothing was added".to_owned()))
    }

    /// Begins one that is ready, besides the one at hand.
    ///
    /// # Errors
    /// [`DeskError::Refused`] with why it cannot begin.
    pub async fn start(&self, id: &MilestoneId) -> Result<(), DeskError> {
        if self
            .graph
            .existing()
            .await?
            .milestone(id)
            .map_err(refused)?
            .acceptance
            .is_some()
        {
            return Err(DeskError::Refused(format!(
                "{id} has an acceptance command, so the program begins and ends it, in a run of its own"
            )));
        }
        Ok(self.graph.start(id, &self.by).await?)
    }

    /// Ends one that this run began.
    ///
    /// # Errors
    /// [`DeskError::Refused`] when that is not for the model to say.
    pub async fn done(&self, id: &MilestoneId) -> Result<(), DeskError> {
        self.not_at_hand(id)?;
        let graph = self.graph.existing().await?;
        let milestone = graph.milestone(id).map_err(refused)?;
        if let Some(command) = &milestone.acceptance {
            return Err(DeskError::Refused(format!(
                "only the program's own run of `{command}` decides whether {id} is done"
            )));
        }
        if milestone.state != MilestoneState::InProgress {
            return Err(DeskError::Refused(format!("{id} was not begun; `start` it first")));
        }
        let done = Conclusion::Done { commit: None };
        Ok(self.graph.conclude(id, &self.by, done).await.map(drop)?)
    }

    /// Says that one is not done after all, or that this run cannot finish what it began.
    ///
    /// # Errors
    /// [`DeskError::Refused`] when that is not for the model to say.
    pub async fn needs_fix(&self, id: &MilestoneId, problem: &str) -> Result<(), DeskError> {
        self.not_at_hand(id)?;
        let problem = self.redactor.redact(problem.trim());
        if problem.is_empty() {
            return Err(DeskError::Refused("say what is wrong with it (`problem`)".to_owned()));
        }
        let graph = self.graph.existing().await?;
        match graph.milestone(id).map_err(refused)?.state {
            MilestoneState::Done => Ok(self.graph.reopen(id, &problem).await?),
            MilestoneState::InProgress => {
                let failed = Conclusion::Failed { problem, kept: None };
                Ok(self.graph.conclude(id, &self.by, failed).await.map(drop)?)
            }
            // Its fix attempts would begin anew, and a model would never be stopped.
            MilestoneState::Pending | MilestoneState::NeedsFix => {
                Err(DeskError::Refused(format!("{id} is still to be done anyway")))
            }
        }
    }

    /// Removes one that nobody has begun.
    ///
    /// # Errors
    /// [`DeskError::Refused`] when that is not for the model to say.
    pub async fn remove(&self, id: &MilestoneId) -> Result<(), DeskError> {
        let graph = self.graph.existing().await?;
        let milestone = graph.milestone(id).map_err(refused)?;
        let is_binding = graph.standing == Standing::Approved
            && (milestone.acceptance.is_some() || milestone.state != MilestoneState::Pending);
        if is_binding {
            return Err(DeskError::Refused(format!(
                "{id} was begun or has an acceptance command; only a person removes it"
            )));
        }
        Ok(self.graph.remove(id).await?)
    }

    fn not_at_hand(&self, id: &MilestoneId) -> Result<(), DeskError> {
        match &self.purpose {
            Purpose::Work { at_hand } if at_hand == id => Err(DeskError::Refused(format!(
                "{id} is the milestone at hand: call finish, and the program concludes it"
            ))),
            _ => Ok(()),
        }
    }

    /// Texts of a model, without secrets: later runs and people read them.
    fn cleaned(&self, new: Vec<NewMilestone>) -> Vec<NewMilestone> {
        let clean = |text: String| self.redactor.redact(&text);
        new.into_iter()
            .map(|new| NewMilestone {
                id: new.id,
                title: clean(new.title),
                description: clean(new.description),
                acceptance: new.acceptance.map(clean),
                depends_on: new.depends_on,
            })
            .collect()
    }
}

fn refused(error: MilestoneError) -> DeskError {
    DeskError::Refused(error.to_string())
}

/// How a milestone stands, with what follows from the others.
pub fn standing_of(graph: &Graph, milestone: &Milestone, max_fix_attempts: u32) -> String {
    let state = milestone.state;
    match state {
        MilestoneState::Done | MilestoneState::InProgress => state.to_string(),
        MilestoneState::NeedsFix if milestone.attempts > max_fix_attempts => {
            format!("{state}, given up after {} failed tries", milestone.attempts)
        }
        MilestoneState::Pending | MilestoneState::NeedsFix => match graph.waits_for(milestone).as_slice() {
            [] => state.to_string(),
            waits => {
                let names: Vec<&str> = waits.iter().map(MilestoneId::as_str).collect();
                format!("blocked by {}", names.join(", "))
            }
        },
    }
}
