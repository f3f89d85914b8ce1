//! Whose turn it is in a work graph, and what may happen to a milestone then. Called by
//! `workgraph`, which writes what came of it. Never begins one that waits for another, that was
//! given up or that somebody is at.

use chrono::{DateTime, Utc};

use super::{
    Graph, Hold, Holder, Kept, Limits, MAX_PROBLEM_BYTES, Milestone, MilestoneError, MilestoneId, MilestoneState,
    Standing,
};
use crate::ids::CommitSha;
use crate::text;

/// How the work on a milestone ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// It is done.
    Done {
        /// The commit; nothing where nothing had to change.
        commit: Option<CommitSha>,
    },
    /// The try failed.
    Failed {
        /// Why, with the last output.
        problem: String,
        /// What it left.
        kept: Option<Kept>,
    },
    /// It was neither done nor failed: a person stopped it, or the model or this machine broke down.
    Released {
        /// What it left; without it, what was kept before stays.
        kept: Option<Kept>,
    },
}

/// What there is to do in a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// It has no milestones.
    Empty,
    /// All are done.
    Done,
    /// Nobody has approved it yet.
    Proposed,
    /// Too many were given up in a row.
    Breaker,
    /// This one is next.
    Ready(MilestoneId),
    /// Nothing can begin until somebody who is at a milestone ends.
    Running,
    /// Nothing can be done any more: these were given up, and the others wait for them.
    Stuck(Vec<MilestoneId>),
}

impl Graph {
    /// What there is to do.
    pub fn outlook(&self, limits: Limits) -> Outlook {
        let in_state = |state| self.milestones.iter().filter(move |milestone| milestone.state == state);
        if self.milestones.is_empty() {
            return Outlook::Empty;
        }
        if in_state(MilestoneState::Done).count() == self.milestones.len() {
            return Outlook::Done;
        }
        if self.standing == Standing::Proposed {
            return Outlook::Proposed;
        }
        if self.is_broken(limits) {
            return Outlook::Breaker;
        }
        if let Some(next) = self.next(limits) {
            return Outlook::Ready(next.id.clone());
        }
        if in_state(MilestoneState::InProgress).next().is_some() {
            return Outlook::Running;
        }
        let given_up = in_state(MilestoneState::NeedsFix).filter(|milestone| milestone.is_given_up(limits));
        Outlook::Stuck(given_up.map(|milestone| milestone.id.clone()).collect())
    }

    /// The milestone whose turn it is: first what a try was begun on and can be tried again, then by
    /// position.
    pub fn next(&self, limits: Limits) -> Option<&Milestone> {
        let ready = |milestone: &&Milestone| {
            let is_open = match milestone.state {
                MilestoneState::Pending => true,
                MilestoneState::NeedsFix => !milestone.is_given_up(limits),
                MilestoneState::InProgress | MilestoneState::Done => false,
            };
            is_open && self.waits_for(milestone).is_empty()
        };
        let order = |milestone: &&Milestone| {
            (
                milestone.state != MilestoneState::NeedsFix,
                milestone.position,
                milestone.id.clone(),
            )
        };
        self.milestones.iter().filter(ready).min_by_key(order)
    }

    /// Whether a process or job is at a milestone. What they make stands on one branch, one after the
    /// other, so that nobody else begins meanwhile; what a person does by themselves does not.
    pub fn is_busy(&self) -> bool {
        let holds = self.milestones.iter().filter_map(|milestone| milestone.hold.as_ref());
        holds
            .into_iter()
            .any(|hold| matches!(hold.by, Holder::Job(_) | Holder::Process(_)))
    }

    /// Whether so many milestones in a row were given up that nothing is tried any more.
    pub fn is_broken(&self, limits: Limits) -> bool {
        self.failures >= limits.breaker_failures.max(1)
    }

