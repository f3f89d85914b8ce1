//! The abuse cases of group G: hostile repositories, work trees and bundles. Each has a CANARY
//! that must not exist afterwards; `CANARY.sh` makes it when anything at all runs it.

use std::fs;
use std::path::{Path, PathBuf};

use forgehand::git::{GitError, Remote, TreePolicy};
use forgehand::ids::CommitSha;

use super::bench::{Bench, TIMEOUT, branch, feed, run, signature, violations, write};

/// A program that leaves a canary, and where the canary would be.
fn trap(bench: &Bench) -> (String, PathBuf) {
    let canary = bench.path("CANARY");
    let script = bench.path("CANARY.sh");
    write(&script, &format!("#!/bin/sh\ntouch {}\ncat\n", canary.display()));
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (script.display().to_string(), canary)
}

/// Imports, shows, commits and pushes: every host call that a change goes through.
async fn carry_through(bench: &Bench, name: &str, base: &CommitSha) {
    let bundle = bench.bundle(name, base, "");
    let import = bench.import(name, &bundle, base).await.unwrap();
    bench.git.diff(&import, 100_000).await.unwrap();
    let sha = bench.git.commit(&import, base, "change", &signature()).await.unwrap();
    bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &branch("agent/x"), None)
        .await
        .unwrap();
}

/// G01, G03, G04, G07: a work tree whose `.git` would run programs on any host command.
#[tokio::test]
async fn g01_g02_g03_g04_g07_what_the_sandbox_configures_runs_nowhere() {
    let bench = Bench::start().await;
    let (script, canary) = trap(&bench);
    let base = bench.check_out("a").await.unwrap();
    let keys = [
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "core.pager",
        "core.gitProxy",
        "gpg.program",
        "credential.helper",
        "diff.external",
        "diff.x.textconv",
        "diff.x.command",
        "merge.x.driver",
        "filter.q.clean",
        "filter.q.smudge",
        "filter.q.process",
        "uploadpack.packObjectsHook",
        "alias.status",
        "remote.origin.uploadpack",
    ];
    for inside in [".git", "nested/.git"] {
        let git_dir = bench.workspace("a", inside);
        for key in keys {
            write(
                &git_dir.join("config"),
                &fs::read_to_string(git_dir.join("config")).unwrap_or_default(),
            );
            run(
                &bench.path("."),
                &[
                    "config",
                    "--file",
                    git_dir.join("config").to_str().unwrap(),
                    key,
                    &script,
                ],
            );
        }
        for hook in [
            "pre-commit",
            "post-checkout",
            "reference-transaction",
            "post-index-change",
            "pre-push",
            "pre-auto-gc",
        ] {
            write(&git_dir.join("hooks").join(hook), &format!("#!/bin/sh\n{script}\n"));
        }
    }
    // A folder with a `.git` that is none would stop the sandbox's own `git add`.
    fs::rename(
        bench.workspace("a", "nested/.git"),
        bench.workspace("a", "nested/dot-git"),
    )
    .unwrap();
    write(&bench.workspace("a", ".gitattributes"), "* filter=q diff=x merge=x\n");
    write(&bench.workspace("a", "README.md"), "changed\n");
    carry_through(&bench, "a", &base).await;
    assert!(!canary.exists());
    assert_eq!(bench.served(&["show", "agent/x:README.md"]), "changed");
}

/// G03, G19: attributes of the base cannot name a program for the checkout; LFS stays a pointer.
#[tokio::test]
async fn g03_a_checkout_runs_no_filter_and_asks_no_lfs_server() {
    let bench = Bench::start().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 10737418240\n";
    bench.people_write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    bench.people_write(".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1/\n");
    bench.people_write("large.bin", pointer);
    bench.people_push("lfs");
    bench.check_out("a").await.unwrap();
    assert_eq!(fs::read_to_string(bench.workspace("a", "large.bin")).unwrap(), pointer);
}

