//! What history says of the files of one view: which commits before it spoke of what is asked, when
//! each file was changed, and how often a word is said in messages. Made once for a view, asked often.
//! Never looks at a commit that is not an ancestor of the view's.

use std::sync::Arc;

use super::shape::Shape;
use super::{kind, rarity};
use crate::ids::CommitSha;
use crate::retrieval::history::History;
use crate::retrieval::query::Query;
use crate::retrieval::view::{FileId, View};

/// A commit that changed more paths than this says nothing about any of them.
const MAX_PATHS: usize = 60;
/// The same for the words of a file, where they stay for good.
const MAX_PATHS_FOR_WORDS: usize = 30;
/// Years in which what a commit says comes to half its worth: code moves on.
const HALF_LIFE: f32 = 3.0;
/// Commits most like the question that are followed to their files.
const ALIKE: usize = 1000;
/// How steeply likeness counts: the few commits most like the question decide.
const STEEPNESS: i32 = 4;
/// How much a commit's files share its vote: 0 not at all, 1 in full.
const SHARING: f32 = 0.7;
/// Years since the last change of a file that nothing ever changed.
const NEVER: f32 = 20.0;

const YEAR: f32 = 365.0 * 86_400.0;

/// History as of one view.
#[derive(Debug)]
pub struct Chronicle {
    history: Arc<History>,
    /// The files of the view that each commit changed, and what of it is worth; nothing for commits
    /// after the view, or of other branches.
    commits: Vec<Option<Told>>,
    /// Commits that count when words are weighed.
    heard: f32,
    mean_words: f32,
    /// Words said about each file, weighed by age.
    said: Vec<f32>,
    mean_said: f32,
    age: Vec<f32>,
    order: Vec<f32>,
}

/// A commit before the view.
#[derive(Debug)]
struct Told {
    files: Vec<FileId>,
    paths: usize,
    /// From 1 for a commit of today down to 0.
    fresh: f32,
    years: f32,
    is_merge: bool,
}

impl Chronicle {
    /// History as of a commit, for its view; nothing when the commit is not in the history.
    pub fn new(history: Arc<History>, view: &View, at: &CommitSha) -> Option<Self> {
        let is_before = history.up_to(at)?;
        let now = history.commits()[history.number(at)? as usize].time;
        let names = history.names_now(&is_before, |path| {
            let file = view.file(path)?;
            // Tests change with everything; they would take their part of each vote.
            (kind::is_code(view.language(file)) && !kind::is_test(path)).then_some(file.0)
        });
        let commits: Vec<Option<Told>> = history
            .commits()
            .iter()
            .zip(&is_before)
            .map(|(commit, is_before)| {
                let mut files: Vec<FileId> = commit
                    .paths
                    .iter()
                    .filter_map(|path| names[*path as usize].map(FileId))
                    .collect();
                files.sort_unstable();
                files.dedup();
                let years = now.saturating_sub(commit.time).max(0) as f32 / YEAR;
                (*is_before && !files.is_empty()).then(|| Told {
                    files,
                    paths: commit.paths.len(),
                    fresh: 0.5_f32.powf(years / HALF_LIFE),
                    years,
                    is_merge: commit.parents.len() > 1,
                })
            })
            .collect();
        let mut chronicle = Self {
            history,
            commits,
            heard: 0.0,
            mean_words: 1.0,
            said: vec![0.0; view.len()],
            mean_said: 1.0,
            age: vec![NEVER; view.len()],
            order: vec![0.0; view.len()],
        };
        chronicle.sum_up();
        Some(chronicle)
    }

    fn sum_up(&mut self) {
        let mut words = 0.0;
        let mut by_age: Vec<(f32, usize)> = Vec::new();
        for (at, (told, commit)) in self.commits.iter().zip(self.history.commits()).enumerate() {
            let Some(told) = told else { continue };
            self.heard += 1.0;
            words += commit.words as f32;
            if told.paths <= MAX_PATHS_FOR_WORDS {
                let said = commit.words as f32 * told.fresh / (told.files.len() as f32).sqrt();
                for file in &told.files {
                    self.said[file.0 as usize] += said;
                }
            }
            if told.paths <= MAX_PATHS {
                for file in &told.files {
                    let age = &mut self.age[file.0 as usize];
                    *age = age.min(told.years);
                }
                if !told.is_merge {
                    by_age.push((told.years, at));
                }
            }
        }
        self.mean_words = (words / self.heard.max(1.0)).max(1.0);
        let with_words = self.said.iter().filter(|said| **said > 0.0).count() as f32;
        self.mean_said = (self.said.iter().sum::<f32>() / with_words.max(1.0)).max(1e-6);
        by_age.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        for (place, (_, at)) in by_age.into_iter().enumerate() {
            for file in self.commits[at].iter().flat_map(|told| &told.files) {
                let order = &mut self.order[file.0 as usize];
                if *order == 0.0 {
                    *order = 1.0 / (place as f32 + 2.0);
                }
            }
        }
    }

