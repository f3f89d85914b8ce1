//! Markdown of a model or a stranger, made safe to stand under the bot's name and between sections
//! that the program writes. Code is written anew as code; in everything else nothing can link,
//! load, mention, close, command, hide or stay open, however the page reads its blocks.
//! Never renders, and never trusts that GitHub and this parser agree on what is a block.

use std::borrow::Cow;
use std::sync::LazyLock;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use regex::{Captures, Regex};

use super::{cap_chars, code_fence, is_invisible, plain_output, reveal};

/// Longest address that is shown.
const MAX_URL_CHARS: usize = 200;

/// What is posted for an image.
const NO_IMAGE: &str = "[image left out]";

/// Kinds of code block that GitHub draws, or offers to commit, instead of showing.
const DRAWN: [&str; 6] = ["mermaid", "geojson", "topojson", "stl", "math", "suggestion"];

/// Everything outside code that does something on a page. Prefixes of lines may be quotes and list
/// markers. Backslashes before a token are dropped with it: they would unmake what replaces it.
static RISKY: LazyLock<Regex> = LazyLock::new(|| {
    let prefix = r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*";
    Regex::new(&format!(
        r"(?mi)(?P<heading>^{prefix})#{{1,3}}(?P<after>[ \t]|$)|(?P<fence>^{prefix})~{{3}}|(?P<rule>^[ \t>]*)(?P<line>=+|-+)(?P<end>[ \t]*)$|\\*(?P<url>(?:(?:https?|ftp)://|www\.)[^\s<>`]+)|(?:\\+|\B)(?P<mention>@[a-z0-9][a-z0-9-]*(?:/[a-z0-9_.-]+)?)|(?P<issue>\b[\w.-]+/[\w.-]+#[0-9]+|\bGH-[0-9]+)|(?:\\+|\B)(?P<number>#[0-9]+)|\\*(?P<ticks>`+)|(?P<entity>&#?[a-z0-9]+;)|(?P<tag><)|(?P<target>\][(:])"
    ))
    .expect("the pattern is valid")
});

/// The text as people see it: no terminal codes, no characters that show as nothing.
pub fn visible(text: &str) -> String {
    plain_output(text).chars().filter(|c| !is_invisible(*c)).collect()
}

/// The text without the marks that stand for characters which show as nothing.
pub fn without_marks(text: &str) -> String {
    static MARK: LazyLock<Regex> = LazyLock::new(|| Regex::new("⟦U\\+[0-9A-F]{4,6}⟧").expect("the pattern is valid"));
    MARK.replace_all(text, "").into_owned()
}

/// Markdown that may be posted: headings are small, code is kept, and outside code there are no
/// links, images, HTML, mentions, references to issues, or commands. `command_token` is the word
/// our own commands begin with. Grows at most fivefold.
pub fn neutralise_markdown(text: &str, command_token: &str) -> String {
    let text = skipping_nothing(&visible(text));
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(&text, options).into_offset_iter();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some((event, range)) = events.next() {
        if range.start < at {
            continue; // within something that was replaced
        }
        let mut end = range.end;
        let replacement = match event {
            Event::Code(code) => code_span(&closing_nothing(&code)),
            Event::Start(Tag::Image { .. }) => NO_IMAGE.to_owned(),
            Event::Start(Tag::CodeBlock(kind)) => {
                let mut code = String::new();
                for (event, _) in events.by_ref() {
                    match event {
                        Event::Text(more) => code.push_str(&more),
                        Event::End(TagEnd::CodeBlock) => break,
                        _ => {}
                    }
                }
                end += usize::from(text[end..].starts_with('\n')); // the block brings its own
                code_block(&kind, &closing_nothing(&code))
            }
            _ => continue,
        };
        push_text(&mut out, &text[at..range.start], command_token);
        push_code(&mut out, &replacement);
        at = end;
    }
    push_text(&mut out, &text[at..], command_token);
    if !text.ends_with('\n') && out.ends_with('\n') {
        out.pop();
    }
    out
}

/// What stands where the rest of a text was cut off.
const CUT: &str = "\n\n[…]\n";

