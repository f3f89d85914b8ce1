//! What happened in a run, in the past tense: an append-only log from which cost, the status
//! comment and reports are folded. Old shapes must stay readable: add fields with defaults,
//! never rename. Never stores uncapped or unredacted text; `recorder` sees to that.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{CommitSha, JobId, RunId};
use crate::job::Outcome;
use crate::question::Question;

/// One entry of the log as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The job.
    pub job: JobId,
    /// Position in the job's log, from 1.
    pub seq: i64,
    /// When, by the database's clock or the run's.
    pub at: DateTime<Utc>,
    /// What happened.
    pub body: RunEvent,
}

/// Tokens of one model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Whether the server said so; otherwise the numbers are our own, cautious count.
    #[serde(default)]
    pub reported: bool,
}

/// Which side of the change a check ran on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before the change.
    Base,
    /// After the change.
    Head,
}

/// Stages of a run, as people see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Asking who may.
    Authorize,
    /// Reading the issue and the repository's rules.
    Brief,
    /// Fetching and checking out.
    Open,
    /// Set-up commands.
    SetUp,
    /// The agent's turns.
    Solve,
    /// Tests on both sides.
    Verify,
    /// Branch, pull request, comments.
    Publish,
}

impl Stage {
    /// The stage in the words of the status comment.
    pub fn words(self) -> &'static str {
        match self {
            Stage::Authorize => "Check permission",
            Stage::Brief => "Read the request",
            Stage::Open => "Check out the repository",
            Stage::SetUp => "Prepare and run the checks before",
            Stage::Solve => "Work on the change",
            Stage::Verify => "Run the checks after",
            Stage::Publish => "Publish",
        }
    }
}

/// One step of the agent's own plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// Whether it has been.
    #[serde(default)]
    pub done: bool,
}

/// A check with its result, as it stands in the verification table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The command.
    pub command: String,
    /// Before or after the change.
    pub side: Side,
    /// Its exit code; `None` when it was killed by a limit or a signal.
    pub exit_code: Option<i32>,
    /// How it ended when not by exiting, for example "timeout after 600 s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The end of its output.
    pub output_tail: String,
}

