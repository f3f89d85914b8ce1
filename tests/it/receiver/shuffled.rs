//! FI-11: deliveries come in any order, many times, and some only when they are asked for again. Whatever
//! the order, what is to be done in the end is what the events say in the order in which they happened.
//!
//! Where order could matter, these rules hold (GITHUB.md: events are hints, and their order is not
//! guaranteed):
//! - A label counts as it was put on or taken off last, by the time of the event and not of its arrival:
//!   one job while it is on, none once it is off.
//! - A comment that was deleted asks for nothing, also when its end is heard of first.
//! - Closing an issue stops what is known to be asked for there. What arrives later may start; a job looks
//!   itself whether its issue is open. So there is at most what the comments ask for.

use std::collections::{BTreeMap, BTreeSet};

use forgehand::ids::{IssueNumber, RepoId, Subject};
use forgehand::job::{JobState, Trigger};
use forgehand::store::{JobFilter, Store};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::Service;
use super::payloads::{body, comment, issue, label};
use crate::databases::each;

/// Events of one sequence.
const EVENTS: usize = 50;
/// Issues whose labels come and go, and issues on which people talk.
const LABELLED: std::ops::RangeInclusive<u64> = 1..=5;
const TALKED: std::ops::RangeInclusive<u64> = 11..=14;
/// Issues that are closed in the end.
const CLOSED: std::ops::RangeInclusive<u64> = 21..=22;
/// Sequences that are told at the same time.
const AT_ONCE: usize = 4;

/// Something that happened on GitHub.
#[derive(Debug, Clone, Copy)]
enum Happened {
    Labelled { issue: u64, second: u32 },
    Unlabelled { issue: u64, second: u32 },
    Asked { issue: u64, comment: u64 },
    TookBack { issue: u64, comment: u64 },
    Said { issue: u64, comment: u64 },
    Closed { issue: u64 },
}

/// What is to be done in the end: for each issue, the comments that ask, and whether its label does.
type ToDo = BTreeMap<u64, (bool, BTreeSet<u64>)>;

impl Happened {
    /// Event and payload in a repository.
    fn payload(self, repo: u64) -> (&'static str, Value) {
        let (event, mut payload) = match self {
            Happened::Labelled { issue, second } => ("issues", label("labeled", issue, second)),
            Happened::Unlabelled { issue, second } => ("issues", label("unlabeled", issue, second)),
            Happened::Asked { issue, comment: id } => ("issue_comment", comment("created", id, issue, "/agent fix")),
            Happened::TookBack { issue, comment: id } => ("issue_comment", comment("deleted", id, issue, "/agent fix")),
            Happened::Said { issue, comment: id } => ("issue_comment", comment("created", id, issue, "I see it, too.")),
            Happened::Closed { issue: number } => ("issues", body("closed", json!({"issue": issue(number, 59)}))),
        };
        payload["repository"] = json!({"id": repo, "full_name": format!("octo/widgets-{repo}")});
        (event, payload)
    }
}

/// Fifty events in the order in which they happened.
fn history(chance: &mut fastrand::Rng) -> Vec<Happened> {
    let mut on: BTreeMap<u64, bool> = BTreeMap::new();
    let mut asked = Vec::new();
    let mut events = Vec::new();
    let closing = CLOSED.count();
    while events.len() < EVENTS - closing {
        let number = u32::try_from(events.len()).unwrap();
        let id = 1_000 + u64::from(number);
        events.push(match chance.u8(..10) {
            0..4 => {
                let issue = chance.u64(LABELLED);
                let is_on = on.entry(issue).or_default();
                *is_on = !*is_on;
                match *is_on {
                    true => Happened::Labelled { issue, second: number },
                    false => Happened::Unlabelled { issue, second: number },
                }
            }
            4..7 => {
                let issue = if chance.u8(..4) == 0 {
                    chance.u64(CLOSED)
                } else {
                    chance.u64(TALKED)
                };
                asked.push((issue, id));
                Happened::Asked { issue, comment: id }
            }
            7..9 if !asked.is_empty() => {
                let (issue, comment) = asked.swap_remove(chance.usize(..asked.len()));
                Happened::TookBack { issue, comment }
            }
            _ => Happened::Said {
                issue: chance.u64(TALKED),
                comment: id,
            },
        });
    }
    events.extend(CLOSED.map(|issue| Happened::Closed { issue }));
    events
}

/// What the events say, in the order in which they happened.
fn meant(events: &[Happened]) -> ToDo {
    let mut to_do = ToDo::new();
    for event in events {
        match *event {
            Happened::Labelled { issue, .. } => to_do.entry(issue).or_default().0 = true,
            Happened::Unlabelled { issue, .. } => to_do.entry(issue).or_default().0 = false,
            Happened::Asked { issue, comment } => {
                to_do.entry(issue).or_default().1.insert(comment);
            }
            Happened::TookBack { issue, comment } => {
                to_do.entry(issue).or_default().1.remove(&comment);
            }
            Happened::Said { .. } | Happened::Closed { .. } => {}
        }
    }
    to_do.retain(|_, (by_label, comments)| *by_label || !comments.is_empty());
    to_do
}

