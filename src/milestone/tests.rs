//! Work graphs: what may be added, whose turn it is, what a try leads to. Random graphs hold the
//! rules that everything else leans on.

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    max_fix_attempts: 2,
    breaker_failures: 2,
};

fn id(name: &str) -> MilestoneId {
    name.parse().unwrap()
}

fn planned(name: &str, after: &[&str]) -> NewMilestone {
    NewMilestone {
        id: Some(id(name)),
        title: format!("Do {name}"),
        description: String::new(),
        acceptance: None,
        depends_on: after.iter().map(|name| id(name)).collect(),
    }
}

fn graph(milestones: &[(&str, &[&str])]) -> Graph {
    let key = GraphKey {
        repository: "local/x".to_owned(),
        name: GraphName::default(),
    };
    let mut graph = Graph::new(key, "All of it", Standing::Approved);
    let planned = milestones.iter().map(|(name, after)| planned(name, after));
    graph.add(planned.collect()).unwrap();
    graph
}

fn me() -> Holder {
    Holder::Process("me".to_owned())
}

fn hold() -> Hold {
    Hold { by: me(), until: None }
}

fn next(graph: &Graph) -> Option<String> {
    graph.next(LIMITS).map(|milestone| milestone.id.to_string())
}

/// Begins what is next and ends it so.
fn try_next(graph: &mut Graph, conclusion: Conclusion) -> String {
    let id = graph.next(LIMITS).unwrap().id.clone();
    graph.start(&id, hold(), LIMITS).unwrap();
    graph.conclude(&id, &me(), conclusion, LIMITS).unwrap();
    id.to_string()
}

fn failed() -> Conclusion {
    Conclusion::Failed {
        problem: "exit code 1".to_owned(),
        kept: None,
    }
}

const DONE: Conclusion = Conclusion::Done { commit: None };

#[test]
fn names_fit_into_branches() {
    for name in ["a", "parse-the-header", "2"] {
        assert!(name.parse::<MilestoneId>().is_ok(), "{name}");
    }
    for name in ["", "-a", "a-", "A", "a b", "ä", &"a".repeat(41)] {
        assert!(name.parse::<MilestoneId>().is_err(), "{name}");
    }
    assert!("a".repeat(25).parse::<GraphName>().is_err());
    let longest = format!("agent/kept/{}/{}", "g".repeat(24), "m".repeat(40));
    assert!(longest.parse::<BranchName>().unwrap().is_ours());
}

#[test]
fn names_are_made_from_titles() {
    let mut graph = graph(&[]);
    let new = || NewMilestone {
        id: None,
        title: "  Read the\n header ".to_owned(),
        ..planned("x", &[])
    };
    let ids = graph.add(vec![new(), new()]).unwrap();
    assert_eq!(ids, [id("read-the-header"), id("read-the-header-2")]);
    assert_eq!(graph.milestones[0].title, "Read the header");
    let nameless = NewMilestone {
        title: "解析".to_owned(),
        ..new()
    };
    assert_eq!(graph.add(vec![nameless]).unwrap(), [id("milestone")]);
}

#[test]
fn what_does_not_fit_is_refused_whole() {
    let mut graph = graph(&[("a", &[])]);
    let before = graph.clone();
    let refused = |graph: &mut Graph, new: Vec<NewMilestone>| graph.add(new).unwrap_err().to_string();
    let cases = [
        (vec![planned("a", &[])], "there is a milestone a already"),
        (
            vec![planned("b", &["a"]), planned("c", &["nobody"])],
            "c depends on nobody, which does not exist",
        ),
        (
            vec![planned("b", &["d"]), planned("c", &["b"]), planned("d", &["a", "c"])],
            "the dependencies form a cycle: b → d → c → b",
        ),
        (vec![planned("b", &["b"])], "the dependencies form a cycle: b → b"),
        (
            vec![NewMilestone {
                title: " ".to_owned(),
                ..planned("b", &[])
            }],
            "b: the title is missing",
        ),
        (
            vec![NewMilestone {
                acceptance: Some("true\nfalse".to_owned()),
                ..planned("b", &[])
            }],
            "b: the acceptance command is one line of at most 2048 bytes",
        ),
        (
            (0..MAX_MILESTONES).map(|at| planned(&format!("m{at}"), &[])).collect(),
            "a graph has at most 200 milestones",
        ),
    ];
    for (new, words) in cases {
        assert_eq!(refused(&mut graph, new), words);
    }
    assert_eq!(graph, before);
}

