//! Work graphs of repositories of the service: what became of the jobs of milestones, and the next
//! one as a job. One graph after another, each in one transaction, so that a pass that dies has
//! either done all of a graph or nothing of it.
//! Never begins a second milestone of a graph beside the first: what they make stands on one branch.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use super::{Alerts, ledger};
use crate::clock::Clock;
use crate::config::WorkgraphConfig;
use crate::ids::{JobId, RepoId, Subject};
use crate::job::{Actor, Job, JobKind, JobState, NewJob, Outcome, Pins, Request, Trigger};
use crate::milestone::{
    Conclusion, Graph, GraphKey, Hold, Holder, Limits, Milestone, MilestoneError, MilestoneId, MilestoneState, Outlook,
    Standing,
};
use crate::mission::{Cause, Counts, MilestoneEnd, Mission, MissionState};
use crate::store::{RepoRow, Store, StoreError, Tx};
use crate::workgraph::{BeginsWith, WorkGraphError, request, take_in_hand, write_back};

/// Most graphs of one pass.
const MAX_GRAPHS: u32 = 1_000;

/// What a pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advanced {
    /// Milestones whose job was over.
    pub concluded: Vec<Concluded>,
    /// Jobs that were inserted.
    pub started: Vec<JobId>,
}

/// A milestone whose job was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concluded {
    /// Its graph.
    pub graph: GraphKey,
    /// It.
    pub milestone: MilestoneId,
    /// The job.
    pub job: JobId,
    /// Where it stands now.
    pub state: MilestoneState,
}

/// What advances work graphs. Cheap to clone.
#[derive(Clone)]
pub struct Graphs {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// `[workgraph]`
    pub config: WorkgraphConfig,
    /// Attempts before a job is given up.
    pub max_attempts: u32,
    /// Who is told of a graph that came to rest.
    pub alerts: Alerts,
}

impl Graphs {
    /// Advances the graphs again and again until `stop`. Time passes in the clock, in which the interval
    /// is measured; the pauses are real.
    pub async fn keep(&self, pause: Duration, stop: &CancellationToken) {
        let every = TimeDelta::from_std(self.config.advance_seconds).unwrap_or(TimeDelta::MAX);
        let mut last: Option<DateTime<Utc>> = None;
        while !stop.is_cancelled() {
            let now = self.clock.now();
            // Also when the clock went back. Without an interval only what schedules began is concluded.
            let is_due = !every.is_zero() && last.is_none_or(|last| now - last >= every || now < last);
            let done = match is_due {
                true => {
                    last = Some(now);
                    self.advance().await
                }
                false => self.conclude().await,
            };
            if let Err(error) = done {
                tracing::warn!(%error, "the work graphs could not be looked at");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Concludes every milestone whose job is over and inserts the job of the next one in each approved
    /// graph. Done twice, it does nothing more. A graph that cannot be advanced does not keep the others
    /// from it.
    ///
    /// # Errors
    /// When the database does not say which graphs there are.
    pub async fn advance(&self) -> Result<Advanced, StoreError> {
        let mut tx = self.store.begin().await?;
        let mut keys = tx.approved_graphs(MAX_GRAPHS).await?;
        keys.extend(tx.busy_graphs(MAX_GRAPHS).await?);
        drop(tx);
        keys.sort_by(|a, b| (&a.repository, &a.name).cmp(&(&b.repository, &b.name)));
        keys.dedup();
        Ok(self.pass_over(keys, Some(self.clock.now())).await)
    }

    /// Concludes every milestone whose job is over, and begins none.
    ///
    /// # Errors
    /// As [`Graphs::advance`].
    pub async fn conclude(&self) -> Result<Advanced, StoreError> {
        let keys = self.store.begin().await?.busy_graphs(MAX_GRAPHS).await?;
        Ok(self.pass_over(keys, None).await)
    }

    async fn pass_over(&self, keys: Vec<GraphKey>, begins: Option<DateTime<Utc>>) -> Advanced {
        let mut advanced = Advanced::default();
        for key in keys {
            match self.advance_one(&key, begins).await {
                Ok(one) => {
                    advanced.concluded.extend(one.concluded);
                    advanced.started.extend(one.started);
                }
                Err(error) => {
                    tracing::warn!(%error, repository = %key.repository, graph = %key.name, "a work graph was not advanced");
                }
            }
        }
        advanced
    }

    async fn advance_one(&self, key: &GraphKey, begins: Option<DateTime<Utc>>) -> Result<Advanced, WorkGraphError> {
        let mut tx = self.store.begin().await?;
        let (advanced, _) = self.pass().advance(&mut tx, key, begins).await?;
        tx.commit().await?;
        Ok(advanced)
    }

    /// The same for one graph, in the transaction of whoever wants it: the job, which begins at `run_at`, or
    /// why there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn begin(
        &self,
        tx: &mut Tx,
        repo: RepoId,
        name: &str,
        run_at: DateTime<Utc>,
    ) -> Result<Result<JobId, String>, StoreError> {
        let name = match name.parse() {
            Ok(name) => name,
            Err(error) => return Ok(Err(format!("not started: {error}"))),
        };
        let key = GraphKey {
            repository: format!("repository/{repo}"),
            name,
        };
        let pass = self.pass();
        let (advanced, graph) = match pass.advance(tx, &key, Some(run_at)).await {
            Ok(done) => done,
            Err(WorkGraphError::Store(error)) => return Err(error),
            Err(error) => return Ok(Err(format!("not started: {error}"))),
        };
        Ok(
            match (advanced.started.into_iter().next(), graph.outlook(pass.limits)) {
                (Some(job), _) => Ok(job),
                (None, Outlook::Running | Outlook::Ready(_)) => Err("skipped: still at work".to_owned()),
                (None, Outlook::Empty) => Err("not started: the graph has no milestones".to_owned()),
                (None, Outlook::Done) => Err("not started: all milestones are done".to_owned()),
                (None, Outlook::Proposed) => Err("not started: nobody has approved the graph".to_owned()),
                (None, Outlook::Breaker) => Err("not started: too many milestones were given up in a row".to_owned()),
                (None, Outlook::Stuck(_)) => {
                    Err("not started: milestones were given up, and the others wait".to_owned())
                }
            },
        )
    }

    fn pass(&self) -> Pass<'_> {
        Pass {
            alerts: &self.alerts,
            clock: &self.clock,
            now: self.clock.now(),
            limits: (&self.config).into(),
            max_attempts: self.max_attempts,
        }
    }
}

struct Pass<'a> {
    alerts: &'a Alerts,
    clock: &'a Clock,
    now: DateTime<Utc>,
    limits: Limits,
    max_attempts: u32,
}

