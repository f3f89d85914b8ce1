//! What may be written, and where: looks at every request that the App sent to the double. Never
//! trusts what the program says of itself.

use std::collections::BTreeMap;

use forgehand::demo::double::Recorded;
use forgehand::intake::Command;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use regex::Regex;
use serde_json::{Value, json};

use super::strings::{FOREIGN, PRIVATE, secrets};
use crate::service::{MONA, REPO};

/// Longest text that may be posted.
const MAX_CHARS: usize = 60_000;

/// What a text may speak of.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Issues and pull requests that the program itself may name.
    pub numbers: Vec<u64>,
    /// The issue that a pull request may close.
    pub closes: Option<u64>,
    /// Where links may lead.
    pub web: String,
}

/// A page as people see it.
#[derive(Default)]
struct Seen {
    /// What stands outside code, a space for each piece of code.
    words: String,
    /// What stands in code.
    code: String,
    html: String,
    problems: Vec<String>,
}

fn read(markdown: &str, web: &str) -> Seen {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    let mut seen = Seen::default();
    let (mut in_block, mut in_span) = (false, false);
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                in_block = true;
                let drawn = ["mermaid", "geojson", "topojson", "stl", "math"];
                if let CodeBlockKind::Fenced(info) = kind
                    && drawn.iter().any(|drawn| info.eq_ignore_ascii_case(drawn))
                {
                    seen.problems.push(format!("draws {info}"));
                }
            }
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Start(Tag::Image { dest_url, .. }) => seen.problems.push(format!("loads {dest_url}")),
            Event::Start(Tag::Link { dest_url, .. }) if !dest_url.starts_with(web) => {
                seen.problems.push(format!("links to {dest_url}"));
            }
            Event::InlineHtml(html) if &*html == "<code>" => in_span = true,
            Event::InlineHtml(html) if &*html == "</code>" => in_span = false,
            Event::Html(html) | Event::InlineHtml(html) => seen.html.push_str(&html),
            Event::Text(text) if in_block || in_span => seen.code.push_str(&text),
            Event::Code(code) => {
                seen.words.push(' ');
                seen.code.push_str(&code);
                seen.code.push('\n');
            }
            Event::Text(text) => seen.words.push_str(&text),
            Event::InlineMath(_) | Event::DisplayMath(_) => seen.problems.push("holds mathematics".to_owned()),
            Event::SoftBreak | Event::HardBreak | Event::End(_) => seen.words.push('\n'),
            _ => {}
        }
    }
    seen
}

/// What is wrong with a text that was posted as Markdown.
pub fn problems(markdown: &str, own: &Own) -> Vec<String> {
    let mut wrong = problems_of_words(markdown);
    let mut said = markdown.to_owned();
    if let Some(issue) = own.closes {
        match markdown.strip_prefix(&format!("Fixes #{issue}\n")) {
            Some(rest) => said = rest.to_owned(),
            None => wrong.push(format!("does not begin with the closing of #{issue}")),
        }
    }
    let seen = read(&said, &own.web);
    wrong.extend(seen.problems);
    let ours = pattern(
        r"</?(?:details|summary|sub|code|br)>|<!-- forgehand:v1:(?:(?:draft:)?[0-9A-HJKMNP-TV-Z]{26}:\d+|ended:[0-9a-f]+):[0-9a-f]{32} -->",
    );
    let html = pattern(r"<summary>[^<>]*</summary>").replace_all(&seen.html, "");
    let foreign = ours.replace_all(&html, "");
    if foreign.contains('<') {
        wrong.push(format!("holds HTML: {foreign:?}"));
    }
    if seen.html.contains("01KBA0000000") {
        wrong.push("holds a forged marker".to_owned());
    }
    let opened = said.matches("<details>").count();
    if seen.html.matches("<details>").count() != seen.html.matches("</details>").count() {
        wrong.push(format!("leaves one of {opened} <details> open"));
    }
    wrong.extend(problems_of_calls(&seen.words, own));
    for text in [&seen.words, &seen.code] {
        if let Some(found) = closing().find(text) {
            wrong.push(format!("closes: {:?}", found.as_str()));
        }
    }
    if Command::parse(&said, "/agent").is_some() {
        wrong.push("holds a command".to_owned());
    }
    let probe = read(&format!("{said}\n\nlast-word"), &own.web);
    if !probe.words.trim_end().ends_with("last-word") {
        wrong.push("leaves something open".to_owned());
    }
    wrong
}

/// What is wrong with words that are no Markdown: titles, messages, names.
pub fn problems_of_plain(text: &str) -> Vec<String> {
    let mut wrong = problems_of_words(text);
    wrong.extend(problems_of_calls(text, &Own::default()));
    wrong.retain(|problem| !problem.starts_with("links")); // words of a title or a message link nowhere
    if let Some(found) = closing().find(text) {
        wrong.push(format!("closes: {:?}", found.as_str()));
    }
    wrong
}

/// What may stand in no text at all.
pub fn problems_of_words(text: &str) -> Vec<String> {
    let mut wrong = problems_of_secrets(text);
    // Emoji of the program's own headlines.
    let text = &text
        .replace("☑\u{fe0f}", "")
        .replace("⏹\u{fe0f}", "")
        .replace("⚠\u{fe0f}", "");
    if text.chars().count() > MAX_CHARS {
        wrong.push(format!("is {} characters long", text.chars().count()));
    }
    let hidden = |c: &char| (c.is_control() && !matches!(c, '\n' | '\t')) || forgehand::text::is_invisible(*c);
    if let Some(c) = text.chars().find(hidden) {
        wrong.push(format!("holds U+{:04X}", c as u32));
    }
    wrong
}

