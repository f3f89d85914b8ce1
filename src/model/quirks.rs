//! What a server turned out not to understand: known beforehand from the model's family, or learnt
//! from the server's own refusals and remembered for as long as the program runs. Called by
//! `endpoint` and `wire`. Never learns from anything but a refusal that names what it refuses, so
//! each is learnt at most once.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use regex::Regex;

/// A deviation from the usual chat completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Quirk {
    /// The output limit is called `max_completion_tokens`.
    CompletionTokens = 1,
    /// `max_completion_tokens` is refused, whatever the model's family says.
    PlainMaxTokens = 1 << 1,
    /// `stream_options` is refused.
    NoStreamOptions = 1 << 2,
    /// Streaming is refused.
    NoStream = 1 << 3,
    /// Reasoning must be sent back in `reasoning_content`.
    ReplayReasoning = 1 << 4,
    /// Reasoning must not be sent back.
    NoReplay = 1 << 5,
    /// Tools are not taken: they are described in the text.
    TextTools = 1 << 6,
    /// A temperature is refused.
    NoTemperature = 1 << 7,
    /// `reasoning_effort` is refused.
    NoEffort = 1 << 8,
    /// Ids of calls have exactly nine letters and digits.
    ShortIds = 1 << 9,
    /// A user may not speak right after a tool.
    NoUserAfterTool = 1 << 10,
    /// There is no system role.
    NoSystemRole = 1 << 11,
    /// User and assistant take turns.
    Alternate = 1 << 12,
    /// A smaller output limit than was asked for; it is kept in `output_limit`.
    OutputLimit = 1 << 13,
}

/// The deviations of one server.
#[derive(Debug)]
pub(super) struct Quirks {
    known: AtomicU32,
    output_limit: AtomicU32,
}

/// Smaller numbers in a refusal are no output limit.
const LEAST_OUTPUT_LIMIT: u32 = 256;

impl Quirks {
    /// Deviations known beforehand.
    pub(super) fn with(quirks: &[Quirk]) -> Self {
        Self {
            known: AtomicU32::new(quirks.iter().fold(0, |bits, quirk| bits | *quirk as u32)),
            output_limit: AtomicU32::new(u32::MAX),
        }
    }

    /// Whether the server has this one.
    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.known.load(Ordering::Relaxed) & quirk as u32 != 0
    }

    /// Most tokens of a reply that the server lets itself be asked for.
    pub(super) fn output_limit(&self) -> u32 {
        self.output_limit.load(Ordering::Relaxed)
    }

    /// Learns from a refusal of a request for so many output tokens. `Some`: something new was
    /// learnt, so asking again makes sense.
    pub(super) fn learn(&self, refusal: &str, asked_output: u32) -> Option<Quirk> {
        let refusal = refusal.to_lowercase();
        if let Some(limit) = output_limit(&refusal, asked_output.min(self.output_limit())) {
            self.output_limit.store(limit, Ordering::Relaxed);
            return Some(Quirk::OutputLimit);
        }
        let quirk = meant(&refusal)?;
        let before = self.known.fetch_or(quirk as u32, Ordering::Relaxed);
        (before & quirk as u32 == 0).then_some(quirk)
    }
}

const REFUSES: [&str; 15] = [
    "not support",
    "n't support",
    "unsupported",
    "unknown",
    "unrecognized",
    "not permitted",
    "not allowed",
    "not enabled",
    "not available",
    "unexpected",
    "extra",
    "only the default",
    "support tool use",
    "enable-auto-tool-choice",
    "requires --jinja",
];

/// Tools as a whole; a path into one of them, a schema or an id is about something else.
static TOOLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:tools|tool[ _-]?use|tool[ _-]call(?:s|ing)?|tool[ _-]choice|function[ _-]call(?:s|ing)?|functions)\b",
    )
    .expect("the pattern is valid")
});
static PART_OF_TOOLS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"tools[.\[]|schema|tool_call_id|parallel_tool").expect("the pattern is valid"));