impl Pass<'_> {
    /// One graph. When it comes to rest by this, the ledger has it.
    async fn advance(
        &self,
        tx: &mut Tx,
        key: &GraphKey,
        begins: Option<DateTime<Utc>>,
    ) -> Result<(Advanced, Graph), WorkGraphError> {
        let before = take_in_hand(tx, key).await?;
        let mut graph = before.clone();
        let concluded = self.conclude(tx, &mut graph).await?;
        let started = match begins {
            Some(run_at) => self.start(tx, &mut graph, run_at).await?,
            None => None,
        };
        write_back(tx, &before, &graph).await?;
        if let Some(last) = concluded.last()
            && let Some(mission) = self.at_rest(tx, &graph, &last.job).await?
        {
            ledger::note(tx, &mission, self.alerts, self.clock).await?;
        }
        let advanced = Advanced {
            concluded,
            started: started.into_iter().collect(),
        };
        Ok((advanced, graph))
    }

    /// The record of a graph that goes on no further by itself.
    async fn at_rest(&self, tx: &mut Tx, graph: &Graph, last: &JobId) -> Result<Option<Mission>, StoreError> {
        let (state, reason) = match graph.outlook(self.limits) {
            Outlook::Done => (MissionState::Done, String::new()),
            Outlook::Breaker => (
                MissionState::Breaker,
                format!("{} milestones in a row were given up", graph.failures),
            ),
            Outlook::Stuck(given_up) => {
                let given_up: Vec<&str> = given_up.iter().map(MilestoneId::as_str).collect();
                let reason = format!("not done in all fix attempts: {}", given_up.join(", "));
                match MissionState::of_stuck(graph) {
                    MissionState::Blocked => (MissionState::Blocked, format!("{reason}; the others wait for them")),
                    state => (state, reason),
                }
            }
            Outlook::Empty | Outlook::Proposed | Outlook::Ready(_) | Outlook::Running => return Ok(None),
        };
        let Some(job) = tx.job(last).await? else {
            return Ok(None);
        };
        Ok(Some(Mission {
            id: JobId::new(self.now).to_string(),
            began: self.now,
            ended: self.now,
            repository: job.repo.to_string(),
            subject: job.subject.to_string(),
            cause: Cause::Graph {
                graph: graph.key.name.to_string(),
            },
            state,
            reason,
            job: None,
            round: 0,
            milestones: MilestoneEnd::all(graph),
            // What it took stands in the records of its jobs.
            counts: Counts::default(),
            cost_usd: 0.0,
            price_unknown: false,
            commits: Vec::new(),
            pull: None,
        }))
    }

    /// Ends what jobs that are over were at.
    async fn conclude(&self, tx: &mut Tx, graph: &mut Graph) -> Result<Vec<Concluded>, WorkGraphError> {
        let held = graph.milestones.iter().filter_map(|milestone| match &milestone.hold {
            Some(Hold {
                by: Holder::Job(job), ..
            }) => Some((milestone.clone(), job.clone())),
            _ => None,
        });
        let held: Vec<(Milestone, JobId)> = held.collect();
        let mut concluded = Vec::new();
        for (milestone, id) in held {
            let job = tx.job(&id).await?;
            let conclusion = match &job {
                Some(job) if !job.state.is_final() => continue,
                Some(job) if is_for(job, &milestone) => conclusion_of(job, &milestone),
                // The model began it besides and did not say how it ended; or there is no such job.
                _ => Conclusion::Released { kept: None },
            };
            if job.as_ref().is_some_and(was_stopped) {
                // Whoever stopped it does not want it to begin anew by itself.
                graph.standing = Standing::Proposed;
            }
            graph.conclude(&milestone.id, &Holder::Job(id.clone()), conclusion, self.limits)?;
            concluded.push(Concluded {
                graph: graph.key.clone(),
                state: graph.milestone(&milestone.id)?.state,
                milestone: milestone.id,
                job: id,
            });
        }
        Ok(concluded)
    }

    /// Inserts the job of the milestone whose turn it is.
    async fn start(
        &self,
        tx: &mut Tx,
        graph: &mut Graph,
        run_at: DateTime<Utc>,
    ) -> Result<Option<JobId>, WorkGraphError> {
        if graph.standing != Standing::Approved || graph.is_busy() || graph.is_broken(self.limits) {
            return Ok(None);
        }
        let Some(next) = graph.next(self.limits).cloned() else {
            return Ok(None);
        };
        let id = graph.key.repository.strip_prefix("repository/");
        let id = id
            .and_then(|id| id.parse().ok())
            .ok_or_else(|| MilestoneError::Unfit(format!("{} is no repository", graph.key.repository)))?;
        let Some(repo) = tx.repo(RepoId(id)).await?.filter(|repo| repo.active) else {
            return Ok(None);
        };
        let job = self.job_of(graph, &next, &repo, run_at);
        let Some(job) = tx.insert_job(&job, self.now).await? else {
            return Ok(None);
        };
        let hold = Hold {
            by: Holder::Job(job.clone()),
            until: None,
        };
        graph.start(&next.id, hold, self.limits)?;
        Ok(Some(job))
    }

    fn job_of(&self, graph: &Graph, milestone: &Milestone, repo: &RepoRow, run_at: DateTime<Utc>) -> NewJob {
        let name = &graph.key.name;
        NewJob {
            repo_id: repo.id,
            repo: repo.name.clone(),
            installation: repo.installation,
            kind: JobKind::Fix,
            subject: Subject::task(&format!("graph-{name}")),
            dedupe_key: Some(format!("milestone:{}:{name}:{}", repo.id, milestone.id)),
            priority: 0,
            run_at,
            max_attempts: self.max_attempts,
            request: Request {
                trigger: Trigger::Milestone {
                    graph: name.to_string(),
                    milestone: milestone.id.to_string(),
                    acceptance: milestone.acceptance.clone(),
                },
                actor: Actor::operator(),
                instructions: String::new(),
                triggered_at: self.now,
            },
            pins: Pins {
                title: Some(milestone.title.clone()),
                body: Some(request(milestone, graph, BeginsWith::Nothing, self.limits)),
                ..Pins::default()
            },
        }
    }
}

