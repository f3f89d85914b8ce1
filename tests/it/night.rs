//! A night in fast motion: twenty-four hours of a clock that is moved by hand, across the end of
//! daylight saving, with an issue queue, three schedules, a work graph, a model that is away for an hour
//! and a service that is killed twice. In the morning the ledger, the messages, GitHub and the rows
//! have to agree on what should have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use forgehand::clock::Clock;
use forgehand::demo::double::RepositorySeed;
use forgehand::github::GitHub;
use forgehand::job::{Job, JobState, Trigger};
use forgehand::milestone::{Graph, GraphKey, Limits, MilestoneState, NewMilestone, Outlook};
use forgehand::secret::Redactor;
use forgehand::unattended::locate;
use forgehand::workgraph::WorkGraph;
use serde_json::{Value, json};

use crate::hook_server::HookServer;
use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, until, usual};

/// 20:00 in Berlin. At 01:00 UTC its clocks go back from 03:00 to 02:00.
const EVENING: &str = "2026-10-24T18:00:00Z";
/// Time between two looks at the night.
const STEP: Duration = Duration::from_secs(30 * 60);
const STEPS: u32 = 48;

/// The night's schedules with every time at which they have to fire.
const FIRES: [(&str, &[&str]); 3] = [
    // 02:30 comes twice that night, and counts once.
    ("berlin", &["2026-10-25T00:30:00Z"]),
    (
        "six",
        &[
            "2026-10-25T00:00:00Z",
            "2026-10-25T06:00:00Z",
            "2026-10-25T12:00:00Z",
            "2026-10-25T18:00:00Z",
        ],
    ),
    ("newyork", &["2026-10-25T11:15:00Z"]),
];

/// The step at whose beginning the model goes away, and the one at which it is back: 05:30 to 06:30.
const AWAY: u32 = 23;
const BACK: u32 = 25;

/// What fails however often it is tried, and what waits for one of them.
const FAILING: [&str; 2] = ["m04", "m08"];
const WAITING: &str = "m09";

fn limits() -> Limits {
    Limits {
        max_fix_attempts: 1,
        breaker_failures: 10,
    }
}

fn file(chat: &str) -> String {
    let schedule = |name: &str, cron: &str, zone: &str| {
        format!(
            "[[schedule]]\nname = \"{name}\"\ncron = \"{cron}\"\ntimezone = \"{zone}\"\nrepository = \"{REPO}\"\n\
             task = \"Tidy up for {name}.\"\n"
        )
    };
    [
        format!(
            "[autotask]\nenabled = true\nrepositories = [\"{REPO}\"]\nlabel = \"night\"\nevery_seconds = 600\n\
             max_active = 1\n[workgraph]\nadvance_seconds = 3600\nmax_fix_attempts = 1\nbreaker_failures = 10\n\
             [alert]\nurl = \"{chat}\"\n"
        ),
        schedule("berlin", "30 2 * * *", "Europe/Berlin"),
        schedule("six", "0 */6 * * *", "UTC"),
        schedule("newyork", "15 7 * * *", "America/New_York"),
    ]
    .concat()
}

fn quiet_repository(seed: RepositorySeed) -> RepositorySeed {
    seed.file("README.md", "# words\n").commit("Begin")
}

/// Twelve milestones: the first four one after another, the ninth after one that never works.
fn milestones() -> Vec<NewMilestone> {
    let new = |number: u32| {
        let id = format!("m{number:02}");
        let after = match number {
            9 => vec!["m08".parse().unwrap()],
            2..=4 => vec![format!("m{:02}", number - 1).parse().unwrap()],
            _ => Vec::new(),
        };
        NewMilestone {
            title: format!("Do {id}"),
            description: format!("Write {id}.txt."),
            acceptance: Some(match FAILING.contains(&id.as_str()) {
                true => "echo it never works; false".to_owned(),
                false => format!("test -f {id}.txt"),
            }),
            depends_on: after,
            id: Some(id.parse().unwrap()),
        }
    };
    (1..=12).map(new).collect()
}

