//! Our own program as a container needs it: the file, and where it is dynamically linked, the loader
//! and the libraries that it was linked with, so that it runs in images with other ones or with none.
//! Called by `docker` and `opensandbox`. Never copies anything: each file is shown read-only.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::helper::COMMAND;

/// Where it stands in a container.
const PLACE: &str = "/run/forgehand/helper";

/// Loader paths are short, and stand in the first segments of a program.
const HEAD_BYTES: u64 = 64 * 1024;

/// Most libraries; the program has three or four.
const MAX_LIBRARIES: usize = 64;

/// The program with what it needs.
#[derive(Debug, Clone)]
pub(super) struct HelperProgram {
    /// Files of this machine and their paths inside.
    pub(super) files: Vec<(PathBuf, String)>,
    /// How it is started.
    start: Vec<String>,
}

impl HelperProgram {
    /// Finds out what the program at `path` needs.
    pub(super) fn find(path: &Path) -> Result<Self, String> {
        let explain = |error: std::io::Error| format!("look at the program {}: {error}", path.display());
        let path = path.canonicalize().map_err(explain)?;
        let inside = format!("{PLACE}/forgehand");
        let mut files = vec![(path.clone(), inside.clone())];
        let mut head = Vec::new();
        let file = fs::File::open(&path).map_err(explain)?;
        file.take(HEAD_BYTES).read_to_end(&mut head).map_err(explain)?;
        let Some(loader) = loader(&head) else {
            return Ok(Self {
                files,
                start: vec![inside],
            });
        };
        let listed = Command::new(&loader)
            .arg("--list")
            .arg(&path)
            .env_clear()
            .output()
            .map_err(explain)?;
        if !listed.status.success() {
            return Err(format!(
                "{} cannot list the libraries of {}",
                loader.display(),
                path.display()
            ));
        }
        let libraries = libraries(&String::from_utf8_lossy(&listed.stdout));
        if libraries.len() > MAX_LIBRARIES {
            return Err(format!("{} needs {} libraries", path.display(), libraries.len()));
        }
        files.extend(
            libraries
                .into_iter()
                .map(|(name, library)| (library, format!("{PLACE}/lib/{name}"))),
        );
        let inner_loader = format!("{PLACE}/loader");
        files.push((loader, inner_loader.clone()));
        // The list of libraries on the command line goes before any that the image's environment names.
        let start = vec![
            inner_loader,
            "--library-path".to_owned(),
            format!("{PLACE}/lib"),
            inside,
        ];
        for (file, _) in &mut files {
            *file = file.canonicalize().map_err(explain)?;
        }
        Ok(Self { files, start })
    }

    /// The command line of a stage of the helper.
    pub(super) fn command(&self, stage: &str) -> Vec<String> {
        let mut command = self.command_line();
        command.push(stage.to_owned());
        command
    }

    /// The command line of the helper; the name of a stage goes behind it. Its words need no quotes.
    pub(super) fn command_line(&self) -> Vec<String> {
        let mut command = self.start.clone();
        command.push(COMMAND.to_owned());
        command
    }
}

/// The loader that a 64-bit little-endian ELF program names; none in static ones.
fn loader(program: &[u8]) -> Option<PathBuf> {
    const MAGIC: &[u8] = b"\x7fELF\x02\x01";
    const INTERPRETER: u64 = 3;
    let number = |at: usize, width: usize| -> Option<u64> {
        let bytes = program.get(at..at.checked_add(width)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let position = |at: usize, width: usize| usize::try_from(number(at, width)?).ok();
    if !program.starts_with(MAGIC) {
        return None;
    }
    let (table, entry, count) = (position(32, 8)?, position(54, 2)?, position(56, 2)?);
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(entry)?)?;
        if number(header, 4)? == INTERPRETER {
            let (start, length) = (position(header + 8, 8)?, position(header + 32, 8)?);
            let path = program.get(start..start.checked_add(length)?)?;
            let path = std::str::from_utf8(path).ok()?.trim_end_matches('\0');
            return path.starts_with('/').then(|| PathBuf::from(path));
        }
    }
    None
}

/// Names and files from lines such as `libc.so.6 => /lib/libc.so.6 (0x7f…)`. The kernel's own
/// library has no file, and the loader is found by itself.
fn libraries(listing: &str) -> Vec<(String, PathBuf)> {
    let line = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.rsplit_once(" (0x").map_or(rest, |(path, _)| path);
        let is_plain = !name.is_empty() && !name.contains('/') && path.starts_with('/');
        is_plain.then(|| (name.to_owned(), PathBuf::from(path)))
    };
    listing.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_loader_are_read() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibgcc_s.so.1 => /lib/x 1/libgcc_s.so.1 (0x00007f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibmissing.so => not found\n";
        assert_eq!(
            libraries(listing),
            [("libgcc_s.so.1".to_owned(), PathBuf::from("/lib/x 1/libgcc_s.so.1"))]
        );
    }

    #[test]
    fn this_test_program_can_be_shown_and_broken_ones_are_no_trap() {
        let own = std::env::current_exe().expect("this program");
        let found = HelperProgram::find(&own).expect("its libraries");
        assert!(
            found
                .command("hold")
                .ends_with(&["sandbox-helper".to_owned(), "hold".to_owned()])
        );
        assert!(
            found
                .files
                .iter()
                .all(|(file, inside)| file.is_absolute() && inside.starts_with(PLACE))
        );
        let mut program = fs::read(&own).expect("this program");
        program.truncate(4096);
        for length in 0..200 {
            let _ = loader(&program[..length]);
        }
        program[32..64].fill(0xff);
        assert_eq!(loader(&program), None);
        assert_eq!(loader(b"#!/bin/sh"), None);
    }
}