/// The order in which the deliveries come, each with a GUID: shuffled, some ten times over under the same
/// GUID or a new one, and some missing at first.
fn arrivals(events: usize, chance: &mut fastrand::Rng) -> Vec<(usize, String)> {
    let (mut first, mut missing) = (Vec::new(), Vec::new());
    for event in 0..events {
        let guid = format!("{event}-{:x}", chance.u64(..));
        if chance.u8(..10) == 0 {
            missing.push((event, guid));
            continue;
        }
        if chance.u8(..8) == 0 {
            for copy in 1..10 {
                let guid = if copy % 2 == 0 {
                    guid.clone()
                } else {
                    format!("{guid}-{copy}")
                };
                first.push((event, guid));
            }
        }
        first.push((event, guid));
    }
    chance.shuffle(&mut first);
    chance.shuffle(&mut missing);
    first.extend(missing);
    first
}

async fn tell(service: &Service, repo: u64, events: &[Happened], arrivals: &[(usize, String)]) {
    for (event, guid) in arrivals {
        let (name, payload) = events[*event].payload(repo);
        let answer = service.deliver(&format!("{repo}-{guid}"), name, &payload).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

/// What is to be done by the table of jobs, where nothing may stand twice.
async fn to_do(store: &Store, repo: u64) -> ToDo {
    let filter = JobFilter {
        states: vec![JobState::Queued],
        repo_id: Some(RepoId(repo)),
        limit: 1_000,
        ..JobFilter::default()
    };
    let jobs = store.begin().await.unwrap().jobs(&filter).await.unwrap();
    let mut to_do = ToDo::new();
    for job in jobs {
        let Subject::Issue(IssueNumber(issue)) = job.subject else {
            panic!("{job:?}")
        };
        let of_issue = to_do.entry(issue).or_default();
        let is_new = match &job.request.trigger {
            Trigger::Label { .. } => !std::mem::replace(&mut of_issue.0, true),
            Trigger::Comment { id } => of_issue.1.insert(id.0),
            other => panic!("{other:?}"),
        };
        assert!(is_new, "asked once, and there twice: {job:?}");
    }
    to_do
}

/// Issues that were closed have at most what was asked for; all others have exactly that.
#[track_caller]
fn check(seed: u64, repo: u64, meant: &ToDo, found: &ToDo, what: &str) {
    let open = |to_do: &ToDo| {
        let mut to_do = to_do.clone();
        to_do.retain(|issue, _| !CLOSED.contains(issue));
        to_do
    };
    assert_eq!(
        open(found),
        open(meant),
        "{what}, sequence {repo} of FORGEHAND_TEST_SEED={seed}"
    );
    for issue in CLOSED {
        let (by_label, comments) = found.get(&issue).cloned().unwrap_or_default();
        let asked = meant
            .get(&issue)
            .map(|(_, comments)| comments.clone())
            .unwrap_or_default();
        assert!(
            !by_label && comments.is_subset(&asked),
            "{what}: issue {issue}, sequence {repo}, seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fi11_whatever_the_order_the_end_is_the_same() {
    let seed = crate::crash::number("FORGEHAND_TEST_SEED", fastrand::u64(..));
    let sequences = crate::crash::number("FORGEHAND_TEST_SEQUENCES", 100);
    eprintln!("shuffled deliveries: FORGEHAND_TEST_SEED={seed}");
    each(async |store| {
        let service = Service::on(&store).await;
        let begun = std::time::Instant::now();
        let (to, store) = (&service, &store);
        let told: Vec<usize> = futures_util::stream::iter(1..=sequences)
            .map(|sequence| async move {
                let mut chance = fastrand::Rng::with_seed(seed.wrapping_add(sequence));
                let events = history(&mut chance);
                let meant = meant(&events);
                let arrivals = arrivals(events.len(), &mut chance);
                tell(to, sequence, &events, &arrivals).await;
                check(seed, sequence, &meant, &to_do(store, sequence).await, "shuffled");
                if sequence % 10 == 0 {
                    let ordered: Vec<_> = (0..events.len()).map(|event| (event, event.to_string())).collect();
                    let elsewhere = sequence + 1_000_000;
                    tell(to, elsewhere, &events, &ordered).await;
                    check(seed, elsewhere, &meant, &to_do(store, elsewhere).await, "in order");
                }
                arrivals.len()
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let took = begun.elapsed();
        eprintln!(
            "{sequences} sequences of {EVENTS} events in {} deliveries on {} in {took:.1?}",
            told.iter().sum::<usize>(),
            store.backend()
        );
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.violations().await.unwrap(), []);
        drop(tx);
        service.stop().await;
    })
    .await;
}
