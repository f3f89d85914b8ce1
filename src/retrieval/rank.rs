//! Files and functions that a question is about, the likeliest first, with what spoke for each.
//! Called by the brief of a run, by the search tool and from the command line. Several sources score
//! every file, each is brought to the same scale, and a weighted sum decides. Never waits for a source:
//! one that is not there, or finds nothing, is named in the notes.

use std::sync::Arc;

use super::query::Query;
use super::view::{FileId, View};

mod chronicle;
mod kind;
mod place;
mod shape;
mod text;
mod unit;

pub use chronicle::Chronicle;
pub use place::{Answer, Place};
pub use unit::{FUNCTION_SIGNALS, FUNCTION_WEIGHTS, Fit};

use shape::Shape;
use text::Found;

/// What speaks for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Words anywhere in the file.
    Text,
    /// Words in its best function.
    Unit,
    /// Whole names that the question has.
    Names,
    /// Words in the names that it defines.
    Definitions,
    /// Words in its path, and paths that the question has.
    Paths,
    /// Earlier commits that spoke of the same things and changed it.
    History,
    /// How lately it was changed.
    Recency,
    /// Its size, and whether it stands aside: examples, benchmarks, copies of other projects.
    Shape,
}

/// Number of sources.
pub const SOURCES: usize = 8;

impl Source {
    /// All of them, in the order of [`Ranked::by`].
    pub const ALL: [Self; SOURCES] = [
        Self::Text,
        Self::Unit,
        Self::Names,
        Self::Definitions,
        Self::Paths,
        Self::History,
        Self::Recency,
        Self::Shape,
    ];

    /// Its name, for tables and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Unit => "functions",
            Self::Names => "names",
            Self::Definitions => "definitions",
            Self::Paths => "paths",
            Self::History => "history",
            Self::Recency => "recency",
            Self::Shape => "shape",
        }
    }
}

/// Which sources are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sources {
    /// Every one.
    #[default]
    All,
    /// One alone, to see what it is worth.
    Only(Source),
    /// All but one, to see what it adds.
    Without(Source),
}

impl Sources {
    fn has(self, source: Source) -> bool {
        match self {
            Self::All => true,
            Self::Only(only) => only == source,
            Self::Without(left_out) => left_out != source,
        }
    }
}

/// How much each signal weighs in the sum, after its best file was brought to 1. Fitted by maximum
/// likelihood of the changed files on 3,614 changes of sixteen repositories in a dozen languages, none of
/// them among those of the development set; `forgehand eval retrieval` prints such weights for the cases it
/// is given. Nothing in them knows a repository or a language. Boosted trees over these signals, their
/// ranks and their margins were grown on the same changes: on five repositories that were left out they
/// put the right file first in 41 instead of 40.5 % of the cases, which is not worth a model to carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights(pub [f32; SIGNALS]);

/// Number of signals: some sources have two.
pub const SIGNALS: usize = 12;

/// The signals by name, each with its source.
pub const SIGNAL_NAMES: [(&str, Source); SIGNALS] = [
    ("words", Source::Text),
    ("best function", Source::Unit),
    ("whole names", Source::Names),
    ("defined names", Source::Definitions),
    ("path words", Source::Paths),
    ("file name", Source::Paths),
    ("messages of the file", Source::History),
    ("similar commits", Source::History),
    ("order of change", Source::Recency),
    ("age of change", Source::Recency),
    ("length", Source::Shape),
    ("aside", Source::Shape),
];

impl Default for Weights {
    fn default() -> Self {
        Self([1.93, 1.57, 1.93, 0.77, 1.19, 1.02, 1.47, 1.18, 0.2, 0.11, 0.35, -1.07])
    }
}

/// A file with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The file.
    pub file: FileId,
    /// The sum over all sources.
    pub score: f32,
    /// What each source gave, in the order of [`Source::ALL`].
    pub by: [f32; SOURCES],
}

/// A function with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedFunction {
    /// Its file.
    pub file: FileId,
    /// Its place among the file's symbols.
    pub symbol: u32,
    /// Its score; comparable within one answer only.
    pub score: f32,
}

/// The order of files and functions for a question.
#[derive(Debug, Clone, Default)]
pub struct Ranking {
    /// Files, the likeliest first.
    pub files: Vec<Ranked>,
    /// Functions, the likeliest first.
    pub functions: Vec<RankedFunction>,
    /// What was missing: `fallback: history unavailable: …`.
    pub notes: Vec<String>,
}

/// Files whose functions are looked at one by one.
const CLOSE_LOOK: usize = 250;

/// Ranks the files of one view. Made once for a view and asked often.
#[derive(Debug)]
pub struct Ranker {
    view: Arc<View>,
    shape: Shape,
    chronicle: Result<Chronicle, String>,
    weights: Weights,
}

