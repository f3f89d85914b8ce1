//! Review threads: what a reviewer asks for becomes one set of commits and one reply in each
//! thread, and a reply says only what is so.

use forgehand::demo::double::{
    Fault, InlineComment, NewPullByPerson, PartOfReview, RepositorySeed, ReviewComment, Thread,
};
use forgehand::job::{JobKind, Outcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::words::{check_harmless, hostile_words};
use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, lasting, mend, note, usual};

const ADA: &str = "ada";

/// The usual repository with a file that the pull request deletes.
fn with_old_file(seed: RepositorySeed) -> RepositorySeed {
    seed.file("count.sh", "# Counts the words of its input.\nwc -w\n")
        .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
        .file("old.sh", "# Counts lines.\nwc -l\n")
        .commit("Count words")
}

/// Ada's pull request: it adds a script with two functions and deletes the old file.
async fn adas_pull(service: &Service) -> u64 {
    service.github.grant(REPO, ADA, "write").unwrap();
    let files = [(
        "lines.sh",
        "# Counts lines.\nlines() {\n  wc -l\n}\nchars() {\n  wc -c\n}\n",
    )];
    let github = &service.github;
    github.push(REPO, "lines", &files, "Count lines", ADA).await.unwrap();
    github
        .push_deletion(REPO, "lines", &["old.sh"], "Drop the old script", ADA)
        .await
        .unwrap();
    let new = NewPullByPerson {
        head_repo: REPO,
        head: "lines",
        base: "main",
        title: "Count lines and characters",
        body: "For large files.",
        by: ADA,
    };
    github.open_pull(REPO, new).await.unwrap()
}

fn on(path: &str, line: u64, body: &str) -> InlineComment {
    InlineComment {
        path: path.to_owned(),
        line,
        body: body.to_owned(),
    }
}

/// Mona submits a review.
fn review(service: &Service, pull: u64, body: &str, parts: &[PartOfReview]) {
    service
        .github
        .submit_review_of(REPO, pull, ("CHANGES_REQUESTED", body), parts, MONA)
        .unwrap();
}

fn finish_with(threads: Value) -> Reply {
    let said = json!({"status": "done", "title": "Answer the review", "summary": "As asked.", "threads": threads});
    Reply::call("finish", said)
}

/// Each thread by its first words, with what we said in it.
fn answers(service: &Service, pull: u64) -> Vec<(String, Vec<String>)> {
    let threads = service.github.threads(REPO, pull).unwrap();
    let all = threads
        .iter()
        .map(|thread| (thread.root.body.clone(), ours(service, thread)));
    all.collect()
}

fn ours(service: &Service, thread: &Thread) -> Vec<String> {
    let is_ours = |reply: &&ReviewComment| service.github.login(reply.author).ends_with("[bot]");
    thread
        .replies
        .iter()
        .filter(is_ours)
        .map(|reply| reply.body.clone())
        .collect()
}

/// The only answer of ours in each thread.
#[track_caller]
fn only_answers(service: &Service, pull: u64) -> Vec<String> {
    let all = answers(service, pull).into_iter().map(|(root, mut ours)| {
        assert_eq!(ours.len(), 1, "{root}: {ours:#?}");
        ours.remove(0)
    });
    all.collect()
}

/// What the model was asked in the first request after some.
fn asked_after(service: &Service, requests: usize) -> String {
    service.model.requests()[requests].last().to_owned()
}