/// G05: whatever `.git` became, the bundle is made without it; a bundle that is no file is refused.
#[tokio::test]
async fn g05_a_replaced_git_folder_or_bundle_leads_nowhere() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    fs::remove_dir_all(bench.workspace("a", ".git")).unwrap();
    write(&bench.workspace("a", ".git"), "gitdir: /evil\n");
    write(&bench.workspace("a", "README.md"), "changed\n");
    carry_through(&bench, "a", &base).await;

    let link = bench.path("runs/a/link.bundle");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    let problem = bench.import("a", &link, &base).await.unwrap_err().to_string();
    assert!(
        problem.contains("read the bundle") && !problem.contains("root:"),
        "{problem}"
    );
    let pipe = bench.path("runs/a/pipe.bundle");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(
        violations(bench.import("a", &pipe, &base).await),
        ["the bundle is not a regular file"]
    );
}

/// G06, G09: embedded repositories and submodules.
#[tokio::test]
async fn g06_g09_submodules_are_neither_followed_nor_added() {
    let bench = Bench::start().await;
    let canary = bench.path("CANARY");
    let modules = format!(
        "[submodule \"x\"]\n\tpath = vendor\n\turl = ext::sh -c touch% {}\n[submodule \"y\"]\n\tpath = \"y\\r\"\n\turl = --upload-pack=touch\n",
        canary.display()
    );
    // The served repository got it before anybody checked; receiving servers would refuse it.
    bench.people_write("x.gitmodules", &modules);
    let gitlink = format!("160000,{},vendor", "1".repeat(40));
    bench.people(&["update-index", "--add", "--cacheinfo", &gitlink]);
    bench.people(&["commit", "-qm", "gitlink"]);
    bench.people(&["push", "-q", "origin", "HEAD:main"]);
    let base = bench.check_out("a").await.unwrap();
    assert_eq!(
        fs::read_dir(bench.workspace("a", "vendor")).unwrap().count(),
        0,
        "left empty"
    );
    carry_through(&bench, "a", &base).await;

    let id = bench.blob("a", "[submodule \"x\"]\n\tpath = z\n\turl = https://example.com/x\n");
    let info = format!(
        "100644 {id}\t.gitmodules\n160000 {}\tz\n160000 {}\tvendor\n",
        "2".repeat(40),
        "3".repeat(40)
    );
    let bundle = bench.bundle("a", &base, &info);
    let problems = violations(bench.import("a", &bundle, &base).await).join("\n");
    for expected in ["`.gitmodules`: this file", "`z`: submodules", "`vendor`: submodules"] {
        assert!(problems.contains(expected), "{problems}");
    }
    assert!(!canary.exists());
}

/// G08: addresses rewritten by the sandbox, redirects to another host.
#[tokio::test]
async fn g08_a_redirect_gets_neither_request_nor_token() {
    let bench = Bench::start().await;
    let remote = Remote {
        url: format!("{}/moved/octo/repo.git", bench.server.address),
        ..bench.remote()
    };
    let problem = bench
        .git
        .refresh_mirror(&bench.mirror(), &remote, &[], TIMEOUT)
        .await
        .unwrap_err();
    assert!(matches!(problem, GitError::NotFound(_)), "{problem}");
    assert!(problem.to_string().contains("renamed or moved"), "{problem}");
}

/// G10: tree entries that stand for `.git`. Ordinary git refuses to make them, so they are written
/// as raw objects.
#[tokio::test]
async fn g10_names_that_stand_for_git_are_refused() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    let blob = bench.blob("a", "evil\n");
    let export = bench.path("runs/a/export.git");
    write(
        &export.join("objects/info/alternates"),
        &format!("{}\n", bench.path("runs/a/base.git/objects").display()),
    );
    write(&export.join("shallow"), &format!("{base}\n"));
    let names = [
        ".git",
        ".GIT",
        "..",
        ".",
        ".git ",
        "git~1",
        ".g\u{200c}it",
        "a/b",
        ".git::$INDEX_ALLOCATION",
        ".git\\x",
    ];
    for name in names {
        let mut tree = format!("100644 {name}\0").into_bytes();
        tree.extend(hex::decode(&blob).unwrap());
        let tree = feed(
            &export,
            &["hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
            &tree,
        );
        let commit = run(&export, &["commit-tree", "-m", "x", "-p", base.as_str(), &tree]);
        let bundle = bench.bundle_commit("a", &base, &commit);
        violations(bench.import("a", &bundle, &base).await);
    }
}

