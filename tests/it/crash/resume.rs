//! A conversation that was cut off in the middle goes on where it was: the model is not asked again for
//! what it has said.

use std::time::Duration;

use forgehand::event::RunEvent;
use forgehand::job::JobState;

use super::{WHOLE, ask, assert_each_done_once, assert_no_turn_twice};
use crate::databases::Database;
use crate::process::{SLOWLY, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_twice_asks_the_model_for_no_turn_twice() {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        let issue = ask(&site, 0, SLOWLY);
        // In the middle of the commands that the second and third reply asked for.
        for turn in [2, 3] {
            site.wait("the model has replied", PATIENCE, async || {
                let job = jobs_of(&store, issue).await.pop()?;
                let mut tx = store.begin().await.unwrap();
                let events = tx.events(&job.id, 0, 10_000).await.unwrap();
                let is_it = |event: &RunEvent| matches!(event, RunEvent::ModelReplied { turn: at, .. } if *at == turn);
                let replied = events.iter().any(|event| is_it(&event.body));
                (job.state == JobState::Leased && replied).then_some(())
            })
            .await;
            service.kill().await;
            service.start().await;
        }
        let job = site
            .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_no_turn_twice(&store, &job).await;
        assert_each_done_once(&site, &store, &service, &[issue]).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    }
}
