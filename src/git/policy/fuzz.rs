//! Trees without end, judged by us and by git: what `git fsck --strict` calls an error, what git's own
//! index refuses, and what a short list of rules forbids, must be refused here too. Never in a
//! repository that is anybody's.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fastrand::Rng;

use super::*;
use crate::clock::fuzz;

/// Trees of one call of git.
const BATCH: usize = 200;

/// The object of an empty file, which every repository is given.
const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

const PIECES: &[&str] = &[
    ".git",
    ".GIT",
    ".Git",
    "git~1",
    "GIT~2",
    ".g\u{200c}it",
    ".gi\u{feff}t",
    "\u{202e}",
    ".git ",
    ".git.",
    ".git...",
    ".git::$INDEX_ALLOCATION",
    ".gitmodules",
    ".GITMODULES",
    ".gitmodules ",
    "gitmod~1",
    ".lfsconfig",
    ".gitattributes",
    ".gitignore",
    "..",
    ".",
    "a",
    "b.txt",
    "src",
    " ",
    "\r",
    "\n",
    "\t",
    "\u{1}",
    "\u{7f}",
    "\\",
    ":",
    "é",
    "e\u{301}",
    "日本",
    "-x",
    "~",
    "con",
    "x",
    ".github",
    "workflows",
    "CODEOWNERS",
    "\u{ad}",
    "\u{200b}",
    "\u{2060}",
];

fn name(chance: &mut Rng) -> Vec<u8> {
    let mut name = Vec::new();
    for _ in 0..chance.usize(1..4) {
        match chance.u8(..) {
            0..8 => name.push(chance.u8(1..)),
            8..30 => name.extend(chance.char('\u{20}'..'\u{ffff}').to_string().into_bytes()),
            _ => name.extend(PIECES[chance.usize(..PIECES.len())].bytes()),
        }
    }
    name.retain(|byte| ![b'/', 0].contains(byte));
    name
}

fn git(repository: &Path, arguments: &[&str], input: &[u8]) -> (bool, String) {
    let mut child = Command::new("git")
        .args(["-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "-C"])
        .arg(repository)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git");
    let mut stdin = child.stdin.take().expect("its input");
    let input = input.to_vec();
    // In a thread of its own: git may answer before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("git");
    // Git that refuses does not read on; its exit code says so.
    let _ = writer.join();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn refused(path: &[u8]) -> bool {
    let change = RawChange {
        old_mode: "000000".to_owned(),
        new_mode: "100644".to_owned(),
        new_id: EMPTY.to_owned(),
        status: 'A',
        path: path.to_vec(),
    };
    let policy = TreePolicy::default();
    let facts = Facts {
        sizes: &HashMap::from([(EMPTY.to_owned(), 0)]),
        links: &HashMap::new(),
        all_paths: &[path.to_vec()],
    };
    !judge(&[change], &facts, &policy).is_empty()
}

/// What nobody needs git for.
fn is_forbidden(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else {
        return true;
    };
    let folded = text.to_lowercase();
    let bare = folded.trim_end_matches([' ', '.']);
    text.is_empty()
        || text.chars().any(char::is_control)
        || [".", "..", ".git", ".gitmodules", ".lfsconfig"].contains(&folded.as_str())
        || bare == ".git"
        || bare == "git~1"
}

#[test]
fn g09_g10_what_git_refuses_is_refused_here_too() {
    fuzz("trees", |chance| {
        let mut names: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| name(chance))
            .filter(|name| !name.is_empty())
            .collect();
        names.sort();
        names.dedup();
        for name in names.iter().filter(|name| is_forbidden(name)) {
            assert!(refused(name), "{} passed", shown_path(name));
        }
        // A new one each time: git looks at everything that a repository holds.
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path();
        assert!(git(repository, &["init", "-q", "--bare", "."], b"").0, "a repository");
        assert!(
            git(repository, &["hash-object", "-w", "--stdin"], b"").0,
            "an empty file"
        );
        check_fsck(repository, &names);
        check_index(repository, &names);
    });
}

/// One tree for each name, all of them looked at by `git fsck`.
fn check_fsck(repository: &Path, names: &[Vec<u8>]) {
    let mut trees = Vec::new();
    for name in names {
        trees.extend(format!("100644 blob {EMPTY}\t").bytes());
        trees.extend(name.iter().chain([0, 0].iter()));
    }
    let (made, ids) = git(repository, &["mktree", "-z", "--batch", "--missing"], &trees);
    assert!(made, "{ids}");
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), names.len());
    let arguments = [&["fsck", "--strict", "--no-dangling", "--no-progress"], ids.as_slice()].concat();
    let (_, said) = git(repository, &arguments, b"");
    for line in said.lines().filter(|line| line.starts_with("error in tree ")) {
        let id = line["error in tree ".len()..].split(':').next().unwrap_or_default();
        let at = ids.iter().position(|other| *other == id).expect("one of ours");
        assert!(
            refused(&names[at]),
            "{} passed, but git says: {line}",
            shown_path(&names[at])
        );
    }
}

/// Everything that passes here is a path that git itself would check out, on any file system.
fn check_index(repository: &Path, names: &[Vec<u8>]) {
    let mut entries = Vec::new();
    for name in names.iter().filter(|name| !refused(name)) {
        entries.extend(format!("100644 {EMPTY}\t").bytes());
        entries.extend(name.iter().chain([0].iter()));
    }
    let (taken, said) = git(repository, &["update-index", "-z", "--index-info"], &entries);
    assert!(
        taken && !said.contains("Invalid path"),
        "git refuses what passed: {said}"
    );
}

/// Where a link leads, followed by hand from the folder that it lies in.
fn leaves(path: &str, target: &str) -> bool {
    let mut depth = path.matches('/').count() as i64;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    target.starts_with('/')
}

#[test]
fn g11_no_link_that_passes_leads_out() {
    const PARTS: &[&str] = &[
        "..", ".", "", "a", "b", ".git", "hooks", "/", "é", ".GIT", "git~1", "\\", "x y",
    ];
    fuzz("links", |chance| {
        for _ in 0..500 {
            let some = |chance: &mut Rng, most| {
                let parts: Vec<&str> = (0..chance.usize(1..most))
                    .map(|_| PARTS[chance.usize(..PARTS.len())])
                    .collect();
                parts.join("/")
            };
            let folders = ["link", "a/link", "a/b/link", "a/b/c/link"];
            let path = folders[chance.usize(..folders.len())];
            let target = some(chance, 8);
            if link_problem(path.as_bytes(), target.as_bytes()).is_none() {
                assert!(!leaves(path, &target), "{path} -> {target}");
                let into_git = target.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
                assert!(!into_git, "{path} -> {target}");
            }
        }
    });
}
