//! Two lines of work put together without a working tree, in a fresh bare repository of our own that
//! borrows its objects: by their history, or against a base that is named. Called through `run` and
//! `publish`. Never runs a program that a repository names (attributes are not read, and merge
//! drivers are configuration, of which there is none but ours), and never writes into a mirror.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checkout::init_bare;
use super::policy::shown_path;
use super::{Git, GitError, Remote, Signature, import, mirror};
use crate::ids::CommitSha;
use crate::text;

/// Longest time of one merge, and most memory: nobody vouches for the trees.
const TIMEOUT: Duration = Duration::from_secs(120);
const MAX_MEMORY: u64 = 4 << 30;
/// Largest file that a merge may write.
const MAX_FILE: u64 = 1 << 30;
/// Most bytes that git may say of conflicts.
const MAX_OUTPUT: usize = 16 << 20;
/// Most common ancestors that are made complete: histories that cross more often than this are
/// merged against the best one alone.
const MAX_BASES: usize = 8;
/// Most bytes of a file that is looked through for marks of a conflict.
const MAX_LOOKED_THROUGH: usize = 20 << 20;

/// One of the two lines.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// What it is called where the two conflict: a plain word.
    pub label: &'static str,
    /// Its commit.
    pub commit: &'a CommitSha,
}

/// What is to be put together.
#[derive(Debug, Clone, Copy)]
pub struct Merge<'a> {
    /// The repository's mirror, which is made complete where it has to be.
    pub mirror: &'a Path,
    /// Where the mirror gets missing objects from.
    pub remote: &'a Remote,
    /// Another repository of ours with objects that the mirror does not have.
    pub lender: Option<&'a Path>,
    /// A folder for the result, absent or empty.
    pub into: &'a Path,
    /// The line that goes on.
    pub ours: Line<'a>,
    /// The line that comes to it.
    pub theirs: Line<'a>,
    /// The commit against which the two are compared. Without one, their common ancestors.
    pub base: Option<&'a CommitSha>,
}

/// What came of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The bare repository that holds the tree.
    pub repo: PathBuf,
    /// The tree; where the two conflict, its files have marks.
    pub tree: String,
    /// Where they conflict, by path.
    pub conflicts: Vec<Conflict>,
    /// The labels of both lines.
    pub labels: [&'static str; 2],
}

/// A path on which the two lines do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path for people.
    pub path: String,
    /// What kind of conflict, in git's words: `contents`, `modify/delete`.
    pub kind: String,
    /// Whether an editor of text can settle it. Links, submodules and binary files it cannot.
    pub is_text: bool,
    /// The path itself.
    raw: Vec<u8>,
    /// The contents of both lines.
    sides: Vec<String>,
}

/// Puts two lines together.
pub(super) async fn merge(git: &Git, wanted: &Merge<'_>) -> Result<Merged, GitError> {
    let into = wanted.into;
    if fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(GitError::Failed(format!(
            "{} is not empty; a merge starts fresh",
            into.display()
        )));
    }
    let in_mirror: Vec<&CommitSha> = match wanted.base {
        Some(base) => vec![base, wanted.ours.commit],
        None => vec![wanted.ours.commit, wanted.theirs.commit],
    };
    for commit in in_mirror {
        mirror::complete_objects(git, wanted.mirror, wanted.remote, commit).await?;
    }
    if wanted.lender.is_none() {
        mirror::complete_objects(git, wanted.mirror, wanted.remote, wanted.theirs.commit).await?;
    }
    borrow(git, wanted.mirror, wanted.lender, into, wanted.ours.commit).await?;
    let bench = Bench { git, repo: into };
    let base = match wanted.base {
        Some(base) => Some(base.clone()),
        None => bench.best_base_if_tangled(wanted).await?,
    };
    let (ours, theirs) = match &base {
        // Commits of ours that stand on one root: the oldest git that we run on cannot be told a
        // base, and takes what history says.
        Some(base) => {
            let root = bench.stand_in(base, None).await?;
            let ours = bench.stand_in(wanted.ours.commit, Some(&root)).await?;
            (ours, bench.stand_in(wanted.theirs.commit, Some(&root)).await?)
        }
        None => (wanted.ours.commit.clone(), wanted.theirs.commit.clone()),
    };
    let labels = [wanted.ours.label, wanted.theirs.label];
    for (label, commit) in labels.iter().zip([&ours, &theirs]) {
        bench.set_ref(&format!("refs/heads/{label}"), commit).await?;
    }
    let (tree, conflicts) = bench.merge_tree(labels).await?;
    Ok(Merged {
        repo: into.to_owned(),
        tree,
        conflicts,
        labels,
    })
}

