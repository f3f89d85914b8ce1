//! A run that needs a person: it asks in its status comment, waits for nothing, and goes on with
//! the answer of somebody who may give it.

use forgehand::demo::double::Fault;
use forgehand::event::RunEvent;
use forgehand::intake::Command;
use forgehand::job::{JobState, Outcome};
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, finish, lasting, mend, nothing_to_do, until, usual};

/// The model asks two things.
fn ask_two() -> Reply {
    let questions = json!([
        "Do tabs count as spaces,\n/agent fix everything?",
        "Shall @torvalds know?"
    ]);
    Reply::call("ask_user", json!({"questions": questions}))
}

/// The model asks for a yes.
fn ask_yes() -> Reply {
    let arguments = json!({"action": "Count tabs, too", "consequence": "Other sums change."});
    Reply::call("confirm", arguments)
}

/// Lets the agent mend the bug and then ask, and waits until people can read it.
async fn asked(service: &Service, question: Reply) -> u64 {
    service.model.play([mend(), question]);
    let issue = service.labelled_issue();
    until("people are asked", async || {
        service
            .our_comments(issue)
            .iter()
            .any(|comment| comment.body.starts_with("### 🙋"))
    })
    .await;
    assert_eq!(service.fix().await.state, JobState::Waiting);
    issue
}

/// The output of the model's last call before the request with this number, from 0.
fn output(service: &Service, request: usize) -> String {
    let requests = service.model.requests();
    let messages = requests[request].messages();
    let last = messages.last().expect("a message");
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().unwrap_or_default().to_owned()
}

/// The job ends with the mended file on a branch, and says why.
async fn check_kept(service: &Service, issue: u64, mark: &str, why: &str) {
    service.done().await;
    let outcome = service.outcome().await;
    let (Outcome::Stopped { branch, .. } | Outcome::GaveUp { branch, .. }) = &outcome else {
        panic!("{outcome:?}\n{}", service.everything_said());
    };
    let branch = branch.clone().unwrap_or_else(|| panic!("{outcome:?}"));
    assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
    let words = service.our_comments(issue).remove(0).body;
    assert!(words.starts_with(mark), "{words}");
    assert!(words.contains(why) && words.contains(branch.as_str()), "{words}");
    assert!(service.pulls().is_empty());
    assert_eq!(service.labels(issue), Vec::<String>::new());
    assert_eq!(service.model.requests().len(), 2, "no model is asked to end it");
}

#[tokio::test]
async fn a_question_pauses_the_job_and_its_answer_ends_in_a_pull_request() {
    usual()
        .configuration(|config| config.queue.workers = 1)
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("two_questions", lasting(&words));
            assert!(Command::parse(&words, "/agent").is_none(), "{words}");
            assert!(!words.contains("Shall @torvalds"), "{words}");
            assert_eq!(service.labels(issue), ["agent"], "the label stays until the end");
            // The only worker is free meanwhile.
            service.model.play(nothing_to_do());
            let other = service.issue_saying("Look around", "Is all well?");
            service.label(other);
            until("other work is done", async || {
                service
                    .our_comments(other)
                    .iter()
                    .any(|comment| comment.body.starts_with("### ☑️"))
            })
            .await;
            service.model.play([finish()]);
            let answer = service.comment(issue, "/agent answer 2. no\n1) yes, they do");
            service.done().await;
            let pull = service.only_pull();
            assert!(!service.file(&pull.head, "count.sh").await.contains(" - 1"));
            let told = output(service, 3);
            assert!(told.starts_with("mona answered:\n- to \"Do tabs count"), "{told}");
            assert!(
                told.contains("everything?\": yes, they do\n") && told.contains("know?\": no\n"),
                "{told}"
            );
            assert!(told.contains("The words of a person"), "{told}");
            let job = service.fixes().await.remove(0);
            assert!(
                service
                    .our_only_words(issue)
                    .starts_with(&format!("### ✅ Done: #{}", pull.number))
            );
            assert!(!service.our_only_words(issue).contains("attempt 2"));
            let comments = service.github.comments(REPO, issue).unwrap();
            let answer = comments.into_iter().find(|comment| comment.id == answer).unwrap();
            assert!(answer.reactions.iter().any(|reaction| reaction.content == "eyes"));
            let events = service.events(&job).await;
            assert!(events.contains(&RunEvent::Answered { by: MONA.to_owned() }));
        })
        .await;
}

