//! Makes a conversation shorter that is about to outgrow the model's window, or has: first bulky
//! old output and reasoning go, then the oldest turns become a summary, at last all bulky output
//! goes. Called by `turn`. Never touches the stored log: what is left out is an entry of its own.

use tokio::time::Instant;

use super::history::{History, Shown, slimmed};
use super::progress::Progress;
use super::turn::millis;
use super::{leave, summary};
use crate::agent::SolveError;
use crate::conversation::{Entry, Summariser};
use crate::event::RunEvent;
use crate::model::{ChatReply, ChatRequest, ModelError, Purpose, Role};
use crate::phrase::model;
use crate::text;

/// Share of the room at which a conversation is made shorter before the model is asked.
const FULL: f64 = 0.8;

/// Share that it fills afterwards if it can, so that it is not made shorter again soon: each time
/// costs the provider's cache of the conversation, and often a call.
const ROOMY: f64 = 0.6;

/// After the model refused a conversation, the next one has at most this share of its length,
/// whatever we believe of the window.
const AFTER_REFUSAL: f64 = 0.7;

/// Most messages that are shown. Some servers have limits of their own, and each message costs us.
const MAX_SHOWN: usize = 600;

/// As many outputs at the end stay whole as long as possible: the model is working with them.
const KEPT_OUTPUTS: usize = 4;

/// Where even they do not fit together, the last of them stay.
const LAST_OUTPUTS: [usize; 3] = [2, 1, 0];

/// As many turns at the end are never summarised.
const KEPT_TURNS: usize = 2;

/// Spans with fewer tokens are not worth a summary.
const MIN_SPAN_TOKENS: u64 = 1_500;

/// Most characters of a refusal's words.
const MAX_WHY_CHARS: usize = 1_000;

/// The reply takes at most this share of the window for granted.
const OUTPUT_SHARE: u64 = 4;

