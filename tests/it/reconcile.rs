//! What neither a webhook nor GitHub's log told is found on GitHub itself: once, in whatever order the
//! webhooks come afterwards, and for one call where there is no news.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use forgehand::clock::Clock;
use forgehand::config::{Config, ConfigSources, load};
use forgehand::demo::double::{Delivery as Sent, Fault, GitHubDouble, InlineComment, NewPullByPerson};
use forgehand::github::GitHub;
use forgehand::intake::{Delivery, Rules, accept};
use forgehand::job::{Job, JobState};
use forgehand::secret::Redactor;
use forgehand::store::{JobFilter, LookAt, RepoRow, Store};
use forgehand::worker::{Pass, Poll, Reconcile};

use crate::databases::each;

const REPO: &str = "octo/widgets";
const ADA: &str = "ada";
const EVERY: Duration = Duration::from_secs(300);

/// A GitHub whose webhooks nobody hears unless a test says so.
struct World {
    double: GitHubDouble,
    config: Config,
    clock: Clock,
}

impl World {
    async fn begin() -> Self {
        let clock = Clock::manual("2026-03-02T09:00:00Z".parse().unwrap());
        let double = GitHubDouble::start(clock.clone()).await.unwrap();
        let seed = double.repository(REPO).file("a", "1\n2\n3\n").commit("Begin");
        seed.create().await.unwrap();
        double.grant(REPO, ADA, "write").unwrap();
        // The discard port: nobody listens there.
        double.hooks("http://127.0.0.1:9/webhook", &double.webhook_secret());
        let mut config = load(&ConfigSources::default()).unwrap();
        double.configure(&mut config.github);
        Self { double, config, clock }
    }

    fn rules(&self) -> Rules {
        Rules::new(&self.config.github, &self.config.queue, Some("forgehand".to_owned()))
    }

    fn github(&self) -> GitHub {
        GitHub::new(&self.config.github, self.clock.clone(), Redactor::default()).unwrap()
    }

    fn reconcile(&self, store: &Store) -> Reconcile {
        Reconcile {
            github: self.github(),
            store: store.clone(),
            rules: self.rules(),
            clock: self.clock.clone(),
            every: EVERY,
        }
    }

