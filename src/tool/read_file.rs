//! The tool `read_file`: lines of a text file with their numbers. Never shows more than a model
//! can use at once; what is left out is said, with the call that shows it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::edit::is_binary;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, key, read_existing, relative};
use crate::model::ToolSpec;
use crate::text;

/// Most lines of one call.
const MAX_LINES: usize = 2_000;

/// Most bytes of one call.
const MAX_BYTES: usize = 60 * 1024;

/// Most bytes of a call that names no number of lines: a first look, not the whole file.
const MAX_BYTES_UNASKED: usize = 24 * 1024;

/// Most bytes of one line; minified files have lines that would fill everything.
const MAX_LINE_BYTES: usize = 2_000;

/// Most bytes of a file that are looked at.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Shows a file.
pub(super) struct ReadFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File, relative to the workspace.
    #[serde(alias = "file_path", alias = "file", alias = "filename")]
    path: String,
    /// First line to show, from 1.
    #[serde(default, alias = "start_line", alias = "start")]
    offset: Option<u64>,
    /// Most lines to show.
    #[serde(default, alias = "max_lines", alias = "lines")]
    limit: Option<u64>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: format!(
                "Shows a text file with line numbers, up to {MAX_LINES} lines at once; offset and limit show a part."
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::file("read_file", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("read_file", arguments)?;
        let path = relative(&wanted.path);
        let file = read_existing(context, &path, MAX_FILE_BYTES).await?;
        let offset = usize::try_from(wanted.offset.unwrap_or(1)).unwrap_or(usize::MAX);
        let limit = usize::try_from(wanted.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let most = if wanted.limit.is_some() {
            MAX_BYTES
        } else {
            MAX_BYTES_UNASKED
        };
        let mut shown = show(&file.content, offset, limit, most).map_err(|problem| {
            ToolError::ForModel(format!("{path} ({}): {problem}", text::bytes_in_words(file.bytes)))
        })?;
        if file.bytes > MAX_FILE_BYTES {
            shown.push_str(&format!(
                "\n[the file is {} long and only its first {} were looked at; use `sed -n` for the rest]",
                text::bytes_in_words(file.bytes),
                text::bytes_in_words(MAX_FILE_BYTES)
            ));
        }
        Ok(ToolOutput::Text(shown))
    }
}

/// The lines from `offset` on, or why there are none.
fn show(content: &[u8], offset: usize, limit: usize, max_bytes: usize) -> Result<String, String> {
    if content.is_empty() {
        return Ok("[the file is empty]".to_owned());
    }
    if is_binary(content) {
        return Err("not a text file; look at it with a command such as `file` or `xxd | head`".to_owned());
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let content = String::from_utf8_lossy(content);
    let total = content.lines().count();
    let first = offset.max(1);
    if first > total {
        return Err(format!("it has {total} lines, and line {first} was asked for"));
    }
    let mut shown = String::new();
    let mut last = first - 1;
    for line in content.lines().skip(first - 1).take(limit.clamp(1, MAX_LINES)) {
        let line = numbered([line], last + 1);
        if shown.len() + line.len() > max_bytes {
            break;
        }
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&line);
        last += 1;
    }
    if last < total {
        // Asked for a number of lines, nobody needs to be told how to ask for one.
        let how = if max_bytes == MAX_BYTES_UNASKED {
            "; grep finds a name in it"
        } else {
            ""
        };
        shown.push_str(&format!(
            "\n[lines {first} to {last} of {total}; read_file with offset={} shows more{how}]",
            last + 1
        ));
    }
    Ok(shown)
}

/// Lines with their numbers, hidden characters written out, over-long lines cut.
pub(super) fn numbered<'a>(lines: impl IntoIterator<Item = &'a str>, first: usize) -> String {
    let lines: Vec<String> = lines
        .into_iter()
        .enumerate()
        .map(|(at, line)| format!("{:>6}\t{}", first + at, cut(&text::reveal(line), first + at)))
        .collect();
    lines.join("\n")
}

/// A line with at most so many bytes, and how to see the rest of it.
fn cut(line: &str, number: usize) -> String {
    if line.len() <= MAX_LINE_BYTES {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(MAX_LINE_BYTES);
    let rest = line.len() - end;
    format!(
        "{} [… {rest} more bytes; `sed -n {number}p FILE | cut -c{end}-{}` shows some]",
        &line[..end],
        end * 2
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &[u8], offset: usize, limit: usize, expected: &str) {
        assert_eq!(
            show(content, offset, limit, MAX_BYTES).unwrap_or_else(|problem| problem),
            expected
        );
    }

    #[test]
    fn lines_are_numbered_and_indentation_stays() {
        check(
            b"    a\n\n  b\n\n",
            1,
            10,
            "     1\t    a\n     2\t\n     3\t  b\n     4\t",
        );
        check(b"a\r\nb", 1, 10, "     1\ta\n     2\tb");
        check("\u{feff}a\u{202e}b".as_bytes(), 1, 10, "     1\ta⟦U+202E⟧b");
        check(b"caf\xe9", 1, 10, "     1\tcaf\u{fffd}");
        check(b"", 1, 10, "[the file is empty]");
    }

    #[test]
    fn a_part_says_how_to_see_the_rest() {
        let file = b"1\n2\n3\n4\n";
        check(
            file,
            2,
            2,
            "     2\t2\n     3\t3\n[lines 2 to 3 of 4; read_file with offset=4 shows more]",
        );
        check(
            file,
            0,
            1,
            "     1\t1\n[lines 1 to 1 of 4; read_file with offset=2 shows more]",
        );
        check(file, 5, 1, "it has 4 lines, and line 5 was asked for");
        check(
            b"a\0b",
            1,
            1,
            "not a text file; look at it with a command such as `file` or `xxd | head`",
        );
    }

    #[test]
    fn long_files_and_long_lines_are_capped() {
        let many = "x\n".repeat(5_000);
        let shown = show(many.as_bytes(), 1, usize::MAX, MAX_BYTES).unwrap();
        assert!(shown.ends_with("[lines 1 to 2000 of 5000; read_file with offset=2001 shows more]"));
        let wide = format!("{}\n", "y".repeat(1_000)).repeat(500);
        let shown = show(wide.as_bytes(), 1, usize::MAX, MAX_BYTES).unwrap();
        assert!(shown.len() < MAX_BYTES + 200 && shown.contains("of 500;"));
        let first_look = show(wide.as_bytes(), 1, usize::MAX, MAX_BYTES_UNASKED).unwrap();
        assert!(first_look.len() < MAX_BYTES_UNASKED + 200, "{}", first_look.len());
        assert!(
            first_look.ends_with("shows more; grep finds a name in it]"),
            "{first_look}"
        );
        let minified = "z".repeat(3_000_000);
        let shown = show(minified.as_bytes(), 1, 10, MAX_BYTES).unwrap();
        assert!(
            shown.len() < 3_000 && shown.contains("more bytes; `sed -n 1p"),
            "{}",
            shown.len()
        );
    }
}
