//! Workspaces that lie on prepared trees: what every command of a run sees, what other runs do not see,
//! and what stays of a tree and of a mount. Told as root and as an ordinary user.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use forgehand::config::{ConfigSources, SandboxConfig, WorkspaceConfig, load};
use forgehand::git::{Laying, TreePolicy};
use forgehand::ids::{CommitSha, RepoId};
use forgehand::sandbox::{self, Exec, FileReply, FileRequest, Part, Sandbox, SnapshotRequest, Started};
use forgehand::workspace::{RunFolder, Trees};
use tokio_util::sync::CancellationToken;

use super::job;
use crate::git::bench::{Bench, write};
use crate::sandbox::backends::{config, local_as_each_user};

/// A bench with a mirror, and trees below its state folder.
struct Site {
    bench: Bench,
    trees: Trees,
}

impl Site {
    async fn start() -> Self {
        Self::with(config(), &defaults()).await
    }

    async fn with(sandbox: SandboxConfig, limits: &WorkspaceConfig) -> Self {
        let bench = Bench::start().await;
        bench.refresh().await.unwrap();
        let trees = Trees::new(&bench.path("state"), &bench.git, &sandbox, limits).unwrap();
        Self {
            trees: trees.of(RepoId(1)),
            bench,
        }
    }

    async fn main(&self) -> CommitSha {
        self.bench.refresh().await.unwrap();
        self.bench
            .git
            .resolve(&self.bench.mirror(), "refs/heads/main")
            .await
            .unwrap()
    }

    /// Opens a run at a commit as the service does; true when a tree was there.
    async fn open(&self, at: &CommitSha) -> (Run, bool) {
        let state = self.bench.path("state");
        let folder = RunFolder::create(&state, &job()).unwrap();
        let (mirror, remote) = (self.bench.mirror(), self.bench.remote());
        let found = self.trees.find(&folder, &mirror, at).await.unwrap();
        let was_there = found.is_some();
        let found = match found {
            Some(found) => found,
            None => self.trees.make(&folder, &mirror, &remote, at).await.unwrap(),
        };
        self.trees.lay(&folder, &found, &mirror, &remote).await.unwrap();
        (Run::over(folder).await, was_there)
    }

    /// The prepared trees on the disk.
    fn on_disk(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.bench.path("state/trees/1"))
            .into_iter()
            .flatten()
            .flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn tree(&self, at: &CommitSha) -> PathBuf {
        self.bench.path("state/trees/1").join(at.as_str())
    }
}

fn defaults() -> WorkspaceConfig {
    load(&ConfigSources::default()).unwrap().workspace
}

/// A run's folder with its sandbox.
struct Run {
    folder: RunFolder,
    sandbox: Arc<dyn Sandbox>,
}

impl Run {
    async fn over(folder: RunFolder) -> Self {
        // Runs that are alive together have users of their own.
        static SLOT: AtomicU16 = AtomicU16::new(2_000);
        let slot = SLOT.fetch_add(1, Ordering::Relaxed);
        let sandbox = sandbox::open(&config(), folder.sandbox_folders(), slot).await.unwrap();
        Self { folder, sandbox }
    }

    async fn ok(&self, line: &str) -> String {
        let ran = self
            .sandbox
            .exec(&Exec::shell(line), &CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(ran.code(), Some(0), "{line}: {}", ran.output);
        ran.output
    }

    /// The tree that the files make, hashed anew, must be the commit's.
    async fn is_exactly(&self, at: &CommitSha) {
        assert_eq!(self.ok("git status --porcelain --ignored").await, "");
        let hashed = "rm .git/index; git add -A; git write-tree; git rev-parse HEAD^{tree}";
        let trees = self.ok(hashed).await;
        let (made, committed) = trees.trim().split_once('\n').unwrap();
        assert_eq!(made, committed);
        assert_eq!(self.ok("git rev-parse HEAD").await.trim(), at.as_str());
        self.ok("git fsck --no-dangling").await;
    }

    async fn end(self) {
        self.sandbox.close().await;
        self.folder.remove().unwrap();
    }
}

/// The machine itself has nothing mounted below a folder, whoever asks.
fn assert_no_mounts(below: &Path) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(below.to_str().unwrap()), "{table}");
}

