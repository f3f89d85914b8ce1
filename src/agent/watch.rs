//! Notices that the agent does not get on: the same calls again and again, edits that fail, calls
//! that are wrong, replies without a call, looking without doing. Each time it says why. Called by
//! `discipline`. Never looks at what a tool answers, only at whether it worked.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::act::Act;
use crate::phrase::stuck::Stuck;

/// As many equal calls in a row end the run; so do as many equal failing calls between two changes.
const MAX_EQUAL_CALLS: u32 = 3;

/// As many rounds of the same few calls in turn end the run; one round less is told.
const MAX_ROUNDS: usize = 3;

/// Longest round of calls that is noticed.
const MAX_ROUND: usize = 3;

/// As many failed edits of one file in a row are told; twice as many end the run.
const MANY_FAILED_EDITS: u32 = 3;

/// As many turns in a row without one right call end the run: three chances to mend it.
const MAX_BAD_TURNS: u32 = 4;

/// As many replies in a row without any call end the run: it was asked twice to make one.
const MAX_SILENT_TURNS: u32 = 3;

/// Tools that are called again because something outside changes meanwhile.
const WAITING: [&str; 1] = ["command_output"];

type Call = (String, Value);

/// What has been seen lately.
#[derive(Debug)]
pub(super) struct Watch {
    max_explore_turns: u32,
    recent: VecDeque<Call>,
    /// Equal calls that failed since the last change.
    failed: HashMap<String, u32>,
    /// Failed edits by file since it was last changed.
    failed_edits: HashMap<String, u32>,
    is_acting: bool,
    idle_turns: u32,
    bad_turns: u32,
    silent_turns: u32,
    stuck: Option<Stuck>,
}

/// Whether a call was made before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is new, or something has changed meanwhile.
    No,
    /// It may run, with these words for the model behind its output.
    Again(String),
    /// Once more would change nothing; why.
    TooOften(Stuck),
}

/// How the run goes on after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// As it was.
    GoOn,
    /// After these words to the model, which has only looked around until now.
    Say(Nudge),
    /// Not at all; why.
    Stop(Stuck),
}

/// A model that does nothing is told to get on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nudge {
    /// For the model.
    pub(super) words: String,
    /// Turns without an edit or a run.
    pub(super) turns: u32,
    /// As many end the run.
    pub(super) ends_after: u32,
}

impl Watch {
    /// Begins to watch.
    pub(super) fn new(max_explore_turns: u32) -> Self {
        Self {
            max_explore_turns: max_explore_turns.max(1),
            recent: VecDeque::new(),
            failed: HashMap::new(),
            failed_edits: HashMap::new(),
            is_acting: false,
            idle_turns: 0,
            bad_turns: 0,
            silent_turns: 0,
            stuck: None,
        }
    }

    /// Sees a call before it is run.
    pub(super) fn see_call(&mut self, tool: &str, arguments: &Value) -> Repeat {
        if WAITING.contains(&tool) {
            return Repeat::No;
        }
        self.recent.push_back((tool.to_owned(), arguments.clone()));
        if self.recent.len() > MAX_ROUND * MAX_ROUNDS {
            self.recent.pop_front();
        }
        if self
            .failed
            .get(&key(tool, arguments))
            .is_some_and(|times| *times + 1 >= MAX_EQUAL_CALLS)
        {
            return Repeat::TooOften(Stuck::FailingCall {
                tool: tool.to_owned(),
                times: MAX_EQUAL_CALLS,
            });
        }
        match self.equal_in_a_row() {
            0 | 1 => self.see_rounds(),
            times if times < MAX_EQUAL_CALLS => Repeat::Again(AGAIN.to_owned()),
            times => Repeat::TooOften(Stuck::SameCall {
                tool: tool.to_owned(),
                times,
            }),
        }
    }

    fn equal_in_a_row(&self) -> u32 {
        let last = self.recent.back();
        let equal = self.recent.iter().rev().take_while(|call| Some(*call) == last);
        u32::try_from(equal.count()).unwrap_or(u32::MAX)
    }

    /// The same two or three calls in turn.
    fn see_rounds(&self) -> Repeat {
        let calls: Vec<&Call> = self.recent.iter().rev().collect();
        let names = |round: usize| calls[..round].iter().rev().map(|call| call.0.clone());
        for round in 2..=MAX_ROUND {
            let rounds = calls
                .chunks_exact(round)
                .take_while(|chunk| *chunk == &calls[..round])
                .count();
            if rounds >= MAX_ROUNDS {
                return Repeat::TooOften(Stuck::Rounds {
                    tools: names(round).collect(),
                    times: MAX_ROUNDS,
                });
            }
            if rounds == MAX_ROUNDS - 1 {
                let named: Vec<String> = names(round).map(|tool| format!("`{tool}`")).collect();
                return Repeat::Again(format!(
                    "[You make the same calls of {} in turn. Nothing new comes of it: decide with what you know, or \
                     look somewhere else. Another round ends the run.]",
                    named.join(" and ")
                ));
            }
        }
        Repeat::No
    }

