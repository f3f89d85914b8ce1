//! Money in the database: charges go with their events, money set aside counts as long as its lease
//! is in force, and no cap is passed by more than one call, however many spend at once.

use super::*;
use crate::databases::{each, each_database};
use forgehand::config::BudgetConfig;
use forgehand::event::Usage;
use forgehand::job::Lease;
use forgehand::ledger::{Call, Caps, Leave, Ledger};
use forgehand::money::Usd;
use forgehand::phrase::Language;
use forgehand::store::{Account, CostFilter, CostsBy, NewCap, Spent};

/// A reply that cost so many dollars.
pub(super) fn replied(model: &str, cost_usd: Option<f64>) -> RunEvent {
    RunEvent::ModelReplied {
        turn: 1,
        model: model.to_owned(),
        agent: String::new(),
        text: String::new(),
        reasoning: String::new(),
        tools: Vec::new(),
        usage: Usage {
            input_tokens: 100,
            output_tokens: 20,
            reported: true,
        },
        cost_usd,
        took_ms: 1,
    }
}

async fn charge(store: &Store, lease: &Lease, event: &RunEvent, at: DateTime<Utc>) {
    with(store, async |tx| tx.append_event(lease, event, at).await)
        .await
        .unwrap();
}

async fn account(store: &Store, lease: &Lease) -> Account {
    let job = load(store, &lease.job).await;
    Account {
        job: job.id,
        repo_id: job.repo_id,
        subject: job.subject,
        installation: job.installation,
    }
}

async fn spent(store: &Store, lease: &Lease, at: DateTime<Utc>) -> Spent {
    let account = account(store, lease).await;
    with(store, async |tx| tx.spent(&account, at).await).await.unwrap()
}

async fn set_aside(store: &Store, lease: &Lease, cents: u64) {
    with(store, async |tx| {
        tx.begin_spending(lease).await?;
        tx.reserve(lease, Usd::from_cents(cents), now()).await
    })
    .await
    .unwrap();
}

fn cents(cents: u64) -> Usd {
    Usd::from_cents(cents)
}

#[tokio::test]
async fn a_charge_goes_with_its_event_to_every_account() {
    each(async |store| {
        let today = now();
        let first = leased(&store, &fix(1), LONG).await;
        charge(&store, &first, &replied("a", Some(0.25)), today - TimeDelta::days(1)).await;
        charge(&store, &first, &replied("a", Some(0.5)), today).await;
        charge(&store, &first, &replied("b", None), today).await;
        charge(&store, &first, &noted("free"), today).await;
        let shortened = |usage| RunEvent::Shortened {
            text: "x".to_owned(),
            model: "a".to_owned(),
            usage,
            cost_usd: usage.map(|_| 0.125),
        };
        charge(&store, &first, &shortened(None), today).await;
        charge(&store, &first, &shortened(Some(Usage::default())), today).await;
        let other = NewJob {
            repo_id: RepoId(8),
            repo: "octo/gadgets".parse().unwrap(),
            ..fix(1)
        };
        let second = leased(&store, &other, LONG).await;
        charge(&store, &second, &replied("a", Some(1.0)), today).await;
        let expected = Spent {
            job: Usd::from_dollars(0.875),
            subject: Usd::from_dollars(0.875),
            subject_set_aside: Usd::ZERO,
            repository: Usd::from_dollars(0.625),
            installation: Usd::from_dollars(1.625),
            everybody: Usd::from_dollars(1.625),
        };
        assert_eq!(spent(&store, &first, today).await, expected);
        let stranger = NewJob {
            repo_id: RepoId(9),
            installation: InstallationId(1),
            ..fix(5)
        };
        let third = leased(&store, &stranger, LONG).await;
        let expected = Spent {
            everybody: Usd::from_dollars(1.625),
            ..Spent::default()
        };
        assert_eq!(spent(&store, &third, today).await, expected);
        expire(&store, &third).await;
        let late = with(&store, async |tx| {
            tx.append_event(&third, &replied("a", Some(9.0)), today).await
        });
        check_lost(late.await, &third);
        assert_eq!(
            spent(&store, &first, today).await.everybody,
            Usd::from_dollars(1.625),
            "neither the event nor the charge"
        );
    })
    .await;
}

