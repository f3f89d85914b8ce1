//! Merges without a working tree, against a real server: what fits, what conflicts, and what
//! repositories put into them.

use std::path::PathBuf;

use forgehand::git::{GitError, Line, Merge, Merged};
use forgehand::ids::CommitSha;

use super::bench::{Bench, branch, feed, run, signature, write};

/// Two lines of one repository, `ours` on a branch and `theirs` on `main`.
struct Lines {
    bench: Bench,
    base: CommitSha,
    ours: CommitSha,
    theirs: CommitSha,
}

impl Lines {
    /// Both lines are made by people: `ours` and `theirs` act in their clone before each commit.
    async fn of(prepare: impl Fn(&Bench), ours: impl Fn(&Bench), theirs: impl Fn(&Bench)) -> Self {
        let bench = Bench::start().await;
        prepare(&bench);
        bench.people_write("base.txt", "base\n");
        let base = bench.people_push("base");
        bench.people(&["checkout", "-q", "-b", "feature"]);
        ours(&bench);
        bench.people(&["add", "-A"]);
        bench.people(&["commit", "-q", "-m", "ours"]);
        bench.people(&["push", "-q", "origin", "feature"]);
        let ours = bench.people(&["rev-parse", "HEAD"]).parse().unwrap();
        bench.people(&["checkout", "-q", base.as_str()]);
        theirs(&bench);
        let theirs = bench.people_push("theirs");
        bench.refresh().await.unwrap();
        Self {
            bench,
            base,
            ours,
            theirs,
        }
    }

    async fn merge(&self, name: &str, base: Option<&CommitSha>) -> Result<Merged, GitError> {
        let (mirror, remote, into) = (self.bench.mirror(), self.bench.remote(), self.place(name));
        let wanted = Merge {
            mirror: &mirror,
            remote: &remote,
            lender: None,
            into: &into,
            ours: Line {
                label: "this-branch",
                commit: &self.ours,
            },
            theirs: Line {
                label: "base-branch",
                commit: &self.theirs,
            },
            base,
        };
        self.bench.git.merge(&wanted).await
    }

    fn place(&self, name: &str) -> PathBuf {
        self.bench.path(&format!("state/merge/{name}"))
    }

    fn conflicts(merged: &Merged) -> Vec<String> {
        let of = |conflict: &forgehand::git::Conflict| {
            let what = if conflict.is_text { "text" } else { "for people" };
            format!("{} {} {what}", conflict.path, conflict.kind)
        };
        merged.conflicts.iter().map(of).collect()
    }

    fn show(merged: &Merged, path: &str) -> String {
        run(&merged.repo, &["show", &format!("{}:{path}", merged.tree)])
    }
}

