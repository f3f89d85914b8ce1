//! The words of a text, as code has them: names split into their parts and kept whole, counted for
//! each function and for what stands outside of functions. Called by extraction for every blob and
//! by ranking for what is asked, so that both cut words alike. Never parses, never needs a language.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::facts::{Field, Symbol, Term, Unit};

/// A name longer than this is data: a key, a hash, an inlined picture.
const MAX_NAME_BYTES: usize = 120;
/// A part longer than this is no word of any language.
const MAX_PART_BYTES: usize = 40;
/// Different names counted in one file; a generated table repeats no word that anybody looks for.
const MAX_NAMES: usize = 40_000;
/// Lines of documentation before a function that count as its own.
const MAX_DOC_LINES: usize = 80;

/// Words that say nothing in any text. Short on purpose: what is merely common weighs little anyway.
const NOISE: &[&str] = &[
    "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "has", "have", "if", "in",
    "is", "it", "its", "of", "on", "or", "so", "than", "that", "the", "then", "there", "these", "they", "this", "to",
    "was", "we", "were", "which", "will", "with", "would", "you",
];

/// The units of a file and the words of each: what stands outside of functions comes first, then one
/// unit for each callable symbol in the order of `symbols`. A word belongs to the innermost function
/// around it; documentation directly above a function belongs to that function.
pub fn terms(text: &str, symbols: &[Symbol]) -> (Vec<Unit>, Vec<Term>) {
    let callables: Vec<u32> = (0..symbols.len() as u32)
        .filter(|at| symbols[*at as usize].kind.is_callable())
        .collect();
    let lines: Vec<&str> = text.lines().collect();
    let unit_of_line = units_of_lines(&lines, symbols, &callables);
    let mut counter = Counter::default();
    for (line, unit) in lines.iter().zip(&unit_of_line) {
        names(line, |name| counter.add(name, *unit));
    }
    let mut counted = Counted::new(callables.len() + 1);
    for ((name, unit), count) in counter.in_order() {
        counted.name(name, unit, count);
    }
    let unit_of_symbol: HashMap<u32, u32> = (1..).zip(&callables).map(|(unit, at)| (*at, unit)).collect();
    for (at, symbol) in symbols.iter().enumerate() {
        let line = (symbol.line as usize).saturating_sub(1);
        let around = unit_of_line.get(line).copied().unwrap_or_default();
        let unit = unit_of_symbol.get(&(at as u32)).copied().unwrap_or(around);
        counted.definition(&symbol.name, unit);
    }
    counted.finish(&callables)
}

/// Calls `found` with every name of a text: letters, digits and underscores in one run.
pub fn names<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        while at < bytes.len() && CLASS[bytes[at] as usize] == IN_NAME {
            at += 1;
        }
        if at < bytes.len() && CLASS[bytes[at] as usize] == WIDE {
            at = name_end(text, from);
        }
        if at > from {
            found(&text[from..at]);
        } else {
            at += text[from..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

/// Calls `found` with every part of a name in small letters: `get`, `http`, `server2` of
/// `getHTTPServer2`. Scripts without spaces give pairs of letters. Parts of one letter are left out.
pub fn parts(name: &str, mut found: impl FnMut(&str)) {
    let mut small = String::new();
    let mut from = 0;
    let chars: Vec<(usize, char)> = name.char_indices().collect();
    for at in 0..chars.len() {
        let (start, c) = chars[at];
        let before = at.checked_sub(1).map(|at| chars[at].1);
        let after = chars.get(at + 1).map(|(_, c)| *c);
        if c == '_' || before.is_some_and(|before| is_boundary(before, c, after)) {
            part(&name[from..start], &mut small, &mut found);
            from = start + if c == '_' { 1 } else { 0 };
        }
    }
    part(&name[from..], &mut small, &mut found);
}

/// Whether a word says nothing in any text.
pub fn is_noise(word: &str) -> bool {
    word.len() <= 5 && NOISE.binary_search(&word).is_ok()
}

/// Whether a text is part of a word that says nothing, and so of words that were not counted.
pub fn is_in_noise(text: &str) -> bool {
    NOISE.iter().any(|noise| noise.contains(text))
}

const IN_NAME: u8 = 1;
const WIDE: u8 = 2;

/// What each byte is, because this loop sees every byte of a repository.
static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b >= 0x80 {
            class[byte] = WIDE;
        } else if b.is_ascii_alphanumeric() || b == b'_' {
            class[byte] = IN_NAME;
        }
        byte += 1;
    }
    class
};

