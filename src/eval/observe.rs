//! One case, seen: the signals of all files that could be the answer, and the orders that each source
//! makes. Never keeps a view: hundreds of them would not fit into memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::case::{Ask, Case};
use super::fit::Choice;
use crate::retrieval::history::History;
use crate::retrieval::query::Query;
use crate::retrieval::rank::{Chronicle, FUNCTION_SIGNALS, Fit, Ranker, Ranking, SIGNALS, Source, Sources};
use crate::retrieval::view::{FileId, View};

/// What is kept of a case.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) id: String,
    pub(super) repo: String,
    /// The candidates among files, and the right ones.
    pub(super) choice: Choice<SIGNALS>,
    /// The functions that were looked at, and the right ones; none of either where the change is in none.
    pub(super) function_choice: Choice<FUNCTION_SIGNALS>,
    /// Ranks of the right files for each choice of sources.
    pub(super) files: Vec<(Sources, Vec<Option<usize>>)>,
    /// Ranks of the right functions likewise; empty where the change is in none.
    pub(super) functions: Vec<(Sources, Vec<Option<usize>>)>,
    /// Time for the index and for the history of this commit.
    pub(super) prepared: (Duration, Duration),
    /// Time for what is kept from question to question of one commit.
    pub(super) opened: Duration,
    /// Time for the answer.
    pub(super) answered: Duration,
    pub(super) notes: Vec<String>,
}

/// Functions among which the right ones are looked for.
const DEPTH: usize = 200;

/// All choices of sources that are reported.
pub(super) fn choices() -> Vec<Sources> {
    let only = Source::ALL.into_iter().map(Sources::Only);
    let without = Source::ALL.into_iter().map(Sources::Without);
    std::iter::once(Sources::All).chain(only).chain(without).collect()
}

impl Observation {
    /// The same without what only fitting needs, which is most of its memory.
    pub(super) fn without_options(mut self) -> Self {
        self.choice.options = Vec::new();
        self.function_choice.options = Vec::new();
        self
    }

    pub(super) fn of(
        case: &Case,
        ask: Ask,
        view: Arc<View>,
        history: &Arc<History>,
        prepared: (Duration, Duration),
    ) -> Self {
        let started = Instant::now();
        let chronicle = Chronicle::new(history.clone(), &view, &case.parent_commit);
        let chronicle = chronicle.ok_or_else(|| "the commit is older than what is kept".to_owned());
        let ranker = Ranker::new(view.clone(), chronicle);
        let opened = started.elapsed();
        let started = Instant::now();
        let query = Query::parse(case.text(ask));
        let signals = ranker.signals(&query);
        let ranking = ranker.fuse(&query, &signals, Sources::All, DEPTH);
        let answered = started.elapsed();
        let candidates: Vec<FileId> = view.files().filter(|file| ranker.is_candidate(*file, &query)).collect();
        let place = |path: &String| view.file(path).and_then(|file| candidates.binary_search(&file).ok());
        let gold: Vec<usize> = case.gold_files.iter().filter_map(place).collect();
        let right = right_functions(&view, case);
        let everything = ranker.fuse(&query, &signals, Sources::All, view.len());
        let mut files = Vec::new();
        let mut functions = Vec::new();
        for sources in choices() {
            let ranking = match sources {
                Sources::All => ranking.clone(),
                _ => ranker.fuse(&query, &signals, sources, DEPTH),
            };
            files.push((sources, file_ranks(&view, &ranking, case)));
            functions.push((sources, function_ranks(&ranking, &right)));
        }
        Self {
            id: case.id.clone(),
            repo: case.repo.clone(),
            choice: Choice {
                options: candidates.iter().map(|file| signals.of(*file)).collect(),
                lost: case.gold_files.len() - gold.len(),
                gold,
            },
            function_choice: function_choice(&signals.functions(&everything), &right),
            files,
            functions,
            prepared,
            opened,
            answered,
            notes: ranking.notes,
        }
    }
}

fn file_ranks(view: &View, ranking: &Ranking, case: &Case) -> Vec<Option<usize>> {
    let rank = |path: &String| {
        let file = view.file(path)?;
        ranking
            .files
            .iter()
            .position(|ranked| ranked.file == file)
            .map(|at| at + 1)
    };
    case.gold_files.iter().map(rank).collect()
}

fn function_ranks(ranking: &Ranking, right: &[(FileId, u32)]) -> Vec<Option<usize>> {
    let rank = |(file, symbol): &(FileId, u32)| {
        let mut functions = ranking.functions.iter();
        functions
            .position(|ranked| (ranked.file, ranked.symbol) == (*file, *symbol))
            .map(|at| at + 1)
    };
    right.iter().map(rank).collect()
}

fn function_choice(looked_at: &[Fit], right: &[(FileId, u32)]) -> Choice<FUNCTION_SIGNALS> {
    let place = |right: &(FileId, u32)| {
        let mut looked_at = looked_at.iter();
        looked_at.position(|fit| (fit.file, fit.symbol) == *right)
    };
    let gold: Vec<usize> = right.iter().filter_map(place).collect();
    Choice {
        // Of a change in no function nothing is asked.
        options: match right.is_empty() {
            true => Vec::new(),
            false => looked_at.iter().map(|fit| fit.signals).collect(),
        },
        lost: right.len() - gold.len(),
        gold,
    }
}

/// The innermost functions around the changed lines.
fn right_functions(view: &View, case: &Case) -> Vec<(FileId, u32)> {
    let mut right = Vec::new();
    for (path, changes) in &case.gold_lines {
        let Some(file) = view.file(path) else { continue };
        let symbols = view.symbols(file);
        let callables = || (0_u32..).zip(&symbols).filter(|(_, symbol)| symbol.kind.is_callable());
        for (from, to) in changes {
            // A change of ten thousand lines is in every function of the file; a part will do.
            for line in *from..=(*to).min(from.saturating_add(2000)) {
                let around = callables().filter(|(_, symbol)| symbol.line <= line && line <= symbol.end_line);
                if let Some((at, _)) = around.min_by_key(|(_, symbol)| symbol.end_line - symbol.line) {
                    right.push((file, at));
                }
            }
        }
    }
    right.sort_unstable();
    right.dedup();
    right
}