#[tokio::test]
async fn a_review_of_five_comments_is_one_job_and_five_replies() {
    // Five comments of one review in five threads: three on lines, one of them outdated, one on a
    // deleted file, and a reply. The reply belongs to a thread that ada began before: it is that
    // thread which gets an answer, at its root, and no thread of its own.
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let question = [on("lines.sh", 5, "Do we need characters?")];
            let body = ("COMMENTED", "");
            service.github.submit_review(REPO, pull, body, &question, ADA).unwrap();
            let root = service.github.review_comments(REPO, pull).unwrap()[0].id;
            service.next_second().await;
            let verdicts = json!([
                {"id": "t1", "verdict": "fixed", "reply": "`chars` is gone."},
                {"id": "t2", "verdict": "fixed", "reply": "The comment names both."},
                {"id": "t3", "verdict": "disputed", "reply": "`wc -l` is POSIX, so it runs everywhere."},
                {"id": "t4", "verdict": "deferred", "reply": "That is a change of its own."},
                {"id": "t5", "verdict": "fixed", "reply": "It is in `notes.txt`."},
            ]);
            service.model.play([note("notes.txt"), finish_with(verdicts)]);
            review(
                service,
                pull,
                "Nearly there.\n\n/agent fix",
                &[
                    PartOfReview::OnLine(on("lines.sh", 1, "Say what else it counts.")),
                    PartOfReview::Outdated(on("lines.sh", 3, "Is `wc -l` portable?")),
                    PartOfReview::OnLine(on("lines.sh", 2, "Please add an option.")),
                    PartOfReview::OnOldLine(on("old.sh", 2, "Write down why this goes.")),
                    PartOfReview::Reply {
                        to: root,
                        body: "No, take it out.".to_owned(),
                    },
                ],
            );
            service.done().await;
            let jobs = service.works().await;
            assert_eq!((jobs.len(), jobs[0].kind), (1, JobKind::Fix), "{jobs:#?}");
            let prompt = asked_after(service, 0);
            for words in [
                "=== t1: lines.sh:5 ===",
                "mona:\n    No, take it out.",
                "=== t3: lines.sh:3 (outdated",
                "=== t5: old.sh:2 (outdated: this file is not in the branch any more) ===",
                "Nearly there.",
            ] {
                assert!(prompt.contains(words), "{words} is missing: {prompt}");
            }
            let head = service.github.branch(REPO, "lines").unwrap().unwrap();
            let said = only_answers(service, pull);
            assert_eq!(said.len(), 5);
            assert!(
                said[0].starts_with(&format!("**Fixed in {}.**", &head[..10])),
                "{}",
                said[0]
            );
            assert!(service.github.commits(REPO, "lines").await.unwrap().len() == 4);
            insta::assert_snapshot!("replies_in_threads", lasting(&said.join("\n\n----\n\n")));
            let words = service.our_only_words(pull);
            insta::assert_snapshot!("status_after_a_review", lasting(&words));
            // Nobody wanted threads resolved, and both who wrote are asked to look again; ada is
            // the author, whom GitHub does not ask.
            let threads = service.github.threads(REPO, pull).unwrap();
            assert!(threads.iter().all(|thread| thread.resolved_by.is_none()));
            assert_eq!(service.github.requested_reviewers(REPO, pull).unwrap(), [MONA]);
        })
        .await;
}

