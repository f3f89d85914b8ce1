//! What no rule and no approval allows. Short, and for comfort: it says at once and in words what
//! would fail or do harm anyway. Called by `Policy::decide`.
//! Never the boundary: a line that hides what it does still meets the sandbox.

use super::flags::base;
use super::rule::{About, Call, Subject, Unknown, begins_with, flattened};
use super::shell::Word;

/// Commands, and why not.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["git", "push"],
        "Forgehand publishes the change itself, and there is no remote to push to",
    ),
    (
        &["git", "send-pack"],
        "Forgehand publishes the change itself, and there is no remote to push to",
    ),
    (&["git", "credential"], "there are no credentials here to look for"),
    (&["gh", "auth"], "there are no credentials here to look for"),
    (&["gh", "pr", "create"], "Forgehand opens the pull request itself"),
    (&["gh", "pr", "merge"], "a person merges"),
];

/// Names of folders and files with credentials, in a home folder or anywhere outside the workspace.
const CREDENTIALS: &[&str] = &[
    ".aws",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".ssh",
    "gshadow",
    "shadow",
];

/// Why a call is never allowed.
pub(super) fn reason(call: &Call) -> Option<String> {
    match &call.about {
        About::Command(key) => {
            let of_part = key.parts.iter().find_map(|part| of_command(part));
            let of_file = || key.written.iter().flatten().find_map(|path| of_git(path));
            of_part.or_else(of_file).map(str::to_owned)
        }
        About::Paths { paths, subject } => paths.iter().find_map(|path| {
            let of_git = (*subject == Subject::Write).then(|| of_git(path)).flatten();
            of_git.or_else(|| of_credentials(path)).map(str::to_owned)
        }),
        About::Host(_) | About::Nothing => None,
    }
}

fn of_command(part: &[Word]) -> Option<&'static str> {
    let named = COMMANDS.iter().find(|(words, _)| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        begins_with(part, &words, Unknown::IsNothing)
    });
    let known = || part.iter().flatten();
    named
        .map(|(_, why)| *why)
        .or_else(|| removes_everything(part).then_some("this removes everything there is"))
        .or_else(|| known().find_map(|word| of_credentials(word)))
}

fn removes_everything(part: &[Word]) -> bool {
    let mut words = part.iter().flatten();
    let is_rm = words.next().is_some_and(|program| base(program) == "rm");
    let is_everything =
        |word: &String| matches!(word.as_str(), "/" | "/*" | "/." | "~" | "~/" | "/workspace" | "/home");
    let is_recursive = |word: &String| {
        word == "--recursive" || (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
    };
    let words: Vec<&String> = words.collect();
    is_rm && words.iter().any(|word| is_everything(word)) && words.iter().any(|word| is_recursive(word))
}

fn of_credentials(path: &str) -> Option<&'static str> {
    let is_outside = path.starts_with('/') || path.starts_with('~');
    let is_environment = path.starts_with("/proc/") && path.ends_with("/environ");
    let is_inside = path.starts_with("/workspace/");
    let holds = path.split('/').any(|part| CREDENTIALS.contains(&part));
    (is_environment || (is_outside && !is_inside && holds)).then_some("credentials are nobody's business here")
}

/// Hooks and configuration of git are not written by hand: they run programs.
fn of_git(path: &str) -> Option<&'static str> {
    let flat = flattened(path).to_lowercase();
    let inside = flat.split('/').any(|part| part.trim_end_matches(['.', ' ']) == ".git");
    inside.then_some("what is in .git is git's own; use git's commands")
}
