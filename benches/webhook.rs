//! How fast the receiver is: the real router in a process of its own, on SQLite and on PostgreSQL
//! (on disk, each commit synced), loaded with signed deliveries of 25 KB that each start a job.
//! At 500 a second the answers' p99 is taken, as fast as it goes the deliveries a second; the
//! processor time of the receiver's process is divided by its requests and held beside that of a
//! Node server with @octokit/webhooks, which checks the signature and stores nothing, where its
//! package is given. At 100 a second with a worker in the same process: the time from the call to
//! the claim. Fails when an answer or a row is missing.
//!
//! ```text
//! cargo bench --bench webhook -- [--seconds 10] [--npm DIR]
//! ```
//!
//! `--npm DIR` is a folder in which `npm install @octokit/webhooks` was run.
#![allow(clippy::disallowed_methods)] // a benchmark measures time, is given arguments and starts itself

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use forgehand::clock::Clock;
use forgehand::event::RunEvent;
use forgehand::intake::Rules;
use forgehand::secret::Secret;
use forgehand::store::{Claim, ClaimLimits, JobFilter, Store};
use forgehand::web::{self, WebState};
use futures_util::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

#[path = "common/cluster.rs"]
mod cluster;

/// Calls under way at once when it goes as fast as possible.
const AT_ONCE: usize = 64;
/// Payloads of issues have about this size.
const BODY_BYTES: usize = 24_500;
/// GitHub gives up after this.
const MAX_LIMIT: Duration = Duration::from_secs(10);
const SECRET: &str = "the secret of the benchmark";

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut seconds, mut npm) = (10, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "serve" => return serve(&Secret::new(value)).await,
            "--seconds" => seconds = value.parse().expect("--seconds needs a number"),
            "--npm" => npm = Some(PathBuf::from(value)),
            other => panic!("{other}: --seconds and --npm are known"),
        }
    }
    let mut good = true;
    let node = match &npm {
        Some(npm) => Some(node(npm, seconds).await),
        None => None,
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on disk");
    let url = Secret::new(format!("sqlite:{}", folder.path().join("bench.sqlite").display()));
    good &= measure(&url, seconds, node).await;
    match cluster::Cluster::start() {
        Ok(cluster) => {
            let url = cluster.database("webhook").expect("a database");
            good &= measure(&url, seconds, node).await;
        }
        Err(problem) => {
            println!("postgres  not measured: {problem}");
            good = false;
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The receiver's process: takes calls, claims the jobs, and ends with its input.
async fn serve(url: &Secret) -> ExitCode {
    let store = open(url).await;
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
        skew: None,
        setup: None,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    let stop = CancellationToken::new();
    tokio::spawn(web::serve(listener, web::router(state), stop.clone()));
    let claim = Claim {
        owner: "bench",
        lease: Duration::from_secs(600),
        most: 64,
        limits: ClaimLimits::default(),
    };
    let claiming = async {
        loop {
            if store.claim_jobs(&claim).await.expect("jobs are claimed").is_empty() {
                store.doorbell(Duration::from_secs(2)).await;
            }
        }
    };
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    // The first line starts the worker, the end of the input ends everything.
    let _ = input.next_line().await;
    tokio::select! {
        () = claiming => {}
        _ = input.next_line() => {}
    }
    stop.cancel();
    store.close().await;
    ExitCode::SUCCESS
}

async fn open(url: &Secret) -> Store {
    let store = Store::open(url, 10).await.expect("the database opens");
    store.migrate().await.expect("the schema is made");
    store
}

/// A server under load.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    async fn start(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let line = lines.next_line().await.expect("its output").expect("its address");
        Self {
            process,
            address: line.parse().expect("an address"),
        }
    }

    /// Processor time that it used so far.
    fn cpu(&self) -> Duration {
        let pid = self.process.id().expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its figures");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        let ticks: u64 = [12, 13]
            .iter()
            .map(|field| fields[*field].parse::<u64>().unwrap_or(0))
            .sum();
        // 100 ticks a second on every Linux that this runs on.
        Duration::from_millis(ticks * 10)
    }

    async fn tell(&mut self, line: &str) {
        use tokio::io::AsyncWriteExt as _;
        let input = self.process.stdin.as_mut().expect("its input");
        input.write_all(line.as_bytes()).await.expect("it listens");
    }

    async fn stop(mut self) {
        drop(self.process.stdin.take());
        let _ = tokio::time::timeout(MAX_LIMIT, self.process.wait()).await;
    }
}

/// Requests in a second of processor time by the Node server, which stores nothing.
async fn node(npm: &Path, seconds: u64) -> f64 {
    let program = format!(
        "const {{ Webhooks, createNodeMiddleware }} = require('@octokit/webhooks');
         const webhooks = new Webhooks({{ secret: '{SECRET}' }});
         webhooks.on('issues.labeled', () => {{}});
         const server = require('http').createServer(createNodeMiddleware(webhooks, {{ path: '/webhook' }}));
         server.listen(0, '127.0.0.1', () => console.log('127.0.0.1:' + server.address().port));
         process.stdin.on('end', () => process.exit(0)).resume();"
    );
    let server = Server::start(Command::new("node").arg("-e").arg(program).current_dir(npm)).await;
    let calls = usize::try_from(seconds).unwrap_or(10) * 500;
    let load = Load::new(server.address);
    at_once(&load, 0..500).await;
    let before = server.cpu();
    let times = Times::of(at_once(&load, 500..500 + calls).await);
    let per_cpu = calls as f64 / (server.cpu() - before).as_secs_f64();
    println!("node      flat out   {times}, {per_cpu:6.0} requests a processor second");
    server.stop().await;
    per_cpu
}

/// Measures on one database; false when something is missing.
async fn measure(url: &Secret, seconds: u64, node: Option<f64>) -> bool {
    let store = open(url).await;
    let kind = store.backend();
    let this = std::env::current_exe().expect("this program");
    let mut server = Server::start(Command::new(this).args(["serve", url.expose()])).await;
    let load = Load::new(server.address);
    let paced = usize::try_from(seconds).unwrap_or(10) * 500;
    let mut answered = 0;
    let calm = Times::of(at_pace(&load, 0..paced, Duration::from_millis(2)).await);
    println!("{kind:8}  500/s      {calm}");
    let before = server.cpu();
    let fast = Times::of(at_once(&load, paced..2 * paced).await);
    let per_cpu = paced as f64 / (server.cpu() - before).as_secs_f64();
    println!("{kind:8}  flat out   {fast}, {per_cpu:6.0} requests a processor second");
    if let Some(node) = node {
        println!(
            "{kind:8}  {:.2} times the requests a processor second of Node's",
            per_cpu / node
        );
    }
    answered += calm.answered + fast.answered;
    // Whatever waits is claimed first, then those that come are timed.
    server.tell("claim\n").await;
    drained(&store).await;
    let few = usize::try_from(seconds).unwrap_or(10) * 100;
    let claimed = Times::of(at_pace(&load, 2 * paced..2 * paced + few, Duration::from_millis(10)).await);
    answered += claimed.answered;
    drained(&store).await;
    let waits = Times::of((Duration::from_secs(seconds), waits(&store, few).await));
    println!(
        "{kind:8}  from the call to the claim at 100/s: p50 {:.2?}, p99 {:.2?}",
        waits.p50, waits.p99
    );
    let jobs = jobs(&store).await;
    println!("{kind:8}  {answered} answers, {jobs} jobs in the database");
    server.stop().await;
    store.close().await;
    answered == 2 * paced + few && jobs == answered as u64 && calm.max.max(fast.max) < MAX_LIMIT
}

async fn jobs(store: &Store) -> u64 {
    let mut tx = store.begin().await.expect("a transaction");
    let counts = tx.job_counts().await.expect("the database answers");
    counts.into_iter().map(|(_, count)| count).sum()
}

/// Waits until nothing is queued.
async fn drained(store: &Store) {
    let started = Instant::now();
    loop {
        let mut tx = store.begin().await.expect("a transaction");
        let counts = tx.job_counts().await.expect("the database answers");
        drop(tx);
        if !counts.iter().any(|(state, _)| state.as_str() == "queued") {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "nobody claims");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// From when each of the newest jobs came in to when it was claimed.
async fn waits(store: &Store, newest: usize) -> Vec<Option<Duration>> {
    let mut tx = store.begin().await.expect("a transaction");
    let filter = JobFilter {
        limit: u32::try_from(newest).unwrap_or(u32::MAX),
        ..JobFilter::default()
    };
    let jobs = tx.jobs(&filter).await.expect("the database answers");
    let mut waits = Vec::new();
    for job in jobs {
        let events = tx.events(&job.id, 0, 10).await.expect("the database answers");
        let claimed = events
            .iter()
            .find(|event| matches!(event.body, RunEvent::Claimed { .. }));
        waits.push(claimed.and_then(|event| (event.at - job.created_at).to_std().ok()));
    }
    waits
}

/// Where calls go.
struct Load {
    client: reqwest::Client,
    address: SocketAddr,
}

impl Load {
    fn new(address: SocketAddr) -> Self {
        Self {
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            address,
        }
    }

    /// A signed label on an issue of its own.
    fn delivery(&self, number: usize) -> reqwest::Request {
        let body = json!({
            "action": "labeled",
            "sender": {"id": 1, "login": "mona", "type": "User"},
            "installation": {"id": 3},
            "repository": {"id": 2, "full_name": "octo/widgets"},
            "label": {"name": "agent"},
            "issue": {"number": number + 1, "title": "Parser drops the last line", "body": "x".repeat(BODY_BYTES),
                "state": "open", "user": null, "updated_at": "2026-01-02T03:04:05Z"},
        })
        .to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length is good");
        mac.update(body.as_bytes());
        self.client
            .post(format!("http://{}/webhook", self.address))
            .header("Content-Type", "application/json")
            .header("X-GitHub-Delivery", format!("bench-{number}"))
            .header("X-GitHub-Event", "issues")
            .header(
                "X-Hub-Signature-256",
                format!("sha256={}", hex::encode(mac.finalize().into_bytes())),
            )
            .body(body)
            .build()
            .expect("a request")
    }

    /// Whether the call got a 2xx answer.
    fn call(&self, request: reqwest::Request) -> impl Future<Output = bool> + Send + 'static {
        let client = self.client.clone();
        async move {
            client
                .execute(request)
                .await
                .is_ok_and(|answer| answer.status().is_success())
        }
    }
}

/// The open loop: each call is timed from when it was due, so that a slow answer does not hide
/// the wait of those behind it.
async fn at_pace(load: &Load, numbers: std::ops::Range<usize>, pace: Duration) -> (Duration, Vec<Option<Duration>>) {
    let started = Instant::now();
    let mut running = Vec::with_capacity(numbers.len());
    for (place, number) in numbers.enumerate() {
        let call = load.call(load.delivery(number));
        let due = started + pace * u32::try_from(place).expect("few calls");
        tokio::time::sleep_until(due.into()).await;
        running.push(tokio::spawn(async move { call.await.then(|| due.elapsed()) }));
    }
    let mut times = Vec::with_capacity(running.len());
    for call in running {
        times.push(call.await.unwrap_or(None));
    }
    (started.elapsed(), times)
}

/// As fast as it goes, with a fixed number under way.
async fn at_once(load: &Load, numbers: std::ops::Range<usize>) -> (Duration, Vec<Option<Duration>>) {
    let ready: Vec<_> = numbers.map(|number| load.call(load.delivery(number))).collect();
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
            "{answered} answers, {per_second:6.0}/s, p50 {p50:9.2?}, p99 {p99:9.2?}, max {max:9.2?}"
        )
    }
}
