//! Run folders: made, found again after a restart, removed whatever a sandbox did, and swept.

mod trees;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use chrono::DateTime;
use forgehand::git::Git;
use forgehand::ids::{JobId, RepoId};
use rustix::fs::{Mode, OFlags};

use forgehand::workspace::{RunFolder, jobs_with_folders, mirror_path, publish_path, remove_all};

use crate::git::bench::{Bench, run, write};

fn job() -> JobId {
    JobId::new(DateTime::from_timestamp(1_700_000_000, 0).unwrap())
}

#[tokio::test]
async fn j2_an_interrupted_run_finds_its_checkout_again_and_only_a_complete_one() {
    let bench = Bench::start().await;
    let (state, id) = (bench.path("state"), job());
    assert_eq!(bench.mirror(), mirror_path(&state, RepoId(1)));
    bench.refresh().await.unwrap();
    let at = bench.git.resolve(&bench.mirror(), "refs/heads/main").await.unwrap();

    assert!(RunFolder::open_existing(&state, &id).unwrap().is_none());
    let folder = RunFolder::create(&state, &id).unwrap();
    assert!(
        RunFolder::open_existing(&state, &id).unwrap().is_none(),
        "nothing is checked out yet"
    );
    folder
        .check_out(&bench.git, &bench.mirror(), &bench.remote(), &at)
        .await
        .unwrap();
    write(&folder.workspace().join("README.md"), "half done\n");

    let (again, base) = RunFolder::open_existing(&state, &id).unwrap().unwrap();
    assert_eq!(base, at);
    assert_eq!(
        fs::read_to_string(again.workspace().join("README.md")).unwrap(),
        "half done\n"
    );

    let fresh = RunFolder::create(&state, &id).unwrap();
    assert_eq!(fs::read_dir(fresh.workspace()).unwrap().count(), 0);
    assert!(RunFolder::open_existing(&state, &id).unwrap().is_none());
}

#[test]
fn the_folders_above_a_run_are_ours_alone() {
    let state = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(state.path(), &job()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.path().join("runs")), 0o700);
    assert_eq!(mode(folder.root()), 0o700);
    assert_eq!(mode(&folder.workspace()), 0o755);
}

/// S04 and more: links to the host, folders without permissions, thousands of levels.
#[test]
fn a_folder_is_removed_whatever_the_sandbox_did_and_nothing_else_is() {
    let state = tempfile::tempdir().unwrap();
    let outside = state.path().join("outside");
    write(&outside.join("CANARY"), "still here");
    let folder = RunFolder::create(state.path(), &job()).unwrap();
    symlink(&outside, folder.workspace().join("link")).unwrap();
    symlink(outside.join("CANARY"), folder.out().join("change.bundle")).unwrap();
    let locked = folder.workspace().join("locked");
    write(&locked.join("inner/file"), "x");
    for path in [locked.join("inner"), locked] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    // Deeper than any path may be long, made the way a sandbox would: one step at a time.
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let mut deepest = rustix::fs::open(folder.home(), flags, Mode::empty()).unwrap();
    for _ in 0..3_000 {
        rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
        deepest = rustix::fs::openat(&deepest, "d", flags, Mode::empty()).unwrap();
    }
    drop(deepest);

    folder.remove().unwrap();
    assert_eq!(fs::read_dir(state.path().join("runs")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(outside.join("CANARY")).unwrap(), "still here");
    folder.remove().unwrap();
}

/// J2 and G29: what a dead run left is removed by the id of its job, and looked for on the disk.
#[test]
fn j2_g29_a_sweep_removes_orphans_and_goes_on_with_what_was_interrupted() {
    let state = tempfile::tempdir().unwrap();
    assert!(
        jobs_with_folders(state.path()).unwrap().is_empty(),
        "no runs folder yet"
    );
    let (kept, orphan, half) = (job(), job(), job());
    for id in [&kept, &orphan] {
        let folder = RunFolder::create(state.path(), id).unwrap();
        write(&folder.workspace().join("a/b/c"), "x");
    }
    let runs = state.path().join("runs");
    write(&runs.join(format!(".removing-{half}/0/a/b")), "x");
    write(&runs.join("notes.txt"), "not ours");
    let published = job();
    write(&publish_path(state.path(), &published).join("change.bundle"), "x");
    let listed = jobs_with_folders(state.path()).unwrap();
    assert_eq!(listed.len(), 4);
    for id in listed.iter().filter(|id| **id != kept) {
        remove_all(state.path(), id).unwrap();
    }
    assert_eq!(fs::read_dir(state.path().join("publish")).unwrap().count(), 0);
    let mut left: Vec<String> = fs::read_dir(&runs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [kept.to_string(), "notes.txt".to_owned()]);
}

/// An import starts fresh each time, as a second verification of one run needs it.
#[tokio::test]
async fn a_run_can_import_again_and_again() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    let folder = RunFolder::create(&bench.path("state"), &job()).unwrap();
    let git = Git::find().unwrap();
    for text in ["one\n", "two\n"] {
        write(&bench.workspace("a", "README.md"), text);
        let bundle = bench.bundle("a", &base, "");
        let base_git = bench.path("runs/a/base.git");
        let into = folder.import().unwrap();
        let import = git
            .import(&bundle, &base_git, &base, &into, &Default::default())
            .await
            .unwrap();
        assert_eq!(
            run(&into, &["--git-dir=.", "show", &format!("{}:README.md", import.tree)]),
            text.trim()
        );
    }
}