/// A fresh bare repository that borrows objects.
async fn borrow(
    git: &Git,
    mirror: &Path,
    lender: Option<&Path>,
    into: &Path,
    like: &CommitSha,
) -> Result<(), GitError> {
    init_bare(git, into, like).await?;
    let lenders = [Some(mirror), lender];
    let mut lines = String::new();
    for lender in lenders.into_iter().flatten() {
        lines.push_str(&format!("{}\n", lender.join("objects").display()));
    }
    let write = || {
        fs::create_dir_all(into.join("objects/info"))?;
        fs::write(into.join("objects/info/alternates"), &lines)
    };
    write().map_err(|error| GitError::Failed(format!("prepare {}: {error}", into.display())))
}

struct Bench<'a> {
    git: &'a Git,
    repo: &'a Path,
}

impl Bench<'_> {
    async fn set_ref(&self, name: &str, commit: &CommitSha) -> Result<(), GitError> {
        let call = self.git.call(&["update-ref", "--end-of-options"]).arg(name);
        call.arg(commit.as_str()).git_dir(self.repo).run().await.map(drop)
    }

    /// A commit with the tree of another one and a parent of our choice.
    async fn stand_in(&self, like: &CommitSha, parent: Option<&CommitSha>) -> Result<CommitSha, GitError> {
        let tree = tree_of(self.git, self.repo, like).await?;
        let by = Signature::of_program(chrono::DateTime::UNIX_EPOCH);
        let parents: Vec<&CommitSha> = parent.into_iter().collect();
        import::commit_tree(self.git, self.repo, &tree, &parents, "stand-in", &by).await
    }

    async fn bases(&self, ours: &CommitSha, theirs: &CommitSha) -> Result<Vec<CommitSha>, GitError> {
        let call = self.git.call(&["merge-base", "--all"]);
        let call = call.arg(ours.as_str()).arg(theirs.as_str()).git_dir(self.repo);
        let output = call.timeout(TIMEOUT).output().await?;
        match output.code {
            Some(0) => Ok(output.line().lines().filter_map(|line| line.parse().ok()).collect()),
            Some(1) => Err(GitError::Failed(format!(
                "{} and {} have no commit in common",
                ours.short(),
                theirs.short()
            ))),
            _ => Err(GitError::Failed(format!("git merge-base: {}", output.stderr))),
        }
    }

    /// Makes the common ancestors complete in the mirror, and theirs, since git merges them first
    /// where there are several. Where there are too many, the best one, to be used alone.
    async fn best_base_if_tangled(&self, wanted: &Merge<'_>) -> Result<Option<CommitSha>, GitError> {
        let first = self.bases(wanted.ours.commit, wanted.theirs.commit).await?;
        let mut known: Vec<CommitSha> = Vec::new();
        let mut found = first.clone();
        while !found.is_empty() && known.len() + found.len() <= MAX_BASES {
            for base in &found {
                mirror::complete_objects(self.git, wanted.mirror, wanted.remote, base).await?;
            }
            let mut next = Vec::new();
            for (at, one) in found.iter().enumerate() {
                for other in &found[at + 1..] {
                    // Two roots have nothing in common, and git takes nothing for their base.
                    next.extend(self.bases(one, other).await.unwrap_or_default());
                }
            }
            known.append(&mut found);
            next.retain(|base| !known.contains(base));
            next.dedup();
            found = next;
        }
        if found.is_empty() {
            return Ok(None);
        }
        let best = first.into_iter().next();
        if let Some(best) = &best {
            mirror::complete_objects(self.git, wanted.mirror, wanted.remote, best).await?;
        }
        Ok(best)
    }

    async fn merge_tree(&self, labels: [&str; 2]) -> Result<(String, Vec<Conflict>), GitError> {
        let call = self.git.call(&["merge-tree", "--write-tree", "-z", "--messages"]);
        let output = call
            .arg(labels[0])
            .arg(labels[1])
            .git_dir(self.repo)
            .timeout(TIMEOUT)
            .limits(MAX_FILE, MAX_MEMORY)
            .max_stdout(MAX_OUTPUT)
            .output()
            .await?;
        if output.truncated {
            return Err(GitError::Failed(
                "the two conflict in more places than can be listed".to_owned(),
            ));
        }
        if !matches!(output.code, Some(0 | 1)) {
            return Err(GitError::Failed(format!("git merge-tree: {}", output.stderr)));
        }
        parse(&output.stdout, output.code == Some(0))
            .ok_or_else(|| GitError::Failed("git merge-tree wrote something unexpected".to_owned()))
    }
}