/// The first lines of Markdown that was made safe, closed where the cut left something open. A cut
/// in the middle of a line could unmake the code that holds a mention.
pub fn cap_markdown(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let room = max_chars.saturating_sub(MAX_CLOSING_CHARS);
    let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
    let whole = text[..end].rfind('\n').map_or(0, |at| at + 1);
    let mut out = text[..whole].to_owned();
    let (fence, details) = left_open(&out);
    if let Some(fence) = fence {
        out.push_str(&fence);
    }
    out.push_str(CUT);
    for _ in 0..details {
        out.push_str("\n</details>\n");
    }
    out
}

/// Room for what closes a text that was cut.
const MAX_CLOSING_CHARS: usize = 500;

/// The fence and the number of `<details>` that are open at the end. What is open in a quote or a
/// list ends with it.
fn left_open(text: &str) -> (Option<String>, usize) {
    let (mut fence, mut details): (Option<String>, usize) = (None, 0);
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        let is_bare = ticks >= 3 && line[ticks..].trim().is_empty();
        match &fence {
            Some(open) if is_bare && ticks >= open.len() => fence = None,
            Some(_) => {}
            None if ticks >= 3 && !line[ticks..].contains('`') => fence = Some("`".repeat(ticks)),
            None if line.starts_with("<details>") => details += 1,
            None if line.starts_with("</details>") => details = details.saturating_sub(1),
            None => {}
        }
    }
    (
        fence.filter(|fence| fence.len() < MAX_CLOSING_CHARS / 2),
        details.min(5),
    )
}

/// One line of code in a text, wherever it stands: also in the cell of a table, where a backtick
/// does not protect a `|`.
pub fn code_span(code: &str) -> String {
    let code = reveal(&skipping_nothing(&closing_nothing(code)).replace('\n', " "));
    if code.contains('|') {
        return format!("<code>{}</code>", entities(&code));
    }
    let mut longest = 0;
    let mut run = 0;
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let ticks = "`".repeat(longest + 1);
    let needs_room = code.is_empty() || code.starts_with(['`', ' ']) || code.ends_with(['`', ' ']);
    let room = if needs_room { " " } else { "" };
    format!("{ticks}{room}{code}{room}{ticks}")
}

/// Whether a text holds words that would close an issue where it is no code.
pub fn closes_something(text: &str) -> bool {
    closing_nothing(text) != text
}

/// Code without words that close an issue. On a page they do nothing in code, but a pull request
/// that is squashed takes its body into the commit message, where nothing is code.
fn closing_nothing(code: &str) -> String {
    static CLOSING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)(?P<word>\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?[\s`]+)",
            r"(?:(?P<place>(?:[\w.-]+/[\w.-]+)?)(?:#|GH-)(?P<number>[0-9]+)|(?P<address>https?://))",
        ))
        .expect("the pattern is valid")
    });
    CLOSING
        .replace_all(code, |found: &Captures<'_>| match found.name("address") {
            Some(address) => format!("{}at {}", &found["word"], address.as_str()),
            None => format!("{}{} no. {}", &found["word"], &found["place"], &found["number"]).replace("  ", " "),
        })
        .into_owned()
}

/// Text without words that make a push skip its checks: see [`closing_nothing`].
fn skipping_nothing(text: &str) -> String {
    static SKIPPING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\[((?:skip|no)[ \t]+(?:ci|actions|checks)|(?:ci|actions|checks)[ \t]+skip)\]")
            .expect("the pattern is valid")
    });
    SKIPPING.replace_all(text, "($1)").into_owned()
}

/// A code block at the beginning of a line, closed whatever it holds.
fn code_block(kind: &CodeBlockKind<'_>, code: &str) -> String {
    let language = match kind {
        CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    let plain = language.len() <= 20
        && language
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-_".contains(&b));
    let is_drawn = DRAWN.iter().any(|drawn| language.eq_ignore_ascii_case(drawn));
    let language = if plain && !is_drawn { language } else { "" };
    let fence = code_fence(code);
    let end = if code.is_empty() || code.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("\n{fence}{language}\n{code}{end}{fence}\n")
}

/// Two runs of backticks side by side would be read as one.
fn push_code(out: &mut String, code: &str) {
    if let Some(block) = code.strip_prefix('\n') {
        out.truncate(out.trim_end_matches([' ', '\t']).len());
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(block);
        return;
    }
    if out.ends_with('`') {
        out.push(' ');
    }
    out.push_str(code);
}

