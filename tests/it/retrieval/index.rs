//! The index of a repository, from outside: which blobs are parsed, what a view says after commits
//! and edits, and what is left out with a note.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use forgehand::ids::CommitSha;
use forgehand::retrieval::facts::Field;
use forgehand::retrieval::index::{Bounds, Edit, Index, IndexError, Limits};
use forgehand::retrieval::source::Source;

use super::bench::{Bench, READER, defined_in, paths, run};

#[test]
fn r05_a_blob_is_parsed_once_ever() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("b.py", "def two\none()\n");
    let first = bench.commit();
    let index = bench.index(Limits::default());
    assert!(index.view(&first).is_none(), "nothing is ready before it is made");
    let view = bench.update(&index, &first);
    assert_eq!(paths(&view), ["a.py", "b.py"]);
    assert_eq!(defined_in(&view, "one"), ["a.py"]);
    assert_eq!(index.stats().parsed, 2);

    // Asked again, also by another process, nothing is done and no file is touched.
    let before = bench.files_of_index("seg");
    bench.update(&index, &first);
    let other = bench.index(Limits::default());
    assert_eq!(paths(&other.view(&first).unwrap()), ["a.py", "b.py"]);
    bench.update(&other, &first);
    assert_eq!((index.stats().parsed, other.stats().parsed), (2, 0));
    assert_eq!(bench.files_of_index("seg"), before);

    // A rename, a copy and a revert bring no new blob; a change brings one.
    bench.run(&["mv", "b.py", "c.py"]);
    bench.write("d/copy.py", "def one\n");
    let second = bench.commit();
    let view = bench.update(&index, &second);
    assert_eq!(index.stats().parsed, 2);
    assert_eq!(paths(&view), ["a.py", "c.py", "d/copy.py"]);
    assert_eq!(defined_in(&view, "one"), ["a.py", "d/copy.py"]);
    assert_eq!(view.referred("one").len(), 1);
    bench.write("a.py", "def three\n");
    let third = bench.commit();
    let view = bench.update(&index, &third);
    assert_eq!(index.stats().parsed, 3);
    assert_eq!(defined_in(&view, "one"), ["d/copy.py"]);
    assert_eq!(defined_in(&view, "three"), ["a.py"]);

    // The same bytes in another language are other facts.
    bench.write("a.rb", "def three\n");
    let fourth = bench.commit();
    assert_eq!(defined_in(&bench.update(&index, &fourth), "three"), ["a.py", "a.rb"]);
    assert_eq!(index.stats().parsed, 4);
    assert_eq!(
        paths(&index.view(&first).unwrap()),
        ["a.py", "b.py"],
        "old commits stay"
    );
}

#[test]
fn a_deleted_file_vanishes_with_its_words() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("b.py", "def lonely_name\n");
    let first = bench.commit();
    let index = bench.index(Limits::default());
    bench.update(&index, &first);
    fs::remove_file(bench.path("work/b.py")).unwrap();
    let second = bench.commit();
    let view = bench.update(&index, &second);
    assert_eq!(paths(&view), ["a.py"]);
    assert!(view.defined("lonely_name").is_empty());
    assert!(view.postings(Field::Whole, "lonely_name").is_empty());
    assert!(view.names_from("lonely", 5).is_empty());
    assert!(view.literal("lonely_name").files.is_empty());
}