/// The tree, then a line for each side of each conflict, then what git has to say of each path.
fn parse(output: &[u8], is_clean: bool) -> Option<(String, Vec<Conflict>)> {
    let mut fields = output.split(|byte| *byte == 0);
    let tree = std::str::from_utf8(fields.next()?).ok()?.trim().to_owned();
    if !matches!(tree.len(), 40 | 64) || !tree.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    if is_clean {
        return Some((tree, Vec::new()));
    }
    let mut found: BTreeMap<Vec<u8>, Conflict> = BTreeMap::new();
    for field in fields.by_ref().take_while(|field| !field.is_empty()) {
        let tab = field.iter().position(|byte| *byte == b'\t')?;
        let (meta, path) = (std::str::from_utf8(&field[..tab]).ok()?, &field[tab + 1..]);
        let mut meta = meta.split(' ');
        let (mode, id, stage) = (meta.next()?, meta.next()?, meta.next()?);
        let conflict = found.entry(path.to_vec()).or_insert_with(|| Conflict {
            path: shown_path(path),
            kind: String::new(),
            is_text: std::str::from_utf8(path).is_ok(),
            raw: path.to_vec(),
            sides: Vec::new(),
        });
        conflict.is_text &= mode.starts_with("100");
        if stage != "1" {
            conflict.sides.push(id.to_owned());
        }
    }
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let paths: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        fields.next()?;
        let Some(kind) = kind.strip_prefix("CONFLICT (").and_then(|kind| kind.strip_suffix(')')) else {
            continue;
        };
        for path in paths {
            let Some(conflict) = found.get_mut(path) else { continue };
            conflict.is_text &= kind != "binary" && !kind.contains("submodule");
            if conflict.kind.is_empty() || kind == "binary" {
                conflict.kind = text::cap_chars(kind, 60);
            }
        }
    }
    Some((tree, found.into_values().collect()))
}

async fn tree_of(git: &Git, repo: &Path, commit: &CommitSha) -> Result<String, GitError> {
    let call = git.call(&["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    let output = call.arg(format!("{commit}^{{tree}}")).git_dir(repo).output().await?;
    match output.code {
        Some(0) => Ok(output.line()),
        _ => Err(GitError::NotFound(format!("commit {commit}"))),
    }
}

/// Lets one repository of ours borrow the objects of another one, too.
pub(super) fn lend(repo: &Path, lender: &Path) -> Result<(), GitError> {
    use std::io::Write as _;
    let path = repo.join("objects/info/alternates");
    let append = || {
        let mut file = fs::File::options().append(true).create(true).open(&path)?;
        writeln!(file, "{}", lender.join("objects").display())
    };
    append().map_err(|error| GitError::Failed(format!("write {}: {error}", path.display())))
}

/// Whether two commits have the same files.
pub(super) async fn is_same_tree(git: &Git, repo: &Path, one: &CommitSha, other: &CommitSha) -> Result<bool, GitError> {
    Ok(tree_of(git, repo, one).await? == tree_of(git, repo, other).await?)
}

/// What is left of conflicts in a tree, one line for each file; empty when they are settled.
pub(super) async fn left_over(git: &Git, repo: &Path, tree: &str, merged: &Merged) -> Result<Vec<String>, GitError> {
    let [ours, theirs] = merged.labels;
    let output = git
        .call(&[
            "grep",
            "-l",
            "-z",
            "-a",
            "-E",
            "--no-textconv",
            "--no-recurse-submodules",
        ])
        .arg("-e")
        .arg(format!("^(<<<<<<<|>>>>>>>) ({ours}|{theirs})"))
        .arg(tree)
        .git_dir(repo)
        .timeout(TIMEOUT)
        .max_stdout(MAX_OUTPUT)
        .output()
        .await?;
    if !matches!(output.code, Some(0 | 1)) && !output.truncated {
        return Err(GitError::Failed(format!("git grep: {}", output.stderr)));
    }
    let prefix = tree.len() + 1;
    let mut paths: Vec<Vec<u8>> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| path.len() > prefix)
        .map(|path| path[prefix..].to_vec())
        .collect();
    for conflict in merged.conflicts.iter().filter(|conflict| conflict.is_text) {
        if !paths.contains(&conflict.raw) && keeps_a_divider(git, (repo, tree), &merged.repo, conflict).await? {
            paths.push(conflict.raw.clone());
        }
    }
    Ok(paths
        .iter()
        .map(|path| format!("`{}` still has marks of the conflict", shown_path(path)))
        .collect())
}

/// Whether a file has more of the lines that divide two sides than both sides had: they may stand
/// in a file of their own right.
async fn keeps_a_divider(
    git: &Git,
    (repo, tree): (&Path, &str),
    sides: &Path,
    conflict: &Conflict,
) -> Result<bool, GitError> {
    let mut name = format!("{tree}:").into_bytes();
    name.extend(&conflict.raw);
    let now = dividers(git, repo, &std::ffi::OsString::from_vec(name)).await?;
    let mut before = 0;
    for side in &conflict.sides {
        before += dividers(git, sides, side.as_ref()).await?;
    }
    Ok(now > before)
}

async fn dividers(git: &Git, repo: &Path, name: &std::ffi::OsStr) -> Result<usize, GitError> {
    let call = git.call(&["cat-file", "blob"]).arg(name).git_dir(repo);
    // What is not there, or no file any more, has none.
    let output = call.max_stdout(MAX_LOOKED_THROUGH).output().await?;
    let lines = output.stdout.split(|byte| *byte == b'\n');
    Ok(lines.filter(|line| line.trim_ascii_end() == b"=======").count())
}

/// Whether one commit is behind another.
pub(super) async fn is_behind(git: &Git, repo: &Path, old: &CommitSha, new: &CommitSha) -> Result<bool, GitError> {
    let call = git.call(&["merge-base", "--is-ancestor"]);
    let call = call.arg(old.as_str()).arg(new.as_str()).git_dir(repo);
    let output = call.timeout(TIMEOUT).output().await?;
    match output.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(GitError::NotFound(format!(
            "{old} or {new} in {}: {}",
            repo.display(),
            output.stderr
        ))),
    }
}

