//! Work that no issue holds: what the operator planned becomes a pull request of its own, and more of
//! it goes there as long as it is open.

use chrono::{DateTime, Utc};
use forgehand::clock::Clock;
use forgehand::event::RunEvent;
use forgehand::github::GitHub;
use forgehand::ids::{JobId, Subject};
use forgehand::job::{Actor, JobKind, NewJob, Outcome, Pins, Request, Trigger};
use forgehand::secret::Redactor;
use forgehand::unattended::locate;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, note, usual, with_bug};

fn fire_at() -> DateTime<Utc> {
    "2026-10-25T02:30:00Z".parse().unwrap()
}

fn nightly() -> Trigger {
    Trigger::Schedule {
        name: "nightly".into(),
        fire_at: fire_at(),
    }
}

fn milestone(acceptance: Option<&str>) -> Trigger {
    Trigger::Milestone {
        graph: "main".into(),
        milestone: "count".into(),
        acceptance: acceptance.map(str::to_owned),
    }
}

/// Inserts a job as the operator's plans do.
pub(super) async fn plan(service: &Service, trigger: Trigger) -> JobId {
    let github = GitHub::new(&service.config.github, Clock::System, Redactor::default()).unwrap();
    let repo = locate(&github, &service.store, &REPO.parse().unwrap()).await.unwrap();
    let mut tx = service.store.begin().await.unwrap();
    let now = tx.db_now().await.unwrap();
    let job = NewJob {
        repo_id: repo.id,
        repo: repo.name,
        installation: repo.installation,
        kind: JobKind::Fix,
        subject: Subject::task("count words"),
        dedupe_key: None,
        priority: 0,
        run_at: now,
        max_attempts: 3,
        request: Request {
            trigger,
            actor: Actor::operator(),
            instructions: String::new(),
            triggered_at: now,
        },
        pins: Pins {
            title: Some("Count every word".into()),
            body: Some("`sh test.sh` has to pass.".into()),
            ..Pins::default()
        },
    };
    let id = tx.insert_job(&job, now).await.unwrap().expect("nothing is in its way");
    tx.commit().await.unwrap();
    id
}

#[tokio::test]
async fn a_planned_task_becomes_a_draft_and_more_of_it_goes_there() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            plan(service, nightly()).await;
            service.done().await;
            let pull = service.only_pull();
            assert_eq!(pull.head, "agent/count-words");
            assert!(pull.draft);
            let (title, body) = service.text_of(pull.number);
            assert_eq!(title, "Count the last word");
            let planned = "Planned by the schedule `nightly`, for 2026-10-25 02:30 UTC.";
            assert!(body.contains(planned), "{body}");
            assert!(!body.contains("Fixes #"), "{body}");
            let prompt = service.model.requests()[0].body.to_string();
            assert!(prompt.contains("`sh test.sh` has to pass."), "{prompt}");
            assert_eq!(service.our_comments(pull.number).len(), 0, "nobody asked there");

            service.model.play([note("more.txt"), finish()]);
            plan(service, nightly()).await;
            service.done().await;
            assert_eq!(service.only_pull().head, pull.head);
            assert!(matches!(service.outcome().await, Outcome::Pushed { .. }));
            assert_eq!(service.file(&pull.head, "more.txt").await, "x\n");
            assert!(
                !service.file(&pull.head, "count.sh").await.contains("- 1"),
                "on top of it"
            );

            service.github.close_issue(REPO, pull.number, "mona").unwrap();
            service.model.play(bug_fix());
            plan(service, nightly()).await;
            service.done().await;
            let pulls = service.pulls();
            assert_eq!(pulls.len(), 2, "one that is closed is not gone on with");
            assert_ne!(pulls[1].head, pull.head);
            let more = service.github.file(REPO, &pulls[1].head, "more.txt").await;
            assert!(more.is_err(), "it begins at the base again");
        })
        .await;
}

#[tokio::test]
async fn the_acceptance_command_alone_decides() {
    usual()
        .repository(|seed| {
            with_bug(seed)
                .file("lint.sh", "grep -q ' - 1 ' count.sh\n")
                .file(".github/forgehand.toml", "test = [\"sh lint.sh\"]\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            // The change does not pass, also not when it is shown so.
            service.model.play([note("a.txt"), finish(), finish(), finish()]);
            plan(service, milestone(Some("sh test.sh"))).await;
            service.done().await;
            let Outcome::GaveUp { reason, branch } = service.outcome().await else {
                panic!("{:?}", service.outcome().await);
            };
            assert!(
                reason.starts_with("the acceptance command `sh test.sh` does not pass"),
                "{reason}"
            );
            assert!(
                reason.contains("counted 1"),
                "what it said goes to the next attempt: {reason}"
            );
            assert!(branch.is_some());
            assert_eq!(service.pulls().len(), 0);

            // It passes although another check breaks with it.
            service.model.play([mend(), finish()]);
            plan(service, milestone(Some("sh test.sh"))).await;
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Opened { .. }), "{outcome:?}");
            let (_, body) = service.text_of(service.only_pull().number);
            assert!(body.contains("Milestone `count` of the work graph `main`."), "{body}");

            // On the branch of the pull request nothing is left to do: no model is asked.
            let asked = service.model.requests().len();
            plan(service, milestone(Some("sh test.sh"))).await;
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::NothingToDo { .. }), "{outcome:?}");
            assert_eq!(service.model.requests().len(), asked);
        })
        .await;
}

#[tokio::test]
async fn an_agent_that_sees_nothing_to_do_does_not_pass_the_acceptance() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([Reply::call("finish", json!({"status": "nothing_to_do", "summary": "All is well."}))]);
            let job = plan(service, milestone(Some("sh test.sh"))).await;
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::GaveUp { .. }), "{outcome:?}");
            let jobs = service.jobs().await;
            let events = service.events(jobs.iter().find(|other| other.id == job).unwrap()).await;
            let by = |event: &RunEvent| matches!(event, RunEvent::Authorized { permission, .. } if permission == "the operator");
            assert!(events.iter().any(by));
        })
        .await;
}

/// The command passes in the middle of the merge, because of the work that is to be carried over.
#[tokio::test]
async fn finished_work_is_carried_over_a_conflict_although_its_command_passes_there() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            plan(service, nightly()).await;
            service.done().await;
            let branch = service.only_pull().head;
            let (gate, asked) = (CancellationToken::new(), service.model.requests().len());
            let settle = "printf 'mine\\nx\\n' > more.txt; sh test.sh; git diff";
            service.model.play([note("more.txt"), finish().after(&gate)]);
            service
                .model
                .play([Reply::call("run_command", json!({"command": settle})), finish()]);
            plan(service, milestone(Some("test -f more.txt"))).await;
            service.model_is_asked(asked + 2).await;
            let mine = ("more.txt", "mine\n");
            service.github.push(REPO, &branch, &[mine], "Mine", MONA).await.unwrap();
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Pushed { .. }), "{outcome:?}");
            assert_eq!(service.file(&branch, "more.txt").await, "mine\nx\n");
        })
        .await;
}
