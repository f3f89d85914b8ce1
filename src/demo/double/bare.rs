//! The bare repositories behind the double and the git program that works on them, in a clean
//! environment: no configuration of the person at the keyboard changes what is made here.
//! Called by `seed`, `refs` and `git_http`. Never touches a repository outside its own folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::diff::{self, ChangedFile, Comparison};
use crate::closed;

/// Small repositories on a local disk; longer is a hang.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Lists of refs and single files.
const MAX_OUTPUT_BYTES: u64 = 32 * 1024 * 1024;

/// What the server's side of GitHub allows, and what it keeps for itself.
const SERVER_CONFIG: &str = "
[http]
\treceivepack = true
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
[receive]
\tautogc = false
\thideRefs = refs/pull
[gc]
\tauto = 0
";

/// A folder for the bare repositories, in memory where the system has such a place: they are
/// many small files that nobody keeps.
pub(super) fn folder() -> anyhow::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        closed::temporary_in(memory, "forgehand-github-")
    } else {
        closed::temporary("forgehand-github-")
    };
    folder.context("make a folder for the repositories of the GitHub double")
}

/// Where git's programs are.
#[derive(Debug, Clone)]
pub(super) struct GitPrograms {
    exec_path: PathBuf,
}

impl GitPrograms {
    pub(super) async fn find() -> anyhow::Result<Self> {
        let output = Command::new("git")
            .arg("--exec-path")
            .stdin(Stdio::null())
            .output()
            .await;
        let output = output.context("run `git --exec-path`: is git installed?")?;
        let exec_path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let backend = exec_path.join("git-http-backend");
        ensure!(
            backend.is_file(),
            "{} is missing; the GitHub double serves git with it",
            backend.display()
        );
        Ok(Self { exec_path })
    }

