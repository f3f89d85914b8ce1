//! From a mirror to the folders of a run: a small bare repository with exactly one commit, the
//! files, and a throw-away `.git` for the sandbox that borrows the bare repository's objects.
//! Symbolic links become real ones, wherever they point: inside the sandbox they reach nothing
//! that its commands could not reach anyway, and no host command ever looks at these files again.
//! Never called on folders that a sandbox has already seen.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::run::Call;
use super::{Git, GitError, Remote, mirror};
use crate::ids::CommitSha;

/// Where the sandbox sees the bare repository; the throw-away `.git` borrows its objects there.
const BASE_OBJECTS_INSIDE: &str = "/run/forgehand/base.git/objects";

/// The branch that the throw-away `.git` is on. What the agent does to it does not matter.
const INSIDE_BRANCH: &str = "refs/heads/work";

/// Most files of a checkout. A tree that names itself ten times over ten levels is tiny in git
/// and endless on a disk.
const MAX_FILES: usize = 500_000;
/// Most bytes of a checkout.
const MAX_BYTES: u64 = 8 << 30;
/// Bytes of one line of the listing, so that a bomb ends soon after the most files: git pads sizes
/// to seven characters, and a few are longer.
const LISTED_BYTES_PER_FILE: usize = 12;

/// Fills `base_git` and `workspace`, both absent or empty.
pub(super) async fn check_out(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    base_git: &Path,
    workspace: &Path,
) -> Result<(), GitError> {
    base_repository(git, mirror, remote, at, base_git).await?;
    let index = base_git.join("index");
    fill(git, base_git, at, &index, workspace).await?;
    make_inner_git(at, &index, workspace)?;
    make_readable(base_git).map_err(|error| failed(base_git, &error))
}

/// A bare repository with exactly one commit, whose tree is small enough for a disk.
pub(super) async fn base_repository(
    git: &Git,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    base_git: &Path,
) -> Result<(), GitError> {
    let objects = mirror::complete_objects(git, mirror, remote, at).await?;
    init_bare(git, base_git, at).await?;
    // Known deltas are kept, new ones are not looked for.
    pack_into(git, mirror, base_git, &["--window=0"])
        .stdin(objects)
        .run()
        .await?;
    begin_at(git, base_git, at, None).await?;
    measure(git, base_git, at).await
}

/// Names the commit in a bare repository that has neither its parents nor those of `other`.
pub(super) async fn begin_at(
    git: &Git,
    base_git: &Path,
    at: &CommitSha,
    other: Option<&CommitSha>,
) -> Result<(), GitError> {
    let other = other.map(|other| format!("{other}\n")).unwrap_or_default();
    write(&base_git.join("shallow"), &format!("{at}\n{other}"))?;
    git.call(&["update-ref", "refs/heads/base"])
        .arg(at.as_str())
        .git_dir(base_git)
        .run()
        .await?;
    Ok(())
}

/// The files of a commit in an empty folder, and the index that knows them.
pub(super) async fn fill(
    git: &Git,
    base_git: &Path,
    at: &CommitSha,
    index: &Path,
    into: &Path,
) -> Result<(), GitError> {
    fs::create_dir_all(into).map_err(|error| failed(into, &error))?;
    git.call(&["read-tree", "-u", "--reset"])
        .arg(at.as_str())
        .git_dir(base_git)
        .config("core.bare=false")
        .config("core.symlinks=true")
        .config("checkout.workers=0")
        .env("GIT_WORK_TREE", into)
        .env("GIT_INDEX_FILE", index)
        .run()
        .await?;
    Ok(())
}

/// Packs objects of one repository straight into place in another. Both are ours to trust: the
/// objects were checked when they came. Git makes its temporary files where it writes objects to,
/// so that is the other repository: from elsewhere they could not be renamed into it on a machine
/// with several file systems.
pub(super) fn pack_into<'a>(git: &'a Git, from: &'a Path, into: &Path, options: &[&str]) -> Call<'a> {
    let objects = into.join("objects");
    let call = git.call(&["pack-objects", "-q", "--delta-base-offset"]);
    let call = options.iter().fold(call, |call, option| call.arg(option));
    call.arg(objects.join("pack/pack"))
        .git_dir(from)
        .env("GIT_OBJECT_DIRECTORY", &objects)
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", in_list(&from.join("objects")))
}