/// G11 and G18: links, modes, places and names, all reported in one go.
#[tokio::test]
async fn g11_everything_wrong_is_reported_at_once() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    let (absolute, up, fine) = (
        bench.blob("a", "/etc/passwd"),
        bench.blob("a", "../x"),
        bench.blob("a", "README.md"),
    );
    let file = bench.blob("a", "x\n");
    let index = [
        format!("120000 {absolute}\tpw"),
        format!("120000 {up}\tup"),
        format!("120000 {fine}\tfine"),
        format!("100644 {file}\t.github/workflows/ci.yml"),
        format!("100644 {file}\tCODEOWNERS"),
        format!("100644 {file}\treadme.MD"),
        format!("100644 {file}\tsrc/lib.rs"),
        format!("100644 {file}\t\"ends in CR\\r\""),
    ];
    let bundle = bench.bundle("a", &base, &(index.join("\n") + "\n"));
    let policy = TreePolicy {
        protected: vec!["src/**".to_owned()],
        ..TreePolicy::default()
    };
    let problems = violations(bench.import_with("a", &bundle, &base, &policy).await);
    insta::assert_snapshot!(problems.join("\n"));
}

/// G13: a path or revision that looks like an option.
#[tokio::test]
async fn g13_options_in_disguise_are_data() {
    let bench = Bench::start().await;
    bench.refresh().await.unwrap();
    let canary = bench.path("CANARY");
    let at = bench.git.resolve(&bench.mirror(), "refs/heads/main").await.unwrap();
    let (mirror, remote) = (bench.mirror(), bench.remote());
    for argument in [
        format!("--output={}", canary.display()),
        format!("--open-files-in-pager=touch {}", canary.display()),
        format!("-Otouch {}", canary.display()),
        format!("--upload-pack=touch {}", canary.display()),
    ] {
        assert_eq!(
            bench
                .git
                .read_file(&mirror, &remote, &at, &argument, 100)
                .await
                .unwrap(),
            None
        );
        assert!(bench.git.resolve(&mirror, &argument).await.is_err());
        let extra = [argument.clone()];
        assert!(
            bench
                .git
                .refresh_mirror(&mirror, &remote, &extra, TIMEOUT)
                .await
                .is_err()
        );
    }
    assert!(!canary.exists());
}

/// G15: replacement refs of a bundle do not change what is reviewed; the base must be the parent.
#[tokio::test]
async fn g15_only_one_commit_on_the_base_is_taken() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    write(&bench.workspace("a", "README.md"), "one\n");
    bench.bundle("a", &base, "");
    let export = bench.path("runs/a/export.git");
    let first = run(&export, &["rev-parse", "refs/heads/change"]);
    let tree = run(&export, &["rev-parse", "refs/heads/change^{tree}"]);
    let second = run(&export, &["commit-tree", "-m", "x", "-p", &first, &tree]);
    let merge = run(
        &export,
        &["commit-tree", "-m", "x", "-p", base.as_str(), "-p", &first, &tree],
    );
    for commit in [second, merge] {
        let bundle = bench.bundle_commit("a", &base, &commit);
        let problems = violations(bench.import("a", &bundle, &base).await).join("\n");
        assert!(problems.contains("does not stand on"), "{problems}");
    }
    let evil = bench.blob("a", "evil\n");
    run(
        &export,
        &[
            "update-ref",
            "refs/replace/0000000000000000000000000000000000000001",
            &evil,
        ],
    );
    run(&export, &["update-ref", "refs/heads/change", &first]);
    let file = bench.path("runs/a/all.bundle");
    let range = format!("^{base}");
    run(
        &export,
        &["bundle", "create", "-q", file.to_str().unwrap(), &range, "--all"],
    );
    let import = bench.import("a", &file, &base).await.unwrap();
    assert_eq!(
        run(&import.repo, &["--git-dir=.", "for-each-ref", "--format=%(refname)"]),
        "refs/import/change"
    );
}

