//! Where a case's repository is on disk. Never fetches one.

use std::path::{Path, PathBuf};

/// The git directory of `owner/name` below a folder.
///
/// # Errors
/// Where it was looked for, in a sentence.
pub fn find_in(repos: &Path, name: &str) -> Result<PathBuf, String> {
    let places = places(repos, name);
    let looked = places.each_ref().map(|dir| dir.display().to_string());
    let found = places.into_iter().find_map(git_dir);
    found.ok_or_else(|| format!("no repository at {}", looked.join(", ")))
}

/// Where it is looked for.
fn places(repos: &Path, name: &str) -> [PathBuf; 5] {
    let last = name.rsplit('/').next().unwrap_or(name);
    [
        repos.join(name.replace('/', "+")).join("repo"),
        repos.join(name),
        repos.join(format!("{name}.git")),
        repos.join(last),
        repos.join(format!("{last}.git")),
    ]
}

fn git_dir(dir: PathBuf) -> Option<PathBuf> {
    let is_git = |dir: &Path| dir.join("HEAD").is_file() && dir.join("objects").is_dir();
    if is_git(&dir) {
        return Some(dir);
    }
    let inner = dir.join(".git");
    is_git(&inner).then_some(inner)
}