fn is_for(job: &Job, milestone: &Milestone) -> bool {
    matches!(&job.request.trigger, Trigger::Milestone { milestone: id, .. } if id == milestone.id.as_str())
}

/// Whether a person stopped the job, or something that speaks for one.
fn was_stopped(job: &Job) -> bool {
    match &job.outcome {
        Some(outcome) => matches!(outcome, Outcome::Stopped { .. }),
        None => job.state == JobState::Cancelled,
    }
}

/// What the end of a job says of its milestone.
fn conclusion_of(job: &Job, milestone: &Milestone) -> Conclusion {
    let failed = |problem: String| Conclusion::Failed { problem, kept: None };
    match &job.outcome {
        _ if was_stopped(job) => Conclusion::Released { kept: None },
        Some(Outcome::Opened { sha, .. } | Outcome::Pushed { sha, .. }) => Conclusion::Done {
            commit: Some(sha.clone()),
        },
        // With an acceptance command, a job has this outcome only when the command passed.
        Some(Outcome::NothingToDo { .. }) => Conclusion::Done { commit: None },
        Some(Outcome::GaveUp {
            reason,
            branch: Some(branch),
        }) => failed(format!("{reason}\n\nWhat it left is on the branch {branch}.")),
        Some(Outcome::GaveUp { reason, branch: None }) => failed(reason.clone()),
        Some(Outcome::Refused { reason }) => failed(format!("It was refused: {reason}")),
        Some(Outcome::Answered | Outcome::Reviewed { .. } | Outcome::Measured { .. } | Outcome::Stopped { .. }) => {
            failed(format!("The job of {} ended without a change.", milestone.id))
        }
        None => {
            let reason = job.reason.clone();
            failed(reason.unwrap_or_else(|| format!("the job ended as {}", job.state)))
        }
    }
}