/// An agent that writes the file that it is asked for, or one of its own, and finishes.
fn agent(away: &Arc<AtomicBool>) -> impl Fn(&Value) -> Reply + Send + use<> {
    let (away, written) = (Arc::clone(away), AtomicU32::new(0));
    move |request| {
        if away.load(Ordering::SeqCst) {
            return Reply::raw(503, "application/json", r#"{"error":{"message":"the model is away"}}"#);
        }
        let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
        if messages.iter().any(|message| message["role"] == "tool") {
            return Reply::finish("Write a file", "It is there.");
        }
        let asked: String = messages
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].to_string())
            .collect();
        let wanted = asked
            .split("Do m")
            .nth(1)
            .map(|rest| rest.chars().take(2).collect::<String>());
        let path = match wanted {
            Some(number) => format!("m{number}.txt"),
            None => format!("note-{}.txt", written.fetch_add(1, Ordering::SeqCst)),
        };
        Reply::change("write_file", json!({"path": path, "content": "x\n"}))
    }
}

async fn graph_of(service: &Service) -> WorkGraph {
    let github = GitHub::new(&service.config.github, service.clock.clone(), Redactor::default()).unwrap();
    let repo = locate(&github, &service.store, &REPO.parse().unwrap()).await.unwrap();
    let key = GraphKey {
        repository: format!("repository/{}", repo.id),
        name: "main".parse().unwrap(),
    };
    WorkGraph::new(service.store.clone(), service.clock.clone(), key, limits())
}

fn step_of(time: &str) -> u32 {
    let since = time.parse::<DateTime<Utc>>().unwrap() - EVENING.parse::<DateTime<Utc>>().unwrap();
    u32::try_from(since.num_seconds())
        .unwrap()
        .div_ceil(u32::try_from(STEP.as_secs()).unwrap())
}

/// Waits until the fires up to a step were decided and everything that was begun is over.
async fn quiet(service: &Service, step: u32) {
    for (name, times) in FIRES {
        let due = times.iter().filter(|time| step_of(time) <= step).count();
        until(&format!("{name} fired {due} times by step {step}"), async || {
            let mut tx = service.store.begin().await.unwrap();
            tx.schedule_fires(Some(name), 100).await.unwrap().len() == due
        })
        .await;
    }
    service.done().await;
}

#[tokio::test]
async fn a_night_in_fast_motion() {
    usual()
        .repository(quiet_repository)
        .at(EVENING)
        .tell_before_start(async |service: &mut Service| {
            let chat = HookServer::start([503]).await;
            let away = Arc::new(AtomicBool::new(false));
            service.model.answer_with(agent(&away));
            let file = file(chat.url());
            service.start_on_clock(&file).await;
            let graph = graph_of(service).await;
            graph.add(milestones()).await.unwrap();
            graph.approve().await.unwrap();

            service.github.grant(REPO, "stranger", "read").unwrap();
            let mut issues = Vec::new();
            for title in ["First", "Second", "Third"] {
                let issue = service.issue_saying(title, "Write a note.");
                service.github.label_issue(REPO, issue, "night", MONA).unwrap();
                issues.push(issue);
            }
            let strange = service.issue_saying("Strange", "Write a note.");
            service.github.label_issue(REPO, strange, "night", "stranger").unwrap();

            for step in 1..=STEPS {
                match step {
                    AWAY => away.store(true, Ordering::SeqCst),
                    BACK => away.store(false, Ordering::SeqCst),
                    _ => {}
                }
                let asked = service.model.requests().len();
                service.advance(STEP).await;
                // In the middle of the job that the fire of 00:00, or of 12:00, began.
                if step == 12 || step == 36 {
                    service.model_is_asked(asked + 1).await;
                    service.kill().await;
                    service.start_on_clock(&file).await;
                }
                if step % 2 == 0 {
                    advanced(service, &graph).await;
                }
                quiet(service, step).await;
            }
            // What the graph has left to do, hour by hour.
            let mut hours = 0;
            while !at_rest(&graph.existing().await.unwrap()) {
                hours += 1;
                assert!(hours < 24, "the graph comes to no end: {:#?}", graph.existing().await);
                service.advance(STEP * 2).await;
                advanced(service, &graph).await;
                quiet(service, STEPS).await;
            }
            morning(service, &graph, &issues, strange, &chat).await;
        })
        .await;
}

