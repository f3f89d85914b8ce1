//! Queues of issues, worked on by a service that GitHub cannot reach.

use std::time::Duration;

use forgehand::clock::Clock;
use forgehand::config::Config;
use forgehand::demo::double::Fault;
use forgehand::github::GitHub;
use forgehand::job::{JobState, Outcome, Trigger};
use forgehand::secret::Redactor;
use forgehand::unattended::autotask::{Autotask, Looked, When};
use tokio_util::sync::CancellationToken;

use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, nothing_to_do, until, usual};

const LIST: &str = "/repos/octo/words/issues";

/// A queue of the label `ready`, looked at all the time; no webhook is made up for.
fn queue(config: &mut Config) {
    config.github.poll_seconds = Some(Duration::ZERO);
    config.autotask.enabled = true;
    config.autotask.repositories = vec![REPO.to_owned()];
    config.autotask.label = Some("ready".to_owned());
    config.autotask.every_seconds = Duration::from_millis(50);
}

/// GitHub's webhooks go to the discard port.
fn out_of_reach(service: &Service) {
    service
        .github
        .hooks("http://127.0.0.1:9/webhook", &service.github.webhook_secret());
}

/// Mona opens the usual issue and puts it into the queue.
fn queued_issue(service: &Service) -> u64 {
    let issue = service.issue();
    service.github.label_issue(REPO, issue, "ready", MONA).unwrap();
    issue
}

fn looks(service: &Service) -> usize {
    let requests = service.github.requests();
    requests
        .iter()
        .filter(|it| it.path == LIST && it.method == "GET" && it.query.contains("labels"))
        .count()
}

/// Waits until the queue was looked at so often again.
async fn looked_at(service: &Service, times: usize) {
    let begun = looks(service);
    until("the queue is looked at", async || looks(service) >= begun + times).await;
}

async fn worked(service: &Service, jobs: usize) {
    until(&format!("{jobs} jobs are made"), async || {
        service.works().await.len() >= jobs
    })
    .await;
    service.done().await;
}

/// One look, now, by another process than the service.
async fn look(service: &Service) -> Looked {
    let config = &service.config;
    let github = GitHub::new(&config.github, Clock::System, Redactor::default()).unwrap();
    let slug = service.github.bot_login().trim_end_matches("[bot]").to_owned();
    let rules = (&config.github, &config.queue);
    let autotask = Autotask::on_github(
        github,
        service.store.clone(),
        &config.autotask,
        rules,
        &slug,
        Clock::System,
    );
    let looked = autotask.look(&REPO.parse().unwrap(), When::Now).await.unwrap();
    looked.expect("nobody else looks")
}

#[tokio::test]
async fn t15_w11_a_labelled_issue_becomes_a_pull_request_without_any_webhook() {
    usual()
        .configuration(queue)
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            service.model.play(bug_fix());
            // W11: GitHub shows an empty body as null.
            let issue = service.issue_saying("The last word is not counted", "");
            service.github.label_issue(REPO, issue, "Ready", MONA).unwrap();
            worked(service, 1).await;
            let pull = service.only_pull();
            assert!(pull.draft && pull.head.starts_with("agent/1-"), "{pull:?}");
            let (_, body) = service.text_of(pull.number);
            assert!(body.lines().any(|line| line == format!("Fixes #{issue}")), "{body}");
            // T15: the label is a button that can be pressed again.
            assert_eq!(service.labels(issue), Vec::<String>::new());
            let words = service.our_only_words(issue);
            assert!(words.contains(&format!("### ✅ Done: #{}", pull.number)), "{words}");
            let eyes = service.github.issue(REPO, issue).unwrap().reactions;
            assert_eq!(eyes.iter().filter(|reaction| reaction.content == "eyes").count(), 1);
            let job = service.fix().await;
            assert_eq!(job.request.actor.login, MONA);
            assert!(matches!(job.request.trigger, Trigger::Queue { .. }), "{job:?}");
            looked_at(service, 3).await;
            assert_eq!(service.works().await.len(), 1, "nothing is asked for twice");
            service.next_second().await;
            service.model.play(nothing_to_do());
            service.github.label_issue(REPO, issue, "ready", MONA).unwrap();
            worked(service, 2).await;
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}

/// T10, W14: whoever puts the label on has to be allowed to have work done, however it is noticed.
#[tokio::test]
async fn t10_w14_a_strangers_label_is_refused_once_and_without_a_word() {
    usual()
        .configuration(queue)
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            service.github.grant(REPO, "eve", "triage").unwrap();
            let issue = service.issue();
            service.github.label_issue(REPO, issue, "ready", "eve").unwrap();
            worked(service, 1).await;
            let outcome = service.outcome().await;
            assert!(
                matches!(&outcome, Outcome::Refused { reason } if reason.contains("eve")),
                "{outcome:?}"
            );
            looked_at(service, 3).await;
            assert_eq!(service.jobs().await.len(), 1);
            assert!(service.model.requests().is_empty() && service.our_comments(issue).is_empty());
            let writes: Vec<String> = service
                .github
                .ledger()
                .iter()
                .map(|write| write.method.clone())
                .collect();
            assert_eq!(writes, ["DELETE"], "the label is taken off, and nothing is said");
        })
        .await;
}

