//! The tools `start_command`, `command_output` and `stop_command`: a command that goes on while
//! others run. Never lets one outlive the run: `finish` names those that still run, once, and then
//! they end.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::run_command::{cut_note, exec_of, words_of};
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, key};
use crate::model::ToolSpec;
use crate::sandbox::{BackgroundOutput, Part, Started};
use crate::text;

/// Most bytes of output shown.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// Longest wait of one call, in seconds.
const MAX_WAIT_SECONDS: u64 = 300;

/// How long a new command is watched for failing at once.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Starts a command.
pub(super) struct StartCommand;

/// Shows what it wrote.
pub(super) struct CommandOutput;

/// Ends it.
pub(super) struct StopCommand;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Start {
    /// Shell line, run in the workspace.
    #[serde(alias = "cmd", alias = "script", alias = "input")]
    command: String,
    /// Folder to run it in, relative to the workspace; left out for its root.
    #[serde(default, alias = "cwd", alias = "workdir", alias = "directory")]
    folder: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Output {
    /// Number that start_command gave.
    #[serde(alias = "command_id", alias = "bash_id", alias = "shell_id", alias = "number")]
    id: u32,
    /// Wait for it to end, at most so many seconds, up to 300; left out to look at once.
    #[serde(default, alias = "wait", alias = "timeout")]
    wait_seconds: u64,
    /// Show the output from the beginning instead of what is new.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stop {
    /// Number that start_command gave.
    #[serde(alias = "command_id", alias = "bash_id", alias = "shell_id", alias = "number")]
    id: u32,
}

#[async_trait]
impl Tool for StartCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "start_command".to_owned(),
            description:
                "Starts a long command, such as a build, and gives its number at once; up to 4 run at the same time. \
                 Each command has a network of its own, so another command cannot reach a server started here: for that \
                 use one run_command line, `(server & sleep 2; curl localhost:8000)`. All of them end with the work."
                    .to_owned(),
            parameters: arguments::schema::<Start>(),
        }
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::command("start_command", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Start = arguments::fit("start_command", arguments)?;
        let exec = exec_of("start_command", &wanted.command, &wanted.folder, None)?;
        match context.sandbox.start(&exec, context.cancel).await? {
            Started::TooMany(running) => Err(ToolError::ForModel(format!(
                "not started: {} commands run already; stop one first: {}",
                running.len(),
                named(&running)
            ))),
            Started::Running(id) => {
                let output = context.sandbox.output(id, Part::New, FIRST_WAIT, context.cancel).await;
                let shown = output.map(|output| render(id, &output)).unwrap_or_default();
                Ok(ToolOutput::Text(shown))
            }
        }
    }
}

#[async_trait]
impl Tool for CommandOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "command_output".to_owned(),
            description:
                "Shows what a command of start_command has written since you last looked, and whether it runs or how \
                          it ended. Use wait_seconds rather than asking again and again."
                    .to_owned(),
            parameters: arguments::schema::<Output>(),
        }
    }

    fn waits(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Output = arguments::fit("command_output", arguments)?;
        let part = if wanted.all { Part::All } else { Part::New };
        let wait = Duration::from_secs(wanted.wait_seconds.min(MAX_WAIT_SECONDS));
        let output = context.sandbox.output(wanted.id, part, wait, context.cancel).await;
        let output = output.ok_or_else(|| unknown(context, wanted.id))?;
        Ok(ToolOutput::Text(render(wanted.id, &output)))
    }
}

#[async_trait]
impl Tool for StopCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "stop_command".to_owned(),
            description:
                "Ends a command of start_command, with everything it started, and shows the rest of its output."
                    .to_owned(),
            parameters: arguments::schema::<Stop>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Stop = arguments::fit("stop_command", arguments)?;
        let output = context.sandbox.stop(wanted.id).await;
        let output = output.ok_or_else(|| unknown(context, wanted.id))?;
        Ok(ToolOutput::Text(render(wanted.id, &output)))
    }
}

fn unknown(context: &ToolContext<'_>, id: u32) -> ToolError {
    let running = match context.sandbox.running().as_slice() {
        [] => "no command runs".to_owned(),
        running => format!("these run: {}", named(running)),
    };
    ToolError::BadCall(format!("there is no command {id}; {running}"))
}

/// Commands for a message: `2 (npm test)`.
pub(super) fn named(running: &[(u32, String)]) -> String {
    let named = |(id, line): &(u32, String)| format!("{id} (`{}`)", short(line));
    running.iter().map(named).collect::<Vec<_>>().join(", ")
}

/// A command in a few words.
pub(super) fn short(line: &str) -> String {
    text::cap_chars(&super::plan::one_line(line, 60), 60)
}

fn render(id: u32, output: &BackgroundOutput) -> String {
    let took = text::duration_in_words(output.took);
    let how = match &output.exit {
        None => format!("runs since {took}"),
        Some(exit) => format!("ended: {}, {took}", words_of(exit)),
    };
    let cut = if output.output.len() > MAX_OUTPUT_BYTES {
        cut_note(output.output_bytes)
    } else {
        String::new()
    };
    let shown = text::cap_middle(&text::reveal(&output.output), MAX_OUTPUT_BYTES);
    let shown = match shown.trim_end().trim_start_matches('\n') {
        "" => "[no new output]",
        shown => shown,
    };
    format!("[command {id} {how}{cut}]\n{shown}")
}
