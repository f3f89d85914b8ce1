//! Three workers and two receivers, each behind a cable of its own that is cut and mended at random: nobody
//! writes for a job that is another's by now, nothing is lost, nothing is there twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::demo::double::{DeliveryState, Recorded};
use forgehand::event::RunEvent;
use forgehand::intake::Delivery;
use forgehand::job::{Job, JobState, Outcome};
use forgehand::store::{JobFilter, Store};

use super::PATIENCE;
use super::network::{Cut, Link, Target, balance};
use crate::crash::{WORKER, ask, assert_each_done_once, number, random};
use crate::databases::Database;
use crate::process::{LEASE, Place, Program, Site, finished};

/// L, a scan (L/6) and a poll: RELIABILITY.md's 72 s, scaled as all times here by 1/20, rounded up.
const RECOVERED: Duration = Duration::from_millis(3_600);
/// PostgreSQL ends a transaction whose client is silent after this time, which is not scaled. Until then
/// the row of a job that the lost worker was writing is locked.
const LOCKED: Duration = Duration::from_secs(10);
/// A busy machine.
const SLACK: Duration = Duration::from_secs(2);
/// A call that was on its way when the lease was taken back may still arrive: its own time limit, 1.5 s, and
/// what a busy machine needs to send it, to give it up and to note it.
const ON_ITS_WAY: TimeDelta = TimeDelta::milliseconds(2_500);

/// One process with its cable.
struct Member {
    name: &'static str,
    program: Program,
    link: Link,
}

/// What the cuts met.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<Cut, u32>,
    of_receivers: u32,
    /// Jobs that were in hand behind a cut, and how it went on.
    held: u32,
    /// From the cut to the recovery of a job behind it.
    recoveries: Vec<Duration>,
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_links_lose_nothing_and_let_nobody_write_twice() {
    let mut chance = random("cut links");
    let cuts = number("FORGEHAND_TEST_CUTS", 22);
    let site = Site::open(Database::postgres().await).await;
    let judge = site.program("judge", "receiver");
    let mut members = Vec::new();
    for name in ["receiver-a", "receiver-b", "worker-a", "worker-b", "worker-c"] {
        members.push(Member::join(&site, name).await);
    }
    let how = if members[0].link.network().is_some() {
        "network namespaces"
    } else {
        "relays alone"
    };
    let receivers = members[..2]
        .iter()
        .map(|member| (member.link.own, member.port()).into())
        .collect();
    let (front, _balancer) = balance(receivers).await;
    site.double
        .hooks(&format!("http://{front}/webhook"), &site.double.webhook_secret());
    let store = site.database.open().await;
    let story = Story {
        site: &site,
        store: &store,
        members: &members,
        issues: RefCell::default(),
        cut: RefCell::default(),
        tally: RefCell::default(),
    };
    let began = Instant::now();
    let (mut one, mut two) = (chance.fork(), chance.fork());
    tokio::join!(story.lane(cuts / 2, &mut one), story.lane(cuts - cuts / 2, &mut two));
    let took = began.elapsed();
    site.redeliver_failed().await;
    let issues = story.issues.take();
    let mut jobs = Vec::new();
    for &issue in &issues {
        jobs.push(
            site.wait("every job ends", PATIENCE, async || finished(&store, issue).await)
                .await,
        );
    }
    let mut tally = story.tally.take();
    tally.recoveries.sort();
    let slowest = tally.recoveries.last().copied().unwrap_or_default();
    let middle = tally
        .recoveries
        .get(tally.recoveries.len() / 2)
        .copied()
        .unwrap_or_default();
    let zombies = assert_only_holders_wrote(&site, &store, &members, &jobs).await;
    eprintln!(
        "{cuts} cuts with {how} in {took:.1?} ({:?}), {} of receivers; {} jobs were in hand behind them; {} recoveries, \
         in the middle {middle:.1?} after the cut, at most {slowest:.1?}; {zombies} writes by workers whose lease was \
         taken back, none of them late; {} jobs done",
        tally.kinds,
        tally.of_receivers,
        tally.held,
        tally.recoveries.len(),
        jobs.len()
    );
    assert!(tally.held >= 5 && !tally.recoveries.is_empty(), "the cuts met no work");
    assert!(middle <= RECOVERED + SLACK, "recovery took {middle:?}");
    assert!(slowest <= RECOVERED + LOCKED + SLACK, "recovery took {slowest:?}");
    assert_answered_is_stored(&site, &store).await;
    assert_each_done_once(&site, &store, &judge, &issues).await;
    for member in &mut members {
        member.program.stop().await;
    }
    store.close().await;
    site.close().await;
}

