//! The ways a run can end, and what people are told of each.

use forgehand::job::Outcome;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, lasting, mend, note, usual};

fn finish_as(status: &str, reason: &str) -> Reply {
    Reply::call("finish", json!({"status": status, "summary": reason}))
}

/// A repository with a check that passes, beside the one that fails.
fn with_lint(seed: forgehand::demo::double::RepositorySeed) -> forgehand::demo::double::RepositorySeed {
    seed.file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
        .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
        .file("lint.sh", "! grep -n FIXME count.sh\n")
        .file(".github/forgehand.toml", "test = [\"sh test.sh\", \"sh lint.sh\"]\n")
        .commit("Count words")
}

fn break_lint() -> Reply {
    let content = "# FIXME\nwc -w\n";
    Reply::change("write_file", json!({"path": "count.sh", "content": content}))
}

fn mend_lint() -> Reply {
    Reply::change("write_file", json!({"path": "count.sh", "content": "wc -w\n"}))
}

#[tokio::test]
async fn p8_nothing_to_do_is_no_failure() {
    usual()
        .tell(async |service: &mut Service| {
            service
                .model
                .play([finish_as("nothing_to_do", "The count is right: `a b` has one gap.")]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(
                words.starts_with("### ☑️ No change needed") && words.contains("one gap"),
                "{words}"
            );
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_refusal_is_passed_on_with_its_reason() {
    usual()
        .tell(async |service: &mut Service| {
            service
                .model
                .play([finish_as("refused", "This would delete data of users.")]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("### 🚫") && words.contains("delete data"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn p11_a_used_up_budget_keeps_the_work_on_a_branch() {
    usual()
        .configuration(|config| config.budget.max_turns = 3)
        .tell(async |service: &mut Service| {
            let look = || Reply::call("glob", json!({"pattern": "*"}));
            service
                .model
                .play([mend(), look(), Reply::call("list_directory", json!({}))]);
            let issue = service.labelled_issue();
            service.done().await;
            let Outcome::GaveUp {
                branch: Some(branch), ..
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("limit_reached", lasting(&words));
            assert!(words.contains(branch.as_str()), "{words}");
            assert!(service.pulls().is_empty());
        })
        .await;
}

/// The model refuses to serve us: the job ends at once and says why.
async fn check_model_error(status: u16, said: &'static str, words: &'static str) {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([Reply::error(status, said)]);
            let issue = service.labelled_issue();
            service.done().await;
            let told = service.our_only_words(issue);
            assert!(told.starts_with("### ❌") && told.contains(words), "{told}");
            assert_eq!(service.fix().await.attempt, 1);
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}

#[tokio::test]
async fn l32_an_empty_account_ends_the_job_at_once() {
    check_model_error(402, "insufficient credits", "payment").await;
}

#[tokio::test]
async fn a_refused_model_key_ends_the_job_at_once() {
    check_model_error(401, "invalid api key", "invalid api key").await;
}

#[tokio::test]
async fn a_model_that_fails_once_is_asked_again() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([Reply::error(500, "overloaded")]);
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            service.only_pull();
        })
        .await;
}

#[tokio::test]
async fn a_broken_check_goes_back_to_the_agent_who_repairs_it() {
    usual()
        .repository(with_lint)
        .tell(async |service: &mut Service| {
            service.model.play([break_lint(), finish(), mend_lint(), finish()]);
            service.labelled_issue();
            service.done().await;
            let asked = service.model.requests();
            let told = asked[2].last();
            assert!(
                told.contains("`sh lint.sh` ends with exit code 1") && told.contains("FIXME"),
                "{told}"
            );
            let pull = service.only_pull();
            let (_, body) = service.text_of(pull.number);
            let row = body.lines().find(|line| line.starts_with("| `sh lint.sh` |")).unwrap();
            assert_eq!(row.matches("✅ exit 0").count(), 2, "{row}");
        })
        .await;
}

#[tokio::test]
async fn a_check_that_stays_broken_keeps_the_work_from_being_offered() {
    usual()
        .repository(with_lint)
        .tell(async |service: &mut Service| {
            service.model.play([break_lint(), finish(), finish()]);
            let issue = service.labelled_issue();
            service.done().await;
            let Outcome::GaveUp {
                branch: Some(branch), ..
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert!(service.file(branch.as_str(), "count.sh").await.contains("FIXME"));
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("broken_check", lasting(&words));
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn m06_m07_a_weakened_test_stands_under_risks_whatever_the_summary_says() {
    usual()
        .tell(async |service: &mut Service| {
            let weaken = Reply::change("write_file", json!({"path": "test.sh", "content": "echo ok\nexit 0\n"}));
            let proud = Reply::finish("Count the last word", "All 12 tests pass and nothing is risky.");
            service.model.play([weaken, proud]);
            service.labelled_issue();
            service.done().await;
            let (_, body) = service.text_of(service.only_pull().number);
            let risks = body
                .split("## Risks")
                .nth(1)
                .and_then(|rest| rest.split("## ").next())
                .unwrap();
            assert!(
                risks.contains("A failure may be swallowed in") && risks.contains("exit 0"),
                "{body}"
            );
            assert!(risks.contains("An existing test was edited"), "{body}");
            let verified = body
                .split("## Verification")
                .nth(1)
                .and_then(|rest| rest.split("## ").next())
                .unwrap();
            assert!(
                verified.contains("| `sh test.sh` |") && !verified.contains("12 tests"),
                "{body}"
            );
        })
        .await;
}

#[tokio::test]
async fn g18_a_change_to_workflows_is_refused_and_the_agent_is_told() {
    usual()
        .tell(async |service: &mut Service| {
            let undo = Reply::call("run_command", json!({"command": "rm -r .github && sh test.sh"}));
            let script = [note(".github/workflows/ci.yml"), mend(), finish(), undo, finish()];
            service.model.play(script);
            service.labelled_issue();
            service.done().await;
            let asked = service.model.requests();
            let told = asked[3].last();
            assert!(told.contains(".github/workflows/ci.yml"), "{told}");
            let pull = service.only_pull();
            let diff = service.github.diff(REPO, "main", &pull.head).await.unwrap();
            assert!(diff.contains("count.sh") && !diff.contains("workflows"), "{diff}");
        })
        .await;
}

#[tokio::test]
async fn a_change_that_keeps_breaking_rules_ends_with_the_rule() {
    usual()
        .tell(async |service: &mut Service| {
            let script = [note(".github/workflows/ci.yml"), finish(), finish(), finish()];
            service.model.play(script);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("against_the_rules", lasting(&words));
            assert_eq!(service.github.branches(REPO).unwrap(), ["main"]);
        })
        .await;
}

#[tokio::test]
async fn s18_without_a_sandbox_nothing_is_run() {
    usual()
        .configuration(|config| config.sandbox.helper = Some("/nonexistent/helper".into()))
        .tell(async |service: &mut Service| {
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(
                words.starts_with("### ❌") && words.contains("sandbox_unavailable"),
                "{words}"
            );
            assert!(service.model.requests().is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_status_comment_that_somebody_deletes_stays_deleted() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            let ours = service.our_comments(issue).remove(0).id;
            service.github.delete_comment(REPO, ours, MONA).unwrap();
            gate.cancel();
            service.done().await;
            service.only_pull();
            assert!(service.our_comments(issue).is_empty());
        })
        .await;
}
