//! Functions of the files that may be an answer: how well each fits the question by its own words, and
//! what the best one says for its file. Called by the ranker after a first look at whole files. Never
//! looks at more files than it is told to.

use std::collections::HashMap;

use super::shape::Shape;
use super::text::{Found, postings_of_name};
use super::{Ranked, RankedFunction, rarity};
use crate::retrieval::query::{Query, folded};
use crate::retrieval::view::{FileId, View};

/// Number of signals of a function.
pub const FUNCTION_SIGNALS: usize = 7;

/// The signals of a function by name: what its own words say, its length, and the score of its file,
/// with how much each weighs. Fitted as the weights of files are.
pub const FUNCTION_WEIGHTS: [(&str, f32); FUNCTION_SIGNALS] = [
    ("words", 2.45),
    ("coverage", 0.8),
    ("whole names", 0.6),
    ("defined names", 0.85),
    ("own name", 0.67),
    ("length", 0.6),
    ("file", 0.68),
];

/// Where the score of its file stands among them.
const FILE: usize = FUNCTION_SIGNALS - 1;

/// Functions that were looked at.
#[derive(Debug, Default)]
pub(super) struct Units {
    all: Vec<Fit>,
    best: Vec<(FileId, f32)>,
}

/// How well a function fits: its signals, each from 0 to about 1 but for the last two.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    /// Its file.
    pub file: FileId,
    /// Its place among the file's symbols.
    pub symbol: u32,
    /// What speaks for it, in the order of [`FUNCTION_WEIGHTS`].
    pub signals: [f32; FUNCTION_SIGNALS],
}

/// What is summed up for each unit of a file.
#[derive(Default, Clone, Copy)]
struct Sum {
    words: f32,
    coverage: f32,
    names: f32,
    defined: f32,
}

impl Units {
    pub(super) fn of(view: &View, shape: &Shape, query: &Query, found: &Found, close: Vec<FileId>) -> Self {
        let slots: HashMap<FileId, usize> = close.iter().copied().zip(0..).collect();
        let units: Vec<_> = close.iter().map(|file| view.units(*file)).collect();
        let mut sums: Vec<Vec<Sum>> = units.iter().map(|units| vec![Sum::default(); units.len()]).collect();
        for word in &found.words {
            let rare = rarity(shape.units, word.postings.len() as f32);
            each(&word.postings, &slots, |slot, unit, count| {
                let (Some(sum), Some(length)) = (sums[slot].get_mut(unit), units[slot].get(unit)) else {
                    return;
                };
                let slow = 1.2 * (0.5 + 0.5 * length.words as f32 / shape.mean_unit);
                sum.words += word.weight * word.tells * rare * count * 2.2 / (count + slow);
                sum.coverage += word.weight * rare;
            });
            let rare = rarity(shape.units, word.defined.len() as f32);
            each(&word.defined, &slots, |slot, unit, _| {
                if let Some(sum) = sums[slot].get_mut(unit) {
                    sum.defined += word.weight * rare;
                }
            });
        }
        let names: std::collections::BTreeSet<&String> = query.names.iter().chain(query.joined.values()).collect();
        for name in names.into_iter().filter(|name| name.len() >= 6) {
            let postings = postings_of_name(view, name);
            let rare = rarity(shape.units, postings.len() as f32);
            each(&postings, &slots, |slot, unit, count| {
                if let Some(sum) = sums[slot].get_mut(unit) {
                    sum.names += rare * count * 2.2 / (count + 1.2);
                }
            });
        }
        let best = close.iter().zip(&sums).map(|(file, sums)| {
            let best = sums.iter().map(|sum| sum.words).fold(0.0, f32::max);
            (*file, best)
        });
        let best = best.collect();
        let top = sums.iter().flatten().fold(Sum::default(), |top, sum| Sum {
            words: top.words.max(sum.words),
            coverage: top.coverage.max(sum.coverage),
            names: top.names.max(sum.names),
            defined: top.defined.max(sum.defined),
        });
        let asked: Vec<String> = query.names.iter().map(|name| folded(name)).collect();
        let is_asked = |name: &String| asked.contains(name);
        let mut all = Vec::new();
        for ((file, units), sums) in close.iter().zip(&units).zip(&sums) {
            let is_hit = |sum: &Sum| sum.words + sum.names + sum.defined > 0.0;
            for (unit, sum) in units.iter().zip(sums).filter(|(_, sum)| is_hit(sum)) {
                let Some(at) = unit.symbol else { continue };
                let Some(symbol) = view.symbol(*file, at) else { continue };
                let name = folded(&symbol.name);
                let exact =
                    f32::from(u8::from(is_asked(&name))) + 0.5 * f32::from(u8::from(query.joined.contains_key(&name)));
                let lines = symbol.end_line.saturating_sub(symbol.line) as f32;
                all.push(Fit {
                    file: *file,
                    symbol: at,
                    signals: [
                        share(sum.words, top.words),
                        share(sum.coverage, top.coverage),
                        share(sum.names, top.names),
                        share(sum.defined, top.defined),
                        exact,
                        lines.ln_1p(),
                        0.0,
                    ],
                });
            }
        }
        Self { all, best }
    }

    /// What the best function of each file says for it.
    pub(super) fn best(&self, files: usize) -> Vec<f32> {
        let mut scores = vec![0.0; files];
        for (file, best) in &self.best {
            scores[file.0 as usize] = *best;
        }
        scores
    }

    /// Every function that was looked at, with the score of its file among its signals.
    pub(super) fn fits(&self, files: &[Ranked]) -> Vec<Fit> {
        let scores: HashMap<FileId, f32> = files.iter().map(|ranked| (ranked.file, ranked.score)).collect();
        let with_file = |fit: &Fit| {
            let mut fit = *fit;
            fit.signals[FILE] = scores.get(&fit.file).copied().unwrap_or_default();
            fit
        };
        self.all.iter().map(with_file).collect()
    }

    /// Functions by their own fit and the score of their file.
    pub(super) fn order(&self, files: &[Ranked], max: usize) -> Vec<RankedFunction> {
        let score = |fit: Fit| RankedFunction {
            file: fit.file,
            symbol: fit.symbol,
            score: fit
                .signals
                .iter()
                .zip(FUNCTION_WEIGHTS)
                .map(|(signal, (_, weight))| signal * weight)
                .sum(),
        };
        let mut functions: Vec<RankedFunction> = self.fits(files).into_iter().map(score).collect();
        functions.sort_by(|a, b| {
            let by_place = (a.file, a.symbol).cmp(&(b.file, b.symbol));
            b.score.total_cmp(&a.score).then(by_place)
        });
        functions.truncate(max);
        functions
    }
}

fn share(of: f32, top: f32) -> f32 {
    if top > 0.0 { of / top } else { 0.0 }
}

/// The postings in some files: slot, unit, count.
fn each(
    postings: &[crate::retrieval::view::Posting],
    slots: &HashMap<FileId, usize>,
    mut found: impl FnMut(usize, usize, f32),
) {
    for of_file in postings.chunk_by(|a, b| a.file == b.file) {
        if let Some(slot) = slots.get(&of_file[0].file) {
            for posting in of_file {
                found(*slot, posting.unit as usize, posting.count as f32);
            }
        }
    }
}
