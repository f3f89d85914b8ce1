//! Mirrors and checkouts.

use std::fs;
use std::path::Path;

use forgehand::git::{GitError, Remote};
use forgehand::secret::Secret;

use super::bench::{Bench, TIMEOUT, run, write};
use super::server::TOKEN;

#[tokio::test]
async fn a_commit_is_mirrored_read_and_checked_out() {
    let bench = Bench::start().await;
    let at = bench.check_out("a").await.unwrap();
    assert_eq!(at.as_str(), bench.people(&["rev-parse", "HEAD"]));
    let files = bench.git.list_files(&bench.mirror(), &at, 100).await.unwrap();
    assert_eq!(files, ["LINK.md", "README.md", "run.sh", "src/lib.rs"]);

    assert_eq!(
        fs::read_to_string(bench.workspace("a", "README.md")).unwrap(),
        "hello\n"
    );
    assert_eq!(
        fs::read_link(bench.workspace("a", "LINK.md")).unwrap(),
        Path::new("README.md")
    );
    let mode = fs::metadata(bench.workspace("a", "run.sh")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o111,
        0o111
    );
    let base_git = bench.path("runs/a/base.git");
    assert_eq!(run(&base_git, &["rev-list", "--all", "--count"]), "1");
}

/// The state folder is configured relative to where the service was started.
#[tokio::test]
async fn relative_paths_mean_what_the_caller_means() {
    let bench = Bench::start().await;
    let relative = |name: &str| {
        let absolute = bench.path(name);
        Path::new(&"../".repeat(40)).join(absolute.strip_prefix("/").unwrap())
    };
    let (git, remote, mirror) = (&bench.git, bench.remote(), relative("m.git"));
    git.refresh_mirror(&mirror, &remote, &[], TIMEOUT).await.unwrap();
    let at = git.resolve(&mirror, "refs/heads/main").await.unwrap();
    let (base_git, workspace) = (relative("runs/a/base.git"), relative("runs/a/workspace"));
    git.check_out(&mirror, &remote, &at, &base_git, &workspace)
        .await
        .unwrap();
    write(&bench.workspace("a", "README.md"), "changed\n");
    bench.bundle("a", &at, "");
    let (bundle, into) = (relative("runs/a/change.bundle"), relative("runs/a/import"));
    let import = git
        .import(&bundle, &base_git, &at, &into, &Default::default())
        .await
        .unwrap();
    assert_eq!(import.changes.len(), 1);
}

#[tokio::test]
async fn the_sandbox_has_a_working_git_of_its_own() {
    let bench = Bench::start().await;
    let at = bench.check_out("a").await.unwrap();
    // Inside, the objects are at a fixed place; outside, the same is said through the environment.
    let workspace = bench.path("runs/a/workspace");
    let objects = fs::read_to_string(workspace.join(".git/objects/info/alternates")).unwrap();
    assert_eq!(objects, "/run/forgehand/base.git/objects\n");
    let alternates = format!("{}\n", bench.path("runs/a/base.git/objects").display());
    write(&workspace.join(".git/objects/info/alternates"), &alternates);
    assert_eq!(run(&workspace, &["status", "--porcelain"]), "");
    assert_eq!(run(&workspace, &["rev-parse", "HEAD"]), at.as_str());
    assert_eq!(run(&workspace, &["branch", "--show-current"]), "work");
    write(&workspace.join("README.md"), "changed\n");
    assert_eq!(run(&workspace, &["diff", "--name-only"]), "README.md");
    run(&workspace, &["commit", "-qam", "by the agent"]);
    assert_eq!(run(&workspace, &["log", "--oneline"]).lines().count(), 2);
}

#[tokio::test]
async fn contents_come_only_when_needed_and_only_once() {
    let bench = Bench::start().await;
    bench.people_write("README.md", "second\n");
    bench.people_push("second");
    let at = bench.check_out("a").await.unwrap();
    let mirror = bench.mirror();
    let missing = run(
        &mirror,
        &["--git-dir=.", "rev-list", "--objects", "--all", "--missing=print"],
    );
    assert_eq!(
        missing.lines().filter(|line| line.starts_with('?')).count(),
        1,
        "the old README only"
    );
    let before = bench.server.seen().len();
    let base_git = bench.path("runs/b/base.git");
    let workspace = bench.path("runs/b/workspace");
    bench
        .git
        .check_out(&mirror, &bench.remote(), &at, &base_git, &workspace)
        .await
        .unwrap();
    assert_eq!(bench.server.seen().len(), before, "a second checkout needs no network");
}

