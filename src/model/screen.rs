//! What people who watch see of a reply while it arrives: text and thinking told apart, calls that
//! are written as text left out. Called by `endpoint`. Never shows a secret, not even one that the
//! network cut in two: what could be the beginning of one waits for its end.

use super::text_calls::OPENING;
use crate::model::{Delta, Live};
use crate::secret::Redactor;

/// A word that is longer is shown before its end, but for as much as a secret can be long.
const LONG_WORD_BYTES: usize = 8 * 1024;
const LONGEST_SECRET_BYTES: usize = 4 * 1024;

/// A reply on its way to somebody's eyes.
pub(super) struct Screen<'a> {
    live: &'a Live,
    redactor: &'a Redactor,
    /// Whether calls may stand in the text.
    has_tools: bool,
    thought: Held,
    said: Held,
    stage: Stage,
    shown: bool,
}

/// What has come and waits to be shown.
#[derive(Default)]
struct Held {
    taken: usize,
    waiting: String,
}

impl Held {
    /// Whether something new came.
    fn take(&mut self, all: &str) -> bool {
        let new = all.get(self.taken..).unwrap_or_default();
        self.waiting.push_str(new);
        self.taken = all.len();
        !new.is_empty()
    }
}

/// Where a text stands.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// It may begin with thinking.
    Start,
    /// Between `<think>` tags.
    Thinking,
    Saying,
    /// Only calls follow.
    Calling,
}

impl<'a> Screen<'a> {
    pub(super) fn new(live: &'a Live, redactor: &'a Redactor, has_tools: bool) -> Self {
        Self {
            live,
            redactor,
            has_tools,
            thought: Held::default(),
            said: Held::default(),
            stage: Stage::Start,
            shown: false,
        }
    }

    /// Shows what is new and safe of all that came so far.
    pub(super) fn update(&mut self, reasoning: &str, content: &str) {
        if !self.live.is_watched() {
            return;
        }
        if self.thought.take(reasoning) {
            let safe = self.safe(&self.thought.waiting);
            let part = self.thought.waiting.drain(..safe).collect::<String>();
            self.show(&part, true);
        }
        if self.said.take(content) {
            let thought = std::mem::take(&mut self.thought.waiting);
            self.show(&thought, true);
            self.sort();
        }
    }

    /// The reply is whole: shows the rest.
    pub(super) fn end(&mut self) {
        let thought = std::mem::take(&mut self.thought.waiting);
        self.show(&thought, true);
        let said = std::mem::take(&mut self.said.waiting);
        if self.stage != Stage::Calling {
            self.show(&said, self.stage == Stage::Thinking);
        }
    }

    /// The reply is void; another one begins.
    pub(super) fn restart(&mut self) {
        if self.shown {
            self.live.show(Delta::Restarted);
        }
        *self = Self::new(self.live, self.redactor, self.has_tools);
    }

    fn sort(&mut self) {
        if self.stage == Stage::Start {
            let start = self.said.waiting.trim_start();
            if "<think>".starts_with(start) {
                return;
            }
            self.stage = match start.strip_prefix("<think>") {
                Some(rest) => {
                    self.said.waiting = rest.to_owned();
                    Stage::Thinking
                }
                None => Stage::Saying,
            };
        }
        if self.stage == Stage::Thinking {
            let Some(at) = self.said.waiting.find("</think>") else {
                return self.release(true);
            };
            let thought = self.said.waiting.drain(..at).collect::<String>();
            self.show(&thought, true);
            self.said.waiting.drain(.."</think>".len());
            self.stage = Stage::Saying;
        }
        if self.stage == Stage::Saying {
            let Some(call) = OPENING.find(&self.said.waiting).filter(|_| self.has_tools) else {
                return self.release(false);
            };
            let said = self.said.waiting[..call.start()].to_owned();
            self.show(&said, false);
            self.stage = Stage::Calling;
        }
        self.said.waiting.clear();
    }

    fn release(&mut self, is_thought: bool) {
        let safe = self.safe(&self.said.waiting);
        if safe == 0 && self.said.waiting.len() > LONG_WORD_BYTES {
            self.said.waiting = self.redactor.redact(&self.said.waiting);
            let mut end = self.said.waiting.len().saturating_sub(LONGEST_SECRET_BYTES);
            while !self.said.waiting.is_char_boundary(end) {
                end -= 1;
            }
            let part = self.said.waiting.drain(..end).collect::<String>();
            return self.show(&part, is_thought);
        }
        let part = self.said.waiting.drain(..safe).collect::<String>();
        self.show(&part, is_thought);
    }

