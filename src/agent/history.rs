//! The working set: what a request shows of a conversation's log, kept up to date entry by entry,
//! with a running count of its tokens. Called by `turn` and `compact`. Never shows a call without
//! its output right behind it or an output without its call, whatever the log holds.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::summary;
use crate::conversation::{Entry, fingerprint, fingerprint_of_tools};
use crate::event::Usage;
use crate::model::{Message, Role, ToolCall, ToolSpec};

/// What a tool call is answered with whose run was interrupted.
pub(super) const INTERRUPTED: &str = "[interrupted: the run was stopped before this call ended. The workspace may already hold its effect; look before you repeat it.]";

/// Outputs up to this size are not worth dropping.
const SMALL_BYTES: usize = 1_024;

/// Below this count a server's own count says too little about ours: its template and the fixed
/// cost of a request weigh too much.
const TELLING_TOKENS: u64 = 1_000;

/// How far the server's count of tokens may lead ours: a server that says less than the lower bound
/// has cut the conversation, one that says more counts something else.
const RATIO: (f64, f64) = (0.4, 2.0);

/// A message as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// Position of its entry in the log.
    pub(super) at: u64,
    pub(super) message: Arc<Message>,
    pub(super) tokens: u64,
    fingerprint: Option<[u8; 32]>,
}

impl Shown {
    pub(super) fn new(at: u64, message: Arc<Message>) -> Self {
        Self {
            at,
            tokens: message.tokens(),
            message,
            fingerprint: None,
        }
    }

    fn is(&self, role: Role) -> bool {
        self.message.role == role
    }
}

/// The working set and what is known of the whole log.
#[derive(Debug)]
pub(super) struct History {
    /// Delimits text that is not the program's own.
    fence: String,
    /// Entries of the log so far.
    length: u64,
    /// Replies since the conversation began, shown or not.
    replies: u32,
    /// The rules and the brief: always shown.
    opening: Vec<Shown>,
    /// What stands for a span that is not shown; added to the last message of the opening.
    summary: Option<Shown>,
    /// Everything since.
    rest: Vec<Shown>,
    /// Ids of calls of the latest reply without an output.
    open: Vec<String>,
    /// Tokens of all that is shown, by our own count.
    counted: u64,
    /// Tokens of the tools, counted once.
    tools: u64,
    tools_fingerprint: [u8; 32],
    /// The server's count over ours.
    ratio: f64,
}

impl History {
    /// An empty conversation with these tools, whose summaries stand in this fence.
    pub(super) fn new(fence: &str, tools: &[ToolSpec]) -> Self {
        Self {
            fence: fence.to_owned(),
            length: 0,
            replies: 0,
            opening: Vec::new(),
            summary: None,
            rest: Vec::new(),
            open: Vec::new(),
            counted: 0,
            tools: tools.iter().map(ToolSpec::tokens).sum(),
            tools_fingerprint: fingerprint_of_tools(tools),
            ratio: 1.0,
        }
    }

    /// Entries of the log so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Replies since the conversation began, shown or not.
    pub(super) fn replies(&self) -> u32 {
        self.replies
    }

    /// Whether nothing was said yet.
    pub(super) fn is_empty(&self) -> bool {
        self.opening.is_empty() && self.rest.is_empty()
    }

    /// Calls of the latest reply that have no output yet.
    pub(super) fn unanswered(&self) -> Vec<ToolCall> {
        let reply = self.rest.iter().rfind(|shown| shown.is(Role::Assistant));
        let calls = reply.map_or(&[][..], |reply| &reply.message.tool_calls);
        calls
            .iter()
            .filter(|call| self.open.contains(&call.id))
            .cloned()
            .collect()
    }

    /// What was said since, as far as it is shown.
    pub(super) fn rest(&self) -> &[Shown] {
        &self.rest
    }

    /// The summary in force, as it is shown.
    pub(super) fn summary(&self) -> Option<&str> {
        self.summary.as_ref().map(|shown| shown.message.content.as_str())
    }