#[test]
fn what_failed_is_tried_again_before_anything_new() {
    let mut graph = graph(&[("a", &[]), ("b", &["a"]), ("c", &[])]);
    assert_eq!(try_next(&mut graph, failed()), "a");
    assert_eq!(try_next(&mut graph, failed()), "a");
    assert_eq!(graph.milestone(&id("a")).unwrap().attempts, 2);
    assert_eq!(try_next(&mut graph, DONE), "a");
    assert_eq!(try_next(&mut graph, DONE), "b");
    assert_eq!(try_next(&mut graph, DONE), "c");
    assert_eq!(graph.outlook(LIMITS), Outlook::Done);
}

#[test]
fn after_all_fix_attempts_it_is_stuck_and_a_person_begins_anew() {
    let mut graph = graph(&[("a", &[]), ("b", &["a"])]);
    for _ in 0..3 {
        assert_eq!(try_next(&mut graph, failed()), "a");
    }
    assert_eq!(graph.outlook(LIMITS), Outlook::Stuck(vec![id("a")]));
    assert_eq!((next(&graph), graph.failures), (None, 1));
    let refused = graph.start(&id("a"), hold(), LIMITS).unwrap_err();
    assert!(
        refused.to_string().contains("was given up after 3 failed tries"),
        "{refused}"
    );
    let blocked = graph.start(&id("b"), hold(), LIMITS).unwrap_err();
    assert_eq!(blocked.to_string(), "b is blocked by a");
    graph.set_needs_fix(&id("a"), "look into the header", LIMITS).unwrap();
    assert_eq!(try_next(&mut graph, DONE), "a");
    assert_eq!((next(&graph), graph.failures), (Some("b".to_owned()), 0));
}

#[test]
fn milestones_given_up_in_a_row_open_the_breaker() {
    let mut graph = graph(&[("a", &[]), ("b", &[]), ("c", &[])]);
    for expected in ["a", "a", "a", "b", "b", "b"] {
        assert_eq!(try_next(&mut graph, failed()), expected);
    }
    assert_eq!(graph.outlook(LIMITS), Outlook::Breaker);
    assert_eq!(graph.start(&id("c"), hold(), LIMITS), Err(MilestoneError::Breaker(2)));
    assert_eq!(graph.reset(LIMITS), [id("a"), id("b")]);
    assert_eq!(try_next(&mut graph, DONE), "a");
}

#[test]
fn one_that_was_done_in_between_keeps_the_breaker_closed() {
    let mut graph = graph(&[("a", &[]), ("b", &[]), ("c", &[])]);
    for expected in ["a", "a", "a"] {
        assert_eq!(try_next(&mut graph, failed()), expected);
    }
    assert_eq!(try_next(&mut graph, DONE), "b");
    for _ in 0..3 {
        assert_eq!(try_next(&mut graph, failed()), "c");
    }
    assert_eq!(graph.outlook(LIMITS), Outlook::Stuck(vec![id("a"), id("c")]));
}

#[test]
fn only_who_holds_a_milestone_ends_it() {
    let mut graph = graph(&[("a", &[])]);
    let a = id("a");
    let other = Holder::Process("other".to_owned());
    assert!(graph.conclude(&a, &me(), DONE, LIMITS).is_err(), "nobody is at it");
    graph.start(&a, hold(), LIMITS).unwrap();
    assert!(graph.start(&a, hold(), LIMITS).is_err());
    assert!(graph.conclude(&a, &other, DONE, LIMITS).is_err());
    assert!(graph.set_done(&a).is_err() && graph.set_needs_fix(&a, "x", LIMITS).is_err() && graph.remove(&a).is_err());
    assert_eq!(graph.outlook(LIMITS), Outlook::Running);
    graph
        .conclude(&a, &me(), Conclusion::Released { kept: None }, LIMITS)
        .unwrap();
    assert_eq!(graph.milestones[0].state, MilestoneState::Pending);
}

