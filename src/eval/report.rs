//! What was measured, as a table for people and as JSON. Never leaves out a case silently.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::case::Ask;
use super::fit;
use super::measure::Measure;
use super::observe::{Observation, choices};
use crate::retrieval::rank::{SIGNAL_NAMES, Sources, Weights};

/// All figures of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Which text was asked.
    pub query: &'static str,
    /// Files: by source, fused, without each source, and with weights fitted on the other repositories.
    pub files: Vec<Row>,
    /// Files of each repository, with weights fitted on the others.
    pub repositories: Vec<Row>,
    /// Functions: fused, by source, without each source.
    pub functions: Vec<Row>,
    /// Fitted weights: of all repositories, and of all but each one.
    pub weights: Vec<(String, Vec<(&'static str, f32)>)>,
    /// Cases that were not run, and why.
    pub skipped: Vec<(String, String)>,
    /// What the ranker said was missing, with how often.
    pub notes: Vec<(String, usize)>,
    /// Ranks of the right files of each case, with the weights as shipped.
    pub cases: Vec<(String, Vec<Option<usize>>)>,
    /// Right files that are no candidates, such as tests and files without a known language.
    pub lost: usize,
    /// Times.
    pub time: Time,
    /// Most memory that was in use, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
}

/// A line of a table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// The figures.
    #[serde(flatten)]
    pub measure: Measure,
}

/// Times, in milliseconds.
#[derive(Debug, Serialize)]
pub struct Time {
    /// Median and 99th percentile of an answer.
    pub answer: (f64, f64),
    /// The same for taking up a commit whose index is there.
    pub open: (f64, f64),
    /// The same for a commit's index, of which most was known from others.
    pub index: (f64, f64),
    /// All time for histories.
    pub history: f64,
    /// All time.
    pub all: f64,
}

impl Report {
    pub(super) fn of(seen: &[Observation], skipped: Vec<(String, String)>, ask: Ask, all: Duration) -> Self {
        let (held_out, repositories, weights) = leave_one_out(seen);
        let mut files = vec![];
        let mut functions = vec![];
        for (at, sources) in choices().into_iter().enumerate() {
            let of_files: Vec<_> = seen.iter().map(|case| case.files[at].1.clone()).collect();
            let of_functions: Vec<_> = seen.iter().map(|case| case.functions[at].1.clone()).collect();
            files.push(Row::of(name(sources), &of_files));
            functions.push(Row::of(name(sources), &of_functions));
        }
        if let Some(held_out) = held_out {
            files.insert(1, held_out);
        }
        let mut notes: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for note in seen.iter().flat_map(|case| &case.notes) {
            *notes.entry(note.clone()).or_default() += 1;
        }
        Self {
            query: ask.name(),
            files,
            repositories,
            functions,
            weights,
            skipped,
            notes: notes.into_iter().collect(),
            cases: seen
                .iter()
                .map(|case| (case.id.clone(), case.files[0].1.clone()))
                .collect(),
            lost: seen.iter().map(|case| case.lost).sum(),
            time: Time {
                answer: spread(seen.iter().map(|case| case.answered)),
                open: spread(seen.iter().map(|case| case.opened)),
                index: spread(seen.iter().map(|case| case.prepared.0)),
                history: seen.iter().map(|case| milliseconds(case.prepared.1)).sum(),
                all: milliseconds(all),
            },
            peak_memory: peak_memory(),
        }
    }

