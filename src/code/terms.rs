//! The words of a text, as code has them: names split into their parts and kept whole, counted for
//! each function and for what stands outside of functions. Called by extraction for every blob and
//! by ranking for what is asked, so that both cut words alike. Never parses, never needs a language.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

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
    let lines = lines(text);
    let unit_of_line = units_of_lines(&lines, symbols, &callables);
    let mut names_found = Names::of(text.len());
    for (line, unit) in lines.iter().zip(&unit_of_line) {
        names(line, |name| names_found.add(name, *unit));
    }
    let mut counted = Counted::new(callables.len() + 1, names_found.all.len());
    for name in &names_found.all {
        counted.name(name.text, &names_found.counts, name.first);
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

/// The lines of a text, without the marks of their ends.
fn lines(text: &str) -> Vec<&str> {
    let mut from = 0;
    let mut lines = Vec::new();
    for at in memchr::memchr_iter(b'\n', text.as_bytes()) {
        lines.push(&text[from..at]);
        from = at + 1;
    }
    if from < text.len() {
        lines.push(&text[from..]);
    }
    lines
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
        } else if bytes[at] < 0x80 {
            at += 1;
        } else {
            at += text[from..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

/// Calls `found` with every part of a name in small letters: `get`, `http`, `server2` of
/// `getHTTPServer2`. Scripts without spaces give pairs of letters. Parts of one letter are left out.
pub fn parts(name: &str, mut found: impl FnMut(&str)) {
    if name.is_ascii() && name.len() <= MAX_NAME_BYTES {
        return ascii_parts(name.as_bytes(), found);
    }
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

/// The parts of a name in plain letters, which nearly all are; needs no memory.
fn ascii_parts(name: &[u8], mut found: impl FnMut(&str)) {
    let mut small = [0; MAX_NAME_BYTES];
    let small = &mut small[..name.len()];
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    let mut part = |part: &[u8]| {
        if (2..=MAX_PART_BYTES).contains(&part.len())
            && let Ok(part) = std::str::from_utf8(part)
        {
            found(part);
        }
    };
    let mut from = 0;
    for at in 0..name.len() {
        if name[at] == b'_' {
            part(&small[from..at]);
            from = at + 1;
        } else if name[at].is_ascii_uppercase() && at > 0 {
            // As in `is_boundary`.
            let (before, after) = (name[at - 1], name.get(at + 1));
            let is_last_capital = before.is_ascii_uppercase() && after.is_some_and(u8::is_ascii_lowercase);
            if before.is_ascii_lowercase() || before.is_ascii_digit() || is_last_capital {
                part(&small[from..at]);
                from = at;
            }
        }
    }
    part(&small[from..]);
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

/// How often each name stands in each unit. The names are in the order in which they were met.
struct Names<'a> {
    places: HashMap<&'a str, u32, Fast>,
    all: Vec<Named<'a>>,
    counts: Vec<Count>,
}

struct Named<'a> {
    text: &'a str,
    /// Its first count, and the last.
    first: u32,
    last: u32,
}

/// How often a name stands in a unit. A function inside of a function makes two counts for the unit
/// around, before and behind it.
struct Count {
    unit: u32,
    count: u32,
    /// The next count of the same name; 0 behind the last.
    next: u32,
}

/// About one name in so many bytes is a new one; room for them is made at once.
const BYTES_A_NAME: usize = 40;

impl<'a> Names<'a> {
    fn of(bytes: usize) -> Self {
        let many = bytes / BYTES_A_NAME;
        Self {
            places: HashMap::with_capacity_and_hasher(many, Fast::default()),
            all: Vec::with_capacity(many),
            counts: Vec::with_capacity(2 * many),
        }
    }

    fn add(&mut self, name: &'a str, unit: u32) {
        if name.len() > MAX_NAME_BYTES {
            return;
        }
        let new = self.counts.len() as u32;
        if let Some(place) = self.places.get(name) {
            let named = &mut self.all[*place as usize];
            // What stands outside of functions is come back to all the time, and comes first as a rule.
            let first = &self.counts[named.first as usize];
            let at = if first.unit == unit { named.first } else { named.last };
            if self.counts[at as usize].unit == unit {
                self.counts[at as usize].count += 1;
                return;
            }
            if self.counts.len() == MAX_NAMES {
                return;
            }
            self.counts[named.last as usize].next = new;
            named.last = new;
        } else {
            if self.counts.len() == MAX_NAMES {
                return;
            }
            self.places.insert(name, self.all.len() as u32);
            self.all.push(Named {
                text: name,
                first: new,
                last: new,
            });
        }
        self.counts.push(Count {
            unit,
            count: 1,
            next: 0,
        });
    }
}

/// The counts of a name, from its first one on.
fn counts_from(counts: &[Count], first: u32) -> impl Iterator<Item = &Count> {
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let count = &counts[next? as usize];
        next = (count.next > 0).then_some(count.next);
        Some(count)
    })
}

/// A word in a unit, before the same ones are put together.
struct Found {
    word: u32,
    /// The field and the unit, in the order in which they are told.
    place: u64,
    count: u32,
}

/// Words with their counts; the same word of two names is one word.
struct Counted {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32, Fast>,
    found: Vec<Found>,
    /// Words in each unit.
    words: Vec<u32>,
    small: String,
    /// The words of the name that is counted.
    own: Vec<u32>,
}

impl Counted {
    fn new(units: usize, names: usize) -> Self {
        Self {
            texts: Vec::with_capacity(names),
            ids: HashMap::with_capacity_and_hasher(names, Fast::default()),
            found: Vec::with_capacity(3 * names),
            words: vec![0; units],
            small: String::new(),
            own: Vec::new(),
        }
    }

    fn name(&mut self, name: &str, counts: &[Count], first: u32) {
        let mut is_one_word = false;
        let trimmed = name.trim_matches('_');
        self.own.clear();
        parts(name, |part| {
            is_one_word = part.len() == trimmed.len();
            if !is_noise(part) {
                let id = id(&mut self.texts, &mut self.ids, part);
                self.own.push(id);
            }
        });
        let whole = if is_one_word { None } else { self.whole(trimmed) };
        for Count { unit, count, .. } in counts_from(counts, first) {
            let words = &mut self.words[*unit as usize];
            *words = words.saturating_add(count.saturating_mul(self.own.len() as u32));
            let part = self.own.iter().map(|word| (*word, Field::Part));
            let whole = whole.map(|word| (word, Field::Whole));
            self.found.extend(part.chain(whole).map(|(word, field)| Found {
                word,
                place: place(field, *unit),
                count: *count,
            }));
        }
    }

    fn definition(&mut self, name: &str, unit: u32) {
        let mut is_one_word = false;
        let trimmed = name.trim_matches('_');
        self.own.clear();
        parts(name, |part| {
            is_one_word = part.len() == trimmed.len();
            let id = id(&mut self.texts, &mut self.ids, part);
            self.own.push(id);
        });
        if !is_one_word {
            let whole = self.whole(trimmed);
            self.own.extend(whole);
        }
        self.found.extend(self.own.iter().map(|word| Found {
            word: *word,
            place: place(Field::Defined, unit),
            count: 1,
        }));
    }

    fn whole(&mut self, name: &str) -> Option<u32> {
        if !(2..=MAX_NAME_BYTES).contains(&name.len()) {
            return None;
        }
        lower(name, &mut self.small);
        Some(id(&mut self.texts, &mut self.ids, &self.small))
    }

    fn finish(self, callables: &[u32]) -> (Vec<Unit>, Vec<Term>) {
        // By word in linear time: first how many places each has, then where those begin.
        let mut ends = vec![0_u32; self.texts.len() + 1];
        for found in &self.found {
            ends[found.word as usize + 1] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut places = vec![(0, 0); self.found.len()];
        for found in &self.found {
            let end = &mut ends[found.word as usize];
            places[*end as usize] = (found.place, found.count);
            *end += 1;
        }
        let mut terms: Vec<Term> = Vec::with_capacity(places.len());
        let mut from = 0;
        for (text, end) in self.texts.iter().zip(&ends) {
            let places = &mut places[from as usize..*end as usize];
            from = *end;
            places.sort_unstable();
            for same in places.chunk_by(|a, b| a.0 == b.0) {
                let (field, unit) = field_and_unit(same[0].0);
                terms.push(Term {
                    text: text.clone(),
                    field,
                    unit,
                    count: same.iter().fold(0, |sum, (_, count)| count.saturating_add(sum)),
                });
            }
        }
        let symbols = std::iter::once(None).chain(callables.iter().copied().map(Some));
        let units = symbols
            .zip(&self.words)
            .map(|(symbol, words)| Unit { symbol, words: *words });
        (units.collect(), terms)
    }
}

fn place(field: Field, unit: u32) -> u64 {
    (field as u64) << 32 | u64::from(unit)
}

fn field_and_unit(place: u64) -> (Field, u32) {
    let field = match place >> 32 {
        0 => Field::Part,
        1 => Field::Whole,
        _ => Field::Defined,
    };
    (field, place as u32)
}

fn id(texts: &mut Vec<Arc<str>>, ids: &mut HashMap<Arc<str>, u32, Fast>, word: &str) -> u32 {
    if let Some(id) = ids.get(word) {
        return *id;
    }
    let id = texts.len() as u32;
    let word: Arc<str> = word.into();
    texts.push(word.clone());
    ids.insert(word, id);
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
        // What is left is read in two halves that may overlap: copying few bytes takes longer than this.
        let length = (rest.len() as u64) << 56;
        let last = match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
            (Some(first), Some(last), _) => {
                u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
            }
            (_, _, [first, .., last]) => {
                u64::from(*first) | u64::from(rest[rest.len() / 2]) << 8 | u64::from(*last) << 16
            }
            (_, _, [only]) => u64::from(*only),
            (_, _, []) => 0,
        };
        self.write_u64(last ^ length);
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
