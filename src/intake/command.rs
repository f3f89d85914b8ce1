//! Finds the command in a comment. A command is a line of plain text whose first word is exactly
//! the token; a Markdown parser decides what is plain text, so that code, quotes, HTML, links,
//! footnotes and tables never command anything. Pure; only the first command of a comment counts.
//! Never asks who wrote the comment and never runs anything: the words after a verb stay text.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::phrase::Language;
use crate::phrase::command::{self as words, Expected};

/// More of a comment is not looked at. GitHub's own limit is 65,536 characters.
const MAX_COMMENT_BYTES: usize = 256 * 1024;

/// More instructions are not handed to the model.
const MAX_INSTRUCTIONS_BYTES: usize = 32 * 1024;

/// A million dollars: a larger `budget` is a typing error.
const MAX_BUDGET_CENTS: u64 = 100_000_000;

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Change code.
    Fix {
        /// The words after the verb.
        instructions: String,
    },
    /// Post a plan and stop.
    Plan {
        /// The words after the verb.
        instructions: String,
    },
    /// Go on with the plan.
    Approve {
        /// The words after the verb.
        remarks: String,
    },
    /// Plan again.
    Revise {
        /// What to do differently; never empty.
        remarks: String,
    },
    /// Answer what a job asked.
    Answer {
        /// The words after the verb; never empty.
        words: String,
    },
    /// Answer in a comment.
    Ask {
        /// The question; never empty.
        question: String,
    },
    /// Review the pull request.
    Review {
        /// The words after the verb.
        instructions: String,
    },
    /// Bring the branch up to date with its base.
    Rebase {
        /// The words after the verb.
        instructions: String,
    },
    /// Write an issue draft.
    Draft {
        /// What it is about.
        text: String,
    },
    /// Create the issue that was drafted.
    Create {
        /// The draft's number; nothing where there is only one.
        number: Option<u32>,
    },
    /// Run again.
    Retry(Retry),
    /// Stop the job.
    Stop,
    /// Where does it stand?
    Status,
    /// Change the job's cap.
    Budget {
        /// The new cap in cents of a US dollar.
        usd_cents: u64,
    },
    /// What can be said?
    Help,
}

/// What `retry` repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The whole job.
    Everything,
    /// Only the publishing of stored work.
    Publish,
}

/// Why a line that begins with the token is not a command. The text may be posted: nothing from
/// the comment is repeated in it but plain words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProblem {
    /// There is no such verb.
    UnknownVerb {
        /// The word, when it is short and plain.
        verb: Option<String>,
    },
    /// The verb is known, what follows is not right.
    BadArgument {
        /// The verb.
        verb: &'static str,
        /// What is expected.
        expected: Expected,
    },
}

impl CommandProblem {
    /// The problem in a sentence.
    pub fn in_words(&self, language: Language) -> String {
        match self {
            CommandProblem::UnknownVerb { verb } => words::unknown_verb(language, verb.as_deref()),
            CommandProblem::BadArgument { verb, expected } => words::bad_argument(language, verb, *expected),
        }
    }
}

impl Command {
    /// The first command of a comment, if it has one. `token` is the word that begins a command,
    /// compared without case.
    pub fn parse(comment: &str, token: &str) -> Option<Result<Command, CommandProblem>> {
        let comment = &comment[..comment.floor_char_boundary(MAX_COMMENT_BYTES)];
        let start = command_start(comment, token)?;
        let (line, following) = match comment[start..].split_once('\n') {
            Some((line, following)) => (line, following),
            None => (&comment[start..], ""),
        };
        let line = line.trim();
        let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words = format!("{}\n{}", rest.trim(), following.replace("\r\n", "\n"));
        Some(Self::from_words(verb, words.trim()))
    }