    /// The report as lines for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![head(&format!("files, query {}", self.query))];
        lines.extend(self.files.iter().map(Row::line));
        if !self.repositories.is_empty() {
            lines.push(String::new());
            lines.push(head("files by repository, left out"));
            lines.extend(self.repositories.iter().map(Row::line));
        }
        lines.push(String::new());
        lines.push(head("functions"));
        lines.extend(self.functions.iter().map(Row::line));
        lines.push(String::new());
        for (of, weights) in &self.weights {
            let weights: Vec<String> = weights
                .iter()
                .map(|(name, weight)| format!("{name} {weight:.2}"))
                .collect();
            lines.push(format!("weights of {of}: {}", weights.join(", ")));
        }
        let time = &self.time;
        lines.push(format!(
            "answer p50 {:.1} ms, p99 {:.1} ms; open p50 {:.1} ms; index p50 {:.0} ms; histories {:.1} s; all {:.1} s",
            time.answer.0,
            time.answer.1,
            time.open.0,
            time.index.0,
            time.history / 1000.0,
            time.all / 1000.0
        ));
        if let Some(bytes) = self.peak_memory {
            lines.push(format!("most memory: {}", crate::text::bytes_in_words(bytes)));
        }
        if self.lost > 0 {
            lines.push(format!(
                "{} right files are no candidates and count as not found",
                self.lost
            ));
        }
        lines.extend(self.notes.iter().map(|(note, count)| format!("{count} × {note}")));
        lines.extend(self.skipped.iter().map(|(case, why)| format!("skipped {case}: {why}")));
        lines
    }
}

impl Row {
    fn of(name: String, ranks: &[Vec<Option<usize>>]) -> Self {
        Self {
            name,
            measure: Measure::of(ranks),
        }
    }

    fn line(&self) -> String {
        let Measure {
            cases,
            acc,
            hit,
            recall,
            mrr,
        } = self.measure;
        let mut line = format!("{:<34}{cases:>6}", self.name);
        for figure in acc.iter().chain(&hit).chain(&recall).chain([&mrr]) {
            line.push_str(&format!("{figure:>7.1}"));
        }
        line
    }
}

fn head(title: &str) -> String {
    let names = [
        "cases", "Acc@1", "@5", "@10", "hit@1", "@5", "@10", "rec@1", "@5", "@10", "MRR",
    ];
    let mut line = format!("{title:<34}{:>6}", names[0]);
    for name in &names[1..] {
        line.push_str(&format!("{name:>7}"));
    }
    line
}

fn name(sources: Sources) -> String {
    match sources {
        Sources::All => "fused".to_owned(),
        Sources::Only(source) => format!("only {}", source.name()),
        Sources::Without(source) => format!("without {}", source.name()),
    }
}

type Named = (String, Vec<(&'static str, f32)>);

/// Each repository by the weights of the others: over all, by repository, and the weights.
fn leave_one_out(seen: &[Observation]) -> (Option<Row>, Vec<Row>, Vec<Named>) {
    let repos: BTreeSet<&str> = seen.iter().map(|case| case.repo.as_str()).collect();
    if repos.len() < 2 {
        return (None, Vec::new(), Vec::new());
    }
    let mut all = Vec::new();
    let mut rows = Vec::new();
    let named = |weights: &Weights| SIGNAL_NAMES.iter().map(|(name, _)| *name).zip(weights.0).collect();
    let mut weights: Vec<Named> = vec![("all".to_owned(), named(&fit::fit(seen.iter())))];
    for repo in repos {
        let fitted = fit::fit(seen.iter().filter(|case| case.repo != repo));
        let own = seen.iter().filter(|case| case.repo == repo);
        let ranks: Vec<_> = own.map(|case| fit::ranks(case, &fitted)).collect();
        rows.push(Row::of(repo.to_owned(), &ranks));
        all.extend(ranks);
        weights.push((format!("all but {repo}"), named(&fitted)));
    }
    (
        Some(Row::of("fused, weights of other repos".to_owned(), &all)),
        rows,
        weights,
    )
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Median and 99th percentile.
fn spread(times: impl Iterator<Item = Duration>) -> (f64, f64) {
    let mut times: Vec<f64> = times.map(milliseconds).collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        times
            .get(((times.len() as f64 - 1.0) * share).round() as usize)
            .copied()
    };
    (at(0.5).unwrap_or_default(), at(0.99).unwrap_or_default())
}

/// What the system says was the most memory of this process.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