#[tokio::test]
async fn lines_that_fit_become_one_tree_and_a_commit_with_both_parents() {
    let lines = Lines::of(
        |_| {},
        |bench| bench.people_write("mine.txt", "mine\n"),
        |bench| bench.people_write("theirs.txt", "theirs\n"),
    )
    .await;
    let bench = &lines.bench;
    for (name, base) in [("history", None), ("named", Some(&lines.base))] {
        let merged = lines.merge(name, base).await.unwrap();
        assert!(merged.conflicts.is_empty());
        assert_eq!(Lines::show(&merged, "mine.txt"), "mine");
        assert_eq!(Lines::show(&merged, "theirs.txt"), "theirs");
    }
    let repo = lines.place("history");
    let merged = lines.merge("again", None).await.unwrap();
    let parents = [&lines.ours, &lines.theirs];
    let git = &bench.git;
    let commit = async |repo: PathBuf| {
        let by = signature();
        git.commit_tree(&repo, &merged.tree, &parents, "Merge\n", &by)
            .await
            .unwrap()
    };
    let sha = commit(repo.clone()).await;
    assert_eq!(
        sha,
        commit(merged.repo.clone()).await,
        "the same merge is the same commit"
    );

    // It is kept in a file, and pushed from another repository.
    let file = bench.path("state/merge.bundle");
    git.write_bundle(&repo, &sha, &parents, &file, 1 << 20).await.unwrap();
    let (mirror, remote, into) = (bench.mirror(), bench.remote(), bench.path("state/unpacked"));
    let from = (mirror.as_path(), &remote);
    git.read_bundle(&file, from, &sha, &parents, &into).await.unwrap();
    git.push(&into, &remote, &sha, &branch("feature"), Some(&lines.ours))
        .await
        .unwrap();
    let shown = bench.served(&["log", "-1", "--format=%P", "feature"]);
    assert_eq!(shown, format!("{} {}", lines.ours, lines.theirs));
    bench.served(&["fsck", "--strict"]);

    // Neither another commit nor other parents are taken for it.
    let wrong = git
        .read_bundle(&file, from, &lines.ours, &parents, &bench.path("state/wrong"))
        .await;
    assert!(matches!(wrong, Err(GitError::NotFound(_))), "{wrong:?}");
    let swapped = [parents[1], parents[0]];
    let wrong = git
        .read_bundle(&file, from, &sha, &swapped, &bench.path("state/swapped"))
        .await;
    assert!(matches!(wrong, Err(GitError::Failed(_))), "{wrong:?}");
}

#[tokio::test]
async fn conflicts_are_named_with_what_an_agent_can_do_about_them() {
    let files = ["text.txt", "gone.txt", "logo.png", "old name.txt"];
    let lines = Lines::of(
        |bench| {
            for file in files {
                bench.people_write(file, &format!("{file}\n1\n2\n3\n4\n5\n"));
            }
            std::fs::write(bench.path("people/logo.png"), b"\x89PNG\0\0a").unwrap();
        },
        |bench| {
            bench.people_write("text.txt", "ours\n1\n2\n3\n4\n5\n");
            bench.people(&["rm", "-q", "gone.txt"]);
            std::fs::write(bench.path("people/logo.png"), b"\x89PNG\0\0b").unwrap();
            bench.people(&["mv", "old name.txt", "ours.txt"]);
            bench.people_write("Both", "ours\n");
            std::fs::remove_file(bench.path("people/LINK.md")).unwrap();
            std::os::unix::fs::symlink("base.txt", bench.path("people/LINK.md")).unwrap();
        },
        |bench| {
            bench.people_write("text.txt", "theirs\n1\n2\n3\n4\n5\n");
            bench.people_write("gone.txt", "kept\n1\n2\n3\n4\n5\n");
            std::fs::write(bench.path("people/logo.png"), b"\x89PNG\0\0c").unwrap();
            bench.people(&["mv", "old name.txt", "theirs.txt"]);
            bench.people_write("Both", "theirs\n");
            std::fs::remove_file(bench.path("people/LINK.md")).unwrap();
            std::os::unix::fs::symlink("text.txt", bench.path("people/LINK.md")).unwrap();
        },
    )
    .await;
    let merged = lines.merge("a", None).await.unwrap();
    assert_eq!(
        Lines::conflicts(&merged),
        [
            "Both contents text",
            "LINK.md contents for people",
            "gone.txt modify/delete text",
            "logo.png binary for people",
            "old name.txt rename/rename text",
            "ours.txt rename/rename text",
            "text.txt contents text",
            "theirs.txt rename/rename text",
        ]
    );
    let shown = Lines::show(&merged, "text.txt");
    assert!(
        shown.starts_with("<<<<<<< this-branch\nours\n=======\ntheirs\n>>>>>>> base-branch\n"),
        "{shown}"
    );
    let git = &lines.bench.git;
    let left = git.left_over(&merged.repo, &merged.tree, &merged).await.unwrap();
    assert_eq!(
        left,
        [
            "`Both` still has marks of the conflict",
            "`text.txt` still has marks of the conflict"
        ]
    );
}

