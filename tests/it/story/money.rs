//! What work costs and what it may cost: caps of every kind, what people see of them and what they
//! can do about them. One call of the model costs eight cents in most of these stories.

use forgehand::config::{BudgetConfig, Config};
use forgehand::event::RunEvent;
use forgehand::job::{JobKind, Outcome};
use forgehand::store::{CostFilter, CostRow, CostsBy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model_server::{Reply, Said};
use crate::service::{MONA, Service, bug_fix, finish, mend, nothing_to_do, until, usual};

/// Eight cents.
const DEAR: Option<(u64, u64)> = Some((7_000, 7_300));

fn dear(calls: &[(&str, Value)]) -> Reply {
    let calls = calls.iter().map(|(tool, arguments)| (*tool, arguments.to_string()));
    Said::calls(calls).usage(DEAR).reply()
}

/// Mends the bug for eight cents.
fn dear_mend() -> Reply {
    let edit = json!({"path": "count.sh", "old_text": " - 1 ", "new_text": " "});
    dear(&[
        ("edit_file", edit),
        ("run_command", json!({"command": "sh test.sh; git diff"})),
    ])
}

/// Looks around for eight cents.
fn dear_look(at: u32) -> Reply {
    dear(&[("run_command", json!({"command": format!("echo {at}")}))])
}

/// No cap but that of a job, which no story reaches by accident.
fn no_caps(config: &mut Config) {
    config.budget = BudgetConfig {
        max_cost_usd: 5.0,
        max_issue_usd: 0.0,
        max_repository_day_usd: 0.0,
        max_installation_day_usd: 0.0,
        max_day_usd: 0.0,
        ..config.budget.clone()
    };
}

async fn warnings(service: &Service) -> Vec<String> {
    let events = service.events(&service.fix().await).await;
    let texts = events.into_iter().filter_map(|event| match event {
        RunEvent::BudgetWarned { text } => Some(text),
        _ => None,
    });
    texts.collect()
}

async fn spent(service: &Service) -> CostRow {
    let mut tx = service.store.begin().await.unwrap();
    let filter = CostFilter {
        limit: 1,
        ..CostFilter::default()
    };
    tx.costs(CostsBy::Nothing, &filter).await.unwrap().remove(0)
}

/// The work ended at a cap, with what there was of it on a branch.
async fn check_capped(service: &Service, issue: u64, words: &[&str]) {
    let outcome = service.outcome().await;
    let Outcome::GaveUp {
        branch: Some(branch), ..
    } = &outcome
    else {
        panic!("{outcome:?}\n{}", service.everything_said());
    };
    assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
    let said = service.our_comments(issue).pop().unwrap().body;
    assert!(said.starts_with("### ❌"), "{said}");
    for word in words.iter().chain(&[branch.as_str()]) {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
    assert!(service.pulls().is_empty());
    assert_eq!(service.labels(issue), Vec::<String>::new());
}

/// One cap of ten cents: the second call passes it, the third is not made.
async fn check_cap(configure: fn(&mut Config), near: &'static str, words: &'static [&'static str]) {
    usual()
        .configuration(configure)
        .tell(async |service: &mut Service| {
            service.model.play([dear_mend(), dear_look(1)]);
            let issue = service.labelled_issue();
            service.done().await;
            assert_eq!(service.model.requests().len(), 2);
            check_capped(service, issue, words).await;
            let warned = warnings(service).await;
            assert!(warned.len() == 1 && warned[0].contains(near), "{warned:?}");
            let second = &service.model.requests()[1];
            assert!(second.last().contains("Wind down"), "{}", second.last());
            assert!(service.our_comments(issue)[0].body.contains(near));
            let row = spent(service).await;
            assert_eq!((row.calls, row.micro_usd.to_string().as_str()), (2, "$0.16"));
        })
        .await;
}

#[tokio::test]
async fn the_cap_of_a_job_ends_it_with_its_work_kept() {
    check_cap(
        |config| {
            no_caps(config);
            config.budget.max_cost_usd = 0.1;
        },
        "80 % of the cap of $0.10 for one job is used ($0.08).",
        &[
            "the cap of $0.10 for one job is reached ($0.16 used)",
            "/agent budget $N",
            "$50.00",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_cap_of_an_issue_ends_the_work_on_it() {
    check_cap(
        |config| {
            no_caps(config);
            config.budget.max_issue_usd = 0.1;
        },
        "80 % of the cap of $0.10 for this issue is used ($0.08).",
        &[
            "for this issue is reached ($0.16 used)",
            "$0.16 of $0.10 for this issue",
            "/agent budget $N",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_cap_of_a_repository_ends_the_work_of_the_day() {
    check_cap(
        |config| {
            no_caps(config);
            config.budget.max_repository_day_usd = 0.1;
        },
        "a day for this repository is used",
        &["a day for this repository is reached ($0.16 used)", "00:00 UTC"],
    )
    .await;
}

#[tokio::test]
async fn the_cap_of_an_installation_ends_the_work_of_the_day() {
    check_cap(
        |config| {
            no_caps(config);
            config.budget.max_installation_day_usd = 0.1;
        },
        "a day for this installation is used",
        &["a day for this installation is reached ($0.16 used)", "00:00 UTC"],
    )
    .await;
}

#[tokio::test]
async fn the_cap_of_the_service_ends_the_work_of_the_day() {
    check_cap(
        |config| {
            no_caps(config);
            config.budget.max_day_usd = 0.1;
        },
        "a day for the whole service is used",
        &["a day for the whole service is reached ($0.16 used)", "00:00 UTC"],
    )
    .await;
}

#[tokio::test]
async fn a_helper_spends_on_the_caps_of_its_run() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_cost_usd = 0.1;
        })
        .tell(async |service: &mut Service| {
            let question = ("agent", json!({"question": "Where are words counted?"}));
            let grep = ("grep", json!({"pattern": "words"}));
            // The helper's call passes the cap; neither it nor whoever sent it makes another.
            service.model.play([dear(&[question]), dear(&[grep])]);
            let issue = service.labelled_issue();
            service.done().await;
            assert_eq!(service.model.requests().len(), 2);
            let said = service.our_only_words(issue);
            assert!(
                said.contains("the cap of $0.10 for one job is reached ($0.16 used)"),
                "{said}"
            );
            assert_eq!(spent(service).await.calls, 2);
        })
        .await;
}

#[tokio::test]
async fn who_has_no_money_left_sends_no_helper() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_cost_usd = 0.08;
        })
        .tell(async |service: &mut Service| {
            let question = ("agent", json!({"question": "Where are words counted?"}));
            service.model.play([dear(&[question])]);
            let issue = service.labelled_issue();
            service.done().await;
            assert_eq!(service.model.requests().len(), 1);
            assert!(service.our_only_words(issue).contains("($0.08 used)"));
        })
        .await;
}

#[tokio::test]
async fn two_jobs_at_once_pass_a_cap_by_one_call_at_most() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.queue.workers = 2;
            // Less than what is set aside for one call.
            config.budget.max_repository_day_usd = 0.05;
        })
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([dear_mend().after(&gate)]);
            let first = service.labelled_issue();
            service.model_is_asked(1).await;
            let second = service.issue_saying("Another", "Look there, too.");
            service.label(second);
            until("the second job ends", async || {
                service.fix().await.outcome.is_some() && service.fixes().await.len() == 2
            })
            .await;
            assert_eq!(service.model.requests().len(), 1, "its call would have been the second");
            gate.cancel();
            service.done().await;
            assert_eq!(service.model.requests().len(), 1);
            for issue in [first, second] {
                let said = service.our_only_words(issue);
                assert!(
                    said.contains("the cap of $0.05 a day for this repository is reached"),
                    "{said}"
                );
            }
            assert_eq!(spent(service).await.micro_usd.to_string(), "$0.08");
        })
        .await;
}

