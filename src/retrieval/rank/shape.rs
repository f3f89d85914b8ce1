//! What ranking keeps of a view's files from question to question: which may be an answer, how long
//! they are, and the words of their paths. Called by the ranker. Never asks a question of its own.

use std::collections::{BTreeSet, HashMap};

use super::kind;
use super::rarity;
use super::text::Found;
use crate::retrieval::query::{Query, folded};
use crate::retrieval::terms;
use crate::retrieval::view::{FileId, View};

/// The files of a view.
#[derive(Debug)]
pub(super) struct Shape {
    files: Vec<File>,
    path_words: HashMap<Box<str>, Vec<u32>>,
    names: HashMap<String, Vec<u32>>,
    last_names: HashMap<String, Vec<(u32, String)>>,
    /// Number of candidates.
    pub(super) candidates: f32,
    /// Mean number of words of a candidate.
    pub(super) mean_words: f32,
    /// Number of units of all candidates.
    pub(super) units: f32,
    /// Mean number of words of a unit.
    pub(super) mean_unit: f32,
}

#[derive(Debug)]
struct File {
    is_candidate: bool,
    is_test: bool,
    is_aside: bool,
    words: f32,
    units: f32,
}

impl Shape {
    pub(super) fn of(view: &View) -> Self {
        let mut shape = Self {
            files: Vec::with_capacity(view.len()),
            path_words: HashMap::new(),
            names: HashMap::new(),
            last_names: HashMap::new(),
            candidates: 0.0,
            mean_words: 1.0,
            units: 0.0,
            mean_unit: 1.0,
        };
        for file in view.files() {
            let path = view.path(file);
            let is_test = kind::is_test(path);
            let entry = File {
                is_candidate: kind::is_code(view.language(file)) && !is_test,
                is_test: is_test && kind::is_code(view.language(file)),
                is_aside: kind::is_aside(path),
                words: view.words(file) as f32,
                units: view.unit_count(file) as f32,
            };
            if entry.is_candidate {
                shape.add_path(file, path);
            }
            shape.files.push(entry);
        }
        let candidates = || shape.files.iter().filter(|file| file.is_candidate);
        shape.candidates = candidates().count() as f32;
        let words: f32 = candidates().map(|file| file.words).sum();
        shape.units = candidates().map(|file| file.units).sum();
        shape.mean_words = (words / shape.candidates.max(1.0)).max(1.0);
        shape.mean_unit = (words / shape.units.max(1.0)).max(1.0);
        shape
    }

    fn add_path(&mut self, file: FileId, path: &str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let folders = path.strip_suffix(name).unwrap_or_default();
        let mut words = BTreeSet::new();
        for piece in [folders, stem] {
            terms::names(piece, |name| {
                terms::parts(name, |part| {
                    words.insert(part.to_owned());
                });
            });
        }
        for word in words {
            self.path_words.entry(word.into()).or_default().push(file.0);
        }
        let joined: String = folded(stem).chars().filter(|c| *c != '-').collect();
        self.names.entry(joined).or_default().push(file.0);
        let named = self.last_names.entry(name.to_lowercase()).or_default();
        named.push((file.0, path.to_lowercase()));
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether a file may be an answer.
    pub(super) fn is_candidate(&self, file: FileId, about_tests: bool) -> bool {
        let file = self.files.get(file.0 as usize);
        file.is_some_and(|file| file.is_candidate || (about_tests && file.is_test))
    }

    /// How much longer than others a file is, from 0.
    pub(super) fn length(&self, file: FileId) -> f32 {
        self.files[file.0 as usize].words / self.mean_words
    }

    /// How many more functions than others a file has, from 0.
    pub(super) fn width(&self, file: FileId) -> f32 {
        self.files[file.0 as usize].units / (self.units / self.candidates.max(1.0)).max(1.0)
    }

    /// How much of the question a file's folders and name say.
    pub(super) fn path_words(&self, query: &Query, found: &Found) -> Vec<f32> {
        let mut scores = vec![0.0; self.len()];
        for (word, weight) in &query.words {
            if let Some(files) = self.path_words.get(word.as_str()) {
                let gain = weight * found.weight_in_questions(word) * rarity(self.candidates, files.len() as f32);
                for file in files {
                    scores[*file as usize] += gain;
                }
            }
        }
        scores
    }

    /// Whether the question names the file: its name without the ending in some words of it, or the
    /// file itself, as traces do.
    pub(super) fn file_names(&self, query: &Query) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.len()];
        for word in query.joined.keys() {
            for file in self.names.get(word).into_iter().flatten() {
                scores[*file as usize] = 1.0;
            }
        }
        for (asked, _) in &query.paths {
            let asked = asked.to_lowercase();
            let name = asked.rsplit('/').next().unwrap_or_default();
            for (file, path) in self.last_names.get(name).into_iter().flatten() {
                // A trace has paths of another machine: the folders that agree from the end count.
                let alike = path
                    .rsplit('/')
                    .zip(asked.rsplit('/'))
                    .take_while(|(a, b)| a == b)
                    .count();
                let score = &mut scores[*file as usize];
                *score = score.max(if alike > 1 { 1.5 } else { 1.0 });
            }
        }
        scores
    }

    pub(super) fn lengths(&self) -> Vec<f32> {
        self.files.iter().map(|file| file.words.ln_1p()).collect()
    }

    pub(super) fn asides(&self) -> Vec<f32> {
        self.files
            .iter()
            .map(|file| f32::from(u8::from(file.is_aside)))
            .collect()
    }
}
