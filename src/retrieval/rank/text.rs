//! The words of a question in the files of a view: BM25 over parts of names, over whole names and over
//! the names that are defined. Called by the ranker. Never reads a file, only its postings.

use super::chronicle::Chronicle;
use super::rarity;
use super::shape::Shape;
use crate::retrieval::facts::Field;
use crate::retrieval::query::{self, Query};
use crate::retrieval::view::{FileId, Posting, View};

/// How soon more of the same word adds nothing, and how much a long file is held against it.
const SATURATION: f32 = 2.0;
const LENGTH: f32 = 0.5;
/// Postings that are looked at for one question; the commonest words are left out beyond.
const MAX_POSTINGS: usize = 2_000_000;

/// Where the words of a question stand.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) words: Vec<Word>,
    in_questions: Vec<(String, f32)>,
}

/// A word of the question that the view has.
#[derive(Debug)]
pub(super) struct Word {
    /// How much it counts in the question.
    pub(super) weight: f32,
    /// How much it tells among questions: near 0 for `fix`, 1 for one that nobody ever wrote.
    pub(super) tells: f32,
    /// Where it stands, by file.
    pub(super) postings: Vec<Posting>,
    /// Where it stands in names that are defined.
    pub(super) defined: Vec<Posting>,
}

impl Found {
    pub(super) fn of(view: &View, shape: &Shape, query: &Query, past: Option<&Chronicle>) -> Self {
        let mut found = Self {
            words: Vec::new(),
            in_questions: Vec::new(),
        };
        let mut left = MAX_POSTINGS;
        let mut words: Vec<_> = query
            .words
            .iter()
            .map(|(word, weight)| (view.spread(Field::Part, word), word, *weight))
            .collect();
        words.sort_by_key(|(spread, ..)| *spread);
        let keep = |postings: &mut Vec<Posting>| {
            postings.retain(|posting| shape.is_candidate(posting.file, query.is_about_tests));
        };
        for (_, word, weight) in words {
            let tells = past.map_or(1.0, |past| past.tells(word));
            found.in_questions.push((word.clone(), tells));
            if left == 0 {
                continue;
            }
            let mut postings = view.postings(Field::Part, word);
            left = left.saturating_sub(postings.len());
            keep(&mut postings);
            let mut defined = view.postings(Field::Defined, word);
            keep(&mut defined);
            if !postings.is_empty() || !defined.is_empty() {
                found.words.push(Word {
                    weight,
                    tells,
                    postings,
                    defined,
                });
            }
        }
        found
    }

    /// How much a word tells among questions.
    pub(super) fn weight_in_questions(&self, word: &str) -> f32 {
        let known = self.in_questions.iter().find(|(known, _)| known == word);
        known.map_or(1.0, |(_, tells)| *tells)
    }

    /// BM25 of whole files.
    pub(super) fn words(&self, shape: &Shape) -> Vec<f32> {
        let mut scores = vec![0.0; shape.len()];
        for word in &self.words {
            let gain = word.weight * word.tells * rarity(shape.candidates, files(&word.postings).count() as f32);
            for (file, count) in files(&word.postings) {
                let slow = SATURATION * (1.0 - LENGTH + LENGTH * shape.length(file));
                scores[file.0 as usize] += gain * count * (SATURATION + 1.0) / (count + slow);
            }
        }
        scores
    }

    /// BM25 of the names that files define.
    pub(super) fn definitions(&self, shape: &Shape) -> Vec<f32> {
        let mut scores = vec![0.0; shape.len()];
        for word in &self.words {
            let gain = word.weight * rarity(shape.candidates, files(&word.defined).count() as f32);
            for (file, count) in files(&word.defined) {
                scores[file.0 as usize] += gain * count * 2.2 / (count + 1.2 * (0.5 + 0.5 * shape.width(file)));
            }
        }
        scores
    }
}

/// BM25 of the whole names that the question has.
pub(super) fn whole_names(view: &View, shape: &Shape, query: &Query) -> Vec<f32> {
    let mut scores = vec![0.0; shape.len()];
    for name in &query.names {
        let mut postings = postings_of_name(view, name);
        postings.retain(|posting| shape.is_candidate(posting.file, query.is_about_tests));
        let gain = rarity(shape.candidates, files(&postings).count() as f32);
        for (file, count) in files(&postings) {
            scores[file.0 as usize] += gain * count * 2.2 / (count + 1.2 * (0.6 + 0.4 * shape.length(file)));
        }
    }
    scores
}

/// Where a whole name stands, however it is written.
pub(super) fn postings_of_name(view: &View, name: &str) -> Vec<Posting> {
    let mut spellings = query::spellings(name).map(|name| view.postings(Field::Whole, &name));
    let mut postings = spellings.next().unwrap_or_default();
    let others: Vec<Posting> = spellings.flatten().collect();
    if !others.is_empty() {
        postings.extend(others);
        postings.sort_unstable();
    }
    postings
}

/// Postings, which are in the order of files, summed for each file.
fn files(postings: &[Posting]) -> impl Iterator<Item = (FileId, f32)> {
    let same = postings.chunk_by(|a, b| a.file == b.file);
    same.map(|of_file| {
        (
            of_file[0].file,
            of_file.iter().map(|posting| posting.count as f32).sum(),
        )
    })
}