impl Progress<'_> {
    /// Makes the conversation shorter if it fills its room.
    pub(super) async fn make_room(&mut self) -> Result<(), SolveError> {
        let room = self.room();
        let is_full = self.history.tokens() > share(room, FULL) || self.history.rest().len() > MAX_SHOWN;
        if is_full {
            self.shorten(share(room, ROOMY), share(room, FULL)).await?;
        }
        Ok(())
    }

    /// Makes the conversation shorter that the model has refused. False: there is nothing left that
    /// could go.
    pub(super) async fn shorten_after(&mut self, why: &str) -> Result<bool, SolveError> {
        let refused = self.history.tokens();
        let redactor = self.task.recorder.redactor();
        let why = redactor.redact(&text::cap_chars(why, MAX_WHY_CHARS));
        self.note(Entry::Refused { why: why.clone() });
        let profile = self.task.model.profile();
        let known = self.window.unwrap_or(profile.context_window);
        self.window = Some(window_named(&why, refused).unwrap_or(refused).min(known));
        let target = share(self.room(), ROOMY).min(share(refused, AFTER_REFUSAL));
        self.shorten(target, share(self.room(), FULL)).await?;
        Ok(self.history.tokens() < refused)
    }

    /// Tokens that a request may have.
    fn room(&self) -> u64 {
        let profile = self.task.model.profile();
        let window = self.window.unwrap_or(profile.context_window);
        window - u64::from(profile.max_output_tokens).min(window / OUTPUT_SHARE)
    }

    /// Goes down to `target` tokens by what costs least. Output that the model is working with
    /// goes only if more than `most` would be left.
    async fn shorten(&mut self, target: u64, most: u64) -> Result<(), SolveError> {
        let (tokens, shown, length) = (self.history.tokens(), self.history.rest().len(), self.history.length());
        let old = outputs_but_the_last(&self.history, KEPT_OUTPUTS);
        let left = tokens.saturating_sub(self.history.by_servers_measure(won_by_shedding(&self.history, old)));
        let mut beside = None;
        if (left > target || shown > MAX_SHOWN)
            && let Some(to) = end_of_span(&self.history, target / 2)
        {
            beside = self.summarise(to).await?;
        }
        self.shed(old, target);
        for kept in LAST_OUTPUTS {
            self.shed(outputs_but_the_last(&self.history, kept), most);
        }
        if self.history.length() == length {
            return Ok(());
        }
        let now = self.history.tokens();
        let event = RunEvent::Shortened {
            text: format!(
                "The conversation was made shorter for the model: about {tokens} tokens before, {now} now, {} of {shown} messages shown",
                self.history.rest().len()
            ),
            model: beside.as_ref().map(|reply| reply.model.clone()).unwrap_or_default(),
            usage: beside.as_ref().map(|reply| reply.usage),
            cost_usd: beside.as_ref().and_then(|reply| reply.cost_usd),
        };
        self.task.recorder.record(event).await?;
        self.store().await
    }

    /// Lets bulky output and reasoning before a position go, unless all fits into `tokens`.
    fn shed(&mut self, before: u64, tokens: u64) {
        if self.history.tokens() > tokens && won_by_shedding(&self.history, before) > 0 {
            self.note(Entry::Shed { before });
        }
    }

    /// Shows everything before a position as a summary: the model's, and if it gives none, a list
    /// of what was done. Returns the reply that was paid for.
    async fn summarise(&mut self, to: u64) -> Result<Option<ChatReply>, SolveError> {
        let rest = self.history.rest();
        let span: Vec<Shown> = rest.iter().filter(|shown| shown.at < to).cloned().collect();
        let Some(from) = span.first().map(|shown| shown.at) else {
            return Ok(None);
        };
        let before = self.history.summary().map(str::to_owned);
        let asked_at = Instant::now();
        let reply = self.ask_for_summary(before.as_deref(), &span).await?;
        if let Some(reply) = &reply {
            self.meter.charge_beside(reply);
        }
        // A reply without words, or one that calls tools, is no summary; it was paid for all the same.
        let words = reply
            .as_ref()
            .filter(|reply| reply.tool_calls.is_empty() && !reply.content.trim().is_empty());
        let (text, by) = match words {
            Some(reply) => {
                let by = Summariser {
                    model: self.task.model.name().to_owned(),
                    usage: reply.usage,
                    cost_usd: reply.cost_usd,
                    took_ms: millis(asked_at),
                };
                (reply.content.clone(), Some(by))
            }
            None => (summary::digest(before.as_deref(), &span), None),
        };
        let text = self.task.recorder.redactor().redact(&text);
        self.note(Entry::Summarised {
            from,
            to,
            summary: summary::capped(&text, &span),
            by,
        });
        Ok(reply)
    }

    async fn ask_for_summary(&mut self, before: Option<&str>, span: &[Shown]) -> Result<Option<ChatReply>, SolveError> {
        let max_bytes = usize::try_from(self.room() / 2).unwrap_or(usize::MAX);
        let [rules, part] = summary::request(before, span, self.task.fence, max_bytes);
        let request = ChatRequest {
            agent: self.task.name.to_owned(),
            purpose: Purpose::Summary,
            max_output_tokens: summary::MAX_TOKENS.min(self.task.model.profile().max_output_tokens),
            repo: Some(self.task.brief.repo.clone()),
            turn: self.history.replies(),
            ..ChatRequest::new([rules, part])
        };
        let job_cap = self.task.budget.max_cost_usd;
        let refused = leave::beside(self.task, request.tokens(), request.max_output_tokens, job_cap).await?;
        if refused.is_some() {
            // The next turn is refused as well, and says why.
            return Ok(None);
        }
        let failed = match self.task.model.attempt(&request, self.stop).await {
            Ok(reply) => return Ok(Some(reply)),
            Err(failed) => failed,
        };
        self.meter.charge_lost(&failed);
        leave::lost(self.task, self.meter.turns + 1, &failed).await?;
        match failed.error {
            ModelError::Cancelled => Ok(None),
            error => {
                let why = text::cap_chars(&error.to_string(), 300);
                let text = model::no_summary(self.task.setting.language, &why);
                self.task.recorder.record(RunEvent::Noted { text }).await?;
                Ok(None)
            }
        }
    }
}

fn share(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}

/// The position behind all outputs but the last few.
fn outputs_but_the_last(history: &History, kept: usize) -> u64 {
    let outputs = history
        .rest()
        .iter()
        .rev()
        .filter(|shown| shown.message.role == Role::Tool);
    outputs.take(kept).last().map_or(0, |first| first.at)
}

/// Tokens by our own count that go when bulky output and reasoning before a position go.
fn won_by_shedding(history: &History, before: u64) -> u64 {
    let old = history.rest().iter().filter(|shown| shown.at < before);
    let won = old.filter_map(|shown| slimmed(&shown.message).map(|slim| shown.tokens.saturating_sub(slim.tokens())));
    won.sum()
}

