//! How fast a workspace opens, on a real repository: `cargo bench --bench opening -- REPO.git [REVISION]`.
//! Everything is measured in one run and told as a ratio of a full local clone, since absolute times move
//! with the machine: the other ways of git, the first opening of a commit, the next one, one a few
//! commits further, and the copy where there are no layers. Fails when a measure is beyond its goal.
#![allow(clippy::disallowed_methods)] // a benchmark starts git by itself

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use forgehand::config::{Config, ConfigSources, load};
use forgehand::git::{Git, Laying, Remote};
use forgehand::ids::{CommitSha, JobId, RepoId};
use forgehand::retrieval::code_search::Indexes;
use forgehand::retrieval::index::Limits;
use forgehand::sandbox::{self, Exec, Sandbox};
use forgehand::workspace::{RunFolder, Trees};
use tokio_util::sync::CancellationToken;

/// An opening may take this part of a full local clone's time.
const GOAL: f64 = 0.02;
/// Repetitions of what takes milliseconds.
const ROUNDS: usize = 9;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let Some(repo) = arguments.first() else {
        println!("opening  not measured: name a repository, `cargo bench --bench opening -- REPO.git`");
        return ExitCode::SUCCESS;
    };
    let revision = arguments.get(1).map_or("HEAD", String::as_str);
    match Bench::start(Path::new(repo), revision).run().await {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct Bench {
    /// In memory where there is such a place: many disks are slow with many files.
    folder: tempfile::TempDir,
    repo: PathBuf,
    commit: CommitSha,
    earlier: CommitSha,
    config: Config,
    git: Git,
}

impl Bench {
    fn start(repo: &Path, revision: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.expect("a folder");
        let repo = std::path::absolute(repo).expect("a path");
        // The disk of the original does not matter either.
        let own = folder.path().join("repo.git");
        run(&["clone", "-q", "--bare", "--no-local", text(&repo), text(&own)]);
        let parse = |revision: &str| {
            let said = output(&[
                "--git-dir",
                text(&own),
                "rev-parse",
                "--verify",
                &format!("{revision}^{{commit}}"),
            ]);
            said.trim().parse::<CommitSha>().expect("a commit")
        };
        let mut config = load(&ConfigSources::default()).expect("the defaults");
        config.sandbox.helper = Some(env!("CARGO_BIN_EXE_forgehand").into());
        Self {
            commit: parse(revision),
            earlier: parse(&format!("{revision}~5")),
            repo: own,
            folder,
            config,
            git: Git::find().expect("git"),
        }
    }

    async fn run(self) -> bool {
        let listed = output(&[
            "--git-dir",
            text(&self.repo),
            "ls-tree",
            "-r",
            "--name-only",
            self.commit.as_str(),
        ]);
        println!("{} files", listed.lines().count());
        let full = self.clone_with(&["--no-local"], 3);
        let tell = |what: &str, took: Duration| {
            println!(
                "{what:<48}{:>9.1} ms{:>9.2} %",
                ms(took),
                100.0 * took.as_secs_f64() / full.as_secs_f64()
            );
        };
        tell("git clone --no-local (a full clone)", full);
        tell("git clone (hard links)", self.clone_with(&[], 3));
        tell("git clone --shared", self.clone_with(&["--shared"], 3));
        tell(
            "git clone --no-local --depth 1",
            self.clone_with(&["--no-local", "--depth", "1"], 3),
        );
        tell("git worktree add", self.worktree());
        let site = Site::new(&self, &self.config, "state");
        println!("laid {:?}", site.trees.laying().await);
        let mut good = true;
        let first = site.open(&self.earlier).await;
        tell("the first opening of a repository", first.files);
        site.index(&self).await;
        let mut measure = |what: &str, opened: &[Opened], goal: f64| {
            let part = |of: fn(&Opened) -> Duration| median(opened.iter().map(of).collect());
            tell(what, part(|opened| opened.files));
            tell(
                "  … with its sandbox and the first git status",
                part(|opened| opened.status),
            );
            tell("  … the second git status", part(|opened| opened.again));
            let ratio = part(|opened| opened.files).as_secs_f64() / full.as_secs_f64();
            println!("  {:.2} % of a full clone, goal {:.0} %", 100.0 * ratio, 100.0 * goal);
            good &= ratio <= goal;
        };
        measure(
            "an opening of a commit seen before",
            &site.rounds(&self.earlier).await,
            GOAL,
        );
        measure("an opening five commits later", &site.rounds(&self.commit).await, GOAL);
        let mut flat = self.config.clone();
        flat.sandbox.helper = Some("/bin/false".into());
        let copied = Site::new(&self, &flat, "copied");
        assert_eq!(copied.trees.laying().await, Laying::Copy);
        copied.open(&self.earlier).await;
        measure(
            "the same without layers, by copying",
            &copied.rounds(&self.earlier).await,
            1.0,
        );
        let index = site.index(&self).await;
        tell("the index of the code of a commit seen before", index);
        good
    }

    fn clone_with(&self, options: &[&str], rounds: usize) -> Duration {
        let took = (0..rounds).map(|round| {
            let into = self.folder.path().join(format!("clone-{round}"));
            let arguments = [&["clone", "-q"], options, &[text(&self.repo), text(&into)]].concat();
            let took = timed(|| run(&arguments));
            std::fs::remove_dir_all(into).expect("removed");
            took
        });
        median(took.collect())
    }

    fn worktree(&self) -> Duration {
        let into = self.folder.path().join("worktree");
        let git_dir = text(&self.repo);
        let took = (0..3).map(|_| {
            let add = [
                "--git-dir",
                git_dir,
                "worktree",
                "add",
                "-q",
                "--detach",
                text(&into),
                self.commit.as_str(),
            ];
            let took = timed(|| run(&add));
            run(&["--git-dir", git_dir, "worktree", "remove", "--force", text(&into)]);
            took
        });
        median(took.collect())
    }
}

/// What one opening took, from nothing: until the files are there for whoever mounts them, until the
/// first `git status` in the sandbox is over, and the time of another one.
struct Opened {
    files: Duration,
    status: Duration,
    again: Duration,
}

struct Site<'b> {
    bench: &'b Bench,
    state: PathBuf,
    trees: Trees,
}