#[tokio::test]
async fn a_server_without_filters_is_mirrored_in_full() {
    let bench = Bench::start().await;
    bench.served(&["config", "uploadpack.allowFilter", "false"]);
    bench.check_out("a").await.unwrap();
    assert!(bench.workspace("a", "README.md").exists());
}

/// Links to rules are common, such as `CLAUDE.md` to `AGENTS.md`.
#[tokio::test]
async fn g11_files_are_read_through_links_but_never_out_of_the_tree() {
    let bench = Bench::start().await;
    for (name, target) in [
        ("docs", "src"),
        ("up", "../../etc/passwd"),
        ("abs", "/etc/passwd"),
        ("a", "b"),
        ("b", "a"),
    ] {
        std::os::unix::fs::symlink(target, bench.path("people").join(name)).unwrap();
    }
    std::fs::write(bench.path("people").join("src/first.rs"), "the first of its folder\n").unwrap();
    let at = bench.people_push("links");
    bench.refresh().await.unwrap();
    let read = async |path: &str| {
        let file = bench
            .git
            .read_file(&bench.mirror(), &bench.remote(), &at, path, 1000)
            .await;
        file.unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
    };
    assert_eq!(read("README.md").await.as_deref(), Some("hello\n"));
    assert_eq!(read("LINK.md").await.as_deref(), Some("hello\n"));
    assert!(read("docs/lib.rs").await.unwrap().contains("pub fn one"));
    for path in [
        "src",
        "src/none.rs",
        "docs/none.rs",
        "none",
        "up",
        "abs",
        "a",
        "../x",
        "/etc/passwd",
        "README.md/x",
        "--help",
        "*",
    ] {
        assert_eq!(read(path).await, None, "{path}");
    }
    let large = bench
        .git
        .read_file(&bench.mirror(), &bench.remote(), &at, "README.md", 3)
        .await;
    assert!(large.unwrap_err().to_string().contains("larger than 3 bytes"));
}

/// G1: the default branch has any name.
#[tokio::test]
async fn g1_a_branch_of_any_name_is_resolved() {
    let bench = Bench::start().await;
    for name in [
        "master",
        "fix/#12-x",
        "a+b",
        "paris,france",
        "@hotfix/x",
        "_release/v1",
        "docs",
        "x;touch${IFS}CANARY",
    ] {
        bench.people(&["push", "-q", "origin", &format!("HEAD:refs/heads/{name}")]);
    }
    bench.refresh().await.unwrap();
    for name in [
        "master",
        "fix/#12-x",
        "a+b",
        "paris,france",
        "@hotfix/x",
        "_release/v1",
        "docs",
        "x;touch${IFS}CANARY",
    ] {
        let found = bench.git.resolve(&bench.mirror(), &format!("refs/heads/{name}")).await;
        assert!(found.is_ok(), "{name}: {found:?}");
    }
    let wrong = bench.git.resolve(&bench.mirror(), "refs/heads/nope").await;
    assert!(matches!(wrong, Err(GitError::NotFound(_))), "{wrong:?}");
}

/// G2: the head of a pull request from a fork is not a branch of the repository.
#[tokio::test]
async fn g2_pull_request_heads_are_fetched_by_their_own_ref() {
    let bench = Bench::start().await;
    bench.people_write("fork.txt", "from a fork\n");
    bench.people(&["add", "-A"]);
    bench.people(&["commit", "-qm", "fork"]);
    bench.people(&["push", "-q", "origin", "HEAD:refs/pull/7/head"]);
    let refresh = async |extra: &str| {
        let extra = [extra.to_owned()];
        bench
            .git
            .refresh_mirror(&bench.mirror(), &bench.remote(), &extra, TIMEOUT)
            .await
    };
    refresh("refs/pull/7/head").await.unwrap();
    let head = bench.git.resolve(&bench.mirror(), "refs/pull/7/head").await.unwrap();
    assert_eq!(head.as_str(), bench.people(&["rev-parse", "HEAD"]));
    assert!(matches!(refresh("refs/pull/8/head").await, Err(GitError::NotFound(_))));
    bench.refresh().await.unwrap();
    assert!(
        bench.git.resolve(&bench.mirror(), "refs/pull/7/head").await.is_ok(),
        "pruning leaves pulls alone"
    );
}