/// Waits until the graph was looked at this hour: what begins while the clocks are moved would have
/// GitHub's and the service's half an hour apart.
async fn advanced(service: &Service, graph: &WorkGraph) {
    let now = service.clock.now();
    until(&format!("the graph goes on at {now}"), async || {
        let begun = |job: &Job| matches!(job.request.trigger, Trigger::Milestone { .. }) && job.created_at >= now;
        service.works().await.iter().any(begun) || at_rest(&graph.existing().await.unwrap())
    })
    .await;
}

fn at_rest(graph: &Graph) -> bool {
    !matches!(graph.outlook(limits()), Outlook::Ready(_) | Outlook::Running)
}

/// What the operator finds.
async fn morning(service: &mut Service, graph: &WorkGraph, issues: &[u64], strange: u64, chat: &HookServer) {
    let jobs: Vec<Job> = service.works().await;
    every_fire_has_a_job(&jobs);
    every_issue_has_a_job(service, &jobs, issues).await;
    every_work_has_a_pull(service, issues, strange);
    every_milestone_stands_where_it_should(service, &graph.existing().await.unwrap()).await;
    let failed = the_ledger_has_it_all(service, &jobs).await;
    // Whoever reads the chat was told of each failure, and of nothing else.
    until("every failure was told", async || told(chat) == failed).await;
    for message in chat.messages() {
        let message = message.json();
        let code = match message["record"]["state"].as_str().unwrap() {
            "stuck" | "blocked" => 2,
            "failed" => 4,
            other => panic!("{other} in {message}"),
        };
        assert_eq!(
            (&message["exit_code"], &message["failed"]),
            (&json!(code), &json!(true)),
            "{message}"
        );
    }
    let shown = service
        .command(&["ledger", "--failed", "--last", "100", "--json"])
        .await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["records"].as_array().unwrap().len(), failed.len());
}

fn every_fire_has_a_job(jobs: &[Job]) {
    let mut fired: BTreeMap<String, BTreeSet<DateTime<Utc>>> = BTreeMap::new();
    for job in jobs {
        if let Trigger::Schedule { name, fire_at } = &job.request.trigger {
            let is_first = fired.entry(name.clone()).or_default().insert(*fire_at);
            assert!(is_first, "twice: {name} {fire_at}");
        }
    }
    for (name, times) in FIRES {
        let times: BTreeSet<DateTime<Utc>> = times.iter().map(|time| time.parse().unwrap()).collect();
        assert_eq!(fired.remove(name), Some(times), "{name}");
    }
}

async fn every_issue_has_a_job(service: &Service, jobs: &[Job], issues: &[u64]) {
    for issue in issues {
        let of_issue = jobs.iter().filter(|job| {
            let is_queue = matches!(job.request.trigger, Trigger::Queue { .. });
            is_queue && job.subject.number().is_some_and(|number| number.0 == *issue)
        });
        assert_eq!(of_issue.count(), 1, "issue {issue}: {}", queue(service).await);
    }
}

fn every_work_has_a_pull(service: &Service, issues: &[u64], strange: u64) {
    let pulls = service.pulls();
    let count = |is: &dyn Fn(&str) -> bool| pulls.iter().filter(|pull| is(&pull.head)).count();
    for issue in issues {
        let prefix = format!("agent/{issue}-");
        assert_eq!(count(&|head| head.starts_with(&prefix)), 1, "{pulls:#?}");
    }
    assert_eq!(
        count(&|head| head.starts_with(&format!("agent/{strange}-"))),
        0,
        "who put it there may not"
    );
    let tasks = [
        "agent/schedule-berlin",
        "agent/schedule-six",
        "agent/schedule-newyork",
        "agent/graph-main",
    ];
    for task in tasks {
        assert_eq!(count(&|head| head == task), 1, "{task} in {pulls:#?}");
    }
    assert_eq!(pulls.len(), issues.len() + tasks.len(), "{pulls:#?}");
}

