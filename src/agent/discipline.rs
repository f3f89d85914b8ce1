//! The working discipline of one run: what was done is noted, what goes wrong is told, and `finish`
//! is looked at before it ends anything. `turn` asks it before and after each call. Never runs a
//! tool, and never stops a run without a reason in words.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::act::Act;
use super::finish::{self, Ledger, Missing, NOT_FINISHED};
use super::watch::{Next, Repeat, Watch};
use crate::agent::Task;
use crate::event::PlanStep;
use crate::model::{Message, Role, ToolCall};
use crate::phrase::stuck::Stuck;
use crate::sandbox::{Exec, Sandbox, SnapshotRequest};
use crate::text;
use crate::tool::{Finish, Verdict};

/// Longest time for a look at what differs.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of a difference that is shown to a model that did not look.
const MAX_DIFFERENCE_BYTES: usize = 12 * 1024;

/// Most bytes of the rules of one folder.
const MAX_FOLDER_RULES_BYTES: usize = 8 * 1024;

/// What the workspace's own git says of it.
const DIFFERENCE: &str = "git status --short && git --no-pager diff --no-color --no-ext-diff HEAD";

/// What is known of a run's work.
pub(super) struct Discipline<'a> {
    task: &'a Task<'a>,
    watch: Watch,
    ledger: Ledger,
    shown_rules: BTreeSet<&'a str>,
    /// The agent's plan as it stands.
    pub(super) plan: Vec<PlanStep>,
    /// Whether the model was told that a limit is near.
    pub(super) is_winding_down: bool,
    /// Children so far.
    pub(super) children: u32,
    /// Whether it was told which review threads have no verdict.
    has_named_threads: bool,
}

impl<'a> Discipline<'a> {
    /// Begins with nothing done.
    pub(super) fn new(task: &'a Task<'a>) -> Self {
        Self {
            task,
            watch: Watch::new(task.setting.max_explore_turns),
            ledger: Ledger::default(),
            shown_rules: BTreeSet::new(),
            plan: Vec::new(),
            is_winding_down: false,
            children: 0,
            has_named_threads: false,
        }
    }

