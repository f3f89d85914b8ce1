//! What a command becomes: work, a stop, or an answer. The words of answers that need no look
//! at anything are written here, by the program.
//! Never repeats words of a comment other than a plain verb.

use super::Rules;
use crate::ids::Subject;
use crate::intake::command::{Command, CommandProblem, Retry};
use crate::job::JobKind;
use crate::phrase::branch;

/// Stands in `Request::instructions` of a `reply` job whose answer the flow renders when it runs,
/// because only the database knows it: where the work on the subject stands. Every other `reply`
/// job carries the text to post.
pub const STATUS_REPLY: &str = "status:";

/// The kind of job that a command becomes, and its instructions.
pub(super) fn to(
    command: Result<Command, CommandProblem>,
    is_open: bool,
    subject: &Subject,
    rules: &Rules,
) -> (JobKind, String) {
    let verb = match command {
        Ok(Command::Fix { instructions }) if is_open => return (JobKind::Fix, instructions),
        Ok(Command::Fix { .. }) => return (JobKind::Reply, closed(noun(subject))),
        Ok(Command::Rebase { .. }) if !matches!(subject, Subject::Pull(_)) => {
            return (JobKind::Reply, branch::only_pulls(rules.language));
        }
        Ok(Command::Rebase { instructions }) if is_open => return (JobKind::Rebase, instructions),
        Ok(Command::Rebase { .. }) => return (JobKind::Reply, closed(noun(subject))),
        Ok(Command::Answer { words }) => return (JobKind::Answer, words),
        Ok(Command::Approve { remarks }) => return (JobKind::Answer, format!("yes\n{remarks}").trim().to_owned()),
        Ok(Command::Stop) => return (JobKind::Stop, String::new()),
        Ok(Command::Status) => return (JobKind::Reply, STATUS_REPLY.to_owned()),
        Ok(Command::Help) => return (JobKind::Reply, table(rules)),
        Err(problem) => return (JobKind::Reply, format!("{problem}\n\n{}", table(rules))),
        Ok(Command::Plan { .. }) => "plan",
        Ok(Command::Revise { .. }) => "revise",
        Ok(Command::Ask { .. }) => "ask",
        Ok(Command::Review { .. }) => "review",
        Ok(Command::Draft { .. }) => "draft",
        Ok(Command::Create) => "create",
        Ok(Command::Retry(Retry::Everything)) => "retry",
        Ok(Command::Retry(Retry::Publish)) => "retry publish",
        Ok(Command::Budget { .. }) => "budget",
    };
    let text = format!(
        "`{verb}` is not built yet, so nothing was done. What works today:\n\n{}",
        table(rules)
    );
    (JobKind::Reply, text)
}

/// The answer to a request for work on something that is closed.
pub(super) fn closed(noun: &str) -> String {
    format!("This {noun} is closed, so nothing was started. Reopen it and ask again.")
}

fn noun(subject: &Subject) -> &'static str {
    match subject {
        Subject::Pull(_) => "pull request",
        Subject::Issue(_) | Subject::Local(_) => "issue",
    }
}

fn table(rules: &Rules) -> String {
    let Rules { command, label, .. } = rules;
    [
        "| command | effect |".to_owned(),
        "|---|---|".to_owned(),
        format!("| `{command} fix [instructions]` | on an issue: a branch and a draft pull request; on a pull request: commits to its branch |"),
        format!("| `{command} rebase [instructions]` | on a pull request: merges the base into its branch and settles conflicts |"),
        format!("| `{command} answer TEXT` | answers what the work here asked; with several questions, number the lines |"),
        format!("| `{command} approve [remarks]` | says yes to what the work here asked |"),
        format!("| `{command} stop` | stop the work on this issue or pull request |"),
        format!("| `{command} status` | where the work stands |"),
        format!("| `{command} help` | this table |"),
        String::new(),
        format!("The command stands at the beginning of a line. The label `{label}` on an issue does the same as `fix`."),
    ]
    .join("\n")
}