fn name_end(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    from + length.unwrap_or(rest.len())
}

fn is_boundary(before: char, c: char, after: Option<char>) -> bool {
    if has_no_spaces(before) != has_no_spaces(c) {
        return true;
    }
    if !c.is_uppercase() {
        return false;
    }
    // `aB`, `2B`, and the last capital of `ABc`.
    before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && after.is_some_and(char::is_lowercase))
}

/// Whether a letter is of a script that writes words without spaces between them.
fn has_no_spaces(c: char) -> bool {
    matches!(c as u32, 0x0E00..=0x0EFF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
}

fn part(word: &str, small: &mut String, found: &mut impl FnMut(&str)) {
    if word.is_empty() || word.len() > MAX_PART_BYTES {
        return;
    }
    lower(word, small);
    if small.is_ascii() {
        if small.len() > 1 {
            found(small);
        }
        return;
    }
    let chars: Vec<(usize, char)> = small.char_indices().collect();
    if !chars.first().is_some_and(|(_, c)| has_no_spaces(*c)) || chars.len() <= 2 {
        found(small);
        return;
    }
    for pair in chars.windows(2) {
        found(&small[pair[0].0..pair[1].0 + pair[1].1.len_utf8()]);
    }
}

/// A word in small letters, into a string that is used again.
fn lower(word: &str, small: &mut String) {
    small.clear();
    if word.is_ascii() {
        small.push_str(word);
        small.make_ascii_lowercase();
    } else {
        small.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// The unit of each line: the innermost function that has begun and not ended there.
fn units_of_lines(lines: &[&str], symbols: &[Symbol], callables: &[u32]) -> Vec<u32> {
    let mut starts: Vec<(usize, usize, u32)> = callables
        .iter()
        .zip(1..)
        .map(|(at, unit)| {
            let symbol = &symbols[*at as usize];
            let line = (symbol.line as usize).saturating_sub(1);
            (doc_start(lines, line), symbol.end_line as usize, unit)
        })
        .collect();
    starts.sort_by_key(|(start, end, unit)| (*start, std::cmp::Reverse(*end), *unit));
    let mut starts = starts.into_iter().peekable();
    let mut open: Vec<(usize, u32)> = Vec::new();
    let mut units = Vec::with_capacity(lines.len());
    for line in 0..lines.len() {
        while open.last().is_some_and(|(end, _)| *end <= line) {
            open.pop();
        }
        while let Some((_, end, unit)) = starts.next_if(|(start, ..)| *start <= line) {
            open.push((end, unit));
        }
        units.push(open.last().map_or(0, |(_, unit)| *unit));
    }
    units
}

/// The first line of the comments and attributes directly above a line.
fn doc_start(lines: &[&str], line: usize) -> usize {
    let is_doc = |line: &str| {
        let line = line.trim_start();
        ["//", "#", "*", "/*", "@", "--", ";;"]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    let mut start = line.min(lines.len());
    while start > 0 && line - start < MAX_DOC_LINES && is_doc(lines[start - 1]) {
        start -= 1;
    }
    start
}

/// How often each name stands in each unit, in the order in which they were met.
#[derive(Default)]
struct Counter<'a> {
    places: HashMap<(&'a str, u32), u32, Fast>,
    counts: Vec<((&'a str, u32), u32)>,
}

impl<'a> Counter<'a> {
    fn add(&mut self, name: &'a str, unit: u32) {
        if name.len() > MAX_NAME_BYTES {
            return;
        }
        if let Some(place) = self.places.get(&(name, unit)) {
            self.counts[*place as usize].1 += 1;
        } else if self.counts.len() < MAX_NAMES {
            self.places.insert((name, unit), self.counts.len() as u32);
            self.counts.push(((name, unit), 1));
        }
    }

    fn in_order(self) -> Vec<((&'a str, u32), u32)> {
        self.counts
    }
}

/// Words with their counts; the same word of two names is one word.
struct Counted {
    texts: Vec<Box<str>>,
    ids: HashMap<Box<str>, u32, Fast>,
    found: Vec<(u32, Field, u32, u32)>,
    words: Vec<u32>,
    small: String,
}

impl Counted {
    fn new(units: usize) -> Self {
        Self {
            texts: Vec::new(),
            ids: HashMap::default(),
            found: Vec::new(),
            words: vec![0; units],
            small: String::new(),
        }
    }

    fn name(&mut self, name: &str, unit: u32, count: u32) {
        let mut is_one_word = false;
        let trimmed = name.trim_matches('_');
        parts(name, |part| {
            is_one_word = part.len() == trimmed.len();
            if !is_noise(part) {
                self.words[unit as usize] = self.words[unit as usize].saturating_add(count);
                let id = id(&mut self.texts, &mut self.ids, part);
                self.found.push((id, Field::Part, unit, count));
            }
        });
        if !is_one_word {
            self.whole(trimmed, Field::Whole, unit, count);
        }
    }

    fn definition(&mut self, name: &str, unit: u32) {
        let mut is_one_word = false;
        let trimmed = name.trim_matches('_');
        parts(name, |part| {
            is_one_word = part.len() == trimmed.len();
            let id = id(&mut self.texts, &mut self.ids, part);
            self.found.push((id, Field::Defined, unit, 1));
        });
        if !is_one_word {
            self.whole(trimmed, Field::Defined, unit, 1);
        }
    }

    fn whole(&mut self, name: &str, field: Field, unit: u32, count: u32) {
        if (2..=MAX_NAME_BYTES).contains(&name.len()) {
            lower(name, &mut self.small);
            let id = id(&mut self.texts, &mut self.ids, &self.small);
            self.found.push((id, field, unit, count));
        }
    }

    fn finish(mut self, callables: &[u32]) -> (Vec<Unit>, Vec<Term>) {
        self.found
            .sort_unstable_by_key(|(id, field, unit, _)| (*id, *field as u8, *unit));
        self.found.dedup_by(|next, kept| {
            let same = (next.0, next.1, next.2) == (kept.0, kept.1, kept.2);
            if same {
                kept.3 = kept.3.saturating_add(next.3);
            }
            same
        });
        let terms = self.found.iter().map(|(id, field, unit, count)| Term {
            text: self.texts[*id as usize].clone(),
            field: *field,
            unit: *unit,
            count: *count,
        });
        let symbols = std::iter::once(None).chain(callables.iter().copied().map(Some));
        let units = symbols
            .zip(&self.words)
            .map(|(symbol, words)| Unit { symbol, words: *words });
        (units.collect(), terms.collect())
    }
}

fn id(texts: &mut Vec<Box<str>>, ids: &mut HashMap<Box<str>, u32, Fast>, word: &str) -> u32 {
    if let Some(id) = ids.get(word) {
        return *id;
    }
    let id = texts.len() as u32;
    texts.push(word.into());
    ids.insert(word.into(), id);
    id
}

/// Maps by short words; see [`Folded`].
pub(super) type Fast = BuildHasherDefault<Folded>;

/// A hash for short words: multiply to twice the width and fold. Quicker than the standard one by
/// far, and good enough because the number of names is bounded.
#[derive(Default)]
pub(super) struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.write_u64(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] ^= rest.len() as u8;
        self.write_u64(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, _end: u8) {}

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // The fraction of the golden ratio, as in Knuth's multiplicative hashing.
        let product = u128::from(self.0 ^ value ^ 0x51_7c_c1_b7_27_22_0a_95) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
