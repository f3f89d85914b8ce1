//! How an index keeps: two workers at once, a stop half way, damage, another version, and the limits
//! of the folder and of all folders together.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forgehand::retrieval::index::{Bounds, Index, IndexError, Limits, Progress, Reader};
use forgehand::retrieval::view::View;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, READER, defined_in, paths, read};

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
fn indexes_of_other_repositories_make_room() {
    let bench = Bench::start();
    bench.write("a.py", (0..500).map(|at| format!("def name{at}\n")).collect::<String>());
    let commit = bench.commit();
    let root = bench.path("indexes");
    let open = |name: &str| Index::open(&root.join(name), Limits::default(), READER).unwrap();
    let indexes = ["old", "busy", "new", "own"].map(open);
    let views = indexes.each_ref().map(|index| bench.update(index, &commit));
    fs::create_dir(root.join("not an index")).unwrap();
    for (name, minutes) in [("old", 3), ("busy", 4), ("new", 2), ("own", 1)] {
        let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - 60 * minutes);
        for entry in fs::read_dir(root.join(name)).unwrap() {
            let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(at).unwrap();
        }
    }
    let busy = fs::File::open(root.join("busy/lock")).unwrap();
    busy.lock().unwrap();
    let bytes = indexes[0].stats().bytes;
    indexes[3].make_room(4 * bytes).unwrap();
    assert!(root.join("old").exists(), "there was room for all");
    indexes[3].make_room(3 * bytes).unwrap();
    let left = ["old", "busy", "new", "own", "not an index"].map(|name| root.join(name).exists());
    assert_eq!(left, [false, true, true, true, true]);
    indexes[3].make_room(0).unwrap();
    let left = ["busy", "new", "own", "not an index"].map(|name| root.join(name).exists());
    assert_eq!(left, [true, false, true, true]);
    assert_eq!(defined_in(&views[0], "name7"), ["a.py"], "a view outlives its index");
}
