//! Check runs, statuses, and what they say together.

use forgehand::demo::double::{Fault, ForeignCheck};
use forgehand::github::{
    Access, Annotation, AnnotationLevel, CheckReport, CheckSource, CheckState, Conclusion, GitHubError, Progress,
    Verdict,
};

use super::{REPO, Stage, count, new_check};

/// What a check run of ours shows.
pub(super) fn report(progress: Progress) -> CheckReport {
    CheckReport {
        progress,
        title: "At work".to_owned(),
        summary: "Reading the code.".to_owned(),
        text: String::new(),
        details_url: Some("https://forgehand.example/jobs/1".to_owned()),
        annotations: Vec::new(),
    }
}

/// So many remarks on lines.
pub(super) fn remarks(count: u64) -> Vec<Annotation> {
    let remark = |line| Annotation {
        path: "src/lib.rs".to_owned(),
        start_line: line,
        end_line: line,
        level: AnnotationLevel::Warning,
        title: String::new(),
        message: format!("line {line}"),
    };
    (1..=count).map(remark).collect()
}

#[tokio::test]
async fn a_check_of_ours_is_made_kept_up_to_date_and_settled() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let sha = stage.sha("main");
    let run = client
        .create_check_run(&new_check(&sha, Progress::InProgress))
        .await
        .unwrap();
    assert_eq!(
        (run.status.as_str(), run.external_id.as_str()),
        ("in_progress", "run-1")
    );
    let mut done = report(Progress::Completed(Conclusion::ActionRequired));
    done.text = "Which of the two?".to_owned();
    let run = client.update_check_run(run.id, &done).await.unwrap();
    assert_eq!(run.conclusion.as_deref(), Some("action_required"));
    let seen = stage.double.our_check_runs(REPO).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].text.as_deref(), Some("Which of the two?"));
    assert_eq!(client.check_runs(&sha, 10).await.unwrap(), [run]);
    let mut lost = new_check(&sha, Progress::Queued);
    lost.head_sha = "b".repeat(40).parse().unwrap();
    let lost = client.create_check_run(&lost).await;
    assert!(matches!(lost, Err(GitHubError::Rejected { .. })), "{lost:?}");
}

/// O08: GitHub takes no more than fifty remarks at a time and no longer words.
#[tokio::test]
async fn long_words_are_cut_and_many_remarks_sent_in_portions() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let mut new = new_check(&stage.sha("main"), Progress::Completed(Conclusion::Neutral));
    new.report.summary = "é".repeat(70_000);
    new.report.text = "x".repeat(70_000);
    new.report.title = "t".repeat(1_000);
    new.report.annotations = remarks(120);
    let run = client.create_check_run(&new).await.unwrap();
    assert_eq!(run.output.annotations_count, 120);
    let seen = &stage.double.our_check_runs(REPO).unwrap()[0];
    assert!(seen.summary.as_ref().unwrap().len() <= 65_535 && seen.text.as_ref().unwrap().len() <= 65_535);
    let lines = seen
        .annotations
        .iter()
        .map(|remark| remark["start_line"].as_u64().unwrap());
    assert!(lines.eq(1..=120));
    assert_eq!(count(&stage.double, "POST", "/check-runs"), 1);
    assert_eq!(count(&stage.double, "PATCH", &format!("/check-runs/{}", run.id)), 2);
}

/// W8: the failing one is on the second page.
#[tokio::test]
async fn w8_a_check_on_a_later_page_is_seen() {
    let stage = Stage::set().await;
    let sha = stage.sha("main");
    for n in 0..130 {
        let conclusion = if n == 125 { "failure" } else { "success" };
        stage
            .double
            .set_check(REPO, sha.as_str(), &format!("job {n}"), "completed", Some(conclusion))
            .unwrap();
    }
    let client = stage.client(Access::Read);
    let rollup = client.rollup(&sha).await.unwrap();
    let failed: Vec<&str> = rollup.failed().map(|check| check.name.as_str()).collect();
    assert_eq!((rollup.verdict(), failed), (Verdict::Failed, vec!["job 125"]));
    assert_eq!(client.check_runs(&sha, 40).await.unwrap().len(), 40);
}

