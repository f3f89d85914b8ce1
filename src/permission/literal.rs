//! Words of a shell line whose text is known before it runs. Called by `command`. Never guesses
//! what an expansion becomes: such a word is unknown.

use tree_sitter::Node;

/// A word; `None` when it is known only at run time.
pub(super) type Word = Option<String>;

/// The text of a node of the syntax tree as the shell passes it on.
pub(super) fn word(node: Node<'_>, line: &str) -> Word {
    let text = &line[node.byte_range()];
    match node.kind() {
        "word" | "number" | "file_descriptor" => bare(text),
        "raw_string" => Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()),
        "string" => quoted(node, line),
        "command_name" => match node.child_count() {
            1 => word(node.child(0)?, line),
            _ => None,
        },
        "concatenation" => {
            if text.contains('{') {
                return None;
            }
            let mut cursor = node.walk();
            node.children(&mut cursor).map(|part| word(part, line)).collect()
        }
        _ => None,
    }
}

/// Text without quotes. Braces that expand, and a pattern at the beginning (which may become an
/// option), are not known; a pattern behind fixed text stays below that text.
fn bare(text: &str) -> Word {
    let expands = text.contains('{') && (text.contains(',') || text.contains(".."));
    if expands || text.starts_with(['*', '?', '[']) || text.contains(['$', '`', '\n', '\r', '\0']) {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.push(chars.next()?),
            c => plain.push(c),
        }
    }
    Some(plain)
}

/// Text in double quotes without expansions.
fn quoted(node: Node<'_>, line: &str) -> Word {
    let mut cursor = node.walk();
    let known = node
        .children(&mut cursor)
        .all(|child| matches!(child.kind(), "\"" | "string_content"));
    let text = line[node.byte_range()].strip_prefix('"')?.strip_suffix('"')?;
    if !known || text.contains(['$', '`']) {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('"' | '\\')) => plain.extend(chars.next()),
            ('\\', Some('\n')) => {
                chars.next();
            }
            (c, _) => plain.push(c),
        }
    }
    Some(plain)
}

/// A word as it is written in a key: quoted where it has to be.
pub(super) fn written(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c) || !c.is_ascii();
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