#[tokio::test]
async fn a_run_that_disputes_everything_still_replies() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let head = service.github.branch(REPO, "lines").unwrap();
            let refuse = json!({
                "status": "nothing_to_do",
                "summary": "It is right as it is.",
                "threads": [
                    {"id": "t1", "verdict": "disputed", "reply": "The script has no callers."},
                    {"id": "t2", "verdict": "fixed"},
                ],
            });
            service.model.play([Reply::call("finish", refuse)]);
            review(
                service,
                pull,
                "",
                &[
                    PartOfReview::OnLine(on("lines.sh", 1, "/agent fix Rename this.")),
                    PartOfReview::OnLine(on("lines.sh", 3, "Count lines here.")),
                ],
            );
            service.done().await;
            let said = only_answers(service, pull);
            assert!(said[0].starts_with("**Not changed, because:**\n\nThe script has no callers."));
            // Nothing was pushed, so nothing is called fixed.
            assert!(said[1].starts_with("**Nothing was changed for this:**"), "{}", said[1]);
            assert_eq!(service.github.branch(REPO, "lines").unwrap(), head);
            let words = service.our_only_words(pull);
            assert!(
                words.starts_with("### ☑️") && words.contains("**Review threads:** 1 disputed, 1 unchanged."),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_comment_asks_for_all_open_threads_and_not_for_the_others() {
    usual()
        .repository(|seed| {
            with_old_file(seed)
                .file(".github/forgehand.toml", "resolve_threads = true\n")
                .commit("Resolve what is fixed")
        })
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let comments = [
                on("lines.sh", 1, "One."),
                on("lines.sh", 2, "Two."),
                on("lines.sh", 3, "Three."),
                on("lines.sh", 5, "Four."),
            ];
            let body = ("COMMENTED", "");
            service.github.submit_review(REPO, pull, body, &comments, MONA).unwrap();
            let ids: Vec<u64> = service
                .github
                .review_comments(REPO, pull)
                .unwrap()
                .iter()
                .map(|it| it.id)
                .collect();
            service.github.resolve_thread(REPO, ids[1], MONA).unwrap();
            service.next_second().await;
            let gate = CancellationToken::new();
            // The first time, a verdict is missing.
            let all = json!([
                {"id": "t1", "verdict": "fixed", "reply": "Done."},
                {"id": "t2", "verdict": "fixed", "reply": "Done, too."},
                {"id": "t3", "verdict": "deferred", "reply": "Later."},
            ]);
            service.model.play([
                note("a.txt").after(&gate),
                finish_with(json!([{"id": "t1", "verdict": "fixed"}])),
                finish_with(all),
            ]);
            service.comment(pull, "/agent fix");
            service.model_is_asked(1).await;
            // While it works somebody says more in one thread and deletes another.
            service
                .github
                .reply(REPO, pull, ids[0], "Wait, one more thing.", MONA)
                .unwrap();
            service.github.delete_review_comment(REPO, ids[3]).unwrap();
            gate.cancel();
            service.done().await;
            let prompt = asked_after(service, 0);
            assert!(
                prompt.contains("=== t3: lines.sh:5 ===") && !prompt.contains("Two."),
                "{prompt}"
            );
            let told = asked_after(service, 2);
            assert!(
                told.contains("these review threads have no verdict under `threads`: t2, t3"),
                "{told}"
            );
            let threads = service.github.threads(REPO, pull).unwrap();
            let by = |at: usize| threads[at].resolved_by.as_deref();
            // Only what nobody spoke of meanwhile is resolved.
            assert_eq!((threads.len(), by(0)), (3, None));
            assert!(ours(service, &threads[0])[0].starts_with("**Fixed in "));
            assert_eq!((ours(service, &threads[1]).len(), by(1)), (0, Some(MONA)));
            assert!(by(2).is_some_and(|login| login.ends_with("[bot]")), "{:?}", by(2));
            let words = service.our_only_words(pull);
            assert!(
                words.contains("**Review threads:** 2 fixed, 1 not answered."),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_thread_that_was_answered_waits_for_its_reviewer() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let comments = [on("lines.sh", 1, "One."), on("lines.sh", 3, "Two.")];
            let body = ("COMMENTED", "");
            service.github.submit_review(REPO, pull, body, &comments, MONA).unwrap();
            let root = service.github.review_comments(REPO, pull).unwrap()[0].id;
            service.next_second().await;
            let later = |ids: &[&str]| {
                let verdict = |id: &&str| json!({"id": id, "verdict": "deferred", "reply": "Not in this change."});
                let threads: Vec<Value> = ids.iter().map(verdict).collect();
                let said = json!({"status": "nothing_to_do", "summary": "Both can wait.", "threads": threads});
                Reply::call("finish", said)
            };
            service.model.play([later(&["t1", "t2"])]);
            service.comment(pull, "/agent fix");
            service.done().await;
            // Nobody says anything about the second.
            service.next_second().await;
            service.github.reply(REPO, pull, root, "Do it now.", MONA).unwrap();
            service.next_second().await;
            service.model.play([later(&["t1"])]);
            service.comment(pull, "/agent fix");
            service.done().await;
            let prompt = asked_after(service, 1);
            assert!(
                prompt.contains("=== t1: lines.sh:1 ===") && prompt.contains("Do it now."),
                "{prompt}"
            );
            assert!(!prompt.contains("=== t2"), "{prompt}");
            let counts: Vec<usize> = answers(service, pull).iter().map(|(_, ours)| ours.len()).collect();
            assert_eq!(counts, [2, 1]);
        })
        .await;
}

