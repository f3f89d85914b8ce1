//! Bare mirrors: one per repository, shared by all runs, refreshed under a file lock, partial
//! (without file contents) where the remote offers it; contents are fetched when they are needed.
//! A mirror knows neither address nor token: both come with each call. Never believes a mirror
//! that a killed process left behind: leftovers are swept, and a damaged mirror is made anew once.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::remote::Target;
use super::{Git, GitError, Remote};
use crate::closed;
use crate::ids::CommitSha;

/// Written into a mirror after its first complete fetch; without it, the folder is a beginning.
const COMPLETE: &str = "forgehand-complete";

/// The mirror's own configuration, rewritten on every refresh so that a torn file cannot stay.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 1
\tbare = true
[extensions]
\tpartialClone = origin
[remote \"origin\"]
\tpromisor = true
\tpartialCloneFilter = blob:none
";

/// Old commits of real repositories carry dates, names and modes that no longer pass. They hurt
/// nobody, and refusing them would refuse the repository; everything dangerous stays an error.
const OLD_SINS: &[&str] = &[
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];

/// Longest time for fetching the contents of one commit.
const CONTENTS_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest wait for another run that refreshes the same mirror.
const LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// Packs of a mirror that are left alone.
const MAX_PACKS: usize = 40;
/// How often a taken lock is tried again.
const LOCK_INTERVAL: Duration = Duration::from_millis(25);
/// Most bytes of the list of a commit's objects: about a million and a half objects.
const MAX_OBJECT_LIST: usize = 64 << 20;

/// An exclusive lock on a mirror, held by an open file and thus released when the process dies.
struct Lock(#[allow(dead_code, reason = "the lock lives as long as the open file")] File);

impl Lock {
    async fn take(mirror: &Path, deadline: Instant) -> Result<Self, GitError> {
        let mut path = mirror.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let fail = |error: io::Error| GitError::Failed(format!("lock {}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            closed::make_folder(parent).map_err(fail)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(fail)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(error)) => return Err(fail(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(GitError::Unavailable(format!(
                        "another run has been refreshing {} for too long",
                        mirror.display()
                    )));
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
            }
        }
    }
}

/// Creates or refreshes a mirror.
pub(super) async fn refresh(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    extra_refs: &[String],
    timeout: Duration,
) -> Result<(), GitError> {
    let target = Target::parse(remote)?;
    let mut refspecs = vec![
        "+refs/heads/*:refs/heads/*".to_owned(),
        "+refs/tags/*:refs/tags/*".to_owned(),
    ];
    for name in extra_refs {
        check_ref(name)?;
        refspecs.push(format!("+{name}:{name}"));
    }
    let deadline = Instant::now() + timeout;
    let _lock = Lock::take(mirror, deadline).await?;
    let was_complete = mirror.join(COMPLETE).exists();
    let first = fetch(git, mirror, &target, &refspecs, deadline).await;
    match first {
        // That is no damage, and a mirror made anew would need more of it.
        Err(GitError::Failed(problem)) if is_full(mirror) => Err(GitError::Failed(format!(
            "{problem}: no space left on the disk of {}",
            mirror.display()
        ))),
        Err(GitError::Failed(problem)) if was_complete && !is_our_limit(&problem) => {
            tracing::warn!(mirror = %mirror.display(), problem, "a damaged mirror is made anew");
            remove_folder(mirror.to_owned()).await?;
            fetch(git, mirror, &target, &refspecs, deadline).await
        }
        Ok(()) => {
            join_packs(git, mirror).await;
            Ok(())
        }
        other => other,
    }
}

/// Whether the disk of a folder has no room for another file of some size: git often says only that
/// it could not write.
fn is_full(folder: &Path) -> bool {
    /// More than a configuration file or a small pack needs.
    const SOME_ROOM: u64 = 1 << 20;
    let there = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok());
    there.is_some_and(|disk| {
        // A file system without a fixed number of inodes says that it has none at all.
        let no_inode = disk.f_files > 0 && disk.f_favail == 0;
        no_inode || disk.f_bavail.saturating_mul(disk.f_frsize) < SOME_ROOM
    })
}

