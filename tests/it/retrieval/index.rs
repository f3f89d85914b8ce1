//! The index of a repository, from outside: which blobs are parsed, what a view says after commits,
//! edits, damage and eviction, and what is left out with a note. Blobs are read by a few lines here
//! that know `def NAME` and `NAME(`, since what is found in a file is another story.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forgehand::git::Git;
use forgehand::ids::CommitSha;
use forgehand::retrieval::facts::{Facts, Field, Reference, ReferenceKind, Symbol, SymbolKind};
use forgehand::retrieval::index::{Bounds, Edit, Index, IndexError, Limits, Progress, Reader, Reading};
use forgehand::retrieval::source::Source;
use forgehand::retrieval::terms;
use forgehand::retrieval::view::View;
use tokio_util::sync::CancellationToken;

fn read(path: &str, bytes: &[u8], _until: Instant) -> Reading {
    let text = String::from_utf8_lossy(bytes);
    let mut facts = Facts::default();
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(name) = text.strip_prefix("def ") {
            facts.symbols.push(Symbol {
                name: name.into(),
                kind: SymbolKind::Function,
                line,
                end_line: line,
                parent: None,
                owner: None,
            });
        } else if let Some((name, _)) = text.split_once('(') {
            facts.references.push(Reference {
                name: name.into(),
                kind: ReferenceKind::Call,
                line,
                within: None,
                receiver: None,
            });
        }
        facts.lines = line;
    }
    (facts.units, facts.terms) = terms::terms(&text, &facts.symbols);
    let note = text.contains("GENERATED").then(|| "generated".to_owned());
    Reading {
        language: forgehand::language::of_path(path),
        facts,
        note,
    }
}

const READER: Reader = Reader { version: 1, read };

/// A repository that is committed to, and a folder for its index.
struct Bench {
    folder: tempfile::TempDir,
    git: Git,
    cancel: CancellationToken,
}