    fn told(&self, commit: u32) -> Option<&Told> {
        self.commits[commit as usize].as_ref()
    }

    /// How much a word tells among what people write here, from 0 to 1: `fix` is in every second
    /// message and tells nothing, however rare it is in the code.
    pub(super) fn tells(&self, word: &str) -> f32 {
        let saying = self.history.saying(word).iter();
        let with = saying.filter(|(commit, _)| self.told(*commit).is_some()).count() as f32;
        rarity(self.heard.max(1.0), with) / rarity(self.heard.max(1.0), 1.0)
    }

    /// For each file: the words of all messages about it, and the votes of the commits most like the
    /// question.
    pub(super) fn alike(&self, query: &Query, shape: &Shape) -> [Vec<f32>; 2] {
        let mut likeness = vec![0.0_f32; self.commits.len()];
        let mut about = vec![0.0_f32; shape.len()];
        let mut counts = vec![0.0_f32; shape.len()];
        for (word, weight) in &query.words {
            let saying = self.history.saying(word);
            let with = saying.iter().filter(|(commit, _)| self.told(*commit).is_some()).count() as f32;
            let rare = rarity(self.heard, with);
            let mut touched = Vec::new();
            for (commit, count) in saying {
                let Some(told) = self.told(*commit) else { continue };
                let count = f32::from(*count);
                let length = self.history.commits()[*commit as usize].words as f32 / self.mean_words;
                likeness[*commit as usize] += weight * rare * count * 2.2 / (count + 1.2 * (0.4 + 0.6 * length));
                if told.paths <= MAX_PATHS_FOR_WORDS {
                    let gain = count * told.fresh / (told.files.len() as f32).sqrt();
                    for file in &told.files {
                        let sum = &mut counts[file.0 as usize];
                        if *sum == 0.0 {
                            touched.push(*file);
                        }
                        *sum += gain;
                    }
                }
            }
            let is_candidate = |file: &&FileId| shape.is_candidate(**file, query.is_about_tests);
            let rare = rarity(shape.candidates, touched.iter().filter(is_candidate).count() as f32);
            for file in touched {
                let count = std::mem::take(&mut counts[file.0 as usize]);
                let length = self.said[file.0 as usize] / self.mean_said;
                about[file.0 as usize] += weight * rare * count * 2.2 / (count + 1.2 * (0.5 + 0.5 * length));
            }
        }
        [about, self.votes(&likeness, shape)]
    }

    fn votes(&self, likeness: &[f32], shape: &Shape) -> Vec<f32> {
        let mut votes = vec![0.0; shape.len()];
        let mut alike: Vec<(f32, u32)> = (0..likeness.len() as u32)
            .map(|commit| (likeness[commit as usize], commit))
            .filter(|(likeness, commit)| {
                *likeness > 0.0 && self.told(*commit).is_some_and(|told| told.paths <= MAX_PATHS)
            })
            .collect();
        let by_likeness = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1));
        if alike.len() > ALIKE {
            alike.select_nth_unstable_by(ALIKE, by_likeness);
            alike.truncate(ALIKE);
        }
        let most = alike.iter().map(|(likeness, _)| *likeness).fold(0.0, f32::max);
        for (likeness, commit) in alike {
            let Some(told) = self.told(commit) else { continue };
            let vote = (likeness / most).powi(STEEPNESS) * told.fresh / (told.files.len() as f32).powf(SHARING);
            for file in &told.files {
                votes[file.0 as usize] += vote;
            }
        }
        votes
    }

    /// The commit most like the question among those that changed a file: its subject and short id.
    pub(super) fn reason(&self, query: &Query, file: FileId) -> Option<String> {
        let mut likeness: std::collections::HashMap<u32, f32> = std::collections::HashMap::new();
        for (word, weight) in &query.words {
            let saying = self.history.saying(word);
            let gain = weight * rarity(self.heard, saying.len() as f32);
            for (commit, _) in saying {
                if self
                    .told(*commit)
                    .is_some_and(|told| told.files.binary_search(&file).is_ok())
                {
                    *likeness.entry(*commit).or_default() += gain;
                }
            }
        }
        let best = likeness
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
        let commit = &self.history.commits()[best.0 as usize];
        let id = &commit.id[..commit.id.len().min(10)];
        Some(format!(
            "changed by {id} \"{}\"",
            crate::text::cap_chars(&commit.subject, 80)
        ))
    }

    /// Newer changes first, by their order.
    pub(super) fn order(&self) -> Vec<f32> {
        self.order.clone()
    }

    /// Newer changes first, by time: 0 after a year, below it later.
    pub(super) fn age(&self) -> Vec<f32> {
        self.age.iter().map(|years| -(years + 0.01).ln()).collect()
    }
}