#[test]
fn edits_are_seen_at_once_and_by_nobody_else() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("b.py", "def two\n");
    let commit = bench.commit();
    let index = bench.index(Limits::default());
    let base = bench.update(&index, &commit);
    let edit = |path: &str, content: Option<&str>| Edit {
        path: path.to_owned(),
        content: content.map(|content| content.as_bytes().to_vec()),
    };
    let edits = [
        edit("a.py", Some("def changed\n")),
        edit("b.py", None),
        edit("new/c.py", Some("def made\nchanged()\n")),
        edit("image.png", Some("\0\0")),
    ];
    let mut view = index.overlay(&base, &edits).unwrap();
    assert_eq!(paths(&view), ["a.py", "new/c.py"]);
    assert_eq!(defined_in(&view, "changed"), ["a.py"]);
    assert_eq!(view.referred("changed").len(), 1);
    assert!(view.defined("one").is_empty() && view.defined("two").is_empty());
    for round in 0..30 {
        let text = format!("def round{round}\n");
        view = index.overlay(&view, &[edit("a.py", Some(&text))]).unwrap();
    }
    assert_eq!(defined_in(&view, "round29"), ["a.py"]);
    assert_eq!(defined_in(&view, "made"), ["new/c.py"]);
    assert!(view.defined("round28").is_empty());
    // What the folder holds is found in the folder, edits included.
    bench.write("a.py", "def round29\n");
    let hits = Source::Folder(&bench.path("work")).find(&view, "ef round2", 9).unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(
        (view.path(hits[0].file), hits[0].line, &*hits[0].text),
        ("a.py", 1, "def round29")
    );
    // The commit itself is as it was.
    assert_eq!(paths(&index.view(&commit).unwrap()), ["a.py", "b.py"]);
    assert_eq!(defined_in(&index.view(&commit).unwrap(), "one"), ["a.py"]);
}

#[test]
fn r04_odd_names_links_and_binaries_are_left_out_with_a_note() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("image.png", b"\x89PNG\0\0");
    bench.write("made.py", "GENERATED\n");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.py");
    fs::write(bench.path("work").join(odd), "def coffee\n").unwrap();
    std::os::unix::fs::symlink("circle_b", bench.path("work/circle_a")).unwrap();
    std::os::unix::fs::symlink("circle_a", bench.path("work/circle_b")).unwrap();
    std::os::unix::fs::symlink("../..", bench.path("work/up")).unwrap();
    bench.run(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{},sub", "1".repeat(40)),
    ]);
    bench.run(&[
        "add",
        "a.py",
        "image.png",
        "made.py",
        "circle_a",
        "circle_b",
        "up",
        ":(glob)caf*",
    ]);
    bench.run(&["commit", "-q", "-m", "odd"]);
    let commit: CommitSha = bench.run(&["rev-parse", "HEAD"]).parse().unwrap();
    let index = bench.index(Limits::default());
    let view = bench.update(&index, &commit);
    assert_eq!(paths(&view), ["a.py", "made.py"]);
    assert_eq!(
        view.notes(),
        [
            "1 files are left out: their names are not UTF-8",
            "3 symbolic links are not followed",
            "1 submodules are left out",
            "made.py: generated"
        ]
    );
    // The next commit is found by what changed, and says the same.
    bench.write("a.py", "def two\n");
    bench.run(&["add", "a.py"]);
    bench.run(&["commit", "-q", "-m", "next"]);
    let next: CommitSha = bench.run(&["rev-parse", "HEAD"]).parse().unwrap();
    assert_eq!(bench.update(&index, &next).notes(), view.notes());
    let fresh = Index::open(&bench.path("fresh"), Limits::default(), READER).unwrap();
    assert_eq!(bench.update(&fresh, &next).notes(), view.notes());
}

#[test]
fn r01_a_huge_file_is_not_even_read() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("bundle.js", "x".repeat(50 << 20));
    let commit = bench.commit();
    let index = bench.index(Limits::default());
    let view = bench.update(&index, &commit);
    assert_eq!(paths(&view), ["a.py"]);
    assert_eq!(view.notes(), ["bundle.js: too large to be indexed"]);
    assert_eq!(index.stats().parsed, 1);
    bench.update(&index, &commit);
    assert_eq!(
        index.stats().parsed,
        1,
        "known to be too large, it is not looked at again"
    );
}

