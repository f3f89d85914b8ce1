//! What a server turned out not to understand: learnt from its own refusals, remembered for as
//! long as the program runs. Called by `client` and `wire`. Never learns from anything but a
//! refusal that names the field, so each is learnt at most once.

use std::sync::atomic::{AtomicU8, Ordering};

/// A deviation from the usual chat completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Quirk {
    /// The output limit is called `max_completion_tokens`.
    CompletionTokens = 1,
    /// `stream_options` is refused.
    NoStreamOptions = 2,
    /// Streaming is refused.
    NoStream = 4,
    /// Reasoning must be sent back in `reasoning_content`.
    ReplayReasoning = 8,
}

/// The deviations of one server.
#[derive(Debug, Default)]
pub(super) struct Quirks(AtomicU8);

impl Quirks {
    /// Whether the server has this one.
    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.0.load(Ordering::Relaxed) & quirk as u8 != 0
    }

    /// Learns from a refusal. `true`: something new was learnt, so asking again makes sense.
    pub(super) fn learn(&self, refusal: &str) -> bool {
        match Self::meant(refusal) {
            Some(quirk) => self.0.fetch_or(quirk as u8, Ordering::Relaxed) & quirk as u8 == 0,
            None => false,
        }
    }

    fn meant(refusal: &str) -> Option<Quirk> {
        let refusal = refusal.to_lowercase();
        let refuses = [
            "not support",
            "unsupported",
            "unknown",
            "unrecognized",
            "not permitted",
            "unexpected",
            "extra",
        ]
        .iter()
        .any(|word| refusal.contains(word));
        if refusal.contains("max_completion_tokens") {
            Some(Quirk::CompletionTokens)
        } else if refusal.contains("reasoning_content") {
            Some(Quirk::ReplayReasoning)
        } else if refusal.contains("stream_options") {
            Some(Quirk::NoStreamOptions)
        } else if refuses && refusal.contains("stream") {
            Some(Quirk::NoStream)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(refusal: &str, expected: Option<Quirk>) {
        assert_eq!(Quirks::meant(refusal), expected, "{refusal}");
    }

    #[test]
    fn refusals_name_what_is_not_understood() {
        check(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(Quirk::CompletionTokens),
        );
        check(
            "Unrecognized request argument supplied: stream_options",
            Some(Quirk::NoStreamOptions),
        );
        check("streaming is not supported by this deployment", Some(Quirk::NoStream));
        check(
            "Missing `reasoning_content` field in the assistant message",
            Some(Quirk::ReplayReasoning),
        );
        check("messages: at least one message is required", None);
    }

    #[test]
    fn each_is_learnt_once() {
        let quirks = Quirks::default();
        assert!(quirks.learn("unknown field stream_options"));
        assert!(!quirks.learn("unknown field stream_options"));
        assert!(quirks.has(Quirk::NoStreamOptions) && !quirks.has(Quirk::NoStream));
    }
}
