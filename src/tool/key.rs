//! What the rules of permission know a call by: `run_command:git`, `write_file:src/a.rs`. Never a
//! wall: a line that is more than one plain command is known by all of it, so that no rule for its
//! first word lets the rest through.

use serde_json::Value;

use super::relative;

/// Characters that make more of a line than a command with words.
const COMPOUND: &[char] = &[
    '&', ';', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\n', '\r', '\\', '*', '?', '[', '~', '#', '!',
];

/// Names under which a command comes.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script", "code", "input"];

/// Names under which a path comes.
const PATH_KEYS: &[&str] = &["path", "file_path", "file", "filename"];

/// Of a shell line: its first word, or all of it.
pub(super) fn command(tool: &str, arguments: &Value) -> String {
    format!("{tool}:{}", of_line(given(arguments, COMMAND_KEYS)))
}

/// Of a file.
pub(super) fn file(tool: &str, arguments: &Value) -> String {
    format!("{tool}:{}", relative(given(arguments, PATH_KEYS)))
}

/// Of several files, each once.
pub(super) fn files(tool: &str, mut paths: Vec<String>) -> String {
    paths.sort();
    paths.dedup();
    format!("{tool}:{}", paths.join(","))
}

fn given<'a>(arguments: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().find_map(|key| arguments[*key].as_str()).unwrap_or_default()
}

fn of_line(line: &str) -> &str {
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    // `A=1 rm` runs rm, and quotes hide what the first word is.
    let is_plain = !line.contains(COMPOUND) && !first.contains(['=', '\'', '"']);
    if is_plain { first } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(
            command("run_command", &json!({"command": line})),
            format!("run_command:{expected}")
        );
    }

    #[test]
    fn plain_commands_are_known_by_their_first_word() {
        check(" git status -s", "git");
        check("cargo test --test 'a b'", "cargo");
        check("", "");
    }

    #[test]
    fn compound_commands_are_known_whole() {
        for line in [
            "git log && rm x",
            "git log; rm x",
            "git log | sh",
            "git log > x",
            "git log `rm x`",
            "git log $(rm x)",
            "git log\nrm x",
            "A=1 git log",
            "'git' log",
            "git log &",
        ] {
            check(line, line);
        }
    }

    #[test]
    fn files_are_known_by_their_path() {
        assert_eq!(
            file("write_file", &json!({"file_path": "/workspace/src/a.rs"})),
            "write_file:src/a.rs"
        );
        assert_eq!(
            files("apply_patch", vec!["b".to_owned(), "a".to_owned(), "b".to_owned()]),
            "apply_patch:a,b"
        );
    }
}