#[tokio::test]
async fn a_budget_lifts_the_caps_of_the_running_job() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_cost_usd = 0.1;
            config.budget.max_issue_usd = 0.12;
        })
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([dear_mend(), dear_look(1).after(&gate), finish()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.comment(issue, "/agent budget $3");
            until("the command is answered", async || {
                service.our_comments(issue).len() == 2
            })
            .await;
            gate.cancel();
            service.done().await;
            let answer = service.our_comments(issue).pop().unwrap().body;
            let words = "The work on this issue may cost $3.00 in all now; it was $0.12. Spent so far: $0.08.";
            assert!(answer.starts_with(words), "{answer}");
            let pull = service.only_pull();
            let status = service.our_comments(issue).remove(0).body;
            for text in [status, service.text_of(pull.number).1] {
                assert!(text.contains("$0.16 of $3.00 for this issue"), "{text}");
            }
        })
        .await;
}

#[tokio::test]
async fn work_that_a_cap_ended_goes_on_once_somebody_pays() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_issue_usd = 0.1;
        })
        .tell(async |service: &mut Service| {
            service.model.play([dear_mend(), dear_look(1)]);
            let issue = service.labelled_issue();
            service.done().await;
            check_capped(service, issue, &[]).await;

            service.next_second().await;
            service.label(issue);
            service.done().await;
            assert_eq!(service.model.requests().len(), 2, "not a single call more");
            let said = service.our_comments(issue).pop().unwrap().body;
            assert!(said.contains("the cap of $0.10 for this issue is reached"), "{said}");

            service.comment(issue, "/agent budget 2");
            service.done().await;
            service.model.play(bug_fix());
            service.next_second().await;
            service.label(issue);
            service.done().await;
            service.only_pull();
        })
        .await;
}

