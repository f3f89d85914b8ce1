//! End points and signatures in the text of a documentation page. Called by `reverse_api`. Never
//! makes up what is not there: each entry is a piece of a line, with the number of the line.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// Longest line that is looked at.
const MAX_LINE_BYTES: usize = 1_000;

/// Most entries of a page.
const MAX_ENTRIES: usize = 2_000;

static END_POINT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\b[`*\s]+((?:https?://[^\s`'<>|]+)|/[^\s`'<>|]*)")
        .expect("the pattern is valid")
});

static SIGNATURE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^[\s#*>|$-]*(?:\[[^\]]*\]\s*)?(",
        // Rust, Go, Swift, Kotlin, JavaScript, Python, Ruby, PHP
        r"(?:(?:pub(?:\([a-z]+\))?|async|const|unsafe|static|public|private|protected|export|default|override|suspend|final|abstract)\s+)*",
        r"(?:fn|func|fun|function|def)\s+(?:\([^)]*\)\s*)?[\w.:<>]+\s*(?:<[^>]*>)?\s*\([^)]*\)?.*",
        r"|(?:(?:pub|public|export|abstract|final)\s+)*(?:class|struct|trait|interface|enum)\s+[A-Z]\w*.*",
        // name(arguments) -> Type, and name(arguments) alone on its line
        r"|[A-Za-z_][\w.]*\([^()]*\)\s*(?:->|→|:|=>)\s*\S.*",
        r"|[A-Za-z_][\w.]*\.[A-Za-z_]\w*\([^()]*\)",
        r")\s*$"
    ))
    .expect("the pattern is valid")
});

/// The entries of a text as `line 12: GET /users/{id}`.
pub(super) fn find(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.len() > MAX_LINE_BYTES || entries.len() >= MAX_ENTRIES {
            continue;
        }
        let mut add = |entry: String| {
            if seen.insert(entry.clone()) {
                entries.push(format!("line {}: {entry}", at + 1));
            }
        };
        let mut has_end_point = false;
        for found in END_POINT.captures_iter(line) {
            has_end_point = true;
            let path = found[2].trim_end_matches(['.', ',', ';', ')', ':', '"']);
            add(format!("{} {path}", &found[1]));
        }
        if !has_end_point && let Some(found) = SIGNATURE.captures(line) {
            let words: Vec<&str> = found[1].split_whitespace().collect();
            add(words.join(" ").trim_end_matches(['{', ' ']).to_owned());
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(find(text), expected, "{text:?}");
    }

    #[test]
    fn end_points_are_methods_with_paths() {
        check("## GET /users/{id}", &["line 1: GET /users/{id}"]);
        check(
            "Call `POST /v1/files` or\n**DELETE** `/v1/files/:id`.",
            &["line 1: POST /v1/files", "line 2: DELETE /v1/files/:id"],
        );
        check(
            "curl: PUT https://api.example.com/v1/x.",
            &["line 1: PUT https://api.example.com/v1/x"],
        );
        check("GET /a\n\nGET /a", &["line 1: GET /a"]);
        check("You GET what you pay for; see the POST office", &[]);
    }

    #[test]
    fn signatures_are_lines_that_look_like_ones() {
        for (line, found) in [
            ("pub async fn spawn<F>(future: F) -> JoinHandle<F::Output>", true),
            ("    def get(self, key, default=None):", true),
            ("func (c *Client) Do(req *Request) (*Response, error)", true),
            ("export function parse(text: string): Node {", true),
            ("json.dumps(obj, indent=None) -> str", true),
            ("### client.close()", true),
            ("class Session(object):", true),
            ("This function returns nothing (see below).", false),
            ("Call it with open(path) and read.", false),
            ("", false),
        ] {
            assert_eq!(!find(line).is_empty(), found, "{line} {:?}", find(line));
        }
    }

    #[test]
    fn long_pages_are_read_in_time() {
        let started = std::time::Instant::now();
        let entries = find(&"pub fn a((((((((((((((((((((((( GET / \n".repeat(20_000));
        assert!(entries.len() <= MAX_ENTRIES && started.elapsed().as_secs() < 20);
    }
}
