//! How long a reply may be: more after one that was cut, never more than the model allows or than
//! fits behind the conversation. Called by `turn`. Never lets a cut call pass for a whole one.

use serde_json::Value;

use crate::model::{ChatReply, FinishReason, Profile, ToolCall};

/// Our count of tokens errs to the dear side: with less room by that count, there still is some.
const LEAST_OUTPUT: u32 = 1_024;

/// The output limit of the next request.
#[derive(Debug, Default)]
pub(super) struct OutputCap {
    /// What the last request asked for.
    asked: u32,
    /// What the next one should ask for at least, after a reply that was cut.
    wanted: u32,
    /// Whether the last reply was cut.
    was_cut: bool,
}

impl OutputCap {
    /// Most tokens to ask for behind a conversation of so many.
    pub(super) fn ask_for(&mut self, profile: &Profile, conversation_tokens: u64) -> u32 {
        let wanted = profile.max_output_tokens.max(self.wanted).min(profile.output_ceiling);
        let room = profile.context_window.saturating_sub(conversation_tokens);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        self.asked = wanted.min(room.max(LEAST_OUTPUT.min(wanted)));
        self.asked
    }

    /// Sees how a reply ended. A limit that was too low once is not gone back to: it costs nothing
    /// as long as it is not used.
    pub(super) fn see(&mut self, reply: &ChatReply) {
        self.was_cut = reply.finish == FinishReason::Length;
        if self.was_cut {
            self.wanted = self.wanted.max(self.asked.saturating_mul(2));
        }
    }

    /// What the model is told of a call that its limit cut. `None`: the call is whole.
    pub(super) fn cut(&self, call: &ToolCall) -> Option<String> {
        let is_whole = matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_)));
        (self.was_cut && !is_whole).then(|| {
            format!(
                "not run: the output limit of {} tokens cut this call of `{}` off after {} bytes of its arguments. Make \
                 it again as a whole; split what is very long into several smaller calls",
                self.asked,
                call.name,
                call.arguments.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Usage;
    use crate::model::EditFormat;

    fn profile(context_window: u64) -> Profile {
        Profile {
            context_window,
            max_output_tokens: 8_192,
            output_ceiling: 20_000,
            edit_format: EditFormat::Replace,
        }
    }

    fn reply(finish: FinishReason) -> ChatReply {
        ChatReply {
            model: String::new(),
            notes: Vec::new(),
            content: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish,
            usage: Usage::default(),
            cost_usd: None,
        }
    }

    #[test]
    fn a_cut_reply_doubles_the_limit_up_to_the_ceiling() {
        let mut cap = OutputCap::default();
        let mut asked = Vec::new();
        for finish in [
            FinishReason::Stop,
            FinishReason::Length,
            FinishReason::Length,
            FinishReason::ToolCalls,
            FinishReason::Stop,
        ] {
            asked.push(cap.ask_for(&profile(128_000), 10));
            cap.see(&reply(finish));
        }
        assert_eq!(asked, [8_192, 8_192, 16_384, 20_000, 20_000]);
    }

    #[test]
    fn no_more_is_asked_for_than_fits() {
        let mut cap = OutputCap::default();
        assert_eq!(cap.ask_for(&profile(10_000), 6_000), 4_000);
        assert_eq!(cap.ask_for(&profile(10_000), 20_000), LEAST_OUTPUT);
        let tiny = Profile {
            max_output_tokens: 100,
            ..profile(10_000)
        };
        assert_eq!(cap.ask_for(&tiny, 20_000), 100);
    }

    #[test]
    fn a_cut_call_is_told_apart_from_a_wrong_one() {
        let call = |arguments: &str| ToolCall {
            id: "1".to_owned(),
            name: "write_file".to_owned(),
            arguments: arguments.to_owned(),
        };
        let mut cap = OutputCap::default();
        cap.ask_for(&profile(128_000), 10);
        cap.see(&reply(FinishReason::ToolCalls));
        assert_eq!(cap.cut(&call("{\"a\"")), None, "L10: this one is wrong, not cut");
        cap.see(&reply(FinishReason::Length));
        assert_eq!(cap.cut(&call("{\"a\":1}")), None);
        let words = cap.cut(&call("{\"a\"")).unwrap();
        assert!(
            words.contains("8192 tokens") && words.contains("`write_file`") && words.contains("4 bytes"),
            "{words}"
        );
    }
}