    /// A command with nothing of our own environment in it.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut path = self.exec_path.clone().into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        let mut command = Command::new(self.exec_path.join(program));
        command
            .env_clear()
            .env("PATH", path)
            .env("GIT_EXEC_PATH", &self.exec_path)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_AUTHOR_NAME", "Octo Person")
            .env("GIT_AUTHOR_EMAIL", "person@example.org")
            .env("GIT_COMMITTER_NAME", "Octo Person")
            .env("GIT_COMMITTER_EMAIL", "person@example.org")
            .env("LC_ALL", "C")
            .kill_on_drop(true);
        command
    }

    async fn run(&self, repo: &Path, args: &[&str], input: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut command = self.command("git");
        command.arg("--git-dir").arg(repo).args(args);
        let work = feed(command, input);
        let outcome = tokio::time::timeout(GIT_TIMEOUT, work).await;
        let outcome = outcome.unwrap_or_else(|_| bail!("no end after {GIT_TIMEOUT:?}"));
        outcome.with_context(|| format!("git {}", args.join(" ")))
    }

    /// Makes an empty repository that is ready to be served.
    pub(super) async fn init(&self, repo: &Path, default_branch: &str) -> anyhow::Result<()> {
        let branch = format!("--initial-branch={default_branch}");
        self.run(repo, &["init", "--quiet", "--bare", "--template=", &branch], b"")
            .await?;
        let config = repo.join("config");
        let mut text = tokio::fs::read_to_string(&config)
            .await
            .context("read the new repository's config")?;
        text.push_str(SERVER_CONFIG);
        tokio::fs::write(&config, text)
            .await
            .context("write the new repository's config")
    }

    pub(super) async fn fast_import(&self, repo: &Path, stream: &[u8]) -> anyhow::Result<()> {
        self.run(repo, &["fast-import", "--quiet", "--date-format=raw"], stream)
            .await
            .map(drop)
    }

    /// Branches and tags by full name.
    pub(super) async fn refs(&self, repo: &Path) -> anyhow::Result<BTreeMap<String, String>> {
        let args = [
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/heads",
            "refs/tags",
        ];
        let output = String::from_utf8_lossy(&self.run(repo, &args, b"").await?).into_owned();
        let lines = output.lines().filter_map(|line| line.split_once(' '));
        Ok(lines.map(|(sha, name)| (name.to_owned(), sha.to_owned())).collect())
    }

    pub(super) async fn update_ref(&self, repo: &Path, name: &str, sha: &str) -> anyhow::Result<()> {
        self.run(repo, &["update-ref", name, sha], b"").await.map(drop)
    }

    /// Brings what a refspec names of another repository here.
    pub(super) async fn fetch(&self, repo: &Path, from: &Path, refspec: &str) -> anyhow::Result<()> {
        let from = from.to_string_lossy();
        self.run(
            repo,
            &["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", &from, refspec],
            b"",
        )
        .await
        .map(drop)
    }

    /// What `head` has beyond its common ancestor with `base`.
    pub(super) async fn compare(&self, repo: &Path, base: &str, head: &str) -> anyhow::Result<Comparison> {
        let commits = self.run(repo, &["rev-list", &format!("{base}..{head}")], b"").await?;
        let commits = String::from_utf8_lossy(&commits).lines().map(str::to_owned).collect();
        let files = self.files(repo, &[&format!("{base}...{head}")]).await?;
        Ok(Comparison { commits, files })
    }

    /// What a push changed, without lines around it.
    pub(super) async fn pushed(&self, repo: &Path, before: &str, after: &str) -> anyhow::Result<Vec<ChangedFile>> {
        self.files(repo, &["--unified=0", before, after]).await
    }

    async fn files(&self, repo: &Path, what: &[&str]) -> anyhow::Result<Vec<ChangedFile>> {
        let mut args = vec!["-c", "core.quotePath=false", "diff", "--no-color", "--find-renames"];
        args.extend(what);
        args.push("--");
        let output = self.run(repo, &args, b"").await?;
        Ok(diff::parse(&String::from_utf8_lossy(&output)))
    }

    /// Merges `head` into `base` as a commit of its own.
    pub(super) async fn merge(&self, repo: &Path, base: &str, head: &str, message: &str) -> anyhow::Result<String> {
        let tree = self.run(repo, &["merge-tree", "--write-tree", base, head], b"").await?;
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        let args = ["commit-tree", &tree, "-p", base, "-p", head, "-m", message];
        let commit = self.run(repo, &args, b"").await?;
        Ok(String::from_utf8_lossy(&commit).trim().to_owned())
    }

    /// A file at a commit or branch.
    pub(super) async fn show(&self, repo: &Path, at: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        self.run(repo, &["cat-file", "blob", &format!("{at}:{path}")], b"")
            .await
    }

    /// The message of a commit.
    pub(super) async fn message(&self, repo: &Path, at: &str) -> anyhow::Result<String> {
        let output = self
            .run(repo, &["log", "-n", "1", "--format=%B", at, "--"], b"")
            .await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// What `head` changes beyond its common ancestor with `base`, as a unified diff.
    pub(super) async fn diff(&self, repo: &Path, base: &str, head: &str) -> anyhow::Result<String> {
        let output = self
            .run(repo, &["diff", &format!("{base}...{head}"), "--"], b"")
            .await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Subjects of the commits that a commit or branch leads to, newest first.
    pub(super) async fn subjects(&self, repo: &Path, at: &str) -> anyhow::Result<Vec<String>> {
        let output = self
            .run(repo, &["log", "-n", "1000", "--format=%s", at, "--"], b"")
            .await?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }
}

/// Runs a command to its end with input on its standard input.
async fn feed(mut command: Command, input: &[u8]) -> anyhow::Result<Vec<u8>> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("start git")?;
    let (mut stdin, stdout, stderr) = match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
        _ => bail!("git has no pipes"),
    };
    let write = async {
        // A program that ends early says why on its standard error; the broken pipe says nothing.
        let _ = stdin.write_all(input).await;
        drop(stdin);
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
    let mut stderr = stderr.take(64 * 1024);
    let read = stdout.read_to_end(&mut output);
    let complain = stderr.read_to_end(&mut errors);
    let ((), read, complain) = tokio::join!(write, read, complain);
    read.and(complain).context("read git's output")?;
    let status = child.wait().await.context("wait for git")?;
    ensure!(
        status.success(),
        "{status}: {}",
        String::from_utf8_lossy(&errors).trim()
    );
    Ok(output)
}
