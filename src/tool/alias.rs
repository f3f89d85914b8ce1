//! Names and arguments that models know from other agents, as the tools here. Called by the
//! toolbox. Never turns a name into something that does more than its name says.

use serde_json::{Map, Value, json};

mod shape;

/// The tool that is meant, and its arguments. Unknown names come back as they are.
pub(super) fn resolve(name: &str, arguments: Value) -> (String, Value) {
    let bare = name.trim();
    let bare = bare.strip_prefix("functions.").unwrap_or(bare);
    let plain: String = bare
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let plain = plain.strip_suffix("tool").unwrap_or(&plain);
    let tool = match plain {
        "listdirectory" | "ls" | "list" | "listdir" | "listfiles" | "directorytree" => "list_directory",
        "readfile" | "read" | "cat" | "view" | "viewfile" | "openfile" | "open" => "read_file",
        "writefile" | "write" | "create" | "createfile" | "savefile" | "writetofile" => "write_file",
        "editfile" | "edit" | "strreplace" | "replace" | "replaceinfile" | "searchreplace" => "edit_file",
        "applypatch" | "patch" | "applydiff" => "apply_patch",
        "astgrep" | "astgrepsearch" | "sg" | "structuralsearch" => "ast_grep",
        "searchcode" | "codebasesearch" | "semanticsearch" | "searchcodebase" => "search_code",
        "diff" | "showdiff" | "gitdiff" | "viewdiff" => "diff",
        "commit" | "checkpoint" | "gitcommit" | "savecheckpoint" => "commit",
        "glob" | "find" | "findfiles" | "filesearch" => "glob",
        "grep" | "search" | "rg" | "ripgrep" | "searchfiles" | "grepsearch" | "codesearch" => "grep",
        "runcommand" | "bash" | "shell" | "sh" | "run" | "exec" | "execute" | "terminal" | "executebash"
        | "executecommand" | "runshell" | "runshellcommand" | "runterminalcmd" | "localshell" | "cmd" => "run_command",
        "runtests" | "runtest" | "test" | "executetests" => "run_tests",
        "startcommand" | "runinbackground" | "startprocess" => "start_command",
        "commandoutput" | "bashoutput" | "getoutput" | "readoutput" | "processoutput" => "command_output",
        "stopcommand" | "killshell" | "killbash" | "killprocess" | "stopprocess" => "stop_command",
        "plan" | "todo" | "todowrite" | "updateplan" | "writetodos" => "plan",
        "webfetch" | "fetch" | "fetchurl" | "browse" | "openurl" => "web_fetch",
        "searchweb" | "websearch" | "googlesearch" => "search_web",
        "draftissue" | "draft" | "createissue" | "openissue" | "reportissue" | "fileissue" => "draft_issue",
        "finish" | "done" | "submit" | "complete" | "attemptcompletion" => "finish",
        "git" | "cargo" | "npm" | "node" | "python" | "python3" | "pytest" | "make" | "go" => {
            return ("run_command".to_owned(), program(plain, &arguments));
        }
        "strreplaceeditor" | "strreplacebasededit" | "texteditor" | "editor" => return editor(name, arguments),
        _ => return (name.to_owned(), arguments),
    };
    let arguments = match tool {
        "run_command" => {
            let arguments = with_command_line(arguments);
            if let Some(patch) = arguments["command"].as_str().and_then(patch_in) {
                return ("apply_patch".to_owned(), json!({ "patch": patch }));
            }
            return in_background(arguments);
        }
        "plan" => with_steps(arguments),
        "read_file" => shape::with_range(arguments),
        "grep" => shape::with_flags(arguments),
        _ => arguments,
    };
    (tool.to_owned(), arguments)
}

/// A program called as if it were a tool. Its own name is not doubled (`git git status`).
fn program(name: &str, arguments: &Value) -> Value {
    let given = ["command", "cmd", "args", "arguments", "input"]
        .iter()
        .find_map(|key| arguments.get(key));
    let line = given.map(command_line).unwrap_or_default();
    let first = line.split_whitespace().next();
    if first == Some(name) {
        json!({"command": line})
    } else {
        json!({"command": format!("{name} {line}").trim_end()})
    }
}

/// Some agents start a background command with a flag of the ordinary tool.
fn in_background(mut arguments: Value) -> (String, Value) {
    let keys = ["run_in_background", "is_background", "background"];
    let object = arguments.as_object_mut();
    let flags: Vec<Value> = object
        .into_iter()
        .flat_map(|given| keys.iter().filter_map(|key| given.remove(*key)))
        .collect();
    let tool = if flags.contains(&Value::Bool(true)) {
        "start_command"
    } else {
        "run_command"
    };
    (tool.to_owned(), arguments)
}

