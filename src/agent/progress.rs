//! How far the work has got: begun or taken up again, written down as it goes, handed over at the
//! end. Called by the loop in `agent` and by the turns. Never has more in memory than is stored,
//! but for what can be said again.

use tokio_util::sync::CancellationToken;

use super::budget::Meter;
use super::discipline::Discipline;
use super::history::History;
use super::output_cap::OutputCap;
use crate::agent::{CONVERSATION, Checkpoint, Solution, SolveError, Stop, Task};
use crate::conversation::{Entry, MAIN};
use crate::draft::Draft;
use crate::event::RunEvent;
use crate::model::{Message, Role, ToolSpec};
use crate::recorder::Latest;
use crate::store::StoreError;
use crate::text;

/// Most bytes of the model's last words in a solution.
const MAX_LAST_WORDS_BYTES: usize = 4 * 1024;

/// How far the work has got.
pub(super) struct Progress<'a> {
    pub(super) task: &'a Task<'a>,
    /// Cancelled when the run is stopped or its time is over.
    pub(super) stop: &'a CancellationToken,
    pub(super) history: History,
    /// Entries that the history has and the stored log does not have yet.
    unstored: Vec<Entry>,
    pub(super) meter: Meter,
    pub(super) discipline: Discipline<'a>,
    pub(super) output_cap: OutputCap,
    pub(super) specs: Vec<ToolSpec>,
    /// The model's real context window, where it turned out to be smaller than its profile says.
    pub(super) window: Option<u64>,
    /// Drafts of issues that the model gave.
    pub(super) drafts: Vec<Draft>,
    /// Whether people approved the plan, where one comes first.
    pub(super) is_approved: bool,
    /// Instructions that came meanwhile and were passed on.
    pub(super) heard: u32,
}

impl<'a> Progress<'a> {
    /// Begins a conversation, or takes up the one of an earlier attempt.
    pub(super) async fn begin(
        task: &'a Task<'a>,
        meter: Meter,
        stop: &'a CancellationToken,
    ) -> Result<Self, SolveError> {
        let specs = task.tools.specs();
        let mut progress = Self {
            task,
            stop,
            history: load(task, &specs).await?,
            unstored: Vec::new(),
            meter,
            discipline: Discipline::new(task),
            output_cap: OutputCap::default(),
            specs,
            window: None,
            drafts: Vec::new(),
            is_approved: task.resume.as_ref().is_some_and(|earlier| earlier.is_approved),
            heard: task.resume.as_ref().map_or(0, |earlier| earlier.heard),
        };
        match &task.resume {
            Some(earlier) if earlier.has_begun() => progress.take_up(earlier).await?,
            _ => progress.open().await?,
        }
        Ok(progress)
    }

    async fn take_up(&mut self, earlier: &Checkpoint) -> Result<(), SolveError> {
        self.window = earlier.window;
        self.drafts.clone_from(&earlier.drafts);
        // Otherwise they were stored after the checkpoint was.
        if self.history.length() == earlier.logged {
            for message in &earlier.unlogged {
                self.note(Entry::of_old(message.clone()));
            }
        }
        if self.history.is_empty() {
            return self.open().await;
        }
        let said = self.history.rest().iter().map(|shown| &*shown.message);
        self.discipline.recall(said);
        let last = self.history.rest().last().map(|shown| shown.message.role);
        if last == Some(Role::Assistant) && self.history.unanswered().is_empty() {
            self.remark("The run was interrupted here and goes on now.");
        }
        Ok(())
    }

    /// Adds an entry. It is stored with the next reply, output or other thing that cannot be said
    /// again.
    pub(super) fn note(&mut self, entry: Entry) {
        self.history.take(&entry);
        self.unstored.push(entry);
    }

    /// Adds a message.
    pub(super) fn say(&mut self, message: Message) {
        self.note(Entry::said(message));
    }

    /// Says something to the model.
    pub(super) fn remark(&mut self, words: &str) {
        self.say(Message::user(words));
    }

    /// Stores everything that is needed to go on elsewhere. What a child did is done again by
    /// whoever asked it, so only the leading agent is taken up again.
    pub(super) async fn store(&mut self) -> Result<(), SolveError> {
        match self.unstored.is_empty() {
            true => Ok(()),
            false => self.store_with(None).await,
        }
    }

    /// The same with the event that tells of it, at once: no reply is paid for and not kept.
    pub(super) async fn store_with(&mut self, event: Option<RunEvent>) -> Result<(), SolveError> {
        let entries = std::mem::take(&mut self.unstored);
        let first = self.history.length() - entries.len() as u64;
        let body = serde_json::to_vec(&self.conversation())
            .map_err(|error| StoreError::Corrupt(format!("a checkpoint cannot be written: {error}")))?;
        let latest = Latest {
            kind: CONVERSATION,
            seq: i64::from(self.meter.turns),
            body,
        };
        let latest = (self.task.name == MAIN).then_some(latest);
        Ok(self
            .task
            .recorder
            .append(self.task.name, first, &entries, latest, event)
            .await?)
    }

    fn conversation(&self) -> Checkpoint {
        let unlogged = self.unstored.iter().filter_map(Entry::message);
        Checkpoint {
            turn: self.meter.turns,
            logged: self.history.length() - self.unstored.len() as u64,
            unlogged: unlogged.map(|message| Message::clone(message)).collect(),
            tokens: self.meter.tokens,
            cost_usd: self.meter.cost_usd,
            spent_ms: u64::try_from(self.meter.spent().as_millis()).unwrap_or(u64::MAX),
            window: self.window,
            drafts: self.drafts.clone(),
            is_approved: self.is_approved,
            heard: self.heard,
        }
    }

    /// What is handed over at the end.
    pub(super) fn solution(&self, stop: Stop) -> Solution {
        let mut said = self.history.rest().iter().rev().map(|shown| &shown.message);
        let last_words = said
            .find(|message| message.role == Role::Assistant && !message.content.is_empty())
            .map_or("", |message| &message.content);
        Solution {
            stop,
            last_words: text::reveal(&text::cap_middle(last_words, MAX_LAST_WORDS_BYTES)),
            conversation: self.conversation(),
        }
    }
}

/// The working set of the stored log, read in portions.
async fn load(task: &Task<'_>, specs: &[ToolSpec]) -> Result<History, StoreError> {
    let mut history = History::new(task.fence, specs);
    loop {
        let page = task.recorder.conversation(task.name, history.length()).await?;
        if page.is_empty() {
            return Ok(history);
        }
        page.iter().for_each(|entry| history.take(entry));
    }
}
