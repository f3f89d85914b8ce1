//! The person at the terminal, who is asked while a run goes on. Called by the agent through
//! `People`. Never asks without a terminal to ask at, and never takes silence for consent.

use std::os::fd::AsFd;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio_util::sync::CancellationToken;

use super::super::screen::paint::{clean, wrap};
use super::super::screen::{self, Screen};
use super::args::{Args, Asking, Presence};
use crate::agent::{Answer, People, Question, Unattended};
use crate::app::trust::Decision;
use crate::text;

/// Longest answer, in bytes; a terminal gives lines of up to 4 KiB.
const MAX_ANSWER: usize = 16 * 1024;
/// Most bytes of a call that are shown whole; a person reads no more.
const MAX_CALL: usize = 4 * 1024;
/// How soon a stop is noticed while somebody thinks about an answer.
const LOOK_UP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Who is there to be asked.
pub(super) fn find(args: &Args, screen: Option<&Screen>, stop: &CancellationToken) -> Arc<dyn People> {
    match args.asking() {
        Asking::AlwaysYes => Arc::new(AlwaysYes),
        Asking::AtTerminal if args.presence() == Presence::Attended => Arc::new(AtTerminal {
            screen: screen.cloned(),
            stop: stop.clone(),
        }),
        Asking::AtTerminal | Asking::Nobody => Arc::new(Unattended),
    }
}

/// Asks once, before anything else, whether a checkout may instruct the agent. `None`: not now.
pub(super) async fn trusts(checkout: String, parts: String, stop: &CancellationToken) -> Option<Decision> {
    let stop = stop.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        to_terminal(&format!(
            "\n? {} has words for the agent ({parts}). May they be obeyed\n  [n]ever, [o]nce, [a]lways, or not now > ",
            clean(&checkout)
        ));
        let line = read_line(std::io::stdin(), &stop);
        match line.unwrap_or_default().trim().to_lowercase().as_str() {
            "n" | "never" => Some(Decision::Never),
            "o" | "once" => Some(Decision::Once),
            "a" | "always" => Some(Decision::Always),
            _ => None,
        }
    });
    asked.await.unwrap_or(None)
}

/// Whoever began the run has said yes to everything beforehand. A question is no request for
/// permission: nobody is there to answer it.
struct AlwaysYes;

#[async_trait]
impl People for AlwaysYes {
    async fn ask(&self, question: &Question) -> Answer {
        match question {
            Question::Permit { .. } => Answer::YesForRun,
            Question::Confirm { .. } | Question::Plan(_) => Answer::Yes,
            Question::Ask { .. } => Answer::Nobody,
        }
    }
}

struct AtTerminal {
    screen: Option<Screen>,
    stop: CancellationToken,
}

#[async_trait]
impl People for AtTerminal {
    async fn ask(&self, question: &Question) -> Answer {
        let (screen, stop, question) = (self.screen.clone(), self.stop.clone(), question.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let aside = screen.as_ref().map(Screen::step_aside);
            // What was typed before the question is no answer to it.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            let answer = talk(&question, || {
                let line = read_line(std::io::stdin(), &stop);
                if line.is_none() {
                    to_terminal("\n");
                }
                line
            });
            drop(aside);
            answer
        });
        asked.await.unwrap_or(Answer::Nobody)
    }
}

/// Shows a question and reads its answer; no line is no answer.
fn talk(question: &Question, read: impl Fn() -> Option<String>) -> Answer {
    let show = |text: &str| {
        let width = screen::terminal_width().unwrap_or(80).max(20) - 3;
        for row in clean(text).lines().flat_map(|line| wrap(line, width)) {
            to_terminal(&format!("  {row}\n"));
        }
    };
    match question {
        Question::Ask { questions } => {
            to_terminal("\n? The model asks (an empty line leaves it to decide by itself)\n");
            let mut answers = Vec::new();
            for (at, question) in questions.iter().enumerate() {
                show(&format!("{}. {question}", at + 1));
                to_terminal("  > ");
                match read() {
                    Some(answer) => answers.push(answer.trim().to_owned()),
                    None => return Answer::Nobody,
                }
            }
            answered(&answers)
        }
        Question::Confirm { action, consequence } => {
            to_terminal("\n? The model wants to go on with this\n");
            show(action);
            if !consequence.is_empty() {
                show(&format!("What it means: {consequence}"));
            }
            to_terminal("  [y]es, [n]o, or what it shall do instead > ");
            confirmed(read())
        }
        Question::Plan(plan) => {
            to_terminal("\n? The plan\n");
            show(&plan.in_words());
            to_terminal("  [y]es, [n]o, or what shall be different > ");
            confirmed(read())
        }
        Question::Permit { key, call } => {
            to_terminal("\n? May this run\n");
            show(&text::cap_middle(call, MAX_CALL));
            show(&format!("(rule: {key})"));
            to_terminal("  [y]es, [n]o, yes for this [r]un, yes [a]lways in this repository > ");
            permitted(read())
        }
    }
}