/// G23: an empty repository has no commit to work on, and says so.
#[tokio::test]
async fn g23_an_empty_repository_is_said_to_be_empty() {
    let bench = Bench::empty().await;
    let problem = bench.check_out("a").await.unwrap_err();
    assert!(problem.to_string().contains("the repository is empty"), "{problem}");
}

#[tokio::test]
async fn rewritten_and_deleted_branches_are_followed() {
    let bench = Bench::start().await;
    bench.people(&["push", "-q", "origin", "HEAD:refs/heads/old"]);
    bench.refresh().await.unwrap();
    bench.people(&["push", "-q", "origin", ":refs/heads/old", "HEAD:refs/heads/old/deeper"]);
    bench.people(&["commit", "-q", "--amend", "-m", "rewritten"]);
    bench.people(&["push", "-qf", "origin", "HEAD:main"]);
    bench.refresh().await.unwrap();
    let main = bench.git.resolve(&bench.mirror(), "refs/heads/main").await.unwrap();
    assert_eq!(main.as_str(), bench.people(&["rev-parse", "HEAD"]));
    assert!(bench.git.resolve(&bench.mirror(), "refs/heads/old").await.is_err());
}

#[tokio::test]
async fn a_pinned_commit_that_no_branch_reaches_any_more_is_still_checked_out() {
    let bench = Bench::start().await;
    let pinned = bench.people_push_amended();
    bench.refresh().await.unwrap();
    let (base_git, workspace) = (bench.path("runs/a/base.git"), bench.path("runs/a/workspace"));
    bench
        .git
        .check_out(&bench.mirror(), &bench.remote(), &pinned, &base_git, &workspace)
        .await
        .unwrap();
    assert!(workspace.join("README.md").exists());
}