/// Removes a mirror that nobody refreshed since a time. False: somebody did, or is at it.
pub(super) fn remove_unused(mirror: &Path, since: std::time::SystemTime) -> io::Result<bool> {
    let mut lock = mirror.as_os_str().to_owned();
    lock.push(".lock");
    let lock = File::options().create(true).truncate(false).write(true).open(lock)?;
    if lock.try_lock().is_err() {
        return Ok(false);
    }
    // Every refresh begins with its configuration.
    let refreshed = std::fs::metadata(mirror.join("config")).or_else(|_| std::fs::metadata(mirror));
    match refreshed.and_then(|about| about.modified()) {
        Ok(at) if at < since => std::fs::remove_dir_all(mirror).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a failure says nothing about the mirror: making it anew would only fail again, without
/// what was there.
fn is_our_limit(problem: &str) -> bool {
    let problem = problem.to_lowercase();
    [
        "no space left",
        "quota",
        "allowed size",
        "cannot be started",
        "took longer",
    ]
    .iter()
    .any(|phrase| problem.contains(phrase))
}

/// Joins the packs that many refreshes left, since every look-up asks each of them. Nothing is
/// thrown away: runs may be pinned to commits that no branch reaches any more.
async fn join_packs(git: &Git, mirror: &Path) {
    let packs = std::fs::read_dir(mirror.join("objects/pack")).map_or(0, |entries| {
        entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "pack"))
            .count()
    });
    if packs <= MAX_PACKS {
        return;
    }
    let joined = git
        .call(&["repack", "-a", "-d", "-q", "--keep-unreachable"])
        .git_dir(mirror)
        .timeout(CONTENTS_TIMEOUT)
        .run()
        .await;
    if let Err(problem) = joined {
        tracing::warn!(mirror = %mirror.display(), %problem, "the packs of a mirror could not be joined");
    }
}

/// Only plain full names get into a refspec.
fn check_ref(name: &str) -> Result<(), GitError> {
    let plain = name
        .strip_prefix("refs/")
        .is_some_and(|rest| rest.contains('/') && !rest.starts_with('-') && !name.contains("//"));
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    if plain && name.len() <= 300 && !name.contains("..") && !name.contains("@{") && !name.contains(forbidden) {
        return Ok(());
    }
    Err(GitError::NotFound(format!("{name:?}, which is not a full ref")))
}

async fn fetch(
    git: &Git,
    mirror: &Path,
    target: &Target,
    refspecs: &[String],
    deadline: Instant,
) -> Result<(), GitError> {
    prepare(git, mirror).await?;
    let mut call = git.call(&["fetch", "--quiet", "--filter=blob:none", "--prune"]);
    for sin in OLD_SINS {
        call = call.config(format!("fetch.fsck.{sin}=warn"));
    }
    call = QUIET_FETCH.iter().fold(call, |call, option| call.arg(option));
    call = call.arg("--end-of-options").arg("origin");
    call = refspecs.iter().fold(call, |call, refspec| call.arg(refspec));
    call.git_dir(mirror)
        .remote(target)
        .timeout(deadline.saturating_duration_since(Instant::now()))
        .run()
        .await?;
    write(&mirror.join(COMPLETE), b"")
}

/// A fetch takes what it was asked for and does nothing else.
const QUIET_FETCH: &[&str] = &[
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-show-forced-updates",
];

/// Makes the folder a repository and sweeps what a killed git left. Only under the lock.
async fn prepare(git: &Git, mirror: &Path) -> Result<(), GitError> {
    if !mirror.join("HEAD").exists() || !mirror.join("objects").is_dir() {
        git.call(&[
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--initial-branch=forgehand-none",
            "--",
        ])
        .arg(mirror)
        .run()
        .await?;
    }
    write(&mirror.join("config"), CONFIG.as_bytes())?;
    sweep(mirror, 0).map_err(|error| GitError::Failed(format!("clean {}: {error}", mirror.display())))
}

/// Removes lock files and unfinished packs. The lock shows that their makers are gone.
fn sweep(folder: &Path, depth: usize) -> io::Result<()> {
    // Branch names have at most 244 bytes, so that deeper folders cannot hold a ref.
    if depth > 130 {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            sweep(&entry.path(), depth + 1)?;
        } else if name.ends_with(".lock") || name.starts_with("tmp_") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<(), GitError> {
    std::fs::write(path, content).map_err(|error| GitError::Failed(format!("write {}: {error}", path.display())))
}

async fn remove_folder(folder: PathBuf) -> Result<(), GitError> {
    let shown = folder.display().to_string();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) => Err(GitError::Failed(format!("remove {shown}: {error}"))),
        Err(error) => Err(GitError::Failed(format!("remove {shown}: {error}"))),
    }
}

/// The commit of a full ref.
pub(super) async fn resolve(git: &Git, mirror: &Path, full_ref: &str) -> Result<CommitSha, GitError> {
    check_ref(full_ref)?;
    let found = git
        .call(&["show-ref", "--verify", "--hash", "--"])
        .arg(full_ref)
        .git_dir(mirror)
        .output()
        .await?;
    if found.code != Some(0) {
        return Err(GitError::NotFound(missing_ref(git, mirror, full_ref).await));
    }
    let commit = git
        .call(&["rev-parse", "--verify", "--quiet"])
        .arg(format!("{}^{{commit}}", found.line()))
        .git_dir(mirror)
        .output()
        .await?;
    commit
        .line()
        .parse()
        .map_err(|_| GitError::NotFound(format!("a commit at {full_ref}; it points to something else")))
}

async fn missing_ref(git: &Git, mirror: &Path, full_ref: &str) -> String {
    let any = git
        .call(&["for-each-ref", "--count=1", "refs/heads/"])
        .git_dir(mirror)
        .run()
        .await;
    match any {
        Ok(output) if output.stdout.is_empty() => {
            format!("{full_ref}: the repository is empty. Push a first commit to it")
        }
        _ => full_ref.to_owned(),
    }
}