    /// Sees how a call went. Words: something for the model behind the output.
    pub(super) fn see_output(&mut self, tool: &str, arguments: &Value, act: &Act, worked: bool) -> Option<String> {
        if worked {
            self.is_acting |= act.edits || act.runs || WAITING.contains(&tool);
            self.failed.remove(&key(tool, arguments));
            if act.edits {
                self.failed.clear();
                self.failed_edits.retain(|path, _| !act.paths.contains(path));
            }
            return None;
        }
        let times = self.failed.entry(key(tool, arguments)).or_default();
        *times += 1;
        let is_second = *times == 2 && self.equal_in_a_row() == 1;
        let of_file = act.paths.first().filter(|_| act.edits);
        if let Some(hint) = of_file.and_then(|path| self.see_failed_edit(path)) {
            return Some(hint);
        }
        is_second.then(|| {
            "[The same call failed before, and nothing has changed since. A third time ends the run: use what its \
             message says.]"
                .to_owned()
        })
    }

    fn see_failed_edit(&mut self, path: &str) -> Option<String> {
        let times = self.failed_edits.entry(path.to_owned()).or_default();
        *times += 1;
        if *times >= MANY_FAILED_EDITS * 2 {
            self.stuck = Some(Stuck::FailedEdits {
                path: path.to_owned(),
                times: *times,
            });
        }
        (*times == MANY_FAILED_EDITS).then(|| {
            format!(
                "[{times} edits of {path} failed one after another. Read the lines concerned again and copy them \
                 exactly, with fewer lines at once; or replace the whole function or file.]"
            )
        })
    }

    /// Sees the end of a turn with calls.
    pub(super) fn see_turn(&mut self, right_calls: usize) -> Next {
        self.silent_turns = 0;
        self.bad_turns = if right_calls == 0 { self.bad_turns + 1 } else { 0 };
        if self.bad_turns >= MAX_BAD_TURNS {
            return Next::Stop(Stuck::WrongCalls { turns: MAX_BAD_TURNS });
        }
        if let Some(why) = self.stuck.take() {
            return Next::Stop(why);
        }
        self.idle_turns = if std::mem::take(&mut self.is_acting) {
            0
        } else {
            self.idle_turns + 1
        };
        let (turns, most) = (self.idle_turns, self.max_explore_turns);
        let ends_after = most.saturating_mul(2);
        let say = |words| {
            Next::Say(Nudge {
                words,
                turns,
                ends_after,
            })
        };
        if turns >= ends_after {
            return Next::Stop(Stuck::OnlyLooked { turns });
        }
        if turns == most {
            return say(format!(
                "You have looked around for {turns} turns without an edit or a run. Say in a sentence what the cause \
                 is, then make the change or a test that shows the problem. If nothing has to change, call `finish`."
            ));
        }
        if turns == most.saturating_add(most.div_ceil(2)) {
            return say(format!(
                "{turns} turns without an edit or a run; after {ends_after} the run ends. Take the likeliest place and \
                 change it, or call `finish` with what you found."
            ));
        }
        Next::GoOn
    }

    /// Sees a reply without a call. Why the run should end, if it should.
    pub(super) fn see_silence(&mut self) -> Option<Stuck> {
        self.silent_turns += 1;
        (self.silent_turns >= MAX_SILENT_TURNS).then_some(Stuck::NoCalls {
            replies: MAX_SILENT_TURNS,
        })
    }
}

/// What the model is told of a call that it made just before.
const AGAIN: &str = "[You made exactly this call just before. Doing it again gives nothing new: read its output, change \
                     the arguments or try something else. A third time ends the run.]";

