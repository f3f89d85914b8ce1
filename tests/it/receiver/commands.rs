//! Commands in comments, from the delivery to the job.

use forgehand::job::JobKind;

use super::payloads::{comment, ourselves};
use super::{Service, jobs};
use crate::databases::each;

#[tokio::test]
async fn c01_c04_at_most_one_job_from_a_comment_and_none_from_a_quotation() {
    each(async |store| {
        let service = Service::on(&store).await;
        let thousands = "/agent fix this \n".repeat(5_000);
        for (id, text) in [
            (1, "```\n/agent fix\n```"),
            (2, "> /agent fix"),
            (3, "please /agent fix"),
            (4, "/\u{430}gent fix"),
        ] {
            let answer = service
                .deliver(&format!("g{id}"), "issue_comment", &comment("created", id, 12, text))
                .await;
            assert_eq!(answer.outcome(), "ignored", "{text}");
        }
        assert!(jobs(&store).await.is_empty());
        let answer = service
            .deliver("g9", "issue_comment", &comment("created", 9, 12, &thousands))
            .await;
        assert_eq!(answer.outcome(), "applied");
        assert_eq!(jobs(&store).await.len(), 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w26_c07_words_are_data() {
    each(async |store| {
        let service = Service::on(&store).await;
        let text = "/agent fix \"; touch CANARY; \" ${{ github.token }} `id`\n\n> quoted\n- 'one'";
        service
            .deliver("g1", "issue_comment", &comment("created", 1, 12, text))
            .await;
        let job = &jobs(&store).await[0];
        assert_eq!(job.request.instructions, text.strip_prefix("/agent fix ").unwrap());
        assert_eq!(job.pins.title.as_deref(), Some("Parser drops the last line 🦀"));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn c05_a_bad_argument_is_answered_and_nothing_runs() {
    each(async |store| {
        let service = Service::on(&store).await;
        for (id, text) in [
            (1, "/agent fix --branch \"x; touch CANARY\""),
            (2, "/agent budget 1e309"),
            (3, "/agent dance"),
        ] {
            service
                .deliver(&format!("g{id}"), "issue_comment", &comment("created", id, 12, text))
                .await;
        }
        let jobs = jobs(&store).await;
        assert_eq!(jobs.len(), 3);
        for job in jobs {
            assert_eq!(job.kind, JobKind::Reply);
            assert!(job.request.instructions.contains("| command | effect |"), "{job:?}");
            assert!(!job.request.instructions.contains("CANARY"), "{job:?}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn t1_our_own_comments_start_nothing() {
    each(async |store| {
        let service = Service::on(&store).await;
        let mut own = comment("created", 1, 12, "/agent fix");
        own["sender"] = ourselves();
        assert_eq!(service.deliver("g1", "issue_comment", &own).await.outcome(), "ignored");
        assert!(jobs(&store).await.is_empty());
        service.stop().await;
    })
    .await;
}
