//! How fast the receiver answers: the real router on a real database (SQLite on disk, and
//! PostgreSQL where `FORGEHAND_TEST_POSTGRES` names a cluster), loaded with signed deliveries
//! that each start a job. First at the pace of a busy installation, 100 a second, then as fast
//! as it goes; `/healthz` of the same process is the yardstick. Fails when an answer or a row is
//! missing, or when GitHub would have given up on one.
#![allow(clippy::disallowed_methods)] // a benchmark reads in the environment where PostgreSQL is

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use forgehand::clock::Clock;
use forgehand::intake::Rules;
use forgehand::secret::Secret;
use forgehand::store::Store;
use forgehand::web::{self, WebState};
use futures_util::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[allow(dead_code)] // the stories use the rest of it
#[path = "../tests/it/databases.rs"]
mod databases;

/// Calls of each measurement.
const CALLS: usize = 1_000;

/// The open loop sends one call in this time, whether or not earlier ones are answered.
const PACE: Duration = Duration::from_millis(10);

/// Calls under way at once when it goes as fast as possible.
const AT_ONCE: usize = 64;

/// Payloads of issues have about this size.
const BODY_BYTES: usize = 20_000;

/// At the open loop's pace, all but one in a hundred answers are faster than this.
const P99_LIMIT: Duration = Duration::from_secs(1);

/// GitHub gives up after this.
const MAX_LIMIT: Duration = Duration::from_secs(10);

const SECRET: &str = "the secret of the benchmark";