/// J7: what is not known has not passed.
#[tokio::test]
async fn j7_only_what_is_known_to_have_passed_has_passed() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    let sha = stage.sha("main");
    let verdict = async || client.rollup(&sha).await.unwrap().verdict();
    assert_eq!(verdict().await, Verdict::Unknown, "no check at all");
    let check = |status, conclusion| stage.double.set_check(REPO, sha.as_str(), "test", status, conclusion);
    let first = check("queued", None).unwrap();
    assert_eq!(verdict().await, Verdict::Pending);
    assert_eq!(check("in_progress", None).unwrap(), first, "the same run goes on");
    assert_eq!(verdict().await, Verdict::Pending);
    check("completed", Some("success")).unwrap();
    assert_eq!(verdict().await, Verdict::Passed);
    let status = |state| stage.double.set_status(REPO, sha.as_str(), "ci/old", state, "ada");
    status("pending").unwrap();
    assert_eq!(verdict().await, Verdict::Pending);
    status("error").unwrap();
    assert_eq!(verdict().await, Verdict::Failed);
    status("success").unwrap();
    let rollup = client.rollup(&sha).await.unwrap();
    assert_eq!((rollup.verdict(), rollup.checks.len()), (Verdict::Passed, 2));
    assert_eq!(rollup.checks[1].source, CheckSource::Status);
    stage.double.fault(
        "GET /repos/octo/widgets/commits/*/check-runs",
        Fault::status(502, "bad gateway"),
        3,
    );
    assert!(
        client.rollup(&sha).await.is_err(),
        "an answer that did not come is no answer"
    );
}

#[tokio::test]
async fn our_own_check_says_nothing_about_the_commit() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let sha = stage.sha("main");
    client
        .create_check_run(&new_check(&sha, Progress::InProgress))
        .await
        .unwrap();
    let lint = ForeignCheck {
        app: "linter",
        name: "lint",
        status: "completed",
        conclusion: Some("success"),
        title: "Tidy",
        summary: "Nothing to say.",
    };
    let id = stage.double.set_check_of(REPO, sha.as_str(), lint).unwrap();
    let ours = stage.github.app().await.unwrap().id;
    let rollup = client.rollup(&sha).await.unwrap();
    assert_eq!(rollup.verdict(), Verdict::Pending);
    let others = rollup.without_app(ours);
    assert_eq!(
        (others.verdict(), others.checks[0].state),
        (Verdict::Passed, CheckState::Passed)
    );
    assert_eq!(others.checks[0].title.as_deref(), Some("Tidy"));
    client.rerequest_check_run(id).await.unwrap();
    assert_eq!(stage.double.check_runs(REPO, sha.as_str()).unwrap()[1].rerequested, 1);
    let foreign = client.update_check_run(id, &report(Progress::Queued)).await;
    assert!(matches!(foreign, Err(GitHubError::Forbidden { .. })), "{foreign:?}");
}

/// The permission is optional: without it the rest of the work goes on.
#[tokio::test]
async fn an_app_without_the_permission_is_told_so_and_the_rest_goes_on() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let sha = stage.sha("main");
    stage.double.set_permission("statuses", "none");
    stage
        .double
        .set_check(REPO, sha.as_str(), "test", "completed", Some("success"))
        .unwrap();
    let rollup = client.rollup(&sha).await.unwrap();
    assert_eq!((rollup.verdict(), rollup.unread.len()), (Verdict::Unknown, 1));
    assert!(rollup.unread[0].contains("commit statuses: "), "{:?}", rollup.unread);
    stage.double.set_permission("checks", "read");
    client.revoke_token().await.unwrap(); // a token keeps what it was minted with
    let refused = client.create_check_run(&new_check(&sha, Progress::Queued)).await;
    assert!(matches!(refused, Err(GitHubError::Forbidden { .. })), "{refused:?}");
    client.create_comment(stage.issue(), "goes on").await.unwrap();
}
