//! What a run has used of its limits: turns, tokens, money, time. Called by `turn`. Never stops
//! anything itself, and never counts money that nobody knows.

use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Budget, Checkpoint};
use crate::model::{ChatReply, Failed};
use crate::money::{Cap, Usd};
use crate::phrase::{Language, limit as words};
use crate::text::duration_in_words;

/// Share of a limit from which people and the model are warned.
const WARN_AT: f64 = 0.8;

/// The counters of a run, those of earlier attempts included.
#[derive(Debug)]
pub(super) struct Meter {
    budget: Budget,
    language: Language,
    /// Model replies.
    pub(super) turns: u32,
    /// Tokens, input and output together.
    pub(super) tokens: u64,
    /// Known money in US dollars.
    pub(super) cost_usd: f64,
    started: Instant,
    spent_before: Duration,
    warned: Vec<&'static str>,
    /// What the ledger last said is left of its caps, less what was spent since. It judges again
    /// before each call: this is for people and the model.
    money_left: Option<f64>,
    /// Caps of the ledger that the model was told are near.
    near: Vec<(Cap, Usd)>,
}

impl Meter {
    /// Begins to count, from where an earlier attempt got to.
    pub(super) fn new(budget: Budget, resume: Option<&Checkpoint>) -> Self {
        Self {
            budget,
            language: Language::default(),
            turns: resume.map_or(0, |earlier| earlier.turn),
            tokens: resume.map_or(0, |earlier| earlier.tokens),
            cost_usd: resume.map_or(0.0, |earlier| earlier.cost_usd),
            started: Instant::now(),
            spent_before: resume.map_or(Duration::ZERO, |earlier| Duration::from_millis(earlier.spent_ms)),
            warned: Vec::new(),
            money_left: None,
            near: Vec::new(),
        }
    }

    /// From now on, the ledger says when the money is used up: its caps can be lifted while the run
    /// goes on, and others spend on them as well.
    pub(super) fn leave_money_to_the_ledger(&mut self) {
        self.budget.max_cost_usd = 0.0;
    }

    /// What the ledger says is left.
    pub(super) fn set_money_left(&mut self, left_usd: Option<f64>) {
        self.money_left = left_usd;
    }

    /// Whether the model hears for the first time that this cap is near.
    pub(super) fn sees_first(&mut self, cap: (Cap, Usd)) -> bool {
        let is_new = !self.near.contains(&cap);
        if is_new {
            self.near.push(cap);
        }
        is_new
    }

    /// Whether there will hardly be another reply, as far as is known.
    pub(super) fn is_at_the_end(&self) -> bool {
        self.turns_left() == 0 || self.exhausted().is_some() || self.money_left.is_some_and(|left| left <= 0.0)
    }

    /// Counts a reply.
    pub(super) fn charge(&mut self, reply: &ChatReply) {
        self.turns += 1;
        self.charge_beside(reply);
    }

    /// Counts a reply that is no turn of the conversation.
    pub(super) fn charge_beside(&mut self, reply: &ChatReply) {
        self.tokens = self
            .tokens
            .saturating_add(reply.usage.input_tokens)
            .saturating_add(reply.usage.output_tokens);
        self.spend(reply.cost_usd);
    }

    /// Counts what a call may have cost that gave no reply.
    pub(super) fn charge_lost(&mut self, failed: &Failed) {
        self.tokens = self
            .tokens
            .saturating_add(failed.usage.input_tokens)
            .saturating_add(failed.usage.output_tokens);
        self.spend(failed.cost_usd);
    }

    fn spend(&mut self, cost_usd: Option<f64>) {
        let cost_usd = cost_usd.unwrap_or(0.0);
        self.cost_usd += cost_usd;
        self.money_left = self.money_left.map(|left| left - cost_usd);
    }

    /// Time used, in all attempts.
    pub(super) fn spent(&self) -> Duration {
        self.spent_before + self.started.elapsed()
    }

    /// Time left.
    pub(super) fn time_left(&self) -> Duration {
        self.budget.max_time.saturating_sub(self.spent())
    }

    /// Replies left.
    pub(super) fn turns_left(&self) -> u32 {
        self.budget.max_turns.saturating_sub(self.turns)
    }

    /// What is left of every limit.
    pub(super) fn left(&self) -> Left {
        Left {
            turns: self.turns_left(),
            tokens: self.budget.max_tokens.saturating_sub(self.tokens),
            cost_usd: match self.budget.max_cost_usd > 0.0 {
                true => Some((self.budget.max_cost_usd - self.cost_usd).max(0.0)),
                false => self.money_left.map(|left| left.max(0.0)),
            },
            time: self.time_left(),
        }
    }

    /// What its words are in.
    pub(super) fn speak(&mut self, language: Language) {
        self.language = language;
    }

    /// The limit that is reached, in words.
    pub(super) fn exhausted(&self) -> Option<String> {
        let reached = self.shares().into_iter().find(|limit| limit.share >= 1.0);
        reached.map(|limit| words::reached(self.language, limit.of, &limit.used))
    }

