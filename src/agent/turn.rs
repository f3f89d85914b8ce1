//! One turn: ask the model, run its tool calls one after another, write everything down. Called
//! by the loop in `agent`. Never runs a call whose arguments are not whole, and never leaves a
//! call without its one output.

use std::sync::Arc;

use tokio::time::Instant;

use super::history::INTERRUPTED;
use super::instructed::NOT_APPROVED;
use super::progress::Progress;
use super::watch::{Next, Repeat};
use super::written::Written;
use super::{gate, leave, prompt, subagent, winddown};
use crate::agent::{Question, SolveError, Stop};
use crate::conversation::Entry;
use crate::event::RunEvent;
use crate::model::{ChatReply, ChatRequest, Failed, FinishReason, Message, ModelError, Purpose, ToolCall};
use crate::phrase::stuck::{self, Stuck};
use crate::phrase::{money, run};
use crate::sandbox::SandboxError;
use crate::secret::REDACTED;
use crate::text;
use crate::tool::{Errand, Finish, ToolContext, ToolError, ToolOutput};

/// Most bytes of a tool's output in the conversation; tools cap tighter for themselves.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Most bytes of arguments, and of output, in an event.
const MAX_EVENT_BYTES: usize = 8 * 1024;

/// Most bytes of arguments in the event that a call began; what matters of them comes again at its
/// end.
const MAX_STARTED_BYTES: usize = 1024;

/// Most calls that are taken of one reply; the others are dropped as if never made.
const MAX_CALLS: usize = 32;

/// What asking the model came to.
pub(super) enum Asked {
    /// It answered.
    Replied(ChatReply),
    /// The work ends here.
    Ended(Stop),
}