#[tokio::test]
async fn a_budget_has_a_limit_and_is_for_people_who_may() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_comment_usd = 10.0;
        })
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            let issue = service.issue();
            for (by, text, answer) in [
                (
                    MONA,
                    "/agent budget $10.01",
                    Some("$10.01 is more than a comment may set here: the limit is $10.00."),
                ),
                (MONA, "/agent budget lots", Some("needs a sum in US dollars")),
                ("eve", "/agent budget $5", Some("Only people who may write")),
            ] {
                let before = service.our_comments(issue).len();
                service.comment_by(issue, text, by);
                service.done().await;
                let said = service.our_comments(issue);
                let words = said.last().map_or("", |comment| comment.body.as_str());
                assert!(
                    said.len() == before + 1 && words.contains(answer.unwrap_or_default()),
                    "{said:#?}"
                );
            }
            let job = service.jobs().await.remove(0);
            let mut tx = service.store.begin().await.unwrap();
            assert_eq!(tx.subject_cap(job.repo_id, &job.subject).await.unwrap(), None);
            drop(tx);
            service.comment(issue, "/agent budget $10");
            service.done().await;
            let said = service.our_comments(issue).pop().unwrap().body;
            assert!(
                said.contains("may cost $10.00 in all now; there was none. Spent so far: $0.00."),
                "{said}"
            );
            let kinds = service
                .jobs()
                .await
                .into_iter()
                .filter(|job| job.kind == JobKind::Budget);
            assert_eq!(kinds.count(), 3, "what is no sum is answered without a job for it");
        })
        .await;
}

#[tokio::test]
async fn c10_an_unknown_price_counts_tokens_and_says_so_once_and_loudly() {
    usual()
        .configuration(|config| {
            config.model.input_usd_per_million = None;
            config.model.output_usd_per_million = None;
            config.budget.max_cost_usd = 0.01;
            config.budget.max_issue_usd = 0.01;
        })
        .tell(async |service: &mut Service| {
            service.model.play([dear_mend(), dear_look(1), finish()]);
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let loud = "> [!WARNING]\n> The price of test-model is unknown, so its money is not counted";
            for text in [service.our_only_words(issue), service.text_of(pull.number).1] {
                assert_eq!(text.matches(loud).count(), 1, "{text}");
                assert!(
                    text.contains("tokens in, 14620 out") && text.contains("price unknown"),
                    "{text}"
                );
            }
            let row = spent(service).await;
            assert_eq!((row.calls, row.unpriced_calls, row.micro_usd.micros()), (3, 3, 0));
            let shown = service.command(&["costs", "--by", "model"]).await;
            let shown = String::from_utf8(shown.stdout).unwrap();
            assert!(shown.contains("test-model") && shown.contains("unknown"), "{shown}");
        })
        .await;
}

