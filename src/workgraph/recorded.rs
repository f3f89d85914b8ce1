//! A run's place at a work graph as its record keeps it, so that the run can be played again.
//! Called by `run` and by the replay of the command line. Never reaches the graph itself again.

use serde::{Deserialize, Serialize};

use super::{Desk, Over, Purpose, WorkGraph, WorkGraphError};
use crate::clock::Clock;
use crate::milestone::{GraphFile, GraphKey, GraphName, Holder, Limits, Standing};
use crate::secret::Redactor;
use crate::store::{Store, StoreError};

/// What is recorded of a desk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDesk {
    /// The graph's name.
    pub name: GraphName,
    /// What the run is for.
    pub purpose: Purpose,
    /// How much may fail.
    pub limits: Limits,
    /// The graph when the run began, if there was one.
    #[serde(default)]
    pub graph: Option<GraphFile>,
}

impl Desk {
    /// The desk as it is to be recorded.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn recorded(&self) -> Result<RecordedDesk, StoreError> {
        Ok(RecordedDesk {
            name: self.graph.key().name.clone(),
            purpose: self.purpose.clone(),
            limits: self.graph.limits(),
            graph: self.graph.load().await?.as_ref().map(GraphFile::of),
        })
    }
}

impl RecordedDesk {
    /// The same desk in an empty database.
    ///
    /// # Errors
    /// When the recorded graph is not one.
    pub async fn again(&self, store: Store, clock: Clock, redactor: Redactor) -> Result<Desk, WorkGraphError> {
        let key = GraphKey {
            repository: "replay".to_owned(),
            name: self.name.clone(),
        };
        let graph = WorkGraph::new(store, clock, key, self.limits);
        let by = Holder::Process("replay".to_owned());
        let standing = match &self.purpose {
            Purpose::Plan { .. } => Standing::Proposed,
            Purpose::Work { .. } => Standing::Approved,
        };
        if let Some(file) = &self.graph {
            graph.import(file.clone(), standing, Over::Everything).await?;
        }
        if let Purpose::Work { at_hand } = &self.purpose {
            graph.start(at_hand, &by).await?;
        }
        Ok(Desk::new(graph, by, self.purpose.clone(), redactor))
    }
}
