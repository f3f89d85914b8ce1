//! What a call costs, and how many tokens a text has when the server does not say. Called by
//! `endpoint` and `stub`. Never guesses a price: without configured prices, money is unknown.

use super::names;
use crate::config::{ModelConfig, PriceTable};
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, Message, ToolCall, ToolSpec};

/// US dollars for a million tokens, where the configuration gives them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Price {
    per_million: Option<Rates>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    input: f64,
    output: f64,
    cached_input: f64,
}

impl Price {
    /// A model that costs nothing.
    pub(super) const FREE: Self = Self::rates(0.0, 0.0, 0.0);

    const fn rates(input: f64, output: f64, cached_input: f64) -> Self {
        Self {
            per_million: Some(Rates {
                input,
                output,
                cached_input,
            }),
        }
    }

    /// The price of the configured model: its own two keys, which come together or not at all,
    /// else the table.
    pub(super) fn of(config: &ModelConfig) -> anyhow::Result<Self> {
        for (key, price) in [
            ("input_usd_per_million", config.input_usd_per_million),
            ("output_usd_per_million", config.output_usd_per_million),
        ] {
            if price.is_some_and(|price| !price.is_finite() || price < 0.0) {
                anyhow::bail!("model.{key}: a price is a number of US dollars, 0 or more");
            }
        }
        match (config.input_usd_per_million, config.output_usd_per_million) {
            (Some(input), Some(output)) => Ok(Self::rates(input, output, input)),
            (None, None) => Ok(Self::in_table(&config.prices, &config.name)),
            _ => anyhow::bail!(
                "model: input_usd_per_million and output_usd_per_million are set together or not at all (a free model has 0 and 0)"
            ),
        }
    }

    /// The price of a model by the longest pattern that fits its name, with or without provider.
    pub(super) fn in_table(table: &PriceTable, name: &str) -> Self {
        let whole = name.to_lowercase();
        let bare = names::bare(name);
        let fitting = table.0.iter().filter(|(pattern, _)| {
            let pattern = pattern.to_lowercase();
            names::fits(&pattern, &whole) || names::fits(&pattern, &bare)
        });
        match fitting
            .max_by_key(|(pattern, _)| pattern.len())
            .map(|(_, prices)| prices.as_slice())
        {
            Some([input, output]) => Self::rates(*input, *output, *input),
            Some([input, output, cached]) => Self::rates(*input, *output, *cached),
            _ => Self { per_million: None },
        }
    }

    /// Whether money can be counted.
    pub(super) fn is_known(self) -> bool {
        self.per_million.is_some()
    }

    /// Money for these tokens, of which so many of the input came from a cache.
    pub(super) fn cost(self, usage: &Usage, cached_input: u64) -> Option<f64> {
        let rates = self.per_million?;
        let cached = cached_input.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        let sum =
            fresh as f64 * rates.input + cached as f64 * rates.cached_input + usage.output_tokens as f64 * rates.output;
        Some(sum / 1e6)
    }
}

/// Bytes that are counted as one token. Real tokenizers need about four bytes of English or code
/// and three of Chinese for a token: with three, the count errs to the dear side.
const BYTES_PER_TOKEN: u64 = 3;

/// What every message costs besides its text: role, separators.
const TOKENS_PER_MESSAGE: u64 = 6;

/// Cautious count of the tokens that a request makes the model read.
pub(super) fn count_request(request: &ChatRequest) -> u64 {
    let messages: u64 = request.messages.iter().map(|message| count_message(message)).sum();
    let tools: u64 = request.tools.iter().map(count_tool).sum();
    messages + tools
}

/// Cautious count of what a tool's specification makes the model read.
pub(super) fn count_tool(tool: &ToolSpec) -> u64 {
    count_bytes(tool.name.len() + tool.description.len() + tool.parameters.to_string().len())
}

/// Cautious count of the tokens that a reply made the model write.
pub(super) fn count_reply(reply: &ChatReply) -> u64 {
    count_bytes(reply.content.len() + reply.reasoning.len()) + count_calls(&reply.tool_calls)
}

/// Cautious count of a text of this many bytes.
pub(super) fn count_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Cautious count of what a message makes the model read; reasoning is not counted, since few
/// models get theirs back.
pub(super) fn count_message(message: &Message) -> u64 {
    TOKENS_PER_MESSAGE + count_bytes(message.content.len()) + count_calls(&message.tool_calls)
}

fn count_calls(calls: &[ToolCall]) -> u64 {
    calls
        .iter()
        .map(|call| TOKENS_PER_MESSAGE + count_bytes(call.name.len() + call.arguments.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: Option<f64>, output: Option<f64>, expected: Option<f64>) {
        let config = ModelConfig {
            input_usd_per_million: input,
            output_usd_per_million: output,
            ..ModelConfig::default()
        };
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 500_000,
            reported: true,
        };
        assert_eq!(Price::of(&config).unwrap().cost(&usage, 0), expected);
    }

    #[test]
    fn money_is_counted_only_with_both_prices() {
        check(Some(2.0), Some(10.0), Some(7.0));
        check(Some(0.0), Some(0.0), Some(0.0));
        check(None, None, None);
    }

    #[test]
    fn half_a_price_or_a_wrong_one_is_an_error_with_the_key() {
        for (input, output, words) in [
            (Some(1.0), None, "set together"),
            (Some(-1.0), Some(1.0), "model.input_usd_per_million"),
            (Some(1.0), Some(f64::NAN), "model.output_usd_per_million"),
        ] {
            let config = ModelConfig {
                input_usd_per_million: input,
                output_usd_per_million: output,
                ..ModelConfig::default()
            };
            let problem = Price::of(&config).unwrap_err().to_string();
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn the_longest_fitting_pattern_has_the_price() {
        let rows = [
            ("*", vec![9.0, 9.0]),
            ("GPT-5*", vec![1.0, 10.0, 0.1]),
            ("gpt-5-mini*", vec![0.25, 2.0]),
            ("openrouter/*/claude*", vec![3.0, 15.0]),
        ];
        let table = PriceTable(rows.into_iter().map(|(name, row)| (name.to_owned(), row)).collect());
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 1_000_000,
            reported: true,
        };
        for (name, cached, expected) in [
            ("gpt-5", 0, 11.0),
            ("openai/gpt-5:batch", 1_000_000, 10.1),
            ("gpt-5", 500_000, 10.55),
            ("gpt-5", u64::MAX, 10.1),
            ("gpt-5-mini-2025", 500_000, 2.25),
            ("openrouter/anthropic/claude-x", 0, 18.0),
            ("claude-x", 0, 18.0),
        ] {
            let cost = Price::in_table(&table, name).cost(&usage, cached);
            assert_eq!(cost, Some(expected), "{name}");
        }
        assert!(!Price::in_table(&PriceTable::default(), "gpt-5").is_known());
    }
}
