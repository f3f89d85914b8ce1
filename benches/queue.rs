//! How fast the queue is: claim and finish of jobs with nothing to do, by one service on SQLite and
//! two on PostgreSQL, each with many at once. On PostgreSQL beside `pgbench`, which makes the same two transactions on the barest table that
//! could be a queue, and beside graphile-worker where its package is given; with an empty table and
//! with one full of queued and finished jobs. On SQLite beside one commit for each claim and each
//! end. All in one run, on disk, with every commit synced.
//!
//! ```text
//! cargo bench --bench queue -- [--seconds 10] [--queued 1000000] [--finished 10000000] [--npm DIR]
//! ```
//!
//! `--npm DIR` is a folder in which `npm install graphile-worker@0.17` was run.
#![allow(clippy::disallowed_methods)] // a benchmark measures time and is given arguments

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use forgehand::job::Outcome;
use forgehand::secret::Secret;
use forgehand::store::{Claim, ClaimLimits, Store};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::task::JoinSet;

#[path = "common/cluster.rs"]
mod cluster;

use cluster::{Cluster, run};

/// Jobs at once, and clients of pgbench.
const WORKERS: usize = 16;
/// As many as pgbench's batches make of two clients.
const MANY: usize = 200;
/// Jobs that are in the empty table to be worked off.
const WAITING: u64 = 200_000;
/// Jobs of graphile-worker, which takes a while to insert them.
const GRAPHILE: u64 = 60_000;
/// Repositories that they belong to.
const REPOS: u64 = 50;

struct Args {
    seconds: u64,
    queued: u64,
    finished: u64,
    npm: Option<PathBuf>,
}

fn args() -> Args {
    let mut args = Args {
        seconds: 10,
        queued: 100_000,
        finished: 1_000_000,
        npm: None,
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        let number = || value.parse().unwrap_or_else(|_| panic!("{word} needs a number"));
        match word.as_str() {
            "--seconds" => args.seconds = number(),
            "--queued" => args.queued = number(),
            "--finished" => args.finished = number(),
            "--npm" => args.npm = Some(value.into()),
            other => panic!("{other}: --seconds, --queued, --finished and --npm are known"),
        }
    }
    args
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = args();
    let seconds = Duration::from_secs(args.seconds);
    sqlite(seconds).await;
    match Cluster::start() {
        Ok(cluster) => match postgres(&cluster, &args, seconds).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("postgres: {problem}");
                ExitCode::FAILURE
            }
        },
        Err(problem) => {
            println!("postgres  not measured: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn postgres(cluster: &Cluster, args: &Args, seconds: Duration) -> Result<(), String> {
    let pair = pgbench(cluster, args.seconds, 1)?;
    println!("postgres  pgbench, a bare table            {pair:8.0} jobs/s");
    let batch = pgbench(cluster, args.seconds, 100)?;
    println!("postgres  pgbench, batches of 100          {batch:8.0} jobs/s");
    if let Some(npm) = &args.npm {
        let graphile = graphile(cluster, npm, args.seconds)?;
        println!("postgres  graphile-worker, as it comes     {graphile:8.0} jobs/s");
    }
    let url = cluster.database("ours")?;
    let stores = [open(&url).await, open(&url).await];
    fill(cluster, "ours", WAITING, 0)?;
    let ours = work(&stores, WORKERS, seconds).await;
    println!(
        "postgres  Forgehand, 16 jobs at once       {ours:8.0} jobs/s, {:.0} % of pgbench",
        100.0 * ours / pair
    );
    fill(cluster, "ours", WAITING, 0)?;
    let claimed = work(&stores, MANY, seconds).await;
    println!(
        "postgres  Forgehand, 200 jobs at once      {claimed:8.0} jobs/s, {:.0} % of pgbench's batches",
        100.0 * claimed / batch
    );
    fill(cluster, "ours", args.queued, args.finished)?;
    let full = work(&stores, WORKERS, seconds).await;
    println!(
        "postgres  Forgehand, {} queued and {} finished  {full:8.0} jobs/s, {:.0} % of the empty table",
        args.queued,
        args.finished,
        100.0 * full / ours
    );
    for store in stores {
        store.close().await;
    }
    Ok(())
}

async fn open(url: &Secret) -> Store {
    let store = Store::open(url, u32::try_from(WORKERS).unwrap_or(16))
        .await
        .expect("the database opens");
    store.migrate().await.expect("the schema is made");
    store
}

/// Jobs that are claimed and ended in a second by services that have so many at once in all, each as
/// a worker does it: it claims as many as it has free slots, and each job ends by itself.
async fn work(stores: &[Store], at_once: usize, seconds: Duration) -> f64 {
    let started = Instant::now();
    let services: Vec<_> = stores
        .iter()
        .map(|store| tokio::spawn(serve(store.clone(), at_once / stores.len(), started, seconds)))
        .collect();
    let mut done = 0;
    for service in services {
        done += service.await.expect("the service ends");
    }
    done as f64 / started.elapsed().as_secs_f64()
}

async fn serve(store: Store, slots: usize, started: Instant, seconds: Duration) -> u64 {
    let (mut at_work, mut done) = (JoinSet::new(), 0);
    while started.elapsed() < seconds {
        let claim = Claim {
            owner: "bench",
            lease: Duration::from_secs(600),
            most: u32::try_from(slots - at_work.len()).expect("few slots"),
            limits: ClaimLimits::default(),
        };
        if claim.most > 0 {
            let claimed = store.claim_jobs(&claim).await.expect("jobs are claimed");
            assert!(
                !claimed.is_empty(),
                "the queue ran empty: the machine is fast, ask for fewer seconds"
            );
            for leased in claimed {
                let store = store.clone();
                at_work.spawn(async move { store.finish_job(&leased.lease, &Outcome::Answered, false).await });
            }
        }
        let mut ended = at_work.join_next().await;
        while let Some(result) = ended {
            result.expect("no panic").expect("the job ends");
            done += 1;
            ended = at_work.try_join_next();
        }
    }
    while let Some(result) = at_work.join_next().await {
        result.expect("no panic").expect("the job ends");
        done += 1;
    }
    done
}

/// Rows as the product makes them, made by the server: through the product it would take hours.
fn fill_statements(queued: u64, finished: u64) -> String {
    let rows = |from: &str, state: &str, count: u64| {
        format!(
            "INSERT INTO jobs (id, repo_id, repo, installation_id, kind, subject, lane, dedupe_key, state, priority,
                 run_at, attempt, max_attempts, lost_leases, round, fence, request, pins, created_at, finished_at, turn)
             SELECT '{from}' || LPAD(CAST(n AS TEXT), 20, '0'), n % {REPOS}, 'octo/repo-' || CAST(n % {REPOS} AS TEXT),
                 n % 7, 'fix', 'issue/' || CAST(n AS TEXT), 'issue/' || CAST(n AS TEXT), NULL, '{state}', 0,
                 NOW() - INTERVAL '1 hour', 0, 5, 0, 0, 0,
                 '{REQUEST}', '{{}}', NOW(), CASE '{state}' WHEN 'done' THEN NOW() END, n / {REPOS} * 1000
             FROM GENERATE_SERIES(1, {count}) AS n;"
        )
    };
    let mut all = String::from("TRUNCATE jobs CASCADE;");
    if finished > 0 {
        all += &rows("00D0NE", "done", finished);
    }
    all += &rows("01WA1T", "queued", queued);
    all
}

