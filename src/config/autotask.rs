//! What the section `[autotask]` means together: the query in force, as GitHub's search would be asked
//! it, and what cannot select anything or is not written as GitHub reads it. Called when the
//! configuration is checked, and by whoever shows the query. Never asks GitHub.

use std::time::Duration;

use super::AutotaskConfig;
use crate::ids::RepoName;
use crate::text;

/// Looks cost little while nothing changed, but they are many repositories' together.
const LEAST_PAUSE: Duration = Duration::from_secs(5);

/// A look that comes less than once a day is a forgotten one.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// GitHub refuses longer queries; the names of the repository and of our own parts come on top.
const MAX_QUERY_CHARS: usize = 200;

/// GitHub's limit for labels, and its usual one for titles.
const MAX_NAME_CHARS: usize = 100;

/// Qualifiers that GitHub's search knows for issues.
const QUALIFIERS: [&str; 28] = [
    "archived",
    "assignee",
    "author",
    "closed",
    "commenter",
    "comments",
    "created",
    "has",
    "in",
    "interactions",
    "involves",
    "is",
    "label",
    "language",
    "linked",
    "locked",
    "mentions",
    "milestone",
    "no",
    "parent-issue",
    "project",
    "reactions",
    "reason",
    "state",
    "sub-issue",
    "team",
    "type",
    "updated",
];

/// Qualifiers that would look elsewhere than into the repository.
const OTHER_PLACES: [&str; 4] = ["repo", "org", "user", "head"];

impl AutotaskConfig {
    /// What selects the issues, as GitHub's search is asked it; the name of the queue.
    pub fn effective_query(&self) -> String {
        let mut query = "is:issue is:open".to_owned();
        for (qualifier, value) in [("label", &self.label), ("milestone", &self.milestone)] {
            if let Some(value) = value {
                query.push_str(&format!(" {qualifier}:\"{value}\""));
            }
        }
        if let Some(words) = &self.query {
            query.push(' ');
            query.push_str(words.trim());
        }
        query
    }

    /// Whether anything is selected: a queue of every open issue is not meant by anybody.
    pub fn selects(&self) -> bool {
        [&self.label, &self.milestone, &self.query]
            .iter()
            .any(|it| it.is_some())
    }

    /// The repositories, where their names can be read; what cannot is a problem at the start.
    pub fn repository_names(&self) -> Vec<RepoName> {
        self.repositories.iter().filter_map(|name| name.parse().ok()).collect()
    }

    pub(super) fn check(&self, problems: &mut Vec<String>) {
        let mut wrong = |key: &str, problem: String| problems.push(format!("autotask.{key}: {problem}"));
        let mut seen: Vec<String> = Vec::new();
        for name in &self.repositories {
            match name.parse::<RepoName>() {
                Err(error) => wrong("repositories", error.to_string()),
                Ok(_) if seen.contains(&name.to_lowercase()) => {
                    wrong("repositories", format!("{name} is named twice"));
                }
                Ok(_) => seen.push(name.to_lowercase()),
            }
        }
        if self.enabled && self.repositories.is_empty() {
            wrong(
                "enabled",
                "needs autotask.repositories, a list of owner/name".to_owned(),
            );
        }
        if !self.selects() && (self.enabled || !self.repositories.is_empty()) {
            let problem = "needs a label, a milestone or a query: without one, every open issue would be worked on";
            wrong("enabled", problem.to_owned());
        }
        for (key, value) in [("label", &self.label), ("milestone", &self.milestone)] {
            let Some(value) = value else { continue };
            let is_name = !value.trim().is_empty() && value.trim() == value && !value.contains(['"', ',', '\n']);
            if !is_name || value.chars().count() > MAX_NAME_CHARS {
                wrong(
                    key,
                    format!(
                        "{value:?} is no name: no quotes, commas or spaces around it, at most {MAX_NAME_CHARS} characters"
                    ),
                );
            }
        }
        if let Some(query) = &self.query {
            check_query(query, self, &mut |problem| wrong("query", problem));
        }
        if !(LEAST_PAUSE..=LONGEST_PAUSE).contains(&self.every_seconds) {
            let (least, longest) = (LEAST_PAUSE.as_secs(), LONGEST_PAUSE.as_secs());
            wrong("every_seconds", format!("{least} to {longest}"));
        }
        if !self.max_day_usd.is_finite() || self.max_day_usd < 0.0 {
            wrong("max_day_usd", "a sum of money, 0 or more (0 = no cap)".to_owned());
        }
        if self.max_active == 0 {
            wrong(
                "max_active",
                "at least 1 (to look for nothing, set autotask.enabled = false)".to_owned(),
            );
        }
    }
}