#[tokio::test]
async fn money_set_aside_counts_for_others_until_the_call_is_charged_or_given_up() {
    each(async |store| {
        let (first, second) = (leased(&store, &fix(1), LONG).await, leased(&store, &fix(2), LONG).await);
        set_aside(&store, &first, 30).await;
        set_aside(&store, &first, 40).await;
        let seen = async || spent(&store, &second, now()).await;
        let expected = Spent {
            repository: cents(40),
            installation: cents(40),
            everybody: cents(40),
            ..Spent::default()
        };
        assert_eq!(seen().await, expected);
        assert_eq!(
            spent(&store, &first, now()).await,
            Spent::default(),
            "not against itself"
        );
        charge(&store, &first, &replied("a", Some(0.1)), now()).await;
        assert_eq!(seen().await.everybody, cents(10));
        set_aside(&store, &first, 40).await;
        with(&store, async |tx| tx.release_reservation(&first).await)
            .await
            .unwrap();
        assert_eq!(seen().await.everybody, cents(10));
    })
    .await;
}

#[tokio::test]
async fn money_set_aside_by_a_worker_that_is_gone_is_free() {
    each(async |store| {
        let gone = leased(&store, &fix(1), LONG).await;
        let other = leased(&store, &fix(2), LONG).await;
        set_aside(&store, &gone, 40).await;
        let begin = async |lease: &Lease| with(&store, async |tx| tx.begin_spending(lease).await).await;
        begin(&other).await.unwrap();
        assert_eq!(
            spent(&store, &other, now()).await.everybody,
            cents(40),
            "it is in force"
        );
        expire(&store, &gone).await;
        check_lost(begin(&gone).await, &gone);
        let late = with(&store, async |tx| tx.reserve(&gone, cents(1), now()).await);
        check_lost(late.await, &gone);
        let late = with(&store, async |tx| tx.release_reservation(&gone).await);
        check_lost(late.await, &gone);
        with(&store, async |tx| tx.recover_expired(MAX_LOST, 10).await)
            .await
            .unwrap();
        begin(&other).await.unwrap();
        assert_eq!(spent(&store, &other, now()).await.everybody, Usd::ZERO);
        let again = claim(&store, "worker-2", LONG).await.expect("the job is ready").lease;
        set_aside(&store, &again, 25).await;
        begin(&other).await.unwrap();
        assert_eq!(spent(&store, &other, now()).await.everybody, cents(25));
    })
    .await;
}