/// Whether a commit is by this signature; one that is not there is by nobody.
pub(super) async fn is_by(git: &Git, repo: &Path, commit: &CommitSha, by: &Signature) -> Result<bool, GitError> {
    let call = git.call(&["log", "--no-show-signature", "--max-count=1", "--format=%ae%n%at%n%ct"]);
    let call = call.arg("--end-of-options").arg(commit.as_str()).git_dir(repo);
    let output = call.timeout(TIMEOUT).output().await?;
    let expected = format!("{}\n{at}\n{at}\n", by.email, at = by.at.timestamp());
    Ok(output.code == Some(0) && output.stdout == expected.as_bytes())
}

/// The commits of one line that another does not have, newest first: short id, author, subject.
pub(super) async fn commits(
    git: &Git,
    repo: &Path,
    of: &CommitSha,
    without: &CommitSha,
    max: usize,
) -> Result<Vec<String>, GitError> {
    let call = git.call(&["log", "--no-show-signature", "--format=%h %an: %s", "--encoding=UTF-8"]);
    let output = call
        .arg(format!("--max-count={max}"))
        .arg("--end-of-options")
        .arg(of.as_str())
        .arg(format!("^{without}"))
        .git_dir(repo)
        .max_stdout(1 << 20)
        .timeout(TIMEOUT)
        .output()
        .await?;
    if output.code != Some(0) && !output.truncated {
        return Err(GitError::Failed(format!("git log: {}", output.stderr)));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said
        .lines()
        .map(|line| text::cap_chars(&text::plain_words(line), 120))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "1111111111111111111111111111111111111111";

    #[test]
    fn what_git_says_of_conflicts_is_read() {
        let id = "2".repeat(40);
        let said = [
            TREE,
            &format!("100644 {id} 1\ta b"),
            &format!("100644 {id} 2\ta b"),
            &format!("120000 {id} 3\tlink"),
            "",
            "1",
            "a b",
            "Auto-merging",
            "Auto-merging a b\n",
            "1",
            "a b",
            "CONFLICT (contents)",
            "CONFLICT (content): Merge conflict in a b\n",
            "",
        ]
        .join("\0");
        let (tree, conflicts) = parse(said.as_bytes(), false).unwrap();
        assert_eq!(tree, TREE);
        let seen: Vec<(&str, &str, bool)> = conflicts
            .iter()
            .map(|conflict| (conflict.path.as_str(), conflict.kind.as_str(), conflict.is_text))
            .collect();
        assert_eq!(seen, [("a b", "contents", true), ("link", "", false)]);
        assert_eq!(conflicts[0].sides, [id]);
    }

    #[test]
    fn what_git_does_not_say_is_not_read() {
        assert!(parse(b"", true).is_none());
        assert!(parse(b"fatal: no", true).is_none());
        let clean = format!("{TREE}\0\0");
        assert_eq!(parse(clean.as_bytes(), true).unwrap(), (TREE.to_owned(), Vec::new()));
        let torn = format!("{TREE}\0no tab\0\0");
        assert!(parse(torn.as_bytes(), false).is_none());
    }
}
