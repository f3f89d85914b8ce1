//! What a branch changes, file by file and line by line, read from git's unified diff: which
//! lines a review may comment on, and where a line goes when somebody pushes.
//! Called by `bare`, `reviews` and `refs`. Never runs git.

/// How two commits differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Commits that the head has beyond the base, newest first.
    pub(super) commits: Vec<String>,
    pub(super) files: Vec<ChangedFile>,
}

impl Comparison {
    pub(super) fn additions(&self) -> u64 {
        self.files.iter().map(|file| file.additions).sum()
    }

    pub(super) fn deletions(&self) -> u64 {
        self.files.iter().map(|file| file.deletions).sum()
    }

    pub(super) fn file(&self, path: &str) -> Option<&ChangedFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Which side of a diff a line is counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffSide {
    /// The old file.
    Left,
    /// The new file.
    Right,
}

impl DiffSide {
    pub(super) fn word(self) -> &'static str {
        match self {
            DiffSide::Left => "LEFT",
            DiffSide::Right => "RIGHT",
        }
    }
}

/// A file of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChangedFile {
    pub(super) path: String,
    pub(super) previous: Option<String>,
    /// `added`, `removed`, `modified` or `renamed`.
    pub(super) status: &'static str,
    pub(super) additions: u64,
    pub(super) deletions: u64,
    pub(super) hunks: Vec<Hunk>,
}

/// A run of lines of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    old_start: u64,
    old_lines: u64,
    new_start: u64,
    new_lines: u64,
    /// The line that begins with `@@`.
    header: String,
    /// Lines with their sign.
    lines: Vec<String>,
}

impl ChangedFile {
    /// The hunks as GitHub's `patch`; binary files have none.
    pub(super) fn patch(&self) -> Option<String> {
        if self.hunks.is_empty() {
            return None;
        }
        let hunks = self.hunks.iter().map(|hunk| {
            let lines = std::iter::once(&hunk.header).chain(&hunk.lines);
            lines.map(String::as_str).collect::<Vec<_>>().join("\n")
        });
        Some(hunks.collect::<Vec<_>>().join("\n"))
    }

    /// The diff from its hunk's head down to a line; `None` when the line is not in the diff.
    pub(super) fn hunk_down_to(&self, side: DiffSide, line: u64) -> Option<String> {
        let (hunk, at) = self.find(side, line)?;
        let lines = std::iter::once(&hunk.header).chain(&hunk.lines[..=at]);
        Some(lines.map(String::as_str).collect::<Vec<_>>().join("\n"))
    }

    /// Whether two lines stand in one hunk, the first above the second.
    pub(super) fn is_range(&self, side: DiffSide, first: u64, last: u64) -> bool {
        match (self.find(side, first), self.find(side, last)) {
            (Some((above, _)), Some((below, _))) => first < last && std::ptr::eq(above, below),
            _ => false,
        }
    }

    fn find(&self, side: DiffSide, wanted: u64) -> Option<(&Hunk, usize)> {
        self.hunks.iter().find_map(|hunk| {
            let (mut old, mut new) = (hunk.old_start, hunk.new_start);
            for (at, line) in hunk.lines.iter().enumerate() {
                let sign = line.as_bytes().first().copied().unwrap_or(b' ');
                let here = match (sign, side) {
                    (b'+', DiffSide::Right) => new,
                    (b'-', DiffSide::Left) => old,
                    (b' ', DiffSide::Right) => new,
                    (b' ', DiffSide::Left) => old,
                    _ => 0,
                };
                if here == wanted && here > 0 {
                    return Some((hunk, at));
                }
                old += u64::from(matches!(sign, b' ' | b'-'));
                new += u64::from(matches!(sign, b' ' | b'+'));
            }
            None
        })
    }

    /// Where a line of the old file is in the new one; `None` when it was changed. For a diff
    /// without context.
    fn moved(&self, line: u64) -> Option<u64> {
        let mut shift: i64 = 0;
        for hunk in &self.hunks {
            // A hunk that only adds names the line before which it stands.
            let (first, count) = (hunk.old_start, hunk.old_lines);
            let before = if count == 0 {
                first < line
            } else {
                first + count <= line
            };
            if before {
                shift += hunk.new_lines as i64 - hunk.old_lines as i64;
            } else if count > 0 && first <= line {
                return None;
            }
        }
        u64::try_from(line as i64 + shift).ok()
    }
}

/// Where a line of a file is after a push, by the diff (without context) of what was pushed.
pub(super) fn line_after(pushed: &[ChangedFile], path: &str, line: u64) -> Option<u64> {
    let file = pushed
        .iter()
        .find(|file| file.previous.as_deref().unwrap_or(&file.path) == path);
    match file {
        None => Some(line),
        Some(file) if file.status == "removed" || file.path != path => None,
        Some(file) => file.moved(line),
    }
}