impl Bench {
    fn start() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            git: Git::find().unwrap(),
            cancel: CancellationToken::new(),
        };
        bench.run(&["init", "-q", "-b", "main", "."]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> String {
        fs::create_dir_all(self.path("work")).unwrap();
        run(&self.path("work"), arguments)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(&self) -> CommitSha {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", "a change"]);
        self.run(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    fn repo(&self) -> PathBuf {
        self.path("work/.git")
    }

    fn index(&self, limits: Limits) -> Index {
        Index::open(&self.path("index"), limits, READER).unwrap()
    }

    fn try_update(&self, index: &Index, commit: &CommitSha) -> Result<Arc<View>, IndexError> {
        let bounds = Bounds {
            cancel: &self.cancel,
            until: Instant::now() + Duration::from_secs(60),
            progress: &|_| (),
        };
        index.update(&self.git, &self.repo(), commit, &bounds)
    }

    fn update(&self, index: &Index, commit: &CommitSha) -> Arc<View> {
        self.try_update(index, commit).unwrap()
    }

    fn files_of_index(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("index")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect()
    }
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Mona",
            "-c",
            "user.email=mona@example.com",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn paths(view: &View) -> Vec<&str> {
    view.files().map(|file| view.path(file)).collect()
}

fn defined_in(view: &View, name: &str) -> Vec<String> {
    let found = view.defined(name);
    found.into_iter().map(|(file, _)| view.path(file).to_owned()).collect()
}

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
fn two_workers_share_the_work() {
    let bench = Bench::start();
    for number in 0..300 {
        bench.write(&format!("f{number}.py"), format!("def name{number}\n").repeat(20));
    }
    let commit = bench.commit();
    // Locks of files that were opened apart shut out each other like those of two processes.
    let indexes = [bench.index(Limits::default()), bench.index(Limits::default())];
    let views: Vec<Arc<View>> = std::thread::scope(|scope| {
        let threads: Vec<_> = indexes
            .iter()
            .map(|index| scope.spawn(|| bench.update(index, &commit)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(indexes.iter().map(|index| index.stats().parsed).sum::<u64>(), 300);
    assert_eq!(paths(&views[0]), paths(&views[1]));
    assert_eq!(views[0].len(), 300);
}

#[test]
fn stopping_keeps_what_is_done() {
    let bench = Bench::start();
    for number in 0..200 {
        bench.write(&format!("f{number:03}.py"), format!("def name{number}\n"));
    }
    let commit = bench.commit();
    let index = bench.index(Limits::default());
    let seen = AtomicUsize::new(0);
    let stop = CancellationToken::new();
    let progress = |progress: Progress| {
        assert_eq!(progress.all, 200);
        if seen.fetch_add(1, Ordering::Relaxed) == 100 {
            stop.cancel();
        }
    };
    let bounds = Bounds {
        cancel: &stop,
        until: Instant::now() + Duration::from_secs(60),
        progress: &progress,
    };
    let stopped = index.update(&bench.git, &bench.repo(), &commit, &bounds);
    assert!(matches!(stopped, Err(IndexError::Cancelled)), "{stopped:?}");
    assert!(index.view(&commit).is_none(), "half a commit is no view");
    let done = index.stats().parsed;
    assert!((101..200).contains(&done), "{done}");
    let late = Bounds {
        cancel: &bench.cancel,
        until: Instant::now(),
        progress: &|_| (),
    };
    let late = index.update(&bench.git, &bench.repo(), &commit, &late);
    assert!(matches!(late, Err(IndexError::Late)), "{late:?}");
    assert_eq!(bench.update(&index, &commit).len(), 200);
    assert_eq!(index.stats().parsed, 200, "none of the first hundred is parsed again");
}

#[test]
fn a_damaged_index_is_made_anew() {
    let bench = Bench::start();
    for number in 0..20 {
        bench.write(&format!("f{number}.py"), format!("def name{number}\n"));
    }
    let commit = bench.commit();
    bench.update(&bench.index(Limits::default()), &commit);
    let [whole] = &bench.files_of_index("seg")[..] else {
        panic!("one segment")
    };
    let bytes = fs::read(whole).unwrap();
    // Every file of an index, cut or changed at many places, as a crash or a bad disk leaves it.
    for at in (0..bytes.len()).step_by(bytes.len() / 23) {
        for cut in [true, false] {
            for extra in ["seg", "tree"] {
                for path in bench.files_of_index(extra) {
                    let mut damaged = fs::read(&path).unwrap();
                    let at = at % damaged.len();
                    damaged[at] ^= 0x55;
                    damaged.truncate(if cut { at } else { damaged.len() });
                    // As everything here is replaced by name, never changed in place.
                    fs::write(path.with_extension("other"), &damaged).unwrap();
                    fs::rename(path.with_extension("other"), path).unwrap();
                }
            }
            fs::write(bench.path("index/99-9.begun"), b"half of a segment").unwrap();
            let index = bench.index(Limits::default());
            let view = bench.update(&index, &commit);
            // Damage that opening does not meet shows when the words are read; then once more.
            let names: usize = (0..20).map(|name| view.defined(&format!("name{name}")).len()).sum();
            let view = if view.is_damaged() {
                bench.update(&index, &commit)
            } else {
                view
            };
            for number in 0..20 {
                assert_eq!(
                    defined_in(&view, &format!("name{number}")),
                    [format!("f{number}.py")],
                    "{names}"
                );
            }
            assert!(!view.is_damaged());
            assert!(bench.files_of_index("begun").is_empty());
        }
    }
}

#[test]
fn another_version_of_the_facts_is_another_index() {
    let bench = Bench::start();
    bench.write("a.py", "def one\n");
    let commit = bench.commit();
    bench.update(&bench.index(Limits::default()), &commit);
    let newer = Reader { version: 2, read };
    let index = Index::open(&bench.path("index"), Limits::default(), newer).unwrap();
    assert!(index.view(&commit).is_none());
    bench.update(&index, &commit);
    assert_eq!((index.stats().parsed, index.stats().segments), (1, 1));
}

#[test]
fn many_small_changes_leave_few_segments() {
    let bench = Bench::start();
    for number in 0..40 {
        bench.write(&format!("f{number}.py"), format!("def name{number}\n").repeat(50));
    }
    let index = bench.index(Limits::default());
    bench.update(&index, &bench.commit());
    for round in 0..25 {
        bench.write("f0.py", format!("def round{round}\n"));
        let view = bench.update(&index, &bench.commit());
        assert_eq!(defined_in(&view, &format!("round{round}")), ["f0.py"]);
        assert_eq!(defined_in(&view, "name39").len(), 50);
        assert!(index.stats().segments <= 16, "{:?}", index.stats());
    }
    assert_eq!(index.stats().parsed, 65);
    index.tidy().unwrap();
    assert!(index.stats().segments <= 4, "{:?}", index.stats());
    let commit = bench.commit();
    assert_eq!(defined_in(&bench.update(&index, &commit), "round24"), ["f0.py"]);
    assert_eq!((index.stats().parsed, index.stats().blobs), (65, 65));
}

#[test]
fn eviction_forgets_old_commits_and_spares_live_views() {
    let bench = Bench::start();
    bench.write("kept.py", "def kept\n");
    let limits = Limits {
        max_bytes: 200_000,
        max_commits: 5,
        ..Limits::default()
    };
    let index = bench.index(limits);
    let mut first = None;
    for round in 0..12 {
        let names: String = (0..2000).map(|at| format!("def old{round}_{at}\n")).collect();
        bench.write("big.py", names);
        let commit = bench.commit();
        let view = bench.update(&index, &commit);
        assert_eq!(defined_in(&view, &format!("old{round}_1999")), ["big.py"]);
        first.get_or_insert((commit, view));
        assert!(index.stats().bytes <= 200_000, "{:?}", index.stats());
        assert!(index.stats().commits <= 5);
    }
    let (commit, view) = first.unwrap();
    assert_eq!(defined_in(&view, "old0_7"), ["big.py"], "a view outlives its files");
    assert!(index.view(&commit).is_none());
    let parsed = index.stats().parsed;
    let again = bench.update(&index, &commit);
    assert_eq!(defined_in(&again, "old0_7"), ["big.py"]);
    assert_eq!(index.stats().parsed, parsed + 1, "what stayed is not parsed again");
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
