//! What is asked of the files of a workspace, and the answers: plain data, used by the service and by
//! the helper inside. Never a path of this machine: all are relative to the workspace.

use serde::{Deserialize, Serialize};

use crate::code::facts::Facts;

/// A file operation inside the sandbox. Paths are relative to the workspace; what leaves it is
/// refused there, by the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest {
    /// Entries of a folder, sorted.
    List {
        /// Folder, empty for the root.
        path: String,
        /// Levels below it, from 1.
        depth: u32,
        /// Most entries.
        max_entries: u32,
    },
    /// A file's bytes.
    Read {
        /// File.
        path: String,
        /// Most bytes; a longer file is cut and said to be.
        max_bytes: u64,
    },
    /// Writes a file through a temporary file and a rename; folders are made.
    Write {
        /// File.
        path: String,
        /// Content, base64.
        content: String,
        /// SHA-256 the file must have before, hex; `None`: anything or nothing.
        expect_sha256: Option<String>,
    },
    /// Changes several files: all of it, or nothing.
    Change {
        /// What is done, each to another file.
        steps: Vec<FileStep>,
    },
    /// Paths that match a glob, newest first, `.git` left out, ignore files obeyed.
    Glob {
        /// Pattern such as `src/**/*.rs`.
        pattern: String,
        /// Most paths.
        max_entries: u32,
    },
    /// Lines that match a regular expression, hidden files included, `.git` left out.
    Grep {
        /// Regular expression of Rust's `regex`, in linear time.
        pattern: String,
        /// Folder or file, empty for all.
        path: String,
        /// Glob that file names must match.
        glob: Option<String>,
        /// Ignore case.
        ignore_case: bool,
        /// Lines around each match.
        context: u32,
        /// Most matching lines.
        max_matches: u32,
    },
    /// Code by its shape, in syntax trees; files that take too long are left out.
    AstGrep {
        /// Code with `$NAME` for any one piece and `$$$` for any number.
        pattern: String,
        /// Language by name or alias; `None`: every one in which the pattern is code.
        language: Option<String>,
        /// Folder or file, empty for all.
        path: String,
        /// Glob that file names must match.
        glob: Option<String>,
        /// Most matches.
        max_matches: u32,
    },
    /// Files ranked by how many of the words they hold, in small or capital letters.
    Words {
        /// Words, or parts of words.
        words: Vec<String>,
        /// Folder or file, empty for all.
        path: String,
        /// Most files.
        max_files: u32,
    },
    /// Single lines of files; a line or file that is not there is left out.
    Lines {
        /// Path and number, from 1.
        places: Vec<(String, u64)>,
    },
    /// What the files say that were changed since a moment, ignore files obeyed.
    Edited {
        /// Nanoseconds since 1970 by the machine's clock: a file counts whose status changed later.
        since_ns: i64,
        /// Files whose facts are known in a state: of these nothing is said again.
        known: Vec<(String, u64)>,
    },
}

/// One step of a [`FileRequest::Change`]. Contents are base64, hashes are hex.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum FileStep {
    /// Makes a file that must not be there; folders are made.
    Create {
        /// File.
        path: String,
        /// Its content.
        content: String,
    },
    /// Gives a file another content; its mode stays.
    Replace {
        /// File.
        path: String,
        /// Its new content.
        content: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
    },
    /// Removes a file.
    Remove {
        /// File.
        path: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
    },
    /// Gives a file another name that must be free; its mode stays.
    Move {
        /// File.
        from: String,
        /// Its new name.
        to: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
        /// Its new content, if that changes too.
        content: Option<String>,
    },
}

/// A folder entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path relative to the workspace, with bytes that are not UTF-8 escaped as `\xNN`.
    pub path: String,
    /// Kind.
    pub kind: EntryKind,
    /// Size in bytes of files, 0 otherwise.
    pub bytes: u64,
}

/// Kind of a folder entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, not followed.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// A line found by grep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepLine {
    /// File.
    pub path: String,
    /// Line number from 1.
    pub line: u64,
    /// Text, cut to 500 bytes.
    pub text: String,
    /// Whether it matched; otherwise it is context.
    pub matched: bool,
}

/// A file found by words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedFile {
    /// File.
    pub path: String,
    /// Which of the words it holds.
    pub words: Vec<String>,
    /// How often it holds any of them.
    pub matches: u64,
    /// The lines with the most of them.
    pub lines: Vec<GrepLine>,
}

/// Answer to a file operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum FileReply {
    /// To `List` and `Glob`.
    Entries {
        /// Found.
        entries: Vec<Entry>,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `Read`.
    Content {
        /// Bytes, base64.
        content: String,
        /// SHA-256 of the whole file, hex.
        sha256: String,
        /// Size of the whole file.
        bytes: u64,
    },
    /// To `Write`.
    Written {
        /// SHA-256 of the new content, hex.
        sha256: String,
        /// Whether the file did not exist before.
        created: bool,
    },
    /// To `Change`: everything is done.
    Changed,
    /// To `Grep` and `Lines`.
    Lines {
        /// Found.
        lines: Vec<GrepLine>,
        /// Files looked at.
        files: u64,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `AstGrep`.
    Syntax {
        /// First line of each match.
        lines: Vec<GrepLine>,
        /// Files looked at.
        files: u64,
        /// Files that were left out, with the reason; not more than ten.
        skipped: Vec<String>,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `Words`.
    Ranked {
        /// The best first.
        files: Vec<RankedFile>,
        /// Files with any of the words.
        matching: u64,
        /// Files looked at.
        looked: u64,
        /// Whether the search ended before it saw all of them.
        truncated: bool,
    },
    /// To `Edited`.
    Edited {
        /// All of them.
        files: Vec<EditedFile>,
        /// Whether more were left out.
        truncated: bool,
    },
    /// The operation was refused or failed, in words for the model.
    Failed {
        /// Why, and what to do.
        problem: String,
    },
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditedFile {
    /// Its path in the workspace.
    pub path: String,
    /// Its state: another one after every change.
    pub state: u64,
    /// What it says; nothing when that is known in this state, and when it cannot be read.
    pub facts: Option<Box<Facts>>,
}
