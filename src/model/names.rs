//! Names of models: what is left of one without the provider before it and the variant behind it,
//! and whether a pattern fits. Called by `profile` and `pricing`. Never knows a model.

/// Words before a name that say where it is hosted, each followed by a full stop.
const HOSTS: [&str; 12] = [
    "us",
    "eu",
    "apac",
    "global",
    "anthropic",
    "meta",
    "amazon",
    "mistral",
    "cohere",
    "openai",
    "qwen",
    "moonshotai",
];

/// The name itself, in lower case: `openrouter/anthropic/Claude-Sonnet-4:beta` is
/// `claude-sonnet-4`, `us.anthropic.claude-opus-4@20250514` is `claude-opus-4`.
pub(super) fn bare(name: &str) -> String {
    let lower = name.trim().to_lowercase();
    let tuned = lower.strip_prefix("ft:").unwrap_or(&lower);
    let path = tuned.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let mut rest = last.split([':', '@']).next().unwrap_or(last);
    while let Some((word, behind)) = rest.split_once('.')
        && HOSTS.contains(&word)
    {
        rest = behind;
    }
    rest.to_owned()
}

/// Whether a pattern with `*` for any text fits the whole text. Both are in lower case.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pattern
        .contains('*')
        .then(|| pattern.rsplit('*').next().unwrap_or_default())
    else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    // The last part has to stand at the end, wherever it was found first.
    text.ends_with(last) && text.len() >= pattern.len() - pattern.matches('*').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_and_variants_are_tolerated() {
        for (name, expected) in [
            ("gpt-4.1", "gpt-4.1"),
            ("openrouter/anthropic/claude-sonnet-4", "claude-sonnet-4"),
            ("models/gemini-2.5-pro", "gemini-2.5-pro"),
            ("deepseek/deepseek-chat-v3.1:free", "deepseek-chat-v3.1"),
            ("claude-opus-4@20250514", "claude-opus-4"),
            (
                "us.anthropic.claude-sonnet-4-20250514-v1:0",
                "claude-sonnet-4-20250514-v1",
            ),
            ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-coder-32b-instruct"),
            ("accounts/fireworks/models/llama-v3p3-70b", "llama-v3p3-70b"),
            ("ft:gpt-4o-mini:org::id", "gpt-4o-mini"),
            ("hf.co/unsloth/GLM-4.5-Air-GGUF:Q4_K_M", "glm-4.5-air-gguf"),
            ("", ""),
        ] {
            assert_eq!(bare(name), expected, "{name}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, expected) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-5*", "gpt-5-mini", true),
            ("*coder*", "qwen3-coder-30b", true),
            ("qwen*instruct", "qwen3-instruct-instruct", true),
            ("qwen*instruct", "qwen3-instruct-2507", false),
            ("a*a", "a", false),
            ("ab*b", "ab", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