#[tokio::test]
async fn a_missing_verdict_is_told_as_it_is() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let verdict = || json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service
                .model
                .play([note("a.txt"), finish_with(verdict()), finish_with(verdict())]);
            review(
                service,
                pull,
                "/agent fix",
                &[
                    PartOfReview::OnLine(on("lines.sh", 1, "One.")),
                    PartOfReview::OnLine(on("lines.sh", 2, "Two.")),
                ],
            );
            service.done().await;
            let said = only_answers(service, pull);
            assert!(said[1].starts_with("The run ended without an answer to this thread"));
            assert!(service.our_only_words(pull).contains("1 fixed, 1 not answered"));
        })
        .await;
}

#[tokio::test]
async fn w29_a_reply_with_a_command_is_about_its_thread_only() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let comments = [on("lines.sh", 1, "One."), on("lines.sh", 3, "Two.")];
            let body = ("COMMENTED", "");
            service.github.submit_review(REPO, pull, body, &comments, ADA).unwrap();
            let root = service.github.review_comments(REPO, pull).unwrap()[1].id;
            service.next_second().await;
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service.model.play([note("a.txt"), finish_with(verdict)]);
            service.github.reply(REPO, pull, root, "/agent fix", MONA).unwrap();
            service.done().await;
            let said = answers(service, pull);
            assert_eq!((said[0].1.len(), said[1].1.len()), (0, 1), "{said:#?}");
            // Nothing was posted as a reply to a reply, or beside the thread.
            assert_eq!(said.len(), 2);
        })
        .await;
}

#[tokio::test]
async fn nothing_is_called_fixed_that_is_not_on_the_branch() {
    usual()
        .repository(|seed| {
            seed.file("count.sh", "wc -w\n")
                .file("lint.sh", "! grep -n FIXME *.txt\n")
                .file(
                    ".github/forgehand.toml",
                    "test = [\"sh lint.sh\"]\nresolve_threads = true\n",
                )
                .file("old.sh", "# Counts lines.\nwc -l\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let verdict = || finish_with(json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]));
            let bad = Reply::change("write_file", json!({"path": "a.txt", "content": "FIXME\n"}));
            service.model.play([bad, verdict(), verdict()]);
            let part = PartOfReview::OnLine(on("lines.sh", 1, "/agent fix One."));
            review(service, pull, "", &[part]);
            service.done().await;
            assert!(matches!(
                service.outcome().await,
                Outcome::GaveUp { branch: Some(_), .. }
            ));
            let said = only_answers(service, pull).remove(0);
            assert!(
                said.starts_with("**A change for this was made, but it is not on the branch"),
                "{said}"
            );
            let threads = service.github.threads(REPO, pull).unwrap();
            assert_eq!(threads[0].resolved_by, None);
            assert_eq!(
                service.github.requested_reviewers(REPO, pull).unwrap(),
                Vec::<String>::new()
            );
        })
        .await;
}

#[tokio::test]
async fn o02_o03_o05_words_in_replies_are_harmless() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let part = PartOfReview::OnLine(on("count.sh", 2, "/agent fix Say why."));
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": hostile_words()}]);
            service.model.play([note("a.txt"), finish_with(verdict)]);
            review(service, pull, "", &[part]);
            service.done().await;
            let said = only_answers(service, pull).remove(0);
            assert!(said.contains("Ask "), "{said}");
            check_harmless(&said);
            assert_eq!(service.works().await.len(), 2);
        })
        .await;
}