fn push_text(out: &mut String, text: &str, command_token: &str) {
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let begins_here = index > 0 || out.is_empty() || out.ends_with('\n');
        let words = line.trim_start_matches([' ', '\t', '>', '-', '*', '+']);
        let first = words.split_whitespace().next().unwrap_or_default();
        if begins_here && first.eq_ignore_ascii_case(command_token) {
            out.push_str(&line[..line.len() - words.len()]);
            push_code(out, &code_span(first));
            push_tokens(out, &words[first.len()..]);
        } else {
            push_tokens(out, line);
        }
    }
}

fn push_tokens(out: &mut String, text: &str) {
    let mut at = 0;
    for found in RISKY.captures_iter(text) {
        let whole = found.get(0).expect("a match has a whole");
        out.push_str(&text[at..whole.start()]);
        push_token(out, &found);
        at = whole.end();
    }
    let rest = &text[at..];
    if out.ends_with('`') && rest.starts_with('`') {
        out.push(' ');
    }
    out.push_str(rest);
}

fn push_token(out: &mut String, found: &Captures<'_>) {
    let group = |name: &str| found.name(name).map(|part| part.as_str());
    if let Some(url) = group("url") {
        let address = url.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '"', '*', '_']);
        push_code(out, &code_span(&cap_chars(address, MAX_URL_CHARS)));
        // What stood behind the address may be the end of a link.
        out.push_str(&url[address.len()..].replace("](", "] (").replace("]:", "] :"));
    } else if let Some(token) = group("mention").or(group("issue")).or(group("number")) {
        push_code(out, &code_span(token));
    } else if let Some(prefix) = group("heading") {
        out.push_str(&format!("{prefix}####{}", group("after").unwrap_or_default()));
    } else if let Some(prefix) = group("fence") {
        out.push_str(&format!("{prefix}\\~~~"));
    } else if let (Some(prefix), Some(line)) = (group("rule"), group("line")) {
        out.push_str(&format!("{prefix}\\{line}{}", group("end").unwrap_or_default()));
    } else if let Some(ticks) = group("ticks") {
        out.push_str(&"&#96;".repeat(ticks.len()));
    } else if let Some(entity) = group("entity") {
        match entity.starts_with("&#") {
            // Written out, what is behind the `&` would be the number of an issue.
            true => push_code(out, &code_span(entity)),
            false => out.push_str(&format!("&amp;{}", &entity[1..])),
        }
    } else if group("tag").is_some() {
        out.push_str("&lt;");
    } else if let Some(target) = group("target") {
        out.push_str(&format!("] {}", &target[1..]));
    }
}

fn entities(code: &str) -> String {
    let mut out = String::with_capacity(code.len() * 2);
    for c in code.chars() {
        if c.is_ascii_punctuation() {
            out.push_str(&format!("&#{};", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Words of a model for a title or a commit message, which are no Markdown: without what closes
/// issues, calls people, skips checks or signs in somebody's name.
pub fn plain_words(text: &str) -> String {
    static ACTIVE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?mi)(?P<keyword>\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+)(?P<address>https?://)",
            r"|\B@(?P<name>[a-z0-9][a-z0-9-]*)",
            r"|#(?P<number>[0-9]+)|\bGH-(?P<short>[0-9]+)",
            r"|\[(?P<skip>(?:skip|no)[ \t]+(?:ci|actions|checks)|(?:ci|actions|checks)[ \t]+skip)\]",
            r"|^[ \t]*(?P<trailer>[a-z0-9-]+-by:.*|(?:skip-checks|change-id|cc|fixes|closes|resolves):.*)$",
        ))
        .expect("the pattern is valid")
    });
    // Two passes: a trailer may hold a mention.
    let once = |text: &str| {
        ACTIVE
            .replace_all(text, |found: &Captures<'_>| {
                let group = |name: &str| found.name(name).map(|part| part.as_str());
                match (group("address"), group("number").or(group("short"))) {
                    (Some(address), _) => Cow::from(format!("{}at {address}", group("keyword").unwrap_or_default())),
                    (None, Some(number)) => Cow::from(format!("no. {number}")),
                    (None, None) => match (group("name"), group("skip"), group("trailer")) {
                        (Some(name), _, _) => Cow::from(name.to_owned()),
                        (_, Some(skip), _) => Cow::from(format!("({skip})")),
                        (_, _, trailer) => Cow::from(format!("({})", trailer.unwrap_or_default())),
                    },
                }
            })
            .into_owned()
    };
    once(&once(&visible(text)))
}

#[cfg(test)]
mod tests;