    /// How much of a text can be shown: whole words, and nothing that may be the beginning of a
    /// secret with spaces or of a key in lines.
    fn safe(&self, text: &str) -> usize {
        let word_end = text
            .char_indices()
            .rev()
            .find(|(_, c)| c.is_whitespace() || *c >= FIRST_WITHOUT_SPACES)
            .map_or(0, |(at, c)| at + c.len_utf8());
        let mut safe = word_end;
        if let Some(begun) = text.find("-----BEGIN") {
            let ended = text[begun..].find("-----END").and_then(|at| {
                let label = begun + at + "-----END".len();
                text[label..].find("-----").map(|at| label + at + 5)
            });
            if ended.is_none_or(|end| end > safe) {
                safe = safe.min(begun);
            }
        }
        // Again from there: a whole secret may end with what another one begins with.
        loop {
            match self.redactor.begun_secret(&text[..safe]) {
                0 => return safe,
                begun => safe -= begun,
            }
        }
    }

    fn show(&mut self, text: &str, is_thought: bool) {
        if text.is_empty() {
            return;
        }
        self.shown = true;
        let clean = self.redactor.redact(text);
        self.live.show(if is_thought {
            Delta::Reasoning(&clean)
        } else {
            Delta::Text(&clean)
        });
    }
}

/// From here on, scripts are written without spaces between words.
const FIRST_WITHOUT_SPACES: char = '\u{2e80}';

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::secret::Secret;

    /// What is seen of these pieces: thinking in brackets, `!` for a restart.
    fn seen(redactor: &Redactor, pieces: &[&str], has_tools: bool, ended: bool) -> String {
        let seen = Arc::new(Mutex::new(String::new()));
        let into = seen.clone();
        let live = Live::to(move |delta| {
            let mut seen = into.lock().unwrap();
            match delta {
                Delta::Text(text) => seen.push_str(text),
                Delta::Reasoning(text) => *seen += &format!("[{text}]"),
                Delta::Restarted => seen.push('!'),
            }
        });
        let mut screen = Screen::new(&live, redactor, has_tools);
        let mut all = String::new();
        for piece in pieces {
            all.push_str(piece);
            screen.update("", &all);
        }
        if ended {
            screen.end();
        }
        seen.lock().unwrap().clone()
    }

    #[track_caller]
    fn check(pieces: &[&str], shown_early: &str, shown: &str) {
        let redactor = Redactor::default();
        assert_eq!(
            seen(&redactor, pieces, true, false),
            shown_early,
            "{pieces:?} before the end"
        );
        assert_eq!(seen(&redactor, pieces, true, true), shown, "{pieces:?}");
    }

    #[test]
    fn words_are_shown_as_they_become_whole() {
        check(&["Let me lo", "ok at it"], "Let me look at ", "Let me look at it");
        check(&["看一下", "代码"], "看一下代码", "看一下代码");
        check(
            &["<thi", "nk>hm so", "</th", "ink>Yes it", " is"],
            "[hm ][so]Yes it ",
            "[hm ][so]Yes it is",
        );
        check(&["<thank you"], "<thank ", "<thank you");
        check(
            &["I look. <tool", "_call>{\"name\": \"grep\"} "],
            "I look. ",
            "I look. ",
        );
        let long = "x".repeat(9_000);
        assert!(seen(&Redactor::default(), &[&long], true, false).len() > 4_000);
    }

    #[test]
    fn r02_a_secret_cut_anywhere_is_never_seen() {
        let redactor = Redactor::default();
        let live = [
            "s3cr3t-value-0123456789",
            "pass word with spaces 77",
            "пароль-длинный-секрет",
        ];
        live.iter().for_each(|secret| redactor.add(&Secret::new(*secret)));
        let token = format!("ghs_{}", "Ab1".repeat(12));
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
            "MIIEvQIBADAN\n".repeat(5)
        );
        for secret in live.iter().copied().chain([token.as_str(), key.as_str()]) {
            let text = format!("The key is {secret} and this follows. ");
            for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                for second in [at + 1, at + 7, text.len()] {
                    let second = second.min(text.len());
                    if !text.is_char_boundary(second) {
                        continue;
                    }
                    let pieces = [&text[..at], &text[at..second], &text[second..]];
                    for ended in [false, true] {
                        let seen = seen(&redactor, &pieces, false, ended);
                        assert!(seen.contains("[redacted]"), "{seen}");
                        let window: Vec<char> = secret.chars().collect();
                        for part in window.windows(9) {
                            let part: String = part.iter().collect();
                            let known = ["PRIVATE KEY", "BEGIN PRIVATE KEY"]
                                .iter()
                                .any(|word| word.contains(&part));
                            assert!(
                                known || !seen.contains(&part),
                                "{part:?} of {secret:?} cut at {at}: {seen}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_reply_that_begins_anew_is_said_to() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let live = Live::to(move |delta| into.lock().unwrap().push(format!("{delta:?}")));
        let redactor = Redactor::default();
        let mut screen = Screen::new(&live, &redactor, false);
        screen.restart();
        screen.update("so I ", "");
        screen.restart();
        screen.update("", "yes ");
        screen.end();
        assert_eq!(
            *seen.lock().unwrap(),
            ["Reasoning(\"so I \")", "Restarted", "Text(\"yes \")"]
        );
    }
}