/// Which secret stands in a text, also in a file.
pub fn problems_of_secrets(text: &str) -> Vec<String> {
    let small = forgehand::text::without_marks(text).to_lowercase();
    let found = secrets().into_iter().filter(|form| small.contains(form.as_str()));
    found.map(|form| format!("holds a secret as {form}")).collect()
}

fn problems_of_calls(words: &str, own: &Own) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(found) = pattern(r"(?:^|[^\w/`])@[A-Za-z0-9][\w-]*").find(words) {
        wrong.push(format!("mentions {:?}", found.as_str()));
    }
    for found in pattern(r"(?:[\w.-]+/[\w.-]+)?#(\d+)|\bGH-(\d+)").captures_iter(words) {
        let number = found
            .get(1)
            .or(found.get(2))
            .and_then(|number| number.as_str().parse().ok());
        let is_own = found[0].starts_with('#') && number.is_some_and(|number| own.numbers.contains(&number));
        if !is_own {
            wrong.push(format!("refers to {:?}", &found[0]));
        }
    }
    for found in pattern(r"(?i)(?:https?://|ftp://|www\.)\S+").find_iter(words) {
        if own.web.is_empty() || !found.as_str().starts_with(&own.web) {
            wrong.push(format!("links to {:?}", found.as_str()));
        }
    }
    wrong
}

/// Pieces of code stand on lines of their own here: what one ends with closes nothing of the next.
fn closing() -> Regex {
    pattern(r"(?i)\b(close[sd]?|fix(e[sd])?|resolve[sd]?)\b:?[^\S\n]+(?:(?:[\w.-]+/[\w.-]+)?#\d+|GH-\d+|https?://\S+)")
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Every text in a request's body.
pub fn texts(body: &Value) -> Vec<(String, String)> {
    match body {
        Value::String(text) => vec![(String::new(), text.clone())],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| {
                texts(value)
                    .into_iter()
                    .map(move |(inner, text)| (if inner.is_empty() { name.clone() } else { inner }, text))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The issue or pull request that a write is for, if it is one of those that a job may make.
pub fn place(write: &Recorded, comments: &BTreeMap<u64, u64>) -> Result<Option<u64>, String> {
    let what = format!("{} {}", write.method, write.path);
    let allowed = [
        r"^POST /repos/octo/words/issues/(?P<number>\d+)/(?:comments|reactions)$",
        r"^(?:PATCH|DELETE) /repos/octo/words/issues/comments/(?P<comment>\d+)$",
        r"^POST /repos/octo/words/(?:issues|pulls)/comments/(?P<comment>\d+)/reactions$",
        r"^DELETE /repos/octo/words/issues/(?P<number>\d+)/labels/agent$",
        r"^POST /repos/octo/words/pulls/(?P<number>\d+)/(?:reviews|requested_reviewers)$",
        r"^POST /repos/octo/words/(?:pulls|issues)$",
        r"^POST /octo/words\.git/git-receive-pack$",
        r"^POST /repos/octo/words/check-runs$",
        r"^PATCH /repos/octo/words/check-runs/\d+$",
    ];
    for rule in allowed {
        let Some(found) = pattern(rule).captures(&what).map(|found| {
            let group = |name| found.name(name).and_then(|part| part.as_str().parse::<u64>().ok());
            (group("number"), group("comment"))
        }) else {
            continue;
        };
        return match found {
            (Some(number), _) => Ok(Some(number)),
            (_, Some(comment)) => match comments.get(&comment) {
                Some(number) => Ok(Some(*number)),
                None => Err(format!("{what}: the comment is nobody's here")),
            },
            _ => Ok(None),
        };
    }
    Err(format!("{what} is no write that a job may make"))
}

/// Requests that have anything to do with repositories that no job is about.
pub fn strayed(requests: &[Recorded]) -> Vec<String> {
    let others = [PRIVATE, FOREIGN].map(str::to_lowercase);
    let strays = requests.iter().filter(|request| {
        let path = request.path.to_lowercase();
        let of_repo = path.starts_with(&format!("/repos/{REPO}")) || path.starts_with(&format!("/{REPO}.git"));
        let known = [
            "/app",
            "/graphql",
            "/installation",
            "/search",
            "/repositories",
            "/rate_limit",
            "/user",
        ];
        let is_known =
            of_repo || known.iter().any(|known| path.starts_with(known)) || path.starts_with("/repos/octo/words");
        !is_known || others.iter().any(|other| path.contains(other.as_str()))
    });
    strays
        .map(|request| format!("{} {}?{}", request.method, request.path, request.query))
        .collect()
}

/// What a write does that no job asks for: other people, labels or assignments.
pub fn misused(write: &Recorded, what: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if write.path.ends_with("/requested_reviewers") && write.body["reviewers"] != json!([MONA]) {
        wrong.push(format!("{what} asks {}", write.body));
    }
    if write.path.ends_with("/issues")
        && write.body["labels"]
            .as_array()
            .is_some_and(|labels| labels.iter().any(|label| label != "bug"))
    {
        wrong.push(format!("{what} sets {}", write.body["labels"]));
    }
    if write.body.get("assignees").is_some() || write.body.get("milestone").is_some() {
        wrong.push(format!("{what} assigns: {}", write.body));
    }
    wrong
}