fn to_terminal(text: &str) {
    use std::io::Write as _;
    let mut errors = std::io::stderr().lock();
    drop(errors.write_all(text.as_bytes()).and_then(|()| errors.flush()));
}

fn answered(answers: &[String]) -> Answer {
    match answers {
        all if all.iter().all(String::is_empty) => Answer::Nobody,
        [one] => Answer::Said(one.clone()),
        several => {
            let numbered = several.iter().enumerate().map(|(at, answer)| match answer.as_str() {
                "" => format!("{}. (no answer: decide yourself)", at + 1),
                answer => format!("{}. {answer}", at + 1),
            });
            Answer::Said(numbered.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn confirmed(line: Option<String>) -> Answer {
    let Some(line) = line else { return Answer::Nobody };
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "" | "n" | "no" => Answer::No,
        _ => Answer::Said(line.trim().to_owned()),
    }
}

/// Only the letters offered are consent; any other words are a refusal with its reason.
fn permitted(line: Option<String>) -> Answer {
    let Some(line) = line else { return Answer::Nobody };
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "r" | "run" => Answer::YesForRun,
        "a" | "always" => Answer::YesForRepository,
        "" | "n" | "no" => Answer::No,
        _ => Answer::Said(line.trim().to_owned()),
    }
}

/// A line that somebody types; nothing at the end of the input or when the run is stopped. The
/// terminal keeps its modes, so that it edits the line and turns Ctrl-C into a signal.
fn read_line(input: impl AsFd, stop: &CancellationToken) -> Option<String> {
    let mut line = Vec::new();
    while !stop.is_cancelled() {
        let mut waiting = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut waiting, Some(&LOOK_UP)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut part = [0; 4096];
        let read = rustix::io::read(&input, &mut part).ok()?;
        line.extend_from_slice(&part[..read]);
        if read == 0 && line.is_empty() {
            return None;
        }
        if read == 0 || line.ends_with(b"\n") || line.len() > MAX_ANSWER {
            line.truncate(MAX_ANSWER);
            return Some(String::from_utf8_lossy(&line).into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_offered_is_consent() {
        let line = |text: &str| Some(text.to_owned());
        assert_eq!(permitted(line("y\n")), Answer::Yes);
        assert_eq!(permitted(line(" R ")), Answer::YesForRun);
        assert_eq!(permitted(line("always")), Answer::YesForRepository);
        for no in ["\n", "n", "NO"] {
            assert_eq!(permitted(line(no)), Answer::No);
            assert_eq!(confirmed(line(no)), Answer::No);
        }
        assert_eq!(permitted(line("yes please")), Answer::Said("yes please".into()));
        assert_eq!(permitted(None), Answer::Nobody);
        assert_eq!(
            confirmed(line("use the other one\n")),
            Answer::Said("use the other one".into())
        );
        assert_eq!(confirmed(line("yes")), Answer::Yes);
        assert_eq!(confirmed(None), Answer::Nobody);
    }

    #[test]
    fn answers_have_the_numbers_of_their_questions() {
        let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
        assert_eq!(answered(&texts(&["the old one"])), Answer::Said("the old one".into()));
        assert_eq!(answered(&texts(&["", ""])), Answer::Nobody);
        assert_eq!(
            answered(&texts(&["a", "", "c"])),
            Answer::Said("1. a\n2. (no answer: decide yourself)\n3. c".into())
        );
    }

    #[test]
    fn a_line_is_read_until_its_end_or_a_stop() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let stop = CancellationToken::new();
        rustix::io::write(&writer, b"two words\n").unwrap();
        assert_eq!(read_line(&reader, &stop).as_deref(), Some("two words\n"));
        stop.cancel();
        assert_eq!(read_line(&reader, &stop), None, "stopped while nobody types");
        drop(writer);
        assert_eq!(
            read_line(&reader, &CancellationToken::new()),
            None,
            "the end of the input"
        );
    }

    #[tokio::test]
    async fn yes_to_everything_answers_no_questions() {
        let permit = Question::Permit {
            key: "web_fetch:example.org".into(),
            call: "web_fetch {}".into(),
        };
        assert_eq!(AlwaysYes.ask(&permit).await, Answer::YesForRun);
        let ask = Question::Ask {
            questions: vec!["Which?".into()],
        };
        assert_eq!(AlwaysYes.ask(&ask).await, Answer::Nobody);
    }
}
