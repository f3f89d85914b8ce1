//! Where the hunks of a patch belong in a file, and the file after them. Called by `patch`.
//! Never changes a line that the patch only quotes: the file keeps its own white space.

use std::ops::Range;

use super::super::edit::{View, is_binary};
use super::{Hunk, Kind, Line, named};
use crate::text;

mod indent;

/// A file after a patch.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tool) struct Applied {
    pub(in crate::tool) content: Vec<u8>,
    /// Where each hunk was placed, from 1, in the old file.
    pub(in crate::tool) lines: Vec<usize>,
    pub(in crate::tool) added: usize,
    pub(in crate::tool) removed: usize,
    /// What was not exactly as the patch said.
    pub(in crate::tool) notes: Vec<String>,
}

/// How equal a line of the file and one of the patch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Exact,
    TrailingSpace,
    Indentation,
}

/// Most places looked for; more are only said to be many.
const MAX_PLACES: usize = 50;

/// Most bytes of a line quoted.
const MAX_QUOTED_BYTES: usize = 200;

struct File<'v> {
    text: &'v str,
    /// Lines without their ends.
    lines: Vec<&'v str>,
    /// Where each line begins, and the end of the text.
    offsets: Vec<usize>,
}

/// A hunk at its place: the lines of it that count, and where the first old one stands.
struct Placed<'h> {
    hunk: &'h Hunk,
    number: usize,
    lines: &'h [Line],
    at: usize,
    level: Level,
}

impl Placed<'_> {
    fn old_count(&self) -> usize {
        self.lines.iter().filter(|line| line.kind != Kind::Add).count()
    }
}

/// Applies all hunks, or says which one does not fit and why.
pub(in crate::tool) fn apply(content: &[u8], hunks: &[Hunk]) -> Result<Applied, String> {
    if is_binary(content) {
        return Err("this is not a text file; a patch cannot change it".to_owned());
    }
    let view = View::of(content);
    let file = File::of(&view.text);
    let mut placed: Vec<Placed<'_>> = Vec::new();
    let (mut cursor, mut drift) = (0, 0_isize);
    for (at, hunk) in hunks.iter().enumerate() {
        let problem = |problem: String| match hunks.len() {
            1 => problem,
            total => format!("hunk {} of {total}: {problem}", at + 1),
        };
        let found = file.place(hunk, at + 1, cursor, drift).map_err(problem)?;
        if let Some(near) = hunk.near {
            drift = found.at as isize - near.saturating_sub(1) as isize;
        }
        cursor = found.at + found.old_count();
        placed.push(found);
    }
    placed.sort_by_key(|placed| placed.at);
    for pair in placed.windows(2) {
        if pair[0].at + pair[0].old_count() > pair[1].at {
            return Err(format!(
                "hunks {} and {} overlap at line {}; make one hunk of them",
                pair[0].number,
                pair[1].number,
                pair[1].at + 1
            ));
        }
    }
    let mut pieces = Vec::new();
    let mut applied = Applied {
        content: Vec::new(),
        lines: placed.iter().map(|placed| placed.at + 1).collect(),
        added: 0,
        removed: 0,
        notes: Vec::new(),
    };
    for placed in &placed {
        file.change(placed, &mut pieces, &mut applied);
    }
    if let Some(foreign) = pieces.iter().find_map(|(_, new)| view.cannot_hold(new)) {
        return Err(format!("the file is not UTF-8 and cannot hold {foreign:?}"));
    }
    applied.content = view.spliced(&pieces);
    Ok(applied)
}