/// A path in a list that is separated by colons, in quotes where it holds one.
fn in_list(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b':' | b'"' | b'\\')) {
        return path.into();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

/// A bare repository without templates, hooks or anything else in it.
pub(super) async fn init_bare(git: &Git, folder: &Path, like: &CommitSha) -> Result<(), GitError> {
    git.call(&[
        "init",
        "--quiet",
        "--bare",
        "--template=",
        "--initial-branch=forgehand-none",
    ])
    .arg(format!("--object-format={}", object_format(like)))
    .arg("--")
    .arg(folder)
    .run()
    .await?;
    Ok(())
}

fn object_format(id: &CommitSha) -> &'static str {
    if id.as_str().len() == 64 { "sha256" } else { "sha1" }
}

/// Refuses trees that no disk should hold, before anything is written.
pub(super) async fn measure(git: &Git, base_git: &Path, at: &CommitSha) -> Result<(), GitError> {
    let listing = git
        .call(&["ls-tree", "-r", "-z", "--full-tree", "--format=%(objectsize:padded)"])
        .arg(at.as_str())
        .git_dir(base_git)
        .max_stdout(MAX_FILES * LISTED_BYTES_PER_FILE)
        .output()
        .await?;
    let sizes = listing.stdout.split(|byte| *byte == 0);
    let mut files = 0_usize;
    let mut bytes = 0_u64;
    for size in sizes.filter(|size| !size.is_empty()) {
        files += 1;
        bytes += std::str::from_utf8(size)
            .ok()
            .and_then(|size| size.trim().parse::<u64>().ok())
            .unwrap_or(0);
    }
    if listing.truncated || files > MAX_FILES || bytes > MAX_BYTES {
        return Err(GitError::Failed(format!(
            "commit {at} is too large to check out: over {MAX_FILES} files or {}",
            crate::text::bytes_in_words(MAX_BYTES)
        )));
    }
    if listing.code != Some(0) {
        return Err(GitError::Failed(format!("list {at}: {}", listing.stderr)));
    }
    Ok(())
}

/// The sandbox's own `.git`: a few files written by hand, its objects borrowed.
pub(super) fn make_inner_git(at: &CommitSha, index: &Path, workspace: &Path) -> Result<(), GitError> {
    let inner = workspace.join(".git");
    // Plain `create_dir`: had the tree brought a `.git`, this would fail instead of writing into it.
    fs::create_dir(&inner).map_err(|error| failed(&inner, &error))?;
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(inner.join(folder)).map_err(|error| failed(&inner, &error))?;
    }
    fs::rename(index, inner.join("index")).map_err(|error| failed(index, &error))?;
    write(
        &inner.join("objects/info/alternates"),
        &format!("{BASE_OBJECTS_INSIDE}\n"),
    )?;
    write(&inner.join("shallow"), &format!("{at}\n"))?;
    write(&inner.join(INSIDE_BRANCH), &format!("{at}\n"))?;
    write(&inner.join("config"), &inner_config(at))?;
    // Last: without HEAD the folder is no repository.
    write(&inner.join("HEAD"), &format!("ref: {INSIDE_BRANCH}\n"))
}

/// Owner and inode of the files change when the sandbox takes them over; with these two `core`
/// keys git does not read every file again because of that.
fn inner_config(at: &CommitSha) -> String {
    let (version, extension) = match object_format(at) {
        "sha256" => (1, "[extensions]\n\tobjectFormat = sha256\n"),
        _ => (0, ""),
    };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n\
         \tcheckStat = minimal\n\ttrustctime = false\n{extension}\
         [user]\n\tname = Forgehand\n\temail = forgehand@localhost\n[gc]\n\tauto = 0\n"
    )
}

/// The sandbox's user is another one than ours: whatever our umask is, it can read this.
pub(super) fn make_readable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_readable(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

pub(super) fn write(path: &Path, content: &str) -> Result<(), GitError> {
    fs::write(path, content).map_err(|error| failed(path, &error))
}

pub(super) fn failed(path: &Path, error: &io::Error) -> GitError {
    GitError::Failed(format!("{}: {error}", path.display()))
}
