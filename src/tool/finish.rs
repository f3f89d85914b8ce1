//! The tool `finish`: how the agent says that it is done, and what people read about the change.
//! Never says anything about checks: those results come from the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::background::{named, short};
use super::plan::one_line;
use super::threads::{self, Thread};
use super::{Finish, Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::text;

/// Most characters of a title; GitHub shows about 70 in lists.
const MAX_TITLE_CHARS: usize = 120;

/// Most bytes of each of the longer texts.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// Ends the run.
#[derive(Default)]
pub(super) struct FinishTool {
    /// It was told once that commands still run.
    told: AtomicBool,
    /// Commands that an earlier call ended, although the agent went on after it.
    ended: Mutex<Vec<String>>,
    /// Review threads that a verdict is asked for.
    threads: Vec<Thread>,
}

impl FinishTool {
    /// With a verdict on each of these threads.
    pub(super) fn answering(threads: Vec<Thread>) -> Self {
        Self {
            threads,
            ..Self::default()
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `done`: the change is made. `nothing_to_do`: nothing has to change. `refused`: it should not be done.
    status: Status,
    /// With `done`: title for the pull request, one line, in the repository's own convention.
    #[serde(default)]
    title: String,
    /// With `done`: what changed and why, in short Markdown. Otherwise: the reason.
    #[serde(alias = "reason", alias = "message")]
    summary: String,
    /// What a reviewer should look at closely; empty if nothing.
    #[serde(default)]
    risks: String,
    /// What was asked for and is not done; empty if nothing.
    #[serde(default)]
    not_done: String,
    /// Your verdict on each of the review threads.
    #[serde(default)]
    threads: Vec<threads::Said>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[serde(alias = "success", alias = "completed", alias = "complete")]
    Done,
    NothingToDo,
    Refused,
}

#[async_trait]
impl Tool for FinishTool {
    fn spec(&self) -> ToolSpec {
        let mut parameters = arguments::schema::<Arguments>();
        if self.threads.is_empty()
            && let Some(properties) = parameters["properties"].as_object_mut()
        {
            properties.remove("threads");
        }
        ToolSpec {
            name: "finish".to_owned(),
            description:
                "Ends the work. Call it when the change is made and checked, when nothing has to change, or when \
                          the request should not be done. Write only what you really did and saw."
                    .to_owned(),
            parameters,
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let mut finish = judge(arguments::fit("finish", arguments)?, &self.threads)?;
        let running = context.sandbox.running();
        if !running.is_empty() && !self.told.swap(true, Ordering::Relaxed) {
            return Err(ToolError::ForModel(format!(
                "not finished: these commands still run: {}. Wait for them with command_output and look at how they end, \
                 or end them with stop_command; then call finish again. Whatever still runs then is ended, and the work \
                 is reported as not done.",
                named(&running)
            )));
        }
        // Nothing may change the files any more while they are looked at.
        for (id, _) in &running {
            context.sandbox.stop(*id).await;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.extend(running.iter().map(|(_, line)| short(line)));
        if let Finish::Done { unfinished, .. } = &mut finish {
            unfinished.clone_from(&ended);
        }
        Ok(ToolOutput::Finish(finish))
    }
}

fn judge(said: Arguments, threads: &[Thread]) -> Result<Finish, ToolError> {
    let long = |said: &str| text::reveal(&text::cap(said.trim(), MAX_TEXT_BYTES));
    let summary = long(&said.summary);
    if summary.is_empty() {
        return Err(ToolError::BadCall(
            "finish: the summary is empty; say what changed, or why nothing did".to_owned(),
        ));
    }
    // Where no verdict is asked for, one that is given all the same is no reason to go back.
    let answers = match (said.status, threads) {
        (Status::Refused, _) | (_, []) => Vec::new(),
        _ => threads::answers(threads, said.threads)?,
    };
    match said.status {
        Status::NothingToDo => Ok(Finish::NothingToDo {
            reason: summary,
            threads: answers,
        }),
        Status::Refused => Ok(Finish::Refused { reason: summary }),
        Status::Done => {
            let title = one_line(&said.title, MAX_TITLE_CHARS);
            if title.is_empty() {
                return Err(ToolError::BadCall(
                    "finish: with status `done` a title for the pull request is needed".to_owned(),
                ));
            }
            Ok(Finish::Done {
                title,
                summary,
                risks: long(&said.risks),
                not_done: long(&said.not_done),
                threads: answers,
                unfinished: Vec::new(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(arguments: Value, expected: Result<Finish, &str>) {
        let finish = arguments::fit("finish", arguments).and_then(|said| judge(said, &[]));
        match (finish, expected) {
            (Ok(finish), Ok(expected)) => assert_eq!(finish, expected),
            (Err(problem), Err(words)) => assert!(problem.to_string().contains(words), "{problem}"),
            (finish, expected) => panic!("{finish:?}, and {expected:?} was expected"),
        }
    }

    #[test]
    fn every_way_to_end_needs_its_words() {
        check(
            json!({"status": "done", "title": "Count\nthe last word", "summary": " It did not. "}),
            Ok(Finish::Done {
                title: "Count the last word".to_owned(),
                summary: "It did not.".to_owned(),
                risks: String::new(),
                not_done: String::new(),
                threads: Vec::new(),
                unfinished: Vec::new(),
            }),
        );
        let reason = "It is right already".to_owned();
        check(
            json!({"status": "nothing_to_do", "summary": reason}),
            Ok(Finish::NothingToDo {
                reason: reason.clone(),
                threads: Vec::new(),
            }),
        );
        check(
            json!({"status": "refused", "reason": reason}),
            Ok(Finish::Refused { reason }),
        );
        check(json!({"status": "done", "summary": "x"}), Err("a title"));
        check(
            json!({"status": "done", "title": "x", "summary": " "}),
            Err("the summary is empty"),
        );
        check(json!({"status": "maybe", "summary": "x"}), Err("unknown variant"));
    }

    #[test]
    fn verdicts_are_asked_for_where_there_are_threads() {
        let thread = Thread {
            id: "t1".to_owned(),
            root: crate::ids::CommentId(7),
            seen: crate::ids::CommentId(7),
            by: None,
            resolve: false,
            text: String::new(),
        };
        let plain = FinishTool::default().spec().parameters;
        assert!(plain["properties"]["threads"].is_null(), "{plain}");
        let asking = FinishTool::answering(vec![thread]).spec().parameters;
        let words = asking.to_string();
        assert!(asking["properties"]["threads"].is_object(), "{words}");
        assert!(!words.contains("$ref") && !words.contains("oneOf"), "{words}");
        check(
            json!({"status": "done", "title": "x", "summary": "y", "threads": [{"id": "t9", "verdict": "fixed"}]}),
            Ok(Finish::Done {
                title: "x".to_owned(),
                summary: "y".to_owned(),
                risks: String::new(),
                not_done: String::new(),
                threads: Vec::new(),
                unfinished: Vec::new(),
            }),
        );
    }
}
