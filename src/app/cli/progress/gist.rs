//! A tool call in a line: what it was for, what came of it, and a few lines of an edit or of a
//! failed command below it. Reads what the tools say, and says less where it does not understand
//! them. Never shows text that is not cleaned.

use serde_json::{Map, Value};

use super::super::screen::paint::{clean, one_line};
use crate::text;
use crate::tool;

mod change;

pub(in crate::app::cli) use change::Below;
use change::{between, of_patch};

/// Most characters of one line's text where no terminal cuts it.
pub(in crate::app::cli) const MAX_CHARS: usize = 160;
/// Lines shown of the output of a failed command.
const MAX_TAIL: usize = 5;
/// Most characters of one of them.
const MAX_TAIL_CHARS: usize = 200;

/// Arguments that say best what a tool was called for; the rest is content.
const TELLING: [&str; 11] = [
    "command", "pattern", "path", "glob", "query", "url", "title", "message", "name", "key", "action",
];
/// Names of a file's path, as models write it.
const PATHS: [&str; 4] = ["path", "file_path", "file", "filename"];
const OLD: [&str; 5] = ["old_text", "old_str", "old_string", "old", "search"];
const NEW: [&str; 5] = ["new_text", "new_str", "new_string", "new", "replace"];

/// A tool call as people see it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::app::cli) struct Gist {
    pub(in crate::app::cli) went_well: bool,
    /// What it was for.
    pub(in crate::app::cli) label: String,
    /// What came of it, in a few words.
    pub(in crate::app::cli) how: String,
    /// Lines below.
    pub(in crate::app::cli) below: Vec<Below>,
}

/// A call in the words of the tools here, however the model called it.
struct Call {
    tool: String,
    given: Map<String, Value>,
}

impl Call {
    fn read(tool: &str, arguments: &str) -> Self {
        let given = match serde_json::from_str(arguments) {
            Ok(given @ Value::Object(_)) => given,
            _ => Value::Object(salvage(arguments)),
        };
        let (tool, given) = tool::known_as(tool, given);
        let given = match given {
            Value::Object(given) => given,
            _ => Map::new(),
        };
        Self { tool, given }
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.given.get(*name)?.as_str())
    }

    /// What it was called for, on one line.
    fn label(&self) -> String {
        let of_tool = |words: String| format!("{} {words}", one_line(&self.tool)).trim_end().to_owned();
        let label = match self.tool.as_str() {
            "run_command" => format!("$ {}", one_line(self.text(&["command", "cmd"]).unwrap_or_default())),
            "read_file" | "write_file" | "edit_file" | "list_directory" => {
                of_tool(one_line(self.text(&PATHS).unwrap_or_default()))
            }
            "finish" => match self.text(&["title"]).filter(|title| !title.is_empty()) {
                Some(title) => of_tool(one_line(title)),
                None => of_tool(one_line(self.text(&["status"]).unwrap_or_default())),
            },
            _ => {
                let words = TELLING.iter().filter_map(|name| self.given.get(*name)?.as_str());
                let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
                of_tool(one_line(&words.join(" ")))
            }
        };
        text::cap_chars(&label, MAX_CHARS)
    }
}

/// What a call is for.
pub(in crate::app::cli) fn label(tool: &str, arguments: &str) -> String {
    Call::read(tool, arguments).label()
}

/// Whether a call sets the plan.
pub(in crate::app::cli) fn is_plan(tool: &str) -> bool {
    tool::known_as(tool, Value::Null).0 == "plan"
}

/// What a call came to.
pub(in crate::app::cli) fn of(tool: &str, arguments: &str, output: &str, ok: bool) -> Gist {
    let call = Call::read(tool, arguments);
    let label = call.label();
    if !ok {
        let below = match call.tool.as_str() {
            "finish" => demands(output),
            _ => last_lines(output),
        };
        let below = below.into_iter().map(Below::Output);
        return Gist {
            went_well: false,
            label,
            how: String::new(),
            below: below.collect(),
        };
    }
    let plain = |how: String| Gist {
        went_well: true,
        label: label.clone(),
        how,
        below: Vec::new(),
    };
    match call.tool.as_str() {
        "run_command" => command(label, output),
        "run_tests" => tests(label, output),
        "read_file" => plain(counted(
            output,
            output.lines().filter(|line| is_numbered(line)).count(),
            "line",
        )),
        "list_directory" => plain(counted(output, output.lines().count(), "entry")),
        "glob" if output.starts_with('[') => plain("no file".to_owned()),
        "glob" => plain(counted(output, output.lines().count(), "file")),
        "grep" | "search_code" => plain(matches(output)),
        "edit_file" => edit(&call, label, output),
        "write_file" => written(&call, label, output),
        "apply_patch" => {
            let patch = call.text(&["patch", "input", "diff"]).unwrap_or_default();
            let change = of_patch(patch);
            Gist {
                how: format!("+{} −{}", change.added, change.removed),
                below: change.shown(),
                ..plain(String::new())
            }
        }
        "finish" | "plan" => plain(String::new()),
        _ => plain(first_words(output)),
    }
}

fn command(label: String, output: &str) -> Gist {
    let (head, rest) = output.split_once('\n').unwrap_or((output, ""));
    let head = head.trim_start_matches('[');
    let how = head.split(", ").next().unwrap_or_default().trim_end_matches(']');
    let how = one_line(how).replace("exit code ", "exit ");
    let went_well = how == "exit 0";
    let lines = match rest {
        "[no output]" | "" => String::new(),
        rest => format!(", {}", counted(rest, rest.lines().count(), "line")),
    };
    let tail = if went_well { Vec::new() } else { last_lines(rest) };
    Gist {
        went_well,
        label,
        how: format!("{}{lines}", text::cap_chars(&how, 60)),
        below: tail.into_iter().map(Below::Output).collect(),
    }
}

