//! The order of a work graph: what has to be there before what. Called by `milestone` alone.
//! Never lets a cycle in: with one, the milestones in it could not begin.

use std::collections::BTreeMap;

use super::{Graph, Milestone, MilestoneError, MilestoneId, MilestoneState};

impl Graph {
    /// What a milestone waits for, in the order in which it names them.
    pub fn waits_for(&self, milestone: &Milestone) -> Vec<MilestoneId> {
        let is_done = |id: &MilestoneId| {
            self.milestone(id)
                .is_ok_and(|other| other.state == MilestoneState::Done)
        };
        milestone.depends_on.iter().filter(|id| !is_done(id)).cloned().collect()
    }

    /// Every dependency exists, and none leads back to where it began.
    pub(super) fn check_dependencies(&self) -> Result<(), MilestoneError> {
        let by_id: BTreeMap<&MilestoneId, &Milestone> = self
            .milestones
            .iter()
            .map(|milestone| (&milestone.id, milestone))
            .collect();
        for milestone in &self.milestones {
            let missing = milestone.depends_on.iter().find(|id| !by_id.contains_key(id));
            if let Some(dependency) = missing {
                return Err(MilestoneError::UnknownDependency {
                    milestone: milestone.id.clone(),
                    dependency: dependency.clone(),
                });
            }
        }
        let mut walked: BTreeMap<&MilestoneId, Walked> = BTreeMap::new();
        for milestone in &self.milestones {
            walk(milestone, &by_id, &mut walked)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// It is on the way that is being followed.
    OnTheWay,
    /// No cycle is behind it.
    Clear,
}

/// Follows the dependencies of one milestone to their ends, without recursion: a graph of strangers
/// may be deep.
fn walk<'a>(
    from: &'a Milestone,
    by_id: &BTreeMap<&'a MilestoneId, &'a Milestone>,
    walked: &mut BTreeMap<&'a MilestoneId, Walked>,
) -> Result<(), MilestoneError> {
    if walked.contains_key(&from.id) {
        return Ok(());
    }
    // The way, each with how many of its dependencies have been followed.
    let mut way: Vec<(&Milestone, usize)> = vec![(from, 0)];
    walked.insert(&from.id, Walked::OnTheWay);
    while let Some((milestone, followed)) = way.last_mut() {
        let Some(next) = milestone.depends_on.get(*followed) else {
            walked.insert(&milestone.id, Walked::Clear);
            way.pop();
            continue;
        };
        *followed += 1;
        let next = by_id[next];
        match walked.get(&next.id) {
            Some(Walked::Clear) => {}
            Some(Walked::OnTheWay) => {
                let circle = way.iter().map(|(milestone, _)| &milestone.id);
                let circle = circle.skip_while(|id| **id != next.id);
                return Err(MilestoneError::Cycle(circle.cloned().collect()));
            }
            None => {
                walked.insert(&next.id, Walked::OnTheWay);
                way.push((next, 0));
            }
        }
    }
    Ok(())
}