#[test]
fn what_is_held_by_those_who_are_gone_is_free_again() {
    let mut graph = graph(&[("a", &[]), ("b", &[]), ("c", &[])]);
    let now = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
    let held = |name: &str, seconds: Option<i64>| Hold {
        by: Holder::Process(name.to_owned()),
        until: seconds.map(|seconds| now + TimeDelta::seconds(seconds)),
    };
    graph.start(&id("a"), held("slow", Some(0)), LIMITS).unwrap();
    graph.start(&id("b"), held("killed", Some(60)), LIMITS).unwrap();
    graph.start(&id("c"), held("alive", Some(60)), LIMITS).unwrap();
    graph.milestones[1].attempts = 1;
    let killed = Holder::Process("killed".to_owned());
    assert_eq!(graph.take_over(now, |holder| *holder == killed), [id("a"), id("b")]);
    let states = graph.milestones.iter().map(|milestone| milestone.state);
    use MilestoneState::{InProgress, NeedsFix, Pending};
    assert_eq!(states.collect::<Vec<_>>(), [Pending, NeedsFix, InProgress]);
}

#[test]
fn what_others_need_is_not_removed() {
    let mut graph = graph(&[("a", &[]), ("b", &["a"])]);
    let refused = graph.remove(&id("a")).unwrap_err();
    assert_eq!(refused.to_string(), "a cannot be removed, because b depends on it");
    graph.remove(&id("b")).unwrap();
    graph.remove(&id("a")).unwrap();
    assert_eq!(graph.outlook(LIMITS), Outlook::Empty);
    assert_eq!(graph.remove(&id("a")), Err(MilestoneError::Unknown(id("a"))));
}

#[test]
fn a_proposal_cannot_be_worked_on() {
    let mut graph = graph(&[("a", &[])]);
    graph.standing = Standing::Proposed;
    assert_eq!(graph.outlook(LIMITS), Outlook::Proposed);
    assert_eq!(graph.start(&id("a"), hold(), LIMITS), Err(MilestoneError::Proposed));
}

#[test]
fn a_file_brings_a_graph_to_another_machine() {
    let mut graph = graph(&[("a", &[]), ("b", &["a"]), ("c", &[])]);
    graph.milestones[2].acceptance = Some("sh test.sh".to_owned());
    try_next(
        &mut graph,
        Conclusion::Done {
            commit: Some("a".repeat(40).parse().unwrap()),
        },
    );
    try_next(&mut graph, failed());
    graph.start(&id("c"), hold(), LIMITS).unwrap();
    let text = serde_json::to_vec_pretty(&GraphFile::of(&graph)).unwrap();
    let read = GraphFile::parse(&text).unwrap();
    let back = read.into_graph(graph.key.clone(), Standing::Approved).unwrap();
    graph
        .conclude(&id("c"), &me(), Conclusion::Released { kept: None }, LIMITS)
        .unwrap();
    assert_eq!(back, graph);
}

#[test]
fn a_file_that_is_not_one_says_where() {
    let problem = |text: &str| GraphFile::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(problem("[").contains("line 1 column 1"), "{}", problem("["));
    assert!(problem(r#"{"version": 2}"#).contains("version 2, and this program reads version 1"));
    let unknown = r#"{"version": 1, "milestones": [{"id": "a", "title": "A", "depend_on": []}]}"#;
    assert!(
        problem(unknown).contains("unknown field `depend_on`"),
        "{}",
        problem(unknown)
    );
    let bad = r#"{"version": 1, "milestones": [{"id": "A B", "title": "A"}]}"#;
    assert!(problem(bad).contains("only lowercase letters"), "{}", problem(bad));
}

/// Milestones with any dependencies at all, by number.
fn any_dependencies() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..12).prop_flat_map(|count| {
        let dependencies = proptest::collection::vec(0..count, 0..4);
        proptest::collection::vec(dependencies, count)
    })
}

