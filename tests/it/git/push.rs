//! Imports that are fine, commits, and pushes.

use forgehand::git::{GitError, Remote};
use forgehand::secret::Secret;

use super::bench::{Bench, branch, run, signature, write};

#[tokio::test]
async fn a_change_is_imported_committed_and_pushed() {
    let bench = Bench::start().await;
    let base = bench.check_out("a").await.unwrap();
    write(&bench.workspace("a", "src/lib.rs"), "pub fn one() -> u32 {\n    2\n}\n");
    write(&bench.workspace("a", "docs/new.md"), "new\n");
    std::fs::write(bench.workspace("a", "logo.png"), b"\x89PNG\0\0\x01").unwrap();
    std::fs::remove_file(bench.workspace("a", "run.sh")).unwrap();
    let bundle = bench.bundle("a", &base, "");
    let import = bench.import("a", &bundle, &base).await.unwrap();
    let seen: Vec<String> = import
        .changes
        .iter()
        .map(|c| {
            format!(
                "{} {} {} {} +{} -{}",
                c.status, c.path, c.bytes, c.binary, c.lines.0, c.lines.1
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            "A docs/new.md 4 false +1 -0",
            "A logo.png 7 true +0 -0",
            "D run.sh 0 false +0 -2",
            "M src/lib.rs 30 false +1 -1",
        ]
    );
    let diff = bench.git.diff(&import, 100_000).await.unwrap();
    assert!(diff.contains("-    1\n+    2\n"), "{diff}");
    assert!(
        bench
            .git
            .diff(&import, 40)
            .await
            .unwrap()
            .contains("the diff is longer")
    );

    let sha = bench
        .git
        .commit(&import, &base, "Return two\n\nFixes #1\n", &signature())
        .await
        .unwrap();
    let again = bench
        .git
        .commit(&import, &base, "Return two\n\nFixes #1\n", &signature())
        .await
        .unwrap();
    assert_eq!(sha, again, "the same input gives the same commit");
    let name = branch("agent/1-two");
    bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &name, None)
        .await
        .unwrap();
    assert_eq!(bench.served_ref("refs/heads/agent/1-two"), sha.as_str());
    let shown = bench.served(&["show", "--format=%an|%cn|%at|%s|%P", "--stat", "agent/1-two"]);
    assert!(
        shown.starts_with(&format!("forgehand[bot]|forgehand[bot]|1700000000|Return two|{base}")),
        "{shown}"
    );
    bench.served(&["fsck", "--strict"]);
    let found = bench.git.remote_sha(&bench.remote(), &name).await.unwrap();
    assert_eq!(found, Some(sha.clone()));
    // A repeat after a lost answer finds the work done.
    bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &name, None)
        .await
        .unwrap();
}

/// A shallow base is enough even when `main` has moved on, and only the change is sent.
#[tokio::test]
async fn a_push_from_a_shallow_base_sends_only_the_change() {
    let bench = Bench::start().await;
    let noise: String = (0..20_000)
        .map(|n: u64| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    bench.people_write("large.txt", &noise);
    bench.people_push("large");
    let (import, sha) = bench.change("a", "README.md", "mine\n").await;
    bench.people_write("later.txt", "later\n");
    bench.people_push("later");
    let name = branch("agent/x");
    bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &name, None)
        .await
        .unwrap();
    bench.served(&["fsck", "--strict"]);
    assert_eq!(
        bench.served(&["rev-list", "--count", "agent/x"]),
        "3",
        "the history is whole on the server"
    );
    let seen = bench.server.seen();
    let sent = seen
        .iter()
        .find_map(|request| request.strip_prefix("POST /octo/repo.git/git-receive-pack "));
    let bytes: u64 = sent.unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(bytes < 10_000, "{bytes} bytes were sent for one line");
}

/// G16 and P5: a human pushed to the branch in the meantime.
#[tokio::test]
async fn g16_a_branch_that_moved_is_left_alone() {
    let bench = Bench::start().await;
    let (import, sha) = bench.change("a", "README.md", "mine\n").await;
    bench.people_write("README.md", "theirs\n");
    bench.people(&["commit", "-qam", "theirs"]);
    bench.people(&["push", "-q", "origin", "HEAD:refs/heads/agent/x"]);
    let theirs = bench.served_ref("refs/heads/agent/x");
    let base = import.base.clone();
    for expect in [None, Some(&base)] {
        let problem = bench
            .git
            .push(&import.repo, &bench.remote(), &sha, &branch("agent/x"), expect)
            .await;
        assert!(matches!(problem, Err(GitError::Moved(_))), "{problem:?}");
    }
    assert_eq!(bench.served_ref("refs/heads/agent/x"), theirs);
}