/// A divider that stays when the other marks go is seen, and one that was there before is not.
#[tokio::test]
async fn what_is_left_of_a_conflict_is_told_from_what_was_there_before() {
    let title = "Words\n=======\n\ntext\n";
    let lines = Lines::of(
        |bench| bench.people_write("a.rst", title),
        |bench| bench.people_write("a.rst", &format!("{title}ours\n")),
        |bench| bench.people_write("a.rst", &format!("{title}theirs\n")),
    )
    .await;
    let merged = lines.merge("a", None).await.unwrap();
    let tree_with = |content: &str| {
        let blob = feed(&merged.repo, &["hash-object", "-w", "--stdin"], content.as_bytes());
        feed(
            &merged.repo,
            &["mktree"],
            format!("100644 blob {blob}\ta.rst\n").as_bytes(),
        )
    };
    let git = &lines.bench.git;
    for (content, expected) in [
        (format!("{title}ours\ntheirs\n"), 0),
        (format!("{title}ours\n=======\n=======\ntheirs\n"), 1),
        (format!("{title}<<<<<<< this-branch\nours\ntheirs\n"), 1),
        (format!("{title}<<<<<<< HEAD\nan example\n"), 0),
    ] {
        let left = git
            .left_over(&merged.repo, &tree_with(&content), &merged)
            .await
            .unwrap();
        assert_eq!(left.len(), expected, "{content}: {left:?}");
    }
}

/// G04: what a repository says of merges is text to us.
#[tokio::test]
async fn attributes_of_a_repository_run_nothing() {
    let bench_trap = |bench: &Bench| {
        let canary = bench.path("CANARY");
        write(
            &bench.path("CANARY.sh"),
            &format!("#!/bin/sh\ntouch {}\n", canary.display()),
        );
        bench.people_write(".gitattributes", "* merge=evil filter=evil diff=evil\n");
        bench.people_write(".gitconfig", "[merge \"evil\"]\n\tdriver = sh CANARY.sh\n");
        bench.people_write("a.txt", "1\n");
    };
    let lines = Lines::of(
        bench_trap,
        |bench| bench.people_write("a.txt", "ours\n"),
        |bench| bench.people_write("a.txt", "theirs\n"),
    )
    .await;
    let merged = lines.merge("a", None).await.unwrap();
    assert_eq!(Lines::conflicts(&merged), ["a.txt contents text"]);
    assert!(!lines.bench.path("CANARY").exists());
}

#[tokio::test]
async fn submodules_and_twins_of_names_are_left_to_people_or_kept_apart() {
    let gitlink = |bench: &Bench, id: &str| {
        // Without the folder, the commit would drop it.
        std::fs::create_dir_all(bench.path("people/lib")).unwrap();
        let entry = format!("160000,{},lib", id.repeat(40));
        bench.people(&["update-index", "--add", "--cacheinfo", &entry]);
    };
    let lines = Lines::of(
        |bench| gitlink(bench, "1"),
        |bench| {
            bench.people_write("Name.txt", "ours\n");
            gitlink(bench, "2");
        },
        |bench| {
            bench.people_write("name.txt", "theirs\n");
            gitlink(bench, "3");
        },
    )
    .await;
    let merged = lines.merge("a", None).await.unwrap();
    let conflicts = Lines::conflicts(&merged);
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(
        conflicts[0].starts_with("lib ") && conflicts[0].ends_with("for people"),
        "{conflicts:?}"
    );
    assert_eq!(Lines::show(&merged, "Name.txt"), "ours");
    assert_eq!(Lines::show(&merged, "name.txt"), "theirs");
}