/// What a label asks for.
const REQUEST: &str = r#"{"trigger":{"by":"label","label":"agent"},"actor":{"id":1,"login":"mona","is_bot":false},"instructions":"","triggered_at":"2026-01-01T00:00:00Z"}"#;

fn fill(cluster: &Cluster, database: &str, queued: u64, finished: u64) -> Result<(), String> {
    cluster.sql(database, &fill_statements(queued, finished))?;
    cluster.sql(database, "VACUUM ANALYZE jobs")?;
    cluster.sql(database, "CHECKPOINT")
}

/// The same two transactions on a table with a key, a state and an index, by pgbench's clients.
fn pgbench(cluster: &Cluster, seconds: u64, batch: u64) -> Result<f64, String> {
    let name = format!("bare_{batch}");
    cluster.database(&name)?;
    cluster.sql(
        &name,
        "CREATE TABLE queue (id BIGINT PRIMARY KEY, state INT NOT NULL, holder INT);
         CREATE INDEX queue_ready ON queue (id) WHERE state = 0;
         INSERT INTO queue SELECT n, 0, NULL FROM GENERATE_SERIES(1, 3000000) AS n;",
    )?;
    cluster.sql(&name, "VACUUM ANALYZE queue")?;
    let script = cluster.socket().join(format!("{name}.sql"));
    let text = match batch {
        1 => "UPDATE queue SET state = 1, holder = :client_id WHERE id = (
                  SELECT id FROM queue WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
              ) RETURNING id \\gset\n
              UPDATE queue SET state = 2, holder = NULL WHERE id = :id AND holder = :client_id;\n"
            .to_owned(),
        _ => format!(
            "UPDATE queue SET state = 1, holder = :client_id WHERE id IN (
                 SELECT id FROM queue WHERE state = 0 ORDER BY id LIMIT {batch} FOR UPDATE SKIP LOCKED
             );\n
             UPDATE queue SET state = 2, holder = NULL WHERE state = 1 AND holder = :client_id;\n"
        ),
    };
    std::fs::write(&script, text).map_err(|error| error.to_string())?;
    if batch > 1 {
        cluster.sql(&name, "CREATE INDEX queue_held ON queue (holder) WHERE state = 1")?;
    }
    let said = run(cluster
        .program("pgbench")
        .args(["-n", "-M", "prepared", "-U", "postgres", "-j", "2"])
        .args(["-c", &WORKERS.to_string(), "-T", &seconds.to_string(), "-h"])
        .arg(cluster.socket())
        .arg("-f")
        .arg(&script)
        .arg(&name))?;
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok())
        .ok_or_else(|| format!("pgbench gave no rate: {said}"))?;
    Ok(rate * batch as f64)
}