    /// Time passes: nothing happens in the same moment as something else.
    fn later(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn issue(&self) -> u64 {
        self.later(20);
        self.double.open_issue(REPO, "Broken", "It is", &[], ADA).unwrap()
    }

    fn label(&self, issue: u64) {
        self.later(20);
        self.double.label_issue(REPO, issue, "agent", ADA).unwrap();
    }

    fn comment(&self, issue: u64, text: &str) -> u64 {
        self.later(20);
        self.double.comment(REPO, issue, text, ADA).unwrap()
    }

    /// What was sent so far, which is then forgotten.
    async fn sent(&self) -> Vec<Sent> {
        self.double.deliveries_settled().await;
        let sent = self.double.deliveries();
        self.double.expire_deliveries();
        sent
    }

    async fn hear(&self, store: &Store, sent: &[Sent]) {
        for one in sent {
            let body = one.body.clone().into_bytes();
            let delivery = Delivery::parse(&one.guid, &one.event, body, self.clock.now()).unwrap();
            accept(store, &delivery, &self.rules()).await.unwrap();
        }
    }

    /// A store that heard of the repository and was looked at it since.
    async fn known(&self, store: &Store) -> u64 {
        let issue = self.issue();
        let row = RepoRow {
            id: self.double.repo_id(REPO).unwrap(),
            name: REPO.parse().unwrap(),
            installation: self.double.installation(),
            active: true,
        };
        let mut tx = store.begin().await.unwrap();
        tx.upsert_repo(&row).await.unwrap();
        tx.commit().await.unwrap();
        self.hear(store, &self.sent().await).await;
        assert_eq!(self.reconcile(store).pass(Pass::First).await.unwrap(), 0);
        issue
    }
}

async fn jobs(store: &Store) -> Vec<Job> {
    let filter = JobFilter {
        limit: 1_000,
        ..JobFilter::default()
    };
    store.begin().await.unwrap().jobs(&filter).await.unwrap()
}

/// What is to be done, whatever became of the rest.
async fn open(store: &Store) -> BTreeSet<String> {
    let open = jobs(store).await.into_iter().filter(|job| !job.state.is_final());
    open.map(|job| format!("{} {} {:?}", job.kind, job.subject, job.request.trigger))
        .collect()
}

#[tokio::test]
async fn what_nobody_heard_for_a_month_is_found_once_and_late_webhooks_change_nothing() {
    each(async |store| {
        let world = World::begin().await;
        world.known(&store).await;
        let labelled = world.issue();
        world.label(labelled);
        let asked = world.issue();
        world.comment(asked, "/agent fix\nPlease.");
        world.comment(asked, "Thank you.");
        let taken_back = world.issue();
        world.label(taken_back);
        world.later(20);
        world.double.unlabel_issue(REPO, taken_back, "agent", ADA).unwrap();
        let closed = world.issue();
        world.label(closed);
        world.later(20);
        world.double.close_issue(REPO, closed, ADA).unwrap();
        let by_stranger = world.issue();
        world.double.bot("helper[bot]", 77);
        world
            .double
            .comment(REPO, by_stranger, "/agent fix", "helper[bot]")
            .unwrap();
        let lost = world.sent().await;
        world.later(30 * 24 * 3600);
        let reconcile = world.reconcile(&store);
        assert_eq!(reconcile.pass(Pass::First).await.unwrap(), 2);
        let expected = [format!("fix issue/{labelled}"), format!("fix issue/{asked}")];
        let found = open(&store).await;
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|(found, expected)| found.starts_with(expected)),
            "{found:?}"
        );
        assert_eq!((found.len(), jobs(&store).await.len()), (2, 2));
        // Again, by a process that has just begun, and by one whose time has come.
        assert_eq!(world.reconcile(&store).pass(Pass::First).await.unwrap(), 0);
        world.later(3600);
        assert_eq!(reconcile.pass(Pass::Usual).await.unwrap(), 0);
        // And the webhooks after all, also in the wrong order.
        let backwards: Vec<Sent> = lost.iter().rev().cloned().collect();
        world.hear(&store, &backwards).await;
        world.hear(&store, &lost).await;
        assert_eq!(jobs(&store).await.len(), 2);
        assert_eq!(open(&store).await, found);
        world.double.assert_no_unknown_routes();
    })
    .await;
}

#[tokio::test]
async fn what_was_taken_back_meanwhile_stops_the_work() {
    each(async |store| {
        let world = World::begin().await;
        let known = world.known(&store).await;
        let issues: Vec<u64> = (0..4).map(|_| world.issue()).collect();
        world.label(issues[0]);
        world.label(issues[1]);
        world.label(issues[2]);
        let comment = world.comment(issues[3], "/agent fix");
        let kept = world.comment(known, "/agent fix");
        world.hear(&store, &world.sent().await).await;
        assert_eq!(open(&store).await.len(), 5);
        world.later(60);
        world.double.unlabel_issue(REPO, issues[0], "agent", ADA).unwrap();
        world.double.close_issue(REPO, issues[1], ADA).unwrap();
        world.double.delete_issue(REPO, issues[2]).unwrap();
        world.double.delete_comment(REPO, comment, ADA).unwrap();
        let lost = world.sent().await;
        world.later(600);
        assert_eq!(world.reconcile(&store).pass(Pass::First).await.unwrap(), 4);
        let left = open(&store).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left.first().unwrap().contains(&kept.to_string()), "{left:?}");
        let stopped = jobs(&store)
            .await
            .into_iter()
            .filter(|job| job.state == JobState::Cancelled);
        assert_eq!(stopped.count(), 4);
        // Somebody asks anew: old news do not stop that.
        world.later(60);
        world.double.reopen_issue(REPO, issues[1], ADA).unwrap();
        world.double.unlabel_issue(REPO, issues[1], "agent", ADA).unwrap();
        world.later(5);
        world.label(issues[1]);
        world.label(issues[0]);
        world.hear(&store, &world.sent().await).await;
        let anew = open(&store).await;
        assert_eq!(anew.len(), 3, "{anew:?}");
        world.hear(&store, &lost).await;
        world.later(600);
        assert_eq!(world.reconcile(&store).pass(Pass::First).await.unwrap(), 0);
        assert_eq!(open(&store).await, anew);
    })
    .await;
}