impl Member {
    async fn join(site: &Site, name: &'static str) -> Self {
        let here = site.here();
        let database: url::Url = here.database.parse().unwrap();
        let folder = database
            .query_pairs()
            .find(|(key, _)| key == "host")
            .map(|(_, folder)| folder.into_owned());
        let socket = format!(
            "{}/.s.PGSQL.5432",
            folder.expect("the cluster of tests is reached by a socket")
        );
        let web: url::Url = here.web.parse().unwrap();
        let double = format!("127.0.0.1:{}", web.port().unwrap()).parse().unwrap();
        let link = Link::open(&[Target::Unix(socket.into()), Target::Tcp(double)]).await;
        let (to_database, to_github) = (link.relays[0], link.relays[1]);
        let name_of_database = database.path().trim_start_matches('/').to_owned();
        let place = Place {
            database: format!("postgresql://postgres@{to_database}/{name_of_database}"),
            api: format!("http://{to_github}/api/v3"),
            web: format!("http://{to_github}"),
            listen: format!("{}:{}", link.own, crate::process::free_port()),
            network: link.network(),
            ..here
        };
        let roles = if name.starts_with("worker") { WORKER } else { "receiver" };
        let mut program = site.program_at(name, roles, &place);
        program.start().await;
        Self { name, program, link }
    }

    /// Where its receiver listens.
    fn port(&self) -> u16 {
        self.program.port().expect("a receiver")
    }
}

struct Story<'a> {
    site: &'a Site,
    store: &'a Store,
    members: &'a [Member],
    issues: RefCell<Vec<u64>>,
    /// Members that are behind a cut now.
    cut: RefCell<Vec<usize>>,
    tally: RefCell<Tally>,
}

impl Story<'_> {
    /// Asks for work, cuts somebody off in the middle of it, and mends the cable, again and again.
    async fn lane(&self, cuts: u64, chance: &mut fastrand::Rng) {
        for _ in 0..cuts {
            let issue = ask(self.site, self.issues.borrow().len(), "It prints a difference.");
            self.issues.borrow_mut().push(issue);
            tokio::time::sleep(Duration::from_millis(chance.u64(0..1_500))).await;
            let how = chance.choice([Cut::Lost, Cut::Lost, Cut::Pulled, Cut::Closed]).unwrap();
            let number = self.victim(chance).await;
            let member = &self.members[number];
            let held = self.held_by(member).await;
            self.note(member, how, &held);
            let at = Instant::now();
            member.link.cut(how).await;
            // Around the length of a lease: some are mended before it ends, some long after.
            let span = LEASE.mul_f64(0.2 + 1.5 * chance.f64());
            self.watch(&held, at, span).await;
            member.link.heal(how).await;
            self.cut.borrow_mut().retain(|other| *other != number);
        }
    }

    /// A member that is not cut off; a worker in most cases, if possible one with work. Nobody who holds a
    /// job that was lost already: three lost leases without progress are another story.
    async fn victim(&self, chance: &mut fastrand::Rng) -> usize {
        let mut choice: Vec<usize> = Vec::new();
        if chance.u8(..5) > 0 {
            for (number, member) in self.members.iter().enumerate().skip(2) {
                let held = self.held_by(member).await;
                if held.iter().all(|job| job.lost_leases == 0) {
                    let weight = if held.is_empty() { 1 } else { 5 };
                    choice.extend(std::iter::repeat_n(number, weight));
                }
            }
        }
        // Without awaiting from here on: the other lane must not choose the same.
        let mut cut = self.cut.borrow_mut();
        choice.retain(|number| !cut.contains(number));
        let number = chance.choice(choice).unwrap_or_else(|| usize::from(cut.contains(&0)));
        cut.push(number);
        number
    }

    async fn held_by(&self, member: &Member) -> Vec<Job> {
        let owner = member.program.owner();
        let mut tx = self.store.begin().await.unwrap();
        let filter = JobFilter {
            states: vec![JobState::Leased, JobState::Publishing],
            limit: 1_000,
            ..JobFilter::default()
        };
        let mut jobs = tx.jobs(&filter).await.unwrap();
        jobs.retain(|job| job.lease_owner.as_ref() == Some(&owner));
        jobs
    }

    fn note(&self, member: &Member, how: Cut, held: &[Job]) {
        let mut tally = self.tally.borrow_mut();
        *tally.kinds.entry(how).or_default() += 1;
        tally.of_receivers += u32::from(member.name.starts_with("receiver"));
        tally.held += u32::try_from(held.len()).unwrap();
    }

    /// Waits for so long, and sees when the jobs behind the cut are taken back.
    async fn watch(&self, held: &[Job], at: Instant, span: Duration) {
        let mut open: Vec<&Job> = held.iter().collect();
        while at.elapsed() < span {
            let mut tx = self.store.begin().await.unwrap();
            for job in std::mem::take(&mut open) {
                let now = tx.job(&job.id).await.unwrap().unwrap();
                let taken_back =
                    now.fence > job.fence || (now.lost_leases > job.lost_leases && now.lease_owner.is_none());
                if taken_back {
                    self.tally.borrow_mut().recoveries.push(at.elapsed());
                } else if !now.state.is_final() {
                    open.push(job);
                }
            }
            drop(tx);
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }
}

