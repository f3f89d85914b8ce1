//! The tool `run_tests`: all tests, those of a file, or those with a name, in whatever way the
//! project runs them, and which of them failed. Never guesses how a project is tested: what
//! `workspace` does not know is said, and the output is shown as it came.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::run_command::{exec_of, words_of};
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, read_bytes, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{ExecOutput, FileReply, FileRequest};
use crate::text;
use crate::workspace::{Commands, detect_commands};

mod report;
mod runner;

use report::Report;
use runner::{Runner, Wanted};

/// Longest time of a run, in seconds. The sandbox and the run have limits too.
const MAX_TIMEOUT_SECONDS: u64 = 1_800;

/// Most files of a project that are looked at to find out how it is tested.
const MAX_FILES: u32 = 20_000;

/// Most bytes read of a file that says how.
const MAX_TEXT_BYTES: u64 = 256 * 1024;

/// Most files that are read for it.
const MAX_TEXTS: usize = 40;

/// Most names of tests in one call.
const MAX_NAMES: usize = 50;

/// Most bytes of output shown when a test failed, and when none did.
const MAX_FAILED_BYTES: usize = 12 * 1024;
const MAX_PASSED_BYTES: usize = 1_500;

/// Most failed tests that are named.
const MAX_FAILED_NAMES: usize = 30;

/// Runs tests.
#[derive(Default)]
pub(super) struct RunTests {
    /// The commands that verify a change in this run. What they run is what counts, so they go
    /// before what the project's files say.
    pub(super) checks: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Names of tests, or parts of them, as the project's runner knows them; left out for all.
    #[serde(default, alias = "names", alias = "test", alias = "name", alias = "filter")]
    tests: Vec<String>,
    /// Only the tests in this file, relative to the workspace.
    #[serde(default, alias = "path", alias = "file_path")]
    file: String,
    /// Folder of the project in the workspace; left out for its root.
    #[serde(default, alias = "cwd", alias = "directory")]
    folder: String,
    /// Seconds until it is killed; left out for the usual limit.
    #[serde(default, alias = "timeout")]
    timeout_seconds: Option<u64>,
}

#[async_trait]
impl Tool for RunTests {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_tests".to_owned(),
            description: "Runs the project's tests the way the project does (cargo, pytest, unittest, npm with jest, vitest, \
                          mocha or node, go, maven, gradle, ctest, make) and names those that fail. Give tests or file to run \
                          a part, for example {\"tests\": [\"parses_empty_input\"]}."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("run_tests", listed(arguments))?;
        let folder = relative(&asked.folder).trim_end_matches('/').to_owned();
        let wanted = Wanted {
            names: asked
                .tests
                .into_iter()
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            file: below(&folder, &relative(&asked.file)),
        };
        if wanted.names.len() > MAX_NAMES || wanted.names.iter().any(|name| name.contains(['\n', '\0'])) {
            let problem = format!("run_tests: give at most {MAX_NAMES} names of tests, each one line");
            return Err(ToolError::BadCall(problem));
        }
        if folder.is_empty()
            && let Some((runner, line)) = self.by_checks(&wanted)
        {
            return run(context, &runner, &line, &folder, asked.timeout_seconds).await;
        }
        let project = Project::look(context, &folder).await?;
        let Some(runner) = Runner::of(&project.commands, |path| project.text(path)) else {
            return Err(ToolError::ForModel(format!(
                "nothing in {} says how it is tested; run the tests with run_command{}",
                if folder.is_empty() { "the workspace" } else { &folder },
                project.hint()
            )));
        };
        let line = runner.line(&wanted, |path| project.files.iter().any(|file| file == path));
        let line = line.map_err(|problem| ToolError::ForModel(format!("not run: {problem}")))?;
        run(context, &runner, &line, &folder, asked.timeout_seconds).await
    }
}