#[tokio::test]
async fn only_words_of_people_who_may_write_are_an_answer() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            let issue = asked(service, ask_two()).await;
            for text in ["/agent answer yes", "/agent approve", "/agent fix Do as eve says."] {
                service.comment_by(issue, text, "eve");
                service.github.deliveries_settled().await;
                until("eve's command is over", async || {
                    let jobs = service.jobs().await;
                    jobs.iter()
                        .all(|job| job.state.is_final() || job.state == JobState::Waiting)
                })
                .await;
            }
            let said = service.our_comments(issue);
            assert_eq!(said.len(), 2, "{said:#?}");
            assert!(said[0].body.starts_with("### 🙋"), "{}", said[0].body);
            assert!(
                said[1].body.starts_with("Only people who may write"),
                "{}",
                said[1].body
            );
            assert_eq!(service.fixes().await.len(), 1);
            service.model.play([finish()]);
            service.comment(issue, "/agent answer Tabs count.");
            service.done().await;
            service.only_pull();
            assert!(!output(service, 2).contains("eve"), "{}", output(service, 2));
        })
        .await;
}

#[tokio::test]
async fn work_that_waits_is_kept_when_it_is_stopped() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            service.comment(issue, "/agent stop");
            check_kept(service, issue, "### ⏹️ Stopped", "mona asked to stop").await;
        })
        .await;
}

#[tokio::test]
async fn closing_the_issue_and_taking_the_label_off_stop_work_that_waits() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_yes()).await;
            service.github.close_issue(REPO, issue, MONA).unwrap();
            check_kept(service, issue, "### ⏹️ Stopped", "the issue was closed").await;
        })
        .await;
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_yes()).await;
            service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            check_kept(service, issue, "### ⏹️ Stopped", "the label was removed").await;
        })
        .await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_the_job_and_keeps_its_work() {
    usual()
        .configuration(|config| config.queue.answer_days = 1.5 / 86_400.0)
        .tell(async |service: &mut Service| {
            service.model.play([mend(), ask_two()]);
            let issue = service.labelled_issue();
            check_kept(service, issue, "### ❌", "nobody answered the question by").await;
        })
        .await;
}

#[tokio::test]
async fn a_restarted_service_goes_on_with_the_answer() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            service.stop().await;
            service.model.play([finish()]);
            service.start().await;
            service.comment(issue, "/agent answer 1. yes");
            service.done().await;
            service.only_pull();
            let job = service.fix().await;
            let events = service.events(&job).await;
            assert!(events.iter().any(|event| matches!(event, RunEvent::RunResumed { .. })));
            assert_eq!(service.model.requests().len(), 3);
        })
        .await;
}

#[tokio::test]
async fn another_machine_goes_on_with_the_stored_work() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            service.stop().await;
            std::fs::remove_dir_all(service.state_dir().join("runs")).unwrap();
            std::fs::remove_dir_all(service.state_dir().join("mirrors")).unwrap();
            let look = json!({"command": "git status --short; git log --oneline"});
            service.model.play([Reply::call("run_command", look), finish()]);
            service.start().await;
            service.comment(issue, "/agent answer 1. yes");
            service.done().await;
            let pull = service.only_pull();
            assert!(!service.file(&pull.head, "count.sh").await.contains(" - 1"));
            let seen = output(service, 3);
            assert!(seen.contains(" M count.sh"), "{seen}");
            assert!(output(service, 2).contains("yes"));
        })
        .await;
}

#[tokio::test]
async fn t14_an_answer_delivered_twice_is_heard_once() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            service.model.play([finish()]);
            service.comment(issue, "/agent answer 1. yes");
            let deliveries = service.github.deliveries();
            let guid = deliveries.last().expect("it was sent").guid.clone();
            service.github.deliver_twice_at_once(&guid).unwrap();
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.done().await;
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.done().await;
            service.only_pull();
            assert_eq!(output(service, 2).matches("answered").count(), 1);
            assert_eq!(service.jobs().await.len(), 2);
            service.our_only_words(issue);
        })
        .await;
}

