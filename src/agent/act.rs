//! What a tool call does, as far as working discipline needs to know: does it look, change, run,
//! or show the difference. Judged from the call alone, by simple rules. Called by `discipline`.
//! Never decides whether a call may run.

use serde_json::Value;

/// What a call does. A shell line can do several things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Act {
    /// It changes files.
    pub(super) edits: bool,
    /// It runs something whose result says whether the work is right.
    pub(super) runs: bool,
    /// It shows the difference to the base.
    pub(super) shows_diff: bool,
    /// Files and folders it is about.
    pub(super) paths: Vec<String>,
    /// The shell line.
    pub(super) line: Option<String>,
}

impl Act {
    /// Judges a call by the tool's own name and its arguments.
    pub(super) fn of(tool: &str, arguments: &Value) -> Self {
        let text = |key: &str| arguments[key].as_str().map(str::to_owned);
        let paths: Vec<String> = text("path").map(|path| relative(&path)).into_iter().collect();
        match tool {
            "write_file" | "edit_file" => Self {
                edits: true,
                paths,
                ..Self::default()
            },
            "apply_patch" => Self {
                edits: true,
                paths: patched(&text("patch").or_else(|| text("input")).unwrap_or_default()),
                ..Self::default()
            },
            "run_command" | "start_command" => Self::of_line(&text("command").unwrap_or_default()),
            // What tests, or a command in the background, came to.
            "run_tests" | "command_output" => Self {
                runs: true,
                ..Self::default()
            },
            // Going back to an earlier state changes files, keeping one does not.
            "commit" => Self {
                edits: !arguments["restore"].is_null(),
                ..Self::default()
            },
            "diff" => Self {
                shows_diff: true,
                ..Self::default()
            },
            _ => Self {
                paths,
                ..Self::default()
            },
        }
    }

    fn of_line(line: &str) -> Self {
        let mut act = Self {
            line: Some(line.to_owned()),
            ..Self::default()
        };
        for part in bare(line).split(['\n', ';', '|', '&']) {
            act.add_part(part.trim().trim_start_matches(['(', '{', '!']));
        }
        act
    }

    /// Adds one command of a line.
    fn add_part(&mut self, part: &str) {
        let mut words = part.split_whitespace().skip_while(|word| is_prefix(word));
        let Some(program) = words.next() else { return };
        let rest: Vec<&str> = words.collect();
        let first = rest
            .iter()
            .find(|word| !word.starts_with('-'))
            .copied()
            .unwrap_or_default();
        let writes = part.contains('>') && !part.contains("/dev/null");
        match program.rsplit('/').next().unwrap_or(program) {
            "git" if matches!(first, "diff" | "show") => self.shows_diff = true,
            "git"
                if matches!(
                    first,
                    "apply" | "checkout" | "restore" | "rm" | "mv" | "stash" | "reset" | "clean"
                ) =>
            {
                self.edits = true;
            }
            "git" => {}
            "sed" | "perl"
                if rest
                    .iter()
                    .any(|word| word.starts_with("-i") || word.starts_with("-pi")) =>
            {
                self.edits = true;
            }
            "mv" | "cp" | "rm" | "mkdir" | "tee" | "touch" | "patch" | "ln" | "rmdir" | "truncate" => self.edits = true,
            name if LOOKING.contains(&name) => self.edits |= writes,
            _ => self.runs = true,
        }
    }
}

/// A line without what stands in quotes, in here-documents and in joined streams.
fn bare(line: &str) -> String {
    let line = match line.split_once("<<") {
        Some((before, behind)) => format!("{before}{}", behind.split('\n').next().unwrap_or_default()),
        None => line.to_owned(),
    };
    let mut quote: Option<char> = None;
    let mut out = String::with_capacity(line.len());
    for c in line.replace("2>&1", "").replace("&>", ">").chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                out.push('q');
            }
            None => out.push(c),
        }
    }
    out.replace("2>/dev/null", "").replace("2> /dev/null", "")
}

/// Programs that only show something.
const LOOKING: [&str; 38] = [
    "cd", "ls", "cat", "head", "tail", "grep", "egrep", "rg", "find", "fd", "wc", "pwd", "echo", "printf", "which",
    "type", "file", "stat", "tree", "sed", "awk", "sort", "uniq", "cut", "tr", "less", "more", "du", "df", "env",
    "date", "true", "nl", "xxd", "jq", "sleep", "command", "od",
];