#[test]
fn a_partial_mirror_is_never_made_whole_by_the_index() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    bench.write("b.py", "def two\n");
    let commit = bench.commit();
    bench.run(&["config", "uploadpack.allowFilter", "true"]);
    let from = format!("file://{}", bench.path("work").display());
    run(
        bench.folder.path(),
        &["clone", "-q", "--bare", "--filter=blob:none", &from, "mirror"],
    );
    let mirror = bench.path("mirror");
    let index = bench.index(Limits::default());
    let bounds = Bounds {
        cancel: &bench.cancel,
        until: Instant::now() + Duration::from_secs(60),
        progress: &|_| (),
    };
    let view = index.update(&bench.git, &mirror, &commit, &bounds).unwrap();
    assert!(view.is_empty() && view.is_incomplete());
    assert_eq!(
        view.notes(),
        ["2 files are left out: the mirror does not have their contents yet"]
    );
    // When a checkout has fetched one, the next update finds it.
    run(&mirror, &["cat-file", "-e", &format!("{commit}:a.py")]);
    let view = index.update(&bench.git, &mirror, &commit, &bounds).unwrap();
    assert_eq!(paths(&view), ["a.py"]);
    assert!(view.is_incomplete());
    run(&mirror, &["cat-file", "-e", &format!("{commit}:b.py")]);
    let view = index.update(&bench.git, &mirror, &commit, &bounds).unwrap();
    assert_eq!(paths(&view), ["a.py", "b.py"]);
    assert!(!view.is_incomplete() && view.notes().is_empty());
    assert_eq!(index.stats().parsed, 2);
}

#[test]
fn literals_are_found_without_reading_all_files() {
    let bench = Bench::start();
    for number in 0..60 {
        bench.write(
            &format!("f{number:02}.py"),
            format!("raise Error('number {number} is too large')\n"),
        );
    }
    bench.write(
        "blob.txt",
        format!("{}needle_in_a_key{}\n", "A".repeat(200), "B".repeat(200)),
    );
    bench.write("f99.txt", "first\r\nsecond\nthird too large\n");
    let commit = bench.commit();
    let index = bench.index(Limits::default());
    let view = bench.update(&index, &commit);
    let source = Source::Mirror {
        git: &bench.git,
        repo: &bench.repo(),
    };
    let find = |literal: &str| -> Vec<String> {
        let hits = source.find(&view, literal, 100).unwrap();
        hits.iter()
            .map(|hit| format!("{}:{}", view.path(hit.file), hit.line))
            .collect()
    };
    assert_eq!(find("number 17 is"), ["f17.py:1"]);
    assert!(
        view.literal("number 17 is").files.len() <= 2,
        "the file and the one with the endless name"
    );
    assert_eq!(find("third too"), ["f99.txt:3"]);
    assert_eq!(
        find("needle_in"),
        ["blob.txt:1"],
        "names too long for the index are searched all the same"
    );
    assert_eq!(find("too large").len(), 61);
    assert_eq!(find("second\nthird"), ["f99.txt:2"]);
    assert!(find("nothing of the kind").is_empty() && find("").is_empty());
}

#[test]
fn a_repository_with_long_ids_is_read_like_any_other() {
    let bench = Bench::with_ids("sha256");
    bench.write("a.py", "def one\n");
    let first = bench.commit();
    assert_eq!(first.as_str().len(), 64);
    let index = bench.index(Limits::default());
    assert_eq!(defined_in(&bench.update(&index, &first), "one"), ["a.py"]);
    bench.write("b.py", "def two_of_them\n");
    let second = bench.commit();
    let view = bench.update(&index, &second);
    assert_eq!(index.stats().parsed, 2);
    let source = Source::Mirror {
        git: &bench.git,
        repo: &bench.repo(),
    };
    assert_eq!(source.find(&view, "two_of", 9).unwrap().len(), 1);
}

#[test]
fn a_commit_that_does_not_exist_is_an_error() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    let commit = bench.commit();
    let index = bench.index(Limits::default());
    bench.update(&index, &commit);
    let nowhere: CommitSha = "1".repeat(40).parse().unwrap();
    assert!(matches!(bench.try_update(&index, &nowhere), Err(IndexError::Git(_))));
    assert_eq!(index.stats().commits, 1);
}
