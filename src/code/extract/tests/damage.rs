//! Bytes that nobody wrote: noise, and programs that were cut, doubled and spliced. Whatever comes,
//! extraction returns, and what it returns is consistent. Never a fixed seed that is not printed.

use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::process::Command;

use super::*;

/// Programs made of each program; more of them in a run by hand.
const VARIANTS: u64 = 24;
/// What a file may take, with a wide margin for a busy machine: the cap of the parse, plus its words.
const CAP: Duration = Duration::from_secs(20);

/// Processes that may die of a grammar before that is a fault of ours.
const MAX_DEATHS: usize = 4;

/// Grammars are C and die of some bytes, which is why an index is made in a process of its own. What is
/// tested here is everything around them: nothing of ours panics, lies or takes too long.
#[test]
fn whatever_bytes_come_extraction_returns() {
    let own = std::env::current_exe().expect("this program");
    let name = "code::extract::tests::damage::whatever_bytes_come_here";
    for _ in 0..MAX_DEATHS {
        let ended = Command::new(&own)
            .args(["--exact", "--ignored", "--nocapture", name])
            .output()
            .expect("a process");
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
        match ended.status.signal() {
            Some(signal) => println!("a grammar died of signal {signal}: {said}"),
            None => {
                assert!(ended.status.success() && said.contains("1 passed"), "{said}");
                return;
            }
        }
    }
    panic!("{MAX_DEATHS} processes in a row died");
}

#[test]
#[ignore = "run by the test above, in a process that may die"]
fn whatever_bytes_come_here() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for (path, text) in PROGRAMS {
        // The last of these lines names the grammar that a process died of.
        println!("{path}, seed {seed}");
        for variant in 0..VARIANTS {
            let bytes = match variant % 4 {
                0 => noise(&mut random),
                1 => words(text, &mut random),
                _ => damaged(text.as_bytes(), &mut random),
            };
            check(path, &bytes, seed);
        }
    }
}

#[track_caller]
fn check(path: &str, bytes: &[u8], seed: u64) {
    let started = Instant::now();
    let found = catch_unwind(|| extracted(path, bytes, patient()));
    let Ok(found) = found else {
        panic!("seed {seed}: {path} with {:?}", String::from_utf8_lossy(bytes));
    };
    assert!(
        started.elapsed() < CAP,
        "seed {seed}: {path} took {:?}",
        started.elapsed()
    );
    let facts = &found.facts;
    let symbols = facts.symbols.len() as u32;
    for (at, symbol) in facts.symbols.iter().enumerate() {
        assert!(
            symbol.parent.is_none_or(|parent| (parent as usize) < at),
            "seed {seed}: {path}"
        );
        let is_inside = 1 <= symbol.line && symbol.line <= symbol.end_line && symbol.end_line <= facts.lines.max(1);
        assert!(is_inside, "seed {seed}: {path} {symbol:?} of {} lines", facts.lines);
    }
    for reference in &facts.references {
        assert!(
            reference.within.is_none_or(|within| within < symbols),
            "seed {seed}: {path}"
        );
        assert!(
            (1..=facts.lines.max(1)).contains(&reference.line),
            "seed {seed}: {path} {reference:?}"
        );
    }
    assert!(
        facts.references.is_sorted_by_key(|reference| reference.line),
        "seed {seed}: {path}"
    );
    assert!(
        facts.terms.iter().all(|term| (term.unit as usize) < facts.units.len()),
        "seed {seed}: {path}"
    );
}

fn noise(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = random.usize(0..4_000);
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
