//! What models can do, by patterns of their names, and what the configuration says against it.
//! Called by `endpoint` and `stub`. Never asks a server: what a server turns out not to take is
//! learnt by `quirks`.

use super::names::{bare, fits};
use super::quirks::Quirk;
use crate::config::{EditFormatChoice, ModelConfig, ReplayChoice, ToolCallChoice};
use crate::model::{EditFormat, Profile};

/// How a model is spoken to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Traits {
    /// What the agent has to know of it.
    pub(super) profile: Profile,
    /// Temperature, only where one is configured and taken.
    pub(super) temperature: Option<f64>,
    /// How hard it should think, only where that is configured.
    pub(super) reasoning_effort: Option<String>,
    /// How earlier reasoning is sent back.
    pub(super) replay: Replay,
    /// Deviations known beforehand.
    pub(super) quirks: Vec<Quirk>,
}

/// How the reasoning of earlier replies goes back to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// Not at all.
    Never,
    /// In a field of the message.
    Field(&'static str),
    /// Before the content, between `<think>` tags.
    Tags,
}

/// Models that behave alike.
struct Family {
    /// Patterns of the bare name.
    names: &'static [&'static str],
    /// Tokens of request and reply together.
    window: u64,
    /// Most tokens of a reply.
    ceiling: u32,
    edit_format: EditFormat,
    takes_temperature: bool,
    replay: Replay,
    quirks: &'static [Quirk],
}

const fn family(names: &'static [&'static str], window: u64, ceiling: u32) -> Family {
    Family {
        names,
        window,
        ceiling,
        edit_format: EditFormat::Replace,
        takes_temperature: true,
        replay: Replay::Never,
        quirks: &[],
    }
}

impl Family {
    /// Trained on patches.
    const fn patches(self) -> Self {
        Self {
            edit_format: EditFormat::Patch,
            ..self
        }
    }

    /// Refuses a temperature.
    const fn reasons(self) -> Self {
        Self {
            takes_temperature: false,
            ..self
        }
    }

    /// Thinks on from its earlier reasoning between tool calls.
    const fn replays(self, replay: Replay) -> Self {
        Self { replay, ..self }
    }

    const fn with(self, quirks: &'static [Quirk]) -> Self {
        Self { quirks, ..self }
    }
}

const CONTENT: Replay = Replay::Field("reasoning_content");
const NEW_OPENAI: &[Quirk] = &[Quirk::CompletionTokens];
const TEXT: &[Quirk] = &[Quirk::TextTools];
/// mistral.ai checks ids of calls and the order of roles more strictly than others.
const MISTRAL: &[Quirk] = &[Quirk::ShortIds, Quirk::NoUserAfterTool];