/// What of a query is no qualifier, looks elsewhere, or contradicts the rest.
fn check_query(query: &str, config: &AutotaskConfig, wrong: &mut impl FnMut(String)) {
    if query.trim().is_empty() {
        return wrong("is empty; leave the key out".to_owned());
    }
    if query.chars().count() > MAX_QUERY_CHARS {
        wrong(format!(
            "GitHub takes no longer query than {MAX_QUERY_CHARS} characters"
        ));
    }
    let terms = match terms(query) {
        Ok(terms) => terms,
        Err(problem) => return wrong(problem),
    };
    for term in &terms {
        let Some(name) = &term.name else { continue };
        if OTHER_PLACES.contains(&name.as_str()) {
            wrong(format!(
                "`{name}:` looks elsewhere; name repositories in autotask.repositories"
            ));
        } else if !QUALIFIERS.contains(&name.as_str()) {
            let near = text::nearest(name, QUALIFIERS, 2);
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}:`?"));
            wrong(format!("GitHub has no qualifier `{name}:`{hint}"));
        }
    }
    let mut all = terms;
    all.extend([Term::of("is", "issue"), Term::of("is", "open")]);
    all.extend(config.label.iter().map(|label| Term::of("label", label)));
    all.extend(config.milestone.iter().map(|title| Term::of("milestone", title)));
    for (at, one) in all.iter().enumerate() {
        if let Some(other) = all[at + 1..].iter().find(|other| one.contradicts(other)) {
            wrong(format!(
                "`{}` and `{}` never hold for the same issue",
                one.shown(),
                other.shown()
            ));
        }
    }
}

/// One part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    is_negated: bool,
    /// The qualifier, in lower case; none for a plain word.
    name: Option<String>,
    /// In lower case and without quotes.
    value: String,
}

impl Term {
    fn of(name: &str, value: &str) -> Self {
        Self {
            is_negated: false,
            name: Some(name.to_owned()),
            value: value.to_lowercase(),
        }
    }

    fn shown(&self) -> String {
        let minus = if self.is_negated { "-" } else { "" };
        let quoted = match self.value.contains(' ') {
            true => format!("\"{}\"", self.value),
            false => self.value.clone(),
        };
        match &self.name {
            Some(name) => format!("{minus}{name}:{quoted}"),
            None => format!("{minus}{quoted}"),
        }
    }

    /// `state:open` and `type:issue` are other ways to write `is:open` and `is:issue`.
    fn meaning(&self) -> (&str, &str) {
        let name = match self.name.as_deref() {
            Some("state" | "type") => "is",
            name => name.unwrap_or_default(),
        };
        let value = if name == "is" && self.value == "pull-request" {
            "pr"
        } else {
            &self.value
        };
        (name, value)
    }

    fn contradicts(&self, other: &Term) -> bool {
        let (mine, theirs) = (self.meaning(), other.meaning());
        if self.is_negated != other.is_negated {
            return mine == theirs;
        }
        if self.is_negated || mine.0 != theirs.0 || mine.1 == theirs.1 {
            // `no:label` leaves nothing that `label:x` could find.
            let empties = |one: (&str, &str), two: (&str, &str)| one.0 == "no" && one.1 == two.0;
            return !self.is_negated && (empties(mine, theirs) || empties(theirs, mine));
        }
        let both = |a: &str, b: &str| mine.1.min(theirs.1) == a.min(b) && mine.1.max(theirs.1) == a.max(b);
        match mine.0 {
            "is" => both("open", "closed") || both("issue", "pr") || both("open", "merged") || both("issue", "merged"),
            "milestone" | "author" => true,
            _ => false,
        }
    }
}

/// The parts of a query; quotes hold words together.
fn terms(query: &str) -> Result<Vec<Term>, String> {
    let mut parts: Vec<String> = Vec::new();
    let (mut part, mut is_quoted) = (String::new(), false);
    for c in query.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    if is_quoted {
        return Err("a quote is not closed".to_owned());
    }
    parts.push(part);
    let term = |part: String| {
        let (is_negated, rest) = match part.strip_prefix('-') {
            Some(rest) => (true, rest.to_owned()),
            None => (false, part),
        };
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        let (name, value) = match rest.split_once(':') {
            Some((name, value)) if is_name(name) => (Some(name.to_lowercase()), value.to_lowercase()),
            _ => (None, rest.to_lowercase()),
        };
        Term {
            is_negated,
            name,
            value,
        }
    };
    Ok(parts.into_iter().filter(|part| !part.is_empty()).map(term).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut AutotaskConfig)) -> String {
        let mut config = AutotaskConfig {
            enabled: true,
            repositories: vec!["octo/words".to_owned()],
            label: Some("ready".to_owned()),
            ..AutotaskConfig::default()
        };
        change(&mut config);
        let mut problems = Vec::new();
        config.check(&mut problems);
        problems.join("\n")
    }

    #[track_caller]
    fn check_words(query: &str, expected: &str) {
        let found = problems(|config| config.query = Some(query.to_owned()));
        match expected {
            "" => assert_eq!(found, "", "{query}"),
            expected => assert!(found.contains(expected), "{query}: {found}"),
        }
    }

    #[test]
    fn queries_that_find_nothing_are_noticed() {
        check_words("is:open no:assignee", "");
        check_words("crash -label:blocked comments:>3", "");
        check_words("label:bug", "");
        check_words("is:closed", "`is:closed` and `is:open` never hold");
        check_words("state:closed", "never hold");
        check_words("is:pr", "`is:pr` and `is:issue` never hold");
        check_words("-label:Ready", "`-label:ready` and `label:ready` never hold");
        check_words("no:label", "never hold");
        check_words("author:mona author:eve", "never hold");
        check_words("lable:bug", "did you mean `label:`?");
        check_words("repo:evil/secrets", "looks elsewhere");
        check_words("\"open quote", "a quote is not closed");
        check_words("  ", "is empty");
        let long = "word ".repeat(60);
        check_words(&long, "no longer query");
    }

    #[test]
    fn a_milestone_that_the_query_excludes_is_noticed() {
        let found = problems(|config| {
            config.milestone = Some("Version 1".to_owned());
            config.query = Some("milestone:\"version 2\"".to_owned());
        });
        assert!(found.contains("never hold"), "{found}");
    }

    #[test]
    fn all_problems_come_at_once() {
        let found = problems(|config| {
            config.repositories = ["octo/words", "Octo/Words", "words", "octo/words.git"]
                .map(str::to_owned)
                .to_vec();
            config.label = Some("a,b".to_owned());
            config.every_seconds = Duration::from_secs(1);
            config.max_day_usd = -1.0;
            config.max_active = 0;
        });
        for part in [
            "Octo/Words is named twice",
            "it is written owner/name",
            "without '.git'",
            "autotask.label",
            "autotask.every_seconds: 5 to 86400",
            "autotask.max_day_usd",
            "autotask.max_active",
        ] {
            assert!(found.contains(part), "{part} in {found}");
        }
        let found = problems(|config| {
            config.label = None;
            config.repositories.clear();
        });
        assert!(
            found.contains("needs autotask.repositories") && found.contains("every open issue"),
            "{found}"
        );
    }

    #[test]
    fn the_query_in_force_has_every_restriction() {
        let config = AutotaskConfig {
            label: Some("good first issue".to_owned()),
            milestone: Some("v1".to_owned()),
            query: Some(" no:assignee ".to_owned()),
            ..AutotaskConfig::default()
        };
        assert_eq!(
            config.effective_query(),
            "is:issue is:open label:\"good first issue\" milestone:\"v1\" no:assignee"
        );
    }
}
