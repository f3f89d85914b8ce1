//! The texts of our operations against an extract of GitHub's published schema, and what its
//! errors mean.

use std::collections::BTreeMap;

use chrono::DateTime;
use serde_json::Value;

use super::*;

/// Types with the fields, arguments and possible types that our operations name; made by
/// `tests/facts/extract-graphql.py`.
const FACTS: &str = include_str!("../../../tests/it/github/graphql-facts.json");

/// The words and signs of an operation.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in text.replace("...", " … ").chars() {
        if c.is_alphanumeric() || c == '_' || c == '$' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() && c != ',' {
            tokens.push(c.to_string());
        }
    }
    tokens
}

/// Walks an operation beside the schema and collects what does not fit.
struct Walk<'a> {
    facts: &'a Value,
    tokens: std::iter::Peekable<std::vec::IntoIter<String>>,
    variables: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Walk<'_> {
    fn next(&mut self) -> String {
        self.tokens.next().expect("the operation ends early")
    }

    fn eat(&mut self, wanted: &str) -> bool {
        self.tokens.next_if(|token| token == wanted).is_some()
    }

    fn operation(&mut self) {
        let root = if self.next() == "mutation" { "Mutation" } else { "Query" };
        self.next(); // name
        if self.eat("(") {
            while !self.eat(")") {
                let name = self.next();
                assert_eq!(self.next(), ":");
                let mut kind = self.next();
                if self.eat("!") {
                    kind.push('!');
                }
                self.variables.insert(name, kind);
            }
        }
        assert!(self.eat("{"));
        self.selection(root);
        assert_eq!(self.tokens.next(), None, "nothing after the end");
    }

    fn selection(&mut self, kind: &str) {
        while !self.eat("}") {
            if self.eat("…") {
                assert_eq!(self.next(), "on");
                let other = self.next();
                let possible = &self.facts["possible"][kind];
                if !possible
                    .as_array()
                    .is_some_and(|list| list.contains(&other.as_str().into()))
                {
                    self.problems.push(format!("{kind} is never a {other}"));
                }
                assert!(self.eat("{"));
                self.selection(&other);
                continue;
            }
            let name = self.next();
            let field = self.facts["types"][kind][name.as_str()].clone();
            if name != "__typename" && field.is_null() {
                self.problems.push(format!("{kind} has no field {name}"));
            }
            let end = if self.eat("(") { ")" } else { "" };
            self.arguments(&field["args"], end);
            let inner = field["type"].as_str().unwrap_or_default().trim_matches(['[', ']', '!']);
            if self.eat("{") {
                self.selection(inner);
            } else if self.facts["types"].get(inner).is_some() {
                self.problems.push(format!("{kind}.{name} needs a selection"));
            }
        }
    }

    /// Named values up to the closing sign (none where that is empty), against the names and types
    /// that are allowed.
    fn arguments(&mut self, allowed: &Value, end: &str) {
        let mut given = Vec::new();
        while !end.is_empty() && !self.eat(end) {
            let name = self.next();
            assert_eq!(self.next(), ":");
            let wanted = allowed[name.as_str()].as_str().unwrap_or_default().to_owned();
            if wanted.is_empty() {
                self.problems.push(format!("there is no argument {name}"));
            }
            let value = self.next();
            if value == "{" {
                let inner = self.facts["inputs"][wanted.trim_matches('!')].clone();
                self.arguments(&inner, "}");
            } else if value.starts_with('$') {
                let declared = self.variables.get(&value).cloned().unwrap_or_default();
                if declared.trim_matches('!') != wanted.trim_matches('!')
                    || (wanted.ends_with('!') && declared != wanted)
                {
                    self.problems
                        .push(format!("{value} is {declared:?} where {wanted} is wanted"));
                }
            }
            given.push(name);
        }
        for (name, kind) in allowed.as_object().into_iter().flatten() {
            if kind.as_str().is_some_and(|kind| kind.ends_with('!')) && !given.contains(name) {
                self.problems.push(format!("the argument {name} is missing"));
            }
        }
    }
}

fn problems(text: &str) -> Vec<String> {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let mut walk = Walk {
        facts: &facts,
        tokens: tokens(text).into_iter().peekable(),
        variables: BTreeMap::new(),
        problems: Vec::new(),
    };
    walk.operation();
    walk.problems
}

#[test]
fn operations_fit_the_published_schema() {
    let operations = all_operations();
    assert_eq!(operations.len(), 5);
    for operation in operations {
        assert!(
            operation.text.contains(&format!(" {}(", operation.name)),
            "{}",
            operation.name
        );
        assert_eq!(problems(operation.text), Vec::<String>::new(), "{}", operation.name);
    }
}

#[test]
fn the_checker_notices_what_does_not_fit() {
    for (text, problem) in [
        ("query Q { hovercraft }", "Query has no field hovercraft"),
        (
            "query Q($id: ID!) { node(id: $id) { ... on User { databaseId } } }",
            "Node is never a User",
        ),
        (
            "query Q($id: String!) { node(id: $id) { __typename } }",
            "$id is \"String!\" where ID! is wanted",
        ),
        ("query Q { node { __typename } }", "the argument id is missing"),
        (
            "query Q { repository(owner: $o, name: $n) }",
            "Query.repository needs a selection",
        ),
        (
            "mutation M($id: ID!) { resolveReviewThread(input: { thread: $id }) { thread { id } } }",
            "there is no argument thread",
        ),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|line| line == problem), "{text}: {found:?}");
    }
}

#[test]
fn errors_within_a_success_are_sorted() {
    const NOW: i64 = 1_800_000_000;
    let now = DateTime::from_timestamp(NOW, 0).unwrap();
    let sorted = |kind: &str, headers: &[(&'static str, String)]| {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        match sort("GraphQL Q".to_owned(), kind, "words".to_owned(), &headers, now) {
            GitHubError::RateLimited { until, .. } => format!("limited {}", until.timestamp() - NOW),
            other => other.to_string(),
        }
    };
    let spent = [
        ("x-ratelimit-remaining", "0".to_owned()),
        ("x-ratelimit-reset", (NOW + 1200).to_string()),
    ];
    let left = [
        ("x-ratelimit-remaining", "7".to_owned()),
        ("x-ratelimit-reset", (NOW + 1200).to_string()),
    ];
    assert_eq!(sorted("RATE_LIMITED", &spent), "limited 1200");
    assert_eq!(sorted("RATE_LIMITED", &left), "limited 60");
    for (kind, expected) in [
        ("NOT_FOUND", "GitHub does not find GraphQL Q"),
        ("FORBIDDEN", "GitHub forbids GraphQL Q: words"),
        ("INSUFFICIENT_SCOPES", "GitHub forbids GraphQL Q: words"),
        ("STALE_DATA", "GitHub reports a conflict for GraphQL Q: words"),
        ("UNPROCESSABLE", "GitHub rejects GraphQL Q: words"),
        ("", "GitHub did not answer clearly to GraphQL Q: words"),
    ] {
        assert_eq!(sorted(kind, &[]), expected, "{kind}");
    }
}
