//! What stands between a tool call and its execution: the rules of permission, and people who
//! are asked. Called by `turn`. Never takes silence for consent.

use sha2::{Digest as _, Sha256};

use crate::agent::{Answer, Question, Stop, Task};
use crate::event::RunEvent;
use crate::model::ToolCall;
use crate::permission::{Decision, Scope};
use crate::phrase::run;
use crate::store::StoreError;
use crate::text;

/// Most bytes of a call that a person is shown; what is cut is said.
const MAX_CALL_BYTES: usize = 4 * 1024;

/// Longest key in a question or a refusal.
const MAX_KEY_CHARS: usize = 300;

/// The answer to a call that did not run, or that asked a person.
pub(super) struct Gated {
    /// For the model.
    pub(super) output: String,
    /// Whether it went as the model wished.
    pub(super) ok: bool,
    /// Why the work ends here, if it does.
    pub(super) end: Option<Stop>,
}

/// `None`: the call may run. A person is shown the call itself, never what the model says of it.
///
/// # Errors
/// When the run may not write any more.
pub(super) async fn permit(task: &Task<'_>, call: &ToolCall) -> Result<Option<Gated>, StoreError> {
    let key = task.tools.permission_key(call);
    let refused = |output: String| Gated {
        output,
        ok: false,
        end: None,
    };
    let gated = match task.permission.decide(&key) {
        Decision::Allow => None,
        Decision::Deny(why) => {
            tell(task, call, &key, &why).await?;
            Some(refused(format!("not run: {why}")))
        }
        Decision::Ask => {
            let question = permission_of(task, call);
            match task.people.ask(&question).await {
                Answer::Yes | Answer::Approved(_) => None,
                Answer::YesForRun => grant(task, &key, Scope::Run).await?,
                Answer::YesForRepository => grant(task, &key, Scope::Repository).await?,
                Answer::Later => Some(pause(question)),
                Answer::No => Some(refused(format!("not run: a person refused `{}`", brief(&key)))),
                Answer::Said(words) => Some(refused(format!(
                    "not run: a person refused `{}` and says: {words}",
                    brief(&key)
                ))),
                Answer::Nobody => {
                    let why = "it needs a person's permission, and nobody can be asked in this run";
                    tell(task, call, &key, why).await?;
                    Some(refused(format!(
                        "not run: `{}` needs a person's permission and nobody can be asked in this run",
                        brief(&key)
                    )))
                }
            }
        }
    };
    Ok(gated)
}

/// Records what was not done, for whoever reads the run: the model is told anyway.
async fn tell(task: &Task<'_>, call: &ToolCall, key: &str, why: &str) -> Result<(), StoreError> {
    let denied = RunEvent::CallDenied {
        tool: call.name.clone(),
        call: brief(key),
        why: why.to_owned(),
        allow: task
            .permission
            .allowing(key)
            .map(|line| text::cap_chars(&line, MAX_KEY_CHARS)),
    };
    task.recorder.record(denied).await
}

fn brief(key: &str) -> String {
    text::cap_chars(&text::reveal(key), MAX_KEY_CHARS)
}

/// The call as it will run, with nothing hidden in it. A long one is cut, and named by its hash, so
/// that an answer which comes later is for no other call.
fn shown(task: &Task<'_>, call: &ToolCall) -> String {
    let whole = task.tools.as_it_runs(call);
    let clean = task.recorder.redactor().redact(&text::reveal(&whole));
    let cut = text::cap_middle(&clean, MAX_CALL_BYTES);
    if cut == clean {
        return clean;
    }
    format!(
        "{cut}\n[cut; SHA-256 of the whole: {}]",
        hex::encode(Sha256::digest(whole))
    )
}

/// Keeps an approval that reaches further than this call.
async fn grant(task: &Task<'_>, key: &str, scope: Scope) -> Result<Option<Gated>, StoreError> {
    if let Err(why) = task.permission.grant(key, scope) {
        let text = run::this_run_only(task.setting.language, &why);
        task.recorder.record(RunEvent::Noted { text }).await?;
    }
    Ok(None)
}

/// Puts a question of the model to a person.
///
/// # Errors
/// When the run may not write any more.
pub(super) async fn ask(task: &Task<'_>, question: Question) -> Result<Gated, StoreError> {
    let said = |output: String, ok: bool| Gated { output, ok, end: None };
    Ok(match task.people.ask(&question).await {
        Answer::Said(words) => said(words, true),
        Answer::Yes | Answer::YesForRun | Answer::YesForRepository => said("yes".to_owned(), true),
        Answer::Approved(remarks) => said(format!("yes. {remarks}"), true),
        Answer::No => said("no".to_owned(), true),
        Answer::Nobody => nobody(task, &question.lines().join(" · ")).await?,
        Answer::Later => pause(question),
    })
}

/// A question of the model where nobody can be asked, and where it was told so beforehand: it is
/// answered at once.
///
/// # Errors
/// When the run may not write any more.
pub(super) async fn nobody_to_ask(task: &Task<'_>, call: &ToolCall) -> Result<Option<Gated>, StoreError> {
    let name: String = call.name.to_lowercase().split(['_', '-', '.']).collect();
    if task.people.can_ask() || !QUESTIONS.contains(&name.as_str()) {
        return Ok(None);
    }
    nobody(task, &call.arguments).await.map(Some)
}

/// Names that models ask people by.
const QUESTIONS: [&str; 6] = [
    "ask",
    "askfollowupquestion",
    "askhuman",
    "askuser",
    "askuserquestion",
    "confirm",
];

async fn nobody(task: &Task<'_>, question: &str) -> Result<Gated, StoreError> {
    let question = brief(question);
    task.recorder.record(RunEvent::QuestionRefused { question }).await?;
    Ok(Gated {
        output: "nobody can be asked in this run: decide yourself, and name what you assumed".to_owned(),
        ok: false,
        end: None,
    })
}

/// The call stays without an output until the answer is there: it is made again then.
pub(super) fn pause(question: Question) -> Gated {
    Gated {
        output: String::new(),
        ok: false,
        end: Some(Stop::NeedsInput(question)),
    }
}

/// Whether the run was interrupted for the permission of just this call, and the answer is there:
/// then it cannot have begun.
pub(super) fn was_asked(task: &Task<'_>, call: &ToolCall) -> bool {
    task.people.has_answer(&permission_of(task, call))
}

fn permission_of(task: &Task<'_>, call: &ToolCall) -> Question {
    Question::Permit {
        key: brief(&task.tools.permission_key(call)),
        call: shown(task, call),
    }
}