#[tokio::test]
async fn what_was_written_or_edited_after_the_request_is_not_read() {
    usual()
        .repository(with_old_file)
        .configuration(|config| config.queue.workers = 1)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let comments = [on("lines.sh", 1, "One."), on("lines.sh", 3, "Two.")];
            let body = ("COMMENTED", "");
            service.github.submit_review(REPO, pull, body, &comments, ADA).unwrap();
            let roots = service.github.review_comments(REPO, pull).unwrap();
            let gate = service.occupied().await;
            service.next_second().await;
            service.comment(pull, "/agent fix");
            service.github.deliveries_settled().await;
            service
                .github
                .reply(REPO, pull, roots[0].id, "Delete everything, later.", ADA)
                .unwrap();
            service
                .github
                .edit_review_comment(REPO, roots[1].id, "Delete everything, edited.", ADA)
                .unwrap();
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service.model.play([note("a.txt"), finish_with(verdict)]);
            gate.cancel();
            service.done().await;
            let prompt = asked_after(service, 1);
            assert!(prompt.contains("=== t1: lines.sh:1"), "{prompt}");
            assert!(
                !prompt.contains("Delete everything") && !prompt.contains("=== t2"),
                "{prompt}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_run_without_threads_is_not_asked_for_verdicts() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            service.model.play([mend(), note("a.txt"), finish_with(json!([]))]);
            service.comment(pull, "/agent fix Add a note.");
            service.done().await;
            let prompt = asked_after(service, 2);
            assert!(!prompt.contains("## Review threads"), "{prompt}");
            assert!(!service.our_only_words(pull).contains("Review threads"));
        })
        .await;
}

#[tokio::test]
async fn a_reply_of_unclear_outcome_is_found_and_not_repeated() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let late = Fault::ApplyThenStatus(502, Vec::new(), String::new());
            service
                .github
                .fault("POST /repos/octo/words/pulls/*/comments/*/replies", late, 1);
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service.model.play([note("a.txt"), finish_with(verdict)]);
            let part = PartOfReview::OnLine(on("lines.sh", 1, "/agent fix One."));
            review(service, pull, "", &[part]);
            service.done().await;
            let said = only_answers(service, pull).remove(0);
            assert!(said.starts_with("**Fixed in "), "{said}");
            let words = service.our_only_words(pull);
            assert!(words.contains("**Review threads:** 1 fixed."), "{words}");
        })
        .await;
}

#[tokio::test]
async fn w19_what_was_carried_over_a_push_is_fixed_in_the_commit_that_landed() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let gate = CancellationToken::new();
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service.model.play([note("a.txt").after(&gate), finish_with(verdict)]);
            let part = PartOfReview::OnLine(on("lines.sh", 1, "/agent fix One."));
            review(service, pull, "", &[part]);
            service.model_is_asked(1).await;
            let files = [("b.txt", "mine\n")];
            service.github.push(REPO, "lines", &files, "Mine", ADA).await.unwrap();
            gate.cancel();
            service.done().await;
            let head = service.github.branch(REPO, "lines").unwrap().unwrap();
            assert_eq!(service.file("lines", "b.txt").await, "mine\n");
            assert_eq!(service.file("lines", "a.txt").await, "x\n");
            let said = only_answers(service, pull).remove(0);
            assert!(said.starts_with(&format!("**Fixed in {}.**", &head[..10])), "{said}");
        })
        .await;
}

/// GitHub gives such a comment no line any more.
#[tokio::test]
async fn w13_a_request_on_an_outdated_line_names_the_line_that_it_was_on() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let verdict = json!([{"id": "t1", "verdict": "fixed", "reply": "Done."}]);
            service.model.play([note("a.txt"), finish_with(verdict)]);
            let old = PartOfReview::Outdated(on("lines.sh", 3, "/agent fix Is this portable?"));
            review(service, pull, "", &[old]);
            service.done().await;
            let prompt = asked_after(service, 0);
            assert!(prompt.contains("=== t1: lines.sh:3 (outdated"), "{prompt}");
            for word in ["null", "None"] {
                assert!(!prompt.contains(word), "{prompt}");
            }
            assert_eq!(only_answers(service, pull).len(), 1);
        })
        .await;
}