#[tokio::test]
async fn an_issue_that_leaves_the_queue_stops_its_work() {
    usual()
        .configuration(queue)
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            let issue = queued_issue(service);
            service.model_is_asked(2).await;
            service.github.unlabel_issue(REPO, issue, "ready", MONA).unwrap();
            until("the work is stopped", async || {
                service.fix().await.cancel_requested_at.is_some()
            })
            .await;
            gate.cancel();
            service.done().await;
            let job = service.fix().await;
            assert_eq!(job.state, JobState::Cancelled, "{job:#?}");
            assert!(service.pulls().is_empty());
            let words = service.our_only_words(issue);
            assert!(words.contains("the issue left its queue"), "{words}");
        })
        .await;
}

/// A GitHub that fails in the middle of the work is not the news that the issue left.
#[tokio::test]
async fn t_polling_a_github_that_fails_stops_no_work() {
    usual()
        .configuration(|config| {
            queue(config);
            config.autotask.every_seconds = Duration::from_millis(20);
        })
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            queued_issue(service);
            service.model_is_asked(2).await;
            let pattern = format!("GET {LIST}");
            service.github.fault(&pattern, Fault::status(502, "bad gateway"), 6);
            until("it fails", async || service.github.unused_faults().is_empty()).await;
            looked_at(service, 1).await;
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Opened { .. }), "{outcome:?}");
        })
        .await;
}

#[tokio::test]
async fn caps_on_work_and_money_hold_and_let_go() {
    usual()
        .configuration(|config| {
            queue(config);
            config.autotask.max_active = 1;
        })
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            let gate = CancellationToken::new();
            service.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
            queued_issue(service);
            service.model_is_asked(1).await;
            queued_issue(service);
            looked_at(service, 3).await;
            assert_eq!(service.works().await.len(), 1, "one at a time");
            service.model.play(nothing_to_do());
            gate.cancel();
            worked(service, 2).await;
            // What the two cost is more than the cap that the service has next.
            service.stop().await;
            service.config.autotask.max_day_usd = 0.000_01;
            service.start().await;
            out_of_reach(service);
            let held = queued_issue(service);
            looked_at(service, 3).await;
            assert_eq!(service.works().await.len(), 2);
            let query = "autotask.label=ready";
            let shown = service
                .command(&["autotask", "status", "--repository", REPO, "--set", query])
                .await;
            let shown = String::from_utf8(shown.stdout).unwrap();
            let line = shown.lines().find(|line| line.contains(&format!("#{held} ")));
            assert!(
                line.is_some_and(|line| line.contains("held: autotask.max_day_usd")),
                "{shown}"
            );
            service.model.play(nothing_to_do());
            service.stop().await;
            service.config.autotask.max_day_usd = 0.0;
            service.start().await;
            out_of_reach(service);
            worked(service, 3).await;
        })
        .await;
}

#[tokio::test]
async fn an_open_pull_request_of_ours_is_waited_for() {
    usual()
        .configuration(|config| {
            queue(config);
            config.autotask.max_open_pulls = 1;
        })
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            service.model.play(bug_fix());
            queued_issue(service);
            worked(service, 1).await;
            let pull = service.only_pull();
            let second = queued_issue(service);
            looked_at(service, 3).await;
            assert_eq!(service.works().await.len(), 1);
            assert_eq!(service.labels(second), ["ready"], "it waits in the queue");
            service.model.play(nothing_to_do());
            service.github.close_issue(REPO, pull.number, MONA).unwrap();
            worked(service, 2).await;
        })
        .await;
}

/// The label of the queue is the one that webhooks tell of, too: whichever comes first makes the job.
#[tokio::test]
async fn w16_a_webhook_and_a_look_make_one_job_whichever_comes_first() {
    usual()
        .configuration(|config| {
            queue(config);
            config.autotask.label = Some("Agent".to_owned());
            config.autotask.every_seconds = Duration::from_secs(3_600);
            config.autotask.enabled = false;
        })
        .tell(async |service: &mut Service| {
            // The webhook comes first.
            let gate = CancellationToken::new();
            service.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
            let first = service.labelled_issue();
            service.model_is_asked(1).await;
            let looked = look(service).await;
            let job = service.fix().await;
            assert_eq!(
                looked.taken,
                [(job.subject.number().unwrap(), job.id.clone())],
                "{looked:?}"
            );
            assert!(matches!(job.request.trigger, Trigger::Label { .. }));
            gate.cancel();
            service.done().await;
            assert_eq!(look(service).await.taken, []);
            assert_eq!(service.works().await.len(), 1);
            // The look comes first, and the webhook while the job is at work.
            let gate = CancellationToken::new();
            service.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
            out_of_reach(service);
            let second = service.labelled_issue();
            service.github.deliveries_settled().await;
            assert_eq!(look(service).await.taken.len(), 1);
            service.model_is_asked(2).await;
            let guid = labelled_guid(service, second);
            service
                .github
                .hooks(&service.address(), &service.github.webhook_secret());
            service.github.redeliver(&guid).unwrap();
            service.github.deliveries_settled().await;
            gate.cancel();
            service.done().await;
            assert_eq!(service.works().await.len(), 2);
            // The look comes first, and the webhook when the job is over.
            service.model.play(nothing_to_do());
            out_of_reach(service);
            let third = service.labelled_issue();
            service.github.deliveries_settled().await;
            assert_eq!(look(service).await.taken.len(), 1);
            service.done().await;
            let guid = labelled_guid(service, third);
            service
                .github
                .hooks(&service.address(), &service.github.webhook_secret());
            service.github.redeliver(&guid).unwrap();
            service.done().await;
            assert_eq!(service.works().await.len(), 3, "{:#?}", service.works().await);
            assert!(
                [first, second, third]
                    .iter()
                    .all(|issue| service.labels(*issue).is_empty())
            );
        })
        .await;
}

