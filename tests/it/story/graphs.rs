//! Work graphs of a repository of the service: one milestone after another becomes a job, and what
//! became of the job decides what is next. The pass that does so may come at any time, and twice.

use forgehand::clock::Clock;
use forgehand::config::AlertConfig;
use forgehand::github::GitHub;
use forgehand::job::{JobState, Outcome};
use forgehand::milestone::{GraphKey, Limits, Milestone, MilestoneState, NewMilestone, Outlook, Standing};
use forgehand::secret::Redactor;
use forgehand::store::CancelResult;
use forgehand::unattended::{Advanced, Alerts, Graphs, locate};
use forgehand::workgraph::WorkGraph;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{REPO, Service, bug_fix, finish, note, until, usual};

fn new(id: &str, acceptance: &str, after: &[&str]) -> NewMilestone {
    NewMilestone {
        id: Some(id.parse().unwrap()),
        title: format!("Do {id}"),
        description: format!("In words: {id}."),
        acceptance: Some(acceptance.to_owned()).filter(|command| !command.is_empty()),
        depends_on: after.iter().map(|id| id.parse().unwrap()).collect(),
    }
}

/// The graph of the story's repository, as the operator planned it.
async fn planned(service: &Service, milestones: Vec<NewMilestone>) -> WorkGraph {
    let github = GitHub::new(&service.config.github, Clock::System, Redactor::default()).unwrap();
    let repo = locate(&github, &service.store, &REPO.parse().unwrap()).await.unwrap();
    let key = GraphKey {
        repository: format!("repository/{}", repo.id),
        name: "main".parse().unwrap(),
    };
    let config = &service.config.workgraph;
    let limits = Limits {
        max_fix_attempts: config.max_fix_attempts,
        breaker_failures: config.breaker_failures,
    };
    let graph = WorkGraph::new(service.store.clone(), Clock::System, key, limits);
    graph.add(milestones).await.unwrap();
    graph
}

/// A pass, and another one that has nothing to do.
async fn pass(service: &Service) -> Advanced {
    let graphs = Graphs {
        store: service.store.clone(),
        clock: Clock::System,
        config: service.config.workgraph.clone(),
        max_attempts: service.config.queue.max_attempts,
        alerts: Alerts::new(&AlertConfig::default()),
    };
    let done = graphs.advance().await.unwrap();
    service.store.ring();
    done
}

/// The service ends by itself what its jobs were at, also where it begins nothing.
async fn concluded(graph: &WorkGraph, id: &str, state: MilestoneState) {
    until(&format!("{id} is {state}"), async || {
        milestone(graph, id).await.state == state
    })
    .await;
}

async fn milestone(graph: &WorkGraph, id: &str) -> Milestone {
    let found = graph.existing().await.unwrap();
    found.milestone(&id.parse().unwrap()).unwrap().clone()
}

#[tokio::test]
async fn a_graph_goes_on_job_by_job_on_one_pull_request() {
    usual()
        .tell(async |service: &mut Service| {
            let graph = planned(
                service,
                vec![
                    new("count", "sh test.sh", &[]),
                    new("more", "test -f more.txt", &["count"]),
                ],
            )
            .await;
            service.model.play(bug_fix());
            assert_eq!(pass(service).await.started.len(), 1);
            service.done().await;
            concluded(&graph, "count", MilestoneState::Done).await;

            service.model.play([note("more.txt"), finish()]);
            assert_eq!(pass(service).await.started.len(), 1);
            service.done().await;
            concluded(&graph, "more", MilestoneState::Done).await;
            assert_eq!(
                pass(service).await,
                Advanced::default(),
                "done twice, it does nothing more"
            );

            let found = graph.existing().await.unwrap();
            assert_eq!(found.outlook(graph.limits()), Outlook::Done);
            let pull = service.only_pull();
            assert_eq!(pull.head, "agent/graph-main");
            let Outcome::Pushed { sha, .. } = service.outcome().await else {
                panic!("{:?}", service.outcome().await);
            };
            assert_eq!(found.milestones[1].commit, Some(sha));
            assert_eq!(service.file(&pull.head, "more.txt").await, "x\n");
            let asked = service.model.requests();
            let prompt = asked[0].body.to_string();
            assert!(
                prompt.contains("In words: count.") && prompt.contains("`sh test.sh` ends with exit code 0"),
                "{prompt}"
            );
            let has_tool = |name: &str| prompt.contains(&format!("\"name\":\"{name}\""));
            assert!(has_tool("milestone") && !has_tool("generate_milestones"), "{prompt}");
        })
        .await;
}