#[tokio::test]
async fn a_cap_that_somebody_set_is_kept_with_who_and_what_was_before() {
    each(async |store| {
        let (repo, subject) = (RepoId(7), Subject::Pull(IssueNumber(3)));
        let set = async |cents, source: &JobId| {
            let cap = NewCap {
                most: Usd::from_cents(cents),
                by: "mona\u{0}".to_owned(),
                at: now(),
                source: source.clone(),
            };
            with(&store, async |tx| tx.set_subject_cap(repo, &subject, &cap).await)
                .await
                .unwrap()
        };
        let get = async |number| {
            let subject = Subject::Pull(IssueNumber(number));
            with(&store, async |tx| tx.subject_cap(repo, &subject).await)
                .await
                .unwrap()
        };
        let (first, second) = (JobId::new(now()), JobId::new(now()));
        assert_eq!(get(3).await, None);
        assert_eq!(set(500, &first).await, None);
        assert_eq!(set(500, &first).await, None, "carried out once more");
        assert_eq!(set(900, &second).await, Some(cents(500)));
        assert_eq!(set(900, &second).await, Some(cents(500)));
        let cap = get(3).await.unwrap();
        assert_eq!((cap.most, cap.by.as_str()), (cents(900), "mona␀"));
        assert!(now() - cap.at < TimeDelta::minutes(5));
        assert_eq!(get(4).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_job_is_warned_once_of_each_cap_and_height() {
    each(async |store| {
        let (first, second) = (leased(&store, &fix(1), LONG).await, leased(&store, &fix(2), LONG).await);
        for (lease, cap, sum, is_new) in [
            (&first, "job", 100, true),
            (&first, "job", 100, false),
            (&first, "job", 200, true),
            (&first, "issue", 100, true),
            (&second, "job", 100, true),
        ] {
            let warned = with(&store, async |tx| tx.warn_of_cap(&lease.job, cap, cents(sum)).await).await;
            assert_eq!(warned.unwrap(), is_new, "{cap} {sum}");
        }
    })
    .await;
}

/// A row of costs, as far as the story looks.
type Row = (String, i64, String, i64, i64);

fn row(name: &str, calls: i64, money: &str, unpriced: i64, tokens: i64) -> Row {
    (name.to_owned(), calls, money.to_owned(), unpriced, tokens)
}

async fn costs(store: &Store, by: CostsBy, filter: &CostFilter) -> Vec<Row> {
    let rows = with(store, async |tx| tx.costs(by, filter).await).await.unwrap();
    let rows = rows.into_iter();
    rows.map(|row| {
        let money = row.micro_usd.to_string();
        (row.name, row.calls, money, row.unpriced_calls, row.unpriced_tokens)
    })
    .collect()
}

/// Calls of two jobs on two days, of three models.
async fn some_costs(store: &Store, today: DateTime<Utc>) -> JobId {
    let first = leased(store, &fix(1), LONG).await;
    charge(store, &first, &replied("cheap", Some(0.25)), today - TimeDelta::days(2)).await;
    charge(store, &first, &replied("dear", Some(2.0)), today).await;
    charge(store, &first, &replied("nameless", None), today).await;
    let other = NewJob {
        repo_id: RepoId(8),
        repo: "octo/gadgets".parse().unwrap(),
        subject: Subject::Pull(IssueNumber(4)),
        installation: InstallationId(100),
        ..fix(4)
    };
    let second = leased(store, &other, LONG).await;
    charge(store, &second, &replied("cheap", Some(0.5)), today).await;
    first.job
}

#[tokio::test]
async fn costs_are_summed_up_by_whatever_is_asked_for() {
    each(async |store| {
        let first = some_costs(&store, "2026-02-03T12:00:00Z".parse().unwrap()).await;
        let job = format!("{first} octo/widgets issue/1");
        let all = CostFilter {
            limit: 10,
            ..CostFilter::default()
        };
        let (unpriced, dearest) = ((1, 120), "$2.25");
        for (by, expected) in [
            (CostsBy::Nothing, vec![row("all", 4, "$2.75", 1, 120)]),
            (
                CostsBy::Model,
                vec![
                    row("dear", 1, "$2.00", 0, 0),
                    row("cheap", 2, "$0.75", 0, 0),
                    row("nameless", 1, "$0.00", 1, 120),
                ],
            ),
            (
                CostsBy::Day,
                vec![
                    row("2026-02-03", 3, "$2.50", 1, 120),
                    row("2026-02-01", 1, "$0.25", 0, 0),
                ],
            ),
            (
                CostsBy::Issue,
                vec![
                    row("octo/widgets issue/1", 3, dearest, unpriced.0, unpriced.1),
                    row("octo/gadgets pull/4", 1, "$0.50", 0, 0),
                ],
            ),
            (
                CostsBy::Installation,
                vec![
                    row("99", 3, dearest, unpriced.0, unpriced.1),
                    row("100", 1, "$0.50", 0, 0),
                ],
            ),
        ] {
            assert_eq!(costs(&store, by, &all).await, expected, "{by:?}");
        }
        let one = CostFilter { limit: 1, ..all };
        assert_eq!(
            costs(&store, CostsBy::Job, &one).await,
            [row(&job, 3, dearest, unpriced.0, unpriced.1)]
        );
    })
    .await;
}

#[tokio::test]
async fn costs_are_of_a_time_and_of_a_repository_by_its_present_name() {
    each(async |store| {
        let today = "2026-02-03T12:00:00Z".parse().unwrap();
        some_costs(&store, today).await;
        let there = CostFilter {
            since: Some(today),
            repo: Some("Octo/Widgets".parse().unwrap()),
            limit: 10,
        };
        let found = costs(&store, CostsBy::Repository, &there).await;
        assert_eq!(found, [row("octo/widgets", 2, "$2.00", 1, 120)]);
        let renamed = forgehand::store::RepoRow {
            id: RepoId(7),
            name: "octo/gizmos".parse().unwrap(),
            installation: InstallationId(99),
            active: true,
        };
        with(&store, async |tx| tx.upsert_repo(&renamed).await).await.unwrap();
        assert_eq!(costs(&store, CostsBy::Repository, &there).await, []);
        let all = CostFilter { repo: None, ..there };
        let names = costs(&store, CostsBy::Repository, &all).await;
        assert_eq!(
            (names[0].0.as_str(), names[1].0.as_str()),
            ("octo/gizmos", "octo/gadgets")
        );
    })
    .await;
}

/// What each call costs here, in dollars, and what is set aside for it.
const COST: f64 = 0.07;
const ESTIMATE: f64 = 0.1;

/// Calls that a job is let make until its caps say no.
async fn spend_until_refused(store: Store, lease: Lease, caps: Caps) -> String {
    let job = load(&store, &lease.job).await;
    let ledger = Ledger::open(store.clone(), lease.clone(), &job, caps);
    let call = Call {
        estimate_usd: Some(ESTIMATE),
        job_cap_usd: 100.0,
    };
    loop {
        match ledger.leave(&call, now()).await.unwrap() {
            Leave::Refused(why) => return why,
            Leave::Granted { .. } => {}
        }
        // The call is under way while the others ask.
        tokio::task::yield_now().await;
        charge(&store, &lease, &replied("a", Some(COST)), now()).await;
    }
}

/// Eight jobs in two processes spend on one cap of two dollars.
async fn spend_at_once(config: BudgetConfig, words: &str) {
    each_database(async |database| {
        let stores = [database.open().await, database.open().await];
        let caps = Caps::new(&config, Language::English, "/agent");
        let mut jobs = tokio::task::JoinSet::new();
        let mut leases = Vec::new();
        for number in 0..8 {
            leases.push(leased(&stores[0], &fix(number), LONG).await);
        }
        for (at, lease) in leases.iter().enumerate() {
            jobs.spawn(spend_until_refused(stores[at % 2].clone(), lease.clone(), caps.clone()));
        }
        for why in jobs.join_all().await {
            assert!(why.contains(words), "{why}");
        }
        let sum = spent(&stores[0], &leases[0], now()).await.everybody.dollars();
        assert!(sum < 2.0 + COST, "${sum} were spent, more than one call too much");
        assert!(sum > 2.0 - 8.0 * ESTIMATE, "${sum}: money was left");
        for store in stores {
            store.close().await;
        }
    })
    .await;
}

fn only(set: impl FnOnce(&mut BudgetConfig)) -> BudgetConfig {
    let mut config = BudgetConfig {
        max_issue_usd: 0.0,
        max_repository_day_usd: 0.0,
        max_installation_day_usd: 0.0,
        max_day_usd: 0.0,
        ..BudgetConfig::default()
    };
    set(&mut config);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_of_a_repository_is_never_passed_by_more_than_one_call() {
    spend_at_once(
        only(|config| config.max_repository_day_usd = 2.0),
        "a day for this repository",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_of_an_installation_is_never_passed_by_more_than_one_call() {
    spend_at_once(
        only(|config| config.max_installation_day_usd = 2.0),
        "a day for this installation",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_of_the_service_is_never_passed_by_more_than_one_call() {
    spend_at_once(only(|config| config.max_day_usd = 2.0), "a day for the whole service").await;
}
