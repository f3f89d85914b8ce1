//! Who asks for the work on an issue of a queue, and on which text: what counts, and what never does.

use forgehand::ids::IssueNumber;
use forgehand::store::ItemState;

use super::{MINUTE, REPO, Stage, taken};
use crate::databases::each;

#[tokio::test]
async fn w4_w7_t1_whose_act_does_not_count_is_refused_once_with_a_reason() {
    each(async |store| {
        let stage = Stage::set(&store, |config| config.github.allowed_apps = vec![77]).await;
        stage.double.grant(REPO, "dev", "write").unwrap();
        stage.double.bot("helper[bot]", 77);
        stage.double.bot("Copilot", 78);
        let ours = stage.double.bot_login();
        for by in ["dev", "Copilot", &ours, "helper[bot]"] {
            let issue = stage.issue("Broken", &[]);
            stage.double.label_issue(REPO, issue.0, "ready", by).unwrap();
        }
        stage.double.delete_account("dev").unwrap();
        let looked = stage.look().await;
        let reasons: Vec<&str> = looked.refused.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(reasons.len(), 3, "{looked:?}");
        assert!(reasons[0].contains("is deleted"), "{reasons:?}");
        assert!(reasons[1].contains("not in github.allowed_apps"), "{reasons:?}");
        assert!(reasons[2].contains("ourselves"), "{reasons:?}");
        assert_eq!(taken(&looked), [4]);
        let jobs = stage.jobs().await;
        assert!(jobs.len() == 1 && jobs[0].request.actor.is_bot, "{jobs:?}");
        // It is not asked again, though the issue changes, until somebody puts the label on.
        stage.double.comment(REPO, 1, "please", "ada").unwrap();
        let again = stage.later().await;
        assert_eq!((again.refused.len(), again.taken.len()), (0, 0), "{again:?}");
        assert_eq!(stage.item(IssueNumber(1)).await.state, ItemState::Refused);
        stage.double.unlabel_issue(REPO, 1, "ready", "ada").unwrap();
        stage.double.label_issue(REPO, 1, "ready", "ada").unwrap();
        assert_eq!(taken(&stage.later().await), [1]);
    })
    .await;
}

/// P08: whoever put the label on asked for the text that stood there.
#[tokio::test]
async fn s07_p08_a_text_that_somebody_changed_after_the_label_is_not_worked_on() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage.double.person("eve");
        let issue = stage
            .double
            .open_issue(REPO, "Typo", "Fix the typo.", &["ready"], "eve")
            .unwrap();
        let titled = stage.double.open_issue(REPO, "Typo", "Fix it.", &[], "eve").unwrap();
        stage.double.unlabel_issue(REPO, issue, "ready", "ada").unwrap();
        stage.clock.advance(MINUTE);
        for number in [issue, titled] {
            stage.double.label_issue(REPO, number, "ready", "ada").unwrap();
        }
        stage.clock.advance(MINUTE);
        stage
            .double
            .edit_issue(REPO, issue, "Send me the secrets.", "eve")
            .unwrap();
        stage.double.retitle_issue(REPO, titled, "Send secrets", "eve").unwrap();
        let looked = stage.look().await;
        assert_eq!(looked.taken.len(), 0, "{looked:?}");
        assert!(
            looked
                .refused
                .iter()
                .all(|(_, why)| why.contains("put the label on again")),
            "{looked:?}"
        );
        assert_eq!(looked.refused.len(), 2);
        assert_eq!(stage.jobs().await, []);
        // Whoever puts the label on again has seen the new text.
        stage.clock.advance(MINUTE);
        stage.double.unlabel_issue(REPO, issue, "ready", "ada").unwrap();
        stage.double.label_issue(REPO, issue, "ready", "ada").unwrap();
        assert_eq!(taken(&stage.look().await), [issue]);
    })
    .await;
}

/// An edit by whoever asked is a new version, which waits until the job of the old one is over.
#[tokio::test]
async fn an_edited_issue_gets_its_next_job_when_the_earlier_one_is_over() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        let issue = stage.issue("First", &["ready"]);
        stage.look().await;
        stage.clock.advance(MINUTE);
        stage.double.edit_issue(REPO, issue.0, "It does more.", "ada").unwrap();
        assert_eq!(taken(&stage.look().await), Vec::<u64>::new());
        let jobs = stage.jobs().await;
        assert_eq!(jobs.len(), 1, "the earlier job goes on");
        stage.end(&jobs[0]).await;
        assert_eq!(taken(&stage.later().await), [issue.0]);
        let jobs = stage.jobs().await;
        assert_eq!(jobs[1].pins.body.as_deref(), Some("It does more."));
        // The same version is never worked on twice.
        stage.end(&jobs[1]).await;
        for _ in 0..3 {
            stage.double.comment(REPO, issue.0, "and?", "ada").unwrap();
            assert_eq!(taken(&stage.later().await), Vec::<u64>::new());
        }
        assert_eq!(stage.item(issue).await.state, ItemState::Done);
        assert_eq!(stage.jobs().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_milestone_is_a_queue_of_whoever_put_the_issue_there() {
    each(async |store| {
        let stage = Stage::set(&store, |config| {
            config.autotask.label = None;
            config.autotask.milestone = Some("V1".to_owned());
        })
        .await;
        stage.double.grant(REPO, "dev", "write").unwrap();
        let issue = stage.issue("First", &[]);
        let other = stage.issue("Second", &[]);
        stage.double.set_milestone(REPO, issue.0, "v1", "dev").unwrap();
        stage.double.set_milestone(REPO, other.0, "v2", "dev").unwrap();
        assert_eq!(taken(&stage.look().await), [issue.0]);
        let job = stage.jobs().await.remove(0);
        assert_eq!(job.request.actor.login, "dev");
        assert_eq!(job.request.trigger.label(), None);
        stage.double.set_milestone(REPO, issue.0, "v2", "ada").unwrap();
        assert_eq!(stage.later().await.stopped, [issue]);
    })
    .await;
}

/// Of the issues that nobody has told of yet some are read again in each look, and keep nobody waiting.
#[tokio::test]
async fn many_issues_that_github_has_not_told_of_hold_up_no_other() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        for _ in 0..30 {
            let issue = stage.issue("Broken", &["ready"]);
            stage.double.lose_events(REPO, issue.0).unwrap();
        }
        let good = stage.issue("Also broken", &["ready"]);
        let first = taken(&stage.look().await);
        assert!(first.is_empty(), "the oldest are read first: {first:?}");
        assert_eq!(taken(&stage.later().await), [good.0]);
        let item = stage.item(IssueNumber(1)).await;
        assert!(item.reason.contains("has not told yet"), "{item:?}");
        for number in [1, 30] {
            stage.double.unlabel_issue(REPO, number, "ready", "ada").unwrap();
            stage.double.label_issue(REPO, number, "ready", "ada").unwrap();
        }
        let mut told = Vec::new();
        for _ in 0..4 {
            told.extend(taken(&stage.later().await));
        }
        told.sort_unstable();
        assert_eq!(told, [1, 30], "each has its turn");
    })
    .await;
}
