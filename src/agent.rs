//! The agent: brief and workspace in, solution out, through a loop of model turns and tool calls.
//! Called by `run`. Never knows GitHub or SQL, and never publishes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::draft::Draft;
use crate::ids::RepoName;
use crate::model::{Live, Message, Model};
use crate::permission::Policy;
use crate::recorder::Recorder;
use crate::retrieval::code_search::CodeSearch;
use crate::sandbox::Sandbox;
use crate::tool::{Finish, Mode, Thread, Toolbox};

mod act;
mod budget;
mod compact;
mod discipline;
mod drafts;
mod finish;
mod frame;
mod gate;
mod history;
mod instructed;
mod leave;
mod output_cap;
mod people;
mod progress;
mod prompt;
mod setting;
mod subagent;
mod summary;
mod turn;
mod watch;
mod winddown;
mod written;

pub use people::{Answer, People, Question, Reply, Unattended, answer};
pub use setting::{Guidance, Setting};

use budget::Meter;
use progress::Progress;
use turn::Asked;

/// Checkpoint with how far the conversation of the leading agent got.
pub const CONVERSATION: &str = "conversation";

/// What the agent is asked. Text of strangers is framed as such when the prompt is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// What the run is for.
    #[serde(default)]
    pub mode: Mode,
    /// The repository.
    pub repo: RepoName,
    /// Title of the issue, pull request or task.
    pub title: String,
    /// Issue body and discussion: text of strangers.
    pub request: String,
    /// Words of the person who triggered the run.
    pub instructions: String,
    /// The repository's own rules (AGENTS.md, `instructions`), from the default branch.
    pub rules: String,
    /// Commands that will verify the change.
    pub checks: Vec<String>,
    /// Some paths of the repository, for orientation.
    pub files: Vec<String>,
    /// What happened before the agent began, for example a failed set-up command.
    pub notes: Vec<String>,
    /// Places of the code that the request may be about, a line each, the likeliest first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub places: String,
    /// Folders and files with their main symbols, for orientation; in place of `files`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub map: String,
    /// Review threads that the run is about; a run that changes code gives a verdict on each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Thread>,
}

/// Limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Most model replies.
    pub max_turns: u32,
    /// Most tokens.
    pub max_tokens: u64,
    /// Most US dollars; 0 is no cap by money. Where a ledger is asked, its other caps hold as well,
    /// and somebody may have set another one in place of this.
    pub max_cost_usd: f64,
    /// Most time for the agent.
    pub max_time: std::time::Duration,
}

/// Enough to go on after a crash, together with the log of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Turns done.
    pub turn: u32,
    /// Entries that the log had.
    #[serde(default)]
    pub logged: u64,
    /// Messages behind the last entry of the log. Conversations of older versions stand here as a
    /// whole.
    #[serde(default, alias = "messages", skip_serializing_if = "Vec::is_empty")]
    pub unlogged: Vec<Message>,
    /// Tokens so far.
    pub tokens: u64,
    /// Money so far.
    pub cost_usd: f64,
    /// Time so far, in milliseconds.
    #[serde(default)]
    pub spent_ms: u64,
    /// The model's real context window, where it turned out to be smaller than its profile says.
    #[serde(default)]
    pub window: Option<u64>,
    /// Drafts of issues that it gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<Draft>,
    /// Whether people approved the plan that was proposed.
    #[serde(default)]
    pub is_approved: bool,
    /// How many instructions that came while it worked the agent was given.
    #[serde(default)]
    pub heard: u32,
}

impl Checkpoint {
    /// Nothing said and nothing spent.
    pub const NEW: Self = Self {
        turn: 0,
        logged: 0,
        unlogged: Vec::new(),
        tokens: 0,
        cost_usd: 0.0,
        spent_ms: 0,
        window: None,
        drafts: Vec::new(),
        is_approved: false,
        heard: 0,
    };

    /// Whether anything was said.
    pub fn has_begun(&self) -> bool {
        self.logged > 0 || !self.unlogged.is_empty()
    }

    /// Only what was spent, for a run that begins the conversation anew.
    #[must_use]
    pub fn only_spent(self) -> Self {
        Self {
            logged: 0,
            unlogged: Vec::new(),
            drafts: Vec::new(),
            heard: 0,
            ..self
        }
    }

    /// The same conversation with something more said to the model, for a run that goes on.
    #[must_use]
    pub fn with_remark(mut self, words: &str) -> Self {
        self.unlogged.push(Message::user(words));
        self
    }
}

/// How the loop ended: values of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The agent called `finish`.
    Finished(Finish),
    /// A limit was reached, in words.
    Budget(String),
    /// The run was stopped.
    Cancelled,
    /// It did not get on, in words.
    Stuck(String),
    /// A person has to answer before it can go on.
    NeedsInput(Question),
}

/// What the agent leaves; the change itself is in the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// How it ended.
    pub stop: Stop,
    /// The last words of the model when it did not finish.
    pub last_words: String,
    /// The conversation, so that it can go on when the change does not pass its checks.
    pub conversation: Checkpoint,
}