impl RunTests {
    /// How the run's own checks do it: all of them for everything; a part with the runner of the
    /// only one, in the environment that it sets.
    fn by_checks(&self, wanted: &Wanted) -> Option<(Runner, String)> {
        let (environment, bare): (Vec<&str>, Vec<String>) = self
            .checks
            .iter()
            .map(|check| {
                let (environment, bare) = assignments(check);
                (environment, bare.to_owned())
            })
            .unzip();
        let commands = Commands {
            test: bare,
            ..Commands::default()
        };
        let runner = Runner::of(&commands, |_| None)?;
        if wanted.names.is_empty() && wanted.file.is_empty() {
            return Some((runner, self.checks.join(" && ")));
        }
        let [environment] = environment.as_slice() else {
            return None;
        };
        let knows_parts = !matches!(runner, Runner::Other(_) | Runner::Node(..));
        let line = runner.line(wanted, |_| true).ok().filter(|_| knows_parts)?;
        Some((runner, format!("{environment}{line}")))
    }
}

/// A command in two: the variables that it begins with (`env` among them), and the rest.
fn assignments(line: &str) -> (&str, &str) {
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:env\s+)?(?:[A-Za-z_][A-Za-z0-9_]*=[A-Za-z0-9_./:,+-]*\s+)+").expect("the pattern is valid")
    });
    let end = BEGIN.find(line).map_or(0, |found| found.end());
    line.split_at(end)
}

async fn run(
    context: &ToolContext<'_>,
    runner: &Runner,
    line: &str,
    folder: &str,
    timeout_seconds: Option<u64>,
) -> Result<ToolOutput, ToolError> {
    let timeout = timeout_seconds.map(|seconds| Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS)));
    let exec = exec_of("run_tests", line, folder, timeout)?;
    let output = context.sandbox.exec(&exec, context.cancel).await?;
    Ok(ToolOutput::Text(render(
        line,
        &output,
        &Report::of(runner, &output.output),
    )))
}

/// A single name instead of a list of one.
fn listed(mut arguments: Value) -> Value {
    for key in ["tests", "names", "test", "name", "filter"] {
        if let Some(value) = arguments.get_mut(key)
            && let Some(text) = value.as_str()
            && !text.trim_start().starts_with('[')
        {
            *value = Value::from(vec![text.to_owned()]);
        }
    }
    arguments
}

/// A path of the workspace as seen from a folder in it.
fn below(folder: &str, path: &str) -> String {
    let inside = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    inside.filter(|_| !folder.is_empty()).unwrap_or(path).to_owned()
}

/// What a folder says about its tests.
struct Project {
    files: Vec<String>,
    texts: BTreeMap<String, Option<String>>,
    commands: Commands,
}

impl Project {
    async fn look(context: &ToolContext<'_>, folder: &str) -> Result<Self, ToolError> {
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let request = FileRequest::Glob {
            pattern: format!("{}**/*", globset::escape(&prefix)),
            max_entries: MAX_FILES,
        };
        let FileReply::Entries { entries, .. } = files(context, request).await? else {
            return Err(unexpected("a list of files"));
        };
        let paths = entries
            .into_iter()
            .filter_map(|entry| entry.path.strip_prefix(&prefix).map(str::to_owned));
        let mut project = Self {
            files: paths.collect(),
            texts: BTreeMap::new(),
            commands: Commands::default(),
        };
        // What is read depends on what was read before, and reading takes the sandbox.
        loop {
            let missing = RefCell::new(Vec::new());
            project.commands = detect_commands(&project.files, |path| {
                if !project.texts.contains_key(path) {
                    missing.borrow_mut().push(path.to_owned());
                }
                project.text(path)
            });
            let missing = missing.into_inner();
            if missing.is_empty() || project.texts.len() > MAX_TEXTS {
                return Ok(project);
            }
            for path in missing {
                let read = match read_bytes(context, &format!("{prefix}{path}"), MAX_TEXT_BYTES).await {
                    Err(ToolError::Fatal(broken)) => return Err(broken.into()),
                    read => read.ok(),
                };
                let text = read.map(|read| String::from_utf8_lossy(&read.content).into_owned());
                project.texts.insert(path, text);
            }
        }
    }

