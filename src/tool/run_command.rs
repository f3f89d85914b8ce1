//! The tool `run_command`: a shell line in the sandbox. Never refuses a line: the sandbox is the
//! boundary, not the text.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, key, relative};
use crate::model::ToolSpec;
use crate::sandbox::{Exec, ExecOutput, Exit};
use crate::text;

/// Most bytes of output shown: the head and, since errors stand at the end, twice as much tail.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// Longest time a command may ask for, in seconds. The sandbox and the run have limits too.
const MAX_TIMEOUT_SECONDS: u64 = 600;

/// Runs a command.
pub(super) struct RunCommand;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Shell line, run in the workspace.
    #[serde(alias = "cmd", alias = "script", alias = "code", alias = "input")]
    command: String,
    /// Folder to run it in, relative to the workspace; left out for its root.
    #[serde(default, alias = "cwd", alias = "workdir", alias = "directory")]
    folder: String,
    /// Seconds until it is killed, up to 600; left out for the usual limit.
    #[serde(default, alias = "timeout")]
    timeout_seconds: Option<u64>,
}

#[async_trait]
impl Tool for RunCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_command".to_owned(),
            description:
                "Runs a shell line in the sandbox and shows its exit code and output. There is no terminal and \
                          no network unless the task says so. Everything it starts is killed when the line ends; for \
                          what must go on use start_command."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::command("run_command", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("run_command", arguments)?;
        let timeout = wanted
            .timeout_seconds
            .map(|seconds| Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS)));
        let exec = exec_of("run_command", &wanted.command, &wanted.folder, timeout)?;
        let output = context.sandbox.exec(&exec, context.cancel).await?;
        let mut words = render(&output);
        if leaves_something(&wanted.command) && matches!(output.exit, Exit::Code(_)) {
            words.push_str(CUT_OFF);
        }
        Ok(ToolOutput::Text(words))
    }
}

/// What a model is told that took a background of the shell for one that stays.
const CUT_OFF: &str = "\n[What ran in the background was killed when the line ended, and nothing says how it would have \
                       gone. Run it without `&` and wait, or use start_command.]";

/// Whether a line ends with something in the background that nobody waits for, such as
/// `npm test &`.
fn leaves_something(line: &str) -> bool {
    let line = line.trim_end();
    let last = line.rsplit('\n').next().unwrap_or(line);
    let (before, behind) = last.rsplit_once('&').unwrap_or_default();
    let is_operator = !before.trim_end().is_empty() && !before.ends_with(['&', '>', '<', '|', '\\']);
    let said = behind.split_whitespace().next();
    is_operator && matches!(said, None | Some("disown" | "echo" | "true"))
}

/// A shell line as it is run.
pub(super) fn exec_of(tool: &str, line: &str, folder: &str, timeout: Option<Duration>) -> Result<Exec, ToolError> {
    let line = line.replace("\r\n", "\n");
    if line.trim().is_empty() || line.contains('\0') {
        return Err(ToolError::BadCall(format!(
            "{tool}: the command is empty or holds a NUL"
        )));
    }
    Ok(Exec {
        folder: relative(folder),
        timeout,
        ..Exec::shell(line)
    })
}

/// How a command ended.
pub(super) fn words_of(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::Limit(limit) => format!("killed: {limit}"),
        Exit::Cancelled => "stopped".to_owned(),
    }
}

pub(super) fn render(output: &ExecOutput) -> String {
    let how = words_of(&output.exit);
    let took = match &output.exit {
        // The time stands there already; what is missing is what to do.
        Exit::Limit(limit) if limit.starts_with("timeout") => {
            format!("give a larger timeout_seconds (up to {MAX_TIMEOUT_SECONDS}) if it needs longer")
        }
        _ => text::duration_in_words(output.took),
    };
    let cut = if output.output_bytes > MAX_OUTPUT_BYTES as u64 {
        cut_note(output.output_bytes)
    } else {
        String::new()
    };
    let shown = text::cap_middle(&text::reveal(&output.output), MAX_OUTPUT_BYTES);
    // Blank lines at the ends go, the indentation of the first line stays.
    let shown = match shown.trim_end().trim_start_matches('\n') {
        "" => "[no output]",
        shown => shown,
    };
    format!("[{how}, {took}{cut}]\n{shown}")
}

/// How to see what is left out of an output.
pub(super) fn cut_note(bytes: u64) -> String {
    format!(
        "; {} of output, the middle is left out: add `> /tmp/out.txt 2>&1` and look with grep or `sed -n`",
        text::bytes_in_words(bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exit: Exit, output: &str, expected: &str) {
        let output = ExecOutput {
            exit,
            output: output.to_owned(),
            output_bytes: output.len() as u64,
            took: Duration::from_millis(1_200),
        };
        assert_eq!(render(&output), expected);
    }

    #[test]
    fn the_way_a_command_ended_stands_first() {
        check(Exit::Code(0), "", "[exit code 0, 1.2 s]\n[no output]");
        check(
            Exit::Code(1),
            "\n    indented\nend\n\n",
            "[exit code 1, 1.2 s]\n    indented\nend",
        );
        check(Exit::Signal(9), "x", "[killed by signal 9, 1.2 s]\nx");
        check(
            Exit::Limit("timeout after 5 s".to_owned()),
            "x",
            "[killed: timeout after 5 s, give a larger timeout_seconds (up to 600) if it needs longer]\nx",
        );
    }

    #[test]
    fn x23_a_line_that_leaves_something_behind_is_known() {
        for (line, expected) in [
            ("npm test &", true),
            ("nohup npm test > log 2>&1 &", true),
            ("npm test > log 2>&1 & echo $!", true),
            ("cd a && npm test & disown", true),
            ("cd a\nnpm test &\n", true),
            ("npm test", false),
            ("cd a && npm test", false),
            ("npm test 2>&1", false),
            ("npm test &> log", false),
            ("server & sleep 2; curl localhost", false),
            ("npm test & wait", false),
            ("echo a \\&", false),
            ("&", false),
            ("", false),
        ] {
            assert_eq!(leaves_something(line), expected, "{line}");
        }
    }

    #[test]
    fn c4_output_is_capped_however_the_command_ended() {
        let output = ExecOutput {
            exit: Exit::Limit("timeout after 5 s".to_owned()),
            output: format!("HEAD{}TAIL", "x".repeat(500_000)),
            output_bytes: 41_000_000,
            took: Duration::from_secs(5),
        };
        let shown = render(&output);
        assert!(shown.len() < MAX_OUTPUT_BYTES + 300 && shown.contains("HEAD") && shown.ends_with("TAIL"));
        assert!(
            shown.contains("39.1 MiB of output") && shown.contains("/tmp/out.txt"),
            "{shown}"
        );
    }
}