/// Dependencies without a cycle: each only on one side of itself in the list.
fn orderly_dependencies() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (any_dependencies(), any::<bool>()).prop_map(|(mut dependencies, turned)| {
        let last = dependencies.len() - 1;
        for (at, on) in dependencies.iter_mut().enumerate() {
            on.retain(|on| *on < at);
        }
        if turned {
            dependencies.reverse();
            dependencies.iter_mut().flatten().for_each(|on| *on = last - *on);
        }
        dependencies
    })
}

/// Whether everything can be put into an order, by taking away what waits for nothing.
fn can_be_ordered(dependencies: &[Vec<usize>]) -> bool {
    let mut left: Vec<usize> = (0..dependencies.len()).collect();
    loop {
        let before = left.len();
        let waits: Vec<usize> = left
            .iter()
            .copied()
            .filter(|at| dependencies[*at].iter().any(|on| left.contains(on)))
            .collect();
        left = waits;
        if left.is_empty() || left.len() == before {
            return left.is_empty();
        }
    }
}

fn named(dependencies: &[Vec<usize>]) -> Vec<NewMilestone> {
    let name = |at: usize| format!("m{at}");
    dependencies
        .iter()
        .enumerate()
        .map(|(at, on)| {
            let on: Vec<String> = on.iter().map(|on| name(*on)).collect();
            planned(&name(at), &on.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect()
}

proptest! {
    #[test]
    fn cycles_are_always_refused_and_nothing_else_is(dependencies in any_dependencies()) {
        let mut graph = graph(&[]);
        match graph.add(named(&dependencies)) {
            Ok(ids) => {
                prop_assert!(can_be_ordered(&dependencies));
                prop_assert_eq!(ids.len(), dependencies.len());
            }
            Err(MilestoneError::Cycle(circle)) => {
                prop_assert!(!can_be_ordered(&dependencies));
                // Each one named depends on the next, and the last on the first.
                let at = |id: &MilestoneId| id.as_str()[1..].parse::<usize>().unwrap();
                let next = circle.iter().skip(1).chain(circle.first());
                for (one, on) in circle.iter().zip(next) {
                    prop_assert!(dependencies[at(one)].contains(&at(on)), "{:?}", circle);
                }
                prop_assert!(graph.milestones.is_empty());
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn the_next_one_is_never_blocked_and_always_the_same(
        dependencies in orderly_dependencies(),
        ends in proptest::collection::vec(0u8..3, 0..60),
    ) {
        let mut graph = graph(&[]);
        graph.add(named(&dependencies)).unwrap();
        let limits = Limits { max_fix_attempts: 1, breaker_failures: 3 };
        for end in ends {
            let Some(next) = graph.next(limits).map(|milestone| milestone.id.clone()) else { break };
            let milestone = graph.milestone(&next).unwrap();
            prop_assert!(graph.waits_for(milestone).is_empty());
            prop_assert!(!milestone.is_given_up(limits));
            // In whatever order the rows come, it is the same.
            let mut turned = graph.clone();
            turned.milestones.reverse();
            prop_assert_eq!(&turned.next(limits).unwrap().id, &next);
            match graph.start(&next, hold(), limits) {
                Ok(()) => {}
                Err(MilestoneError::Breaker(failures)) => {
                    prop_assert!(failures >= 3);
                    prop_assert_eq!(graph.outlook(limits), Outlook::Breaker);
                    break;
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
            let conclusion = match end {
                0 => DONE,
                1 => failed(),
                _ => Conclusion::Released { kept: None },
            };
            graph.conclude(&next, &me(), conclusion, limits).unwrap();
            for milestone in &graph.milestones {
                let done = milestone.state == MilestoneState::Done;
                prop_assert!(!done || graph.waits_for(milestone).is_empty(), "done before what it needs");
                prop_assert!(milestone.attempts <= limits.max_fix_attempts + 1);
            }
        }
    }
}
