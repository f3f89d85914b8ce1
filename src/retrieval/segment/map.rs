//! The one place where a segment's file is mapped into memory. Called by `file`. Never maps a file
//! that anybody writes to: segments are written under another name, moved into place when complete,
//! and from then on only read and unlinked, which leaves a map as it is.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

/// Maps a whole file for reading.
#[allow(unsafe_code, reason = "a map is only sound while nobody changes the file")]
pub(super) fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: files of segments are never modified or cut after they got their name; this program
    // only replaces the name or removes it, and the folder belongs to the service's own account.
    unsafe { Mmap::map(&file) }
}
