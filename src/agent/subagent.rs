//! Children: a small loop that reads and searches for the agent and gives back one conclusion. It
//! has a share of the agent's budget, no children of its own, and no way to change a file. Called by
//! `turn`. Never fails the run: what goes wrong is told to the agent as any tool's error.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::discipline::difference;
use super::history::History;
use super::turn::millis;
use super::written::Written;
use super::{gate, leave, prompt};
use crate::agent::{Budget, SolveError, Task, Unattended};
use crate::conversation::Entry;
use crate::event::RunEvent;
use crate::model::{ChatReply, ChatRequest, Live, Message, ModelError, Purpose, ToolCall};
use crate::recorder::Recorder;
use crate::sandbox::SandboxError;
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
    if left.cost_usd.is_some_and(|left| left <= 0.0) {
        return Ok(Returned::Failed("no money is left for a helper".to_owned()));
    }
    let kind = match errand {
        Errand::Answer { .. } => "agent",
        Errand::Review { .. } => "review",
    };
    let name = free_name(task.recorder, kind, number).await?;
    let fence = childs_fence(task.fence, &name);
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
        name: &name,
        fence: &fence,
        brief: task.brief,
        setting: task.setting,
        sandbox: task.sandbox,
        code: task.code,
        model: task.model,
        tools: &tools,
        recorder: task.recorder,
        budget,
        permission: task.permission,
        people: &Unattended,
        live: Live::default(),
        cancel: task.cancel,
        resume: None,
    };
    let mut child = Child {
        task: &child_task,
        is_review: kind == "review",
        parents_turn: meter.turns,
        job_cap_usd: task.budget.max_cost_usd,
        history: History::new(&fence, &tools.specs()),
        unstored: Vec::new(),
        meter: Meter::new(budget, None),
        mistakes: 0,
    };
    child.say(Message::system(system));
    child.say(Message::user(task.recorder.redactor().redact(&asked)));
    Box::pin(child.work(meter, stop)).await
}

/// A child's fence follows from its parent's, so that a replay asks the same as the run did; nobody
/// outside knows either.
fn childs_fence(fence: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{fence}/{name}"));
    hex::encode(&digest[..16])
}

/// A name that no earlier child of the run has, one of an interrupted attempt included: each has a
/// log of its own.
async fn free_name(recorder: &Recorder, kind: &str, number: u32) -> Result<String, SolveError> {
    let mut number = number;
    loop {
        let name = format!("{kind}-{number}");
        if recorder.conversation(&name, 0).await?.is_empty() {
            return Ok(name);
        }
        number += 1;
    }
}

struct Child<'a> {
    task: &'a Task<'a>,
    is_review: bool,
    parents_turn: u32,
    /// The cap of the whole run; the child's own share is in its budget.
    job_cap_usd: f64,
    history: History,
    /// Entries that the history has and the stored log does not have yet.
    unstored: Vec<Entry>,
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
            if self.meter.turns_left() <= LAST_TURNS {
                let left = self.meter.turns_left();
                self.say(Message::user(format!(
                    "Replies left, this one included: {left}. Call `conclude` with what you know."
                )));
            }
            let request_sha256 = self.history.request_sha256();
            let asked_at = Instant::now();
            let request = self.request();
            let tokens = (self.history.tokens(), request.max_output_tokens);
            if let Some(why) = leave::beside(self.task, tokens.0, tokens.1, self.job_cap_usd).await? {
                return Ok(Returned::Failed(format!("the helper came to no conclusion: {why}")));
            }
            let reply = match self.task.model.attempt(&request, stop).await {
                Ok(reply) => reply,
                Err(failed) => {
                    parent.charge_lost(&failed);
                    leave::lost(self.task, self.parents_turn, &failed).await?;
                    return Ok(match failed.error {
                        ModelError::Cancelled => Returned::Stopped,
                        error => Returned::Failed(format!("the helper failed: {error}")),
                    });
                }
            };
            self.take(&reply, request_sha256, asked_at).await?;
            parent.charge_beside(&reply);
            let ended = if reply.tool_calls.is_empty() {
                self.answer_silence(&reply)
            } else {
                self.run_calls(&reply.tool_calls, stop).await?
            };
            self.store().await?;
            if let Some(returned) = ended {
                return Ok(returned);
            }
        }
    }

    fn note(&mut self, entry: Entry) {
        self.history.take(&entry);
        self.unstored.push(entry);
    }

    fn say(&mut self, message: Message) {
        self.note(Entry::said(message));
    }

    async fn store(&mut self) -> Result<(), SolveError> {
        self.store_with(None).await
    }

    async fn store_with(&mut self, event: Option<RunEvent>) -> Result<(), SolveError> {
        let entries = std::mem::take(&mut self.unstored);
        let first = self.history.length() - entries.len() as u64;
        let recorder = &self.task.recorder;
        Ok(recorder.append(self.task.name, first, &entries, None, event).await?)
    }

    fn request(&self) -> ChatRequest {
        ChatRequest {
            agent: self.task.name.to_owned(),
            purpose: Purpose::Turn,
            messages: self.history.messages(),
            tools: self.task.tools.specs(),
            max_output_tokens: self.task.model.profile().max_output_tokens,
            repo: Some(self.task.brief.repo.clone()),
            turn: self.history.replies(),
            live: self.task.live.clone(),
        }
    }

    fn written(&self) -> Written<'_> {
        Written {
            turn: self.parents_turn,
            agent: self.task.name,
            max_calls: MAX_CALLS,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }

    async fn take(&mut self, reply: &ChatReply, request_sha256: String, asked_at: Instant) -> Result<(), SolveError> {
        self.meter.charge(reply);
        let took_ms = millis(asked_at);
        let event = self.written().reply(reply, took_ms);
        self.note(Entry::Replied {
            message: Arc::new(self.written().kept(self.task, reply)),
            finish: reply.finish,
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            model: reply.model.clone(),
            request_sha256,
            took_ms,
        });
        self.store_with(Some(event)).await?;
        Ok(self.written().notes(self.task, reply).await?)
    }

    /// Words instead of a call: asked for once more, then taken as the answer they may be. A review
    /// is never taken from free text.
    fn answer_silence(&mut self, reply: &ChatReply) -> Option<Returned> {
        self.mistakes += 1;
        if self.mistakes < MAX_MISTAKES {
            self.say(Message::user(
                "Your reply called no tool. Call `conclude` to give your result.",
            ));
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
        if let Some(refused) = gate::permit(self.task, call).await? {
            return Ok((refused.output, refused.ok, None));
        }
        let context = ToolContext {
            sandbox: self.task.sandbox,
            code: self.task.code,
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
        let event = self.written().called(call, &shown, ok, millis(called_at));
        self.say(Message::tool(call.id.clone(), shown));
        self.task.recorder.record(event).await?;
        Ok(())
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