/// What a refusal in lower case is about.
fn meant(refusal: &str) -> Option<Quirk> {
    let says = |words: &[&str]| words.iter().any(|word| refusal.contains(word));
    let refuses = says(&REFUSES);
    let quirk = if says(&[
        "use 'max_completion_tokens'",
        "use max_completion_tokens",
        "max_completion_tokens instead",
    ]) {
        Quirk::CompletionTokens
    } else if refuses && refusal.contains("max_completion_tokens") {
        Quirk::PlainMaxTokens
    } else if refusal.contains("reasoning_content") && says(&["missing", "must", "required"]) {
        Quirk::ReplayReasoning
    } else if refuses
        && !refusal.contains("reasoning_effort")
        && says(&[
            "reasoning_content",
            "reasoning'",
            "reasoning`",
            "\"reasoning\"",
            "reasoning:",
        ])
    {
        Quirk::NoReplay
    } else if refusal.contains("stream_options") {
        Quirk::NoStreamOptions
    } else if refuses && says(&["reasoning_effort", "reasoning effort", "reasoning.effort"]) {
        Quirk::NoEffort
    } else if refuses && refusal.contains("temperature") {
        Quirk::NoTemperature
    } else if says(&["length of 9", "must be a-z, a-z, 0-9"]) {
        Quirk::ShortIds
    } else if says(&["role 'user' after role 'tool'", "role user after role tool"]) {
        Quirk::NoUserAfterTool
    } else if says(&[
        "system role not supported",
        "system role is not supported",
        "developer instruction is not enabled",
        "does not support 'system'",
        "system messages are not supported",
    ]) {
        Quirk::NoSystemRole
    } else if says(&["roles must alternate", "roles should alternate"]) {
        Quirk::Alternate
    } else if refuses && TOOLS.is_match(refusal) && !PART_OF_TOOLS.is_match(refusal) {
        Quirk::TextTools
    } else if refuses && refusal.contains("stream") {
        Quirk::NoStream
    } else {
        return None;
    };
    Some(quirk)
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d[\d,_]*").expect("the pattern is valid"));

/// The output limit that a refusal in lower case names: the largest number below what was asked
/// for. A window that is too small for request and reply is another matter.
fn output_limit(refusal: &str, asked: u32) -> Option<u32> {
    let says = |words: &[&str]| words.iter().any(|word| refusal.contains(word));
    let names_it = says(&[
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxoutputtokens",
    ]);
    let is_too_much = says(&["too large", "at most", "maximum", "range", "less than", "<=", "exceed"]);
    if !names_it || !is_too_much || says(&["context", "model length"]) {
        return None;
    }
    let refusal = refusal.split("(http ").next().unwrap_or_default();
    let numbers = NUMBER
        .find_iter(refusal)
        .filter_map(|number| number.as_str().replace([',', '_'], "").parse().ok());
    numbers
        .filter(|number: &u32| (LEAST_OUTPUT_LIMIT..asked).contains(number))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(refusal: &str, expected: Option<Quirk>) {
        assert_eq!(Quirks::with(&[]).learn(refusal, 8_192), expected, "{refusal}");
    }

    #[test]
    fn refusals_name_what_is_not_understood() {
        use Quirk::*;
        check(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(CompletionTokens),
        );
        check(
            "Unrecognized request argument supplied: max_completion_tokens",
            Some(PlainMaxTokens),
        );
        check(
            "Unrecognized request argument supplied: stream_options",
            Some(NoStreamOptions),
        );
        check("streaming is not supported by this deployment", Some(NoStream));
        check(
            "Missing `reasoning_content` field in the assistant message",
            Some(ReplayReasoning),
        );
        check("property 'reasoning_content' is unsupported", Some(NoReplay));
        check("messages.2.reasoning: Extra inputs are not permitted", Some(NoReplay));
        check(
            "Unsupported parameter: 'temperature' is not supported with this model.",
            Some(NoTemperature),
        );
        check(
            "Unrecognized request argument supplied: reasoning_effort",
            Some(NoEffort),
        );
        check(
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
            Some(ShortIds),
        );
        check("Unexpected role 'user' after role 'tool'", Some(NoUserAfterTool));
        check("System role not supported", Some(NoSystemRole));
        check(
            "Conversation roles must alternate user/assistant/user/assistant/...",
            Some(Alternate),
        );
        check("max_tokens 8192 exceeds something (HTTP 400)", None);
        check("messages: at least one message is required", None);
        check("unknown tool type", None);
    }

    #[test]
    fn a_server_that_takes_no_tools_says_so_in_many_ways() {
        for refusal in [
            "registry.example/library/gemma3:27b does not support tools",
            "No endpoints found that support tool use. To learn more about provider routing, visit the documentation",
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "tools param requires --jinja flag",
            "`tools` is not supported by this model",
            "Function calling is not enabled for models/gemma-3-27b-it",
            "tools: Extra inputs are not permitted",
        ] {
            check(refusal, Some(Quirk::TextTools));
        }
        check("tools.0.function.parameters: unknown format `uint32`", None);
        check("Invalid schema for function 'grep': unsupported keyword", None);
        check("tool_call_id call_1 is unknown", None);
    }

    #[test]
    fn a_smaller_output_limit_is_believed() {
        for (refusal, expected) in [
            (
                "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
                4_096,
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]",
                4_096,
            ),
            (
                "max_tokens: 8192 > 4,096, which is the maximum allowed number of output tokens",
                4_096,
            ),
        ] {
            let quirks = Quirks::with(&[]);
            assert_eq!(quirks.learn(refusal, 8_192), Some(Quirk::OutputLimit), "{refusal}");
            assert_eq!(quirks.output_limit(), expected);
            assert_eq!(quirks.learn(refusal, 8_192), None, "once");
        }
        check(
            "This model's maximum context length is 4096 tokens; max_tokens 8192 is too large",
            None,
        );
    }

    #[test]
    fn each_is_learnt_once() {
        let quirks = Quirks::with(&[Quirk::NoStream]);
        assert!(quirks.learn("unknown field stream_options", 1).is_some());
        assert!(quirks.learn("unknown field stream_options", 1).is_none());
        assert!(quirks.has(Quirk::NoStreamOptions) && quirks.has(Quirk::NoStream));
        assert!(!quirks.has(Quirk::TextTools));
    }
}