/// Whether the mirror has the commit itself.
async fn has_commit(git: &Git, mirror: &Path, at: &CommitSha) -> Result<bool, GitError> {
    let output = git
        .call(&["cat-file", "-e"])
        .arg(format!("{at}^{{commit}}"))
        .git_dir(mirror)
        .output()
        .await?;
    Ok(output.code == Some(0))
}

/// All objects of a commit's tree, made complete from the remote where the mirror lacks some.
/// A commit that no ref of the mirror reaches any more is fetched by its id.
pub(super) async fn complete_objects(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
) -> Result<Vec<u8>, GitError> {
    objects_beside(git, mirror, remote, at, None).await
}

/// The same but for those that the tree of another commit has, which is there.
pub(super) async fn objects_beside(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    beside: Option<&CommitSha>,
) -> Result<Vec<u8>, GitError> {
    if !has_commit(git, mirror, at).await? {
        fetch_objects(git, mirror, remote, &[at.to_string()]).await?;
    }
    // The second round covers folders that were missing too, whose contents the first cannot see.
    for _ in 0..3 {
        let call = git.call(&["rev-list", "--objects", "--no-object-names", "--missing=print"]);
        let call = match beside {
            None => call.arg("--no-walk").arg(at.as_str()),
            Some(beside) => call.arg(format!("{at}^{{tree}}")).arg(format!("^{beside}^{{tree}}")),
        };
        let output = call.git_dir(mirror).max_stdout(MAX_OBJECT_LIST).run().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let missing: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix('?'))
            .map(str::to_owned)
            .collect();
        if missing.is_empty() {
            let mut objects = output.stdout;
            if beside.is_some() {
                objects.extend(format!("{at}\n").bytes());
            }
            return Ok(objects);
        }
        fetch_objects(git, mirror, remote, &missing).await?;
    }
    Err(GitError::Unavailable(format!(
        "{} does not send all files of {at}",
        remote.url
    )))
}

/// Fetches objects by id, in one batch, under the lock.
pub(super) async fn fetch_objects(git: &Git, mirror: &Path, remote: &Remote, ids: &[String]) -> Result<(), GitError> {
    let target = Target::parse(remote)?;
    let _lock = Lock::take(mirror, Instant::now() + LOCK_TIMEOUT).await?;
    prepare(git, mirror).await?;
    let mut call = git
        .call(&["fetch", "--quiet", "--filter=blob:none", "--stdin"])
        .config("fetch.negotiationAlgorithm=noop");
    for sin in OLD_SINS {
        call = call.config(format!("fetch.fsck.{sin}=warn"));
    }
    call = QUIET_FETCH.iter().fold(call, |call, option| call.arg(option));
    call.arg("--end-of-options")
        .arg("origin")
        .git_dir(mirror)
        .stdin(ids.join("\n") + "\n")
        .remote(&target)
        .timeout(CONTENTS_TIMEOUT)
        .run()
        .await?;
    Ok(())
}

/// Paths of all files at a commit, or below a folder there, and whether these are all.
pub(super) async fn list_below(
    git: &Git,
    mirror: &Path,
    at: &CommitSha,
    folder: Option<&str>,
    max: usize,
) -> Result<(Vec<String>, bool), GitError> {
    let mut call = git
        .call(&["ls-tree", "-r", "-z", "--full-tree", "--name-only"])
        .arg(at.as_str())
        .arg("--");
    if let Some(folder) = folder {
        call = call.arg(folder);
    }
    let output = call
        .git_dir(mirror)
        // Paths are 40 bytes long on average; the cap is for trees that are bombs.
        .max_stdout(max.saturating_mul(256).min(MAX_OBJECT_LIST))
        .output()
        .await?;
    if output.code != Some(0) && !output.truncated {
        return Err(GitError::NotFound(format!("commit {at}: {}", output.stderr)));
    }
    let complete = output.stdout.iter().rposition(|byte| *byte == 0).unwrap_or(0);
    let mut files: Vec<_> = output.stdout[..complete]
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .take(max.saturating_add(1))
        .map(super::policy::shown_path)
        .collect();
    let is_whole = !output.truncated && files.len() <= max;
    files.truncate(max);
    Ok((files, is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_full_refs_get_into_a_refspec() {
        for name in [
            "refs/heads/main",
            "refs/pull/7/head",
            "refs/heads/fix/#12-x",
            "refs/heads/ünï",
        ] {
            assert!(check_ref(name).is_ok(), "{name}");
        }
        for name in [
            "main",
            "-x",
            "refs/heads/a:b",
            "refs/heads/*",
            "+refs/heads/x",
            "refs/heads/a..b",
            "refs/x",
            "",
        ] {
            assert!(check_ref(name).is_err(), "{name:?}");
        }
    }
}