#[test]
fn s19_a_second_run_lies_on_the_same_tree_and_neither_sees_what_the_other_does() {
    local_as_each_user(async || {
        let site = Site::start().await;
        assert_eq!(site.trees.laying().await, Laying::Over, "this kernel has layers");
        let at = site.main().await;
        let (first, was_there) = site.open(&at).await;
        assert!(!was_there);
        let made = fs::metadata(site.tree(&at).join("tree/README.md"))
            .unwrap()
            .modified()
            .unwrap();
        let (second, was_there) = site.open(&at).await;
        assert!(was_there, "nothing is checked out again");
        first.is_exactly(&at).await;
        second.is_exactly(&at).await;
        first
            .ok("echo changed > README.md && rm -r src && mkdir src && echo new > src/new && chmod 600 run.sh && ln -sf run.sh LINK.md")
            .await;
        assert_eq!(
            first.ok("ls src; cat README.md; readlink LINK.md").await,
            "new\nchanged\nrun.sh\n"
        );
        second.is_exactly(&at).await;
        assert_eq!(
            second
                .ok("cat README.md src/lib.rs | head -n 2; ls -l run.sh | cut -c 1-10")
                .await,
            "hello\npub fn one() -> u32 {\n-rwxr-xr-x\n"
        );
        let below = site.tree(&at).join("tree");
        assert_eq!(fs::read_to_string(below.join("README.md")).unwrap(), "hello\n");
        assert_eq!(fs::metadata(below.join("README.md")).unwrap().modified().unwrap(), made);
        assert_eq!(site.on_disk(), BTreeSet::from([at.to_string()]));
        assert_no_mounts(&site.bench.path("state"));
        // What is mounted does not tell where it lies on the machine.
        let seen = first.ok("grep -h overlay /proc/self/mountinfo /proc/self/mounts").await;
        assert_eq!(seen.lines().count(), 2);
        assert!(!seen.contains("/trees/") && !seen.contains("/runs/"), "{seen}");
        first.end().await;
        second.is_exactly(&at).await;
        second.end().await;
    });
}

/// Waits until a command in the background has said something.
async fn until_said(run: &Run, id: u32, words: &str) {
    let never = CancellationToken::new();
    let began = std::time::Instant::now();
    loop {
        let said = run.sandbox.output(id, Part::All, Duration::ZERO, &never).await.unwrap();
        if said.output.contains(words) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{words}: {}", said.output);
        tokio::task::yield_now().await;
    }
}

