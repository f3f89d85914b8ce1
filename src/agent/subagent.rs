//! Children: a small loop that reads and searches for the agent and gives back one conclusion. It
//! has a share of the agent's budget, no children of its own, and no way to change a file. Called by
//! `turn`. Never fails the run: what goes wrong is told to the agent as any tool's error.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::{gate, prompt};
use crate::agent::discipline::difference;
use crate::agent::{Budget, SolveError, Task};
use crate::event::RunEvent;
use crate::model::{ChatReply, ChatRequest, Live, Message, ModelError, Role, ToolCall, ToolSpec};
use crate::sandbox::SandboxError;
use crate::secret::random_hex;
use crate::text;
use crate::tool::{Conclusion, Errand, Review, ToolContext, ToolError, ToolOutput, Toolbox};

/// Most replies of a child.
const MAX_TURNS: u32 = 15;

/// A child gets one part of so many of what the agent has left.
const SHARE: u64 = 5;

/// Below this many tokens a child could not even begin.
const MIN_TOKENS: u64 = 4_000;

/// With as many replies left, it is told to conclude.
const LAST_TURNS: u32 = 2;

/// As often it may get its conclusion wrong, or say nothing that can be run: once.
const MAX_MISTAKES: u32 = 2;

/// Most calls taken of one reply.
const MAX_CALLS: usize = 16;

/// Most bytes of a tool's output in its conversation.
const MAX_OUTPUT_BYTES: usize = 24 * 1024;

/// Most bytes of what comes back.
const MAX_CONCLUSION_BYTES: usize = 6 * 1024;

/// Most bytes of arguments, and of output, in an event.
const MAX_EVENT_BYTES: usize = 4 * 1024;

/// How an errand ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Returned {
    /// With a conclusion.
    Concluded(Conclusion),
    /// Without one; why.
    Failed(String),
    /// The run was stopped.
    Stopped,
}

/// Sends a child on an errand. What it uses is charged to the agent's meter as well.
pub(super) async fn send(
    task: &Task<'_>,
    meter: &mut Meter,
    errand: &Errand,
    number: u32,
    stop: &CancellationToken,
) -> Result<Returned, SolveError> {
    let left = meter.left();
    if left.tokens / SHARE < MIN_TOKENS {
        let words = format!("{} tokens are left, too few for a helper: do it yourself", left.tokens);
        return Ok(Returned::Failed(words));
    }
    let kind = match errand {
        Errand::Answer { .. } => "agent",
        Errand::Review { .. } => "review",
    };
    let fence = random_hex::<16>();
    let (system, asked) = match errand {
        Errand::Answer { question } => prompt::child(task.brief, question, &fence),
        Errand::Review { focus } => match difference(task.sandbox.as_ref(), stop).await {
            Some(changed) if changed.is_empty() => {
                return Ok(Returned::Failed("there is no change to review yet".to_owned()));
            }
            changed => {
                let unknown = "The difference could not be shown: read the files that the request is about.".to_owned();
                prompt::review(task.brief, focus, &changed.unwrap_or(unknown), &fence)
            }
        },
    };
    let tools = Toolbox::for_errand(errand);
    let budget = Budget {
        max_turns: MAX_TURNS,
        max_tokens: left.tokens / SHARE,
        max_cost_usd: left.cost_usd.map_or(0.0, |cost_usd| cost_usd / SHARE as f64),
        max_time: left.time / 2,
    };
    let child_task = Task {
        brief: task.brief,
        setting: task.setting,
        sandbox: task.sandbox,
        model: task.model,
        tools: &tools,
        recorder: task.recorder,
        budget,
        permission: task.permission,
        people: task.people,
        live: Live::default(),
        cancel: task.cancel,
        resume: None,
    };
    let child = Child {
        task: &child_task,
        name: format!("{kind}-{number}"),
        is_review: kind == "review",
        parents_turn: meter.turns,
        messages: vec![
            Message::system(system),
            Message::user(task.recorder.redactor().redact(&asked)),
        ],
        meter: Meter::new(budget, None),
        mistakes: 0,
    };
    Box::pin(child.work(meter, stop)).await
}

