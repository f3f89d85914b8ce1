//! File operations: what they answer, and what they refuse.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use forgehand::sandbox::{Entry, EntryKind, GrepLine};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;

async fn read(run: &Run, path: &str) -> Result<Vec<u8>, String> {
    match run
        .files(json!({"op": "read", "path": path, "max_bytes": 1_000_000}))
        .await
    {
        FileReply::Content { content, .. } => Ok(BASE64_STANDARD.decode(content).expect("base64")),
        FileReply::Failed { problem } => Err(problem),
        other => panic!("{other:?}"),
    }
}

async fn write(run: &Run, path: &str, content: &[u8], expect: Option<String>) -> Result<bool, String> {
    let content = BASE64_STANDARD.encode(content);
    match run
        .files(json!({"op": "write", "path": path, "content": content, "expect_sha256": expect}))
        .await
    {
        FileReply::Written { created, .. } => Ok(created),
        FileReply::Failed { problem } => Err(problem),
        other => panic!("{other:?}"),
    }
}

async fn entries(run: &Run, request: serde_json::Value) -> (Vec<Entry>, bool) {
    match run.files(request).await {
        FileReply::Entries { entries, truncated } => (entries, truncated),
        other => panic!("{other:?}"),
    }
}

async fn paths(run: &Run, request: serde_json::Value) -> Vec<String> {
    entries(run, request)
        .await
        .0
        .into_iter()
        .map(|entry| entry.path)
        .collect()
}

async fn grep(run: &Run, request: serde_json::Value) -> (Vec<GrepLine>, bool) {
    let mut all =
        json!({"op": "grep", "path": "", "glob": null, "ignore_case": false, "context": 0, "max_matches": 100});
    all.as_object_mut()
        .expect("an object")
        .extend(request.as_object().expect("an object").clone());
    match run.files(all).await {
        FileReply::Lines { lines, truncated, .. } => (lines, truncated),
        other => panic!("{other:?}"),
    }
}

fn sha256(content: &[u8]) -> Option<String> {
    Some(hex::encode(Sha256::digest(content)))
}

#[test]
fn f07_files_are_written_and_read_byte_for_byte() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        // F07
        for content in [
            &b""[..],
            b"no end",
            b"crlf\r\n",
            b"\xff\xfeU\0T\0F\0",
            b"nul\0\n",
            "\u{2028}\n".as_bytes(),
        ] {
            write(&run, "deep/er/file.txt", content, None).await.expect("written");
            assert_eq!(read(&run, "deep/er/file.txt").await.expect("read"), content);
        }
        assert_eq!(
            run.ok("stat -c %U:%a deep deep/er deep/er/file.txt").await,
            "agent:755\nagent:755\nagent:644\n"
        );
        run.ok("printf '#!/bin/sh\\necho run\\n' > tool; chmod 755 tool; ln tool twin")
            .await;
        assert_eq!(write(&run, "tool", b"#!/bin/sh\necho new\n", None).await, Ok(false));
        assert_eq!(
            run.ok("./tool; ./twin; ls -A").await,
            "new\nrun\ndeep\ntool\ntwin\n",
            "mode kept, twin untouched"
        );
    });
}

#[test]
fn a_write_needs_the_file_that_was_read() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        assert_eq!(write(&run, "a", b"one", None).await, Ok(true));
        assert_eq!(write(&run, "a", b"two", sha256(b"one")).await, Ok(false));
        let changed = write(&run, "a", b"three", sha256(b"one")).await.expect_err("refused");
        assert!(changed.contains("changed since it was read"), "{changed}");
        let missing = write(&run, "b", b"three", sha256(b"one")).await.expect_err("refused");
        assert!(missing.contains("no longer exists"), "{missing}");
        assert_eq!(read(&run, "a").await.expect("read"), b"two");
    });
}