#[test]
fn everything_that_works_in_a_run_sees_the_same_files() {
    local_as_each_user(async || {
        let site = Site::start().await;
        let at = site.main().await;
        let (run, _) = site.open(&at).await;
        let never = CancellationToken::new();
        // Asked before the change, so that an own mount would remember what it saw.
        let waits = "cat README.md; ls; until [ -e flag ]; do read -t 0.02 x <> <(:); done; cat README.md; echo back > from-behind";
        let Started::Running(id) = run.sandbox.start(&Exec::shell(waits), &never).await.unwrap() else {
            panic!("it starts");
        };
        until_said(&run, id, "run.sh").await;
        run.ok("echo edited > README.md; touch flag").await;
        until_said(&run, id, "edited").await;
        assert_eq!(run.ok("cat from-behind").await, "back\n");
        let request = FileRequest::Read {
            path: "README.md".to_owned(),
            max_bytes: 1_000,
        };
        let FileReply::Content { bytes, .. } = run.sandbox.files(&request).await.unwrap() else {
            panic!("the file is there");
        };
        assert_eq!(bytes, "edited\n".len() as u64);
        let diff = run
            .sandbox
            .snapshot(
                &SnapshotRequest::Diff {
                    since: None,
                    path: String::new(),
                },
                &never,
            )
            .await
            .unwrap();
        assert!(
            diff.output.contains("+edited") && diff.output.contains("from-behind"),
            "{}",
            diff.output
        );
        run.ok("rm flag from-behind").await;
        let bundle = run.sandbox.export(&at, &never).await.unwrap().expect("a change");
        let into = run.folder.import().unwrap();
        let git = &site.bench.git;
        let import = git
            .import(&bundle, &run.folder.base_git(), &at, &into, &TreePolicy::default())
            .await
            .unwrap();
        assert_eq!(import.changes.len(), 1, "{:?}", import.changes);
        // A restart finds the folder as it was left.
        run.sandbox.close().await;
        let name: forgehand::ids::JobId = run
            .folder
            .root()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let (again, base) = RunFolder::open_existing(&site.bench.path("state"), &name)
            .unwrap()
            .unwrap();
        assert_eq!(base, at);
        let again = Run::over(again).await;
        assert_eq!(
            again.ok("cat README.md; git status --porcelain").await,
            "edited\n M README.md\n"
        );
        again.end().await;
    });
}