#[tokio::test]
async fn leftovers_of_a_killed_git_and_a_damaged_mirror_are_healed() {
    let bench = Bench::start().await;
    bench.refresh().await.unwrap();
    let mirror = bench.mirror();
    for name in [
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "refs/heads/main.lock",
        "objects/pack/tmp_pack_x",
    ] {
        write(&mirror.join(name), "");
    }
    bench.people_write("README.md", "next\n");
    let next = bench.people_push("next");
    bench.refresh().await.unwrap();
    assert_eq!(bench.git.resolve(&mirror, "refs/heads/main").await.unwrap(), next);
    assert!(!mirror.join("objects/pack/tmp_pack_x").exists());

    for entry in fs::read_dir(mirror.join("objects/pack")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    bench.refresh().await.unwrap();
    assert!(bench.check_out("a").await.is_ok());
    write(&mirror.join("packed-refs"), "garbage\n");
    write(&mirror.join("refs/heads/main"), "garbage\n");
    bench.refresh().await.unwrap();
    assert_eq!(bench.check_out("b").await.unwrap(), next);
}

/// A mirror that has seen many refreshes does not get slower for ever.
#[tokio::test]
async fn the_packs_of_many_refreshes_are_joined() {
    let bench = Bench::start().await;
    let pinned = bench.check_out("a").await.unwrap();
    bench.people_push_amended();
    let packs = || fs::read_dir(bench.mirror().join("objects/pack")).unwrap().count();
    let mut most = 0;
    for n in 0..45 {
        bench.people_write("n.txt", &n.to_string());
        bench.people_push("again");
        bench.refresh().await.unwrap();
        most = most.max(packs());
    }
    assert!(packs() < most, "{} files after at most {most}", packs());
    let again = bench.git.list_files(&bench.mirror(), &pinned, 100).await.unwrap();
    assert_eq!(again.len(), 4, "what no branch reaches any more is kept");
}

#[tokio::test]
async fn many_runs_refresh_one_mirror_at_once() {
    let bench = Bench::start().await;
    let refreshes = (0..6).map(|_| bench.refresh());
    for result in futures_util::future::join_all(refreshes).await {
        result.unwrap();
    }
}

/// G17 and R10: a dead token is reported as such and never printed.
#[tokio::test]
async fn g17_a_refused_token_is_unauthorized_and_not_in_the_error() {
    let bench = Bench::start().await;
    let remote = Remote {
        token: Some(Secret::new("ghs_deadTOKENdeadTOKENdeadTOKENdeadTOKEN")),
        ..bench.remote()
    };
    for remote in [
        remote,
        Remote {
            token: None,
            ..bench.remote()
        },
    ] {
        let problem = bench
            .git
            .refresh_mirror(&bench.mirror(), &remote, &[], TIMEOUT)
            .await
            .unwrap_err();
        assert!(matches!(problem, GitError::Unauthorized(_)), "{problem}");
        assert!(!problem.to_string().contains("deadTOKEN"), "{problem}");
    }
    let gone = Remote {
        url: bench.remote().url.replace("repo.git", "nope.git"),
        ..bench.remote()
    };
    let problem = bench
        .git
        .refresh_mirror(&bench.mirror(), &gone, &[], TIMEOUT)
        .await
        .unwrap_err();
    assert!(matches!(problem, GitError::NotFound(_)), "{problem}");
    let dead = Remote {
        url: "http://127.0.0.1:1/octo/repo.git".to_owned(),
        ..bench.remote()
    };
    let problem = bench
        .git
        .refresh_mirror(&bench.mirror(), &dead, &[], TIMEOUT)
        .await
        .unwrap_err();
    assert!(matches!(problem, GitError::Unavailable(_)), "{problem}");
}

/// R07: the token is in no file that git leaves behind.
#[tokio::test]
async fn r07_the_token_is_in_no_file() {
    let bench = Bench::start().await;
    bench.check_out("a").await.unwrap();
    let encoded = "eC1hY2Nlc3MtdG9rZW46";
    for folder in [bench.path("state"), bench.path("runs")] {
        for entry in ignore::WalkBuilder::new(folder).standard_filters(false).build() {
            let entry = entry.unwrap();
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                let content = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
                assert!(
                    !content.contains(TOKEN) && !content.contains(encoded),
                    "{:?}",
                    entry.path()
                );
            }
        }
    }
}

/// A server that never answers is given up at the deadline, with all its processes.
#[tokio::test]
async fn g4_a_silent_server_is_given_up_in_time() {
    let bench = Bench::empty().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = Remote {
        url: format!("http://{}/octo/repo.git", listener.local_addr().unwrap()),
        token: None,
    };
    let short = std::time::Duration::from_millis(700);
    let problem = bench
        .git
        .refresh_mirror(&bench.mirror(), &remote, &[], short)
        .await
        .unwrap_err();
    assert!(matches!(problem, GitError::Unavailable(_)), "{problem}");
    assert!(problem.to_string().contains("took longer than"), "{problem}");
}

/// Stopping a run stops its git: no process of it is left, and the next one gets the lock.
#[tokio::test]
async fn a_dropped_call_leaves_no_process_behind() {
    let bench = Bench::empty().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let remote = Remote {
        url: format!("http://{address}/octo/repo.git"),
        token: None,
    };
    let mirror = bench.mirror();
    let call = bench.git.refresh_mirror(&mirror, &remote, &[], TIMEOUT);
    // The connection stays open, so that git has no reason to end by itself.
    let _connection = tokio::select! {
        ended = call => panic!("the server never answered: {ended:?}"),
        connected = listener.accept() => connected.unwrap(),
    };
    let needle = address.to_string();
    let deadline = std::time::Instant::now() + TIMEOUT;
    while processes_with(&needle) > 0 {
        assert!(std::time::Instant::now() < deadline, "git is still running");
        tokio::task::yield_now().await;
    }
    bench.refresh().await.unwrap();
}

/// Running processes whose command line mentions the text.
fn processes_with(text: &str) -> usize {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(text))
        .count()
}
