//! Reading single files out of a mirror, with symbolic links followed inside the tree of the
//! commit. Never reads a file of this machine: a link that leaves the tree leads to nothing.

use std::path::Path;

use super::{Git, GitError, Remote, mirror};
use crate::ids::CommitSha;

/// Links followed before the path counts as a circle.
const MAX_LINKS: usize = 8;
/// Longest target of a link, in bytes.
const MAX_TARGET: u64 = 4096;

/// A file's bytes, or nothing where there is no file.
pub(super) async fn read(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    path: &str,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, GitError> {
    let Some(mut parts) = resolve_parts(&[], path) else {
        return Ok(None);
    };
    for _ in 0..=MAX_LINKS {
        match look_up(git, mirror, at, &parts).await? {
            Found::Nothing => return Ok(None),
            Found::File { id } => {
                let shown = format!("{path} of {at}");
                return read_blob(git, mirror, remote, &id, max_bytes, &shown).await.map(Some);
            }
            Found::Link { id, depth } => {
                let target = read_blob(git, mirror, remote, &id, MAX_TARGET, path).await?;
                let rest = parts.split_off(depth);
                parts.pop();
                let target = String::from_utf8(target).ok();
                let Some(resolved) = target.and_then(|target| resolve_parts(&parts, &target)) else {
                    return Ok(None);
                };
                parts = resolved;
                parts.extend(rest);
            }
        }
    }
    Ok(None)
}

/// `path` seen from the folder `from`, as parts; nothing when it leaves the tree.
fn resolve_parts(from: &[String], path: &str) -> Option<Vec<String>> {
    if path.is_empty() || path.starts_with('/') || path.contains('\0') || path.len() > 4096 {
        return None;
    }
    let mut parts = from.to_vec();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part.to_owned()),
        }
    }
    (!parts.is_empty()).then_some(parts)
}

enum Found {
    Nothing,
    File { id: String },
    Link { id: String, depth: usize },
}

/// Looks at the path and all folders above it in one call, and reports the first link or the file.
async fn look_up(git: &Git, mirror: &Path, at: &CommitSha, parts: &[String]) -> Result<Found, GitError> {
    let mut call = git.call(&["ls-tree", "-z", "--full-tree"]).arg(at.as_str()).arg("--");
    for depth in 1..=parts.len() {
        call = call.arg(parts[..depth].join("/"));
    }
    let output = call.git_dir(mirror).max_stdout(1 << 20).output().await?;
    if output.code != Some(0) {
        return Err(GitError::NotFound(format!("commit {at}: {}", output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    for entry in text.split('\0') {
        let Some((meta, name)) = entry.split_once('\t') else {
            continue;
        };
        let mut meta = meta.split(' ');
        let (mode, id) = (
            meta.next().unwrap_or_default(),
            meta.nth(1).unwrap_or_default().to_owned(),
        );
        let depth = name.split('/').count();
        // Asked for a folder and for something in it, git lists all that is in the folder.
        if parts.get(..depth).is_none_or(|above| above.join("/") != name) {
            continue;
        }
        if mode == "120000" {
            return Ok(Found::Link { id, depth });
        }
        if mode.starts_with("100") && depth == parts.len() {
            return Ok(Found::File { id });
        }
    }
    Ok(Found::Nothing)
}

async fn read_blob(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    id: &str,
    max_bytes: u64,
    shown: &str,
) -> Result<Vec<u8>, GitError> {
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let once = || git.call(&["cat-file", "blob"]).arg(id).git_dir(mirror).max_stdout(max);
    let mut output = once().output().await?;
    if output.code != Some(0) && !output.truncated {
        mirror::fetch_objects(git, mirror, remote, &[id.to_owned()]).await?;
        output = once().output().await?;
    }
    if output.truncated {
        return Err(GitError::Failed(format!("{shown} is larger than {max_bytes} bytes")));
    }
    if output.code != Some(0) {
        return Err(GitError::Failed(format!("{shown}: {}", output.stderr)));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &[&str], path: &str, expected: Option<&str>) {
        let from: Vec<String> = from.iter().map(|part| (*part).to_owned()).collect();
        assert_eq!(
            resolve_parts(&from, path).map(|parts| parts.join("/")).as_deref(),
            expected
        );
    }

    #[test]
    fn paths_stay_in_the_tree() {
        check(&[], "a/b", Some("a/b"));
        check(&["docs"], "../README.md", Some("README.md"));
        check(&["docs"], "./x", Some("docs/x"));
        check(&["docs"], "../../x", None);
        check(&[], "/etc/passwd", None);
        check(&["a"], "..", None);
        check(&[], "", None);
    }
}