impl Ranker {
    /// For a view, with what history says of its files, or with why it cannot say anything.
    pub fn new(view: Arc<View>, chronicle: Result<Chronicle, String>) -> Self {
        let shape = Shape::of(&view);
        Self {
            view,
            shape,
            chronicle,
            weights: Weights::default(),
        }
    }

    /// With other weights, for fitting.
    pub fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }

    /// The view it ranks.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether a file may be among the answers: code, and no test unless tests are asked about.
    pub fn is_candidate(&self, file: FileId, query: &Query) -> bool {
        self.shape.is_candidate(file, query.is_about_tests)
    }

    /// The likeliest `max` files and functions.
    pub fn rank(&self, query: &Query, sources: Sources, max: usize) -> Ranking {
        let signals = self.signals(query);
        self.fuse(query, &signals, sources, max)
    }

    /// All signals of all files, from which [`Self::fuse`] makes any number of orders.
    pub fn signals(&self, query: &Query) -> Signals {
        let shape = &self.shape;
        let mut notes = Vec::new();
        if self.view.is_incomplete() {
            notes.push("fallback: some files are not indexed yet".to_owned());
        }
        let past = match &self.chronicle {
            Ok(chronicle) => Some(chronicle),
            Err(why) => {
                notes.push(format!("fallback: history unavailable: {why}"));
                None
            }
        };
        let found = Found::of(&self.view, shape, query, past);
        let mut all: [Vec<f32>; SIGNALS] = Default::default();
        all[0] = found.words(shape);
        all[2] = text::whole_names(&self.view, shape, query);
        all[3] = found.definitions(shape);
        all[4] = shape.path_words(query, &found);
        all[5] = shape.file_names(query);
        if let Some(past) = past {
            [all[6], all[7]] = past.alike(query, shape);
            all[8] = past.order();
            all[9] = past.age();
        }
        all[10] = shape.lengths();
        all[11] = shape.asides();
        for (signal, (name, _)) in all.iter_mut().zip(SIGNAL_NAMES) {
            scale(signal);
            signal.resize(shape.len(), 0.0);
            let says_nothing = signal.iter().all(|score| *score == 0.0);
            if says_nothing && name == "words" && !query.words.is_empty() {
                notes.push("fallback: no file has the words of the question".to_owned());
            }
        }
        let first = self.order(query, &all, Sources::All);
        let close = first.iter().take(CLOSE_LOOK).map(|ranked| ranked.file).collect();
        let units = unit::Units::of(&self.view, shape, query, &found, close);
        all[1] = units.best(shape.len());
        scale(&mut all[1]);
        Signals { all, units, notes }
    }

    /// The order that the signals of some sources make.
    pub fn fuse(&self, query: &Query, signals: &Signals, sources: Sources, max: usize) -> Ranking {
        let mut files = self.order(query, &signals.all, sources);
        let functions = signals.units.order(&files, max);
        files.truncate(max);
        Ranking {
            files,
            functions,
            notes: signals.notes.clone(),
        }
    }

    fn order(&self, query: &Query, all: &[Vec<f32>; SIGNALS], sources: Sources) -> Vec<Ranked> {
        let mut files: Vec<Ranked> = self
            .view
            .files()
            .filter(|file| self.is_candidate(*file, query))
            .map(|file| {
                let mut by = [0.0; SOURCES];
                for (at, (_, source)) in SIGNAL_NAMES.iter().enumerate() {
                    if sources.has(*source) {
                        let score = all[at].get(file.0 as usize).copied().unwrap_or_default();
                        by[*source as usize] += self.weights.0[at] * score;
                    }
                }
                Ranked {
                    file,
                    score: by.iter().sum(),
                    by,
                }
            })
            .collect();
        // Equal scores stay in the order of paths: the same question has the same answer.
        files.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.file.cmp(&b.file)));
        files
    }
}

/// What every signal says of every file.
#[derive(Debug)]
pub struct Signals {
    all: [Vec<f32>; SIGNALS],
    units: unit::Units,
    notes: Vec<String>,
}

impl Signals {
    /// A file's signals, for fitting.
    pub fn of(&self, file: FileId) -> [f32; SIGNALS] {
        let at = file.0 as usize;
        std::array::from_fn(|signal| self.all[signal].get(at).copied().unwrap_or_default())
    }

    /// The functions that were looked at with their signals, in the files of an order; for fitting.
    pub fn functions(&self, ranking: &Ranking) -> Vec<Fit> {
        self.units.fits(&ranking.files)
    }
}

/// Brings the best file to 1.
fn scale(signal: &mut [f32]) {
    let best = signal.iter().copied().fold(0.0_f32, f32::max);
    if best > 0.0 {
        for score in signal {
            *score /= best;
        }
    }
}

/// How rare a word is: `ln(1 + (n - df + ½) / (df + ½))`, as in BM25, never negative.
fn rarity(all: f32, with: f32) -> f32 {
    (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln()
}