#[tokio::test]
async fn a_failure_goes_to_the_next_attempt_until_it_is_given_up() {
    usual()
        .configuration(|config| {
            config.workgraph.max_fix_attempts = 1;
            config.workgraph.breaker_failures = 1;
        })
        .tell(async |service: &mut Service| {
            let graph = planned(service, vec![new("count", "sh test.sh", &[]), new("more", "", &[])]).await;
            for attempt in [1, 2] {
                service.model.play([note("a.txt"), finish(), finish()]);
                let begun = pass(service).await;
                assert_eq!(begun.started.len(), 1, "attempt {attempt}");
                service.done().await;
                concluded(&graph, "count", MilestoneState::NeedsFix).await;
                if attempt == 1 {
                    continue;
                }
                // What the first one said is what the second one begins with.
                let prompts = service.model.requests();
                let last = prompts.last().unwrap().body.to_string();
                assert!(
                    last.contains("fix attempt 1 of 1") && last.contains("counted 1"),
                    "{last}"
                );
            }
            let count = milestone(&graph, "count").await;
            assert_eq!(count.attempts, 2);
            let problem = count.problem.unwrap();
            assert!(problem.contains("What it left is on the branch agent/"), "{problem}");
            let found = graph.existing().await.unwrap();
            assert_eq!(found.outlook(graph.limits()), Outlook::Breaker);
            assert_eq!(
                pass(service).await,
                Advanced::default(),
                "an open breaker starts nothing"
            );
        })
        .await;
}

#[tokio::test]
async fn what_a_person_stops_does_not_begin_anew_by_itself() {
    usual()
        .tell(async |service: &mut Service| {
            let graph = planned(service, vec![new("count", "sh test.sh", &[])]).await;
            service.model.play([Reply::silence()]);
            let job = pass(service).await.started.remove(0);
            service.model_is_asked(1).await;
            let mut tx = service.store.begin().await.unwrap();
            let now = tx.db_now().await.unwrap();
            assert_eq!(
                tx.cancel_job(&job, "not now", now).await.unwrap(),
                CancelResult::Requested
            );
            tx.commit().await.unwrap();
            service.done().await;
            let jobs = service.jobs().await;
            assert!(
                jobs.iter()
                    .all(|job| job.state == JobState::Cancelled || job.state == JobState::Done),
                "{jobs:?}"
            );

            concluded(&graph, "count", MilestoneState::Pending).await;
            let found = graph.existing().await.unwrap();
            assert_eq!((found.standing, found.milestones[0].attempts), (Standing::Proposed, 0));
            assert_eq!(pass(service).await, Advanced::default());
            graph.approve().await.unwrap();
            service.model.play(bug_fix());
            assert_eq!(pass(service).await.started.len(), 1);
            service.done().await;
            concluded(&graph, "count", MilestoneState::Done).await;
        })
        .await;
}

#[tokio::test]
async fn several_processes_insert_one_job_and_only_where_the_app_is_installed() {
    usual()
        .tell(async |service: &mut Service| {
            let graph = planned(service, vec![new("count", "sh test.sh", &[])]).await;
            let mut tx = service.store.begin().await.unwrap();
            let id = graph
                .key()
                .repository
                .strip_prefix("repository/")
                .unwrap()
                .parse()
                .unwrap();
            let repo = tx.repo(forgehand::ids::RepoId(id)).await.unwrap().unwrap();
            let gone = forgehand::store::RepoRow {
                active: false,
                ..repo.clone()
            };
            tx.upsert_repo(&gone).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(pass(service).await, Advanced::default());
            let mut tx = service.store.begin().await.unwrap();
            tx.upsert_repo(&repo).await.unwrap();
            tx.commit().await.unwrap();

            service.model.play([Reply::call(
                "finish",
                json!({"status": "nothing_to_do", "summary": "All is well."}),
            )]);
            let passes = (0..6).map(|_| pass(service));
            let all = futures_util::future::join_all(passes).await;
            let started: usize = all.iter().map(|advanced| advanced.started.len()).sum();
            assert_eq!(started, 1, "{all:?}");
            service.done().await;
            // A word is no acceptance.
            concluded(&graph, "count", MilestoneState::NeedsFix).await;
            service.model.play(bug_fix());
            assert_eq!(pass(service).await.started.len(), 1);
            graph.remove_all().await.unwrap_err();
            service.done().await;
        })
        .await;
}