/// Nine are done, two failed as often as they may, one waits for ever.
async fn every_milestone_stands_where_it_should(service: &Service, graph: &Graph) {
    for milestone in &graph.milestones {
        let id = milestone.id.to_string();
        let (state, attempts) = match id.as_str() {
            failing if FAILING.contains(&failing) => (MilestoneState::NeedsFix, 2),
            WAITING => (MilestoneState::Pending, 0),
            _ => (MilestoneState::Done, milestone.attempts),
        };
        assert_eq!(
            (milestone.state, milestone.attempts),
            (state, attempts),
            "{id}: {milestone:#?}"
        );
        let path = format!("{id}.txt");
        let there = service.github.file(REPO, "agent/graph-main", &path).await.is_ok();
        assert_eq!(there, state == MilestoneState::Done, "{path}");
    }
    assert!(matches!(graph.outlook(limits()), Outlook::Stuck(stuck) if stuck.len() == FAILING.len()));
}

/// One record of each job that was over, and one of the graph as a whole; gives those that failed.
async fn the_ledger_has_it_all(service: &Service, jobs: &[Job]) -> BTreeSet<String> {
    let unattended = || jobs.iter().filter(|job| job.request.trigger.is_unattended());
    let all = unattended().count() + 1;
    until("everything is accounted for", async || {
        records(service).await.len() == all
    })
    .await;
    let records = records(service).await;
    for job in unattended() {
        let of_job = records.iter().filter(|record| record["job"] == job.id.as_str());
        assert_eq!(of_job.count(), 1, "job {}", job.id);
        assert!(matches!(job.state, JobState::Done | JobState::Dead), "{job:#?}");
    }
    let whole: Vec<&Value> = records.iter().filter(|record| record["job"].is_null()).collect();
    assert_eq!((whole.len(), &whole[0]["state"]), (1, &json!("blocked")));
    assert_eq!(whole[0]["milestones"].as_array().map(Vec::len), Some(12));
    let failed: BTreeSet<String> = records
        .iter()
        .filter(|record| !matches!(record["state"].as_str(), Some("done" | "nothing_to_do" | "stopped")))
        // That a stranger may not is as it should be.
        .filter(|record| record["cause"]["by"] != "queue")
        .map(|record| record["id"].as_str().unwrap().to_owned())
        .collect();
    let because = |words: &str| {
        records
            .iter()
            .filter(|record| record["reason"].as_str().unwrap().contains(words))
            .count()
    };
    let away = because("the model is away");
    assert!(away >= 1, "the fire of 06:00 found no model: {records:#?}");
    assert_eq!(because("it never works"), FAILING.len() * 2);
    assert_eq!(failed.len(), away + FAILING.len() * 2 + 1, "{records:#?}");
    failed
}

/// What the operator is told of the queue, for messages of failed assertions.
async fn queue(service: &Service) -> String {
    let folder = service.state_dir();
    let file = folder.parent().unwrap().join("forgehand.toml");
    let status = service
        .command(&["--config", file.to_str().unwrap(), "autotask", "status"])
        .await;
    format!(
        "{}{}",
        String::from_utf8_lossy(&status.stdout),
        String::from_utf8_lossy(&status.stderr)
    )
}

fn told(chat: &HookServer) -> BTreeSet<String> {
    let messages = chat.messages();
    messages
        .iter()
        .map(|message| message.header("x-forgehand-delivery").to_owned())
        .collect()
}

async fn records(service: &Service) -> Vec<Value> {
    let ran = service.command(&["ledger", "--last", "200", "--json"]).await;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let all: Value = serde_json::from_slice(&ran.stdout).unwrap();
    all["records"].as_array().unwrap().clone()
}

/// The clock of the night is no clock of this machine.
#[test]
fn the_steps_of_the_night_are_where_they_are_said_to_be() {
    assert_eq!(step_of("2026-10-25T00:00:00Z"), 12);
    assert_eq!(step_of("2026-10-25T12:00:00Z"), 36);
    assert_eq!(
        (step_of("2026-10-25T05:30:00Z"), step_of("2026-10-25T06:00:00Z")),
        (AWAY, AWAY + 1)
    );
    let clock = Clock::manual(EVENING.parse().unwrap());
    clock.advance(STEP * STEPS);
    assert_eq!(clock.now(), "2026-10-25T18:00:00Z".parse::<DateTime<Utc>>().unwrap());
}