/// F01, F02, F03, F08.
#[test]
fn f01_f02_f03_no_path_leads_out() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        fs::create_dir(run.folder.path().join("workspace-evil")).expect("a sibling");
        run.ok("mkdir a; ln -s /etc etc; ln -s ../../.. up; ln -s /proc/self/root proc; ln -s a inside; ln -s loop loop; ln -s /etc/passwd pw; echo x > a/x; ln -s a/x link").await;
        let outside = "outside the workspace";
        for (path, problem) in [
            ("../../etc/passwd", outside),
            ("/etc/passwd", outside),
            ("/workspace-evil/x", outside),
            ("../workspace-evil/x", outside),
            ("%2e%2e/%2e%2e/etc/passwd", "does not exist"),
            ("a/../../b", outside),
            ("..\\..\\etc", "does not exist"),
            ("a\0b", "NUL"),
            ("etc/passwd", outside),
            ("up/etc/passwd", outside),
            ("proc/etc/passwd", outside),
            ("/proc/self/environ", outside),
            ("/proc/1/environ", outside),
            ("pw", outside),
            ("loop", "link"),
        ] {
            let got = read(&run, path).await.expect_err(path);
            assert!(got.contains(problem), "read {path:?}: {got}");
            write(&run, path, b"evil", None)
                .await
                .err()
                .filter(|_| problem != "does not exist")
                .map_or_else(
                    || assert_eq!(problem, "does not exist", "write {path:?}"),
                    |got| {
                        assert!(
                            got.contains(problem) || got.contains("symbolic link"),
                            "write {path:?}: {got}"
                        )
                    },
                );
        }
        for path in ["a/".repeat(5000), format!("{}x", "a/".repeat(3000))] {
            assert!(read(&run, &path).await.expect_err("too long").contains("long"));
        }
        assert_eq!(read(&run, "inside/x").await.expect("links inside are followed"), b"x\n");
        assert_eq!(
            read(&run, "/workspace/link").await.expect("links inside are followed"),
            b"x\n"
        );
        assert!(
            write(&run, "link", b"y", None)
                .await
                .expect_err("a link")
                .contains("symbolic link to a/x")
        );
        assert_eq!(write(&run, "inside/y", b"y", None).await, Ok(true));
        assert_eq!(
            fs::read_dir(run.folder.path().join("workspace-evil"))
                .expect("the sibling")
                .count(),
            0
        );
    });
}

#[test]
fn git_folders_are_not_written() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        run.ok("mkdir -p .git/hooks sub/.git; ln -s .git g").await;
        for path in [
            ".git/config",
            ".GIT/config",
            "sub/.git/hooks/x",
            "g/hooks/pre-commit",
            ".git",
            "new/.git/config",
        ] {
            let refused = write(&run, path, b"evil", None).await.expect_err(path);
            assert!(refused.contains(".git"), "{path}: {refused}");
        }
        assert_eq!(write(&run, ".gitignore", b"x", None).await, Ok(true));
    });
}

/// F05, F06.
#[test]
fn f05_what_is_no_plain_file_is_refused_at_once() {
    on_each(async || {
        let run = Run::open().await;
        run.ok("mkfifo pipe; perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"socket\"))'; ln -s /dev/zero README.md; truncate -s 2G huge; mkdir folder").await;
        let started = Instant::now();
        for (path, problem) in [
            ("pipe", "not a regular file"),
            ("socket", "not a regular file"),
            ("README.md", "outside"),
            ("huge", "2.0 GiB"),
            ("folder", "is a folder"),
        ] {
            let got = read(&run, path).await.expect_err(path);
            assert!(got.contains(problem), "{path}: {got}");
        }
        for path in ["pipe", "socket", "folder"] {
            write(&run, path, b"x", None).await.expect_err(path);
        }
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        let (lines, _) = grep(&run, json!({"pattern": "x"})).await;
        assert_eq!(lines, []);
    });
}

/// F04: while a folder is swapped with a link that leads out.
#[test]
fn f04_a_race_does_not_lead_out() {
    on_each(async || {
        let run = Run::open().await;
        run.ok("mkdir folder other; ln -s /tmp leading-out").await;
        let swap = "perl -e 'while (!-e \"stop\") { rename \"folder\", \"kept\"; rename \"leading-out\", \"folder\"; rename \"folder\", \"leading-out\"; rename \"kept\", \"folder\" }'";
        let (swapped, ()) = tokio::join!(run.sh(swap), async {
            for number in 0..60 {
                let _ = write(&run, &format!("folder/{number}"), b"x", None).await;
            }
            write(&run, "stop", b"", None).await.expect("the end");
        });
        assert_eq!(swapped.exit, Exit::Code(0));
        assert_eq!(run.ok("ls -A /tmp").await, "", "nothing was written through the link");
    });
}

#[test]
fn folders_are_listed_sorted_and_bounded() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        run.ok("mkdir -p b/c/d .git/objects; touch a .hidden b/c/d/deep; ln -s b link; mkfifo pipe; printf 12345 > b/five; touch $'b/caf\\xe9'").await;
        let list = |path: &str, depth: u32, most: u32| json!({"op": "list", "path": path, "depth": depth, "max_entries": most});
        let (found, truncated) = entries(&run, list("", 2, 100)).await;
        let shown: Vec<(&str, EntryKind, u64)> = found.iter().map(|e| (e.path.as_str(), e.kind, e.bytes)).collect();
        let (file, folder) = (EntryKind::File, EntryKind::Folder);
        assert_eq!(
            shown,
            [
                (".git", folder, 0),
                (".hidden", file, 0),
                ("a", file, 0),
                ("b", folder, 0),
                ("b/c", folder, 0),
                (r"b/caf\xe9", file, 0),
                ("b/five", file, 5),
                ("link", EntryKind::Link, 0),
                ("pipe", EntryKind::Other, 0),
            ]
        );
        assert!(!truncated);
        assert_eq!(
            read(&run, r"b/caf\xe9").await,
            Ok(Vec::new()),
            "an escaped name can be read"
        );
        assert_eq!(write(&run, r"b/caf\xe9", b"x", None).await, Ok(false));
        assert_eq!(
            paths(&run, list("link", 1, 100)).await,
            ["link/c", r"link/caf\xe9", "link/five"]
        );
        let (found, truncated) = entries(&run, list("", 9, 3)).await;
        assert_eq!((found.len(), truncated), (3, true));
        let reply = run.files(list("none", 1, 1)).await;
        assert!(
            matches!(&reply, FileReply::Failed { problem } if problem == "none does not exist"),
            "{reply:?}"
        );
    });
}

