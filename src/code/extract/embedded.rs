//! Items that a macro of Rust wraps: `cfg_net! { pub fn … }` is one macro to the grammar, and a function
//! to everybody who reads it. Called by the reading of a tree, which parses them once more.
//! Never follows macros without end.

use tree_sitter::Node;

/// A longer attribute is not looked behind.
const MAX_ATTRIBUTE_BYTES: usize = 4_096;
/// What an item of Rust may begin with.
const ITEM_WORDS: &[&str] = &[
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// What stands between the braces of a macro, if that begins like an item.
pub fn items(tokens: Node<'_>, text: &str) -> Option<tree_sitter::Range> {
    let mut rest = text.get(tokens.byte_range())?.strip_prefix('{')?.strip_suffix('}')?;
    // Attributes and comments in front say nothing.
    loop {
        rest = rest.trim_start();
        if rest.starts_with("//") {
            rest = rest.split_once('\n')?.1;
        } else if rest.starts_with('#') {
            rest = after_attribute(rest)?;
        } else {
            break;
        }
    }
    let word = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    let is_macro = rest[word.len()..].starts_with("! {");
    if !is_macro && !ITEM_WORDS.contains(&word) {
        return None;
    }
    let mut range = tokens.range();
    range.start_byte += 1;
    range.start_point.column += 1;
    range.end_byte -= 1;
    range.end_point.column -= 1;
    Some(range)
}

/// What follows an attribute, which may go over many lines.
fn after_attribute(text: &str) -> Option<&str> {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate().take(MAX_ATTRIBUTE_BYTES) {
        match byte {
            b'[' => depth += 1,
            b']' if depth <= 1 => return text.get(at + 1..),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}