impl<'v> File<'v> {
    fn of(text: &'v str) -> Self {
        let mut offsets = vec![0];
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            offsets.push(offsets.last().copied().unwrap_or(0) + line.len());
            lines.push(line.strip_suffix('\n').unwrap_or(line));
        }
        Self { text, lines, offsets }
    }

    /// Finds a hunk's place: exactly if it can be, then but for white space.
    fn place<'h>(&self, hunk: &'h Hunk, number: usize, cursor: usize, drift: isize) -> Result<Placed<'h>, String> {
        let from = self.after_anchors(hunk, cursor)?;
        let old: Vec<&Line> = hunk.lines.iter().filter(|line| line.kind != Kind::Add).collect();
        let placed = |lines: &'h [Line], at: usize, level: Level| Placed {
            hunk,
            number,
            lines,
            at,
            level,
        };
        if old.is_empty() {
            let at = self.insertion(hunk, from, drift)?;
            return Ok(placed(&hunk.lines, at, Level::Exact));
        }
        for level in [Level::Exact, Level::TrailingSpace, Level::Indentation] {
            for lines in without_blank_ends(&hunk.lines) {
                let mut places = self.find(lines, from, level);
                if places.is_empty() && from > 0 && hunk.anchors.is_empty() {
                    places = self.find(lines, 0, level);
                }
                if let Some(at) = self.choose(hunk, lines, &places, drift)? {
                    return Ok(placed(lines, at, level));
                }
            }
        }
        Err(self.explain(hunk))
    }

    /// The line from which a hunk is looked for.
    fn after_anchors(&self, hunk: &Hunk, cursor: usize) -> Result<usize, String> {
        let mut from = cursor;
        for anchor in &hunk.anchors {
            let equals: [fn(&str, &str) -> bool; 3] = [
                |line, anchor| line == anchor,
                |line, anchor| line.trim() == anchor.trim(),
                |line, anchor| line.contains(anchor.trim()),
            ];
            let find = |from: usize| {
                let mut levels = equals.iter();
                levels.find_map(|equal| (from..self.lines.len()).find(|at| equal(self.lines[*at], anchor)))
            };
            let found = find(from).or_else(|| find(0));
            from = found.ok_or_else(|| {
                let shown = text::cap_chars(anchor, MAX_QUOTED_BYTES);
                format!(
                    "the line after @@, `{shown}`, is not in the file; quote a line as it stands there, or leave it out"
                )
            })?;
        }
        Ok(from)
    }

    /// Where lines go that have no other lines around them.
    fn insertion(&self, hunk: &Hunk, from: usize, drift: isize) -> Result<usize, String> {
        match hunk.near {
            Some(near) => {
                let at = near.saturating_add_signed(drift.max(-(near as isize)));
                let within = at.min(self.lines.len());
                (near <= self.lines.len())
                    .then_some(within)
                    .ok_or_else(|| format!("the file has {} lines, and line {near} was named", self.lines.len()))
            }
            None if !hunk.anchors.is_empty() => Ok((from + 1).min(self.lines.len())),
            None => Ok(self.lines.len()),
        }
    }

    fn find(&self, lines: &[Line], from: usize, level: Level) -> Vec<usize> {
        let old: Vec<&str> = old_texts(lines).collect();
        if old.is_empty() || (level != Level::Exact && old.iter().all(|line| line.trim().is_empty())) {
            return Vec::new();
        }
        let last = self.lines.len().saturating_sub(old.len());
        let fits = |at: &usize| {
            old.len() <= self.lines.len() - at
                && old
                    .iter()
                    .zip(&self.lines[*at..])
                    .all(|(wanted, there)| equal(there, wanted, level))
        };
        (from..=last).filter(fits).take(MAX_PLACES).collect()
    }

    /// The place that is meant, if it is clear.
    fn choose(&self, hunk: &Hunk, lines: &[Line], places: &[usize], drift: isize) -> Result<Option<usize>, String> {
        let [first, rest @ ..] = places else {
            return Ok(None);
        };
        if rest.is_empty() {
            return Ok(Some(*first));
        }
        let length = old_texts(lines).count();
        if hunk.at_end && places.last().is_some_and(|at| at + length == self.lines.len()) {
            return Ok(places.last().copied());
        }
        if let Some(near) = hunk.near {
            let expected = near as isize - 1 + drift;
            let distance = |at: &usize| (*at as isize - expected).unsigned_abs();
            let least = places.iter().map(distance).min();
            let nearest: Vec<&usize> = places.iter().filter(|at| Some(distance(at)) == least).collect();
            if let [only] = nearest.as_slice() {
                return Ok(Some(**only));
            }
        } else if !hunk.anchors.is_empty() {
            return Ok(Some(*first));
        }
        Err(format!(
            "its lines stand in the file {}{} times, at lines {}; add lines of context, or `@@ ` with a line that \
             stands before the right place",
            if places.len() < MAX_PLACES { "" } else { "at least " },
            places.len(),
            named(places.iter().map(|at| at + 1))
        ))
    }

    /// Why a hunk has no place, as helpfully as can be said.
    fn explain(&self, hunk: &Hunk) -> String {
        let new: Vec<Line> = hunk
            .lines
            .iter()
            .filter(|line| line.kind != Kind::Remove)
            .map(|line| Line {
                kind: Kind::Context,
                text: line.text.clone(),
            })
            .collect();
        let adds = hunk
            .lines
            .iter()
            .any(|line| line.kind == Kind::Add && line.text.trim().len() > 2);
        if adds && let Some(at) = self.find(&new, 0, Level::TrailingSpace).first() {
            return format!(
                "its new lines already stand at line {}: this change has been made before; leave it out",
                at + 1
            );
        }
        let old: Vec<&str> = old_texts(&hunk.lines).collect();
        let matched = |at: usize| {
            let pairs = old.iter().zip(&self.lines[at..]);
            pairs
                .take_while(|(wanted, there)| equal(there, wanted, Level::Indentation))
                .count()
        };
        let best = (0..self.lines.len()).max_by_key(|at| (matched(*at), std::cmp::Reverse(*at)));
        let quoted = |line: &str| text::cap_chars(line, MAX_QUOTED_BYTES);
        match best.map(|at| (at, matched(at))) {
            Some((at, count)) if count > 0 && count < old.len() => {
                let there = self
                    .lines
                    .get(at + count)
                    .map_or("the end of the file".to_owned(), |line| format!("`{}`", quoted(line)));
                format!(
                    "its lines are not in the file. The first {count} match from line {} on, then line {} is {there} and the \
                     patch says `{}`. Read the file again and quote it exactly.",
                    at + 1,
                    at + count + 1,
                    quoted(old[count])
                )
            }
            _ => {
                let first = old
                    .iter()
                    .find(|line| !line.trim().is_empty())
                    .copied()
                    .unwrap_or_default();
                format!(
                    "its lines are not in the file; the first is `{}`. Read the file again and quote it exactly.",
                    quoted(first)
                )
            }
        }
    }

    /// Turns a hunk into replaced pieces of the text. Quoted lines are not touched.
    fn change(&self, placed: &Placed<'_>, pieces: &mut Vec<(Range<usize>, String)>, applied: &mut Applied) {
        let there = &self.lines[placed.at..placed.at + placed.old_count()];
        let shift = match placed.level {
            Level::Indentation => indent::Shift::between(old_texts(placed.lines), there),
            _ => indent::Shift::default(),
        };
        if placed.level == Level::Indentation {
            applied.notes.push(format!(
                "hunk {} was found at line {} only with other indentation; the file's own is kept",
                placed.number,
                placed.at + 1
            ));
        }
        let mut at = placed.at;
        let mut piece: Option<(usize, String)> = None;
        for line in placed.lines {
            match line.kind {
                Kind::Context => {
                    if let Some((start, new)) = piece.take() {
                        self.replace(start..at, new, placed.hunk, pieces);
                    }
                    at += 1;
                }
                Kind::Remove => {
                    piece.get_or_insert_with(|| (at, String::new()));
                    at += 1;
                    applied.removed += 1;
                }
                Kind::Add => {
                    let (_, new) = piece.get_or_insert_with(|| (at, String::new()));
                    new.push_str(&shift.applied(&line.text));
                    new.push('\n');
                    applied.added += 1;
                }
            }
        }
        if let Some((start, new)) = piece {
            self.replace(start..at, new, placed.hunk, pieces);
        }
    }

    fn replace(&self, lines: Range<usize>, mut new: String, hunk: &Hunk, pieces: &mut Vec<(Range<usize>, String)>) {
        let piece = self.offsets[lines.start]..self.offsets[lines.end];
        let at_end = piece.end == self.text.len();
        let unterminated = at_end && !self.text.is_empty() && !self.text.ends_with('\n');
        if unterminated && piece.is_empty() {
            new.insert(0, '\n');
        }
        // The last line keeps having no end, unless the patch is about just that.
        let keeps = unterminated && hunk.unterminated != (true, false);
        if (keeps || at_end && hunk.unterminated.1) && new.ends_with('\n') {
            new.pop();
        }
        pieces.push((piece, new));
    }
}

fn old_texts(lines: &[Line]) -> impl Iterator<Item = &str> {
    lines
        .iter()
        .filter(|line| line.kind != Kind::Add)
        .map(|line| line.text.as_str())
}

fn equal(there: &str, wanted: &str, level: Level) -> bool {
    match level {
        Level::Exact => there == wanted,
        Level::TrailingSpace => there.trim_end() == wanted.trim_end(),
        Level::Indentation => there.trim() == wanted.trim(),
    }
}

/// The lines of a hunk, and then without quoted blank lines at its ends: models add them between
/// hunks.
fn without_blank_ends(lines: &[Line]) -> Vec<&[Line]> {
    let is_blank = |line: &Line| line.kind == Kind::Context && line.text.trim().is_empty();
    let first = lines.iter().position(|line| !is_blank(line)).unwrap_or(0);
    let last = lines
        .iter()
        .rposition(|line| !is_blank(line))
        .map_or(lines.len(), |at| at + 1);
    let mut all = vec![lines, &lines[..last], &lines[first..last]];
    all.dedup_by_key(|lines| lines.len());
    all
}
