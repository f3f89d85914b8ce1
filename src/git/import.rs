//! What a sandbox made, brought to our side: the pack of a bundle goes through fsck into a
//! fresh bare repository and is judged by the tree policy; then its tree becomes a commit of ours.
//! Never reuses a repository that took unchecked objects (fsck skips what is already there), and
//! takes nothing of the bundle but one tree: author, date, message and other refs stay behind.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::bundle;
use super::checkout::init_bare;
use super::policy::{self, Facts, RawChange};
use super::{Change, Git, GitError, Import, Signature, TreePolicy};
use crate::ids::CommitSha;
use crate::phrase::policy as words;
use crate::text;

/// Where the exported commit lands.
const IMPORT_REF: &str = "refs/import/change";
/// Longest time of any step on untrusted objects.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Most memory of git on untrusted objects: a small pack can unfold to anything.
const MAX_MEMORY: u64 = 4 << 30;
/// Most bytes of a listing: 5,000 changes with the longest paths.
const MAX_LISTING: usize = 32 << 20;
/// Most bytes of the list of all paths, for finding twins.
const MAX_PATHS: usize = 64 << 20;

/// Imports and judges.
pub(super) async fn import(
    git: &Git,
    bundle: &Path,
    base_git: &Path,
    base: &CommitSha,
    into: &Path,
    policy: &TreePolicy,
) -> Result<Import, GitError> {
    prepare(git, base_git, base, into).await?;
    let commit = take(git, bundle, base, into, policy).await?;
    let tree = tree_on_base(git, into, &commit, base).await?;
    let repo = Repo { git, path: into };
    // First, because it streams: a comparison is collected in memory, and a tree that names itself
    // ten times over ten levels would fill it.
    let all_paths = repo.all_paths(&tree, policy).await?;
    let raw = repo.raw_changes(base, &tree, policy).await?;
    let (sizes, links) = repo.look_at(&raw).await?;
    let facts = Facts {
        sizes: &sizes,
        links: &links,
        all_paths: &all_paths,
    };
    let violations = policy::judge(&raw, &facts, policy);
    if !violations.is_empty() {
        return Err(GitError::Policy(violations));
    }
    let changes = repo.describe(base, &tree, &raw, &sizes).await?;
    Ok(Import {
        repo: into.to_owned(),
        base: base.clone(),
        tree,
        changes,
    })
}

/// A fresh repository that borrows the base's objects and ends its history where the base does.
async fn prepare(git: &Git, base_git: &Path, base: &CommitSha, into: &Path) -> Result<(), GitError> {
    if fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(GitError::Failed(format!(
            "{} is not empty; an import starts fresh",
            into.display()
        )));
    }
    init_bare(git, into, base).await?;
    let objects = base_git.join("objects");
    let alternates = format!("{}\n", objects.display());
    let fail = |error: io::Error| GitError::Failed(format!("prepare {}: {error}", into.display()));
    fs::create_dir_all(into.join("objects/info")).map_err(fail)?;
    fs::write(into.join("objects/info/alternates"), alternates).map_err(fail)?;
    match fs::copy(base_git.join("shallow"), into.join("shallow")) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fail(error)),
    }
}

/// Takes the pack of the bundle, every object checked, and points our ref at the exported commit.
/// It is read once, from an open file: what the sandbox does to it meanwhile can only break it.
async fn take(
    git: &Git,
    path: &Path,
    base: &CommitSha,
    into: &Path,
    policy: &TreePolicy,
) -> Result<CommitSha, GitError> {
    let fail = |error: io::Error| GitError::Failed(format!("read the bundle {}: {error}", path.display()));
    let refuse = |problem: String| GitError::Policy(vec![problem]);
    let mut file = bundle::open(path).map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    if !found.is_file() {
        return Err(refuse("the bundle is not a regular file".to_owned()));
    }
    if found.len() > policy.max_bundle_bytes {
        return Err(refuse(words::change_too_large(
            policy.language,
            policy.max_bundle_bytes,
        )));
    }
    let tip = bundle::read_head(&mut file, &[base]).map_err(refuse)?;
    let output = git
        .call(&["index-pack", "--stdin", "--fix-thin", "--strict", "--fsck-objects"])
        .arg(format!("--max-input-size={}", policy.max_bundle_bytes))
        .git_dir(into)
        .stdin_file(file)
        .timeout(TIMEOUT)
        .limits(policy.max_bundle_bytes.saturating_mul(2).max(64 << 20), MAX_MEMORY)
        .output()
        .await?;
    if output.code != Some(0) {
        let reason = text::cap(&output.stderr, 1_000);
        return Err(refuse(format!("git refuses the bundle: {reason}")));
    }
    let set = git
        .call(&["update-ref", IMPORT_REF])
        .arg(tip.as_str())
        .git_dir(into)
        .output()
        .await?;
    match set.code {
        Some(0) => Ok(tip),
        _ => Err(refuse(format!("the bundle does not hold its commit {tip}"))),
    }
}

