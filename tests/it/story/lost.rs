//! Work that loses its worker or its model again and again: what people were told first does not stay
//! as it is, and what they read in the end says why and what to do.

use forgehand::job::{JobState, Outcome};

use crate::model_server::Reply;
use crate::service::{Service, lasting, usual};

/// The process dies in the middle of the same turn three times, while "working" is shown.
#[tokio::test]
async fn j13_a_job_that_loses_its_worker_three_times_says_so() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            service
                .model
                .play([Reply::silence(), Reply::silence(), Reply::silence()]);
            service.start_process().await;
            let issue = service.labelled_issue();
            for times in 1..=3 {
                service.model_is_asked(times).await;
                assert!(service.our_only_words(issue).starts_with("### ⏳"));
                service.kill().await;
                service.start_process().await;
            }
            service.done().await;
            let job = service.fix().await;
            assert_eq!((job.state, job.attempt), (JobState::Dead, 3));
            let words = service.our_only_words(issue);
            let why = "Reason: its worker was lost in attempt 3 of 3. To try again, put the label";
            assert!(words.starts_with("### ❌") && words.contains(why), "{words}");
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}

/// The model has no room for us for an hour: no try waits for that, and the job comes to its end.
#[tokio::test]
async fn j14_a_rate_limit_that_lasts_ends_the_job_with_what_to_do() {
    usual()
        .tell(async |service: &mut Service| {
            let slow_down = || Reply::error(429, "slow down").header("retry-after", "3600");
            service.model.play([slow_down(), slow_down(), slow_down()]);
            let issue = service.labelled_issue();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(&outcome, Outcome::GaveUp { branch: None, .. }), "{outcome:?}");
            assert_eq!(service.fix().await.state, JobState::Done);
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("rate_limit", lasting(&words));
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}
