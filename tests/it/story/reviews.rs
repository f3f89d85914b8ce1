//! The verb `review`: one review on the lines that the pull request changes, with nothing said
//! twice and nothing about a head that is not there any more.

use forgehand::demo::double::{Fault, NewPullByPerson, RepositorySeed, Review};
use forgehand::job::{JobKind, Outcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::words::{check_harmless, hostile_words};
use crate::model_server::Reply;
use crate::service::{REPO, Service, lasting, until, usual};

const ADA: &str = "ada";

fn with_old_file(seed: RepositorySeed) -> RepositorySeed {
    seed.file("count.sh", "# Counts the words of its input.\nwc -w\n")
        .file("old.sh", "# Counts lines.\nwc -l\n")
        .commit("Count words")
}

async fn adas_pull(service: &Service) -> u64 {
    let github = &service.github;
    github.grant(REPO, ADA, "write").unwrap();
    let files = [("lines.sh", "# Counts lines.\nlines() {\n  wc -c\n}\n")];
    github.push(REPO, "lines", &files, "Count lines", ADA).await.unwrap();
    github
        .push_deletion(REPO, "lines", &["old.sh"], "Drop the old script", ADA)
        .await
        .unwrap();
    let new = NewPullByPerson {
        head_repo: REPO,
        head: "lines",
        base: "main",
        title: "Count lines",
        body: "For large files.",
        by: ADA,
    };
    github.open_pull(REPO, new).await.unwrap()
}

fn finding(file: &str, line: u64, severity: &str, problem: &str) -> Value {
    json!({"file": file, "line": line, "severity": severity, "problem": problem})
}

fn finish_review(summary: &str, findings: &[Value]) -> Reply {
    let review = json!({
        "verdict": "needs_fix",
        "summary": summary,
        "foundation": 0, "foundation_why": "It solves the problem that it names.",
        "over_engineering": 1, "over_engineering_why": "A function for one command.",
        "volume": 0, "volume_why": "Small.",
        "terminology": 0, "terminology_why": "As in the rest.",
        "findings": findings,
    });
    Reply::call("finish", review)
}

/// What the model finds in ada's pull request.
fn findings() -> Vec<Value> {
    let mut wrong = finding(
        "lines.sh",
        3,
        "critical",
        "This counts characters: for `a b` it prints 4.",
    );
    wrong["replacement"] = json!("  wc -l");
    let mut gone = finding(
        "old.sh",
        2,
        "major",
        "Scripts still call this file; keep it until they do not.",
    );
    gone["removed_line"] = json!(true);
    let outside = finding("count.sh", 1, "minor", "The comment could name the other script.");
    vec![outside, gone, wrong]
}

fn our_reviews(service: &Service, pull: u64) -> Vec<Review> {
    let mut reviews = service.github.reviews(REPO, pull).unwrap();
    reviews.retain(|review| service.github.login(review.author).ends_with("[bot]"));
    reviews
}

/// A review as people see it: its text, then each comment with its place.
fn seen(service: &Service, review: &Review) -> String {
    let mut comments = service.github.review_comments(REPO, review.number).unwrap();
    comments.retain(|comment| comment.review == review.id);
    let shown = comments.iter().map(|comment| {
        let place = format!("{}:{} ({:?})", comment.path, comment.original_line, comment.side);
        format!("\n---- {place}\n{}\n", comment.body)
    });
    lasting(&format!("{}\n{}", review.body, shown.collect::<String>()))
}

#[tokio::test]
async fn w20_a_review_stands_on_changed_lines_and_is_not_repeated() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let change = Reply::call("write_file", json!({"path": "a.txt", "content": "x"}));
            service.model.play([
                change,
                finish_review("It adds a line counter that counts characters.", &findings()),
            ]);
            service.comment(pull, "/agent review Look at the numbers.");
            service.done().await;
            let reviews = our_reviews(service, pull);
            assert_eq!((reviews.len(), reviews[0].state.as_str()), (1, "COMMENTED"));
            insta::assert_snapshot!("posted_review", seen(service, &reviews[0]));
            insta::assert_snapshot!("status_of_a_review", lasting(&service.our_only_words(pull)));
            let requests = service.model.requests();
            let prompt = requests[0].last();
            assert!(prompt.contains("=== old.sh") && prompt.contains("+  wc -c"), "{prompt}");
            assert!(prompt.contains("Look at the numbers."), "{prompt}");
            assert!(requests[1].last().contains("there is no tool \"write_file\""));
            let job = service.works().await.remove(0);
            let verdict = "needs_fix".to_owned();
            assert_eq!(job.kind, JobKind::Review);
            assert_eq!(job.outcome, Some(Outcome::Reviewed { verdict, comments: 2 }));
            // Asked again, it finds the same and one thing more.
            let mut again = findings();
            again[2]["problem"] = json!("This counts characters; for `a b` it prints 4!");
            again.push(finding(
                "lines.sh",
                1,
                "minor",
                "The comment is wrong as long as the code is.",
            ));
            service.next_second().await;
            service.model.play([finish_review("As before.", &again)]);
            service.comment(pull, "/agent review");
            service.done().await;
            let prompt = service.model.requests()[2].last().to_owned();
            assert!(
                prompt.contains("--- said in earlier reviews ---") && prompt.contains("it prints 4."),
                "{prompt}"
            );
            let reviews = our_reviews(service, pull);
            assert_eq!(reviews.len(), 2);
            insta::assert_snapshot!("second_review", seen(service, &reviews[1]));
            assert_eq!(service.github.branches(REPO).unwrap(), ["lines", "main"]);
        })
        .await;
}

