//! Notices that the agent does not get on: the same call again and again, calls that are wrong,
//! replies without a call. Called by `turn`. Never looks at what a call means.

use serde_json::Value;

use crate::model::ToolCall;

/// As many equal calls in a row end the run.
const MAX_EQUAL_CALLS: u32 = 3;

/// As many turns in a row without one right call end the run: three chances to mend it.
const MAX_BAD_TURNS: u32 = 4;

/// As many replies in a row without any call end the run: it was asked twice to make one.
const MAX_SILENT_TURNS: u32 = 3;

/// What has been seen lately.
#[derive(Debug, Default)]
pub(super) struct Watch {
    last_call: Option<(String, Value)>,
    equal_calls: u32,
    bad_turns: u32,
    silent_turns: u32,
}

/// How often a call was made in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is new.
    No,
    /// It was made just before.
    Again,
    /// Once more would change nothing.
    TooOften,
}

impl Watch {
    /// Sees a call before it is run.
    pub(super) fn see_call(&mut self, call: &ToolCall) -> Repeat {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::String(call.arguments.clone()));
        let this = Some((call.name.clone(), arguments));
        if self.last_call == this {
            self.equal_calls += 1;
        } else {
            self.last_call = this;
            self.equal_calls = 1;
        }
        match self.equal_calls {
            0 | 1 => Repeat::No,
            times if times < MAX_EQUAL_CALLS => Repeat::Again,
            _ => Repeat::TooOften,
        }
    }

    /// Sees the end of a turn with calls. Words: the run should end.
    pub(super) fn see_turn(&mut self, right_calls: usize) -> Option<String> {
        self.silent_turns = 0;
        self.bad_turns = if right_calls == 0 { self.bad_turns + 1 } else { 0 };
        (self.bad_turns >= MAX_BAD_TURNS)
            .then(|| format!("the model made only calls that cannot be run, {MAX_BAD_TURNS} times in a row"))
    }

    /// Sees a reply without a call. Words: the run should end.
    pub(super) fn see_silence(&mut self) -> Option<String> {
        self.silent_turns += 1;
        (self.silent_turns >= MAX_SILENT_TURNS).then(|| {
            format!(
                "the model answered {MAX_SILENT_TURNS} times in a row without calling a tool; if it never does, the \
                 server or a proxy before it may not support tool calls"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall {
            id: "1".to_owned(),
            name: "grep".to_owned(),
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn m04_equal_calls_in_a_row_are_noticed_however_they_are_written() {
        let mut watch = Watch::default();
        let seen: Vec<Repeat> = [
            "{}",
            "{\"a\":1,\"b\":2}",
            "{ \"b\": 2, \"a\": 1 }",
            "{}",
            "{bad",
            "{bad",
            "{bad",
        ]
        .map(|arguments| watch.see_call(&call(arguments)))
        .to_vec();
        use Repeat::{Again, No, TooOften};
        assert_eq!(seen, [No, No, Again, No, No, Again, TooOften]);
    }

    #[test]
    fn m01_wrong_calls_have_three_chances() {
        let mut watch = Watch::default();
        for right in [0, 0, 0, 1, 0, 0, 0] {
            assert_eq!(watch.see_turn(right), None);
        }
        assert!(watch.see_turn(0).is_some());
    }

    #[test]
    fn l40_silence_is_asked_about_twice() {
        let mut watch = Watch::default();
        assert_eq!((watch.see_silence(), watch.see_silence()), (None, None));
        assert_eq!(watch.see_turn(1), None);
        assert_eq!((watch.see_silence(), watch.see_silence()), (None, None));
        assert!(watch.see_silence().is_some_and(|words| words.contains("tool calls")));
    }
}
