//! The bench that the stories stand on: a server with one bare repository, a second clone in which
//! "people" work, and short words for what the stories do again and again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use chrono::DateTime;
use forgehand::git::{Git, GitError, Import, Remote, Signature, TreePolicy};
use forgehand::ids::{BranchName, CommitSha};
use forgehand::secret::Secret;

use super::server::{Server, TOKEN};

pub const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Bench {
    pub git: Git,
    pub server: Server,
    folder: tempfile::TempDir,
}

impl Bench {
    /// A repository with a README, a script and a link on `main`.
    pub async fn start() -> Self {
        let bench = Self::empty().await;
        bench.people_write("README.md", "hello\n");
        bench.people_write("src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n");
        bench.people_write("run.sh", "#!/bin/sh\necho hi\n");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bench.path("people/run.sh"), executable).unwrap();
        std::os::unix::fs::symlink("README.md", bench.path("people/LINK.md")).unwrap();
        bench.people_push("first");
        bench
    }

    /// A repository without a commit.
    pub async fn empty() -> Self {
        let folder = match Path::new("/dev/shm").is_dir() {
            true => tempfile::tempdir_in("/dev/shm").unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let served = folder.path().join("served/octo/repo.git");
        run(
            folder.path(),
            &["init", "-q", "--bare", "-b", "main", served.to_str().unwrap()],
        );
        run(&served, &["config", "http.receivepack", "true"]);
        run(&served, &["config", "uploadpack.allowFilter", "true"]);
        run(folder.path(), &["clone", "-q", served.to_str().unwrap(), "people"]);
        let server = Server::start(&folder.path().join("served")).await;
        Self {
            git: Git::find().unwrap(),
            server,
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Git as people use it, in their clone.
    pub fn people(&self, arguments: &[&str]) -> String {
        run(&self.path("people"), arguments)
    }

    /// Git on the served repository itself.
    pub fn served(&self, arguments: &[&str]) -> String {
        run(&self.path("served/octo/repo.git"), arguments)
    }

    pub fn people_write(&self, path: &str, content: &str) {
        write(&self.path("people").join(path), content);
    }

    /// Commits everything in the people's clone and pushes `main`.
    pub fn people_push(&self, message: &str) -> CommitSha {
        self.people(&["add", "-A"]);
        self.people(&["commit", "-q", "-m", message]);
        self.people(&["push", "-q", "origin", "HEAD:main"]);
        self.people(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// Force-pushes over the tip of `main` and returns the commit that was lost.
    pub fn people_push_amended(&self) -> CommitSha {
        let lost = self.people(&["rev-parse", "HEAD"]).parse().unwrap();
        self.people(&["commit", "-q", "--amend", "-m", "rewritten"]);
        self.people(&["push", "-qf", "origin", "HEAD:main"]);
        lost
    }

    pub fn remote(&self) -> Remote {
        Remote {
            url: format!("{}/octo/repo.git", self.server.address),
            token: Some(Secret::new(TOKEN)),
        }
    }

    pub fn mirror(&self) -> PathBuf {
        self.path("state/mirrors/1.git")
    }

    pub async fn refresh(&self) -> Result<(), GitError> {
        self.git
            .refresh_mirror(&self.mirror(), &self.remote(), &[], TIMEOUT)
            .await
    }

    /// Refreshes the mirror and checks `main` out into `runs/NAME`.
    pub async fn check_out(&self, name: &str) -> Result<CommitSha, GitError> {
        self.refresh().await?;
        let at = self.git.resolve(&self.mirror(), "refs/heads/main").await?;
        self.git
            .check_out(
                &self.mirror(),
                &self.remote(),
                &at,
                &self.path(&format!("runs/{name}/base.git")),
                &self.path(&format!("runs/{name}/workspace")),
            )
            .await?;
        Ok(at)
    }

    /// A file of the checkout.
    pub fn workspace(&self, name: &str, path: &str) -> PathBuf {
        self.path("runs").join(name).join("workspace").join(path)
    }

    /// Does what the sandbox does at the end of a run: bundles one commit on the base, made with a
    /// git folder of its own. Plumbing lines come through `git update-index --index-info`.
    pub fn bundle(&self, name: &str, base: &CommitSha, index_info: &str) -> PathBuf {
        let run_folder = self.path("runs").join(name);
        let export = run_folder.join("export.git");
        if index_info.is_empty() {
            // Trees made by hand refer to blobs that are already there.
            let _ = std::fs::remove_dir_all(&export);
        }
        run(&run_folder, &["init", "-q", "--bare", "export.git"]);
        let base_objects = run_folder.join("base.git/objects");
        write(
            &export.join("objects/info/alternates"),
            &format!("{}\n", base_objects.display()),
        );
        write(&export.join("shallow"), &format!("{base}\n"));
        let work_tree = format!("--work-tree={}", run_folder.join("workspace").display());
        run(&export, &["--git-dir=.", &work_tree, "read-tree", base.as_str()]);
        if index_info.is_empty() {
            run(
                &run_folder.join("workspace"),
                &["--git-dir=../export.git", "--work-tree=.", "add", "-A", "."],
            );
        } else {
            feed(&export, &["update-index", "--index-info"], index_info.as_bytes());
        }
        let tree = run(&export, &["write-tree"]);
        let commit = run(
            &export,
            &["commit-tree", "-m", "by the sandbox", "-p", base.as_str(), &tree],
        );
        self.bundle_commit(name, base, &commit)
    }

    /// Bundles a commit of the export repository.
    pub fn bundle_commit(&self, name: &str, base: &CommitSha, commit: &str) -> PathBuf {
        let export = self.path("runs").join(name).join("export.git");
        run(&export, &["update-ref", "refs/heads/change", commit]);
        let file = self.path("runs").join(name).join("change.bundle");
        let range = format!("^{base}");
        run(
            &export,
            &[
                "bundle",
                "create",
                "-q",
                file.to_str().unwrap(),
                &range,
                "refs/heads/change",
            ],
        );
        file
    }

    /// A blob in the export repository, for trees made by hand.
    pub fn blob(&self, name: &str, content: &str) -> String {
        let objects = self.path("runs").join(name).join("export.git");
        if !objects.exists() {
            run(&self.path("runs").join(name), &["init", "-q", "--bare", "export.git"]);
        }
        feed(&objects, &["hash-object", "-w", "--stdin"], content.as_bytes())
    }

    pub async fn import(&self, name: &str, bundle: &Path, base: &CommitSha) -> Result<Import, GitError> {
        self.import_with(name, bundle, base, &TreePolicy::default()).await
    }

    pub async fn import_with(
        &self,
        name: &str,
        bundle: &Path,
        base: &CommitSha,
        policy: &TreePolicy,
    ) -> Result<Import, GitError> {
        let base_git = self.path("runs").join(name).join("base.git");
        let into = self.path("runs").join(name).join("import");
        let _ = std::fs::remove_dir_all(&into);
        self.git.import(bundle, &base_git, base, &into, policy).await
    }

    /// Check out, change one file, bundle, import, commit: everything up to the push.
    pub async fn change(&self, name: &str, path: &str, content: &str) -> (Import, CommitSha) {
        let base = self.check_out(name).await.unwrap();
        write(&self.workspace(name, path), content);
        let bundle = self.bundle(name, &base, "");
        let import = self.import(name, &bundle, &base).await.unwrap();
        let sha = self
            .git
            .commit(&import, &base, "Change it", &signature())
            .await
            .unwrap();
        (import, sha)
    }

    /// Where a ref of the served repository points, empty when it does not exist.
    pub fn served_ref(&self, full_ref: &str) -> String {
        self.served(&["for-each-ref", "--format=%(objectname)", full_ref])
    }
}

pub fn signature() -> Signature {
    Signature {
        name: "forgehand[bot]".to_owned(),
        email: "1+forgehand[bot]@users.noreply.github.com".to_owned(),
        at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
    }
}

pub fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

/// The violations of an import that must have been refused.
#[track_caller]
pub fn violations(result: Result<Import, GitError>) -> Vec<String> {
    match result {
        Err(GitError::Policy(violations)) => violations,
        other => panic!("the policy should have refused this: {other:?}"),
    }
}

pub fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Ordinary git, as people and sandboxes run it.
#[track_caller]
pub fn run(folder: &Path, arguments: &[&str]) -> String {
    feed(folder, arguments, b"")
}

#[track_caller]
pub fn feed(folder: &Path, arguments: &[&str], input: &[u8]) -> String {
    use std::io::Write as _;
    let mut child = Command::new("git")
        .args(["-c", "user.name=A Person", "-c", "user.email=person@example.com"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