#[tokio::test]
async fn w19_p10_a_head_that_moves_is_not_reviewed() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let gate = CancellationToken::new();
            service.model.play([finish_review("Wrong.", &findings()).after(&gate)]);
            service.comment(pull, "/agent review");
            service.model_is_asked(1).await;
            let files = [("lines.sh", "wc -l\n")];
            service
                .github
                .push(REPO, "lines", &files, "Mend it", ADA)
                .await
                .unwrap();
            gate.cancel();
            service.done().await;
            assert_eq!(our_reviews(service, pull).len(), 0);
            let words = service.our_only_words(pull);
            assert!(words.starts_with("### 🚫") && words.contains("(head_moved)"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn w17_a_place_that_github_refuses_costs_no_finding() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let refuse = Fault::status(422, "Line could not be resolved");
            service
                .github
                .fault(&format!("POST /repos/octo/words/pulls/{pull}/reviews"), refuse, 1);
            service.model.play([finish_review("Wrong.", &findings())]);
            service.comment(pull, "/agent review");
            service.done().await;
            let reviews = our_reviews(service, pull);
            assert_eq!(reviews.len(), 1);
            insta::assert_snapshot!("review_without_places", seen(service, &reviews[0]));
            let words = service.our_only_words(pull);
            assert!(words.contains("No comments on lines."), "{words}");
        })
        .await;
}

#[tokio::test]
async fn a_review_that_github_refuses_is_not_called_done() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let refuse = Fault::status(422, "The commit is not part of the pull request");
            service
                .github
                .fault(&format!("POST /repos/octo/words/pulls/{pull}/reviews"), refuse, 1);
            service.model.play([finish_review("Wrong.", &findings())]);
            service.comment(pull, "/agent review");
            service.done().await;
            assert_eq!(our_reviews(service, pull).len(), 0);
            let words = service.our_only_words(pull);
            assert!(
                words.starts_with("### ❌") && words.contains("the review could not be posted"),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn w5_a_difference_that_is_too_large_is_still_reviewed() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let large = Fault::status(422, "Sorry, this diff is taking too long to generate.");
            service
                .github
                .fault(&format!("GET /repos/octo/words/pulls/{pull}/files"), large, 2);
            service.model.play([finish_review("Wrong.", &findings())]);
            service.comment(pull, "/agent review");
            service.done().await;
            let prompt = service.model.requests()[0].last().to_owned();
            assert!(prompt.contains("it is too large to be shown as a whole"), "{prompt}");
            let reviews = our_reviews(service, pull);
            assert_eq!(reviews.len(), 1);
            assert!(
                reviews[0]
                    .body
                    .contains("`lines.sh:3` (Critical): This counts characters")
            );
        })
        .await;
}

#[tokio::test]
async fn o02_o03_o05_words_of_a_review_are_harmless() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let mut on_line = finding("lines.sh", 3, "major", &hostile_words());
            on_line["replacement"] = json!("wc -l # ghs_0123456789abcdefghijABCDEFGHIJ012345");
            let mut hidden = finding("lines.sh", 1, "minor", "Hidden.");
            hidden["replacement"] = json!("# \u{202e}senil stnuoC");
            let outside = finding("count.sh\n@torvalds", 1, "major", &hostile_words());
            service
                .model
                .play([finish_review(&hostile_words(), &[on_line, hidden, outside])]);
            service.comment(pull, "/agent review");
            service.done().await;
            let reviews = our_reviews(service, pull);
            assert_eq!(reviews.len(), 1);
            check_harmless(&reviews[0].body);
            let comments = service.github.review_comments(REPO, pull).unwrap();
            assert_eq!(comments.len(), 2);
            for comment in comments {
                check_harmless(&comment.body);
                assert!(!comment.body.contains("suggestion"), "{}", comment.body);
            }
            assert_eq!(service.works().await.len(), 1);
        })
        .await;
}

/// What cannot be listed is not known to be missing: the answer to the review is lost, and the lists
/// in which it would be found break.
#[tokio::test]
async fn w20_a_review_whose_traces_cannot_be_listed_is_not_posted_twice() {
    usual()
        .repository(with_old_file)
        .tell(async |service: &mut Service| {
            let pull = adas_pull(service).await;
            let reviews = format!("/repos/octo/words/pulls/{pull}/reviews");
            service
                .github
                .fault(&format!("POST {reviews}"), Fault::ApplyThenReset, 1);
            service.model.play([finish_review("Wrong.", &findings())]);
            service.comment(pull, "/agent review");
            until("the review is posted", async || !our_reviews(service, pull).is_empty()).await;
            service
                .github
                .fault(&format!("GET {reviews}"), Fault::status(502, "away"), 4);
            service.done().await;
            assert_eq!(our_reviews(service, pull).len(), 1);
            let comments = service.github.review_comments(REPO, pull).unwrap();
            assert_eq!(comments.len(), 2, "{comments:#?}");
            assert!(service.our_only_words(pull).starts_with("### 🔍"));
        })
        .await;
}
