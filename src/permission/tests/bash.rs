//! Random shell lines, read by us and by bash: what we take for plain is the same to bash, and
//! what we do not see in a line does not run. Never runs anything but names that do not exist.

use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// Pieces of which shell lines are made, harmless ones.
const PIECES: &[&str] = &[
    "aa",
    "bb",
    "-c",
    "--x=y",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "$X",
    "${X}",
    "$(bb)",
    "`bb`",
    "$",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "#",
    "(",
    ")",
    "{",
    "}",
    ",",
    "*",
    "?",
    "[a]",
    "~",
    "!",
    "=",
    "<",
    ">",
    "2>&1",
    ">/dev/null",
    "<<E",
    "\t",
    "é",
    "\u{a0}",
    "\r",
    "%",
    "^",
    "$'a'",
    "$\"a\"",
    "[[",
    "]]",
    "..",
    "/",
];

/// Pieces of lines in which the command `zz` may run or not.
const AROUND: &[&str] = &[
    "zz",
    "zz",
    "aa",
    " ",
    " ",
    " ",
    ";",
    "&&",
    "|",
    "&",
    "\n",
    "$(",
    "`",
    ")",
    "(",
    "{",
    "}",
    "'",
    "\"",
    "\\",
    "<<E",
    "\nE\n",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "for x in ",
    "while ",
    "case x in x)",
    "esac",
    ";;",
    "!",
    "X=1 ",
    "$X",
    "${X:-",
    "}",
    "<(",
    "> f",
    "#",
    "$((",
    "))",
    "eval ",
    "bash -c ",
    "xargs ",
    "env ",
    "time ",
    "function f ",
    "f() ",
    "f",
    "[[ ",
    "]]",
    "\t",
    "é",
    "$'",
    "echo ",
];

/// Output and errors of a script in bash, with no program to be found.
fn bash(script: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("/usr/bin/timeout")
        .args(["5", "/bin/bash", "--norc", "--noprofile", "-c", script])
        .current_dir(folder.path())
        .env_clear()
        .envs([
            ("PATH", "/nonexistent"),
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C.UTF-8"),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.stdout, output.stderr)
}

/// The words that bash passes on.
fn words_of_bash(line: &str) -> Option<Vec<String>> {
    let script = format!("set -f; command_not_found_handle() {{ printf '%s\\0' RUN \"$@\"; }}\n{line}\n");
    let said = String::from_utf8(bash(&script).0).ok()?;
    let words: Vec<String> = said.strip_suffix('\0')?.split('\0').map(str::to_owned).collect();
    (words.first().map(String::as_str) == Some("RUN")).then(|| words[1..].to_vec())
}

/// Whether a rule that denies `zz` would see it.
fn is_seen(key: &CommandKey) -> bool {
    let words = ["zz".to_owned()];
    let mut parts = key.parts.iter();
    !key.is_readable || parts.any(|part| rule::begins_with(part, &words, rule::Unknown::MayBeAnything))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A line that is taken for one plain command is that very command to bash.
    #[test]
    fn what_is_plain_is_the_same_to_bash(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..9)) {
        let line = format!("aa {}", pieces.concat());
        let key = command_key(&line);
        // A redirection to nowhere takes its own words away; `~` is a folder of the machine.
        if let Some(words) = key.plain().filter(|_| !line.contains('>') && !line.contains('~')) {
            let bash = words_of_bash(&line);
            prop_assert_eq!(bash.as_deref(), Some(words), "{:?}", line);
            let again = command_key(&key.text());
            prop_assert_eq!(again.plain(), Some(words), "{:?}", key.text());
        }
    }

    #[test]
    fn no_line_breaks_the_reader(line in any::<String>(), pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        command_key(&line);
        command_key(&pieces.concat());
    }

    /// A program that a rule denies does not run in a line in which the rule does not see it.
    #[test]
    fn c06_what_is_not_seen_does_not_run(pieces in prop::collection::vec(prop::sample::select(AROUND), 1..10)) {
        let line = pieces.concat();
        if line.contains("zz") && !is_seen(&command_key(&line)) {
            let script = format!(
                "command_not_found_handle() {{ [ \"$1\" = zz ] && printf IT-RAN >&2; return 0; }}\n{line}\n"
            );
            let said = String::from_utf8_lossy(&bash(&script).1).into_owned();
            prop_assert!(!said.contains("IT-RAN"), "{:?}: {}", line, said);
        }
    }
}
