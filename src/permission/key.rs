//! Permission keys as tools make them. Never loses what a rule must see: a shell line is in its
//! key whole, several files stand on several lines.

use super::command_key;

/// The key of a shell line: `run_command:git status` for one plain command, the whole line for
/// everything else.
pub fn of_command(tool: &str, line: &str) -> String {
    format!("{tool}:{}", command_key(line).text())
}

/// The key of a call that is about files, relative to the workspace; each has to be allowed.
pub fn of_paths<'a>(tool: &str, paths: impl IntoIterator<Item = &'a str>) -> String {
    let paths: Vec<String> = paths
        .into_iter()
        .map(|path| match path.replace('\n', "\u{fffd}") {
            root if root.is_empty() => ".".to_owned(),
            path => path,
        })
        .collect();
    format!("{tool}:{}", paths.join("\n"))
}

/// The key of a call that goes to a host of the web.
pub fn of_host(tool: &str, host: &str) -> String {
    format!("{tool}:{host}")
}
