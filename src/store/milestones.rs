//! Tables `graphs` and `milestones`: work graphs by repository. Called by `workgraph`, which takes
//! a graph in hand first, so that writers follow one another and each sees what the one before it
//! did. Never decides whose turn it is: that is `milestone`'s.

use chrono::{DateTime, Utc};

use super::row::{count, from_json, micros, parse, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::milestone::{Graph, GraphKey, Hold, Holder, Milestone, MilestoneId, Standing};

row! {
    StoredGraph {
        repository: String,
        name: String,
        goal: String,
        standing: String,
        failures: i64,
    }
}

row! {
    StoredMilestone {
        id: String,
        position: i64,
        title: String,
        description: String,
        acceptance: Option<String>,
        depends_on: String,
        state: String,
        attempts: i64,
        problem: Option<String>,
        kept: Option<String>,
        commit_sha: Option<String>,
        holder: Option<String>,
        held_until: Option<DateTime<Utc>>,
    }
}

impl Tx {
    /// Takes a graph in hand until the transaction ends: others who do so wait. False: there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn hold_graph(&mut self, key: &GraphKey) -> Result<bool, StoreError> {
        let held = on_db!(
            self,
            sqlx::query(
                "UPDATE graphs
                 SET version = version + 1
                 WHERE repository = $1
                   AND name = $2"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str()),
            execute
        )?;
        Ok(held == 1)
    }

    /// Makes a graph without milestones. False: there is one of this name already.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn insert_graph(&mut self, graph: &Graph) -> Result<bool, StoreError> {
        let made = on_db!(
            self,
            sqlx::query(
                "INSERT INTO graphs (repository, name, goal, standing, failures, version)
                 VALUES ($1, $2, $3, $4, $5, 1)
                 ON CONFLICT (repository, name) DO NOTHING"
            )
            .bind(without_nul(&graph.key.repository))
            .bind(graph.key.name.as_str())
            .bind(without_nul(&graph.goal))
            .bind(graph.standing.as_str())
            .bind(i64::from(graph.failures)),
            execute
        )?;
        Ok(made == 1)
    }

    /// Writes what stands in a graph's own row. False: there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn update_graph(&mut self, graph: &Graph) -> Result<bool, StoreError> {
        let written = on_db!(
            self,
            sqlx::query(
                "UPDATE graphs
                 SET goal = $3,
                     standing = $4,
                     failures = $5
                 WHERE repository = $1
                   AND name = $2"
            )
            .bind(without_nul(&graph.key.repository))
            .bind(graph.key.name.as_str())
            .bind(without_nul(&graph.goal))
            .bind(graph.standing.as_str())
            .bind(i64::from(graph.failures)),
            execute
        )?;
        Ok(written == 1)
    }

    /// Removes a graph that has no milestones any more. False: there is none.
    ///
    /// # Errors
    /// Those of the database, also when it has some.
    pub async fn delete_graph(&mut self, key: &GraphKey) -> Result<bool, StoreError> {
        let gone = on_db!(
            self,
            sqlx::query(
                "DELETE FROM graphs
                 WHERE repository = $1
                   AND name = $2"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str()),
            execute
        )?;
        Ok(gone == 1)
    }

    /// A graph with its milestones.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn graph(&mut self, key: &GraphKey) -> Result<Option<Graph>, StoreError> {
        let stored: Option<StoredGraph> = on_db!(
            self,
            sqlx::query_as(
                "SELECT repository, name, goal, standing, failures
                 FROM graphs
                 WHERE repository = $1
                   AND name = $2"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str()),
            fetch_optional
        )?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let milestones: Vec<StoredMilestone> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, position, title, description, acceptance, depends_on, state, attempts, problem, kept,
                        commit_sha, holder, held_until
                 FROM milestones
                 WHERE repository = $1
                   AND graph = $2
                 ORDER BY position, id"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str()),
            fetch_all
        )?;
        let milestones = milestones.into_iter().map(Milestone::try_from);
        Ok(Some(Graph {
            goal: stored.goal,
            standing: parse("graphs.standing", &stored.standing)?,
            failures: count("graphs.failures", stored.failures)?,
            milestones: milestones.collect::<Result<_, _>>()?,
            key: GraphKey {
                repository: stored.repository,
                name: parse("graphs.name", &stored.name)?,
            },
        }))
    }

    /// The graphs of repositories of the service that may be worked on.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn approved_graphs(&mut self, limit: u32) -> Result<Vec<GraphKey>, StoreError> {
        let stored: Vec<StoredGraph> = on_db!(
            self,
            sqlx::query_as(
                "SELECT repository, name, goal, standing, failures
                 FROM graphs
                 WHERE repository LIKE 'repository/%'
                   AND standing = $1
                 ORDER BY repository, name
                 LIMIT $2"
            )
            .bind(Standing::Approved.as_str())
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored.into_iter().map(GraphKey::try_from).collect()
    }

    /// The graphs of repositories of the service that jobs are at, also those that may not be worked
    /// on any more.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn busy_graphs(&mut self, limit: u32) -> Result<Vec<GraphKey>, StoreError> {
        let stored: Vec<StoredGraph> = on_db!(
            self,
            sqlx::query_as(
                "SELECT repository, name, goal, standing, failures
                 FROM graphs
                 WHERE repository LIKE 'repository/%'
                   AND EXISTS (
                       SELECT 1
                       FROM milestones
                       WHERE milestones.repository = graphs.repository
                         AND milestones.graph = graphs.name
                         AND milestones.holder LIKE 'job/%'
                   )
                 ORDER BY repository, name
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored.into_iter().map(GraphKey::try_from).collect()
    }

    /// Adds a milestone to a graph.
    ///
    /// # Errors
    /// Those of the database, also when its name is taken.
    pub async fn insert_milestone(&mut self, key: &GraphKey, milestone: &Milestone) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO milestones (repository, graph, id, position, title, description, acceptance, depends_on,
                                         state, attempts, problem, kept, commit_sha, holder, held_until)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str())
            .bind(milestone.id.as_str())
            .bind(i64::from(milestone.position))
            .bind(without_nul(&milestone.title))
            .bind(without_nul(&milestone.description))
            .bind(milestone.acceptance.as_deref().map(without_nul))
            .bind(to_json("milestones.depends_on", &milestone.depends_on)?)
            .bind(milestone.state.as_str())
            .bind(i64::from(milestone.attempts))
            .bind(milestone.problem.as_deref().map(without_nul))
            .bind(kept_of(milestone)?)
            .bind(milestone.commit.as_ref().map(|sha| sha.as_str().to_owned()))
            .bind(milestone.hold.as_ref().map(|hold| hold.by.to_string()))
            .bind(held_until(milestone)),
            execute
        )?;
        Ok(())
    }

    /// Writes where a milestone stands. False: meanwhile it does not stand where it stood `before`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn update_milestone(
        &mut self,
        key: &GraphKey,
        before: &Milestone,
        now: &Milestone,
    ) -> Result<bool, StoreError> {
        let written = on_db!(
            self,
            sqlx::query(
                "UPDATE milestones
                 SET state = $4,
                     attempts = $5,
                     problem = $6,
                     kept = $7,
                     commit_sha = $8,
                     holder = $9,
                     held_until = $10
                 WHERE repository = $1
                   AND graph = $2
                   AND id = $3
                   AND state = $11
                   AND attempts = $12
                   AND COALESCE(holder, '') = $13"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str())
            .bind(now.id.as_str())
            .bind(now.state.as_str())
            .bind(i64::from(now.attempts))
            .bind(now.problem.as_deref().map(without_nul))
            .bind(kept_of(now)?)
            .bind(now.commit.as_ref().map(|sha| sha.as_str().to_owned()))
            .bind(now.hold.as_ref().map(|hold| hold.by.to_string()))
            .bind(held_until(now))
            .bind(before.state.as_str())
            .bind(i64::from(before.attempts))
            .bind(before.hold.as_ref().map(|hold| hold.by.to_string()).unwrap_or_default()),
            execute
        )?;
        Ok(written == 1)
    }

    /// Lengthens a holder's holds. False: this milestone is not theirs any more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn renew_milestone(
        &mut self,
        key: &GraphKey,
        id: &MilestoneId,
        by: &Holder,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let renewed = on_db!(
            self,
            sqlx::query(
                "UPDATE milestones
                 SET held_until = $5
                 WHERE repository = $1
                   AND graph = $2
                   AND holder = $4
                   AND state = 'in_progress'
                   AND EXISTS (
                       SELECT 1
                       FROM milestones AS wanted
                       WHERE wanted.repository = $1
                         AND wanted.graph = $2
                         AND wanted.id = $3
                         AND wanted.holder = $4
                         AND wanted.state = 'in_progress'
                   )"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str())
            .bind(id.as_str())
            .bind(by.to_string())
            .bind(micros(until)),
            execute
        )?;
        Ok(renewed >= 1)
    }

    /// Removes a milestone. False: there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_milestone(&mut self, key: &GraphKey, id: &MilestoneId) -> Result<bool, StoreError> {
        let gone = on_db!(
            self,
            sqlx::query(
                "DELETE FROM milestones
                 WHERE repository = $1
                   AND graph = $2
                   AND id = $3"
            )
            .bind(without_nul(&key.repository))
            .bind(key.name.as_str())
            .bind(id.as_str()),
            execute
        )?;
        Ok(gone == 1)
    }
}