/// The patch of a line that calls a program `apply_patch`, which models know from elsewhere and no
/// sandbox has. `None`: the line does something else, or more.
fn patch_in(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = ["apply_patch", "applypatch"]
        .iter()
        .find_map(|name| line.strip_prefix(name))?;
    let rest = rest.strip_prefix([' ', '\t', '\n'])?.trim_start();
    let Some(heredoc) = rest.strip_prefix("<<") else {
        let bare = |quote| rest.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let patch = bare('\'').or_else(|| bare('"')).unwrap_or(rest);
        return patch.contains("***").then(|| patch.to_owned());
    };
    let (word, body) = heredoc.trim_start_matches('-').split_once('\n')?;
    let word = word.trim().trim_matches(['\'', '"']);
    let end = body.lines().position(|line| line.trim() == word);
    let lines: Vec<&str> = body.lines().collect();
    let (patch, after) = lines.split_at(end.unwrap_or(lines.len()));
    let nothing_after = after.iter().skip(1).all(|line| line.trim().is_empty());
    nothing_after.then(|| patch.join("\n"))
}

/// A command given as a list of words becomes the line that means the same.
fn with_command_line(mut arguments: Value) -> Value {
    if let Some(command) = arguments.get_mut("command").filter(|command| command.is_array()) {
        *command = Value::String(command_line(command));
    }
    arguments
}

