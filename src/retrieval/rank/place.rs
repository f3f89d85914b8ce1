//! An order of files and functions as a list of places for a model to open: path, lines, symbol, why,
//! and the score by source, cut to a budget of tokens. Called by the brief and the search tool. Never
//! names a place twice, and never goes over the budget.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Ranked, Ranker, Ranking, Source};
use crate::retrieval::facts::Symbol;
use crate::retrieval::query::Query;
use crate::retrieval::view::FileId;

/// Functions that are named for one file.
const FUNCTIONS_OF_A_FILE: usize = 3;

/// A place that a change may belong to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// Path of the file.
    pub path: String,
    /// First line, from 1.
    pub line: u32,
    /// Last line.
    pub end_line: u32,
    /// The function, with the type that holds it: `Parser.parse`; nothing for a whole file.
    pub symbol: Option<String>,
    /// What spoke for it, in words.
    pub why: String,
    /// The sum over all sources.
    pub score: f32,
    /// What each source gave, the most first, for sources that gave something.
    pub by: Vec<(&'static str, f32)>,
}

/// Places within a budget.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// The likeliest first.
    pub places: Vec<Place>,
    /// What was missing.
    pub notes: Vec<String>,
    /// All of it as text, within the budget.
    pub text: String,
}

impl Ranker {
    /// The places of a ranking, as many as `max_tokens` hold by `count`.
    pub fn places(&self, query: &Query, ranking: &Ranking, max_tokens: usize, count: &dyn Fn(&str) -> usize) -> Answer {
        let mut answer = Answer {
            notes: ranking.notes.clone(),
            ..Answer::default()
        };
        let mut text = String::new();
        for note in &answer.notes {
            let _ = writeln!(text, "{note}");
        }
        if count(&text) > max_tokens {
            text.clear();
        }
        'files: for ranked in &ranking.files {
            for place in self.of_file(query, ranking, ranked) {
                let line = place.to_string();
                // The whole is counted, because tokens of two texts are not those of both together.
                let longer = format!("{text}{line}\n");
                if count(&longer) > max_tokens {
                    break 'files;
                }
                text = longer;
                answer.places.push(place);
            }
        }
        answer.text = text;
        answer
    }

    /// A file's best functions, or the file when none of them says anything.
    fn of_file(&self, query: &Query, ranking: &Ranking, ranked: &Ranked) -> Vec<Place> {
        let view = self.view();
        let by = by_source(ranked);
        let why = self.why(query, ranked, &by);
        let mut places: Vec<Place> = Vec::new();
        let functions = ranking.functions.iter().filter(|function| function.file == ranked.file);
        for function in functions.take(FUNCTIONS_OF_A_FILE) {
            let Some(symbol) = view.symbol(ranked.file, function.symbol) else {
                continue;
            };
            let lines = (symbol.line, symbol.end_line.max(symbol.line));
            if places.iter().any(|place| (place.line, place.end_line) == lines) {
                continue;
            }
            places.push(Place {
                path: view.path(ranked.file).to_owned(),
                line: lines.0,
                end_line: lines.1,
                symbol: Some(self.full_name(ranked.file, &symbol)),
                // What speaks for the file is said once.
                why: if places.is_empty() { why.clone() } else { String::new() },
                score: ranked.score,
                by: by.clone(),
            });
        }
        if places.is_empty() {
            places.push(Place {
                path: view.path(ranked.file).to_owned(),
                line: 1,
                end_line: view.lines(ranked.file).max(1),
                symbol: None,
                why,
                score: ranked.score,
                by,
            });
        }
        places
    }

    fn full_name(&self, file: FileId, symbol: &Symbol) -> String {
        let parent = || self.view().symbol(file, symbol.parent?).map(|parent| parent.name);
        match symbol.owner.clone().or_else(parent) {
            Some(owner) => format!("{owner}.{}", symbol.name),
            None => symbol.name.to_string(),
        }
    }

    fn why(&self, query: &Query, ranked: &Ranked, by: &[(&'static str, f32)]) -> String {
        let mut why: Vec<String> = by.iter().take(3).map(|(source, _)| (*source).to_owned()).collect();
        let history = by
            .iter()
            .take(3)
            .position(|(source, _)| *source == Source::History.name());
        if let Some(at) = history
            && let Ok(chronicle) = &self.chronicle
            && let Some(reason) = chronicle.reason(query, ranked.file)
        {
            why[at] = reason;
        }
        why.join(", ")
    }
}

fn by_source(ranked: &Ranked) -> Vec<(&'static str, f32)> {
    let scores = Source::ALL.iter().zip(ranked.by);
    // Size and age are of the file and not of the question: they explain nothing.
    let mut by: Vec<_> = scores
        .filter(|(source, score)| *score > 0.05 && !matches!(source, Source::Shape | Source::Recency))
        .map(|(source, score)| (source.name(), score))
        .collect();
    by.sort_by(|a, b| b.1.total_cmp(&a.1));
    by
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}-{}", self.path, self.line, self.end_line)?;
        if let Some(symbol) = &self.symbol {
            write!(f, " {symbol}")?;
        }
        if !self.why.is_empty() {
            write!(f, " ({})", self.why)?;
        }
        Ok(())
    }
}
