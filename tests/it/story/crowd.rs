//! Many people at once: every comment gets its own answer, and only one job works at a time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use forgehand::demo::double::NewPullByPerson;
use forgehand::effect::EffectState;
use forgehand::event::RunEvent;
use forgehand::ids::CommentId;
use forgehand::job::{Job, JobState, Trigger};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, until, usual};

/// The first request, which is stopped while it is worked on.
const FIRST: &str = "/agent fix Write down what is counted.";
const STOP: &str = "/agent stop";
/// What is said then, all at once.
const SAID: [&str; 18] = [
    "/agent fix",
    "/agent status",
    "/agent help",
    "/agent ask What does count.sh do?",
    "/agent plan Keep it small.",
    "/agent dance",
    "/agent budget $5",
    "/agent review",
    "/agent retry",
    "/agent fix Mind the tabs, too.",
    "Hello,\n\n/agent status",
    "/agent ask And test.sh?",
    "/agent",
    "/agent approve",
    "/agent answer 42",
    "/agent create",
    "/agent revise Differently.",
    "/agent fix And the spaces.",
];

/// What a model says to whatever it is asked: it looks at the tools that it has.
fn reply_to(body: &Value, files: &AtomicUsize) -> Reply {
    let tools = body["tools"].to_string();
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    if tools.contains("\"propose_plan\"") {
        return Reply::call("propose_plan", json!({"summary": "A small plan.", "steps": ["Do it."]}));
    }
    if tools.contains("\"answer\"") {
        return Reply::call("finish", json!({"answer": "It counts words."}));
    }
    if tools.contains("over_engineering_why") {
        let why = "No.";
        return Reply::call(
            "finish",
            json!({"verdict": "pass", "summary": "It is fine.", "foundation": 0, "foundation_why": why,
                   "over_engineering": 0, "over_engineering_why": why, "volume": 0, "volume_why": why,
                   "terminology": 0, "terminology_why": why}),
        );
    }
    if last.is_some_and(|last| last["role"] == "tool") {
        return Reply::finish("Say more", "It says more.");
    }
    let file = format!("note-{}.txt", files.fetch_add(1, Ordering::Relaxed));
    Reply::change("write_file", json!({"path": file, "content": "x\n"}))
}

async fn pull(service: &Service) -> u64 {
    let files = [("mine.txt", "mine\n")];
    service
        .github
        .push(REPO, "feature", &files, "Mine", MONA)
        .await
        .unwrap();
    let new = NewPullByPerson {
        head_repo: REPO,
        head: "feature",
        base: "main",
        title: "Say more",
        body: "It says more.",
        by: MONA,
    };
    service.github.open_pull(REPO, new).await.unwrap()
}

/// No two jobs that work on the same place were in hand at the same time.
async fn check_one_at_a_time(service: &Service, jobs: &[Job]) {
    let mut spans = Vec::new();
    for job in jobs.iter().filter(|job| job.kind.is_work()) {
        let mut tx = service.store.begin().await.unwrap();
        let events = tx.events(&job.id, 0, 10_000).await.unwrap();
        let claimed = events
            .iter()
            .find(|event| matches!(event.body, RunEvent::Claimed { .. }));
        if let (Some(first), Some(last)) = (claimed, events.last()) {
            spans.push((first.at, last.at, job.id.clone()));
        }
    }
    spans.sort();
    for pair in spans.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two jobs at once: {pair:#?}");
    }
    assert!(spans.len() > 3, "{spans:?}");
}

/// The comments that answer a comment, as GitHub numbers them. Words that were passed on to work that ended
/// without them have a job of their own, which goes on in the same comment.
async fn answers(service: &Service, jobs: &[Job], asked: u64) -> BTreeSet<String> {
    let trigger = Trigger::Comment { id: CommentId(asked) };
    let mut answers = BTreeSet::new();
    for job in jobs.iter().filter(|job| job.request.trigger == trigger) {
        let mut tx = service.store.begin().await.unwrap();
        let effects = tx.effects(&job.id).await.unwrap();
        let comments = effects
            .into_iter()
            .filter(|effect| matches!(effect.body.kind(), "status_comment" | "comment" | "tell_created"));
        let done = comments.filter(|effect| effect.state == EffectState::Done);
        answers.extend(done.filter_map(|effect| effect.remote_id));
    }
    answers
}

#[tokio::test]
async fn t4_twenty_comments_in_a_minute_get_twenty_answers_and_one_job_works_at_a_time() {
    usual()
        .repository(|seed| {
            seed.file("count.sh", "echo $(( $(wc -w) ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
        })
        .configuration(|config| {
            config.queue.answer_days = 0.0;
            config.queue.workers = 4;
        })
        .tell(async |service: &mut Service| {
            let begun = tokio::time::Instant::now();
            let pull = pull(service).await;
            let gate = CancellationToken::new();
            let (first, files) = (gate.clone(), AtomicUsize::new(0));
            service.model.answer_with(move |body| {
                let reply = reply_to(body, &files);
                if first.is_cancelled() { reply } else { Reply::silence() }
            });
            let asked = service.comment(pull, FIRST);
            service.model_is_asked(1).await;
            let mut all = vec![asked, service.comment(pull, STOP)];
            until("the first is stopped", async || {
                service.jobs().await.iter().all(|job| job.state.is_final())
            })
            .await;
            gate.cancel();
            all.extend(SAID.map(|words| service.comment(pull, words)));
            assert!(begun.elapsed().as_secs() < 60, "it is one minute");
            service.done().await;

            let jobs = service.jobs().await;
            let ours = service.our_comments(pull);
            let mut answered = BTreeSet::new();
            for (at, comment) in all.iter().enumerate() {
                let answers = answers(service, &jobs, *comment).await;
                let said = [FIRST, STOP].iter().chain(&SAID).nth(at).unwrap();
                if *said == STOP {
                    let stopped = ours.iter().find(|comment| comment.body.starts_with("### \u{23f9}"));
                    assert!(stopped.is_some(), "{}", service.everything_said());
                    continue;
                }
                assert_eq!(answers.len(), 1, "{said:?}\n{}", service.everything_said());
                answered.extend(answers);
            }
            assert_eq!(answered.len(), 19, "each has an answer of its own");
            assert_eq!(ours.len(), 19, "and nothing else is said");
            assert!(jobs.iter().all(|job| job.state != JobState::Dead), "{jobs:#?}");
            check_one_at_a_time(service, &jobs).await;
        })
        .await;
}