    fn text(&self, path: &str) -> Option<String> {
        self.texts.get(path).cloned().flatten()
    }

    /// Folders below that look like projects.
    fn hint(&self) -> String {
        const MARKS: &[&str] = &[
            "Cargo.toml",
            "package.json",
            "pyproject.toml",
            "go.mod",
            "pom.xml",
            "Makefile",
        ];
        let mut folders: Vec<&str> = self
            .files
            .iter()
            .filter_map(|file| file.rsplit_once('/'))
            .filter(|(_, name)| MARKS.contains(name))
            .map(|(folder, _)| folder)
            .collect();
        folders.sort_by_key(|folder| (folder.matches('/').count(), *folder));
        folders.dedup();
        folders.truncate(5);
        match folders.as_slice() {
            [] => String::new(),
            folders => format!(", or give folder: there are projects in {}", folders.join(", ")),
        }
    }
}

fn render(line: &str, output: &ExecOutput, report: &Report) -> String {
    let took = text::duration_in_words(output.took);
    let mut said = format!("[{}, {took}: `{}`]", words_of(&output.exit), text::cap_chars(line, 300));
    let passed = output.code() == Some(0);
    if report.ran_nothing {
        said.push_str("\nNo test was run: see whether the name or the file is right.");
    }
    if !report.counts.is_empty() {
        said.push_str(&format!("\n{}", report.counts));
    }
    if !report.failed.is_empty() {
        let names: Vec<String> = report
            .failed
            .iter()
            .take(MAX_FAILED_NAMES)
            .map(|name| text::cap_chars(name, 200))
            .collect();
        said.push_str(&format!(
            "\nFailed ({}):\n- {}",
            report.failed.len(),
            names.join("\n- ")
        ));
        if report.failed.len() > MAX_FAILED_NAMES {
            said.push_str("\n- …");
        }
    } else if !passed && !report.ran_nothing {
        said.push_str("\nNo failed test could be told from the output; read it:");
    }
    let most = if passed { MAX_PASSED_BYTES } else { MAX_FAILED_BYTES };
    let shown = text::cap_middle(output.output.trim(), most);
    let shown = if shown.is_empty() { "[no output]" } else { &shown };
    text::reveal(&format!("{said}\n\n{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(checks: &[&str], names: &[&str], expected: Option<&str>) {
        let tool = RunTests {
            checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        };
        let wanted = Wanted {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            file: String::new(),
        };
        assert_eq!(tool.by_checks(&wanted).map(|(_, line)| line).as_deref(), expected);
    }

    #[test]
    fn the_checks_of_the_run_say_how_tests_are_run() {
        let pytest = "env PYTHONPATH=src python3 -m pytest -q";
        check_line(&[pytest], &[], Some(pytest));
        check_line(&["make lint", "make test"], &[], Some("make lint && make test"));
        check_line(&["make test"], &["one"], None);
        check_line(&[], &[], None);
        let one = RunTests {
            checks: vec![pytest.to_owned()],
        };
        let wanted = Wanted {
            names: vec!["counts".to_owned()],
            file: String::new(),
        };
        let (runner, line) = one.by_checks(&wanted).unwrap();
        assert_eq!(runner, Runner::Pytest);
        assert!(
            line.starts_with("env PYTHONPATH=src python3 -m pytest") && line.contains("counts"),
            "{line}"
        );
    }
    use serde_json::json;

    #[test]
    fn one_name_is_a_list_of_one() {
        assert_eq!(listed(json!({"tests": "a b"})), json!({"tests": ["a b"]}));
        assert_eq!(listed(json!({"tests": "[\"a\"]"})), json!({"tests": "[\"a\"]"}));
        assert_eq!(listed(json!({"file": "a"})), json!({"file": "a"}));
    }

    #[test]
    fn a_file_is_seen_from_its_project() {
        for (folder, path, expected) in [
            ("", "a/b", "a/b"),
            ("a", "a/b", "b"),
            ("a", "ab/c", "ab/c"),
            ("a", "b", "b"),
        ] {
            assert_eq!(below(folder, path), expected);
        }
    }
}
