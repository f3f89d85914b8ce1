//! Several files changed at once: all of it or nothing. Everything is prepared beside its place
//! first, then names are exchanged, and exchanged back when one of them cannot be.
//! Never follows a link to change something, and never loses the mode of a file.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::super::{FileReply, FileStep};
use super::transfer::{check_unchanged, make_folders, new_file, old_file, temporary_name, write_path};
use super::{Refusal, Tree};

/// The mode of a new file, of which the mask takes away.
const NEW_FILE: u32 = 0o666;

/// Most steps of one change.
const MAX_STEPS: usize = 1_000;

pub(super) fn change(tree: &Tree, steps: &[FileStep]) -> Result<FileReply, Refusal> {
    if steps.len() > MAX_STEPS {
        return Err(format!("at most {MAX_STEPS} files can be changed at once"));
    }
    let mut prepared = Vec::new();
    for step in steps {
        match prepare(tree, step) {
            Ok(one) => prepared.push(one),
            Err(problem) => {
                prepared.iter().for_each(Prepared::forget);
                return Err(problem);
            }
        }
    }
    let mut done = Vec::new();
    for (at, one) in prepared.iter().enumerate() {
        if let Err((path, error)) = one.perform(&mut done) {
            // Undone in the opposite order, so that each name is free again when it is needed.
            done.iter().rev().for_each(Done::undo);
            prepared[at..].iter().for_each(Prepared::forget);
            prepared[..at].iter().for_each(Prepared::forget);
            return Err(format!("{path} cannot be changed: {error}; nothing was changed"));
        }
    }
    prepared.iter().for_each(Prepared::forget);
    Ok(FileReply::Changed)
}

/// A place for a name.
#[derive(Clone)]
struct Place {
    path: String,
    folder: Rc<OwnedFd>,
    name: OsString,
}

/// A step whose new content lies beside its place.
struct Prepared {
    /// What is there before: taken away, or exchanged with the new content.
    from: Option<Place>,
    /// Where the content or the moved file shall be.
    to: Option<Place>,
    /// Name in the folder of `to` that holds the new content, or in that of `from` that takes the
    /// old one.
    spare: OsString,
    has_content: bool,
}

/// A change of names that was made.
struct Done<'p> {
    from: (&'p Place, OsString),
    to: (&'p Place, OsString),
    flags: RenameFlags,
}

impl Place {
    fn open(tree: &Tree, path: &str) -> Result<Self, Refusal> {
        let target = write_path(tree, path)?;
        let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
            return Err(format!("{path:?} does not name a file"));
        };
        let folder = make_folders(tree, parent).map_err(|problem| format!("{path}: {problem}"))?;
        Ok(Self {
            path: path.to_owned(),
            folder: Rc::new(folder),
            name: name.to_owned(),
        })
    }

    /// The mode of the file that must be there.
    fn existing(tree: &Tree, path: &str, expect_sha256: &str) -> Result<(Self, u32), Refusal> {
        let place = Self::open(tree, path)?;
        let old = old_file(path, &place.folder, &place.name)?;
        let old = old.ok_or_else(|| format!("{path} does not exist"))?;
        check_unchanged(tree, path, &write_path(tree, path)?, true, expect_sha256)?;
        Ok((place, old.st_mode & 0o777))
    }

    fn free(tree: &Tree, path: &str) -> Result<Self, Refusal> {
        let place = Self::open(tree, path)?;
        match rustix::fs::statat(place.folder.as_fd(), &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(place),
            _ => Err(format!("{path} exists already")),
        }
    }
}

fn prepare(tree: &Tree, step: &FileStep) -> Result<Prepared, Refusal> {
    let (from, to, content, mode) = match step {
        FileStep::Create { path, content } => (None, Some(Place::free(tree, path)?), Some(content), NEW_FILE),
        FileStep::Replace {
            path,
            content,
            expect_sha256,
        } => {
            let (place, mode) = Place::existing(tree, path, expect_sha256)?;
            (Some(place.clone()), Some(place), Some(content), mode)
        }
        FileStep::Remove { path, expect_sha256 } => {
            let (place, mode) = Place::existing(tree, path, expect_sha256)?;
            (Some(place), None, None, mode)
        }
        FileStep::Move {
            from,
            to,
            expect_sha256,
            content,
        } => {
            let (place, mode) = Place::existing(tree, from, expect_sha256)?;
            (Some(place), Some(Place::free(tree, to)?), content.as_ref(), mode)
        }
    };
    let prepared = Prepared {
        from,
        to,
        spare: OsString::from(temporary_name()),
        has_content: content.is_some(),
    };
    if let (Some(content), Some(to)) = (content, &prepared.to)
        && let Err(problem) = write_beside(to, &prepared.spare, content, mode)
    {
        prepared.forget();
        return Err(problem);
    }
    Ok(prepared)
}

/// Writes new content under the spare name.
fn write_beside(place: &Place, spare: &OsStr, content: &str, mode: u32) -> Result<(), Refusal> {
    let content = BASE64_STANDARD
        .decode(content)
        .map_err(|error| format!("the content is not base64: {error}"))?;
    new_file(&place.folder, spare, &content, mode).map_err(|error| format!("{} cannot be written: {error}", place.path))
}

impl Prepared {
    fn perform<'p>(&'p self, done: &mut Vec<Done<'p>>) -> Result<(), (&'p str, Errno)> {
        let mut rename = |from: (&'p Place, &OsStr), to: (&'p Place, &OsStr), flags: RenameFlags| {
            let result = rustix::fs::renameat_with(from.0.folder.as_fd(), from.1, to.0.folder.as_fd(), to.1, flags);
            result.map_err(|error| (to.0.path.as_str(), error))?;
            done.push(Done {
                from: (from.0, from.1.to_owned()),
                to: (to.0, to.1.to_owned()),
                flags,
            });
            Ok(())
        };
        let free = RenameFlags::NOREPLACE;
        match (&self.from, &self.to) {
            // Replace: the old content gets the spare name.
            (Some(from), Some(to)) if self.has_content && from.path == to.path => {
                rename((to, &self.spare), (to, &to.name), RenameFlags::EXCHANGE)
            }
            (Some(from), Some(to)) if self.has_content => {
                rename((from, &from.name), (from, &self.spare_of_old()), free)?;
                rename((to, &self.spare), (to, &to.name), free)
            }
            (Some(from), Some(to)) => rename((from, &from.name), (to, &to.name), free),
            (Some(from), None) => rename((from, &from.name), (from, &self.spare), free),
            (None, Some(to)) => rename((to, &self.spare), (to, &to.name), free),
            (None, None) => Ok(()),
        }
    }

    /// The old file of a move stands aside under a name of its own.
    fn spare_of_old(&self) -> OsString {
        let mut name = self.spare.clone();
        name.push("-old");
        name
    }

    /// Removes what was only for the change.
    fn forget(&self) {
        for place in self.from.iter().chain(&self.to) {
            for name in [self.spare.clone(), self.spare_of_old()] {
                let _ = rustix::fs::unlinkat(place.folder.as_fd(), name, AtFlags::empty());
            }
        }
    }
}

impl Done<'_> {
    fn undo(&self) {
        let (from, to) = (&self.from, &self.to);
        let _ = rustix::fs::renameat_with(to.0.folder.as_fd(), &to.1, from.0.folder.as_fd(), &from.1, self.flags);
    }
}
