//! Bytes that nobody wrote, in every language, through the process that indexes: noise, and programs
//! that were cut, doubled, spliced and shuffled. Whatever comes, no process dies of it, no file takes
//! longer than it may, and what the index says of it is consistent. Never a seed that is not printed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forgehand::retrieval::apart;
use forgehand::retrieval::facts::Field;
use forgehand::retrieval::index::{Index, Limits, Reader};
use forgehand::retrieval::view::{FileId, View};

use super::bench::{Bench, order};

/// Files made of each program, where nothing else is said.
const VARIANTS: usize = 32;
/// The programs that the golden tests read, one for each language.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/code/extract/golden");
/// Languages with facts.
const LANGUAGES: usize = 16;

/// `FORGEHAND_TEST_SEED` runs one seed again.
fn seed() -> u64 {
    let given = std::env::var("FORGEHAND_TEST_SEED").ok();
    given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a seed is a number"))
}

/// `FORGEHAND_TEST_FUZZ_FILES` makes so many files of each program.
fn variants() -> usize {
    let given = std::env::var("FORGEHAND_TEST_FUZZ_FILES").ok();
    given.map_or(VARIANTS, |files| files.parse().expect("a number of files"))
}

/// `FORGEHAND_TEST_FUZZ_ENDING` takes the programs with one ending alone: `sh`, `kt`.
fn programs() -> Vec<PathBuf> {
    let mut programs: Vec<PathBuf> = std::fs::read_dir(PROGRAMS)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    programs.sort();
    assert_eq!(programs.len(), LANGUAGES);
    if let Ok(ending) = std::env::var("FORGEHAND_TEST_FUZZ_ENDING") {
        programs.retain(|program| program.extension().is_some_and(|found| found == ending.as_str()));
        assert!(!programs.is_empty(), "no program ends in {ending}");
    }
    programs
}

#[tokio::test]
async fn whatever_bytes_come_the_index_takes_them() {
    let seed = seed();
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let bench = Bench::start();
    let (programs, variants) = (programs(), variants());
    let all = programs.len() * variants;
    for program in &programs {
        let text = std::fs::read_to_string(program).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        for variant in 0..variants {
            let bytes = match variant % 4 {
                0 => noise(&mut random),
                1 => words(&text, &mut random),
                _ => damaged(text.as_bytes(), &mut random),
            };
            bench.write(&format!("{variant:02}/{name}"), bytes);
        }
    }
    let commit = bench.commit();
    let order = order(&bench, &commit);
    let program = Path::new(env!("CARGO_BIN_EXE_forgehand"));
    apart::update(program, &order, &bench.cancel, |_| ()).await.unwrap();
    let index = Index::open(&order.index, Limits::default(), Reader::default()).unwrap();
    let view = index.view(&commit).expect("the commit is in the index");
    assert_eq!(view.len(), all, "seed {seed}");
    // A file that a process died of, or did not come back from, has this note.
    let deadly: Vec<_> = view.notes().iter().filter(|note| note.contains("died")).collect();
    assert!(deadly.is_empty(), "seed {seed}: {deadly:?}");
    let mut symbols = 0;
    for file in view.files() {
        symbols += check(&view, file, seed);
    }
    // Most of a damaged program is still there.
    assert!(symbols > all, "seed {seed}: {symbols} symbols");
    println!("{all} files, {symbols} symbols");
}