/// The position of the first turn that stays when the tail may have so many tokens: it begins with
/// a reply, and a few turns stay whatever they have. `None`: what is before it is not worth it.
fn end_of_span(history: &History, tail_tokens: u64) -> Option<u64> {
    let rest = history.rest();
    let (mut tokens, mut turns, mut first) = (0, 0, None);
    for (at, shown) in rest.iter().enumerate().rev() {
        tokens += shown.tokens;
        let is_enough = history.by_servers_measure(tokens) > tail_tokens || rest.len() - at > MAX_SHOWN / 2;
        if turns >= KEPT_TURNS && is_enough {
            break;
        }
        if shown.message.role == Role::Assistant {
            turns += 1;
            first = Some(at);
        }
    }
    let span = &rest[..first?];
    let worth: u64 = span.iter().map(|shown| shown.tokens).sum();
    let is_worth_it = worth >= MIN_SPAN_TOKENS || span.len() > MAX_SHOWN / 4;
    (!span.is_empty() && is_worth_it).then(|| rest[span.len()].at)
}

/// The window that a server names in its refusal. It names the length of the conversation too,
/// which is the larger number; a single number may be either.
fn window_named(why: &str, refused: u64) -> Option<u64> {
    let joined = why.replace([',', '_'], "");
    let mut named: Vec<u64> = joined
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        // Smaller ones are codes, larger ones something else.
        .filter(|number| (2_048..=refused.saturating_mul(4)).contains(number))
        .collect();
    named.sort_unstable();
    named.dedup();
    match named.as_slice() {
        [] => None,
        [only] => Some(*only),
        [.., window, _] => Some(*window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;

    #[track_caller]
    fn check(why: &str, refused: u64, expected: Option<u64>) {
        assert_eq!(window_named(why, refused), expected, "{why}");
    }

    #[test]
    fn c1_the_real_window_is_read_from_the_refusal() {
        check(
            "request (138229 tokens) exceeds the available context size (133376 tokens), try increasing it",
            150_000,
            Some(133_376),
        );
        check(
            "prompt is too long: 210000 tokens > 200000 maximum",
            190_000,
            Some(200_000),
        );
        check("This model's maximum context length is 8192 tokens", 9_000, Some(8_192));
        check(
            "maximum context length is 8,192 tokens. However, your messages resulted in 9,100 tokens (HTTP 400)",
            9_000,
            Some(8_192),
        );
        check("context window exceeds limit (2013)", 9_000, None);
        check("Please reduce the length of the messages", 9_000, None);
        check("error 1700000000: too long", 9_000, None);
    }

    fn history(turns: usize, bytes: usize) -> History {
        let mut history = History::new("fence", &[]);
        history.take(&Entry::said(Message::system("s")));
        history.take(&Entry::said(Message::user("brief")));
        for _ in 0..turns {
            let call = crate::model::ToolCall {
                id: "a".to_owned(),
                name: "grep".to_owned(),
                arguments: "{}".to_owned(),
            };
            history.take(&Entry::of_old(Message {
                role: Role::Assistant,
                tool_calls: vec![call],
                ..Message::user("")
            }));
            history.take(&Entry::said(Message::tool("a", "x".repeat(bytes))));
        }
        history
    }

    #[test]
    fn a_span_ends_before_a_reply_and_leaves_a_tail() {
        // Each turn has about a thousand tokens.
        let ten = history(10, 3_000);
        assert_eq!(end_of_span(&ten, 4_500), Some(2 + 2 * 6));
        assert_eq!(end_of_span(&ten, 0), Some(2 + 2 * 8), "two turns stay");
        assert_eq!(end_of_span(&ten, 100_000), None, "all of it may stay");
        assert_eq!(end_of_span(&history(3, 30), 0), None, "it would not be worth it");
        assert_eq!(end_of_span(&history(0, 30), 0), None);
        let many = history(500, 3);
        let end = end_of_span(&many, u64::MAX).unwrap();
        assert!(many.length() - end <= 300, "{end}");
    }

    #[test]
    fn shedding_spares_the_last_outputs() {
        let six = history(6, 3_000);
        let before = outputs_but_the_last(&six, KEPT_OUTPUTS);
        let won = won_by_shedding(&six, before);
        assert!((1_900..2_000).contains(&won), "{won}");
        assert_eq!(
            won_by_shedding(&history(4, 3_000), outputs_but_the_last(&history(4, 3_000), 4)),
            0
        );
    }
}
