//! What the rules of permission know a call by: `run_command:git status`, `write_file:src/a.rs`.
//! Called by the tools for their own keys. Never judges: that is `permission`, which also says how
//! a shell line is read. A call with arguments that do not fit has a bare key, and is not run.

use serde_json::Value;

use super::{arguments, relative};
use crate::permission::key;

/// Names under which a command comes.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script", "code", "input"];

/// Names under which a path comes.
const PATH_KEYS: &[&str] = &["path", "file_path", "file", "filename", "directory", "folder", "dir"];

/// Of a shell line.
pub(super) fn command(tool: &str, arguments: &Value) -> String {
    match given(arguments, COMMAND_KEYS) {
        Some(line) => key::of_command(tool, &line.replace("\r\n", "\n")),
        None => tool.to_owned(),
    }
}

/// Of a file.
pub(super) fn file(tool: &str, arguments: &Value) -> String {
    let path = given(arguments, PATH_KEYS).unwrap_or_default();
    key::of_paths(tool, [relative(&path).as_str()])
}

/// Of several files, each of which has to be allowed. Without any, nothing will be done.
pub(super) fn files(tool: &str, mut paths: Vec<String>) -> String {
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        return tool.to_owned();
    }
    key::of_paths(tool, paths.iter().map(String::as_str))
}

/// A text among arguments, fitted as [`arguments::fit`] does it.
fn given(arguments: &Value, keys: &[&str]) -> Option<String> {
    let read = match arguments {
        Value::String(text) => arguments::parse_json(text).ok()?,
        other => other.clone(),
    };
    let value = keys
        .iter()
        .find_map(|key| read.get(*key).filter(|value| !value.is_null()))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(parts) => parts.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_holds_what_the_tool_will_get_however_it_is_written() {
        for (arguments, expected) in [
            (
                json!({"command": " /usr/bin/git  status -s"}),
                "run_command:git status -s",
            ),
            (json!({"cmd": "git log && rm x"}), "run_command:git log && rm x"),
            (json!({"command": ["git ", "push"]}), "run_command:git push"),
            (json!(r#"{"command": "git push"}"#), "run_command:git push"),
            (json!({"command": "a\r\nb"}), "run_command:a\nb"),
            (json!({"command": {}}), "run_command"),
            (json!({}), "run_command"),
        ] {
            assert_eq!(command("run_command", &arguments), expected);
        }
        for (arguments, expected) in [
            (json!({"file_path": "/workspace/src/a.rs"}), "write_file:src/a.rs"),
            (json!({"path": ["src/", "a.rs"]}), "write_file:src/a.rs"),
            (json!({}), "write_file:."),
        ] {
            assert_eq!(file("write_file", &arguments), expected);
        }
        let paths = ["b", "a", "b"].map(str::to_owned).to_vec();
        assert_eq!(files("apply_patch", paths), "apply_patch:a\nb");
    }
}