    /// Limits that have come near since the last call, each once.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        let near = self.shares().into_iter().filter(|limit| limit.share >= WARN_AT);
        let new: Vec<Limit> = near.filter(|limit| !self.warned.contains(&limit.of)).collect();
        self.warned.extend(new.iter().map(|limit| limit.of));
        new.into_iter()
            .map(|limit| words::near(self.language, limit.share * 100.0, limit.of, &limit.used))
            .collect()
    }

    fn shares(&self) -> Vec<Limit> {
        let budget = &self.budget;
        let mut limits = vec![
            Limit {
                of: "replies",
                share: share(f64::from(self.turns), f64::from(budget.max_turns)),
                used: words::of(self.language, &self.turns.to_string(), &budget.max_turns.to_string()),
            },
            Limit {
                of: "tokens",
                share: share(self.tokens as f64, budget.max_tokens as f64),
                used: words::of(self.language, &self.tokens.to_string(), &budget.max_tokens.to_string()),
            },
            Limit {
                of: "time",
                share: share(self.spent().as_secs_f64(), budget.max_time.as_secs_f64()),
                used: words::of(
                    self.language,
                    &duration_in_words(self.spent()),
                    &duration_in_words(budget.max_time),
                ),
            },
        ];
        if budget.max_cost_usd > 0.0 {
            limits.push(Limit {
                of: "money",
                share: share(self.cost_usd, budget.max_cost_usd),
                used: words::of(
                    self.language,
                    &format!("${:.2}", self.cost_usd),
                    &format!("${:.2}", budget.max_cost_usd),
                ),
            });
        }
        limits
    }
}

/// What is left of the limits of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Left {
    /// Replies.
    pub(super) turns: u32,
    /// Tokens.
    pub(super) tokens: u64,
    /// US dollars, where there is a limit.
    pub(super) cost_usd: Option<f64>,
    /// Time.
    pub(super) time: Duration,
}

struct Limit {
    of: &'static str,
    share: f64,
    used: String,
}

/// Used share of a limit; a limit of nothing is used up.
fn share(used: f64, limit: f64) -> f64 {
    if limit > 0.0 { used / limit } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Usage;
    use crate::model::FinishReason;

    fn reply(tokens: u64, cost_usd: Option<f64>) -> ChatReply {
        ChatReply {
            model: String::new(),
            notes: Vec::new(),
            content: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage {
                input_tokens: tokens,
                output_tokens: 0,
                reported: true,
            },
            cost_usd,
        }
    }

    const BUDGET: Budget = Budget {
        max_turns: 10,
        max_tokens: 1_000,
        max_cost_usd: 1.0,
        max_time: Duration::from_secs(3600),
    };

    #[track_caller]
    fn check(budget: Budget, replies: &[ChatReply], warnings: &[&str], exhausted: Option<&str>) {
        let mut meter = Meter::new(budget, None);
        replies.iter().for_each(|reply| meter.charge(reply));
        assert_eq!(meter.exhausted().as_deref(), exhausted);
        assert_eq!(meter.warnings(), warnings);
        assert_eq!(meter.warnings(), Vec::<String>::new(), "each is said once");
    }

    #[test]
    fn limits_warn_at_four_fifths_and_stop_at_the_whole() {
        check(BUDGET, &[reply(799, Some(0.1))], &[], None);
        check(
            BUDGET,
            &[reply(800, None)],
            &["80 % of the tokens are used (800 of 1000)"],
            None,
        );
        check(
            BUDGET,
            &[reply(1, Some(0.5)), reply(1, Some(0.5))],
            &["100 % of the money is used ($1.00 of $1.00)"],
            Some("the limit of money is reached ($1.00 of $1.00)"),
        );
        check(
            BUDGET,
            &[const { &None::<f64> }; 10].map(|cost| reply(1, *cost)),
            &["100 % of the replies are used (10 of 10)"],
            Some("the limit of replies is reached (10 of 10)"),
        );
    }

    #[test]
    fn c10_a_money_limit_of_nothing_is_off_and_unknown_prices_count_tokens() {
        let free = Budget {
            max_cost_usd: 0.0,
            ..BUDGET
        };
        check(free, &[reply(1, Some(100.0))], &[], None);
        check(
            BUDGET,
            &[reply(2_000, None)],
            &["200 % of the tokens are used (2000 of 1000)"],
            Some("the limit of tokens is reached (2000 of 1000)"),
        );
    }

    #[test]
    fn earlier_attempts_count() {
        let earlier = Checkpoint {
            turn: 9,
            tokens: 10,
            cost_usd: 0.2,
            spent_ms: 3_600_000,
            ..Checkpoint::NEW
        };
        let meter = Meter::new(BUDGET, Some(&earlier));
        assert_eq!((meter.turns_left(), meter.time_left()), (1, Duration::ZERO));
        assert!(meter.exhausted().is_some_and(|limit| limit.contains("time")));
    }
}