/// The first that fits counts. Numbers are those of the makers' own services, rounded to the
/// careful side; a server with less says so and is believed.
#[rustfmt::skip]
static FAMILIES: &[Family] = &[
    family(&["gpt-5*-chat*", "chatgpt-*"], 128_000, 16_384),
    family(&["gpt-5*", "codex-*"], 272_000, 128_000).patches().reasons().with(NEW_OPENAI),
    family(&["gpt-4.1*"], 1_000_000, 32_768).patches(),
    family(&["gpt-4o*", "gpt-4.5*"], 128_000, 16_384).patches(),
    family(&["gpt-4-turbo*", "gpt-4-1106*", "gpt-4-0125*"], 128_000, 4_096),
    family(&["gpt-4-32k*"], 32_768, 4_096),
    family(&["gpt-4*"], 8_192, 4_096),
    family(&["gpt-3.5*", "gpt-35*"], 16_000, 4_096),
    family(&["gpt-oss*"], 131_072, 32_768).patches().replays(Replay::Field("reasoning")),
    family(&["o1-mini*", "o1-preview*"], 128_000, 32_768).reasons().with(&[Quirk::CompletionTokens, Quirk::TextTools, Quirk::NoSystemRole]),
    family(&["o1", "o1-*", "o3", "o3-*", "o4-*"], 200_000, 100_000).patches().reasons().with(NEW_OPENAI),
    family(&["claude-3-haiku*", "claude-3-opus*", "claude-3-sonnet*", "claude-2*"], 200_000, 4_096),
    family(&["claude-3-5*", "claude-3.5*"], 200_000, 8_192),
    family(&["claude-opus-4", "claude-opus-4-2025*", "claude-opus-4-1*", "claude-opus-4.1*"], 200_000, 32_000),
    family(&["claude*"], 200_000, 64_000),
    family(&["gemini-1.5*", "gemini-2.0*"], 1_000_000, 8_192),
    family(&["gemini*"], 1_000_000, 65_536),
    family(&["gemma-3*", "gemma3*"], 128_000, 8_192).with(TEXT),
    family(&["gemma*", "codegemma*"], 8_192, 4_096).with(&[Quirk::TextTools, Quirk::NoSystemRole]),
    family(&["deepseek-r1*", "r1-*"], 64_000, 32_768).with(TEXT),
    family(&["deepseek-reasoner*"], 128_000, 65_536).reasons().replays(CONTENT),
    family(&["deepseek-coder*"], 64_000, 8_192).with(TEXT),
    family(&["deepseek-chat*", "deepseek-v3*"], 128_000, 8_192),
    family(&["deepseek*"], 128_000, 32_768),
    family(&["qwen3-coder*", "qwen3*2507*", "qwen3-next*", "qwen3-max*", "qwen3.*"], 256_000, 65_536),
    family(&["qwen3*"], 40_960, 16_384),
    family(&["qwq*", "qwen-*"], 128_000, 8_192),
    family(&["qwen*", "codeqwen*"], 32_768, 8_192),
    family(&["kimi-k2-thinking*", "kimi-k2.*"], 256_000, 65_536).replays(CONTENT),
    family(&["kimi*"], 128_000, 32_768),
    family(&["moonshot-v1-8k*"], 8_192, 4_096),
    family(&["moonshot-v1-32k*"], 32_768, 8_192),
    family(&["moonshot*"], 128_000, 8_192),
    family(&["glm-4.6*", "glm-4.7*", "glm-5*"], 200_000, 65_536).replays(CONTENT),
    family(&["glm-4.5v*"], 64_000, 16_384),
    family(&["glm*", "chatglm*"], 128_000, 32_768),
    family(&["minimax-m1*", "minimax-text*"], 1_000_000, 32_768),
    family(&["minimax*"], 200_000, 65_536).replays(Replay::Tags),
    family(&["codellama*"], 16_384, 4_096).with(TEXT),
    family(&["*llama-4*", "llama4*"], 128_000, 8_192),
    family(&["*llama-3.*", "*llama-v3p*", "llama3.*", "llama3-1*", "llama3-2*", "llama3-3*"], 128_000, 8_192),
    family(&["*llama*"], 8_192, 2_048).with(TEXT),
    family(&["devstral*"], 128_000, 32_768).with(MISTRAL),
    family(&["codestral*", "mixtral*", "open-mi*", "mistral-7b*", "mistral"], 32_000, 8_192).with(MISTRAL),
    family(&["magistral*"], 40_000, 16_384).with(MISTRAL),
    family(&["mistral*", "ministral*", "pixtral*"], 128_000, 16_384).with(MISTRAL),
    family(&["grok-2*", "grok-3*"], 131_072, 16_384),
    family(&["grok*"], 256_000, 32_768),
    family(&["command*"], 128_000, 4_096),
    family(&["phi*"], 16_384, 4_096).with(TEXT),
    family(&["granite*", "hermes*", "nemotron*"], 128_000, 8_192),
];

/// A name that no family knows: what most models have that people let work on code. One with a
/// smaller window says so when it is full, and one that takes no tools when it sees them.
const UNKNOWN: Family = family(&[], 128_000, 32_768);

/// No reply is asked for that could not hold a tool call.
const LEAST_OUTPUT: u32 = 256;

