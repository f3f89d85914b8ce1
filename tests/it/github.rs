//! The GitHub port against the double, and the double against GitHub's own description of itself.

use std::time::Duration;

use chrono::{DateTime, Utc};
use forgehand::clock::Clock;
use forgehand::config::GitHubConfig;
use forgehand::demo::double::GitHubDouble;
use forgehand::demo::double::NewPullByPerson;
use forgehand::github::{Access, GitHub, NewCheckRun, Progress, RepoClient};
use forgehand::ids::{CommitSha, IssueNumber, RepoName};
use forgehand::secret::Redactor;

mod checks;
mod errors;
pub mod facts;
mod gitting;
mod issues;
mod port;
mod pulls;
mod queue;
mod reviews;
mod shapes;
mod tokens;
mod webhooks;

/// A GitHub with one repository, `octo/widgets`, and the port that talks to it.
struct Stage {
    double: GitHubDouble,
    clock: Clock,
    redactor: Redactor,
    config: GitHubConfig,
    github: GitHub,
}

const REPO: &str = "octo/widgets";

impl Stage {
    async fn set() -> Self {
        Self::set_with(|_| {}).await
    }

    async fn set_with(adjust: impl FnOnce(&mut GitHubConfig)) -> Self {
        let clock = Clock::manual(noon());
        let double = GitHubDouble::start(clock.clone()).await.unwrap();
        let seed = double.repository(REPO).private();
        let seed = seed
            .file("README.md", "# Widgets\n")
            .file("src/lib.rs", "// nothing yet\n");
        seed.commit("Begin").create().await.unwrap();
        double.grant(REPO, "ada", "admin").unwrap();
        let mut config = GitHubConfig::default();
        double.configure(&mut config);
        config.write_interval_seconds = Duration::ZERO;
        adjust(&mut config);
        let redactor = Redactor::default();
        let github = GitHub::new(&config, clock.clone(), redactor.clone()).unwrap();
        Self {
            double,
            clock,
            redactor,
            config,
            github,
        }
    }

    fn client(&self, access: Access) -> RepoClient {
        self.client_of(REPO, access)
    }

    fn client_of(&self, repo: &str, access: Access) -> RepoClient {
        let id = self.double.repo_id(repo).unwrap();
        self.github.repo(self.double.installation(), id, name(repo), access)
    }

    fn issue(&self) -> IssueNumber {
        let number = self
            .double
            .open_issue(REPO, "Parser drops a line", "It does.", &[], "ada");
        IssueNumber(number.unwrap())
    }
}

impl Stage {
    /// A branch with one commit that writes these files, and a pull request of it by ada.
    async fn pull(&self, branch: &str, files: &[(&str, &str)]) -> IssueNumber {
        self.double.push(REPO, branch, files, "Change", "ada").await.unwrap();
        self.pull_from(REPO, branch).await
    }

    async fn pull_from(&self, head_repo: &str, branch: &str) -> IssueNumber {
        let new = NewPullByPerson {
            head_repo,
            head: branch,
            base: "main",
            title: "Change things",
            body: "",
            by: "ada",
        };
        IssueNumber(self.double.open_pull(REPO, new).await.unwrap())
    }

    /// The head commit of a branch.
    fn sha(&self, branch: &str) -> CommitSha {
        let sha = self.double.branch(REPO, branch).unwrap();
        sha.unwrap().parse().unwrap()
    }
}

/// A check run of ours.
fn new_check(sha: &CommitSha, progress: Progress) -> NewCheckRun {
    NewCheckRun {
        name: "Forgehand".to_owned(),
        head_sha: sha.clone(),
        external_id: "run-1".to_owned(),
        report: checks::report(progress),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.double.assert_no_unknown_routes();
            assert_eq!(
                self.double.unused_faults(),
                Vec::<String>::new(),
                "faults that never struck"
            );
        }
    }
}

fn noon() -> DateTime<Utc> {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn name(text: &str) -> RepoName {
    text.parse().unwrap()
}

/// How often a method and path was asked for.
fn count(double: &GitHubDouble, method: &str, path_end: &str) -> usize {
    let requests = double.requests();
    let wanted = requests
        .iter()
        .filter(|request| request.method == method && request.path.ends_with(path_end));
    wanted.count()
}