/// G20: garbage, floods and bombs end at a limit with a reason.
#[tokio::test]
async fn g20_garbage_and_floods_end_at_a_limit() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    for n in 0..30 {
        write(&bench.workspace("a", &format!("many/{n}.txt")), "x\n");
    }
    write(&bench.workspace("a", "large.txt"), &"x".repeat(5_000));
    let bundle = bench.bundle("a", &base, "");
    let (bench, bundle, base) = (&bench, &bundle, &base);
    let small = async |policy: TreePolicy| bench.import_with("a", bundle, base, &policy).await;
    let few = TreePolicy {
        max_changes: 10,
        ..TreePolicy::default()
    };
    let short = TreePolicy {
        max_file_bytes: 4_999,
        ..TreePolicy::default()
    };
    let tiny = TreePolicy {
        max_bundle_bytes: 100,
        ..TreePolicy::default()
    };
    let cases = [
        (few, "31 changed paths"),
        (short, "`large.txt`: 4.9 KiB are more"),
        (tiny, "larger than 100 B"),
    ];
    for (policy, expected) in cases {
        let problems = violations(small(policy).await).join("\n");
        assert!(problems.contains(expected), "{problems}");
    }
    for garbage in ["", "# v2 git bundle\n", "# v2 git bundle\n-0000\n\nPACK\0\0\0\u{2}"] {
        let file = bench.path("runs/a/garbage.bundle");
        fs::write(&file, garbage).unwrap();
        violations(bench.import("a", &file, base).await);
    }
}

/// G20: ten levels of ten names each are ten thousand million files.
#[tokio::test]
async fn g20_a_tree_bomb_is_neither_checked_out_nor_listed_nor_imported() {
    let bench = Bench::start().await;
    let bomb = |folder: &Path| {
        let blob = feed(folder, &["hash-object", "-w", "--stdin"], b"boom\n");
        let mut entry = format!("100644 blob {blob}");
        for _ in 0..10 {
            let lines: String = (0..10).map(|n| format!("{entry}\tf{n}\n")).collect();
            let tree = feed(folder, &["mktree"], lines.as_bytes());
            entry = format!("040000 tree {tree}");
        }
        entry.rsplit(' ').next().unwrap().to_owned()
    };
    let base = bench.check_out("a").await.unwrap();
    bench.bundle("a", &base, "");
    let export = bench.path("runs/a/export.git");
    let commit = run(
        &export,
        &["commit-tree", "-m", "x", "-p", base.as_str(), &bomb(&export)],
    );
    let bundle = bench.bundle_commit("a", &base, &commit);
    let problems = violations(bench.import("a", &bundle, &base).await).join("\n");
    assert!(problems.contains("too many files to be checked"), "{problems}");

    let people = bench.path("people");
    let commit = run(&people, &["commit-tree", "-m", "bomb", "-p", "HEAD", &bomb(&people)]);
    run(&people, &["push", "-q", "origin", &format!("{commit}:main")]);
    let problem = bench.check_out("b").await.unwrap_err().to_string();
    assert!(problem.contains("too large to check out"), "{problem}");
    let listed = bench
        .git
        .list_files(&bench.mirror(), &commit.parse().unwrap(), 1_000)
        .await
        .unwrap();
    assert_eq!(listed.len(), 1_000);
}
