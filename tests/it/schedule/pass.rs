//! What a pass makes of fires.

use forgehand::ids::UserId;
use forgehand::job::{JobKind, JobState};
use forgehand::milestone::{GraphKey, NewMilestone};
use forgehand::schedule::CatchUp;
use forgehand::workgraph::WorkGraph;

use super::*;
use crate::databases::each;

#[tokio::test]
async fn a_fire_becomes_one_job_and_none_of_the_past_does() {
    each(async |store| {
        let (_double, github) = github().await;
        let nightly = Written {
            jitter_seconds: 600,
            ..written("nightly", "30 2 * * *")
        };
        let mut cron = cron(&store, &github, &[nightly], "2026-03-10T01:35:00Z").await;
        assert_eq!(pass(&cron).await, [""; 0], "02:30 was before anybody knew of it");
        set(&mut cron, "2026-03-11T01:29:59Z");
        assert_eq!(pass(&cron).await, [""; 0]);
        set(&mut cron, "2026-03-11T01:30:04Z");
        assert_eq!(pass(&cron).await, ["nightly 03-11 01:30 started +"]);
        assert_eq!(pass(&cron).await, [""; 0], "once");
        let jobs = jobs(&store).await;
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        let fire = at("2026-03-11T01:30:00Z");
        assert_eq!(fire_of(job), ("nightly".to_owned(), fire));
        assert_eq!((job.kind, job.state), (JobKind::Fix, JobState::Queued));
        assert_eq!(job.subject.to_string(), "task/schedule-nightly");
        assert_eq!(job.repo.as_str(), REPO);
        assert_eq!((job.pins.title.as_deref(), job.max_attempts), (Some("Tidy up."), 3));
        assert_eq!(job.pins.body.as_deref(), Some("Tidy up.\nLeave no crumbs."));
        assert_eq!(job.request.actor.id, UserId(0));
        let put_off = job.run_at - fire;
        assert!((0..=600).contains(&put_off.num_seconds()), "{put_off}");
        assert_eq!(put_off, forgehand::timetable::jitter("nightly", fire, 600));
    })
    .await;
}