/// Every delivery that was answered well has its row: its own, or that of the same event found in a list
/// of GitHub's before, which has a GUID of ours and the same meaning.
async fn assert_answered_is_stored(site: &Site, store: &Store) {
    let mut tx = store.begin().await.unwrap();
    for sent in site.double.deliveries() {
        if matches!(sent.state, DeliveryState::Answered(200..=299)) {
            let by_guid = tx.delivery(&sent.guid).await.unwrap().is_some();
            let parsed = Delivery::parse(&sent.guid, &sent.event, sent.body.clone().into_bytes(), sent.at).unwrap();
            let key = parsed.semantic_key();
            let by_meaning = tx.semantic_keys(&[(&key, &key)], 1).await.unwrap().contains(&key);
            assert!(
                by_guid || by_meaning,
                "delivery {} ({key}) was answered and is not there",
                sent.guid
            );
        }
    }
}

/// From when to when a worker had a job; without an end it had it last.
#[derive(Debug, Clone)]
struct Held {
    by: String,
    from: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
}

/// Every write that GitHub took was made by who held the job then, whatever token it bore. Gives how many
/// were made, in time, by workers that lost the job afterwards.
async fn assert_only_holders_wrote(site: &Site, store: &Store, members: &[Member], jobs: &[Job]) -> usize {
    let ledger = site.double.ledger();
    let mut writes = Vec::new();
    for job in jobs {
        let held = holders(store, job).await;
        let first = held.first().map(|held| held.from);
        for write in ledger.iter().filter(|write| concerns(write, job)) {
            // What people see of a job that waits needs no lease: see `publish::waiting`.
            let waits = first.is_none_or(|first| write.at < first + ON_ITS_WAY);
            if write.path.ends_with("/reactions") || waits && write.path.ends_with("/comments") {
                continue;
            }
            let token = write.token.clone().unwrap_or_default();
            let holder = held
                .iter()
                .rev()
                .find(|held| held.from <= write.at)
                .map(|held| held.by.clone());
            writes.push((token, holder, write, held.clone()));
        }
    }
    // A process keeps its tokens: the one that held the job in most cases is the one that has it.
    let mut by_token: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for (token, holder, ..) in &writes {
        if let Some(holder) = holder {
            *by_token.entry(token).or_default().entry(holder).or_default() += 1;
        }
    }
    let names: BTreeMap<String, &str> = members
        .iter()
        .map(|member| (member.program.owner(), member.name))
        .collect();
    let mut in_time = 0;
    for (token, _, write, held) in &writes {
        let counts = &by_token[token.as_str()];
        let (writer, _) = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        let right = held.iter().any(|held| {
            held.by == *writer && held.from <= write.at && held.until.is_none_or(|until| write.at <= until + ON_ITS_WAY)
        });
        let writer = names.get(*writer).unwrap_or(writer);
        assert!(
            right,
            "{writer} wrote {} {} at {} and did not have the job: {held:?}\n{}",
            write.method,
            write.path,
            write.at,
            site.logs()
        );
        in_time += usize::from(held.last().is_some_and(|last| names.get(&last.by) != Some(writer)));
    }
    in_time
}

async fn holders(store: &Store, job: &Job) -> Vec<Held> {
    let mut tx = store.begin().await.unwrap();
    let mut held: Vec<Held> = Vec::new();
    for event in tx.events(&job.id, 0, 10_000).await.unwrap() {
        if !matches!(event.body, RunEvent::Claimed { .. } | RunEvent::Recovered { .. }) {
            continue;
        }
        if let Some(last) = held.last_mut().filter(|last| last.until.is_none()) {
            last.until = Some(event.at);
        }
        if let RunEvent::Claimed { worker, .. } = event.body {
            held.push(Held {
                by: worker,
                from: event.at,
                until: None,
            });
        }
    }
    held
}

/// Whether GitHub took a write about a job.
fn concerns(write: &Recorded, job: &Job) -> bool {
    let number = job
        .subject
        .number()
        .map(|number| number.to_string())
        .unwrap_or_default();
    let pull = match &job.outcome {
        Some(Outcome::Opened { pull, .. }) => pull.0.to_string(),
        _ => String::new(),
    };
    let head = match &job.outcome {
        Some(Outcome::Opened { branch, .. }) => branch.as_str(),
        _ => "",
    };
    let parts: Vec<&str> = write.path.split('/').collect();
    let about = |number: &str| {
        !number.is_empty()
            && parts
                .windows(2)
                .any(|pair| matches!(pair[0], "issues" | "pulls") && pair[1] == number)
    };
    write.is_write()
        && (200..300).contains(&write.status)
        && (about(&number) || about(&pull) || write.body["head"] == head)
}
