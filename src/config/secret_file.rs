//! Files that hold secrets: read only when nobody else can read them and when they lie outside of
//! every git repository, from which they would be committed or served one day. Called when the
//! configuration is read, and by the set-up page before it makes any. Never repeats what is in one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest file that is read as a secret: a private key has about 2 KiB.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Reads a secret, without the end of its last line.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("the file {shown} cannot be read: {error}");
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() || about.len() > MAX_SECRET_BYTES {
        return Err(format!("{shown} is not a file of at most 64 KiB"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(format!("{shown} can be read by other users; run `chmod 600 {shown}`"));
        }
    }
    if let Some(root) = repository_around(&path.canonicalize().map_err(failed)?) {
        return Err(format!(
            "{shown} lies inside the git repository {}, from which it can get to others; move it to a folder outside \
             and name it there",
            root.display()
        ));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// The innermost work tree or bare repository that a path lies in. The path is where it really is.
pub fn repository_around(path: &Path) -> Option<PathBuf> {
    let found = path
        .ancestors()
        .find(|folder| is_work_tree(folder) || is_git_dir(folder));
    found.map(Path::to_owned)
}

/// A `.git` that is a file belongs to a linked work tree or a submodule. An empty folder of that
/// name, which anybody can make in a shared place, is none.
fn is_work_tree(folder: &Path) -> bool {
    let git = folder.join(".git");
    git.is_file() || is_there(&git.join("HEAD"))
}

fn is_git_dir(folder: &Path) -> bool {
    ["HEAD", "objects", "refs"]
        .iter()
        .all(|part| is_there(&folder.join(part)))
}

/// What cannot be looked at counts as there: better no start than a key in a repository.
fn is_there(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}
