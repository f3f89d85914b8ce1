//! How alike two issues are, and which searches find those that are. The title is compared by
//! pairs of letters and the body by words, both with the coefficient of Sørensen and Dice
//! (T. Sørensen 1948, L. R. Dice 1945): twice what both have, by what each has. Pairs of letters
//! bear other endings of a word and languages without spaces; words keep long texts from being
//! alike because all texts have the same letters.
//! Never decides that two issues are the same: that is for people.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::Draft;

/// From this score on a candidate is shown.
pub const WORTH_A_LOOK: u8 = 40;

/// From this score on it is said first.
pub const ALMOST_THE_SAME: u8 = 75;

/// What a title weighs beside a body: people find issues by their titles.
const TITLE_WEIGHT: f64 = 0.7;

/// Most words of a search: GitHub wants all of them in one issue.
const MAX_QUERY_WORDS: usize = 3;

/// Most searches for one draft: GitHub allows thirty a minute.
const MAX_QUERIES: usize = 3;

/// Most words of a title that are compared.
const MAX_TITLE_WORDS: usize = 60;

/// Most words of a body that are compared.
const MAX_WORDS: usize = 2_000;

/// How alike two issues are, 0 to 100, each given by its title and its body. Without a body on
/// both sides the titles decide.
pub fn similarity(one: (&str, &str), other: (&str, &str)) -> u8 {
    let title = pairs_alike(&plain(one.0), &plain(other.0));
    let (words, others) = (words_of(one.1), words_of(other.1));
    let score = if words.is_empty() || others.is_empty() {
        title
    } else {
        let shared = words.intersection(&others).count();
        let body = 2.0 * shared as f64 / (words.len() + others.len()) as f64;
        // Who reports the same in other words has the same title at most.
        (TITLE_WEIGHT * title + (1.0 - TITLE_WEIGHT) * body).max(title - 0.1)
    };
    (score.clamp(0.0, 1.0) * 100.0).round() as u8
}

/// At least two different searches: by the words of the title, and by the rarest of what the
/// evidence names (paths, symbols, texts of errors).
pub fn queries(draft: &Draft) -> Vec<String> {
    let mut queries: Vec<String> = Vec::new();
    let title = words_for_search(&draft.title);
    let telling = rarest(title.clone(), MAX_QUERY_WORDS);
    let in_order = title.iter().filter(|word| telling.contains(word));
    add(&mut queries, in_order.cloned().collect());
    let named = draft
        .observed
        .iter()
        .flat_map(|seen| [last_part(&seen.file), &seen.symbol])
        .flat_map(words_for_search);
    add(&mut queries, rarest(named.collect(), 2));
    let errors = draft.observed.iter().flat_map(|seen| error_lines(&seen.log));
    add(
        &mut queries,
        rarest(errors.flat_map(words_for_search).collect(), MAX_QUERY_WORDS),
    );
    if queries.len() < 2 {
        // Nothing is named: what it is about in other words, then shorter searches, which find more.
        let texts = [&draft.goal, &draft.context, &draft.impact];
        let lists = draft.expected.iter().chain(&draft.scope);
        let rest = texts.into_iter().chain(lists).flat_map(|text| words_for_search(text));
        for words in [rarest(rest.collect(), 3), rarest(title.clone(), 2), rarest(title, 1)] {
            if queries.len() < 2 {
                add(&mut queries, words);
            }
        }
    }
    queries.truncate(MAX_QUERIES);
    queries
}

/// Adds a search, unless there is one of the same words.
fn add(queries: &mut Vec<String>, words: Vec<String>) {
    let sorted = |query: &str| query.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let query = words.join(" ");
    if !query.is_empty() && !queries.iter().any(|other| sorted(other) == sorted(&query)) {
        queries.push(query);
    }
}

/// The name of a file without its folders and its line.
fn last_part(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(':').next().unwrap_or(name)
}

/// Lines of output that tell of an error; the last one if none says so.
fn error_lines(log: &str) -> Vec<&str> {
    let telling = ["error", "panic", "fail", "exception", "fatal", "traceback"];
    let is_telling = |line: &&str| telling.iter().any(|word| line.to_lowercase().contains(word));
    let lines: Vec<&str> = log.lines().filter(is_telling).take(3).collect();
    match lines.as_slice() {
        [] => log
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .into_iter()
            .collect(),
        _ => lines,
    }
}

/// Words without those that every issue has.
fn words_for_search(text: &str) -> Vec<String> {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]+(?:[.][\p{L}\p{N}_]+)*").expect("the pattern is valid"));
    let mut words: Vec<String> = Vec::new();
    for found in WORD.find_iter(text) {
        // Small letters, because GitHub reads AND, OR and NOT.
        let word: String = found.as_str().to_lowercase().chars().take(60).collect();
        let is_short = word.is_ascii() && word.len() < 3;
        if !is_short && !COMMON.contains(&word.as_str()) && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// The words that fewest issues will have: names with a dot or an underscore first, long ones
/// before short ones, in the order in which they came otherwise.
fn rarest(mut words: Vec<String>, most: usize) -> Vec<String> {
    let is_name = |word: &String| word.contains(['_', '.']) || word.chars().any(|c| c.is_ascii_digit());
    words.retain(|word| !word.chars().all(|c| c.is_ascii_digit()));
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.sort_by_key(|word| (!is_name(word), usize::MAX - word.chars().count()));
    words.truncate(most);
    words
}

/// Sørensen and Dice of the pairs of neighbouring letters, each pair as often as it stands there.
fn pairs_alike(one: &str, other: &str) -> f64 {
    if one == other {
        return f64::from(u8::from(!one.is_empty()));
    }
    let pairs = |text: &str| {
        let chars: Vec<char> = text.chars().collect();
        chars.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
    };
    let (ones, mut others) = (pairs(one), pairs(other));
    let all = ones.len() + others.len();
    let mut shared = 0_usize;
    for pair in ones {
        if let Some(at) = others.iter().position(|other| *other == pair) {
            others.swap_remove(at);
            shared += 1;
        }
    }
    2.0 * shared as f64 / all.max(1) as f64
}

fn plain(title: &str) -> String {
    words_of_text(title).take(MAX_TITLE_WORDS).collect::<Vec<_>>().join(" ")
}

fn words_of(body: &str) -> BTreeSet<String> {
    words_of_text(body)
        .filter(|word| !COMMON.contains(&word.as_str()))
        .take(MAX_WORDS)
        .collect()
}

fn words_of_text(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Words that say nothing of what an issue is about.
const COMMON: [&str; 66] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "cannot", "does", "doesn", "do", "for",
    "from", "has", "have", "if", "in", "into", "is", "it", "its", "no", "not", "of", "on", "one", "only", "or", "our",
    "should", "so", "than", "that", "the", "their", "there", "this", "to", "too", "was", "we", "when", "where",
    "which", "while", "will", "with", "without", "would", "you", "add", "fix", "bug", "issue", "error", "feature",
    "support", "use", "make", "new", "all", "every",
];
