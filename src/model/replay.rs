//! Answers from the record of an earlier run, turn by turn, without a network. Called by the
//! command line's `replay`. Never makes up a reply: where the record ends, so does the replay.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::model::{ChatReply, ChatRequest, Model, ModelError, Profile, Purpose};

/// What one agent's model said in the record.
#[derive(Debug, Clone, Default)]
pub struct ReplayedAgent {
    /// The replies, in order.
    pub turns: Vec<ChatReply>,
    /// For each summary: replies before it, and the model's words if it gave any.
    pub summaries: VecDeque<(u32, Option<ChatReply>)>,
    /// For each time the conversation was refused as too long: replies before it, and why.
    pub refusals: VecDeque<(u32, String)>,
}

/// A model that says again what it said.
pub struct Replay {
    name: String,
    profile: Profile,
    is_price_known: bool,
    agents: Mutex<HashMap<String, ReplayedAgent>>,
}

impl Replay {
    /// A model with the name and profile of the recorded one.
    pub fn new(name: String, profile: Profile, is_price_known: bool, agents: HashMap<String, ReplayedAgent>) -> Self {
        Self {
            name,
            profile,
            is_price_known,
            agents: Mutex::new(agents),
        }
    }

    fn answer(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = agents
            .get_mut(&request.agent)
            .ok_or_else(|| ModelError::NoScript(format!("the record has no agent {:?}", request.agent)))?;
        let is_now = |before: u32| before == request.turn;
        if request.purpose == Purpose::Summary {
            let summary = agent.summaries.pop_front_if(|(before, _)| is_now(*before));
            let reply = summary.and_then(|(_, reply)| reply);
            return reply.ok_or_else(|| ModelError::Rejected("the record has no summary of a model here".to_owned()));
        }
        if let Some((_, why)) = agent.refusals.pop_front_if(|(before, _)| is_now(*before)) {
            return Err(ModelError::ContextOverflow(why));
        }
        let turns = agent.turns.len();
        let reply = agent.turns.get(request.turn as usize).cloned();
        reply.ok_or_else(|| {
            ModelError::NoScript(format!("the record of {:?} ends after {turns} replies", request.agent))
        })
    }
}

#[async_trait]
impl Model for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, ModelError> {
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        self.answer(request)
    }

    fn price_known(&self) -> bool {
        self.is_price_known
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Usage;
    use crate::model::{EditFormat, FinishReason, Message};

    fn reply(content: &str) -> ChatReply {
        ChatReply {
            content: content.to_owned(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage::default(),
            cost_usd: None,
            model: String::new(),
            notes: Vec::new(),
        }
    }

    #[track_caller]
    fn check(model: &Replay, turn: u32, purpose: Purpose, expected: &str) {
        let request = ChatRequest {
            turn,
            purpose,
            ..ChatRequest::new([Message::user("x")])
        };
        let said = match model.answer(&request) {
            Ok(reply) => reply.content,
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected), "{said:?} and not {expected:?}");
    }

    #[test]
    fn each_turn_gets_its_reply_each_summary_and_refusal_once() {
        let main = ReplayedAgent {
            turns: vec![reply("one"), reply("two")],
            summaries: [(1, Some(reply("sum"))), (1, None)].into(),
            refusals: [(1, "too long".to_owned())].into(),
        };
        let profile = Profile {
            context_window: 1_000,
            max_output_tokens: 100,
            output_ceiling: 100,
            edit_format: EditFormat::Replace,
        };
        let model = Replay::new("m".to_owned(), profile, true, [("main".to_owned(), main)].into());
        check(&model, 0, Purpose::Turn, "one");
        check(&model, 0, Purpose::Summary, "no summary");
        check(&model, 1, Purpose::Turn, "too long");
        check(&model, 1, Purpose::Summary, "sum");
        check(&model, 1, Purpose::Summary, "no summary");
        check(&model, 1, Purpose::Turn, "two");
        check(&model, 2, Purpose::Turn, "ends after 2 replies");
    }
}
