//! Symbols by what a person or model writes: `parse`, `Parser.parse`, `src/a.rs:parse`; and names that
//! are near to it when there is none. Never answers with more than it was asked for.

use super::paths::{ends, stem_of};
use super::{Graph, SymbolId};
use crate::retrieval::facts::SymbolKind;

/// Names that are compared for a suggestion.
const MAX_COMPARED: usize = 2000;
/// Names that are suggested.
const MAX_SUGGESTED: usize = 8;

/// The symbols of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// The symbols, types and functions before fields, code before tests.
    pub symbols: Vec<SymbolId>,
    /// Symbols that were left out.
    pub cut: usize,
    /// Names like it, when there is no symbol of this one.
    pub near: Vec<String>,
}

impl Graph {
    /// The symbols that a text names, at most `max`.
    pub fn symbols(&self, text: &str, max: usize) -> Named {
        let text = text.trim().trim_end_matches("()");
        let wanted = Wanted::of(text);
        let mut symbols = self.matching(&wanted);
        let mut named = Named::default();
        if symbols.is_empty() {
            named.near = self.near(wanted.name);
        }
        symbols.sort_by_cached_key(|id| {
            let kind = self.kind(*id).unwrap_or(SymbolKind::Field);
            let rank = if kind.is_type() || kind.is_callable() { 0 } else { 1 };
            (self.is_test(*id), rank, *id)
        });
        named.cut = symbols.len().saturating_sub(max);
        symbols.truncate(max);
        named.symbols = symbols;
        named
    }

    fn matching(&self, wanted: &Wanted<'_>) -> Vec<SymbolId> {
        let defined = self.view().defined(wanted.name).into_iter();
        let found = defined.map(|(file, at)| SymbolId { file, at }).filter(|id| {
            let path = self.view().path(id.file);
            wanted
                .path
                .is_none_or(|wanted| ends(path, wanted) || path.starts_with(wanted))
                && wanted.holder.is_none_or(|holder| self.is_held_by(*id, holder))
        });
        found.collect()
    }

    fn is_held_by(&self, id: SymbolId, holder: &str) -> bool {
        let known = self.known(id.file);
        if known.owner(id.at) == Some(holder) {
            return true;
        }
        let mut holders = known.holders(Some(id.at)).skip(1);
        let path = self.view().path(id.file);
        holders.any(|at| known.symbol(at).is_some_and(|symbol| *symbol.name == *holder))
            || known.is_top(id.at)
                && (stem_of(path) == holder || super::paths::last_of(super::paths::folder_of(path)) == holder)
    }

    /// Names like this one, nearest first.
    fn near(&self, name: &str) -> Vec<String> {
        let mut close: Vec<(usize, String)> = Vec::new();
        let plain = |name: &str| name.replace(['_', '-', '$'], "").to_lowercase();
        let wanted = plain(name);
        if wanted.is_empty() || wanted.len() > 200 {
            return Vec::new();
        }
        for start in starts(name) {
            for other in self.view().names_from(&start, MAX_COMPARED) {
                let distance = distance(&wanted, &plain(&other));
                let is_part = wanted.len() > 3 && plain(&other).contains(&wanted);
                if distance <= wanted.chars().count().div_ceil(4) {
                    close.push((distance, other));
                } else if is_part {
                    close.push((wanted.len(), other));
                }
            }
        }
        close.sort();
        close.dedup();
        let mut names: Vec<String> = close.into_iter().map(|(_, name)| name).collect();
        names.truncate(MAX_SUGGESTED);
        names
    }
}

/// What a text asks for.
struct Wanted<'a> {
    name: &'a str,
    holder: Option<&'a str>,
    path: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(text: &'a str) -> Self {
        let is_path = |path: &str| path.contains('/') || path.contains('.');
        let cut = text.match_indices(':').find(|(at, _)| {
            let is_double = text[at + 1..].starts_with(':') || text[..*at].ends_with(':');
            !is_double && is_path(&text[..*at])
        });
        let (path, rest) = match cut {
            Some((at, _)) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        };
        let mut parts = rest.rsplit(['.', ':', '#']).filter(|part| !part.is_empty());
        Self {
            name: parts.next().unwrap_or(rest),
            holder: parts.next(),
            path,
        }
    }
}

/// The beginnings under which a name like this one may stand: its own first letters, in either case.
fn starts(name: &str) -> Vec<String> {
    let mut starts = Vec::new();
    let letters = name.trim_start_matches('_');
    for length in [3, 2, 1] {
        let start: String = letters.chars().take(length).collect();
        let mut chars = start.chars();
        if let Some(first) = chars.next() {
            let rest = chars.as_str();
            starts.push(format!("{}{rest}", first.to_lowercase()));
            starts.push(format!("{}{rest}", first.to_uppercase()));
            starts.push(format!("_{start}"));
        }
    }
    starts.dedup();
    starts
}

/// How many letters have to be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}