/// graphile-worker with its defaults and as many jobs at once.
fn graphile(cluster: &Cluster, npm: &Path, seconds: u64) -> Result<f64, String> {
    cluster.database("graphile")?;
    let program = format!(
        "const {{ run, runMigrations, makeWorkerUtils, Logger }} = require('graphile-worker');
         const connectionString = 'postgresql:///graphile?host={socket}&user=postgres';
         (async () => {{
           const logger = new Logger(() => () => {{}});
           await runMigrations({{ connectionString, logger }});
           const {{ Pool }} = require('pg');
           const pool = new Pool({{ connectionString, max: {pool} }});
           // In one transaction each job takes longer than the one before.
           for (let filled = 0; filled < {GRAPHILE}; filled += 2000)
             await pool.query(\"SELECT graphile_worker.add_job('noop', '{{}}'::json) FROM generate_series(1, 2000)\");
           let done = 0;
           const started = Date.now();
           const runner = await run({{ pgPool: pool, concurrency: {WORKERS}, logger, noHandleSignals: true,
             taskList: {{ noop: () => {{ done += 1; }} }} }});
           setTimeout(async () => {{
             if (done >= {GRAPHILE}) throw new Error('the queue ran empty: ask for fewer seconds');
             console.log(done / ((Date.now() - started) / 1000));
             process.exit(0);
           }}, {seconds} * 1000);
         }})().catch((error) => {{ console.error(error); process.exit(1); }});",
        socket = cluster.socket().display(),
        pool = WORKERS + 4,
    );
    let said = run(Command::new("node").arg("-e").arg(program).current_dir(npm))?;
    said.trim()
        .parse()
        .map_err(|_| format!("graphile-worker gave no rate: {said}"))
}

/// SQLite on disk, with every commit synced.
async fn sqlite(seconds: Duration) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on disk");
    let path = folder.path().join("queue.sqlite");
    let url = Secret::new(format!("sqlite:{}", path.display()));
    let store = open(&url).await;
    // The same rows in its dialect.
    let series = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200000) SELECT n FROM s)";
    let statements = fill_statements(WAITING, 0)
        .replace("TRUNCATE jobs CASCADE", "DELETE FROM jobs")
        .replace("LPAD(CAST(n AS TEXT), 20, '0')", "PRINTF('%020d', n)")
        .replace("NOW() - INTERVAL '1 hour'", "'2026-01-01T00:00:00+00:00'")
        .replace("NOW()", "'2026-01-01T00:00:00+00:00'")
        .replace(&format!("GENERATE_SERIES(1, {WAITING}) AS n"), series);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut connection = options.connect().await.expect("the file opens");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
        .execute(&mut connection)
        .await
        .expect("the queue is filled");
    connection.close().await.expect("the file closes");
    let alone = one_by_one(folder.path(), seconds / 2).await;
    println!("sqlite    one commit for each, a bare table {alone:8.0} jobs/s");
    let stores = [store];
    for at_once in [WORKERS, MANY] {
        let ours = work(&stores, at_once, seconds / 2).await;
        println!(
            "sqlite    Forgehand, {at_once:3} jobs at once      {ours:8.0} jobs/s, {:.1} times that",
            ours / alone
        );
    }
    let [store] = stores;
    store.close().await;
}

/// Claim and end, each committed by itself, by one writer: what a queue without groups can do here.
async fn one_by_one(folder: &Path, seconds: Duration) -> f64 {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.join("bare.sqlite"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Full);
    let mut connection = options.connect().await.expect("the file opens");
    sqlx::raw_sql(
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, state INT NOT NULL);
         CREATE INDEX queue_ready ON queue (id) WHERE state = 0;
         INSERT INTO queue
         SELECT n, 0 FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100000) SELECT n FROM s);",
    )
    .execute(&mut connection)
    .await
    .expect("the table is made");
    let (started, mut done) = (Instant::now(), 0_u64);
    while started.elapsed() < seconds {
        let id: i64 = sqlx::query_scalar(
            "UPDATE queue SET state = 1 WHERE id = (SELECT id FROM queue WHERE state = 0 ORDER BY id LIMIT 1) RETURNING id",
        )
        .fetch_one(&mut connection)
        .await
        .expect("a row is claimed");
        sqlx::query("UPDATE queue SET state = 2 WHERE id = ?")
            .bind(id)
            .execute(&mut connection)
            .await
            .expect("it ends");
        done += 1;
    }
    done as f64 / started.elapsed().as_secs_f64()
}