impl Solution {
    /// This one, or how the work had ended before, where the agent was sent back and no limit left it
    /// a single reply: then nothing has changed since.
    #[must_use]
    pub fn or_before(self, before: Self) -> Self {
        let is_unchanged = self.conversation.turn == before.conversation.turn;
        match self.stop {
            Stop::Budget(_) if is_unchanged => before,
            _ => self,
        }
    }
}

/// Everything a run of the agent needs.
pub struct Task<'a> {
    /// Name of the agent's log: [`MAIN`](crate::conversation::MAIN), or a child's own.
    pub name: &'a str,
    /// Random for each run: what delimits text of strangers.
    pub fence: &'a str,
    /// What is asked.
    pub brief: &'a Brief,
    /// What is known of the place.
    pub setting: &'a Setting,
    /// Where.
    pub sandbox: &'a Arc<dyn Sandbox>,
    /// The index of the code, where there is one.
    pub code: Option<&'a CodeSearch>,
    /// By whom.
    pub model: &'a dyn Model,
    /// With what.
    pub tools: &'a Toolbox,
    /// Events and checkpoints go here.
    pub recorder: &'a Recorder,
    /// Within which limits.
    pub budget: Budget,
    /// What tool calls may do without asking.
    pub permission: &'a Policy,
    /// Who can be asked.
    pub people: &'a dyn People,
    /// Who watches replies arrive.
    pub live: Live,
    /// Stop.
    pub cancel: &'a CancellationToken,
    /// Where an earlier attempt got to.
    pub resume: Option<Checkpoint>,
}

/// Why there is no solution.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The model does not answer.
    #[error(transparent)]
    Model(#[from] crate::model::ModelError),
    /// The sandbox broke.
    #[error(transparent)]
    Sandbox(#[from] crate::sandbox::SandboxError),
    /// The run may not write any more, or cannot.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

#[cfg(feature = "failpoints")]
impl From<crate::fault::Injected> for SolveError {
    fn from(injected: crate::fault::Injected) -> Self {
        SolveError::Store(injected.into())
    }
}

/// Works until the agent finishes or has to stop.
///
/// # Errors
/// When the model, the sandbox or the database cannot go on. What was done until then is in the
/// log.
pub async fn solve(task: Task<'_>) -> Result<Solution, SolveError> {
    let mut meter = Meter::new(task.budget, task.resume.as_ref());
    meter.speak(task.setting.language);
    if task.recorder.has_ledger() {
        meter.leave_money_to_the_ledger();
    }
    let stop = task.cancel.child_token();
    let time_left = meter.time_left();
    let work = work(&task, meter, &stop);
    tokio::pin!(work);
    tokio::select! {
        biased;
        solution = &mut work => solution,
        () = tokio::time::sleep(time_left) => {
            // Ends the call to the model or the command that is running; the loop does the rest.
            stop.cancel();
            work.await
        }
    }
}

async fn work(task: &Task<'_>, meter: Meter, stop: &CancellationToken) -> Result<Solution, SolveError> {
    let mut progress = Progress::begin(task, meter, stop).await?;
    if let Some(stop) = progress.run_unanswered().await? {
        return Ok(progress.solution(stop));
    }
    loop {
        if let Some(stop) = progress.must_stop() {
            return Ok(progress.solution(stop));
        }
        progress.warn().await?;
        progress.hear().await?;
        let reply = match progress.ask().await? {
            Asked::Replied(reply) => reply,
            Asked::Ended(stop) => return Ok(progress.solution(stop)),
        };
        let end = if reply.tool_calls.is_empty() {
            progress.answer_silence(&reply)
        } else {
            progress.run_calls(&reply).await?
        };
        if !matches!(end, Some(Stop::Finished(_))) {
            progress.store().await?;
        }
        if let Some(stop) = end {
            return Ok(progress.solution(stop));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_of_older_versions_are_read_and_go_on() {
        let old = r#"{"turn":2,"messages":[{"role":"system","content":"Rules."},{"role":"user","content":"Brief."},{"role":"assistant","content":"I look.","tool_calls":[{"id":"a","name":"glob","arguments":"{}"}]},{"role":"tool","content":"x","tool_call_id":"a"}],"tokens":10,"cost_usd":0.5,"spent_ms":7}"#;
        let checkpoint: Checkpoint = serde_json::from_str(old).unwrap();
        assert!(checkpoint.has_begun());
        assert_eq!((checkpoint.logged, checkpoint.unlogged.len()), (0, 4));
        assert_eq!(checkpoint.unlogged[2].tool_calls[0].name, "glob");
        let spent = checkpoint.clone().only_spent();
        assert_eq!((spent.has_begun(), spent.turn, spent.tokens), (false, 2, 10));
        let now = serde_json::to_string(&checkpoint.with_remark("more")).unwrap();
        let again: Checkpoint = serde_json::from_str(&now).unwrap();
        assert_eq!(again.unlogged.last(), Some(&Message::user("more")));
    }
}
