//! How servers say that a conversation is too long for the model, and how large the window is that
//! they name. Called by `failure` and `endpoint`. Never takes a limit by the minute for a window.

use std::sync::LazyLock;

use regex::Regex;

/// Wordings in lower case; all parts of a row have to be there.
#[rustfmt::skip]
static WORDINGS: &[&[&str]] = &[
    // OpenAI and whoever copies it: DeepSeek, OpenRouter, Together, Azure
    &["maximum context length"], &["context length exceeded"], &["context_length_exceeded"],
    &["exceeds the context window"], &["exceeds the model's context"], &["max_prompt_tokens_exceeded"],
    &["request too large for", "tokens"],
    // llama.cpp, LM Studio, Ollama
    &["exceeds the available context size"], &["exceed_context_size"], &["larger than the max context size"],
    &["tokens to keep from the initial prompt"], &["when context the overflows"], &["reached context length of"],
    &["exceeds the context length"], &["input length exceeds"],
    // vLLM, SGLang, TGI
    &["longer than the maximum model length"], &["maximum model length"], &["longer than the model's context length"],
    &["`inputs` tokens + `max_new_tokens` must be"], &["`inputs` must have less than"],
    // Anthropic, Bedrock
    &["prompt is too long"], &["prompt too long"], &["exceed context limit"], &["input is too long for"],
    &["request exceeds the maximum size"], &["model_context_window_exceeded"],
    // Gemini
    &["input token count", "exceeds the maximum number of tokens"],
    // Groq, Cerebras, xAI, Mistral, Cohere, Fireworks, Copilot
    &["please reduce the length of"], &["current length is", "while limit is"], &["maximum prompt length"],
    &["too large for model with"], &["too many tokens: size limit exceeded"], &["prompt token count", "exceeds the limit"],
    // Moonshot, Zhipu, MiniMax, Qwen
    &["exceeded model token limit"], &["prompt exceeds max length"], &["context window exceeds limit"],
    &["range of input length should be"],
];

/// Whether words in lower case say that the conversation is too long.
pub(super) fn is_named_in(lower: &str) -> bool {
    WORDINGS.iter().any(|row| row.iter().all(|part| lower.contains(part)))
}

/// Whether the room for the reply has a part in it, so that a shorter one may still fit.
pub(super) fn names_the_reply(words: &str) -> bool {
    let lower = words.to_lowercase();
    [
        "max_tokens",
        "max_completion_tokens",
        "max_new_tokens",
        "in the completion",
        "in the output",
    ]
    .iter()
    .any(|part| lower.contains(part))
}

/// The window that the words name, where they do it in a known way.
pub(super) fn window(words: &str) -> Option<u64> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)(?:context length is|context length of|context length \(|context length:|available context size \(|model length of|",
            r"prompt length is|maximum number of tokens allowed \(|exceeds the limit of|token limit:|while limit is)",
            r"\D{0,20}?(\d[\d,_]*)|(\d[\d,_]*) (?:maximum context length|tokens? maximum|maximum)",
        ))
        .expect("the pattern is valid")
    });
    let found = NAMED.captures(words)?;
    let digits = found.get(1).or(found.get(2))?.as_str().replace([',', '_'], "");
    digits
        .parse()
        .ok()
        .filter(|window| (1_000..100_000_000).contains(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn c1_every_wording_is_known_and_the_window_read_from_it() {
        for (words, expected) in [
            (
                "request (138229 tokens) exceeds the available context size (133376 tokens), try increasing it",
                Some(133_376),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                Some(8_192),
            ),
            (
                "This endpoint's maximum context length is 131,072 tokens. However, you requested about 140000 tokens",
                Some(131_072),
            ),
            ("Please reduce the length of the messages or completion.", None),
            ("Error code: context_length_exceeded", None),
            ("context length exceeded", None),
            (
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                None,
            ),
            ("invalid params, context window exceeds limit (2013)", None),
            (
                "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length",
                None,
            ),
            (
                "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
                Some(8_192),
            ),
            (
                "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
                Some(4_096),
            ),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
                None,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
                Some(131_072),
            ),
            (
                "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
                Some(4_096),
            ),
            (
                "The number of tokens to keep from the initial prompt is greater than the context length.",
                None,
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
                Some(131_072),
            ),
            (
                "Invalid request: Your request exceeded model token limit: 131072",
                Some(131_072),
            ),
            ("Prompt exceeds max length", None),
            ("Range of input length should be [1, 129024]", None),
            (
                "prompt token count of 130000 exceeds the limit of 128000",
                Some(128_000),
            ),
            (
                "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.",
                None,
            ),
            (
                "The prompt is too long: 140000, model maximum context length: 131071",
                Some(131_071),
            ),
            ("Current length is 9000 while limit is 8192", Some(8_192)),
            ("ValidationException: Input is too long for requested model.", None),
        ] {
            assert!(is_named_in(&words.to_lowercase()), "{words}");
            assert_eq!(window(words), expected, "{words}");
        }
    }

    #[test]
    fn other_limits_are_none() {
        for words in [
            "Rate limit reached: limit 30000 tokens per minute",
            "max_tokens is too large: 8192",
            "the message is too long-winded",
        ] {
            assert!(!is_named_in(&words.to_lowercase()), "{words}");
        }
    }
}