/// The same for equal arguments, however they were written: objects are sorted by key.
fn key(tool: &str, arguments: &Value) -> String {
    format!("{tool} {arguments}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edit(path: &str) -> Act {
        Act::of("edit_file", &json!({ "path": path }))
    }

    #[test]
    fn m04_equal_calls_in_a_row_are_noticed_however_they_are_written() {
        let mut watch = Watch::new(15);
        let seen = [
            "{}",
            "{\"a\":1,\"b\":2}",
            "{ \"b\": 2, \"a\": 1 }",
            "{}",
            "[1]",
            "[1]",
            "[1]",
        ]
        .map(|arguments| watch.see_call("grep", &serde_json::from_str(arguments).unwrap()));
        let short: Vec<char> = seen
            .iter()
            .map(|seen| match seen {
                Repeat::No => '.',
                Repeat::Again(_) => 'a',
                Repeat::TooOften(_) => 'x',
            })
            .collect();
        assert_eq!(short, ['.', '.', 'a', '.', '.', 'a', 'x']);
    }

    /// `.` new, `a` told, `x` ended, for calls by name.
    #[track_caller]
    fn check_rounds(calls: &str, expected: &str) {
        let mut watch = Watch::new(15);
        let seen: String = calls
            .chars()
            .map(|name| match watch.see_call(&name.to_string(), &json!({})) {
                Repeat::No => '.',
                Repeat::Again(_) => 'a',
                Repeat::TooOften(_) => 'x',
            })
            .collect();
        assert_eq!(seen, expected, "{calls}");
    }

    #[test]
    fn m04_calls_in_turn_are_told_and_then_ended() {
        check_rounds("ABABA", "...aa");
        check_rounds("ABABAB", "...aax");
        check_rounds("ABCABCABC", ".....aaax");
        check_rounds("ABABCDE", "...a...");
        check_rounds("AABBAABB", ".a.a.a.a");
    }

    #[test]
    fn e26_the_same_failing_call_is_told_and_ended_even_with_others_between() {
        let mut watch = Watch::new(15);
        let call = json!({"path": "a", "old_text": "x"});
        let look = json!({"path": "a"});
        let read = Act::of("read_file", &look);
        let fail = |watch: &mut Watch, line: u32| {
            assert_eq!(watch.see_call("edit_file", &call), Repeat::No);
            let hint = watch.see_output("edit_file", &call, &edit("a"), false);
            let look = json!({"path": "a", "offset": line});
            watch.see_call("read_file", &look);
            watch.see_output("read_file", &look, &read, true);
            hint
        };
        assert_eq!(fail(&mut watch, 1), None);
        assert!(fail(&mut watch, 2).unwrap().contains("third time"));
        assert!(matches!(
            watch.see_call("edit_file", &call),
            Repeat::TooOften(Stuck::FailingCall { .. })
        ));
        // after a change the same call is a new one
        watch.see_call("edit_file", &json!({"path": "b"}));
        watch.see_output("edit_file", &json!({"path": "b"}), &edit("b"), true);
        assert_eq!(watch.see_call("edit_file", &call), Repeat::No);
    }

    #[test]
    fn edits_that_fail_on_one_file_are_told_and_end_the_run() {
        let mut watch = Watch::new(15);
        let mut fail = |at: u32| {
            let hint = watch.see_output("edit_file", &json!({"path": "a", "old_text": at}), &edit("a"), false);
            (hint.is_some(), watch.see_turn(1))
        };
        let seen: Vec<(bool, Next)> = (0..6).map(&mut fail).collect();
        assert_eq!(
            seen.iter().map(|seen| seen.0).collect::<Vec<_>>(),
            [false, false, true, false, false, false]
        );
        let six = Stuck::FailedEdits {
            path: "a".to_owned(),
            times: 6,
        };
        assert_eq!(seen[5].1, Next::Stop(six));
        assert_eq!(seen[4].1, Next::GoOn);
    }

    #[test]
    fn only_looking_is_told_twice_and_then_ended() {
        let mut watch = Watch::new(4);
        let seen: Vec<Next> = (0..8).map(|_| watch.see_turn(1)).collect();
        let short: String = seen
            .iter()
            .map(|next| match next {
                Next::GoOn => '.',
                Next::Say(_) => 's',
                Next::Stop(_) => 'x',
            })
            .collect();
        assert_eq!(short, "...s.s.x");
        let run = Act::of("run_command", &json!({"command": "make check"}));
        watch.see_output("run_command", &json!({}), &run, true);
        assert_eq!(watch.see_turn(1), Next::GoOn);
        assert_eq!(watch.idle_turns, 0);
    }

    #[test]
    fn m01_wrong_calls_have_three_chances() {
        let mut watch = Watch::new(100);
        for right in [0, 0, 0, 1, 0, 0, 0] {
            assert_eq!(watch.see_turn(right), Next::GoOn);
        }
        assert!(matches!(watch.see_turn(0), Next::Stop(_)));
    }

    #[test]
    fn l40_silence_is_asked_about_twice() {
        let mut watch = Watch::new(15);
        assert_eq!((watch.see_silence(), watch.see_silence()), (None, None));
        assert_eq!(watch.see_turn(1), Next::GoOn);
        assert_eq!((watch.see_silence(), watch.see_silence()), (None, None));
        assert_eq!(watch.see_silence(), Some(Stuck::NoCalls { replies: 3 }));
    }

    #[test]
    fn waiting_for_a_command_is_no_repetition() {
        let mut watch = Watch::new(15);
        for _ in 0..10 {
            assert_eq!(watch.see_call("command_output", &json!({"id": 1})), Repeat::No);
        }
    }
}