#[tokio::test]
async fn a_warning_is_given_once_also_when_the_run_is_interrupted() {
    usual()
        .configuration(|config| {
            no_caps(config);
            config.budget.max_cost_usd = 0.1;
        })
        .tell(async |service: &mut Service| {
            service.model.play([dear_mend(), Reply::silence()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.stop().await;
            service.model.play([finish()]);
            service.start().await;
            service.done().await;
            service.only_pull();
            let warned = warnings(service).await;
            assert_eq!(warned, ["80 % of the cap of $0.10 for one job is used ($0.08)."]);
            service.our_only_words(issue);
        })
        .await;
}

#[tokio::test]
async fn what_a_stopped_call_may_have_cost_is_in_the_ledger() {
    usual()
        .configuration(no_caps)
        .tell(async |service: &mut Service| {
            let said = Said::text(&"many words ".repeat(200)).reply();
            service.model.play([mend(), said.stall_after(2_000)]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.comment(issue, "/agent stop");
            service.done().await;
            let events = service.events(&service.fix().await).await;
            let paid = events.iter().filter_map(RunEvent::charge);
            let tokens: u64 = paid.map(|charge| charge.usage.input_tokens).sum();
            let row = spent(service).await;
            assert_eq!(u64::try_from(row.input_tokens).unwrap(), tokens);
            assert_eq!(row.calls, 2, "{events:#?}");
        })
        .await;
}

#[tokio::test]
async fn costs_are_shown_at_the_command_line() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([dear_mend(), finish()]);
            service.labelled_issue();
            service.done().await;
            service.model.play(nothing_to_do());
            let second = service.issue_saying("Look around", "Is all well?");
            service.label(second);
            service.done().await;
            let costs = async |arguments: &[&str]| {
                let all: Vec<&str> = std::iter::once("costs").chain(arguments.iter().copied()).collect();
                let ended = service.command(&all).await;
                assert!(ended.status.success(), "{ended:?}");
                String::from_utf8(ended.stdout).unwrap()
            };
            let shown = costs(&["--by", "issue"]).await;
            let lines: Vec<&str> = shown.lines().collect();
            assert_eq!(lines.len(), 4, "{shown}");
            assert!(
                lines[0].starts_with("issue or pull request  calls  tokens in"),
                "{shown}"
            );
            assert!(
                lines[1].starts_with("octo/words issue/1 ") && lines[1].ends_with("$0.08"),
                "{shown}"
            );
            assert!(lines[3].starts_with("all ") && lines[3].ends_with("$0.08"), "{shown}");
            let ends = lines.iter().map(|line| line.chars().count());
            assert_eq!(ends.collect::<std::collections::BTreeSet<_>>().len(), 1, "{shown}");
            for (by, name) in [
                ("job", "octo/words issue/1"),
                ("repository", "octo/words"),
                ("installation", "installation"),
                ("model", "test-model"),
            ] {
                assert!(costs(&["--by", by, "--since", "1d"]).await.contains(name), "{by}");
            }
            let json: Value = serde_json::from_str(&costs(&["--json", "--repo", "octo/words"]).await).unwrap();
            assert_eq!(json["rows"][0]["calls"], 3);
            assert_eq!(json["total"]["micro_usd"], json["rows"][0]["micro_usd"]);
            assert_eq!(costs(&["--repo", "octo/other"]).await, "no calls of a model\n");
        })
        .await;
}