/// The commit's tree, if its only parent is the base.
async fn tree_on_base(git: &Git, into: &Path, commit: &CommitSha, base: &CommitSha) -> Result<String, GitError> {
    let output = git
        .call(&["cat-file", "commit"])
        .arg(commit.as_str())
        .git_dir(into)
        .max_stdout(1 << 20)
        .run()
        .await?;
    let content = String::from_utf8_lossy(&output.stdout);
    let headers = || content.lines().take_while(|line| !line.is_empty());
    let parents: Vec<&str> = headers().filter_map(|line| line.strip_prefix("parent ")).collect();
    let tree = headers().find_map(|line| line.strip_prefix("tree "));
    match tree {
        Some(tree) if parents == [base.as_str()] => Ok(tree.to_owned()),
        _ => Err(GitError::Policy(vec![format!(
            "the bundle's commit does not stand on {base} alone"
        )])),
    }
}

struct Repo<'a> {
    git: &'a Git,
    path: &'a Path,
}

impl Repo<'_> {
    /// A comparison of the base with the tree, without any program that attributes could name.
    fn compare<'b>(&'b self, format: &[&str], base: &CommitSha, tree: &str) -> super::run::Call<'b> {
        let call = self.git.call(&[
            "diff-tree",
            "-r",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
        ]);
        let call = format.iter().fold(call, |call, option| call.arg(option));
        call.arg("--end-of-options")
            .arg(base.as_str())
            .arg(tree)
            .git_dir(self.path)
            .timeout(TIMEOUT)
    }

    async fn raw_changes(&self, base: &CommitSha, tree: &str, policy: &TreePolicy) -> Result<Vec<RawChange>, GitError> {
        let output = self
            .compare(&["--raw", "-z", "--no-renames", "--no-abbrev"], base, tree)
            .max_stdout(MAX_LISTING)
            .output()
            .await?;
        if output.truncated {
            let seen = output.stdout.split(|byte| *byte == b':').count();
            return Err(GitError::Policy(vec![policy::too_many(
                seen.max(policy.max_changes + 1),
                policy,
            )]));
        }
        if output.code != Some(0) {
            return Err(GitError::Failed(format!("git diff-tree: {}", output.stderr)));
        }
        let changes = policy::parse_raw(&output.stdout)
            .ok_or_else(|| GitError::Failed("git diff-tree wrote something unexpected".to_owned()))?;
        // Everything after this costs time per change, so a flood ends here.
        if changes.len() > policy.max_changes {
            return Err(GitError::Policy(vec![policy::too_many(changes.len(), policy)]));
        }
        Ok(changes)
    }

    /// Sizes of all new contents and the targets of all new links.
    async fn look_at(
        &self,
        changes: &[RawChange],
    ) -> Result<(HashMap<String, u64>, HashMap<String, Vec<u8>>), GitError> {
        let new: Vec<&str> = changes
            .iter()
            .filter(|change| !matches!(change.new_mode.as_str(), "000000" | "160000"))
            .map(|change| change.new_id.as_str())
            .collect();
        let output = self
            .git
            .call(&["cat-file", "--batch-check=%(objectname) %(objectsize)"])
            .git_dir(self.path)
            .stdin(new.join("\n") + "\n")
            .max_stdout(MAX_LISTING)
            .run()
            .await?;
        let listing = String::from_utf8_lossy(&output.stdout);
        let sizes: HashMap<String, u64> = listing
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(id, size)| Some((id.to_owned(), size.parse().ok()?)))
            .collect();
        let mut links = HashMap::new();
        for change in changes.iter().filter(|change| change.new_mode == "120000") {
            let short = sizes
                .get(&change.new_id)
                .is_some_and(|size| *size <= policy::MAX_LINK as u64);
            if short && !links.contains_key(&change.new_id) {
                let target = self
                    .git
                    .call(&["cat-file", "blob"])
                    .arg(&change.new_id)
                    .git_dir(self.path);
                links.insert(change.new_id.clone(), target.run().await?.stdout);
            }
        }
        Ok((sizes, links))
    }

    async fn all_paths(&self, tree: &str, policy: &TreePolicy) -> Result<Vec<Vec<u8>>, GitError> {
        let output = self
            .git
            .call(&["ls-tree", "-r", "-z", "--full-tree", "--name-only"])
            .arg(tree)
            .git_dir(self.path)
            .timeout(TIMEOUT)
            .max_stdout(MAX_PATHS)
            .output()
            .await?;
        if output.truncated {
            return Err(GitError::Policy(vec![
                words::tree_too_large(policy.language).to_owned(),
            ]));
        }
        Ok(output
            .stdout
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// The changes in our own words, with line counts.
    async fn describe(
        &self,
        base: &CommitSha,
        tree: &str,
        raw: &[RawChange],
        sizes: &HashMap<String, u64>,
    ) -> Result<Vec<Change>, GitError> {
        let output = self
            .compare(&["--numstat", "-z", "--no-renames"], base, tree)
            .max_stdout(MAX_LISTING)
            .run()
            .await?;
        let mut counts: HashMap<&[u8], (u64, u64, bool)> = HashMap::new();
        for record in output.stdout.split(|byte| *byte == 0) {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let (Some(added), Some(removed), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let number = |field: &[u8]| std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
            let binary = added == b"-";
            counts.insert(path, (number(added).unwrap_or(0), number(removed).unwrap_or(0), binary));
        }
        Ok(raw
            .iter()
            .map(|change| {
                let (added, removed, binary) = counts.get(change.path.as_slice()).copied().unwrap_or_default();
                Change {
                    path: policy::shown_path(&change.path),
                    status: change.status,
                    bytes: sizes.get(&change.new_id).copied().unwrap_or(0),
                    binary,
                    lines: (added, removed),
                }
            })
            .collect())
    }
}

/// The import's changes as a unified diff.
pub(super) async fn diff(git: &Git, import: &Import, max_bytes: usize) -> Result<String, GitError> {
    let repo = Repo {
        git,
        path: &import.repo,
    };
    let output = repo
        .compare(&["-p", "--find-renames", "--no-color"], &import.base, &import.tree)
        .max_stdout(max_bytes)
        .output()
        .await?;
    if output.code != Some(0) && !output.truncated {
        return Err(GitError::Failed(format!("git diff-tree: {}", output.stderr)));
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.truncated {
        text.push_str("\n[… the diff is longer]");
    }
    Ok(text)
}

/// The import's tree as a commit of ours.
pub(super) async fn commit(
    git: &Git,
    import: &Import,
    parent: &CommitSha,
    message: &str,
    by: &Signature,
) -> Result<CommitSha, GitError> {
    commit_tree(git, &import.repo, &import.tree, &[parent], message, by).await
}

/// A tree as a commit of ours.
pub(super) async fn commit_tree(
    git: &Git,
    repo: &Path,
    tree: &str,
    parents: &[&CommitSha],
    message: &str,
    by: &Signature,
) -> Result<CommitSha, GitError> {
    let date = format!("@{} +0000", by.at.timestamp());
    let mut call = git.call(&["commit-tree", "-F", "-"]);
    for parent in parents {
        call = call.arg("-p").arg(parent.as_str());
    }
    call = call
        .arg("--end-of-options")
        .arg(tree)
        .git_dir(repo)
        .stdin(text::plain_output(message));
    for (role, value) in [("NAME", &by.name), ("EMAIL", &by.email), ("DATE", &date)] {
        call = call
            .env(&format!("GIT_AUTHOR_{role}"), value)
            .env(&format!("GIT_COMMITTER_{role}"), value);
    }
    let output = call.output().await?;
    if output.code != Some(0) {
        let missing = output.stderr.contains("not a valid object");
        return Err(match missing {
            true => GitError::NotFound(format!("commits {parents:?} in {}", repo.display())),
            false => GitError::Failed(format!("git commit-tree: {}", output.stderr)),
        });
    }
    output
        .line()
        .parse()
        .map_err(|error| GitError::Failed(format!("git commit-tree: {error}")))
}
