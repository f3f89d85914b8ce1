//! What a reviewer should know of a change from the list of its files: tests, lockfiles, binaries,
//! what cannot be read, what is deleted, and whether it is larger than the repository wants. Pure.
//! Never looks into lines; `risk` does.

use std::sync::LazyLock;

use regex::Regex;

use super::risk::{is_lockfile, is_test};
use crate::git::Change;
use crate::phrase::{Language, risk as words};
use crate::text;

/// Most characters of one path.
const MAX_PATH_CHARS: usize = 160;
/// A new file with more bytes than this for each of its lines is not written to be read.
const MOST_BYTES_A_LINE: u64 = 2_000;
/// From how many deleted lines, or whole files, it is said.
const MANY_LINES: u64 = 500;
const MANY_FILES: usize = 10;

static GENERATED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(?:^|/)(?:dist|vendor|node_modules|third_party|generated|__snapshots__|snapshots)/",
        r"|\.min\.(?:js|css)$|\.map$|\.pb\.(?:go|cc|h)$|_pb2(?:_grpc)?\.pyi?$|\.snap$|[._]generated?\.\w+$|\.g\.(?:dart|cs)$",
    ))
    .expect("the pattern is valid")
});

/// Remarks on the files of a change.
pub(super) fn remarks_of(language: Language, changes: &[Change]) -> Vec<String> {
    let mut remarks: Vec<String> = deletes_much(language, changes).into_iter().collect();
    remarks.extend(changes.iter().flat_map(|change| remarks_of_file(language, change)));
    remarks
}

fn remarks_of_file(language: Language, change: &Change) -> Vec<String> {
    let path = text::code_span(&text::cap_chars(&change.path, MAX_PATH_CHARS));
    let size = text::bytes_in_words(change.bytes);
    let mut remarks = Vec::new();
    match (change.status, is_test(&change.path)) {
        ('A', _) | (_, false) => {}
        ('D', true) => remarks.push(words::test_deleted(language, &path)),
        (_, true) => remarks.push(words::test_edited(language, &path)),
    }
    if is_lockfile(&change.path) {
        remarks.push(words::lockfile(language, &path));
    }
    if change.binary {
        remarks.push(words::binary(language, &path, &size));
    } else if change.status == 'A' && change.bytes > MOST_BYTES_A_LINE * change.lines.0.max(1) {
        remarks.push(words::minified(language, &path, &size));
    }
    remarks
}

/// O06: whole files or many lines go, and little comes instead.
fn deletes_much(language: Language, changes: &[Change]) -> Option<String> {
    let files = changes.iter().filter(|change| change.status == 'D').count();
    let added: u64 = changes.iter().map(|change| change.lines.0).sum();
    let deleted: u64 = changes.iter().map(|change| change.lines.1).sum();
    let is_much = files >= MANY_FILES || deleted >= MANY_LINES && deleted > added.saturating_mul(3);
    is_much.then(|| words::deletes_much(language, files, deleted, added))
}

/// Lines and files of a change that a person wrote or could have written.
pub(super) fn size_of(changes: &[Change]) -> (u64, usize) {
    let counted = changes
        .iter()
        .filter(|change| !is_lockfile(&change.path) && !GENERATED.is_match(&change.path));
    counted.fold((0, 0), |(lines, files), change| {
        (lines + change.lines.0 + change.lines.1, files + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, status: char, lines: (u64, u64), bytes: u64) -> Change {
        Change {
            path: path.into(),
            status,
            bytes,
            binary: false,
            lines,
        }
    }

    #[track_caller]
    fn check(changes: &[Change], expected: &[&str]) {
        let remarks = remarks_of(Language::English, changes);
        assert_eq!(remarks.len(), expected.len(), "{remarks:#?}");
        for (remark, words) in remarks.iter().zip(expected) {
            assert!(remark.contains(words), "{remark}");
        }
    }

    #[test]
    fn files_that_a_reviewer_should_look_at_are_named() {
        check(&[change("src/a.rs", 'M', (2, 1), 90)], &[]);
        check(&[change("tests/a.rs", 'A', (2, 0), 90)], &[]);
        check(&[change("tests/a.rs", 'M', (2, 1), 90)], &["test was edited"]);
        check(&[change("tests/a.rs", 'D', (0, 9), 0)], &["test was deleted"]);
        check(&[change("sub/go.sum", 'M', (2, 1), 90)], &["lockfile"]);
        check(&[change("Cargo.lock", 'M', (2, 1), 90)], &["lockfile"]);
        let picture = Change {
            binary: true,
            ..change("a.png", 'A', (0, 0), 2_048)
        };
        check(&[picture], &["2.0 KiB"]);
    }

    #[test]
    fn o06_what_cannot_be_read_and_what_is_deleted_is_named() {
        check(&[change("a.js", 'A', (1, 0), 1_048_576)], &["1.0 MiB"]);
        check(&[change("a.js", 'A', (40, 0), 2_000)], &[]);
        check(
            &[change("a.rs", 'M', (1, 900), 10)],
            &["0 whole files, 900 lines (it adds 1)"],
        );
        check(&[change("a.rs", 'M', (700, 900), 10)], &[]);
        let many: Vec<Change> = (0..12).map(|n| change(&format!("{n}.rs"), 'D', (0, 5), 0)).collect();
        check(&many, &["12 whole files"]);
    }

    #[test]
    fn lockfiles_and_generated_files_are_counted_apart() {
        let changes = [
            change("src/a.rs", 'M', (10, 5), 90),
            change("Cargo.lock", 'M', (900, 5), 90),
            change("web/dist/a.js", 'M', (900, 5), 90),
            change("api/a.pb.go", 'M', (900, 5), 90),
            change("a_generated.go", 'M', (900, 5), 90),
        ];
        assert_eq!(size_of(&changes), (15, 1));
    }
}