#[tokio::test]
async fn our_own_branch_is_replaced_when_it_is_where_we_left_it() {
    let bench = Bench::start().await;
    let (import, first) = bench.change("a", "README.md", "one\n").await;
    let name = branch("agent/x");
    bench
        .git
        .push(&import.repo, &bench.remote(), &first, &name, None)
        .await
        .unwrap();
    let (import, second) = bench.change("b", "README.md", "two\n").await;
    bench
        .git
        .push(&import.repo, &bench.remote(), &second, &name, Some(&first))
        .await
        .unwrap();
    assert_eq!(bench.served_ref("refs/heads/agent/x"), second.as_str());
}

/// G17, G19: branches of people are moved forward only, and only when we know where they are.
#[tokio::test]
async fn g19_branches_of_people_are_neither_made_nor_rewritten() {
    let bench = Bench::start().await;
    let (import, sha) = bench.change("a", "README.md", "mine\n").await;
    let base = import.base.clone();
    let requests = bench.server.seen().len();
    for name in ["main", "feature"] {
        let problem = bench
            .git
            .push(&import.repo, &bench.remote(), &sha, &branch(name), None)
            .await;
        assert!(matches!(problem, Err(GitError::Refused(_))), "{problem:?}");
    }
    let other: forgehand::ids::CommitSha = "1".repeat(40).parse().unwrap();
    let problem = bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &branch("feature"), Some(&other))
        .await;
    assert!(matches!(problem, Err(GitError::Refused(_))), "{problem:?}");
    assert_eq!(bench.server.seen().len(), requests, "refused before any network");

    bench.people(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &branch("feature"), Some(&base))
        .await
        .unwrap();
    assert_eq!(bench.served_ref("refs/heads/feature"), sha.as_str());
}

#[tokio::test]
async fn a_servers_no_is_told_from_a_lost_race() {
    let bench = Bench::start().await;
    let (import, sha) = bench.change("a", "README.md", "mine\n").await;
    let hook = bench.path("served/octo/repo.git/hooks/pre-receive");
    write(
        &hook,
        "#!/bin/sh\nprintf 'GH006: Protected branch \\033]0;title\\007\\033[2J update failed\\n' >&2\nexit 1\n",
    );
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let problem = bench
        .git
        .push(&import.repo, &bench.remote(), &sha, &branch("agent/x"), None)
        .await
        .unwrap_err();
    assert!(matches!(problem, GitError::Refused(_)), "{problem}");
    // G21: what a server writes cannot steer a terminal.
    let text = problem.to_string();
    assert!(
        text.contains("GH006: Protected branch") && !text.contains('\u{1b}') && !text.contains('\u{7}'),
        "{text:?}"
    );
    let remote = Remote {
        token: Some(Secret::new("ghs_wrong")),
        ..bench.remote()
    };
    let problem = bench
        .git
        .push(&import.repo, &remote, &sha, &branch("agent/x"), None)
        .await;
    assert!(matches!(problem, Err(GitError::Unauthorized(_))), "{problem:?}");
}

#[tokio::test]
async fn a_commit_on_a_parent_that_is_not_there_is_not_found() {
    let bench = Bench::start().await;
    let (import, _) = bench.change("a", "README.md", "mine\n").await;
    let parent = "1".repeat(40).parse().unwrap();
    let problem = bench.git.commit(&import, &parent, "x", &signature()).await;
    assert!(matches!(problem, Err(GitError::NotFound(_))), "{problem:?}");
    assert_eq!(run(&import.repo, &["--git-dir=.", "for-each-ref"]).lines().count(), 1);
}

/// Runs of the same task that end alike in the same second make the same commit.
#[tokio::test]
async fn the_same_commit_left_again_stays_on_its_branch() {
    let bench = Bench::start().await;
    let (import, sha) = bench.change("a", "README.md", "changed\n").await;
    let repo = bench.git.open_local(&bench.path("people")).await.unwrap();
    bench.people(&["branch", "taken"]);
    for (wanted, expected) in [
        ("agent/free", "agent/free".to_owned()),
        ("taken", format!("taken-{}", sha.short())),
    ] {
        for _ in 0..3 {
            let left = bench
                .git
                .leave_branch(&repo, &import, &sha, &branch(wanted))
                .await
                .unwrap();
            assert_eq!(left.as_str(), expected);
        }
        assert_eq!(bench.people(&["rev-parse", &expected]), sha.as_str());
    }
    // Where others stand on both names, nothing of theirs is moved.
    bench.people(&["branch", "-f", "agent/free", "HEAD"]);
    bench.people(&["branch", &format!("agent/free-{}", sha.short()), "HEAD"]);
    let refused = bench
        .git
        .leave_branch(&repo, &import, &sha, &branch("agent/free"))
        .await;
    assert!(
        matches!(&refused, Err(GitError::Failed(why)) if why.contains("name another branch")),
        "{refused:?}"
    );
}
