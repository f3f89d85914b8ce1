//! Work graphs as several processes on one database have them: whoever begins a milestone is the
//! only one, and nothing that a process wrote is lost to another one.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use forgehand::clock::Clock;
use forgehand::milestone::{
    Conclusion, Graph, GraphKey, Holder, Limits, MilestoneId, MilestoneState, NewMilestone, Outlook, Standing,
};
use forgehand::secret::Redactor;
use forgehand::store::Store;
use forgehand::workgraph::{Desk, HOLD, Purpose, Taken, WorkGraph, WorkGraphError};

use crate::databases::{each, each_database};

const LIMITS: Limits = Limits {
    max_fix_attempts: 1,
    breaker_failures: 2,
};

/// Writers at once.
const WRITERS: usize = 8;

fn on(store: &Store, clock: &Clock) -> WorkGraph {
    let key = GraphKey {
        repository: "local/x".to_owned(),
        name: "main".parse().unwrap(),
    };
    WorkGraph::new(store.clone(), clock.clone(), key, LIMITS)
}

fn clock() -> Clock {
    Clock::manual(DateTime::UNIX_EPOCH + TimeDelta::days(20_000))
}

fn new(id: &str, after: &[&str]) -> NewMilestone {
    NewMilestone {
        id: Some(id.parse().unwrap()),
        title: format!("Do {id}"),
        description: String::new(),
        acceptance: None,
        depends_on: after.iter().map(|id| id.parse().unwrap()).collect(),
    }
}

fn with_command(id: &str) -> NewMilestone {
    NewMilestone {
        acceptance: Some("sh test.sh".to_owned()),
        ..new(id, &[])
    }
}

fn process(name: impl ToString) -> Holder {
    Holder::Process(name.to_string())
}

fn id(name: &str) -> MilestoneId {
    name.parse().unwrap()
}

fn nobody_is_gone(_: &Holder) -> bool {
    false
}

async fn take(graph: &WorkGraph, by: &Holder) -> Option<MilestoneId> {
    match graph.take_next(by, nobody_is_gone).await.unwrap() {
        Taken::Milestone { milestone, .. } => Some(milestone.id),
        Taken::Nothing(_) => None,
    }
}

async fn state(graph: &WorkGraph, name: &str) -> MilestoneState {
    graph.existing().await.unwrap().milestone(&id(name)).unwrap().state
}