impl<'b> Site<'b> {
    fn new(bench: &'b Bench, config: &Config, name: &str) -> Self {
        let state = bench.folder.path().join(name);
        let trees = Trees::new(&state, &bench.git, &config.sandbox, &config.workspace).expect("trees are kept");
        Self {
            bench,
            state,
            trees: trees.of(RepoId(1)),
        }
    }

    async fn rounds(&self, at: &CommitSha) -> Vec<Opened> {
        let mut opened = Vec::new();
        for _ in 0..ROUNDS {
            opened.push(self.open(at).await);
        }
        opened
    }

    async fn open(&self, at: &CommitSha) -> Opened {
        let job = JobId::new(DateTime::from_timestamp(1_700_000_000, 0).expect("a time"));
        let remote = Remote {
            url: format!("file://{}", self.bench.repo.display()),
            token: None,
        };
        let began = Instant::now();
        let folder = RunFolder::create(&self.state, &job).expect("a run folder");
        let repo = &self.bench.repo;
        let found = match self.trees.find(&folder, repo, at).await.expect("a look") {
            Some(found) => found,
            None => self.trees.make(&folder, repo, &remote, at).await.expect("a tree"),
        };
        self.trees.lay(&folder, &found, repo, &remote).await.expect("laid out");
        let sandbox = &self.bench.config.sandbox;
        let sandbox = sandbox::open(sandbox, folder.sandbox_folders(), 7)
            .await
            .expect("a sandbox");
        let files = began.elapsed();
        assert_eq!(status(&sandbox).await, "");
        let until_status = began.elapsed();
        let began = Instant::now();
        assert_eq!(status(&sandbox).await, "");
        let again = began.elapsed();
        sandbox.close().await;
        folder.remove().expect("removed");
        Opened {
            files,
            status: until_status,
            again,
        }
    }

    /// Until the index has the earlier commit.
    async fn index(&self, bench: &Bench) -> Duration {
        let program = Path::new(env!("CARGO_BIN_EXE_forgehand"));
        let indexes = Indexes::new(&self.state, program, &bench.git, Limits::default());
        let began = Instant::now();
        indexes
            .bring(&bench.repo, &bench.earlier, |_| {})
            .await
            .expect("an index");
        began.elapsed()
    }
}

async fn status(sandbox: &Arc<dyn Sandbox>) -> String {
    let exec = Exec::shell("git status --porcelain");
    let ran = sandbox.exec(&exec, &CancellationToken::new()).await.expect("a command");
    assert_eq!(ran.code(), Some(0), "{}", ran.output);
    ran.output
}

fn git(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) {
    let status = git(arguments).status().expect("git");
    assert!(status.success(), "git {arguments:?}");
}

fn output(arguments: &[&str]) -> String {
    let output = git(arguments).output().expect("git");
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
