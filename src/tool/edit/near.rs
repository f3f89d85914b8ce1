//! What a file has instead of a text that is not there: the same but for white space, or the most
//! similar lines. Only words for an answer. Never used to decide where to edit.

use std::collections::HashMap;

/// Most lines quoted in an answer.
const MAX_QUOTED_LINES: usize = 40;

/// Most bytes quoted of one line.
const MAX_LINE_BYTES: usize = 300;

/// Lines looked at for similarity; a file with more is not a place to search by eye.
const MAX_LINES_COMPARED: usize = 50_000;

/// How many similar lines are named.
const NEAREST: usize = 3;

/// The first place that equals `old` but for white space: its line and what stands there.
pub(super) fn but_for_whitespace(text: &str, old: &str) -> Option<(usize, String)> {
    let wanted = squeezed(old.trim());
    if wanted.is_empty() {
        return None;
    }
    let (squeezed_text, line_of_squeezed) = squeezed_lines(text);
    let at = squeezed_text.find(&wanted)?;
    let nth = |at: usize| squeezed_text[..at].matches('\n').count();
    let (first, last) = (line_of_squeezed[nth(at)], line_of_squeezed[nth(at + wanted.len())]);
    let lines: Vec<&str> = text.lines().collect();
    let last = last.min(first + MAX_QUOTED_LINES - 1);
    Some((first + 1, lines[first..=last].join("\n")))
}

/// Lines without their indentation, with single spaces, blank lines left out.
fn squeezed(text: &str) -> String {
    squeezed_lines(text).0
}

fn squeezed_lines(text: &str) -> (String, Vec<usize>) {
    let mut out = String::with_capacity(text.len());
    let mut numbers = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Horizontal white space only: a line end never becomes part of an indentation.
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        if !numbers.is_empty() {
            out.push('\n');
        }
        out.push_str(&words.join(" "));
        numbers.push(number);
    }
    (out, numbers)
}

/// The text without the line numbers that `read_file` puts before every line. `None`: not every
/// line has one.
pub(super) fn without_line_numbers(text: &str) -> Option<String> {
    let lines: Option<Vec<&str>> = text
        .lines()
        .map(|line| {
            let (number, rest) = line.split_once('\t')?;
            number.trim().parse::<u64>().ok().map(|_| rest)
        })
        .collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"))
}

/// The lines that share the most words with the longest line of `old`.
pub(super) fn nearest_lines(text: &str, old: &str) -> Vec<(usize, String)> {
    let wanted = old.lines().max_by_key(|line| line.trim().len()).unwrap_or_default();
    let wanted = word_counts(wanted);
    let mut scored: Vec<(f64, usize, &str)> = text
        .lines()
        .take(MAX_LINES_COMPARED)
        .enumerate()
        .map(|(number, line)| (similarity(&wanted, line), number + 1, line))
        .filter(|(score, _, _)| *score >= 0.4)
        .collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    scored
        .into_iter()
        .take(NEAREST)
        .map(|(_, number, line)| (number, crate::text::cap(line, MAX_LINE_BYTES)))
        .collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

fn word_counts(line: &str) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for word in words(line) {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

/// Share of words in common, from 0 to 1.
fn similarity(wanted: &HashMap<&str, usize>, line: &str) -> f64 {
    let there = word_counts(line);
    let total = wanted.values().sum::<usize>() + there.values().sum::<usize>();
    if total == 0 {
        return 0.0;
    }
    let shared: usize = wanted
        .iter()
        .map(|(word, count)| *count.min(there.get(word).unwrap_or(&0)))
        .sum();
    2.0 * shared as f64 / total as f64
}
