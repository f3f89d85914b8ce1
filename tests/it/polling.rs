//! GitHub's log of webhook calls makes up for calls that did not arrive.

use std::time::{Duration, Instant};

use forgehand::clock::Clock;
use forgehand::config::{Config, ConfigSources, load};
use forgehand::demo::double::GitHubDouble;
use forgehand::github::GitHub;
use forgehand::intake::Rules;
use forgehand::job::Job;
use forgehand::secret::Redactor;
use forgehand::store::{JobFilter, Store};
use forgehand::worker::Poll;
use tokio_util::sync::CancellationToken;

use crate::databases::each;

const REPO: &str = "octo/widgets";

async fn jobs(store: &Store) -> Vec<Job> {
    let filter = JobFilter {
        limit: 10,
        ..JobFilter::default()
    };
    store.begin().await.unwrap().jobs(&filter).await.unwrap()
}

fn config(double: &GitHubDouble) -> Config {
    let mut config = load(&ConfigSources::default()).unwrap();
    double.configure(&mut config.github);
    config
}

/// A world in which a label was put on an issue while nobody listened.
async fn unheard_label() -> (GitHubDouble, Config) {
    let double = GitHubDouble::start(Clock::System).await.unwrap();
    double
        .repository(REPO)
        .file("a", "1")
        .commit("Begin")
        .create()
        .await
        .unwrap();
    double.grant(REPO, "ada", "write").unwrap();
    // The discard port: nobody listens there.
    double.hooks("http://127.0.0.1:9/webhook", &double.webhook_secret());
    let issue = double.open_issue(REPO, "Broken", "It is", &[], "ada").unwrap();
    double.label_issue(REPO, issue, "agent", "ada").unwrap();
    double.deliveries_settled().await;
    let config = config(&double);
    (double, config)
}

#[tokio::test]
async fn a_label_that_nobody_heard_becomes_one_job_however_often_the_log_is_read() {
    each(async |store| {
        let (double, config) = unheard_label().await;
        let poll = Poll {
            github: GitHub::new(&config.github, Clock::System, Redactor::default()).unwrap(),
            store: store.clone(),
            rules: Rules::new(&config.github, &config.queue, None),
            clock: Clock::System,
            every: Duration::from_millis(20),
        };
        let stop = CancellationToken::new();
        let looks = || {
            double
                .requests()
                .iter()
                .filter(|request| request.path.ends_with("/deliveries"))
                .count()
        };
        let watch = async {
            let begun = Instant::now();
            while looks() < 4 {
                assert!(begun.elapsed() < Duration::from_secs(20), "the log is not read");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        tokio::join!(poll.run(&stop), watch);
        let jobs = jobs(&store).await;
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].subject.to_string(), "issue/1");
        double.assert_no_unknown_routes();
        // The payload is fetched once: afterwards the call is known.
        let fetched = double
            .requests()
            .iter()
            .filter(|request| request.path.contains("/deliveries/"))
            .count();
        assert_eq!(fetched, 2, "the opened issue and the label");
    })
    .await;
}