struct Child<'a> {
    task: &'a Task<'a>,
    /// Its name in the log, such as `review-1`.
    name: String,
    is_review: bool,
    parents_turn: u32,
    messages: Vec<Message>,
    meter: Meter,
    mistakes: u32,
}

impl Child<'_> {
    async fn work(mut self, parent: &mut Meter, stop: &CancellationToken) -> Result<Returned, SolveError> {
        loop {
            if stop.is_cancelled() {
                return Ok(Returned::Stopped);
            }
            if let Some(limit) = self.meter.exhausted() {
                return Ok(Returned::Failed(format!(
                    "the helper came to no conclusion: {limit}, which is its share"
                )));
            }
            if self.meter.turns_left() == LAST_TURNS {
                self.remark("Two replies are left, this one included. Call `conclude` with what you know.");
            }
            let asked_at = Instant::now();
            let reply = match self.task.model.complete(&self.request(), stop).await {
                Ok(reply) => reply,
                Err(ModelError::Cancelled) => return Ok(Returned::Stopped),
                Err(error) => return Ok(Returned::Failed(format!("the helper failed: {error}"))),
            };
            self.take(&reply, asked_at).await?;
            parent.charge_child(&reply);
            let ended = if reply.tool_calls.is_empty() {
                self.answer_silence(&reply)
            } else {
                self.run_calls(&reply.tool_calls, stop).await?
            };
            if let Some(returned) = ended {
                return Ok(returned);
            }
        }
    }

    fn request(&self) -> ChatRequest {
        let mut tools: Vec<ToolSpec> = self.task.tools.specs();
        if self.meter.turns_left() == 1 {
            tools.retain(|tool| tool.name == "conclude");
        }
        ChatRequest {
            messages: self.messages.clone(),
            tools,
            max_output_tokens: self.task.model.profile().max_output_tokens,
            repo: Some(self.task.brief.repo.clone()),
            agent: self.name.clone(),
            turn: self.meter.turns,
            live: self.task.live.clone(),
        }
    }

    async fn take(&mut self, reply: &ChatReply, asked_at: Instant) -> Result<(), SolveError> {
        self.meter.charge(reply);
        let calls = reply.tool_calls.iter().take(MAX_CALLS);
        let event = RunEvent::ModelReplied {
            turn: self.parents_turn,
            agent: self.name.clone(),
            text: text::cap_middle(&reply.content, MAX_EVENT_BYTES),
            reasoning: text::cap_middle(&reply.reasoning, MAX_EVENT_BYTES),
            tools: calls.map(|call| call.name.clone()).collect(),
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            took_ms: millis(asked_at.elapsed()),
        };
        self.task.recorder.record(event).await?;
        let redactor = self.task.recorder.redactor();
        let mut message = Message {
            content: redactor.redact(&reply.content),
            reasoning: redactor.redact(&reply.reasoning),
            ..Message::from(reply)
        };
        message.tool_calls.truncate(MAX_CALLS);
        self.messages.push(message);
        Ok(())
    }

    /// Words instead of a call: asked for once more, then taken as the answer they may be. A review
    /// is never taken from free text.
    fn answer_silence(&mut self, reply: &ChatReply) -> Option<Returned> {
        self.mistakes += 1;
        if self.mistakes < MAX_MISTAKES {
            self.remark("Your reply called no tool. Call `conclude` to give your result.");
            return None;
        }
        if self.is_review || reply.content.trim().is_empty() {
            return Some(Returned::Failed(NO_FORM.to_owned()));
        }
        Some(Returned::Concluded(Conclusion::Answer(capped(&reply.content))))
    }

    async fn run_calls(
        &mut self,
        calls: &[ToolCall],
        stop: &CancellationToken,
    ) -> Result<Option<Returned>, SolveError> {
        let mut ended = None;
        for call in calls.iter().take(MAX_CALLS) {
            let called_at = Instant::now();
            let (output, ok) = if ended.is_some() {
                ("not run: the work ended before this call".to_owned(), false)
            } else {
                let (output, ok, end) = self.run_call(call, stop).await?;
                ended = end;
                (output, ok)
            };
            self.push_output(call, &output, ok, called_at).await?;
        }
        Ok(ended)
    }

    async fn run_call(
        &mut self,
        call: &ToolCall,
        stop: &CancellationToken,
    ) -> Result<(String, bool, Option<Returned>), SolveError> {
        if let Some(refused) = gate::permit(self.task, call).await {
            // A child cannot wait for a person.
            return Ok((refused.output, refused.ok, refused.end.map(|_| Returned::Stopped)));
        }
        let context = ToolContext {
            sandbox: self.task.sandbox,
            cancel: stop,
        };
        Ok(match self.task.tools.call(&context, call).await {
            Ok(ToolOutput::Text(output)) => (output, true, None),
            Ok(ToolOutput::Conclude(conclusion)) => {
                let conclusion = match conclusion {
                    Conclusion::Answer(answer) => Conclusion::Answer(capped(&answer)),
                    review @ Conclusion::Review(_) => review,
                };
                ("Concluded.".to_owned(), true, Some(Returned::Concluded(conclusion)))
            }
            Ok(_) => ("not run: a helper only reads and concludes".to_owned(), false, None),
            Err(ToolError::BadCall(problem)) => {
                let is_conclusion = self.task.tools.resolved(call).0 == "conclude";
                self.mistakes += u32::from(is_conclusion);
                let end =
                    (is_conclusion && self.mistakes >= MAX_MISTAKES).then(|| Returned::Failed(NO_FORM.to_owned()));
                (problem, false, end)
            }
            Err(ToolError::ForModel(problem)) => (problem, false, None),
            Err(ToolError::Fatal(SandboxError::Cancelled)) => (
                "interrupted: the run was stopped".to_owned(),
                false,
                Some(Returned::Stopped),
            ),
            Err(ToolError::Fatal(broken)) => return Err(broken.into()),
        })
    }

    async fn push_output(
        &mut self,
        call: &ToolCall,
        output: &str,
        ok: bool,
        called_at: Instant,
    ) -> Result<(), SolveError> {
        let clean = self.task.recorder.redactor().redact(output);
        let shown = text::cap_middle(&text::reveal(&clean), MAX_OUTPUT_BYTES);
        let event = RunEvent::ToolCalled {
            turn: self.parents_turn,
            agent: self.name.clone(),
            tool: text::cap_chars(&call.name, 100),
            arguments: text::cap_middle(&call.arguments, MAX_EVENT_BYTES),
            output: text::cap_middle(&shown, MAX_EVENT_BYTES),
            ok,
            took_ms: millis(called_at.elapsed()),
        };
        self.messages.push(Message::tool(call.id.clone(), shown));
        self.task.recorder.record(event).await?;
        Ok(())
    }

    fn remark(&mut self, words: &str) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => {
                last.content.push_str("\n\n");
                last.content.push_str(words);
            }
            _ => self.messages.push(Message::user(words)),
        }
    }
}

/// Why a helper's work is not taken.
const NO_FORM: &str = "the helper did not give its result in the form that was asked for";

/// What the agent is told of an errand's end, whether it worked, and the review if it was one.
pub(super) fn in_words(errand: &Errand, returned: &Returned) -> (String, bool, Option<Review>) {
    match returned {
        Returned::Concluded(Conclusion::Answer(answer)) => (answer.clone(), true, None),
        Returned::Concluded(Conclusion::Review(review)) => {
            let words = text::cap(&review.in_words(), MAX_CONCLUSION_BYTES);
            (words, true, Some(review.clone()))
        }
        Returned::Failed(why) if matches!(errand, Errand::Review { .. }) && why == NO_FORM => (
            format!("Verdict: needs_fix ({why}, so it does not count as passed)"),
            true,
            None,
        ),
        Returned::Failed(why) => (why.clone(), false, None),
        Returned::Stopped => ("interrupted: the run was stopped".to_owned(), false, None),
    }
}

fn capped(conclusion: &str) -> String {
    text::cap_middle(&text::reveal(conclusion.trim()), MAX_CONCLUSION_BYTES)
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
