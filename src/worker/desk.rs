//! The work graph of a job that works on a milestone, for its tools. Called by `fix`.
//! Never gives one to a job of another kind: what a person asked for in an issue is no milestone.

use super::{InHand, Worker};
use crate::job::Trigger;
use crate::milestone::{GraphKey, Holder};
use crate::workgraph::{Desk, Purpose, WorkGraph};

impl Worker {
    pub(super) fn desk(&self, in_hand: &InHand<'_>) -> Option<Desk> {
        let job = &in_hand.leased.job;
        let Trigger::Milestone { graph, milestone, .. } = &job.request.trigger else {
            return None;
        };
        let key = GraphKey {
            repository: format!("repository/{}", job.repo_id),
            name: graph.parse().ok()?,
        };
        let purpose = Purpose::Work {
            at_hand: milestone.parse().ok()?,
        };
        let (store, clock) = (self.publisher.store.clone(), self.ports.clock.clone());
        let graph = WorkGraph::new(store, clock, key, self.graph_limits).under(in_hand.leased.lease.clone());
        let redactor = self.ports.redactor.clone();
        Some(Desk::new(graph, Holder::Job(job.id.clone()), purpose, redactor))
    }
}
