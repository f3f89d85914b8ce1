//! Review threads that a run has to answer, and the verdicts that `finish` takes for them. Which
//! thread an id means is decided here and nowhere else, so that a verdict can only go to a thread
//! that the run was given. Never says that something is fixed: that is for the program to see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Finish, ToolError};
use crate::ids::CommentId;
use crate::text;

/// Most bytes of one reply.
const MAX_REPLY_BYTES: usize = 2 * 1024;

/// A thread, as the agent is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// What it is called in this run: `t1`, `t2`, ….
    pub id: String,
    /// The comment that replies go to.
    pub root: CommentId,
    /// The last comment that the agent is shown.
    pub seen: CommentId,
    /// Login of the person who began it; nothing for bots and deleted accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether the repository wants it resolved once a commit of ours does what it asks.
    #[serde(default)]
    pub resolve: bool,
    /// Place, code and comments: text of strangers.
    pub text: String,
}

/// What the agent says to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadVerdict {
    #[allow(missing_docs)] // a description would make the schema a union, which servers refuse
    #[serde(alias = "done", alias = "resolved", alias = "addressed")]
    Fixed,
    #[allow(missing_docs)]
    #[serde(alias = "rejected", alias = "declined", alias = "wontfix", alias = "wont_fix")]
    Disputed,
    #[allow(missing_docs)]
    #[serde(alias = "later", alias = "postponed")]
    Deferred,
}

/// What a run came to for one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadAnswer {
    /// The thread.
    pub root: CommentId,
    /// As in [`Thread`].
    pub seen: CommentId,
    /// What it was called in the run.
    pub id: String,
    /// As in [`Thread`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// As in [`Thread`].
    #[serde(default)]
    pub resolve: bool,
    /// The verdict; nothing when the agent gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ThreadVerdict>,
    /// Words for the reviewer.
    #[serde(default)]
    pub reply: String,
}

/// A verdict as the model writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    /// The thread's id, such as `t1`.
    #[serde(alias = "thread")]
    id: String,
    /// `fixed`: your change does what it asks. `disputed`: it should not be done. `deferred`: it is right, but not for now.
    verdict: ThreadVerdict,
    /// To the reviewer, one or two sentences: what you did, or why not. No commit id: the program adds it.
    #[serde(default, alias = "reason", alias = "comment", alias = "message")]
    reply: String,
}

/// One answer for each thread of the run, in their order; of two verdicts on one the last counts.
pub(super) fn answers(threads: &[Thread], said: Vec<Said>) -> Result<Vec<ThreadAnswer>, ToolError> {
    let mut answers: Vec<ThreadAnswer> = threads.iter().map(unanswered).collect();
    for Said { id, verdict, reply } in said {
        let wanted = id.trim().trim_start_matches('#').to_lowercase();
        let found = answers
            .iter_mut()
            .find(|answer| answer.id == wanted || answer.id.strip_prefix('t') == Some(wanted.as_str()));
        let Some(answer) = found else {
            let known: Vec<&str> = threads.iter().map(|thread| thread.id.as_str()).collect();
            return Err(ToolError::BadCall(format!(
                "finish: there is no thread {:?}; the threads are {}",
                text::cap_chars(&id, 40),
                known.join(", ")
            )));
        };
        let reply = text::reveal(&text::cap(reply.trim(), MAX_REPLY_BYTES));
        if reply.is_empty() && verdict != ThreadVerdict::Fixed {
            return Err(ToolError::BadCall(format!(
                "finish: the thread {} is not fixed, so its reply has to say why",
                answer.id
            )));
        }
        answer.verdict = Some(verdict);
        answer.reply = reply;
    }
    Ok(answers)
}

fn unanswered(thread: &Thread) -> ThreadAnswer {
    ThreadAnswer {
        root: thread.root,
        seen: thread.seen,
        id: thread.id.clone(),
        by: thread.by.clone(),
        resolve: thread.resolve,
        verdict: None,
        reply: String::new(),
    }
}

impl Finish {
    /// What it says to the threads of the run.
    pub fn threads(&self) -> &[ThreadAnswer] {
        match self {
            Finish::Done { threads, .. } | Finish::NothingToDo { threads, .. } => threads,
            Finish::Answered { .. } | Finish::Planned(_) | Finish::Reviewed(_) | Finish::Refused { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn threads() -> Vec<Thread> {
        let thread = |(id, root): (&str, u64)| Thread {
            id: id.to_owned(),
            root: CommentId(root),
            seen: CommentId(root),
            by: Some("mona".to_owned()),
            resolve: false,
            text: String::new(),
        };
        [("t1", 70), ("t2", 80)].map(thread).into()
    }

    fn given(said: Value) -> Result<Vec<(u64, Option<ThreadVerdict>)>, String> {
        let answers = answers(&threads(), serde_json::from_value(said).unwrap());
        let answers = answers.map_err(|error| error.to_string())?;
        Ok(answers
            .into_iter()
            .map(|answer| (answer.root.0, answer.verdict))
            .collect())
    }

    #[test]
    fn each_thread_has_one_answer_whatever_the_order() {
        use ThreadVerdict::{Deferred, Fixed};
        let said = json!([
            {"id": "T2", "verdict": "deferred", "reply": "Later."},
            {"id": "#t2", "verdict": "done"},
        ]);
        assert_eq!(given(said).unwrap(), [(70, None), (80, Some(Fixed))]);
        let said = json!([{"thread": "1", "verdict": "later", "reason": "It is large."}]);
        assert_eq!(given(said).unwrap(), [(70, Some(Deferred)), (80, None)]);
    }

    #[test]
    fn foreign_threads_and_bare_refusals_go_back() {
        let foreign = given(json!([{"id": "t3", "verdict": "fixed"}])).unwrap_err();
        assert!(
            foreign.contains("no thread \"t3\"; the threads are t1, t2"),
            "{foreign}"
        );
        let bare = given(json!([{"id": "t1", "verdict": "disputed", "reply": " "}])).unwrap_err();
        assert!(bare.contains("t1 is not fixed, so its reply has to say why"), "{bare}");
    }

    #[test]
    fn what_older_versions_stored_has_no_threads() {
        let old = r#"{"done":{"title":"t","summary":"s","risks":"","not_done":""}}"#;
        let finish: Finish = serde_json::from_str(old).unwrap();
        assert!(finish.threads().is_empty());
        assert_eq!(serde_json::to_string(&finish).unwrap(), old);
        let old = r#"{"nothing_to_do":{"reason":"r"}}"#;
        assert!(serde_json::from_str::<Finish>(old).unwrap().threads().is_empty());
    }
}
