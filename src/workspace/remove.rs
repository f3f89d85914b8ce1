//! Removal of a tree that a sandbox could shape: folders without permissions, thousands of levels,
//! links to anywhere. Every folder with something in it is first moved up beside the others, so
//! that no path gets long, no stack gets deep and only one folder is open at a time.
//! Never follows a link, and an interrupted removal goes on where it stopped.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Folders under removal carry this before their name.
pub(super) const HOLDING_PREFIX: &str = ".removing-";

/// Removes `path` and all that is in it; it is fine when there is nothing.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a folder with a name is expected",
        ));
    };
    let mut holding_name = std::ffi::OsString::from(HOLDING_PREFIX);
    holding_name.push(name);
    let holding = path.with_file_name(holding_name);
    let there = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => true,
        Ok(_) => return fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if !there && fs::symlink_metadata(&holding).is_err() {
        return Ok(());
    }
    match fs::create_dir(&holding) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut removal = Removal::resume(holding)?;
    if there {
        removal.take(path)?;
    }
    removal.finish()
}

/// A holding folder whose entries are numbered folders that wait to be emptied.
struct Removal {
    holding: PathBuf,
    waiting: Vec<u64>,
    next: u64,
}

impl Removal {
    fn resume(holding: PathBuf) -> io::Result<Self> {
        let mut waiting = Vec::new();
        for entry in fs::read_dir(&holding)? {
            if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                waiting.push(number);
            }
        }
        let next = waiting.iter().max().map_or(0, |largest| largest + 1);
        Ok(Self { holding, waiting, next })
    }

    /// Moves a folder into the holding folder.
    fn take(&mut self, folder: &Path) -> io::Result<()> {
        open_up(folder)?;
        fs::rename(folder, self.holding.join(self.next.to_string()))?;
        self.waiting.push(self.next);
        self.next += 1;
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        while let Some(number) = self.waiting.pop() {
            let folder = self.holding.join(number.to_string());
            open_up(&folder)?;
            // Some file systems skip entries of a folder that changes while it is read: look again
            // as long as that helps.
            while self.empty(&folder)? > 0 {}
            fs::remove_dir(&folder)?;
        }
        fs::remove_dir(&self.holding)
    }

    /// Removes the entries of a folder or moves them up, and counts them.
    fn empty(&mut self, folder: &Path) -> io::Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
            } else if fs::remove_dir(entry.path()).is_err() {
                self.take(&entry.path())?;
            }
            count += 1;
        }
        Ok(count)
    }
}

/// Gives us all rights on a real folder, which moving and emptying it need. `chmod` would follow a
/// link, but a link is never brought here, and the sandbox that could swap one in is closed.
fn open_up(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "a folder became something else",
        ));
    }
    if found.permissions().mode() & 0o700 != 0o700 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}