    /// The messages of a request.
    pub(super) fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages: Vec<Arc<Message>> = Vec::with_capacity(self.opening.len() + self.rest.len() + 1);
        messages.extend(self.opening.iter().map(|shown| shown.message.clone()));
        if let Some(summary) = &self.summary {
            match messages.last_mut().filter(|last| last.role == Role::User) {
                Some(last) => *last = joined(last, &summary.message),
                None => messages.push(summary.message.clone()),
            }
        }
        messages.extend(self.rest.iter().map(|shown| shown.message.clone()));
        messages
    }

    /// Cautious count of the tokens that a request with all that is shown makes the model read;
    /// where the server has counted before, by its measure.
    pub(super) fn tokens(&self) -> u64 {
        self.by_servers_measure(self.counted + self.tools)
    }

    /// Our own count by the measure of the server.
    pub(super) fn by_servers_measure(&self, counted: u64) -> u64 {
        (counted as f64 * self.ratio) as u64
    }

    /// Fingerprint of a request with all that is shown, hex.
    pub(super) fn request_sha256(&mut self) -> String {
        let mut hash = Sha256::new_with_prefix(self.tools_fingerprint);
        let shown = self.opening.iter_mut().chain(&mut self.summary).chain(&mut self.rest);
        for shown in shown {
            hash.update(shown.fingerprint.get_or_insert_with(|| fingerprint(&shown.message)));
        }
        hex::encode(hash.finalize())
    }

    /// Takes the next entry of the log.
    pub(super) fn take(&mut self, entry: &Entry) {
        let at = self.length;
        self.length += 1;
        match entry {
            Entry::Said { message } if message.role == Role::Tool => self.take_output(at, message),
            Entry::Said { message } => {
                self.close_calls(at);
                self.take_words(at, message);
            }
            Entry::Replied { message, usage, .. } => {
                self.close_calls(at);
                self.calibrate(usage);
                self.replies = self.replies.saturating_add(1);
                self.take_reply(at, message);
            }
            Entry::Refused { .. } => {}
            Entry::Shed { before } => self.shed(*before),
            Entry::Summarised { from, to, summary, .. } => self.summarise(*from, *to, summary),
            Entry::Restarted => {
                self.opening.clear();
                self.summary = None;
                self.rest.clear();
                self.open.clear();
                self.replies = 0;
                self.counted = 0;
            }
        }
    }

    fn push(&mut self, at: u64, message: Arc<Message>) {
        let shown = Shown::new(at, message);
        self.counted += shown.tokens;
        // The opening ends with the first reply.
        if self.rest.is_empty() && self.replies == 0 {
            self.opening.push(shown);
        } else {
            self.rest.push(shown);
        }
    }

    /// Words of ours or of people. Behind other such words they are added to them.
    fn take_words(&mut self, at: u64, message: &Arc<Message>) {
        let last = self.rest.last_mut();
        let last = match (last, self.replies) {
            (None, 0) => self.opening.last_mut(),
            (last, _) => last,
        };
        match last {
            Some(last) if last.is(Role::User) && message.role == Role::User => {
                self.counted -= last.tokens;
                *last = Shown::new(last.at, joined(&last.message, message));
                self.counted += last.tokens;
            }
            _ => self.push(at, message.clone()),
        }
    }

    /// Of calls with the same id, the first is shown: an output could not say which it answers.
    fn take_reply(&mut self, at: u64, message: &Arc<Message>) {
        self.open.clear();
        for call in &message.tool_calls {
            if !self.open.contains(&call.id) {
                self.open.push(call.id.clone());
            }
        }
        if self.open.len() == message.tool_calls.len() {
            return self.push(at, message.clone());
        }
        let mut once = message.as_ref().clone();
        let mut seen: Vec<String> = Vec::new();
        once.tool_calls.retain(|call| {
            let is_new = !seen.contains(&call.id);
            seen.push(call.id.clone());
            is_new
        });
        self.push(at, Arc::new(once));
    }

    /// An output that no open call asked for is not shown.
    fn take_output(&mut self, at: u64, message: &Arc<Message>) {
        let answered = message.tool_call_id.as_ref();
        if let Some(found) = self.open.iter().position(|id| Some(id) == answered) {
            self.open.remove(found);
            self.push(at, message.clone());
        }
    }

    /// Whatever comes now is no output: calls that have none get one that says so.
    fn close_calls(&mut self, at: u64) {
        for id in std::mem::take(&mut self.open) {
            self.push(at, Arc::new(Message::tool(id, INTERRUPTED)));
        }
    }

    /// Learns how the server counts, from the reply to a request with all that is shown now.
    fn calibrate(&mut self, usage: &Usage) {
        let counted = self.counted + self.tools;
        if usage.reported && counted >= TELLING_TOKENS {
            let ratio = usage.input_tokens as f64 / counted as f64;
            if (RATIO.0..=RATIO.1).contains(&ratio) {
                self.ratio = ratio;
            }
        }
    }

    /// Bulky outputs and reasoning before a position are not shown any more; calls stay.
    fn shed(&mut self, before: u64) {
        for shown in self.rest.iter_mut().filter(|shown| shown.at < before) {
            if let Some(slim) = slimmed(&shown.message) {
                *shown = Shown::new(shown.at, Arc::new(slim));
            }
        }
        self.count_again();
    }

    /// A span is not shown any more; the summary stands for it and for the summary before. Only
    /// whole turns go, so a span that ends in the middle of one ends before it.
    fn summarise(&mut self, from: u64, to: u64, summary: &str) {
        let mut start = self.rest.partition_point(|shown| shown.at < from);
        while self.rest.get(start).is_some_and(|shown| shown.is(Role::Tool)) {
            start += 1;
        }
        let mut end = self.rest.partition_point(|shown| shown.at < to);
        let cuts_a_turn = |end: usize| match self.rest.get(end) {
            Some(next) => next.is(Role::Tool),
            None => !self.open.is_empty(),
        };
        if cuts_a_turn(end) {
            end = self.rest[..end]
                .iter()
                .rposition(|shown| shown.is(Role::Assistant))
                .unwrap_or(0);
        }
        if start < end {
            self.rest.drain(start..end);
            let framed = summary::framed(summary, &self.fence);
            self.summary = Some(Shown::new(from, Arc::new(Message::user(framed))));
            self.count_again();
        }
    }

    fn count_again(&mut self) {
        let shown = self.opening.iter().chain(&self.summary).chain(&self.rest);
        self.counted = shown.map(|shown| shown.tokens).sum();
    }
}

/// Two of our messages as one, since some chat templates want user and assistant to take turns.
fn joined(one: &Message, other: &Message) -> Arc<Message> {
    Arc::new(Message::user(format!("{}\n\n{}", one.content, other.content)))
}

/// The message without what is bulky in it, if anything is.
pub(super) fn slimmed(message: &Message) -> Option<Message> {
    match message.role {
        Role::Tool if message.content.len() > SMALL_BYTES => Some(Message {
            content: format!(
                "[{} bytes of output were dropped to make room; make the call again if you need it]",
                message.content.len()
            ),
            ..message.clone()
        }),
        Role::Assistant if !message.reasoning.is_empty() => Some(Message {
            reasoning: String::new(),
            ..message.clone()
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
