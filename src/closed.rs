//! Folders that hold what is nobody else's business: code, conversations, keys. Called by whatever
//! makes one in a temporary or state folder. Never leaves to the process's mask who may look in, and
//! never uses a temporary folder that was there before.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

/// For its owner alone.
pub const MODE: u32 = 0o700;

/// Makes a folder with those above it that are missing. One that is there stays as it is.
///
/// # Errors
/// When it cannot be made, also where something else has its name.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(MODE).create(folder)
}

/// A folder with a random name among the temporary ones, which goes when it is dropped.
///
/// # Errors
/// When it cannot be made.
pub fn temporary(prefix: &str) -> io::Result<TempDir> {
    temporary_in(&tempfile::env::temp_dir(), prefix)
}

/// The same in another place.
///
/// # Errors
/// When it cannot be made.
pub fn temporary_in(place: &Path, prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(MODE))
        .tempdir_in(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_folders_are_for_their_owner_alone() {
        let temporary = temporary("forgehand-").unwrap();
        let deep = temporary.path().join("a/b");
        make_folder(&deep).unwrap();
        for folder in [temporary.path(), &temporary.path().join("a"), &deep] {
            let mode = folder.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, MODE, "{}", folder.display());
        }
        make_folder(&deep).expect("it may be there already");
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(temporary.path().join("nothing"), &link).unwrap();
        make_folder(&link).expect_err("a link that leads to nothing is no folder");
        assert!(!temporary.path().join("nothing").exists());
    }
}
