//! What was measured, as a table for people and as JSON. Never leaves out a case silently.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::case::Ask;
use super::fit::{self, Choice, Shipped};
use super::measure::Measure;
use super::observe::{Observation, choices};
use crate::retrieval::rank::{FUNCTION_WEIGHTS, SIGNAL_NAMES, Source, Sources, Weights};

/// All figures of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Which text was asked.
    pub query: &'static str,
    /// Files: by source, fused, without each source, and with weights fitted on the other repositories.
    pub files: Vec<Row>,
    /// Files of each repository, with weights fitted on the others.
    pub repositories: Vec<Row>,
    /// Functions: fused, with weights fitted on the other repositories, by source, without each source.
    pub functions: Vec<Row>,
    /// Functions of each repository, with weights fitted on the others.
    pub function_repositories: Vec<Row>,
    /// Fitted weights: of all repositories, and of all but each one.
    pub weights: Vec<Named>,
    /// The same of the signals of functions.
    pub function_weights: Vec<Named>,
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
        let shipped = Shipped {
            weights: Weights::default().0,
            is_free: SIGNAL_NAMES.map(|(_, source)| matches!(source, Source::Shape | Source::Recency)),
        };
        let names = SIGNAL_NAMES.map(|(name, _)| name);
        let of_files = leave_one_out(seen, |case| &case.choice, &shipped, &names);
        let shipped = Shipped {
            weights: FUNCTION_WEIGHTS.map(|(_, weight)| weight),
            is_free: FUNCTION_WEIGHTS.map(|_| false),
        };
        let names = FUNCTION_WEIGHTS.map(|(name, _)| name);
        let of_functions = leave_one_out(seen, |case| &case.function_choice, &shipped, &names);
        let mut files = vec![];
        let mut functions = vec![];
        for (at, sources) in choices().into_iter().enumerate() {
            let file_ranks: Vec<_> = seen.iter().map(|case| case.files[at].1.clone()).collect();
            let function_ranks: Vec<_> = seen.iter().map(|case| case.functions[at].1.clone()).collect();
            files.push(Row::of(name(sources), &file_ranks));
            functions.push(Row::of(name(sources), &function_ranks));
        }
        for (rows, held_out) in [(&mut files, of_files.all), (&mut functions, of_functions.all)] {
            if let Some(held_out) = held_out {
                rows.insert(1, held_out);
            }
        }
        let mut notes: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for note in seen.iter().flat_map(|case| &case.notes) {
            *notes.entry(note.clone()).or_default() += 1;
        }
        Self {
            query: ask.name(),
            files,
            repositories: of_files.repositories,
            functions,
            function_repositories: of_functions.repositories,
            weights: of_files.weights,
            function_weights: of_functions.weights,
            skipped,
            notes: notes.into_iter().collect(),
            cases: seen
                .iter()
                .map(|case| (case.id.clone(), case.files[0].1.clone()))
                .collect(),
            lost: seen.iter().map(|case| case.choice.lost).sum(),
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
        let mut lines = Vec::new();
        for (title, rows) in [
            (format!("files, query {}", self.query), &self.files),
            ("files by repository, left out".to_owned(), &self.repositories),
            ("functions".to_owned(), &self.functions),
            (
                "functions by repository, left out".to_owned(),
                &self.function_repositories,
            ),
        ] {
            if !rows.is_empty() {
                lines.push(head(&title));
                lines.extend(rows.iter().map(Row::line));
                lines.push(String::new());
            }
        }
        for (what, named) in [("", &self.weights), (" for functions", &self.function_weights)] {
            for (of, weights) in named {
                let weights: Vec<String> = weights
                    .iter()
                    .map(|(name, weight)| format!("{name} {weight:.2}"))
                    .collect();
                lines.push(format!("weights{what} of {of}: {}", weights.join(", ")));
            }
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

/// Each repository by the weights of the others.
#[derive(Default)]
struct HeldOut {
    all: Option<Row>,
    repositories: Vec<Row>,
    weights: Vec<Named>,
}

fn leave_one_out<const N: usize>(
    seen: &[Observation],
    choice: fn(&Observation) -> &Choice<N>,
    shipped: &Shipped<N>,
    names: &[&'static str; N],
) -> HeldOut {
    let repos: BTreeSet<&str> = seen.iter().map(|case| case.repo.as_str()).collect();
    if repos.len() < 2 {
        return HeldOut::default();
    }
    let named = |weights: [f32; N]| names.iter().copied().zip(weights).collect();
    let fitted = fit::fit(seen.iter().map(choice), shipped);
    let mut held_out = HeldOut {
        weights: vec![("all".to_owned(), named(fitted))],
        ..HeldOut::default()
    };
    let mut all = Vec::new();
    for repo in repos {
        let others = seen.iter().filter(|case| case.repo != repo);
        let fitted = fit::fit(others.map(choice), shipped);
        let own = seen.iter().filter(|case| case.repo == repo);
        let ranks: Vec<_> = own.map(|case| fit::ranks(choice(case), &fitted)).collect();
        held_out.repositories.push(Row::of(repo.to_owned(), &ranks));
        all.extend(ranks);
        held_out.weights.push((format!("all but {repo}"), named(fitted)));
    }
    held_out.all = Some(Row::of("fused, weights of other repos".to_owned(), &all));
    held_out
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