fn command_line(command: &Value) -> String {
    let words: Vec<&str> = match command {
        Value::String(line) => return line.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => return String::new(),
    };
    match words.as_slice() {
        ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc" | "-lic", line] => (*line).to_owned(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Plans come as `plan`, `todos` or `steps`, of strings or of objects with a status.
fn with_steps(arguments: Value) -> Value {
    let list = ["steps", "plan", "todos"].iter().find_map(|key| arguments.get(key));
    let parsed = list
        .and_then(Value::as_str)
        .and_then(|text| serde_json::from_str(text).ok());
    let Some(steps) = parsed.as_ref().or(list).and_then(Value::as_array) else {
        return arguments;
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    json!({ "steps": steps })
}

fn step(step: &Value) -> Value {
    if let Some(text) = step.as_str() {
        return json!({ "step": text });
    }
    let text = ["step", "content", "title", "description"]
        .iter()
        .find_map(|key| step[*key].as_str());
    let Some(text) = text else { return step.clone() };
    let done = step["done"].as_bool().unwrap_or(false) || matches!(step["status"].as_str(), Some("completed" | "done"));
    json!({"step": text, "done": done})
}

/// The editor with a `command` of its own that several agents offer.
fn editor(name: &str, arguments: Value) -> (String, Value) {
    let Value::Object(mut given) = arguments else {
        return (name.to_owned(), arguments);
    };
    let command = given.remove("command");
    let path = given.remove("path").unwrap_or_default();
    let mut take = |key: &str| given.remove(key).filter(|value| !value.is_null());
    let mut fitted = Map::from_iter([("path".to_owned(), path)]);
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fitted.insert(key.to_owned(), value);
        }
    };
    let tool = match command.as_ref().and_then(Value::as_str) {
        Some("view") => {
            if let Some(range) = take("view_range") {
                let range = range
                    .as_str()
                    .and_then(|text| serde_json::from_str(text).ok())
                    .unwrap_or(range);
                let (first, last) = (range[0].as_u64().unwrap_or(1), range[1].as_u64());
                put("offset", Some(json!(first)));
                put("limit", last.map(|last| json!(last.saturating_sub(first) + 1)));
            }
            "read_file"
        }
        Some("create") => {
            put("content", take("file_text"));
            "write_file"
        }
        Some("str_replace") => {
            put("old_text", take("old_str"));
            put("new_text", Some(take("new_str").unwrap_or_else(|| json!(""))));
            "edit_file"
        }
        Some("insert") => {
            put("insert_after_line", take("insert_line"));
            let new = take("new_str").or_else(|| take("insert_text"));
            put("new_text", new);
            "edit_file"
        }
        _ => return (name.to_owned(), Value::Null),
    };
    (tool.to_owned(), Value::Object(fitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, arguments: Value, tool: &str, expected: Value) {
        assert_eq!(resolve(name, arguments), (tool.to_owned(), expected));
    }

    #[test]
    fn l7_names_of_other_agents_are_understood() {
        check(
            "bash",
            json!({"command": "ls"}),
            "run_command",
            json!({"command": "ls"}),
        );
        check("GrepTool", json!({"pattern": "x"}), "grep", json!({"pattern": "x"}));
        check(
            "functions.read_file",
            json!({"path": "a"}),
            "read_file",
            json!({"path": "a"}),
        );
        check("ReadFile", json!({"path": "a"}), "read_file", json!({"path": "a"}));
        check("deploy", json!({"x": 1}), "deploy", json!({"x": 1}));
    }

    #[test]
    fn l7_a_program_is_not_doubled() {
        check(
            "git",
            json!({"command": "git status"}),
            "run_command",
            json!({"command": "git status"}),
        );
        check(
            "git",
            json!({"command": "status -s"}),
            "run_command",
            json!({"command": "git status -s"}),
        );
        check(
            "cargo",
            json!({"args": ["test", "a b"]}),
            "run_command",
            json!({"command": "cargo test 'a b'"}),
        );
        check("git", json!({}), "run_command", json!({"command": "git"}));
    }

    #[test]
    fn x23_a_flag_for_the_background_is_another_tool() {
        check(
            "bash",
            json!({"command": "npm test", "run_in_background": true}),
            "start_command",
            json!({"command": "npm test"}),
        );
        check(
            "bash",
            json!({"command": "ls", "run_in_background": false}),
            "run_command",
            json!({"command": "ls"}),
        );
        check(
            "KillShell",
            json!({"shell_id": 2}),
            "stop_command",
            json!({"shell_id": 2}),
        );
    }

    #[test]
    fn commands_given_as_words_become_a_line() {
        let line = |words: Value| resolve("shell", json!({"command": words})).1["command"].clone();
        assert_eq!(line(json!(["bash", "-lc", "a && b"])), "a && b");
        assert_eq!(line(json!(["echo", "it's", "$HOME"])), r"echo 'it'\''s' '$HOME'");
    }

    #[test]
    fn e22_a_patch_called_as_a_program_goes_to_the_tool() {
        let patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch";
        for arguments in [
            json!({"command": format!("apply_patch <<'EOF'\n{patch}\nEOF\n")}),
            json!({"command": format!("apply_patch << \"PATCH\"\n{patch}\nPATCH")}),
            json!({"command": format!("apply_patch '{patch}'")}),
            json!({"command": ["apply_patch", patch]}),
            json!({"command": ["bash", "-lc", format!("apply_patch <<EOF\n{patch}\nEOF")]}),
        ] {
            check("shell", arguments, "apply_patch", json!({ "patch": patch }));
        }
        for line in [
            "apply_patch --help",
            "apply_patches x",
            &format!("apply_patch <<E\n{patch}\nE\nls"),
        ] {
            check(
                "bash",
                json!({"command": line}),
                "run_command",
                json!({"command": line}),
            );
        }
    }

    #[test]
    fn the_common_editor_is_understood() {
        let name = "str_replace_editor";
        check(
            name,
            json!({"command": "view", "path": "a", "view_range": "[11, 20]"}),
            "read_file",
            json!({"path": "a", "offset": 11, "limit": 10}),
        );
        check(
            name,
            json!({"command": "str_replace", "path": "a", "old_str": "x"}),
            "edit_file",
            json!({"path": "a", "old_text": "x", "new_text": ""}),
        );
        check(
            name,
            json!({"command": "insert", "path": "a", "insert_line": 3, "new_str": "x"}),
            "edit_file",
            json!({"path": "a", "insert_after_line": 3, "new_text": "x"}),
        );
        check(
            name,
            json!({"command": "create", "path": "a", "file_text": "x"}),
            "write_file",
            json!({"path": "a", "content": "x"}),
        );
        check(name, json!({"command": "undo_edit", "path": "a"}), name, Value::Null);
    }

    #[test]
    fn plans_come_in_every_shape() {
        let steps = json!({"steps": [{"step": "a"}, {"step": "b", "done": true}]});
        check(
            "plan",
            json!({"steps": ["a", {"step": "b", "done": true}]}),
            "plan",
            steps,
        );
        check(
            "update_plan",
            json!({"plan": "[{\"step\":\"a\",\"status\":\"completed\"}]"}),
            "plan",
            json!({"steps": [{"step": "a", "done": true}]}),
        );
    }
}