impl Progress<'_> {
    /// Begins a conversation with the rules and the brief.
    pub(super) async fn open(&mut self) -> Result<(), SolveError> {
        if self.history.length() > 0 {
            self.note(Entry::Restarted);
        }
        let facts = prompt::Facts {
            brief: self.task.brief,
            setting: self.task.setting,
            budget: self.task.budget,
            tools: &self.specs,
            plan_first: self.waits_for_approval(),
        };
        let prompt = prompt::main(&facts, self.task.fence);
        self.say(Message::system(prompt.system));
        let redactor = self.task.recorder.redactor();
        self.say(Message::user(redactor.redact(&prompt.brief)));
        if prompt.had_hidden_text {
            let text = run::hidden_text(self.task.setting.language).to_owned();
            self.task.recorder.record(RunEvent::Noted { text }).await?;
        }
        // Where a ledger counts, the status comment says it, and as loudly as it should.
        let counts = self.task.budget.max_cost_usd > 0.0 && !self.task.recorder.has_ledger();
        if counts && !self.task.model.price_known() {
            let text = money::not_counted(self.task.setting.language, self.task.model.name());
            self.task.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(())
    }

    /// Why the work has to end before another reply.
    pub(super) fn must_stop(&self) -> Option<Stop> {
        if self.task.cancel.is_cancelled() {
            return Some(Stop::Cancelled);
        }
        let limit = self.meter.exhausted()?;
        let language = self.task.setting.language;
        Some(Stop::Budget(winddown::with_open_steps(
            language,
            limit,
            &self.discipline.plan,
        )))
    }

    /// Warns people and the model of limits that are near.
    pub(super) async fn warn(&mut self) -> Result<(), SolveError> {
        for text in self.meter.warnings() {
            self.wind_down(&text);
            self.task.recorder.record(RunEvent::BudgetWarned { text }).await?;
        }
        if self.meter.turns_left() == winddown::LAST_TURNS {
            self.remark(&winddown::last());
        }
        Ok(())
    }

    /// Asks for a reply. A conversation that does not fit is made shorter, before the model says so
    /// where that can be known, otherwise once after it did.
    pub(super) async fn ask(&mut self) -> Result<Asked, SolveError> {
        self.make_room().await?;
        if let Some(stop) = self.must_stop() {
            return Ok(Asked::Ended(stop));
        }
        let mut shortened = false;
        loop {
            let max_output_tokens = self.max_output();
            if let Some(stop) = self.leave(max_output_tokens).await? {
                return Ok(Asked::Ended(stop));
            }
            let mut request = self.request();
            request.max_output_tokens = max_output_tokens;
            let request_sha256 = self.history.request_sha256();
            let asked_at = Instant::now();
            fp!("turn.asking");
            let failed = match self.task.model.attempt(&request, self.stop).await {
                Ok(reply) => {
                    fp!("turn.replied");
                    self.output_cap.see(&reply);
                    self.take(&reply, request_sha256, asked_at).await?;
                    return Ok(Asked::Replied(reply));
                }
                Err(failed) => failed,
            };
            self.lose(&failed).await?;
            match failed.error {
                ModelError::Cancelled => {
                    return Ok(Asked::Ended(self.must_stop().unwrap_or(Stop::Cancelled)));
                }
                ModelError::ContextOverflow(why) => {
                    if shortened || !self.shorten_after(&why).await? {
                        return Ok(Asked::Ended(self.stuck(&Stuck::TooLong { said: why })));
                    }
                    shortened = true;
                    if let Some(stop) = self.must_stop() {
                        return Ok(Asked::Ended(stop));
                    }
                }
                error => return Err(error.into()),
            }
        }
    }

    /// Counts what a call may have cost that gave no reply.
    async fn lose(&mut self, failed: &Failed) -> Result<(), SolveError> {
        self.meter.charge_lost(failed);
        leave::lost(self.task, self.meter.turns + 1, failed).await?;
        self.store().await
    }

    /// Most tokens of the next reply.
    fn max_output(&mut self) -> u32 {
        let mut profile = self.task.model.profile();
        profile.context_window = profile.context_window.min(self.window.unwrap_or(u64::MAX));
        self.output_cap.ask_for(&profile, self.history.tokens())
    }

    fn request(&self) -> ChatRequest {
        ChatRequest {
            agent: self.task.name.to_owned(),
            purpose: Purpose::Turn,
            messages: self.history.messages(),
            tools: self.specs.clone(),
            max_output_tokens: self.task.model.profile().max_output_tokens,
            repo: Some(self.task.brief.repo.clone()),
            turn: self.history.replies(),
            live: self.task.live.clone(),
        }
    }

    /// Counts, records and keeps a reply, before anything is done with it.
    async fn take(&mut self, reply: &ChatReply, request_sha256: String, asked_at: Instant) -> Result<(), SolveError> {
        self.meter.charge(reply);
        let event = self.written().reply(reply, millis(asked_at));
        self.note(Entry::Replied {
            message: Arc::new(self.written().kept(self.task, reply)),
            finish: reply.finish,
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            model: reply.model.clone(),
            request_sha256,
            took_ms: millis(asked_at),
        });
        self.store_with(Some(event)).await?;
        Ok(self.written().notes(self.task, reply).await?)
    }

    fn written(&self) -> Written<'static> {
        Written {
            turn: self.meter.turns,
            agent: "",
            max_calls: MAX_CALLS,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }

    /// A reply without a call: the model is asked to make one, but not for ever.
    pub(super) fn answer_silence(&mut self, reply: &ChatReply) -> Option<Stop> {
        if let Some(why) = self.discipline.see_silence() {
            return Some(self.stuck(&why));
        }
        self.remark(match reply.finish {
            FinishReason::Length => CUT,
            FinishReason::Filtered => {
                "The server refused or filtered your reply. Go on in another way, or call `finish` with the status `refused`."
            }
            FinishReason::Stop | FinishReason::ToolCalls => {
                "Your reply called no tool, so nothing was done. If the work is complete, call `finish`; otherwise go on \
                 with the next tool call."
            }
        });
        None
    }

    /// Runs the calls of a reply in order. Every call gets one output, whatever happens.
    pub(super) async fn run_calls(&mut self, reply: &ChatReply) -> Result<Option<Stop>, SolveError> {
        let end = self.run_each(&reply.tool_calls, false).await?;
        if end.is_none() && reply.finish == FinishReason::Length {
            self.remark(CUT);
        }
        if end.is_none() && reply.tool_calls.len() > MAX_CALLS {
            self.remark(&format!(
                "Only the first {MAX_CALLS} calls of your reply were run. Make fewer at once."
            ));
        }
        Ok(end)
    }

    /// Runs what an interruption left of the last reply, so that the model need not be asked for
    /// it again. Only the first of these calls can have begun.
    pub(super) async fn run_unanswered(&mut self) -> Result<Option<Stop>, SolveError> {
        let calls = self.history.unanswered();
        if calls.is_empty() {
            return Ok(None);
        }
        self.run_each(&calls, true).await
    }

    async fn run_each(&mut self, calls: &[ToolCall], interrupted: bool) -> Result<Option<Stop>, SolveError> {
        let mut end: Option<Stop> = None;
        let (mut right, mut failed) = (0, 0);
        for (at, call) in calls.iter().take(MAX_CALLS).enumerate() {
            let called_at = Instant::now();
            let ran = match &end {
                Some(_) => Ran::skipped("not run: the work ended before this call".to_owned()),
                None if interrupted && !self.may_run_late(call, at) => Ran {
                    ok: false,
                    ..Ran::well(INTERRUPTED.to_owned())
                },
                None => {
                    self.announce(call).await?;
                    fp!("tool.announced");
                    self.run_call(call, failed).await?
                }
            };
            if matches!(ran.end, Some(Stop::NeedsInput(_))) {
                // This call and those behind it are made when the answer is there.
                return Ok(ran.end);
            }
            fp!("tool.ran");
            right += usize::from(ran.was_right);
            failed += usize::from(!ran.ok);
            end = end.or(ran.end);
            self.push_output(call, ran.output, ran.ok, called_at).await?;
            // What the call did is in the workspace; its output must not get lost. But in a
            // conversation in which `finish` is answered one could only go on: whoever resumes
            // shall find how it ended, or the call of `finish` still without an answer.
            if !matches!(end, Some(Stop::Finished(_))) {
                self.store().await?;
                fp!("tool.stored");
            }
        }
        match self.discipline.end_turn(right) {
            Next::Stop(why) => end = end.or(Some(self.stuck(&why))),
            Next::Say(nudge) if end.is_none() => {
                self.remark(&nudge.words);
                let text = stuck::idle(self.task.setting.language, nudge.turns, nudge.ends_after);
                self.task.recorder.record(RunEvent::Noted { text }).await?;
            }
            Next::Say(_) | Next::GoOn => {}
        }
        Ok(end)
    }

    /// The run does not get on, as people are told.
    fn stuck(&self, why: &Stuck) -> Stop {
        Stop::Stuck(stuck::why(self.task.setting.language, why))
    }

    /// Tells people what is going to run; it may take minutes.
    async fn announce(&self, call: &ToolCall) -> Result<(), SolveError> {
        let event = RunEvent::ToolStarted {
            turn: self.meter.turns,
            tool: text::cap_chars(&call.name, 100),
            arguments: text::cap_middle(&call.arguments, MAX_STARTED_BYTES),
        };
        Ok(self.task.recorder.record(event).await?)
    }

    /// Whether a call of an interrupted reply may be made now. The first can have begun; in others
    /// a secret may have been taken out of the arguments when they were stored.
    fn may_run_late(&self, call: &ToolCall, at: usize) -> bool {
        let asks = matches!(call.name.as_str(), "ask_user" | "confirm" | "propose_plan");
        let is_whole = !call.arguments.contains(REDACTED);
        asks || is_whole && (at > 0 || self.task.tools.may_repeat(call) || gate::was_asked(self.task, call))
    }

    async fn run_call(&mut self, call: &ToolCall, failed_before: usize) -> Result<Ran, SolveError> {
        let again = match self.discipline.before(call) {
            Repeat::No => None,
            Repeat::Again(words) => Some(words),
            Repeat::TooOften(why) => {
                return Ok(Ran {
                    end: Some(self.stuck(&why)),
                    ..Ran::skipped("not run: the same was done before, with nothing new between".to_owned())
                });
            }
        };
        if let Some(words) = self.output_cap.cut(call) {
            return Ok(Ran::skipped(words));
        }
        if let Some(words) = self.comes_too_early(call) {
            return Ok(Ran::skipped(words));
        }
        if let Some(refused) = gate::nobody_to_ask(self.task, call).await? {
            return Ok(refused.into());
        }
        if let Some(refused) = gate::permit(self.task, call).await? {
            return Ok(refused.into());
        }
        let context = ToolContext {
            sandbox: self.task.sandbox,
            code: self.task.code,
            cancel: self.stop,
        };
        let mut ran = match self.task.tools.call(&context, call).await {
            Ok(ToolOutput::Text(output)) => Ran::well(output),
            Ok(ToolOutput::Plan(steps, output)) => {
                self.discipline.plan.clone_from(&steps);
                self.task.recorder.record(RunEvent::PlanUpdated { steps }).await?;
                Ran::well(output)
            }
            Ok(ToolOutput::Draft(draft, drafting)) => match self.keep_draft(*draft, drafting)? {
                Ok(words) => Ran::well(words),
                Err(problem) => Ran {
                    ok: false,
                    ..Ran::well(problem)
                },
            },
            Ok(ToolOutput::Ask(Question::Plan(plan))) => {
                let heard = self.propose(plan).await;
                Ran {
                    end: heard.end,
                    ..Ran::well(heard.output)
                }
            }
            Ok(ToolOutput::Ask(question)) => gate::ask(self.task, question).await?.into(),
            Ok(ToolOutput::Finish(_)) if failed_before > 0 && self.meter.turns_left() > 0 => Ran {
                ok: false,
                ..Ran::well("not finished: another call of the same reply failed; look at that first".to_owned())
            },
            Ok(ToolOutput::Finish(finish)) => self.finish(finish).await,
            Ok(ToolOutput::Delegate(errand)) => self.delegate(&errand).await?,
            Ok(ToolOutput::Conclude(_)) => Ran::skipped("not run: only a helper concludes".to_owned()),
            Err(ToolError::BadCall(problem)) => Ran::skipped(problem),
            Err(ToolError::ForModel(problem)) => Ran {
                ok: false,
                ..Ran::well(problem)
            },
            Err(ToolError::Fatal(SandboxError::Cancelled)) => Ran {
                end: Some(self.must_stop().unwrap_or(Stop::Cancelled)),
                ..Ran::skipped("interrupted: the run was stopped".to_owned())
            },
            Err(ToolError::Fatal(broken)) => return Err(broken.into()),
        };
        let hint = self.discipline.after(call, &ran.output, ran.ok);
        for words in again.into_iter().chain(hint).filter(|_| ran.end.is_none()) {
            ran.output.push('\n');
            ran.output.push_str(&words);
        }
        Ok(ran)
    }

    /// Ends the work, unless something is missing that the model can still do.
    async fn finish(&mut self, finish: Finish) -> Ran {
        if matches!(finish, Finish::Done { .. }) && self.waits_for_approval() {
            return Ran {
                ok: false,
                ..Ran::well(NOT_APPROVED.to_owned())
            };
        }
        let is_last = self.meter.is_at_the_end();
        match self.discipline.why_not_finished(&finish, is_last, self.stop).await {
            Some(why) => Ran {
                ok: false,
                ..Ran::well(why)
            },
            None => Ran {
                end: Some(Stop::Finished(finish)),
                ..Ran::well("The work is finished.".to_owned())
            },
        }
    }

    /// Sends a child on an errand.
    async fn delegate(&mut self, errand: &Errand) -> Result<Ran, SolveError> {
        self.discipline.children += 1;
        let number = self.discipline.children;
        let returned = subagent::send(self.task, &mut self.meter, errand, number, self.stop).await?;
        let (output, ok, review) = subagent::in_words(errand, &returned);
        if let Some(review) = review {
            self.discipline.see_review(review.counts());
        }
        let end = (returned == subagent::Returned::Stopped).then(|| self.must_stop().unwrap_or(Stop::Cancelled));
        Ok(Ran {
            ok,
            end,
            ..Ran::well(output)
        })
    }

    async fn push_output(
        &mut self,
        call: &ToolCall,
        output: String,
        ok: bool,
        called_at: Instant,
    ) -> Result<(), SolveError> {
        let clean = self.task.recorder.redactor().redact(&output);
        let cap = winddown::output_cap(MAX_OUTPUT_BYTES, &self.meter.left(), &self.task.budget);
        let shown = text::cap_middle(&text::reveal(&clean), cap);
        let event = self.written().called(call, &shown, ok, millis(called_at));
        self.say(Message::tool(call.id.clone(), shown));
        self.task.recorder.record(event).await?;
        Ok(())
    }
}

/// What the model is told when its output limit cut a reply.
const CUT: &str = "Your last reply was cut off by the output limit. A tool call that was not complete has not been run. \
                   Make the next reply shorter: write large files in several steps, with fewer calls at once.";

/// How a call went.
struct Ran {
    output: String,
    ok: bool,
    /// Whether the call itself was right, even if what it asked for failed.
    was_right: bool,
    end: Option<Stop>,
}

impl Ran {
    fn well(output: String) -> Self {
        Self {
            output,
            ok: true,
            was_right: true,
            end: None,
        }
    }

    /// Nothing was run.
    fn skipped(output: String) -> Self {
        Self {
            output,
            ok: false,
            was_right: false,
            end: None,
        }
    }
}

impl From<gate::Gated> for Ran {
    fn from(gated: gate::Gated) -> Self {
        Self {
            ok: gated.ok,
            end: gated.end,
            ..Self::well(gated.output)
        }
    }
}

pub(super) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
