//! What a command becomes: work, a stop, or an answer. The words of answers that need no look
//! at anything are written here, by the program.
//! Never repeats words of a comment other than a plain verb.

use super::Rules;
use crate::ids::Subject;
use crate::intake::command::{Command, CommandProblem, Retry};
use crate::job::JobKind;
use crate::phrase::command as words;

/// Stands in `Request::instructions` of a `reply` job whose answer the flow renders when it runs,
/// because only the database knows it: where the work on the subject stands. Every other `reply`
/// job carries the text to post.
pub const STATUS_REPLY: &str = "status:";

/// Stands in `Request::instructions` of a `retry` job that repeats only the publishing.
pub const RETRY_PUBLISH: &str = "publish";

/// The kind of job that a command becomes, and its instructions.
pub(super) fn to(
    command: Result<Command, CommandProblem>,
    is_open: bool,
    subject: &Subject,
    rules: &Rules,
) -> (JobKind, String) {
    let is_pull = matches!(subject, Subject::Pull(_));
    match command {
        Ok(Command::Fix { instructions }) if is_open => (JobKind::Fix, instructions),
        Ok(Command::Plan { instructions }) if is_open => (JobKind::Plan, instructions),
        Ok(Command::Fix { .. } | Command::Plan { .. }) => (JobKind::Reply, words::closed(rules.language, is_pull)),
        Ok(Command::Ask { question }) => (JobKind::Ask, question),
        Ok(Command::Review { .. }) if !is_pull => (JobKind::Reply, words::only_for_pulls(rules.language, "review")),
        Ok(Command::Review { instructions }) if is_open => (JobKind::Review, instructions),
        Ok(Command::Review { .. }) => (JobKind::Reply, words::closed(rules.language, is_pull)),
        Ok(Command::Rebase { .. }) if !is_pull => (JobKind::Reply, words::only_for_pulls(rules.language, "rebase")),
        Ok(Command::Rebase { instructions }) if is_open => (JobKind::Rebase, instructions),
        Ok(Command::Rebase { .. }) => (JobKind::Reply, words::closed(rules.language, is_pull)),
        Ok(Command::Answer { words }) => (JobKind::Answer, words),
        Ok(Command::Approve { remarks }) => (JobKind::Answer, format!("yes\n{remarks}").trim().to_owned()),
        Ok(Command::Draft { text }) => (JobKind::Draft, text),
        Ok(Command::Create { number }) => {
            let number = number.map_or_else(String::new, |number| number.to_string());
            (JobKind::Create, number)
        }
        Ok(Command::Revise { remarks }) => (JobKind::Answer, format!("no\n{remarks}")),
        Ok(Command::Retry(Retry::Everything)) => (JobKind::Retry, String::new()),
        Ok(Command::Retry(Retry::Publish)) => (JobKind::Retry, RETRY_PUBLISH.to_owned()),
        Ok(Command::Budget { usd_cents }) => (JobKind::Budget, usd_cents.to_string()),
        Ok(Command::Stop) => (JobKind::Stop, String::new()),
        Ok(Command::Status) => (JobKind::Reply, STATUS_REPLY.to_owned()),
        Ok(Command::Help) => (JobKind::Reply, table(rules)),
        Err(problem) => (
            JobKind::Reply,
            format!("{}\n\n{}", problem.in_words(rules.language), table(rules)),
        ),
    }
}

fn table(rules: &Rules) -> String {
    words::table(rules.language, &rules.command, &rules.label)
}
