//! The tool `write_file`: makes a file or replaces one as a whole. Never changes the line ends of
//! a file that is there already.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, Written, arguments, key, read_bytes, relative, write_bytes};
use crate::model::ToolSpec;
use crate::text;

/// As much of an old file is looked at to learn its line ends.
const LOOK_BYTES: u64 = 64 * 1024;

/// Writes a file.
pub(super) struct WriteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File, relative to the workspace. Missing folders are made.
    #[serde(alias = "file_path", alias = "file", alias = "filename")]
    path: String,
    /// The whole new content.
    #[serde(alias = "contents", alias = "text", alias = "file_text")]
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".to_owned(),
            description: "Makes a file, or replaces a whole one. To change a part of a file use edit_file.".to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::file("write_file", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let file: Arguments = arguments::fit("write_file", arguments)?;
        let path = relative(&file.path);
        // A file that cannot be read is new, or the write says what is wrong with it.
        let before = match read_bytes(context, &path, LOOK_BYTES).await {
            Ok(before) => before.content,
            Err(ToolError::Fatal(broken)) => return Err(broken.into()),
            Err(_) => Vec::new(),
        };
        let content = in_line_ends_of(&before, &file.content);
        let written = write_bytes(context, &path, content.as_bytes(), None).await?;
        let verb = match written {
            Written::Created => "Created",
            Written::Replaced => "Replaced",
        };
        let doubt = if escaped_once_too_often(&content) { DOUBT } else { "" };
        Ok(ToolOutput::Text(format!(
            "{verb} {path}: {} lines, {}.{doubt}",
            content.lines().count(),
            text::bytes_in_words(content.len() as u64)
        )))
    }
}

/// Said of a file that is one long line of spelt-out line ends.
const DOUBT: &str = "\nCareful: the file is a single line in which line ends are spelt `\\n`. If real line ends were \
                     meant, write it again with them.";

fn escaped_once_too_often(content: &str) -> bool {
    !content.trim_end().contains('\n') && content.matches("\\n").take(2).count() == 2
}

/// The content with CRLF where the old file had it almost everywhere and the new has it nowhere.
fn in_line_ends_of(before: &[u8], content: &str) -> String {
    let line_feeds = before.iter().filter(|byte| **byte == b'\n').count();
    let with_cr = before.windows(2).filter(|pair| pair == b"\r\n").count();
    if with_cr * 10 > line_feeds * 9 && !content.contains('\r') {
        content.replace('\n', "\r\n")
    } else {
        content.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e20_a_file_of_spelt_out_line_ends_is_doubted() {
        assert!(escaped_once_too_often("a = 1\\nb = 2\\n"));
        assert!(!escaped_once_too_often("print('a\\nb\\n')\nx = 1\n"));
        assert!(!escaped_once_too_often("x = 1\n"));
    }

    #[test]
    fn e25_line_ends_of_an_old_file_stay() {
        for (before, content, expected) in [
            (&b"a\r\nb\r\n"[..], "x\ny\n", "x\r\ny\r\n"),
            (b"a\nb\r\n", "x\n", "x\n"),
            (b"a\r\n", "x\r\ny\n", "x\r\ny\n"),
            (b"", "x\n", "x\n"),
        ] {
            assert_eq!(in_line_ends_of(before, content), expected);
        }
    }
}
