//! The head of a bundle, read by ourselves, so that its pack can go straight into
//! `git index-pack --strict`: `git fetch` of a bundle checks objects only since git 2.46.
//! Called by `import` and `pack`. Never believes a name or a number in it beyond what is checked here.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::ids::CommitSha;

/// The only ref that is taken from a bundle.
const CHANGE_REF: &str = "refs/heads/change";

/// Longest head; ours has three lines.
const MAX_HEAD: u64 = 64 * 1024;

/// Opens the bundle itself: a link in its place is an error, and a pipe does not block.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Reads the head, leaves the file where its pack begins, and returns the exported commit.
pub(super) fn read_head(file: &mut File, bases: &[&CommitSha]) -> Result<CommitSha, String> {
    let mut start = Vec::new();
    file.take(MAX_HEAD)
        .read_to_end(&mut start)
        .map_err(|error| format!("the bundle cannot be read: {error}"))?;
    let (tip, pack_at) = parse_head(&start, bases)?;
    file.seek(SeekFrom::Start(pack_at))
        .map_err(|error| format!("the bundle cannot be read: {error}"))?;
    Ok(tip)
}

fn parse_head(start: &[u8], bases: &[&CommitSha]) -> Result<(CommitSha, u64), String> {
    let end = start
        .windows(2)
        .position(|pair| pair == b"\n\n")
        .ok_or("the file is not a bundle: it has no head")?;
    let head = std::str::from_utf8(&start[..end]).map_err(|_| "the bundle's head is not text")?;
    let mut lines = head.lines();
    if !matches!(lines.next(), Some("# v2 git bundle" | "# v3 git bundle")) {
        return Err("the file is not a bundle of version 2 or 3".to_owned());
    }
    let mut tip = None;
    for line in lines {
        if let Some(capability) = line.strip_prefix('@') {
            if !capability.starts_with("object-format=") {
                return Err("the bundle leaves objects out".to_owned());
            }
        } else if let Some(needed) = line.strip_prefix('-') {
            let id = needed.split(' ').next().unwrap_or_default();
            if !bases.iter().any(|base| base.as_str() == id) {
                let known: Vec<&str> = bases.iter().map(|base| base.as_str()).collect();
                return Err(format!(
                    "the bundle builds on something else than {}",
                    known.join(" and ")
                ));
            }
        } else if let Some((id, CHANGE_REF)) = line.split_once(' ') {
            tip = Some(id.parse().map_err(|_| "the bundle's ref has no commit id")?);
        }
    }
    let tip = tip.ok_or_else(|| format!("the bundle has no {CHANGE_REF}"))?;
    Ok((tip, end as u64 + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "1111111111111111111111111111111111111111";
    const TIP: &str = "2222222222222222222222222222222222222222";

    #[track_caller]
    fn check(head: &str, expected: Result<(), &str>) {
        let head = head.replace("BASE", BASE).replace("TIP", TIP);
        let found = parse_head(head.as_bytes(), &[&BASE.parse().unwrap()]);
        match expected {
            Ok(()) => assert_eq!(found, Ok((TIP.parse().unwrap(), head.find("PACK").unwrap() as u64))),
            Err(word) => assert!(found.as_ref().is_err_and(|problem| problem.contains(word)), "{found:?}"),
        }
    }

    #[test]
    fn heads_are_taken_when_they_say_one_commit_on_the_base() {
        check("# v2 git bundle\n-BASE first\nTIP refs/heads/change\n\nPACK", Ok(()));
        check(
            "# v2 git bundle\n-BASE\nTIP refs/heads/other\nTIP refs/heads/change\n\nPACK",
            Ok(()),
        );
        check(
            "# v3 git bundle\n@object-format=sha1\n-BASE \nTIP refs/heads/change\n\nPACK",
            Ok(()),
        );
        check(
            "# v3 git bundle\n@filter=blob:none\n-BASE\nTIP refs/heads/change\n\n",
            Err("leaves objects out"),
        );
        check(
            "# v2 git bundle\n-TIP\nTIP refs/heads/change\n\n",
            Err("something else"),
        );
        check("# v2 git bundle\n-BASE\nTIP HEAD\n\n", Err("has no refs/heads/change"));
        check(
            "# v2 git bundle\n-BASE\nnot-an-id refs/heads/change\n\n",
            Err("no commit id"),
        );
        check("# v4 git bundle\n\n", Err("version 2 or 3"));
        check("# v2 git bundle\n", Err("no head"));
        check("", Err("no head"));
    }
}