/// Reads a unified diff of git.
pub(super) fn parse(text: &str) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = Vec::new();
    for line in text.split('\n') {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let half = names.len() / 2;
            let path = names.get(half + 1..).and_then(|name| name.strip_prefix("b/"));
            files.push(ChangedFile {
                path: path.unwrap_or_default().to_owned(),
                status: "modified",
                ..ChangedFile::default()
            });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        match file.hunks.last_mut() {
            _ if line.starts_with("@@ ") => file.hunks.extend(hunk(line)),
            None => head_line(file, line),
            Some(hunk) => {
                match line.as_bytes().first() {
                    Some(b'+') => file.additions += 1,
                    Some(b'-') => file.deletions += 1,
                    Some(b' ' | b'\\') => {}
                    _ => continue,
                }
                hunk.lines.push(line.to_owned());
            }
        }
    }
    files
}

fn head_line(file: &mut ChangedFile, line: &str) {
    let path = |name: &str| name.trim_end_matches('\t').to_owned();
    if line.starts_with("new file mode") {
        file.status = "added";
    } else if line.starts_with("deleted file mode") {
        file.status = "removed";
    } else if let Some(name) = line.strip_prefix("rename from ") {
        file.status = "renamed";
        file.previous = Some(name.to_owned());
    } else if let Some(name) = line.strip_prefix("rename to ") {
        name.clone_into(&mut file.path);
    } else if let Some(name) = line.strip_prefix("--- a/") {
        file.path = path(name);
    } else if let Some(name) = line.strip_prefix("+++ b/") {
        file.path = path(name);
    }
}

/// Reads `@@ -1,2 +3,4 @@`.
fn hunk(header: &str) -> Option<Hunk> {
    let mut words = header.split(' ').skip(1);
    let mut range = |sign: char| {
        let (start, count) = words.next()?.strip_prefix(sign).map(|range| {
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            (start.parse().ok(), count.parse().ok())
        })?;
        Some((start?, count?))
    };
    let ((old_start, old_lines), (new_start, new_lines)) = (range('-')?, range('+')?);
    Some(Hunk {
        old_start,
        old_lines,
        new_start,
        new_lines,
        header: header.to_owned(),
        lines: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs
index 1..2 100644
--- a/src/a.rs
+++ b/src/a.rs
@@ -2,3 +2,4 @@ fn a() {
 two
-three
+drei
+und mehr
 four
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
--- bye
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
";

    #[test]
    fn a_diff_is_read() {
        let files = parse(DIFF);
        let seen: Vec<_> = files
            .iter()
            .map(|file| (file.path.as_str(), file.status, file.additions, file.deletions))
            .collect();
        assert_eq!(
            seen,
            [
                ("src/a.rs", "modified", 2, 1),
                ("gone", "removed", 0, 1),
                ("new name", "renamed", 0, 0)
            ]
        );
        assert_eq!(files[2].previous.as_deref(), Some("old name"));
    }

    #[test]
    fn lines_of_both_sides_are_found() {
        let files = parse(DIFF);
        let lines = |side| (1..=6).filter(move |line| files[0].hunk_down_to(side, *line).is_some());
        assert_eq!(lines.clone()(DiffSide::Right).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(lines(DiffSide::Left).collect::<Vec<_>>(), [2, 3, 4]);
        let files = parse(DIFF);
        let hunk = files[0].hunk_down_to(DiffSide::Right, 3).unwrap();
        assert_eq!(hunk, "@@ -2,3 +2,4 @@ fn a() {\n two\n-three\n+drei");
        assert!(files[0].is_range(DiffSide::Right, 2, 5) && !files[0].is_range(DiffSide::Right, 5, 2));
        assert!(files[1].hunk_down_to(DiffSide::Left, 1).is_some());
    }

    #[test]
    fn lines_move_with_a_push() {
        let pushed = "diff --git a/a b/a
--- a/a
+++ b/a
@@ -0,0 +1,2 @@
+x
+y
@@ -5,2 +7 @@
-e
-f
+ef
@@ -9 +10,0 @@
-i
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-g
";
        let pushed = parse(pushed);
        for (line, after) in [
            (1, Some(3)),
            (4, Some(6)),
            (5, None),
            (6, None),
            (7, Some(8)),
            (9, None),
            (10, Some(10)),
        ] {
            assert_eq!(line_after(&pushed, "a", line), after, "line {line}");
        }
        assert_eq!(line_after(&pushed, "gone", 1), None);
        assert_eq!(line_after(&pushed, "other", 7), Some(7));
    }
}