#[tokio::test]
async fn three_days_down_make_one_job() {
    each(async |store| {
        let (_double, github) = github().await;
        let never = Written {
            catch_up: CatchUp::None,
            ..written("never", "0 3 * * *")
        };
        let all = [written("daily", "30 2 * * *"), never, written("often", "*/5 * * * *")];
        let mut cron = cron(&store, &github, &all, "2026-03-10T12:00:00Z").await;
        pass(&cron).await;
        set(&mut cron, "2026-03-13T12:02:30Z");
        let decided = pass(&cron).await;
        assert_eq!(
            &decided[..7],
            [
                "daily 03-11 01:30 missed",
                "daily 03-12 01:30 missed",
                "daily 03-13 01:30 made up for +",
                "never 03-11 02:00 missed",
                "never 03-12 02:00 missed",
                "never 03-13 02:00 missed",
                "often 03-13 07:50 missed, as were all before it",
            ]
        );
        assert_eq!(decided.last().unwrap(), "often 03-13 12:00 made up for +");
        assert_eq!(decided.len(), 6 + 51);
        assert_eq!(jobs(&store).await.len(), 2);
        assert_eq!(pass(&cron).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn work_does_not_pile_up() {
    each(async |store| {
        let (_double, github) = github().await;
        let mut cron = cron(
            &store,
            &github,
            &[written("often", "*/10 * * * *")],
            "2026-03-10T12:01:00Z",
        )
        .await;
        pass(&cron).await;
        set(&mut cron, "2026-03-10T12:10:00Z");
        assert_eq!(pass(&cron).await, ["often 03-10 12:10 started +"]);
        set(&mut cron, "2026-03-10T12:20:00Z");
        assert_eq!(pass(&cron).await, ["often 03-10 12:20 skipped: still at work"]);
        end_all(&store).await;
        assert_eq!(pass(&cron).await, [""; 0], "what was skipped is not made up for");
        set(&mut cron, "2026-03-10T12:30:00Z");
        assert_eq!(pass(&cron).await, ["often 03-10 12:30 started +"]);
        assert_eq!(jobs(&store).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_schedule_that_is_changed_or_switched_on_begins_anew() {
    each(async |store| {
        let (_double, github) = github().await;
        let off = Written {
            enabled: false,
            ..written("nightly", "30 2 * * *")
        };
        let mut cron = cron(&store, &github, &[off], "2026-03-10T12:00:00Z").await;
        pass(&cron).await;
        set(&mut cron, "2026-03-12T12:00:00Z");
        assert_eq!(pass(&cron).await, [""; 0], "it is off");
        cron.configured = vec![read(&written("nightly", "30 2 * * *"))];
        assert_eq!(pass(&cron).await, [""; 0], "it was off then");
        cron.configured = vec![read(&written("nightly", "30 11 * * *"))];
        set(&mut cron, "2026-03-13T12:00:00Z");
        assert_eq!(pass(&cron).await, [""; 0], "nobody knew of this time");
        set(&mut cron, "2026-03-14T10:30:00Z");
        assert_eq!(pass(&cron).await, ["nightly 03-14 10:30 started +"]);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_begun_is_noted_and_tried_again_the_next_time() {
    each(async |store| {
        let (_double, github) = github().await;
        let lost = Written {
            repository: Some("octo/nowhere".to_owned()),
            ..written("lost", "0 * * * *")
        };
        let mut cron = cron(&store, &github, &[lost], "2026-03-10T12:01:00Z").await;
        pass(&cron).await;
        set(&mut cron, "2026-03-10T13:00:00Z");
        let decided = pass(&cron).await;
        assert_eq!(
            decided,
            ["lost 03-10 13:00 not started: octo/nowhere does not exist, or the App is not installed on it"]
        );
        let mut tx = store.begin().await.unwrap();
        let history = tx.schedule_fires(None, 10).await.unwrap();
        assert_eq!((history.len(), &history[0].job), (1, &None));
        drop(tx);
        assert_eq!(jobs(&store).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_github_that_does_not_answer_loses_no_fire() {
    each(async |store| {
        let (double, github) = github().await;
        let mut cron = cron(
            &store,
            &github,
            &[written("nightly", "30 2 * * *")],
            "2026-03-10T12:00:00Z",
        )
        .await;
        // Nothing is known of the repository, and nobody can be asked.
        let unknown = Written {
            repository: Some("octo/elsewhere".to_owned()),
            ..written("nightly", "30 2 * * *")
        };
        cron.configured = vec![read(&unknown)];
        let mut config = GitHubConfig::default();
        double.configure(&mut config);
        config.api_url = "http://127.0.0.1:9".to_owned();
        cron.github = GitHub::new(&config, Clock::System, Redactor::default()).unwrap();
        pass(&cron).await;
        set(&mut cron, "2026-03-11T01:30:00Z");
        assert_eq!(pass(&cron).await, [""; 0]);
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.schedule_fires(None, 10).await.unwrap(), []);
        drop(tx);
        cron.github = github;
        double.repository("octo/elsewhere").create().await.unwrap();
        set(&mut cron, "2026-03-11T01:40:00Z");
        assert_eq!(pass(&cron).await, ["nightly 03-11 01:30 made up for +"]);
    })
    .await;
}

#[tokio::test]
async fn skills_are_told_and_a_graph_has_to_be_there() {
    each(async |store| {
        let (_double, github) = github().await;
        let skill = Written {
            skill: Some("release-notes".to_owned()),
            task: None,
            ..written("notes", "0 4 * * *")
        };
        let graph = Written {
            graph: Some("q4".to_owned()),
            task: None,
            ..written("plan", "0 4 * * *")
        };
        let mut cron = cron(&store, &github, &[skill, graph], "2026-03-10T12:00:00Z").await;
        pass(&cron).await;
        set(&mut cron, "2026-03-11T03:00:00Z");
        assert_eq!(
            pass(&cron).await,
            [
                "notes 03-11 03:00 started +",
                "plan 03-11 03:00 not started: there is no work graph q4 of repository/7; `forgehand goal` or `forgehand milestones add` makes one"
            ]
        );
        let jobs = jobs(&store).await;
        assert_eq!(jobs[0].pins.title.as_deref(), Some("Skill release-notes"));
        assert!(jobs[0].pins.body.as_deref().unwrap().contains("`release-notes`"));
    })
    .await;
}

#[tokio::test]
async fn a_fire_begins_one_milestone_of_an_approved_graph_after_its_jitter() {
    each(async |store| {
        let (_double, github) = github().await;
        let plan = Written {
            graph: Some("q4".to_owned()),
            task: None,
            jitter_seconds: 600,
            ..written("plan", "0 4 * * *")
        };
        let mut cron = cron(&store, &github, &[plan], "2026-03-10T12:00:00Z").await;
        let key = GraphKey {
            repository: "repository/7".to_owned(),
            name: "q4".parse().unwrap(),
        };
        let limits = (&forgehand::config::WorkgraphConfig::default()).into();
        let graph = WorkGraph::new(store.clone(), Clock::System, key, limits);
        let new = |id: &str| NewMilestone {
            id: Some(id.parse().unwrap()),
            title: format!("Do {id}"),
            description: String::new(),
            acceptance: Some("true".to_owned()),
            depends_on: Vec::new(),
        };
        graph.propose("all of it", vec![new("a"), new("b")]).await.unwrap();
        pass(&cron).await;
        set(&mut cron, "2026-03-11T03:00:00Z");
        assert_eq!(
            pass(&cron).await,
            ["plan 03-11 03:00 not started: nobody has approved the graph"]
        );
        graph.approve().await.unwrap();
        set(&mut cron, "2026-03-12T03:00:00Z");
        assert_eq!(pass(&cron).await, ["plan 03-12 03:00 started +"]);
        let job = jobs(&store).await.remove(0);
        assert!(matches!(&job.request.trigger, Trigger::Milestone { milestone, .. } if milestone == "a"));
        let expected =
            at("2026-03-12T03:00:00Z") + forgehand::timetable::jitter("plan", at("2026-03-12T03:00:00Z"), 600);
        assert_eq!(job.run_at, expected);
        assert!(expected > at("2026-03-12T03:00:00Z"), "the example has some");
        set(&mut cron, "2026-03-13T03:00:00Z");
        assert_eq!(
            pass(&cron).await,
            ["plan 03-13 03:00 skipped: still at work"],
            "one at a time"
        );
        assert_eq!(jobs(&store).await.len(), 1);
    })
    .await;
}
