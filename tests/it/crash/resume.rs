//! A conversation that was cut off in the middle goes on where it was: the model is not asked again for
//! what it has said.

use std::time::Duration;

use forgehand::event::RunEvent;
use forgehand::job::JobState;

use super::{WHOLE, ask, assert_each_done_once, assert_no_turn_twice};
use crate::databases::Database;
use crate::process::{SLOWLY, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(120);

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

/// A machine that had the job first has it last, too. In between another one took it over and got on with
/// it: what lies on the first is not what the conversation is about.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_others_have_left_behind_is_not_gone_on_with() {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let site = Site::open(database).await;
        let (mut first, mut second) = (site.program("first", WHOLE), site.program("second", WHOLE));
        let store = site.database.open().await;
        first.start().await;
        let issue = ask(&site, 0, SLOWLY);
        let called = async |tool: &str| {
            site.wait(&format!("{tool} is called"), PATIENCE, async || {
                let job = jobs_of(&store, issue).await.pop()?;
                let mut tx = store.begin().await.unwrap();
                let events = tx.events(&job.id, 0, 10_000).await.unwrap();
                let is_it = |event: &RunEvent| matches!(event, RunEvent::ToolCalled { tool: name, .. } if name == tool);
                events.iter().any(|event| is_it(&event.body)).then_some(())
            })
            .await;
        };
        called("read_file").await;
        first.kill().await;
        second.start().await;
        called("write_file").await;
        second.kill().await;
        first.start().await;
        site.wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_each_done_once(&site, &store, &first, &[issue]).await;
        first.stop().await;
        store.close().await;
        site.close().await;
    }
}