fn kept_of(milestone: &Milestone) -> Result<Option<String>, StoreError> {
    let kept = milestone.kept.as_ref();
    kept.map(|kept| to_json("milestones.kept", kept)).transpose()
}

fn held_until(milestone: &Milestone) -> Option<DateTime<Utc>> {
    milestone.hold.as_ref()?.until.map(micros)
}

impl TryFrom<StoredGraph> for GraphKey {
    type Error = StoreError;

    fn try_from(stored: StoredGraph) -> Result<Self, StoreError> {
        Ok(Self {
            repository: stored.repository,
            name: parse("graphs.name", &stored.name)?,
        })
    }
}

impl TryFrom<StoredMilestone> for Milestone {
    type Error = StoreError;

    fn try_from(stored: StoredMilestone) -> Result<Self, StoreError> {
        let hold = stored.holder.map(|by| {
            Ok::<_, StoreError>(Hold {
                by: parse("milestones.holder", &by)?,
                until: stored.held_until,
            })
        });
        Ok(Self {
            id: parse("milestones.id", &stored.id)?,
            position: count("milestones.position", stored.position)?,
            title: stored.title,
            description: stored.description,
            acceptance: stored.acceptance,
            depends_on: from_json("milestones.depends_on", &stored.depends_on)?,
            state: parse("milestones.state", &stored.state)?,
            attempts: count("milestones.attempts", stored.attempts)?,
            problem: stored.problem,
            kept: stored
                .kept
                .map(|kept| from_json("milestones.kept", &kept))
                .transpose()?,
            commit: stored
                .commit_sha
                .map(|sha| parse("milestones.commit_sha", &sha))
                .transpose()?,
            hold: hold.transpose()?,
        })
    }
}