#[tokio::test]
async fn words_on_pull_requests_are_found_too() {
    each(async |store| {
        let world = World::begin().await;
        world.known(&store).await;
        world
            .double
            .push(REPO, "topic", &[("a", "1\n2\n4\n")], "More", ADA)
            .await
            .unwrap();
        let new = NewPullByPerson {
            head_repo: REPO,
            head: "topic",
            base: "main",
            title: "More",
            body: "",
            by: ADA,
        };
        let pull = world.double.open_pull(REPO, new).await.unwrap();
        world.comment(pull, "/agent review");
        world.later(20);
        let line = InlineComment {
            path: "a".to_owned(),
            line: 3,
            body: "/agent fix this line".to_owned(),
        };
        let verdict = ("COMMENTED", "/agent fix all of it");
        world.double.submit_review(REPO, pull, verdict, &[line], ADA).unwrap();
        let lost = world.sent().await;
        world.later(3600);
        assert_eq!(world.reconcile(&store).pass(Pass::First).await.unwrap(), 2);
        let found = open(&store).await;
        assert_eq!(found.len(), 2, "a review is one job: {found:?}");
        let first = jobs(&store).await.pop().unwrap();
        assert!(
            jobs(&store).await.iter().any(|job| job.pins.head_sha.is_some()),
            "{first:?}"
        );
        world.hear(&store, &lost).await;
        assert_eq!(open(&store).await, found);
        world.double.assert_no_unknown_routes();
    })
    .await;
}

/// Closing ends what a label asked for, also where nobody heard of the label: who opens the issue again asks
/// for nothing.
#[tokio::test]
async fn a_label_from_before_the_closing_starts_nothing_when_the_issue_is_opened_again() {
    each(async |store| {
        let world = World::begin().await;
        world.known(&store).await;
        let issue = world.issue();
        world.hear(&store, &world.sent().await).await;
        world.label(issue);
        let lost = world.sent().await;
        world.later(20);
        world.double.close_issue(REPO, issue, ADA).unwrap();
        world.hear(&store, &world.sent().await).await;
        world.later(600);
        world.reconcile(&store).pass(Pass::First).await.unwrap();
        world.double.reopen_issue(REPO, issue, ADA).unwrap();
        world.later(600);
        world.reconcile(&store).pass(Pass::First).await.unwrap();
        world.hear(&store, &lost).await;
        assert_eq!(open(&store).await, BTreeSet::new());
        // Whoever puts the label on again asks anew.
        world.double.unlabel_issue(REPO, issue, "agent", ADA).unwrap();
        world.label(issue);
        world.sent().await;
        world.later(600);
        world.reconcile(&store).pass(Pass::First).await.unwrap();
        assert_eq!(open(&store).await.len(), 1);
    })
    .await;
}

