//! Work graphs and their milestones: one row each, and nobody writes over what they have not seen.

use super::*;
use crate::databases::each;
use forgehand::milestone::{Graph, GraphKey, Hold, Holder, Kept, Milestone, MilestoneState, NewMilestone, Standing};

fn key(repository: &str) -> GraphKey {
    GraphKey {
        repository: repository.to_owned(),
        name: "main".parse().unwrap(),
    }
}

/// A graph with two milestones that have everything that a milestone may have.
fn graph(repository: &str) -> Graph {
    let mut graph = Graph::new(key(repository), "All \u{0} of it", Standing::Proposed);
    let new = |id: &str, after: &[&str]| NewMilestone {
        id: Some(id.parse().unwrap()),
        title: format!("Do {id} \u{0}"),
        description: "In words \u{0}".to_owned(),
        acceptance: Some("printf '\\0'".to_owned()),
        depends_on: after.iter().map(|id| id.parse().unwrap()).collect(),
    };
    graph.add(vec![new("a", &[]), new("b", &["a"])]).unwrap();
    graph
}

async fn insert(store: &Store, graph: &Graph) {
    let made = with(store, async |tx| {
        let made = tx.insert_graph(graph).await?;
        for milestone in &graph.milestones {
            tx.insert_milestone(&graph.key, milestone).await?;
        }
        Ok(made)
    });
    assert!(made.await.unwrap());
}

async fn read(store: &Store, key: &GraphKey) -> Option<Graph> {
    with(store, async |tx| tx.graph(key).await).await.unwrap()
}

#[tokio::test]
async fn graphs_are_kept_by_repository() {
    each(async |store| {
        let (one, other) = (graph("repository/1"), graph("local/x"));
        insert(&store, &one).await;
        insert(&store, &other).await;
        assert!(!with(&store, async |tx| tx.insert_graph(&one).await).await.unwrap());

        let found = read(&store, &one.key).await.unwrap();
        assert_eq!(found.goal, "All ␀ of it");
        assert_eq!(found.milestones[1].title, "Do b ␀");
        assert_eq!(found.milestones[1].depends_on, one.milestones[1].depends_on);
        assert_eq!(found.milestones[1].acceptance, one.milestones[1].acceptance);
        assert_eq!(read(&store, &key("repository/2")).await, None);
        let approved = async || with(&store, async |tx| tx.approved_graphs(10).await).await.unwrap();
        assert_eq!(approved().await, []);
        for graph in [&one, &other] {
            let mut graph = graph.clone();
            graph.standing = Standing::Approved;
            graph.failures = 2;
            assert!(with(&store, async |tx| tx.update_graph(&graph).await).await.unwrap());
        }
        assert_eq!(
            approved().await,
            [key("repository/1")],
            "local ones are not the service's"
        );
        assert_eq!(read(&store, &one.key).await.unwrap().failures, 2);
    })
    .await;
}

#[tokio::test]
async fn a_milestone_is_written_over_only_as_it_was_seen() {
    each(async |store| {
        let graph = graph("repository/1");
        insert(&store, &graph).await;
        let write = async |before: &Milestone, now: &Milestone| {
            with(&store, async |tx| tx.update_milestone(&graph.key, before, now).await)
                .await
                .unwrap()
        };
        let pending = read(&store, &graph.key).await.unwrap().milestones[0].clone();
        let busy = async || with(&store, async |tx| tx.busy_graphs(10).await).await.unwrap();
        assert_eq!(busy().await, []);
        let by_a_job = Milestone {
            hold: Some(Hold {
                by: Holder::Job(JobId::new(now())),
                until: None,
            }),
            ..pending.clone()
        };
        assert!(write(&pending, &by_a_job).await);
        assert_eq!(busy().await, [key("repository/1")]);
        assert!(write(&by_a_job, &pending).await);
        let until = in_seconds(60).trunc_subsecs(6);
        let held = Milestone {
            state: MilestoneState::InProgress,
            hold: Some(Hold {
                by: Holder::Process("boot/1/2".to_owned()),
                until: Some(until),
            }),
            commit: Some("c".repeat(40).parse().unwrap()),
            kept: Some(Kept {
                branch: "agent/kept/main/a".parse().unwrap(),
                sha: "a".repeat(40).parse().unwrap(),
                base: "b".repeat(40).parse().unwrap(),
                failed_before: vec!["sh test.sh".to_owned()],
            }),
            problem: Some("exit code 1 \u{0}".to_owned()),
            attempts: 1,
            ..pending.clone()
        };
        assert!(write(&pending, &held).await);
        assert!(!write(&pending, &held).await, "it is not pending any more");
        let found = read(&store, &graph.key).await.unwrap().milestones[0].clone();
        assert_eq!(found.problem.as_deref(), Some("exit code 1 ␀"));
        assert_eq!(
            Milestone {
                problem: held.problem.clone(),
                ..found.clone()
            },
            held
        );

        let renew = async |by: &Holder, until: DateTime<Utc>| {
            with(&store, async |tx| {
                tx.renew_milestone(&graph.key, &held.id, by, until).await
            })
            .await
            .unwrap()
        };
        let mine = held.hold.clone().unwrap().by;
        assert!(renew(&mine, until + TimeDelta::seconds(1)).await);
        assert!(!renew(&Holder::Person, until).await);
        let now = read(&store, &graph.key).await.unwrap().milestones[0].clone();
        assert_eq!(now.hold.as_ref().unwrap().until, Some(until + TimeDelta::seconds(1)));
        assert!(write(&now, &pending).await);
        assert!(!renew(&mine, until).await, "nobody is at it");
    })
    .await;
}

#[tokio::test]
async fn a_graph_goes_when_its_milestones_are_gone() {
    each(async |store| {
        let graph = graph("repository/1");
        insert(&store, &graph).await;
        let gone = async || with(&store, async |tx| tx.delete_graph(&graph.key).await).await;
        assert!(gone().await.is_err(), "it has milestones");
        let twice = with(&store, async |tx| {
            tx.insert_milestone(&graph.key, &graph.milestones[0]).await
        });
        assert!(twice.await.is_err(), "its name is taken");
        for milestone in &graph.milestones {
            let remove = async || {
                with(&store, async |tx| tx.delete_milestone(&graph.key, &milestone.id).await)
                    .await
                    .unwrap()
            };
            assert!(remove().await);
            assert!(!remove().await);
        }
        let hold = async || with(&store, async |tx| tx.hold_graph(&graph.key).await).await.unwrap();
        assert!(hold().await);
        assert!(gone().await.unwrap());
        assert!(!gone().await.unwrap());
        assert!(!hold().await);
        assert!(!with(&store, async |tx| tx.update_graph(&graph).await).await.unwrap());
    })
    .await;
}