    fn from_words(verb: &str, words: &str) -> Result<Command, CommandProblem> {
        let known = verb
            .trim_end_matches(['.', ',', ':', ';', '!', '?'])
            .to_ascii_lowercase();
        match known.as_str() {
            "fix" => instructions("fix", words).map(|instructions| Command::Fix { instructions }),
            "plan" => instructions("plan", words).map(|instructions| Command::Plan { instructions }),
            "approve" => instructions("approve", words).map(|remarks| Command::Approve { remarks }),
            "revise" => required("revise", words, Expected::Remarks).map(|remarks| Command::Revise { remarks }),
            "answer" => required("answer", words, Expected::Words).map(|words| Command::Answer { words }),
            "ask" => required("ask", words, Expected::Question).map(|question| Command::Ask { question }),
            "review" => instructions("review", words).map(|instructions| Command::Review { instructions }),
            "rebase" => instructions("rebase", words).map(|instructions| Command::Rebase { instructions }),
            "draft" => instructions("draft", words).map(|text| Command::Draft { text }),
            "create" => create(words),
            "retry" => retry(words),
            "stop" => Ok(Command::Stop),
            "status" => Ok(Command::Status),
            "budget" => budget(words),
            // Only the token: somebody looks for the handle.
            "help" | "" => Ok(Command::Help),
            _ => Err(CommandProblem::UnknownVerb {
                verb: (verb.len() <= 24 && verb.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
                    .then(|| verb.to_owned()),
            }),
        }
    }
}

/// Words for the model. An option where the first word is expected is a mistake and must not be
/// taken for an instruction; further on, options are part of what people write about.
fn instructions(verb: &'static str, words: &str) -> Result<String, CommandProblem> {
    let is_option = words
        .strip_prefix("--")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
    if is_option {
        let expected = Expected::NoOptions;
        return Err(CommandProblem::BadArgument { verb, expected });
    }
    Ok(crate::text::cap(words, MAX_INSTRUCTIONS_BYTES))
}

fn required(verb: &'static str, words: &str, expected: Expected) -> Result<String, CommandProblem> {
    if words.is_empty() {
        return Err(CommandProblem::BadArgument { verb, expected });
    }
    instructions(verb, words)
}

fn retry(words: &str) -> Result<Command, CommandProblem> {
    match words.split_whitespace().next().unwrap_or_default() {
        "" => Ok(Command::Retry(Retry::Everything)),
        word if word.eq_ignore_ascii_case("publish") => Ok(Command::Retry(Retry::Publish)),
        _ => Err(CommandProblem::BadArgument {
            verb: "retry",
            expected: Expected::PublishOrNothing,
        }),
    }
}

fn create(words: &str) -> Result<Command, CommandProblem> {
    let mut words = words.lines().next().unwrap_or_default().split_whitespace();
    let bad = CommandProblem::BadArgument {
        verb: "create",
        expected: Expected::NumberOrNothing,
    };
    let number = match (words.next(), words.next()) {
        (None, _) => None,
        (Some(word), None) => {
            let digits = word.trim_start_matches('#').trim_end_matches(['.', ',', '!']);
            let is_number = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            match digits.parse() {
                Ok(number @ 1..) if is_number => Some(number),
                _ => return Err(bad),
            }
        }
        (Some(_), Some(_)) => return Err(bad),
    };
    Ok(Command::Create { number })
}

fn budget(words: &str) -> Result<Command, CommandProblem> {
    let word = words.split_whitespace().next().unwrap_or_default();
    match cents(word.strip_prefix('$').unwrap_or(word)) {
        Some(usd_cents) if (1..=MAX_BUDGET_CENTS).contains(&usd_cents) => Ok(Command::Budget { usd_cents }),
        _ => Err(CommandProblem::BadArgument {
            verb: "budget",
            expected: Expected::Sum,
        }),
    }
}

/// `12` or `12.5` or `12.50` in cents. No sign, no exponent, no other spelling of a number.
fn cents(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole, 9) || !digits(part, 2) {
        return None;
    }
    let tenths = if part.len() == 1 { 10 } else { 1 };
    Some(whole.parse::<u64>().ok()? * 100 + part.parse::<u64>().ok()? * tenths)
}

/// Where the text after the token begins, for the first plain line that begins with the token.
fn command_start(comment: &str, token: &str) -> Option<usize> {
    if !may_contain(comment, token) {
        return None;
    }
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    let mut special = 0_usize;
    let mut html = OpenElements::default();
    for (event, range) in Parser::new_ext(comment, options).into_offset_iter() {
        match event {
            Event::Start(tag) if !is_plain(&tag) => special += 1,
            Event::End(tag) if !is_plain_end(tag) => special = special.saturating_sub(1),
            Event::Html(source) | Event::InlineHtml(source) => html.note(&source),
            Event::Text(_) if special == 0 && html.none_open() && begins_line(comment, range.start) => {
                if let Some(end) = token_end(comment, range.start, token) {
                    return Some(end);
                }
            }
            _ => {}
        }
    }
    None
}

/// Most comments do not mention the token at all and need no parser.
fn may_contain(comment: &str, token: &str) -> bool {
    !token.is_empty()
        && comment
            .as_bytes()
            .windows(token.len())
            .any(|window| window.eq_ignore_ascii_case(token.as_bytes()))
}

fn begins_line(comment: &str, at: usize) -> bool {
    // From the back, and no further than the first visible character: there may be as many
    // pieces of text in a line as it has characters.
    let before = comment[..at].bytes().rev().find(|b| !matches!(b, b' ' | b'\t' | b'\r'));
    before.is_none_or(|b| b == b'\n')
}

fn token_end(comment: &str, at: usize, token: &str) -> Option<usize> {
    let end = at + token.len();
    let word = comment.get(at..end)?;
    let bounded = comment[end..].chars().next().is_none_or(char::is_whitespace);
    (bounded && word.eq_ignore_ascii_case(token)).then_some(end)
}

/// Containers whose text is still the writer's own plain words. The source line decides whether
/// the token is its first word, so an item's bullet or a heading's `#` already excludes its line.
fn is_plain(tag: &Tag<'_>) -> bool {
    is_plain_end(tag.to_end())
}

fn is_plain_end(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
    )
}

/// HTML elements that show their text as quoted, as code, as a link or hidden. Markdown inside
/// them is parsed as ordinary paragraphs, so they are counted by hand.
const QUOTING_ELEMENTS: [&str; 14] = [
    "a",
    "blockquote",
    "code",
    "del",
    "details",
    "kbd",
    "picture",
    "pre",
    "q",
    "s",
    "samp",
    "sub",
    "sup",
    "table",
];

/// How many quoting elements are open.
#[derive(Default)]
struct OpenElements(usize);

impl OpenElements {
    fn note(&mut self, source: &str) {
        let mut rest = source;
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            let closes = rest.starts_with('/');
            let name = rest.trim_start_matches('/');
            let end = name
                .bytes()
                .position(|b| !b.is_ascii_alphanumeric())
                .unwrap_or(name.len());
            if QUOTING_ELEMENTS
                .iter()
                .any(|element| name[..end].eq_ignore_ascii_case(element))
            {
                self.0 = if closes {
                    self.0.saturating_sub(1)
                } else {
                    self.0.saturating_add(1)
                };
            }
        }
    }

    fn none_open(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests;