#[tokio::test]
async fn answers_that_come_before_the_run_goes_on_are_merged() {
    usual()
        .configuration(|config| config.queue.workers = 1)
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_two()).await;
            let gate = service.occupied().await;
            service.comment(issue, "/agent answer 1. yes");
            service.next_second().await;
            service.comment(issue, "/agent fix 2. rather not");
            service.github.deliveries_settled().await;
            service.model.play([finish()]);
            gate.cancel();
            service.done().await;
            service.only_pull();
            let told = output(service, 3);
            let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
            assert!(at(": yes") < at(": rather not"), "{told}");
            assert_eq!(service.fixes().await.len(), 2);
        })
        .await;
}

#[tokio::test]
async fn a_question_that_github_did_not_take_is_shown_later() {
    usual()
        .tell(async |service: &mut Service| {
            let edit = "PATCH /repos/octo/words/issues/comments/*";
            service.github.fault(edit, Fault::status(502, "bad gateway"), 3);
            let issue = asked(service, ask_two()).await;
            assert!(service.github.unused_faults().is_empty());
            service.comment(issue, "/agent stop");
            check_kept(service, issue, "### ⏹️ Stopped", "mona asked to stop").await;
        })
        .await;
}

#[tokio::test]
async fn an_approval_is_a_yes() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = asked(service, ask_yes()).await;
            let words = service.our_only_words(issue);
            assert!(words.contains("1. May I go on with this? Count tabs, too"), "{words}");
            assert!(
                words.contains("Other sums change.") && words.contains("`/agent approve`"),
                "{words}"
            );
            service.model.play([finish()]);
            service.comment(issue, "/agent approve");
            service.done().await;
            service.only_pull();
            assert_eq!(output(service, 2), "yes");
        })
        .await;
}

#[tokio::test]
async fn an_answer_where_nothing_waits_says_so() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.comment(issue, "/agent answer 42");
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("Nothing here waits for an answer"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn a_service_that_asks_nobody_lets_the_agent_decide() {
    usual()
        .configuration(|config| config.queue.answer_days = 0.0)
        .tell(async |service: &mut Service| {
            service.model.play([mend(), ask_two(), finish()]);
            service.labelled_issue();
            service.done().await;
            service.only_pull();
            let told = output(service, 2);
            assert!(told.contains("decide yourself, and name what you assumed"), "{told}");
            let offered = service.model.requests()[0].body["tools"].to_string();
            assert!(
                !offered.contains(r#""name":"ask_user""#) && !offered.contains(r#""name":"confirm""#),
                "{offered}"
            );
        })
        .await;
}

#[tokio::test]
async fn an_operator_sees_the_question_and_answers_it() {
    usual()
        .tell(async |service: &mut Service| {
            asked(service, ask_two()).await;
            let id = service.fix().await.id.to_string();
            let said = async |arguments: Vec<&str>| {
                let ended = service.command(&arguments).await;
                let all = [ended.stdout, ended.stderr].concat();
                (ended.status.code(), String::from_utf8_lossy(&all).into_owned())
            };
            let (code, listed) = said(vec!["jobs", "list", "--state", "waiting"]).await;
            assert_eq!(code, Some(0), "{listed}");
            assert!(
                listed.contains(&id) && listed.contains("a person has to answer"),
                "{listed}"
            );
            let (_, shown) = said(vec!["jobs", "show", &id]).await;
            assert!(
                shown.contains("1. Do tabs count") && shown.contains("2. Shall"),
                "{shown}"
            );
            service.model.play([finish()]);
            let (code, answered) = said(vec!["jobs", "answer", &id, "1. yes"]).await;
            assert_eq!(code, Some(0), "{answered}");
            service.done().await;
            service.only_pull();
            let told = output(service, 2);
            assert!(told.contains("the operator answered") && told.contains("yes"), "{told}");
            let (code, late) = said(vec!["jobs", "answer", &id, "no"]).await;
            assert_eq!(code, Some(1), "{late}");
            assert!(late.contains("asks nothing"), "{late}");
        })
        .await;
}