    /// Notes what an earlier attempt did, from its conversation. Whether a call worked is not in it:
    /// an edit is taken for one that did.
    pub(super) fn recall<'m>(&mut self, messages: impl Iterator<Item = &'m Message>) {
        let mut calls: Vec<&'m ToolCall> = Vec::new();
        for message in messages {
            calls.extend(&message.tool_calls);
            let Some(id) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) else {
                continue;
            };
            let Some(at) = calls.iter().position(|call| call.id == *id) else {
                continue;
            };
            let call = calls.remove(at);
            if message.content.starts_with(NOT_FINISHED) {
                self.ledger.send_back();
            }
            let (tool, arguments) = self.task.tools.resolved(call);
            if tool == "review" && message.content.starts_with(&passed()) {
                self.ledger.see_pass();
            }
            let act = Act::of(&tool, &arguments);
            self.ledger.see(&act, &message.content, &self.task.brief.checks);
        }
    }

    /// Sees a call before it runs.
    pub(super) fn before(&mut self, call: &ToolCall) -> Repeat {
        if self.task.tools.waits(call) {
            return Repeat::No;
        }
        let (tool, arguments) = self.task.tools.resolved(call);
        self.watch.see_call(&tool, &arguments)
    }

    /// Sees a call that ran. Returned is what the model is told behind the output.
    pub(super) fn after(&mut self, call: &ToolCall, output: &str, worked: bool) -> Option<String> {
        let (tool, arguments) = self.task.tools.resolved(call);
        let act = Act::of(&tool, &arguments);
        if worked {
            self.ledger.see(&act, output, &self.task.brief.checks);
        }
        let hint = self.watch.see_output(&tool, &arguments, &act, worked);
        let rules = if worked { self.rules_for(&act) } else { None };
        match (hint, rules) {
            (Some(hint), Some(rules)) => Some(format!("{hint}\n{rules}")),
            (hint, rules) => hint.or(rules),
        }
    }

    /// The rules of the nearest folders that have some, when the agent comes there first.
    fn rules_for(&mut self, act: &Act) -> Option<String> {
        let all = &self.task.setting.guidance.folder_rules;
        let mut words = Vec::new();
        for path in &act.paths {
            let nearest = std::path::Path::new(path)
                .ancestors()
                .filter_map(|folder| folder.to_str())
                .find_map(|folder| all.get_key_value(folder).filter(|_| !folder.is_empty()));
            let Some((folder, rules)) = nearest else { continue };
            if self.shown_rules.insert(folder.as_str()) {
                let rules = text::reveal(&text::cap(rules.trim(), MAX_FOLDER_RULES_BYTES));
                words.push(format!("[Rules of the repository for {folder}/:\n{rules}]"));
            }
        }
        (!words.is_empty()).then(|| words.join("\n"))
    }

    /// Sees the end of a turn with calls.
    pub(super) fn end_turn(&mut self, right_calls: usize) -> Next {
        self.watch.see_turn(right_calls)
    }

    /// Sees a reply without a call. Why the run should end, if it should.
    pub(super) fn see_silence(&mut self) -> Option<Stuck> {
        self.watch.see_silence()
    }

    /// Sees what a review came to.
    pub(super) fn see_review(&mut self, verdict: Verdict) {
        if verdict == Verdict::Pass {
            self.ledger.see_pass();
        }
    }

    /// Why the agent may not finish yet. `None`: it may, as always when this was its last reply.
    pub(super) async fn why_not_finished(
        &mut self,
        finish: &Finish,
        is_last: bool,
        stop: &CancellationToken,
    ) -> Option<String> {
        if is_last {
            return None;
        }
        let open = self.open_threads(finish);
        if !matches!(finish, Finish::Done { .. }) {
            return open.map(|open| finish::in_words(&[open], None));
        }
        let setting = self.task.setting;
        let needs_review = setting.review_before_finish && !self.ledger.is_reviewed();
        if open.is_none() && !needs_review && self.ledger.was_sent_back() {
            return None;
        }
        let difference = difference(self.task.sandbox.as_ref(), stop).await;
        let has_changes = difference.as_ref().map(|difference| !difference.is_empty());
        let mut missing = if self.ledger.was_sent_back() {
            Vec::new()
        } else {
            self.ledger.missing(setting, has_changes)
        };
        if needs_review {
            let words = "here a change is finished only after a `review` of its last state passed: call `review`";
            missing.push(Missing::Words(words.to_owned()));
        }
        missing.extend(open);
        if missing.is_empty() {
            return None;
        }
        self.ledger.send_back();
        Some(finish::in_words(
            &missing,
            difference.as_deref().filter(|shown| !shown.is_empty()),
        ))
    }

    /// Threads without a verdict, said once for each stretch of work: what is left open after that
    /// is told to people as it is.
    fn open_threads(&mut self, finish: &Finish) -> Option<Missing> {
        let open: Vec<&str> = finish
            .threads()
            .iter()
            .filter(|answer| answer.verdict.is_none())
            .map(|answer| answer.id.as_str())
            .collect();
        if open.is_empty() || std::mem::replace(&mut self.has_named_threads, true) {
            return None;
        }
        Some(Missing::Words(format!(
            "these review threads have no verdict under `threads`: {}. Call `finish` with a verdict on every thread",
            open.join(", ")
        )))
    }
}

/// How the output of a review that passed begins.
fn passed() -> String {
    format!("Verdict: {}\n", Verdict::Pass.word())
}

/// What differs, capped; `None` where it cannot be found out.
pub(super) async fn difference(sandbox: &dyn Sandbox, stop: &CancellationToken) -> Option<String> {
    let request = SnapshotRequest::Diff {
        since: None,
        path: String::new(),
    };
    let shown = |text: &str| text::cap_middle(text.trim_end(), MAX_DIFFERENCE_BYTES);
    let compared = sandbox.snapshot(&request, stop).await.ok()?;
    if compared.code() == Some(0) {
        return Some(shown(&compared.output));
    }
    // A workspace that was not checked out from a commit: what its own git says is better than
    // nothing.
    let look = Exec {
        timeout: Some(LOOK_TIMEOUT),
        ..Exec::shell(DIFFERENCE)
    };
    let output = sandbox.exec(&look, stop).await.ok()?;
    (output.code() == Some(0)).then(|| shown(&output.output))
}