/// FI-11 in small: some webhooks arrive, some do not, all of them come late once more in any order.
#[tokio::test]
async fn shuffled_losses_end_where_an_ideal_world_ends() {
    let seed = std::env::var("FORGEHAND_TEST_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    eprintln!("FORGEHAND_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..4 {
        let random = std::cell::RefCell::new(random.fork());
        each(async |store| {
            let world = World::begin().await;
            world.known(&store).await;
            let ideal = crate::databases::Database::sqlite();
            let told = ideal.open().await;
            world.known(&told).await;
            let issues: Vec<u64> = (0..3).map(|_| world.issue()).collect();
            let mut all = world.sent().await;
            world.hear(&store, &all).await;
            for step in 0..14 {
                let issue = issues[random.borrow_mut().usize(..3)];
                let what = random.borrow_mut().u8(..7);
                act(&world, issue, what);
                let sent = world.sent().await;
                let is_heard = random.borrow_mut().bool();
                if is_heard {
                    world.hear(&store, &sent).await;
                }
                all.extend(sent);
                if step % 5 == 4 {
                    world.later(600);
                    world.reconcile(&store).pass(Pass::First).await.unwrap();
                }
            }
            world.later(600);
            world.reconcile(&store).pass(Pass::Usual).await.unwrap();
            world.hear(&told, &all).await;
            assert_eq!(open(&store).await, open(&told).await, "round {round}, after a look");
            let mut late = all.clone();
            late.extend(all);
            random.borrow_mut().shuffle(&mut late);
            world.hear(&store, &late).await;
            world.reconcile(&store).pass(Pass::First).await.unwrap();
            assert_eq!(
                open(&store).await,
                open(&told).await,
                "round {round}, after late webhooks"
            );
            told.close().await;
        })
        .await;
    }
}

/// One of the things that people do; some are not possible at the moment, which does no harm.
fn act(world: &World, issue: u64, what: u8) {
    world.later(20);
    let double = &world.double;
    let done = match what {
        0 | 1 => double.label_issue(REPO, issue, "agent", ADA),
        2 => double.unlabel_issue(REPO, issue, "agent", ADA),
        3 => double.close_issue(REPO, issue, ADA),
        4 => double.reopen_issue(REPO, issue, ADA),
        5 => double.comment(REPO, issue, "/agent plan", ADA).map(drop),
        _ => double.comment(REPO, issue, "Hm.", ADA).map(drop),
    };
    drop(done);
}

#[tokio::test]
async fn a_repository_without_news_costs_one_call_and_one_process_makes_it() {
    each(async |store| {
        let world = World::begin().await;
        world.known(&store).await;
        let reconcile = world.reconcile(&store);
        for _ in 0..3 {
            world.later(600);
            reconcile.pass(Pass::Usual).await.unwrap();
        }
        world.later(600);
        let (before, unchanged) = (world.double.requests().len(), world.double.unchanged_answers());
        // Three schedulers look at the same time.
        let others = (world.reconcile(&store), world.reconcile(&store));
        let (first, second, third) = tokio::join!(
            reconcile.pass(Pass::Usual),
            others.0.pass(Pass::Usual),
            others.1.pass(Pass::Usual)
        );
        assert_eq!((first.unwrap(), second.unwrap(), third.unwrap()), (0, 0, 0));
        let made: Vec<String> = world.double.requests()[before..]
            .iter()
            .map(|request| format!("{} {}", request.method, request.path))
            .filter(|request| !request.contains("access_tokens"))
            .collect();
        assert_eq!(made, [format!("GET /repos/{REPO}/issues")]);
        assert_eq!(world.double.unchanged_answers(), unchanged + 1);
    })
    .await;
}

#[tokio::test]
async fn where_the_log_cannot_be_read_a_look_at_the_repository_finds_it() {
    each(async |store| {
        let world = World::begin().await;
        let issue = world.known(&store).await;
        world.label(issue);
        world.double.deliveries_settled().await;
        world.double.fault(
            "GET /app/hook/deliveries",
            Fault::status(403, "Resource not accessible by integration"),
            1_000,
        );
        let poll = Poll {
            github: world.github(),
            store: store.clone(),
            rules: world.rules(),
            clock: world.clock.clone(),
            every: Duration::from_millis(20),
        };
        let stop = tokio_util::sync::CancellationToken::new();
        let watch = async {
            crate::service::until("the log is asked for", async || {
                let look = store.begin().await.unwrap().look(LookAt::Log).await.unwrap();
                look.is_some_and(|look| look.failures == 1 && look.problem.is_some())
            })
            .await;
            stop.cancel();
        };
        tokio::join!(poll.run(&stop), watch);
        assert!(jobs(&store).await.is_empty());
        world.later(600);
        assert_eq!(world.reconcile(&store).pass(Pass::First).await.unwrap(), 1);
        assert_eq!(open(&store).await.len(), 1);
    })
    .await;
}

/// GitHub that is away holds nothing up: the next look begins where the last good one ended.
#[tokio::test]
async fn a_look_that_failed_is_made_up_for() {
    each(async |store| {
        let world = World::begin().await;
        let issue = world.known(&store).await;
        world.label(issue);
        let route = format!("GET /repos/{REPO}/issues/events");
        world.double.fault(&route, Fault::status(500, "Oh no"), 3);
        world.later(600);
        let reconcile = world.reconcile(&store);
        assert_eq!(reconcile.pass(Pass::Usual).await.unwrap(), 0);
        let at = LookAt::Repository(world.double.repo_id(REPO).unwrap());
        let look = store.begin().await.unwrap().look(at).await.unwrap().unwrap();
        assert_eq!(look.failures, 1);
        assert!(look.next_at - world.clock.now() >= TimeDelta::from_std(EVERY).unwrap());
        world.later(24 * 3600);
        world.double.clear_faults();
        assert_eq!(reconcile.pass(Pass::Usual).await.unwrap(), 1);
        assert_eq!(open(&store).await.len(), 1);
    })
    .await;
}