#[tokio::main]
async fn main() -> ExitCode {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on disk");
    let url = Secret::new(format!("sqlite:{}", folder.path().join("bench.sqlite").display()));
    let mut good = run(&open(&url).await).await;
    if std::env::var_os("FORGEHAND_TEST_POSTGRES").is_some() {
        let database = databases::Database::postgres().await;
        good &= run(&open(&database.url).await).await;
        database.remove().await;
    } else {
        println!("postgres  not measured: FORGEHAND_TEST_POSTGRES is not set");
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn open(url: &Secret) -> Store {
    let store = Store::open(url, 10).await.expect("the database opens");
    store.migrate().await.expect("the schema is made");
    store
}

/// Measures on one database; false when something is missing or too slow.
async fn run(store: &Store) -> bool {
    let (address, shutdown) = serve(store).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let kind = store.backend();
    let health = |_| call(&client, health_request(&client, address));
    let paced = |number| call(&client, delivery(&client, address, "paced", number));
    let fast = |number| call(&client, delivery(&client, address, "fast", number));
    let times = [
        Times::of(at_pace(health).await),
        Times::of(at_pace(paced).await),
        Times::of(at_once(health).await),
        Times::of(at_once(fast).await),
    ];
    for (what, times) in [
        "healthz, 100/s",
        "webhook, 100/s",
        "healthz, flat out",
        "webhook, flat out",
    ]
    .iter()
    .zip(&times)
    {
        println!("{kind:8}  {what:18}  {times}");
    }
    let [calm_health, calm, fast_health, fast] = &times;
    println!(
        "{kind:8}  a delivery costs {:.1} times a health check at 100/s (p50) and {:.1} times flat out",
        calm.p50.as_secs_f64() / calm_health.p50.as_secs_f64(),
        fast.total.as_secs_f64() / fast_health.total.as_secs_f64(),
    );
    let (rows, jobs) = rows(store).await;
    println!("{kind:8}  {rows} deliveries and {jobs} jobs in the database");
    shutdown.cancel();
    store.close().await;
    times.iter().all(|times| times.answered == CALLS)
        && rows == 2 * CALLS
        && jobs == 2 * CALLS as u64
        && calm.p99 < P99_LIMIT
        && calm.max.max(fast.max) < MAX_LIMIT
}

async fn serve(store: &Store) -> (SocketAddr, CancellationToken) {
    let state = WebState {
        store: store.clone(),
        rules: Rules {
            label: "agent".to_owned(),
            own_label: None,
            command: "/agent".to_owned(),
            app_id: None,
            bot_slug: None,
            allowed_apps: Vec::new(),
            max_attempts: 5,
            language: forgehand::phrase::Language::English,
        },
        webhook_secrets: vec![Secret::new(SECRET)],
        clock: Clock::System,
        metrics: None,
        draining: CancellationToken::new(),
        setup: None,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    tokio::spawn(web::serve(listener, web::router(state), shutdown.clone()));
    (address, shutdown)
}

fn health_request(client: &reqwest::Client, address: SocketAddr) -> reqwest::Request {
    client
        .get(format!("http://{address}/healthz"))
        .build()
        .expect("a request")
}

/// A signed label on an issue of its own.
fn delivery(client: &reqwest::Client, address: SocketAddr, round: &str, number: usize) -> reqwest::Request {
    let issue = if round == "paced" { number } else { CALLS + number };
    let body = json!({
        "action": "labeled",
        "sender": {"id": 1, "login": "mona", "type": "User"},
        "installation": {"id": 3},
        "repository": {"id": 2, "full_name": "octo/widgets"},
        "label": {"name": "agent"},
        "issue": {"number": issue, "title": "Parser drops the last line", "body": "x".repeat(BODY_BYTES),
            "state": "open", "user": null, "updated_at": "2026-01-02T03:04:05Z"},
    })
    .to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length is good");
    mac.update(body.as_bytes());
    client
        .post(format!("http://{address}/webhook"))
        .header("Content-Type", "application/json")
        .header("X-GitHub-Delivery", guid(round, number))
        .header("X-GitHub-Event", "issues")
        .header(
            "X-Hub-Signature-256",
            format!("sha256={}", hex::encode(mac.finalize().into_bytes())),
        )
        .body(body)
        .build()
        .expect("a request")
}

fn guid(round: &str, number: usize) -> String {
    format!("{round}-{number}")
}

/// Whether the call got a 2xx answer.
fn call(client: &reqwest::Client, request: reqwest::Request) -> impl Future<Output = bool> + Send + 'static {
    let client = client.clone();
    async move {
        client
            .execute(request)
            .await
            .is_ok_and(|answer| answer.status().is_success())
    }
}

/// The open loop: each call is timed from when it was due, so that a slow answer does not hide
/// the wait of those behind it.
async fn at_pace<F>(calls: impl Fn(usize) -> F) -> (Duration, Vec<Option<Duration>>)
where
    F: Future<Output = bool> + Send + 'static,
{
    let started = Instant::now();
    let mut running = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let call = calls(number);
        let due = started + PACE * u32::try_from(number).expect("few calls");
        tokio::time::sleep_until(due.into()).await;
        running.push(tokio::spawn(async move { call.await.then(|| due.elapsed()) }));
    }
    let mut times = Vec::with_capacity(CALLS);
    for call in running {
        times.push(call.await.unwrap_or(None));
    }
    (started.elapsed(), times)
}

/// As fast as it goes, with a fixed number under way.
async fn at_once<F>(calls: impl Fn(usize) -> F) -> (Duration, Vec<Option<Duration>>)
where
    F: Future<Output = bool> + Send + 'static,
{
    let ready: Vec<F> = (0..CALLS).map(calls).collect();
    let started = Instant::now();
    let timed = ready.into_iter().map(|call| async move {
        let started = Instant::now();
        call.await.then(|| started.elapsed())
    });
    let times = futures_util::stream::iter(timed)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    (started.elapsed(), times)
}

/// How many of the deliveries are stored, and how many jobs.
async fn rows(store: &Store) -> (usize, u64) {
    let mut tx = store.begin().await.expect("a transaction");
    let mut rows = 0;
    for round in ["paced", "fast"] {
        for number in 0..CALLS {
            let row = tx.delivery(&guid(round, number)).await.expect("the database answers");
            rows += usize::from(row.is_some());
        }
    }
    let counts = tx.job_counts().await.expect("the database answers");
    (rows, counts.into_iter().map(|(_, count)| count).sum())
}

/// The answers of one measurement.
struct Times {
    answered: usize,
    total: Duration,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Times {
    fn of((total, calls): (Duration, Vec<Option<Duration>>)) -> Self {
        let mut times: Vec<Duration> = calls.into_iter().flatten().collect();
        times.sort();
        let at = |percent: usize| {
            times
                .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
                .copied()
        };
        Self {
            answered: times.len(),
            total,
            p50: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
            max: at(100).unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            answered,
            total,
            p50,
            p99,
            max,
        } = self;
        let per_second = *answered as f64 / total.as_secs_f64();
        write!(
            f,
            "{answered}/{CALLS} answers, {per_second:6.0}/s, p50 {p50:9.2?}, p99 {p99:9.2?}, max {max:9.2?}"
        )
    }
}