/// The delivery that told of the label on an issue.
fn labelled_guid(service: &Service, issue: u64) -> String {
    let number = format!("\"number\":{issue},");
    let deliveries = service.github.deliveries();
    let found = deliveries.iter().rev().find(|it| {
        let body = it.body.replace(": ", ":");
        it.action.as_deref() == Some("labeled") && body.contains(&number)
    });
    found.expect("it was sent").guid.clone()
}

/// J17: where nobody can be asked, what needs a person's word is denied, and the work goes on.
#[tokio::test]
async fn j17_work_of_a_queue_asks_nobody_at_its_first_call() {
    usual()
        .configuration(|config| {
            queue(config);
            config.permission.ask = vec!["run_command:*".to_owned()];
        })
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            let call = crate::model_server::Reply::call("run_command", serde_json::json!({"command": "date"}));
            let [mended, finished] = bug_fix();
            service.model.play([call, mended, finished]);
            queued_issue(service);
            worked(service, 1).await;
            service.only_pull();
            let asked = service.model.requests();
            let told = asked[1].last();
            assert!(
                told.to_lowercase().contains("denied") || told.contains("nobody"),
                "{told}"
            );
        })
        .await;
}

/// `forgehand autotask …`: exit code, standard output and standard error.
async fn autotask(service: &Service, words: &[&str]) -> (Option<i32>, String, String) {
    let set = ["--set", "autotask.label=ready", "--set", "autotask.every_seconds=5"];
    let all = [&["autotask"], words, &["--repository", REPO], &set].concat();
    let ended = service.command(&all).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[tokio::test]
async fn the_command_line_switches_shows_and_looks() {
    usual()
        .configuration(|config| {
            queue(config);
            config.autotask.enabled = false;
        })
        .tell(async |service: &mut Service| {
            out_of_reach(service);
            let issue = queued_issue(service);
            let (code, out, _) = autotask(service, &["status"]).await;
            assert_eq!(code, Some(0));
            assert!(out.contains("query: is:issue is:open label:\"ready\""), "{out}");
            assert!(out.contains("octo/words: off by the configuration"), "{out}");
            assert!(out.contains("nobody looked yet"), "{out}");
            service.model.play(nothing_to_do());
            let (code, out, err) = autotask(service, &["once", "--wait"]).await;
            assert_eq!(code, Some(0), "{out}{err}");
            assert!(
                out.contains("1 open issue is selected") && out.contains(&format!("#{issue}  job ")),
                "{out}"
            );
            assert!(err.contains("is over: done"), "{err}");
            service.done().await;
            let (_, out, _) = autotask(service, &["status"]).await;
            assert!(
                out.contains("nothing had to change") || out.contains("working"),
                "{out}"
            );
            // Switched on, the service looks by itself.
            let (code, out, _) = autotask(service, &["on"]).await;
            assert!(code == Some(0) && out.contains("octo/words: on"), "{out}");
            service.model.play(nothing_to_do());
            queued_issue(service);
            worked(service, 2).await;
            let (_, out, _) = autotask(service, &["status", "--json"]).await;
            let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!(shown["repositories"][0]["on"], true);
            assert!(
                shown["repositories"][0]["switch"]["by"]
                    .as_str()
                    .unwrap()
                    .contains("operator")
            );
            let (code, out, _) = autotask(service, &["off"]).await;
            assert!(code == Some(0) && out.contains("octo/words: off"), "{out}");
            // A look needs no service beside it.
            service.stop().await;
            let waiting = queued_issue(service);
            let (code, out, _) = autotask(service, &["once", "--set", "autotask.query=label:never"]).await;
            assert_eq!(code, Some(0));
            assert!(out.contains("open issues are selected; check the query"), "{out}");
            assert_eq!(service.works().await.len(), 2);
            service.github.unlabel_issue(REPO, waiting, "ready", MONA).unwrap();
        })
        .await;
}