/// What differs from the tree is written above it, and what is gone is hidden.
#[test]
fn a_commit_with_few_differences_lies_on_an_earlier_tree() {
    local_as_each_user(async || {
        let site = Site::start().await;
        let people = |path: &str| site.bench.path("people").join(path);
        for path in [
            "gone/a/b.txt",
            "gone/c.txt",
            "part/kept.txt",
            "part/gone.txt",
            "was-file",
            "was-folder/x",
        ] {
            site.bench.people_write(path, "1\n");
        }
        site.bench.people_push("second");
        let first = site.main().await;
        let (run, _) = site.open(&first).await;
        run.is_exactly(&first).await;
        site.bench.people_write("README.md", "longer than before\n");
        site.bench.people_write("new/deep/file", "2\n");
        for path in ["gone", "was-folder"] {
            fs::remove_dir_all(people(path)).unwrap();
        }
        for path in ["part/gone.txt", "was-file", "LINK.md"] {
            fs::remove_file(people(path)).unwrap();
        }
        site.bench.people_write("was-file/now-folder", "2\n");
        site.bench.people_write("was-folder", "2\n");
        std::os::unix::fs::symlink("part", people("LINK.md")).unwrap();
        fs::set_permissions(people("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        site.bench.people_push("third");
        let second = site.main().await;
        let (moved, was_there) = site.open(&second).await;
        assert!(was_there);
        assert_eq!(
            site.on_disk(),
            BTreeSet::from([first.to_string()]),
            "no tree of its own"
        );
        assert!(moved.ok("ls; ls part was-file").await.contains("now-folder"));
        moved.is_exactly(&second).await;
        moved.ok("test ! -e gone && test ! -e part/gone.txt && mkdir gone && echo 3 > gone/again && test \"$(ls gone)\" = again").await;
        run.is_exactly(&first).await;
        // Its own repository borrows nothing that it does not hold.
        assert!(!moved.folder.base_git().join("objects/info/alternates").exists());
        moved.end().await;
        run.end().await;
        // Rules for line ends change files that no commit touched.
        site.bench.people_write(".gitattributes", "* text eol=crlf\n");
        site.bench.people_push("fourth");
        let third = site.main().await;
        let (run, was_there) = site.open(&third).await;
        assert!(!was_there);
        assert_eq!(
            run.ok("head -c 20 part/kept.txt | od -c | head -n 1 | tr -s ' '").await,
            "0000000 1 \\r \\n\n"
        );
        run.end().await;
    });
}

#[test]
fn where_there_are_no_layers_the_tree_is_copied() {
    local_as_each_user(async || {
        let mut flat = config();
        flat.helper = Some("/bin/false".into());
        let site = Site::with(flat, &defaults()).await;
        assert_eq!(site.trees.laying().await, Laying::Copy);
        let first = site.main().await;
        let (one, _) = site.open(&first).await;
        site.bench.people_write("README.md", "longer than before\n");
        fs::remove_dir_all(site.bench.path("people/src")).unwrap();
        site.bench.people_push("second");
        let second = site.main().await;
        let (two, was_there) = site.open(&second).await;
        assert!(was_there);
        one.ok("echo changed > README.md").await;
        two.is_exactly(&second).await;
        one.ok("git checkout -q README.md").await;
        one.is_exactly(&first).await;
        one.end().await;
        two.end().await;
    });
}

#[tokio::test]
async fn trees_stay_within_bounds_and_as_long_as_a_run_lies_on_them() {
    let limits = WorkspaceConfig {
        prepared_trees: 1,
        ..defaults()
    };
    let site = Site::with(config(), &limits).await;
    let first = site.main().await;
    let (run, _) = site.open(&first).await;
    site.bench.people_write(".gitattributes", "* text\n");
    site.bench.people_push("second");
    let second = site.main().await;
    let (other, was_there) = site.open(&second).await;
    assert!(!was_there);
    assert_eq!(site.on_disk().len(), 2, "both are in use");
    other.end().await;
    site.trees.tidy().await.unwrap();
    assert_eq!(
        site.on_disk(),
        BTreeSet::from([first.to_string()]),
        "the other is in use"
    );
    run.is_exactly(&first).await;
    run.end().await;
    let (again, was_there) = site.open(&first).await;
    assert!(was_there, "one is within bounds");
    again.end().await;
    let bytes = WorkspaceConfig {
        prepared_mib: 1,
        ..defaults()
    };
    write(&site.bench.path("people/large"), &"0123456789abcdef".repeat(160_000));
    site.bench.people_push("third");
    let third = site.main().await;
    let small = Trees::new(&site.bench.path("state"), &site.bench.git, &config(), &bytes).unwrap();
    let folder = RunFolder::create(&site.bench.path("state"), &job()).unwrap();
    small
        .of(RepoId(1))
        .make(&folder, &site.bench.mirror(), &site.bench.remote(), &third)
        .await
        .unwrap();
    folder.remove().unwrap();
    small.tidy().await.unwrap();
    assert_eq!(site.on_disk(), BTreeSet::new());
    let none = WorkspaceConfig {
        prepared_mib: 0,
        ..defaults()
    };
    assert!(Trees::new(&site.bench.path("state"), &site.bench.git, &config(), &none).is_none());
}

/// What a killed process left half made is never lain on, and goes.
#[tokio::test]
async fn j2_a_half_made_tree_is_swept_and_never_used() {
    let site = Site::start().await;
    let at = site.main().await;
    write(&site.bench.path("state/trees/1/.making/tree/README.md"), "half");
    write(&site.tree(&at).join("tree/README.md"), "without its mark");
    let folder = RunFolder::create(&site.bench.path("state"), &job()).unwrap();
    assert!(
        site.trees
            .find(&folder, &site.bench.mirror(), &at)
            .await
            .unwrap()
            .is_none()
    );
    site.trees.tidy().await.unwrap();
    assert!(!site.bench.path("state/trees/1/.making").exists());
    fs::remove_dir_all(site.tree(&at)).unwrap();
    let (run, _) = site.open(&at).await;
    run.is_exactly(&at).await;
    run.end().await;
    // A tree that was removed by hand takes the folders with it that lay on it.
    let (run, _) = site.open(&at).await;
    run.sandbox.close().await;
    fs::remove_dir_all(site.tree(&at)).unwrap();
    let name = run
        .folder
        .root()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        RunFolder::open_existing(&site.bench.path("state"), &name)
            .unwrap()
            .is_none()
    );
}