impl CheckRun {
    /// Whether it passed: exit code zero, nothing else.
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// The job was inserted.
    Queued,
    /// A worker claimed it.
    Claimed {
        /// Which worker.
        worker: String,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// A lease ran out and the job went back to the queue.
    Recovered {
        /// Whose lease it was.
        worker: String,
    },
    /// The job was put off without counting an attempt.
    Snoozed {
        /// Until when.
        until: DateTime<Utc>,
        /// Why.
        reason: String,
    },
    /// An attempt failed in a way that may pass.
    AttemptFailed {
        /// Why.
        reason: String,
        /// When the next one may start.
        retry_at: DateTime<Utc>,
    },
    /// Somebody asked to stop the job.
    CancelRequested {
        /// Who or what.
        reason: String,
    },
    /// An attempt began.
    RunStarted {
        /// Its id.
        run: RunId,
        /// The model's name.
        model: String,
    },
    /// The attempt goes on from a checkpoint of an earlier one.
    RunResumed {
        /// Its id.
        run: RunId,
        /// Turns that need not be repeated.
        turn: u32,
    },
    /// GitHub confirmed that the actor may ask for this.
    Authorized {
        /// Login.
        actor: String,
        /// The role GitHub named.
        permission: String,
    },
    /// A stage began.
    StageStarted {
        /// Which.
        stage: Stage,
    },
    /// A stage ended well.
    StageFinished {
        /// Which.
        stage: Stage,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// The checkout stands in its sandbox.
    WorkspaceOpened {
        /// The commit.
        base_sha: CommitSha,
        /// Which sandbox, with its layers.
        sandbox: String,
    },
    /// Something a person should know and nobody must act on.
    Noted {
        /// The note.
        text: String,
    },
    /// A set-up command ended.
    SetUpRan {
        /// The command.
        command: String,
        /// Its exit code.
        exit_code: Option<i32>,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// The model answered.
    ModelReplied {
        /// Turn, from 1.
        turn: u32,
        /// Which model; with a fallback, not always the same.
        #[serde(default)]
        model: String,
        /// The child that this is of, within the turn; empty for the agent itself.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// What it said.
        text: String,
        /// What it thought, where the server shows it.
        #[serde(default)]
        reasoning: String,
        /// Names of the tools it called.
        tools: Vec<String>,
        /// Tokens.
        usage: Usage,
        /// Money in US dollars; `None` when the price is unknown.
        #[serde(default)]
        cost_usd: Option<f64>,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A tool call began.
    ToolStarted {
        /// Turn, from 1.
        turn: u32,
        /// The tool.
        tool: String,
        /// Its arguments as JSON text, capped.
        #[serde(default)]
        arguments: String,
    },
    /// A call of the model gave no reply, and what came of it may have to be paid for.
    ModelFailed {
        /// Turn it was for, from 1.
        turn: u32,
        /// Which model was asked.
        #[serde(default)]
        model: String,
        /// Why there is no reply.
        text: String,
        /// Tokens that may be charged.
        usage: Usage,
        /// Money in US dollars; `None` when the price is unknown.
        #[serde(default)]
        cost_usd: Option<f64>,
    },
    /// A tool call ended.
    ToolCalled {
        /// Turn, from 1.
        turn: u32,
        /// The child that this is of, within the turn; empty for the agent itself.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// The tool.
        tool: String,
        /// Its arguments as JSON text, capped.
        arguments: String,
        /// What the model was told, capped.
        output: String,
        /// Whether it worked.
        ok: bool,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A command in the sandbox reached a host through the proxy, for the first time in this run.
    HostReached {
        /// `HOST:PORT`.
        host: String,
    },
    /// The proxy kept a command in the sandbox from a host.
    HostBlocked {
        /// `HOST:PORT`, or what the command wrote instead.
        host: String,
        /// Why.
        why: String,
        /// The line of configuration that would allow it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<String>,
    },
    /// The proxy of the run's sandboxes closed after something passed.
    WayOutClosed {
        /// Bytes out of the sandboxes.
        sent_bytes: u64,
        /// Bytes into them.
        received_bytes: u64,
        /// Requests and tunnels.
        requests: u64,
        /// Rows above that found no room in the record.
        #[serde(default)]
        rows_left_out: u64,
    },
    /// A tool call was not made: the rules deny it, or nobody could be asked.
    CallDenied {
        /// The tool.
        tool: String,
        /// What it was about, as the rules see it, capped.
        call: String,
        /// Why, in words.
        why: String,
        /// The line of configuration that would allow it, where one can.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<String>,
    },
    /// A question of the agent reached nobody, and it was told to decide by itself.
    QuestionRefused {
        /// What was asked, capped.
        question: String,
    },
    /// The agent set or changed its plan.
    PlanUpdated {
        /// All steps.
        steps: Vec<PlanStep>,
    },
    /// The conversation was made shorter, so that it fits the model.
    Shortened {
        /// How much, in words.
        text: String,
        /// Which model summarised a part of it, if one was asked.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        /// Tokens of that call.
        #[serde(default)]
        usage: Option<Usage>,
        /// Its money in US dollars; `None` when the price is unknown.
        #[serde(default)]
        cost_usd: Option<f64>,
    },
    /// A limit is near.
    BudgetWarned {
        /// Which, and how far it is used.
        text: String,
    },
    /// People were asked, and the job waits.
    Asked {
        /// What.
        question: Question,
        /// How long an answer is waited for.
        answer_by: DateTime<Utc>,
    },
    /// A person answered, and the job goes on.
    Answered {
        /// Login.
        by: String,
    },
    /// Nobody answered in time.
    Unanswered,
    /// A person added an instruction, and the agent was told.
    Instructed {
        /// Login.
        by: String,
    },
    /// The agent finished, or was stopped with work in hand.
    Solved {
        /// How it ended, in a word: finished, nothing_to_do, budget, stuck, cancelled.
        how: String,
        /// The agent's summary.
        summary: String,
        /// Files changed.
        files: u32,
    },
    /// A check ran.
    Checked {
        /// Its result.
        check: CheckRun,
    },
    /// An effect landed.
    EffectDone {
        /// Its position.
        seq: i64,
        /// Its kind.
        effect: String,
        /// What GitHub calls the result: a comment id, a pull request number, a SHA.
        remote_id: String,
    },
    /// The job ended.
    Finished {
        /// How.
        outcome: Outcome,
    },
    /// The job was given up.
    Died {
        /// Why.
        reason: String,
    },
}

/// What one call of a model is to be paid for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charge<'a> {
    /// Which model; empty in events of older versions.
    pub model: &'a str,
    /// Tokens.
    pub usage: &'a Usage,
    /// Money in US dollars; `None` when the price is unknown.
    pub cost_usd: Option<f64>,
}

impl RunEvent {
    /// What has to be paid for it, if anything.
    pub fn charge(&self) -> Option<Charge<'_>> {
        match self {
            RunEvent::ModelReplied {
                model, usage, cost_usd, ..
            }
            | RunEvent::ModelFailed {
                model, usage, cost_usd, ..
            }
            | RunEvent::Shortened {
                model,
                usage: Some(usage),
                cost_usd,
                ..
            } => Some(Charge {
                model,
                usage,
                cost_usd: *cost_usd,
            }),
            _ => None,
        }
    }

    /// The kind as a word, as it is stored.
    pub fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value
            .get("kind")
            .and_then(|kind| kind.as_str())
            .unwrap_or("unknown")
            .to_owned()
    }
}

/// Sums over a job's log.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    /// Model replies.
    pub turns: u32,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Known money in US dollars.
    pub cost_usd: f64,
    /// Whether some reply had no known price.
    pub price_unknown: bool,
}

impl Totals {
    /// Adds one event.
    pub fn add(&mut self, event: &RunEvent) {
        let Some(Charge { usage, cost_usd, .. }) = event.charge() else {
            return;
        };
        self.turns += u32::from(matches!(event, RunEvent::ModelReplied { .. }));
        self.input_tokens += usage.input_tokens;
        self.output_tokens += usage.output_tokens;
        match cost_usd {
            Some(cost) => self.cost_usd += cost,
            None => self.price_unknown = true,
        }
    }

    /// Folds a log.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a RunEvent>) -> Self {
        let mut totals = Self::default();
        for event in events {
            totals.add(event);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_shapes_still_parse() {
        let old = r#"{"kind":"model_replied","turn":1,"text":"hi","tools":[],"usage":{"input_tokens":1,"output_tokens":2},"took_ms":3}"#;
        let event: RunEvent = serde_json::from_str(old).unwrap();
        let totals = Totals::of([&event]);
        assert_eq!((totals.turns, totals.output_tokens, totals.price_unknown), (1, 2, true));
        assert_eq!(event.kind(), "model_replied");
    }

    #[test]
    fn a_summary_costs_tokens_and_is_no_turn() {
        let shortened =
            r#"{"kind":"shortened","text":"x","usage":{"input_tokens":5,"output_tokens":1},"cost_usd":0.5}"#;
        let free = r#"{"kind":"shortened","text":"x"}"#;
        let events: Vec<RunEvent> = [shortened, free]
            .map(|event| serde_json::from_str(event).unwrap())
            .into();
        let totals = Totals::of(&events);
        assert_eq!((totals.turns, totals.input_tokens, totals.price_unknown), (0, 5, false));
        assert!((totals.cost_usd - 0.5).abs() < 1e-9);
    }
}