    /// Begins a milestone.
    ///
    /// # Errors
    /// [`MilestoneError`] with why it cannot begin now.
    pub fn start(&mut self, id: &MilestoneId, hold: Hold, limits: Limits) -> Result<(), MilestoneError> {
        let milestone = self.milestone(id)?;
        if self.standing == Standing::Proposed {
            return Err(MilestoneError::Proposed);
        }
        match milestone.state {
            MilestoneState::Done => return Err(milestone.not_now("is done already")),
            MilestoneState::InProgress => return Err(milestone.not_now("is in progress already")),
            MilestoneState::NeedsFix if milestone.is_given_up(limits) => {
                let tries = milestone.attempts;
                return Err(milestone.not_now(&format!(
                    "was given up after {tries} failed tries; `needs_fix` by a person begins anew"
                )));
            }
            MilestoneState::Pending | MilestoneState::NeedsFix => {}
        }
        let missing = self.waits_for(milestone);
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(MilestoneId::as_str).collect();
            return Err(milestone.not_now(&format!("is blocked by {}", names.join(", "))));
        }
        if self.is_broken(limits) {
            return Err(MilestoneError::Breaker(self.failures));
        }
        let milestone = self.milestone_mut(id)?;
        milestone.state = MilestoneState::InProgress;
        milestone.hold = Some(hold);
        Ok(())
    }

    /// Notes the commit that is about to make a milestone done, before anything shows it: whoever
    /// takes the milestone over sees by the branch whether it came to that.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] when it is not, or not any more, this holder's.
    pub fn intend(&mut self, id: &MilestoneId, by: &Holder, commit: CommitSha) -> Result<(), MilestoneError> {
        self.held(id, by)?.commit = Some(commit);
        Ok(())
    }

    fn held(&mut self, id: &MilestoneId, by: &Holder) -> Result<&mut Milestone, MilestoneError> {
        let milestone = self.milestone_mut(id)?;
        let is_theirs = milestone.hold.as_ref().is_some_and(|hold| hold.by == *by);
        match milestone.state == MilestoneState::InProgress && is_theirs {
            true => Ok(milestone),
            false => Err(milestone.not_now("is not in these hands any more")),
        }
    }

    /// Ends the work on a milestone that somebody holds.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] when it is not, or not any more, this holder's.
    pub fn conclude(
        &mut self,
        id: &MilestoneId,
        by: &Holder,
        conclusion: Conclusion,
        limits: Limits,
    ) -> Result<(), MilestoneError> {
        let milestone = self.held(id, by)?;
        milestone.hold = None;
        let failures = match conclusion {
            Conclusion::Done { commit } => {
                milestone.be_done(commit);
                0
            }
            Conclusion::Failed { problem, kept } => {
                milestone.state = MilestoneState::NeedsFix;
                milestone.attempts = milestone.attempts.saturating_add(1);
                milestone.commit = None;
                milestone.problem = Some(text::cap_middle(&problem, MAX_PROBLEM_BYTES));
                milestone.kept = kept.or(milestone.kept.take());
                let given_up = u32::from(milestone.is_given_up(limits));
                self.failures.saturating_add(given_up)
            }
            Conclusion::Released { kept } => {
                milestone.be_free();
                milestone.kept = kept.or(milestone.kept.take());
                self.failures
            }
        };
        self.failures = failures;
        Ok(())
    }

    /// Frees what is held by those who are gone, and says what that was.
    pub fn take_over(&mut self, now: DateTime<Utc>, is_gone: impl Fn(&Holder) -> bool) -> Vec<MilestoneId> {
        let mut freed = Vec::new();
        for milestone in &mut self.milestones {
            let is_over = milestone.hold.as_ref().is_some_and(|hold| {
                let ran_out = hold.until.is_some_and(|until| until <= now);
                ran_out || is_gone(&hold.by)
            });
            if milestone.state == MilestoneState::InProgress && is_over {
                milestone.be_free();
                freed.push(milestone.id.clone());
            }
        }
        freed
    }

    /// Marks a milestone done by the word of whoever may say so.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] when a process or job is at it.
    pub fn set_done(&mut self, id: &MilestoneId) -> Result<(), MilestoneError> {
        let milestone = self.free(id)?;
        if milestone.state != MilestoneState::Done {
            milestone.be_done(None);
            self.failures = 0;
        }
        Ok(())
    }

    /// Says that a milestone has to be worked on, again where it was done or given up: its fix
    /// attempts begin anew.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] when a process or job is at it.
    pub fn set_needs_fix(&mut self, id: &MilestoneId, problem: &str, limits: Limits) -> Result<(), MilestoneError> {
        let milestone = self.free(id)?;
        milestone.state = MilestoneState::NeedsFix;
        milestone.attempts = limits.begun_anew();
        milestone.commit = None;
        milestone.problem = Some(text::cap_middle(problem, MAX_PROBLEM_BYTES));
        Ok(())
    }

    /// Says by a model's word that a milestone is not done after all. That counts as a failed try, so
    /// that models do not open each other's milestones for ever.
    ///
    /// # Errors
    /// [`MilestoneError::NotNow`] when it is not done.
    pub fn reopen(&mut self, id: &MilestoneId, problem: &str, limits: Limits) -> Result<(), MilestoneError> {
        let milestone = self.milestone_mut(id)?;
        if milestone.state != MilestoneState::Done {
            return Err(milestone.not_now("is not done"));
        }
        milestone.state = MilestoneState::NeedsFix;
        milestone.attempts = milestone.attempts.saturating_add(1);
        milestone.commit = None;
        milestone.problem = Some(text::cap_middle(problem, MAX_PROBLEM_BYTES));
        let given_up = u32::from(milestone.is_given_up(limits));
        self.failures = self.failures.saturating_add(given_up);
        Ok(())
    }

    /// Closes the breaker, and gives what was given up its fix attempts back.
    pub fn reset(&mut self, limits: Limits) -> Vec<MilestoneId> {
        self.failures = 0;
        let given_up = self
            .milestones
            .iter_mut()
            .filter(|milestone| milestone.is_given_up(limits));
        given_up
            .map(|milestone| {
                milestone.attempts = limits.begun_anew();
                milestone.id.clone()
            })
            .collect()
    }

    fn free(&mut self, id: &MilestoneId) -> Result<&mut Milestone, MilestoneError> {
        let milestone = self.milestone_mut(id)?;
        match milestone.hold.take() {
            None => Ok(milestone),
            // Whoever said that they are at it says how it ended, too.
            Some(Hold { by: Holder::Person, .. }) => Ok(milestone),
            Some(hold) => {
                let why = format!("is in progress ({}); stop that first", hold.by);
                milestone.hold = Some(hold);
                Err(milestone.not_now(&why))
            }
        }
    }
}

impl Milestone {
    /// Whether its fix attempts are used up.
    pub fn is_given_up(&self, limits: Limits) -> bool {
        self.state == MilestoneState::NeedsFix && self.attempts > limits.max_fix_attempts
    }

    fn be_done(&mut self, commit: Option<CommitSha>) {
        self.state = MilestoneState::Done;
        self.commit = commit;
        self.hold = None;
        self.problem = None;
        self.kept = None;
    }

    /// Back to where it stood before somebody began.
    pub(super) fn be_free(&mut self) {
        self.hold = None;
        self.commit = None;
        self.state = match self.attempts {
            0 => MilestoneState::Pending,
            _ => MilestoneState::NeedsFix,
        };
    }
}