/// What stands before the program in a line.
fn is_prefix(word: &str) -> bool {
    matches!(word, "sudo" | "time" | "nice" | "then" | "do" | "else" | "if")
        || word
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

fn relative(path: &str) -> String {
    let path = path.trim();
    let inside = path.strip_prefix(crate::sandbox::WORKSPACE).unwrap_or(path);
    inside.trim_start_matches("./").trim_matches('/').to_owned()
}

/// Files that a patch names.
fn patched(patch: &str) -> Vec<String> {
    let heads = [
        "*** Update File:",
        "*** Add File:",
        "*** Delete File:",
        "+++ b/",
        "--- a/",
    ];
    let mut paths: Vec<String> = Vec::new();
    for line in patch.lines() {
        let named = heads.iter().find_map(|head| line.strip_prefix(head));
        if let Some(path) = named
            .map(relative)
            .filter(|path| !path.is_empty() && !paths.contains(path))
        {
            paths.push(path);
        }
    }
    paths
}

/// Whether a path is prose that no command can check.
pub(super) fn is_prose(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    matches!(ending, "md" | "markdown" | "rst" | "adoc")
        || matches!(name.as_str(), "license" | "authors" | "changelog" | "codeowners")
}

/// The exit code that a command's output begins with; `None` if it did not end by itself.
pub(super) fn exit_code(output: &str) -> Option<i32> {
    let rest = output.trim_start().strip_prefix("[exit code ")?;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let act = Act::of("run_command", &json!({"command": line}));
        let flags = [(act.edits, 'e'), (act.runs, 'r'), (act.shows_diff, 'd')];
        let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
        assert_eq!(flags, expected, "{line}");
    }

    #[test]
    fn shell_lines_look_change_run_or_show_the_difference() {
        check("cargo test --quiet", "r");
        check("cd src && ls | head", "");
        check("grep -rn foo . 2>/dev/null", "");
        check("RUST_BACKTRACE=1 cargo test 2>&1 | tail -20", "r");
        check("git status --short; git --no-pager diff", "d");
        check("git -c core.pager=cat log", "");
        check("sed -n 1,20p a.rs", "");
        check("sed -i s/a/b/ a.rs && make check", "er");
        check("echo x > a.txt", "e");
        check("./run.sh", "r");
        check("sh test.sh", "r");
        check("git checkout -- a.rs", "e");
        check("grep -n \"a|b; c -> d\" x", "");
        check("(cd a && make) 2>&1", "r");
        check("cat > a.txt <<'EOF'\nmake all\nEOF", "e");
        check("python3 - <<EOF\nprint(1)\nEOF", "r");
        check("", "");
    }

    #[test]
    fn calls_name_their_paths() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** Add File: /workspace/b.rs\n";
        assert_eq!(
            Act::of("apply_patch", &json!({"patch": patch})).paths,
            ["src/a.rs", "b.rs"]
        );
        let act = Act::of("edit_file", &json!({"path": "/workspace/src/a.rs"}));
        assert_eq!((act.edits, act.paths), (true, vec!["src/a.rs".to_owned()]));
        assert_eq!(Act::of("read_file", &json!({"path": "./x/y"})).paths, ["x/y"]);
        assert_eq!(Act::of("no_such", &json!(null)), Act::default());
        assert!(Act::of("commit", &json!({"restore": 0})).edits);
        assert!(!Act::of("commit", &json!({"message": "x"})).edits);
    }

    #[test]
    fn the_exit_code_is_read_from_the_first_line() {
        assert_eq!(exit_code("[exit code 0, 1.2 s]\nx"), Some(0));
        assert_eq!(exit_code("[exit code 101, 1.2 s]"), Some(101));
        assert_eq!(exit_code("[killed: timeout]"), None);
        assert_eq!(exit_code("x [exit code 0"), None);
    }

    #[test]
    fn prose_needs_no_run() {
        assert!(is_prose("docs/a.md") && is_prose("LICENSE"));
        assert!(!is_prose("a.rs") && !is_prose("CMakeLists.txt"));
    }
}