/// A run of tests: how it ended, and the first tests that failed.
fn tests(label: String, output: &str) -> Gist {
    let how = output
        .trim_start_matches('[')
        .split([',', ':'])
        .next()
        .unwrap_or_default();
    let how = one_line(how).replace("exit code ", "exit ");
    let names = output.lines().skip_while(|line| !line.starts_with("Failed ("));
    let failed: Vec<&str> = names.skip(1).map_while(|line| line.strip_prefix("- ")).collect();
    let count = match failed.len() {
        0 => String::new(),
        count => format!(", {count} failed"),
    };
    let shown = failed.iter().take(MAX_TAIL);
    Gist {
        went_well: how == "exit 0",
        label,
        how: format!("{}{count}", text::cap_chars(&how, 60)),
        below: shown
            .map(|name| Below::Output(text::cap_chars(&one_line(name), MAX_TAIL_CHARS)))
            .collect(),
    }
}

/// What a `finish` that was sent back still lacks; else its last words.
fn demands(output: &str) -> Vec<String> {
    let lines = output.lines().filter(|line| line.starts_with("- ")).take(MAX_TAIL);
    let demands: Vec<String> = lines
        .map(|line| text::cap_chars(clean(line).trim_end(), MAX_TAIL_CHARS))
        .collect();
    if demands.is_empty() {
        last_lines(output)
    } else {
        demands
    }
}

fn edit(call: &Call, label: String, output: &str) -> Gist {
    let (old, new) = (call.text(&OLD).unwrap_or_default(), call.text(&NEW).unwrap_or_default());
    let first = output.lines().next().unwrap_or_default();
    let place = first
        .split(" line ")
        .nth(1)
        .and_then(|rest| rest.split(['.', ',']).next());
    let change = between(old, new);
    let how = match call.given.is_empty() {
        true => String::new(),
        false => format!("+{} −{}", change.added, change.removed),
    };
    let mut below = change.shown();
    below.extend(output.lines().find(|line| line.starts_with("Careful: ")).map(|line| {
        let words = line.trim_start_matches("Careful: ");
        Below::Output(text::cap_chars(&one_line(words), MAX_TAIL_CHARS))
    }));
    let place = place.filter(|place| place.bytes().all(|byte| byte.is_ascii_digit()));
    Gist {
        went_well: true,
        label: place.map_or(label.clone(), |line| format!("{label}:{line}")),
        how,
        below,
    }
}

fn written(call: &Call, label: String, output: &str) -> Gist {
    let content = call.text(&["content", "text", "contents"]).unwrap_or_default();
    let is_new = output.starts_with("Created");
    let lines = output.split(": ").nth(1).and_then(|rest| rest.split(',').next());
    let kind = if is_new { "new" } else { "replaced" };
    let how = lines.map_or(kind.to_owned(), |lines| format!("{kind}, {}", one_line(lines)));
    Gist {
        went_well: true,
        label,
        how: text::cap_chars(&how, 60),
        below: if is_new {
            between("", content).shown()
        } else {
            Vec::new()
        },
    }
}

/// `path:7:text` is a match, `path-7-text` its surroundings.
fn matches(output: &str) -> String {
    if output.starts_with("[no match") {
        return "no match".to_owned();
    }
    let mut files: Vec<&str> = Vec::new();
    let mut count = 0;
    for line in output.lines() {
        let mut parts = line.splitn(3, ':');
        let (path, number) = (parts.next(), parts.next());
        let is_match = number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        if let (Some(path), true) = (path, is_match) {
            count += 1;
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    if count == 0 {
        return first_words(output);
    }
    let more = if output.contains("[there are more") { "+" } else { "" };
    let matches = counted("", count, "match");
    format!("{matches}{more} in {}", counted("", files.len(), "file"))
}

/// A line as `read_file` numbers it.
fn is_numbered(line: &str) -> bool {
    let number = line.split('\t').next().unwrap_or_default().trim();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// So many of something; the output of a call may be cut in its event.
fn counted(output: &str, count: usize, what: &str) -> String {
    let more = if output.contains(" bytes left out …]") {
        "+"
    } else {
        ""
    };
    let plural = match (count, what) {
        (1, _) => what.to_owned(),
        (_, "entry") => "entries".to_owned(),
        (_, "match") => "matches".to_owned(),
        _ => format!("{what}s"),
    };
    format!("{count}{more} {plural}")
}

fn first_words(output: &str) -> String {
    let line = output.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    text::cap_chars(&one_line(line), 60)
}

/// The end of an output, where errors stand.
pub(in crate::app::cli) fn last_lines(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(MAX_TAIL);
    let shown = lines[from..].iter();
    shown
        .map(|line| text::cap_chars(clean(line).trim_end(), MAX_TAIL_CHARS))
        .collect()
}

/// What can be read of arguments that are cut in the middle or were never whole: the texts of the
/// fields that say what a call is for.
fn salvage(arguments: &str) -> Map<String, Value> {
    let mut given = Map::new();
    for name in TELLING.iter().chain(&PATHS) {
        let Some(at) = arguments.find(&format!("\"{name}\"")) else {
            continue;
        };
        let rest = arguments[at + name.len() + 2..].trim_start();
        let Some(rest) = rest.strip_prefix(':').map(str::trim_start) else {
            continue;
        };
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        if let Some(Ok(value)) = values.next() {
            given.insert((*name).to_owned(), Value::String(value));
        }
    }
    given
}

#[cfg(test)]
mod tests;