#[tokio::test]
async fn of_many_who_begin_the_same_milestone_exactly_one_does() {
    each_database(async |database| {
        // Stores of their own, as other processes have them.
        let mut stores = Vec::new();
        for _ in 0..WRITERS {
            stores.push(database.open().await);
        }
        let clock = clock();
        on(&stores[0], &clock)
            .add(vec![new("a", &[]), new("b", &[])])
            .await
            .unwrap();
        let begin = |by: usize| {
            let graph = on(&stores[by], &clock);
            async move { graph.start(&id("a"), &process(by)).await }
        };
        let began = futures_util::future::join_all((0..WRITERS).map(begin)).await;
        assert_eq!(began.iter().filter(|result| result.is_ok()).count(), 1, "{began:?}");
        let refused = |result: &Result<(), WorkGraphError>| matches!(result, Ok(()) | Err(WorkGraphError::Refused(_)));
        assert!(began.iter().all(refused), "{began:?}");

        let winner = began.iter().position(Result::is_ok).unwrap();
        let found = on(&stores[0], &clock).existing().await.unwrap();
        assert_eq!(found.milestones[0].hold.as_ref().unwrap().by, process(winner));

        // The others do not begin beside it either: one branch, one after the other.
        let take = |by: usize| {
            let graph = on(&stores[by], &clock);
            async move { take(&graph, &process(by)).await }
        };
        let taken = futures_util::future::join_all((0..WRITERS).map(take)).await;
        assert!(taken.iter().all(Option::is_none), "{taken:?}");
        for store in stores {
            store.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_many_add_at_once_is_all_there() {
    each(async |store| {
        let clock = clock();
        let add = |_| {
            let graph = on(&store, &clock);
            async move {
                let titled = NewMilestone {
                    id: None,
                    title: "Read the header".to_owned(),
                    ..new("x", &[])
                };
                graph.add(vec![titled]).await.unwrap().remove(0)
            }
        };
        let mut ids = futures_util::future::join_all((0..WRITERS).map(add)).await;
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), WRITERS);
        let found = on(&store, &clock).existing().await.unwrap();
        let positions: Vec<u32> = found.milestones.iter().map(|milestone| milestone.position).collect();
        assert_eq!(positions, (0..8).collect::<Vec<u32>>());
    })
    .await;
}

#[tokio::test]
async fn a_hold_runs_out_unless_it_is_renewed() {
    each(async |store| {
        let clock = clock();
        let graph = on(&store, &clock);
        graph.add(vec![new("a", &[])]).await.unwrap();
        let (slow, next) = (process("slow"), process("next"));
        assert_eq!(take(&graph, &slow).await, Some(id("a")));
        clock.advance(HOLD - Duration::from_secs(1));
        assert!(graph.renew(&id("a"), &slow).await.unwrap());
        clock.advance(HOLD - Duration::from_secs(1));
        assert_eq!(take(&graph, &next).await, None, "it was renewed");
        clock.advance(Duration::from_secs(2));
        assert_eq!(take(&graph, &next).await, Some(id("a")));
        assert!(!graph.renew(&id("a"), &slow).await.unwrap());
        let late = graph.conclude(&id("a"), &slow, Conclusion::Done { commit: None }).await;
        assert!(late.unwrap_err().to_string().contains("not in these hands any more"));
        graph
            .conclude(&id("a"), &next, Conclusion::Done { commit: None })
            .await
            .unwrap();
        assert_eq!(state(&graph, "a").await, MilestoneState::Done);
    })
    .await;
}

#[tokio::test]
async fn who_is_known_to_be_gone_is_not_waited_for() {
    each(async |store| {
        let clock = clock();
        let graph = on(&store, &clock);
        graph.add(vec![new("a", &[])]).await.unwrap();
        let killed = process("killed");
        assert_eq!(take(&graph, &killed).await, Some(id("a")));
        let taken = graph
            .take_next(&process("next"), |holder| *holder == killed)
            .await
            .unwrap();
        assert!(matches!(taken, Taken::Milestone { .. }), "{taken:?}");
        assert_eq!(graph.existing().await.unwrap().milestones[0].attempts, 0);
    })
    .await;
}

#[tokio::test]
async fn attempts_and_the_breaker_are_kept_in_rows() {
    each(async |store| {
        let clock = clock();
        let by = process("p");
        on(&store, &clock)
            .add(vec![new("a", &[]), new("b", &[]), new("c", &["a"])])
            .await
            .unwrap();
        for expected in ["a", "a", "b", "b"] {
            // Each time as another process finds it.
            let graph = on(&store, &clock);
            assert_eq!(take(&graph, &by).await, Some(id(expected)));
            let failed = Conclusion::Failed {
                problem: "exit code 1".to_owned(),
                kept: None,
            };
            graph.conclude(&id(expected), &by, failed).await.unwrap();
        }
        let graph = on(&store, &clock);
        let taken = graph.take_next(&by, nobody_is_gone).await.unwrap();
        assert!(matches!(taken, Taken::Nothing(Outlook::Breaker)), "{taken:?}");
        assert_eq!(graph.reset().await.unwrap(), [id("a"), id("b")]);
        assert_eq!(take(&graph, &by).await, Some(id("a")));
    })
    .await;
}

fn desk(graph: &WorkGraph, by: &Holder, at_hand: &str) -> Desk {
    let purpose = Purpose::Work { at_hand: id(at_hand) };
    Desk::new(graph.clone(), by.clone(), purpose, Redactor::default())
}

/// A desk says why not in words.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, forgehand::workgraph::DeskError>, words: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[tokio::test]
async fn a_model_cannot_say_that_a_command_passed() {
    each(async |store| {
        let graph = on(&store, &clock());
        graph
            .add(vec![with_command("a"), with_command("b"), new("c", &[])])
            .await
            .unwrap();
        let by = process("run");
        graph.start(&id("a"), &by).await.unwrap();
        let desk = desk(&graph, &by, "a");
        refused(desk.done(&id("a")).await, "the milestone at hand");
        refused(desk.start(&id("b")).await, "has an acceptance command");
        refused(
            desk.done(&id("b")).await,
            "only the program's own run of `sh test.sh` decides",
        );
        refused(desk.remove(&id("b")).await, "only a person removes it");
        refused(desk.needs_fix(&id("b"), "x").await, "is still to be done anyway");
        refused(desk.done(&id("c")).await, "`start` it first");
        desk.start(&id("c")).await.unwrap();
        desk.done(&id("c")).await.unwrap();
        let added = desk.add(new("d", &["c"])).await.unwrap();
        desk.remove(&added).await.unwrap();
        refused(desk.add(new("e", &["e"])).await, "cycle: e → e");
        assert_eq!(state(&graph, "a").await, MilestoneState::InProgress);
        assert_eq!(state(&graph, "b").await, MilestoneState::Pending);
        assert_eq!(state(&graph, "c").await, MilestoneState::Done);
    })
    .await;
}

#[tokio::test]
async fn models_do_not_open_each_others_milestones_for_ever() {
    each(async |store| {
        let graph = on(&store, &clock());
        graph.add(vec![new("a", &[]), new("b", &[])]).await.unwrap();
        let by = process("run");
        graph.start(&id("a"), &by).await.unwrap();
        let desk = desk(&graph, &by, "a");
        for _ in 0..2 {
            graph.set_done(&id("b")).await.unwrap();
            desk.needs_fix(&id("b"), "the body is lost").await.unwrap();
        }
        let found = graph.existing().await.unwrap();
        let b = found.milestone(&id("b")).unwrap();
        assert!(
            b.is_given_up(LIMITS) && b.problem.as_deref() == Some("the body is lost"),
            "{b:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_proposal_takes_the_place_of_one_that_nobody_approved() {
    each(async |store| {
        let clock = clock();
        let graph = on(&store, &clock);
        let purpose = Purpose::Plan {
            goal: "Read version 2".to_owned(),
        };
        let desk = Desk::new(graph.clone(), process("plan"), purpose, Redactor::default());
        refused(desk.add(new("a", &[])).await, "there are no milestones");
        refused(desk.propose(Vec::new()).await, "there is no milestone in it");
        desk.propose(vec![new("a", &[]), with_command("b")]).await.unwrap();
        refused(
            desk.propose(vec![new("c", &["d"]), new("d", &["c"])]).await,
            "cycle: c → d → c",
        );
        let names = |graph: Graph| -> Vec<String> {
            graph
                .milestones
                .iter()
                .map(|milestone| milestone.id.to_string())
                .collect()
        };
        assert_eq!(
            names(graph.existing().await.unwrap()),
            ["a", "b"],
            "what does not fit changes nothing"
        );
        desk.propose(vec![new("b", &[]), new("c", &["b"])]).await.unwrap();
        let found = graph.existing().await.unwrap();
        assert_eq!(
            (found.standing, found.goal.as_str()),
            (Standing::Proposed, "Read version 2")
        );
        assert_eq!(names(found.clone()), ["b", "c"]);
        assert_eq!(found.milestones[0].acceptance, None, "the second one counts");
        assert!(matches!(
            graph.take_next(&process("run"), nobody_is_gone).await.unwrap(),
            Taken::Nothing(Outlook::Proposed)
        ));
        assert!(graph.approve().await.unwrap());
        refused(
            desk.propose(vec![new("z", &[])]).await,
            "is approved and has milestones already",
        );
    })
    .await;
}