/// What the index says of a file holds together; gives the number of its symbols.
fn check(view: &View, file: FileId, seed: u64) -> usize {
    let about = format!("seed {seed}: {}", view.path(file));
    let (symbols, lines) = (view.symbols(file), view.lines(file).max(1));
    for (at, symbol) in symbols.iter().enumerate() {
        assert!(symbol.parent.is_none_or(|parent| (parent as usize) < at), "{about}");
        let is_inside = 1 <= symbol.line && symbol.line <= symbol.end_line && symbol.end_line <= lines;
        assert!(is_inside, "{about}: {symbol:?} of {lines} lines");
    }
    let references = view.references(file);
    for reference in &references {
        let is_inside = reference.within.is_none_or(|within| (within as usize) < symbols.len());
        assert!(is_inside, "{about}: {reference:?}");
        assert!((1..=lines).contains(&reference.line), "{about}: {reference:?}");
    }
    assert!(references.is_sorted_by_key(|reference| reference.line), "{about}");
    let units = view.units(file);
    let callables = symbols.iter().filter(|symbol| symbol.kind.is_callable()).count();
    assert_eq!(units.len(), callables + 1, "{about}");
    if let Some(symbol) = symbols.first() {
        let found = view.defined(&symbol.name);
        assert!(found.iter().any(|(of, _)| *of == file), "{about}: {symbol:?}");
        let word = symbol.name.to_lowercase();
        let postings = view.postings(Field::Defined, &word);
        assert!(
            postings
                .iter()
                .all(|posting| posting.unit < view.unit_count(posting.file)),
            "{about}"
        );
    }
    symbols.len()
}

fn noise(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = random.usize(1..4_000);
    (0..length).map(|_| random.u8(1..)).collect()
}

/// The words and marks of a program in another order.
fn words(text: &str, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
    random.shuffle(&mut words);
    words.concat().into_bytes()
}

fn damaged(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..12) {
        let from = random.usize(0..=bytes.len());
        let to = random.usize(from..=bytes.len().min(from + 200));
        match random.u8(0..5) {
            0 => drop(bytes.drain(from..to)),
            1 => {
                let piece = bytes[from..to].repeat(random.usize(1..20));
                bytes.splice(from..from, piece);
            }
            2 => bytes.truncate(from.max(1)),
            3 => {
                let at = random.usize(0..=bytes.len());
                let piece = bytes[from..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes
                .iter_mut()
                .skip(from)
                .take(3)
                .for_each(|byte| *byte = random.u8(1..)),
        }
        bytes.truncate(200_000);
    }
    bytes
}

/// A process that indexes is killed from outside while it reads; another one goes on, and at most the
/// files that the dead one was reading are left out.
#[tokio::test]
async fn a_process_that_dies_is_blamed_on_what_it_read() {
    let bench = Bench::start();
    let body = "fn one() { two(three(4), 5); }\n".repeat(300);
    for number in 0..150 {
        bench.write(&format!("f{number:03}.rs"), format!("fn name{number}() {{}}\n{body}"));
    }
    let commit = bench.commit();
    let order = order(&bench, &commit);
    let program = Path::new(env!("CARGO_BIN_EXE_forgehand"));
    let mut killed = false;
    let parsed = {
        let notes = order.index.join("apart");
        let update = apart::update(program, &order, &bench.cancel, |_| ());
        tokio::pin!(update);
        loop {
            tokio::select! {
                parsed = &mut update => break parsed.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(2)), if !killed => killed = kill_reader(&notes),
            }
        }
    };
    assert!(killed, "the index was made before anybody could look");
    assert!(parsed > 0);
    let index = Index::open(&order.index, Limits::default(), Reader::default()).unwrap();
    let view = index.view(&commit).expect("the commit is in the index");
    assert_eq!(view.len(), 150);
    let left_out = view.notes().iter().filter(|note| note.contains("died")).count();
    let read = (0..150)
        .filter(|number| !view.defined(&format!("name{number}")).is_empty())
        .count();
    assert!((1..=8).contains(&left_out), "{:?}", view.notes());
    assert_eq!(read + left_out, 150);
}

/// Kills the process that has written down what it reads; says whether there was one.
fn kill_reader(notes: &Path) -> bool {
    let reads = |path: &Path| std::fs::read_to_string(path).is_ok_and(|name| name.trim().len() == 16);
    let entries = std::fs::read_dir(notes).into_iter().flatten().flatten();
    let names = entries
        .filter(|entry| reads(&entry.path()))
        .map(|entry| entry.file_name());
    let process = names
        .filter_map(|name| name.to_str()?.strip_prefix("reading-")?.split('-').next()?.parse().ok())
        .find_map(rustix::process::Pid::from_raw);
    process.is_some_and(|process| rustix::process::kill_process(process, rustix::process::Signal::KILL).is_ok())
}