#[test]
fn globs_find_the_newest_first() {
    on_each(async || {
        let run = Run::open().await;
        run.ok("mkdir -p src/deep target .github .git; echo target/ > .gitignore; touch -d 2001-01-01 src/old.rs; touch -d 2003-01-01 src/deep/new.rs; touch -d 2002-01-01 .github/ci.yml target/out.rs .git/x.rs src/x.txt").await;
        let glob = |pattern: &str, most: u32| json!({"op": "glob", "pattern": pattern, "max_entries": most});
        assert_eq!(
            paths(&run, glob("**/*.rs", 10)).await,
            ["src/deep/new.rs", "src/old.rs"]
        );
        assert_eq!(
            paths(&run, glob("/workspace/src/*", 10)).await,
            ["src/x.txt", "src/old.rs"]
        );
        assert_eq!(paths(&run, glob(".github/**", 10)).await, [".github/ci.yml"]);
        assert!(
            entries(&run, glob("**/*.rs", 1)).await.1,
            "the rest is said to be missing"
        );
        let reply = run.files(glob("a[", 1)).await;
        assert!(
            matches!(&reply, FileReply::Failed { problem } if problem.contains("glob")),
            "{reply:?}"
        );
    });
}

#[test]
fn grep_sees_hidden_files_and_obeys_ignore_files() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        run.ok("mkdir -p src .github target .git vendor/deep; printf 'target/\\nvendor/\\n' > .gitignore; for f in src/a.rs .github/ci.yml target/x .git/x vendor/deep/v.rs; do printf 'one\\nNeedle here\\nthree\\n' > $f; done; printf 'needle\\0binary' > src/blob; ln -s /etc src/etc; printf 'needle %s\\n' $(head -c 3000 /dev/zero | tr '\\0' x) > src/long.js").await;
        let found = |lines: &[GrepLine]| {
            lines
                .iter()
                .map(|l| format!("{}:{}:{}", l.path, l.line, l.text))
                .collect::<Vec<_>>()
        };
        let (lines, _) = grep(&run, json!({"pattern": "Needle"})).await;
        assert_eq!(
            found(&lines),
            [".github/ci.yml:2:Needle here", "src/a.rs:2:Needle here"]
        );
        let (lines, _) = grep(
            &run,
            json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs", "context": 1}),
        )
        .await;
        assert_eq!(
            found(&lines),
            ["src/a.rs:1:one", "src/a.rs:2:Needle here", "src/a.rs:3:three"]
        );
        assert_eq!(lines.iter().filter(|line| line.matched).count(), 1);
        let (lines, _) = grep(&run, json!({"pattern": "needle", "path": "src"})).await;
        assert!(
            lines.len() == 1 && lines[0].path == "src/long.js" && lines[0].text.len() < 520,
            "{lines:?}"
        );
        let (lines, _) = grep(&run, json!({"pattern": "Needle", "path": "vendor/deep"})).await;
        assert_eq!(
            found(&lines),
            ["vendor/deep/v.rs:2:Needle here"],
            "what is named is searched"
        );
        let (lines, truncated) = grep(&run, json!({"pattern": "e", "max_matches": 1})).await;
        assert_eq!((lines.len(), truncated), (1, true));
    });
}

/// F12, F06.
#[test]
fn f12_hostile_patterns_and_trees_take_little_time() {
    on_each(async || {
        let run = Run::open().await;
        run.ok(
            "head -c 1M /dev/zero | tr '\\0' a > a.txt; head -c 100M /dev/zero | tr '\\0' b > line.txt; ln -s . self",
        )
        .await;
        let started = Instant::now();
        grep(&run, json!({"pattern": "(a+)+$"})).await;
        grep(&run, json!({"pattern": "nothing", "path": "self/self"})).await;
        let (found, _) = entries(
            &run,
            json!({"op": "glob", "pattern": "**/".repeat(30) + "*", "max_entries": 9}),
        )
        .await;
        assert_eq!(found.len(), 2);
        for (pattern, problem) in [
            ("(", "regular expression"),
            ("((a{1000}){1000}){1000}", "regular expression"),
        ] {
            let request = json!({"op": "grep", "pattern": pattern, "path": "", "glob": null, "ignore_case": false, "context": 0, "max_matches": 1});
            let reply = run.files(request).await;
            assert!(
                matches!(&reply, FileReply::Failed { problem: got } if got.contains(problem)),
                "{reply:?}"
            );
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}