/// Histories that cross: git merges the common ancestors first, and needs all of them.
#[tokio::test]
async fn histories_that_cross_are_merged_by_all_their_ancestors() {
    let mut lines = Lines::of(
        |bench| bench.people_write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        |bench| bench.people_write("mine.txt", "mine\n"),
        |bench| bench.people_write("theirs.txt", "theirs\n"),
    )
    .await;
    let (ours, theirs) = (lines.ours.to_string(), lines.theirs.to_string());
    for (branch, first, second, file) in [
        ("feature", &ours, &theirs, "one.txt"),
        ("main", &theirs, &ours, "two.txt"),
    ] {
        let bench = &lines.bench;
        bench.people(&["checkout", "-q", first]);
        bench.people(&["merge", "-q", "--no-ff", "-m", "cross", second]);
        bench.people_write(file, "x\n");
        bench.people(&["add", "-A"]);
        bench.people(&["commit", "-q", "-m", file]);
        bench.people(&["push", "-q", "origin", &format!("HEAD:{branch}")]);
        let tip = bench.people(&["rev-parse", "HEAD"]).parse().unwrap();
        if branch == "main" {
            lines.theirs = tip;
        } else {
            lines.ours = tip;
        }
    }
    lines.bench.refresh().await.unwrap();
    let merged = lines.merge("a", None).await.unwrap();
    assert!(merged.conflicts.is_empty(), "{:?}", merged.conflicts);
    for path in ["mine.txt", "theirs.txt", "one.txt", "two.txt"] {
        Lines::show(&merged, path);
    }
    let git = &lines.bench.git;
    let news = git
        .commits(&lines.bench.mirror(), &lines.theirs, &lines.ours, 10)
        .await
        .unwrap();
    assert!(news[0].ends_with("A Person: two.txt"), "{news:?}");
}

#[tokio::test]
async fn histories_without_a_common_commit_are_not_merged() {
    let mut lines = Lines::of(
        |_| {},
        |bench| bench.people_write("mine.txt", "mine\n"),
        |bench| bench.people_write("theirs.txt", "theirs\n"),
    )
    .await;
    let bench = &lines.bench;
    bench.people(&["checkout", "-q", "--orphan", "other"]);
    bench.people(&["commit", "-q", "-m", "another beginning"]);
    bench.people(&["push", "-q", "origin", "HEAD:other"]);
    lines.ours = bench.people(&["rev-parse", "HEAD"]).parse().unwrap();
    bench.refresh().await.unwrap();
    let result = lines.merge("a", None).await;
    assert!(
        matches!(&result, Err(GitError::Failed(why)) if why.contains("no commit in common")),
        "{result:?}"
    );
}

/// G20: a tree that names itself ten times over ten levels does not fill memory or time.
#[tokio::test]
async fn a_merge_with_a_tree_bomb_ends() {
    let lines = Lines::of(
        |_| {},
        |bench| bench.people_write("mine.txt", "mine\n"),
        |bench| {
            let people = bench.path("people");
            let mut tree = feed(&people, &["mktree"], b"");
            let blob = feed(&people, &["hash-object", "-w", "--stdin"], b"x\n");
            let mut entry = format!("100644 blob {blob}");
            for _ in 0..10 {
                let listing: String = (0..10).map(|n| format!("{entry}\t{n}\n")).collect();
                tree = feed(&people, &["mktree"], listing.as_bytes());
                entry = format!("040000 tree {tree}");
            }
            let base = bench.people(&["rev-parse", "HEAD"]);
            let commit = run(&people, &["commit-tree", "-m", "bomb", "-p", &base, &tree]);
            bench.people(&["push", "-q", "origin", &format!("{commit}:refs/heads/bomb")]);
            bench.people_write("theirs.txt", "theirs\n");
        },
    )
    .await;
    let bench = &lines.bench;
    let bomb = bench.served_ref("refs/heads/bomb").parse().unwrap();
    let lines = Lines { theirs: bomb, ..lines };
    let result = lines.merge("a", None).await;
    // Whatever git makes of it: what comes out is measured before it is checked out.
    if let Ok(merged) = &result {
        assert!(!merged.tree.is_empty());
    }
}