/// The traits of a model by its name, under the configuration's overrides.
pub(super) fn of(config: &ModelConfig, name: &str) -> Traits {
    let bare = bare(name);
    let fitting = |family: &&Family| family.names.iter().any(|pattern| fits(pattern, &bare));
    let known = FAMILIES.iter().find(fitting);
    let family = known.unwrap_or(&UNKNOWN);
    let context_window = config.context_window.unwrap_or(family.window);
    // A reply that takes up the window leaves none for the question.
    let room = u32::try_from(context_window / 4).unwrap_or(u32::MAX).max(LEAST_OUTPUT);
    let ceiling = if known.is_some() {
        family.ceiling
    } else {
        family.ceiling.max(config.max_output_tokens)
    };
    let output_ceiling = ceiling.min(room);
    let mut quirks = family.quirks.to_vec();
    match config.tool_calls {
        ToolCallChoice::Auto => {}
        ToolCallChoice::Native => quirks.retain(|quirk| *quirk != Quirk::TextTools),
        ToolCallChoice::Text => quirks.push(Quirk::TextTools),
    }
    Traits {
        profile: Profile {
            context_window,
            max_output_tokens: config.max_output_tokens.clamp(1, output_ceiling),
            output_ceiling,
            edit_format: match config.edit_format {
                EditFormatChoice::Auto => family.edit_format,
                EditFormatChoice::Replace => EditFormat::Replace,
                EditFormatChoice::Patch => EditFormat::Patch,
            },
        },
        temperature: config.temperature.filter(|_| family.takes_temperature),
        reasoning_effort: config.reasoning_effort.clone().filter(|effort| !effort.is_empty()),
        replay: match config.replay_reasoning {
            ReplayChoice::Auto => family.replay,
            ReplayChoice::Never => Replay::Never,
            ReplayChoice::ReasoningContent => CONTENT,
            ReplayChoice::Reasoning => Replay::Field("reasoning"),
            ReplayChoice::ThinkTags => Replay::Tags,
        },
        quirks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, window: u64, ceiling: u32, quirks: &[Quirk]) {
        let traits = of(&ModelConfig::default(), name);
        let profile = &traits.profile;
        assert_eq!(
            (profile.context_window, profile.output_ceiling),
            (window, ceiling),
            "{name}"
        );
        assert_eq!(traits.quirks, quirks, "{name}");
        assert!(profile.max_output_tokens <= profile.output_ceiling && profile.output_ceiling <= 131_072);
    }

    #[test]
    fn names_of_every_style_find_their_family() {
        check("gpt-5-mini", 272_000, 68_000, NEW_OPENAI);
        check("openrouter/openai/gpt-5-chat", 128_000, 16_384, &[]);
        check("azure/gpt-4o-2024-08-06", 128_000, 16_384, &[]);
        check("o4-mini", 200_000, 50_000, NEW_OPENAI);
        check("openai/gpt-oss-120b:free", 131_072, 32_768, &[]);
        check("anthropic/Claude-Sonnet-4.5", 200_000, 50_000, &[]);
        check("us.anthropic.claude-3-5-sonnet-20241022-v2:0", 200_000, 8_192, &[]);
        check("models/gemini-2.5-pro", 1_000_000, 65_536, &[]);
        check("deepseek-reasoner", 128_000, 32_000, &[]);
        check("deepseek/deepseek-r1:free", 64_000, 16_000, TEXT);
        check("Qwen/Qwen3-Coder-480B-A35B-Instruct", 256_000, 64_000, &[]);
        check("qwen3:30b-a3b", 40_960, 10_240, &[]);
        check("qwen2.5-coder:7b", 32_768, 8_192, &[]);
        check("moonshotai/Kimi-K2-Instruct", 128_000, 32_000, &[]);
        check("zai-org/GLM-4.6", 200_000, 50_000, &[]);
        check("MiniMaxAI/MiniMax-M2", 200_000, 50_000, &[]);
        check("accounts/fireworks/models/llama-v3p3-70b-instruct", 128_000, 8_192, &[]);
        check("meta-llama/Meta-Llama-3-8B-Instruct", 8_192, 2_048, TEXT);
        check("mistralai/devstral-small", 128_000, 32_000, MISTRAL);
        check("gemma3:27b", 128_000, 8_192, TEXT);
        check("our-own-model", 128_000, 32_000, &[]);
        check("", 128_000, 32_000, &[]);
    }

    #[test]
    fn l20_reasoning_goes_back_only_where_a_family_wants_it() {
        for (name, expected) in [
            ("gpt-5", Replay::Never),
            ("deepseek-chat", Replay::Never),
            ("kimi-k2-thinking", CONTENT),
            ("minimax-m2", Replay::Tags),
            ("gpt-oss-20b", Replay::Field("reasoning")),
        ] {
            assert_eq!(of(&ModelConfig::default(), name).replay, expected, "{name}");
        }
    }

    #[test]
    fn the_configuration_overrides() {
        let config = ModelConfig {
            context_window: Some(8_000),
            tool_calls: ToolCallChoice::Text,
            edit_format: EditFormatChoice::Replace,
            temperature: Some(0.2),
            reasoning_effort: Some("low".to_owned()),
            replay_reasoning: ReplayChoice::ThinkTags,
            ..ModelConfig::default()
        };
        let traits = of(&config, "gpt-5");
        assert_eq!(
            traits.profile,
            Profile {
                context_window: 8_000,
                max_output_tokens: 2_000,
                output_ceiling: 2_000,
                edit_format: EditFormat::Replace,
            }
        );
        assert_eq!(traits.temperature, None, "the family refuses one");
        assert_eq!(of(&config, "gpt-4o").temperature, Some(0.2));
        assert_eq!(
            (traits.reasoning_effort.as_deref(), traits.replay),
            (Some("low"), Replay::Tags)
        );
        assert!(traits.quirks.contains(&Quirk::TextTools));
        let native = ModelConfig {
            tool_calls: ToolCallChoice::Native,
            ..ModelConfig::default()
        };
        assert_eq!(of(&native, "gemma3").quirks, []);
        let large = ModelConfig {
            max_output_tokens: 60_000,
            context_window: Some(1_000_000),
            ..ModelConfig::default()
        };
        assert_eq!(
            of(&large, "our-own-model").profile.max_output_tokens,
            60_000,
            "nobody knows better"
        );
    }
}
