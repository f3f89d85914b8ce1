//! What the statements of each language bring in. Reads the one node it is given with a cursor and a
//! list of what is still to do. Never resolves a module, never recurses.

use tree_sitter::Node;

use crate::code::facts::Import;

mod dotted;
mod path;
mod rust;
mod script;

pub use dotted::{go, java, python};
pub use path::{bash, c, c_sharp, kotlin, php, ruby, scala, swift};
pub use rust::rust;
pub use script::script;

fn push(imports: &mut Vec<Import>, node: Node<'_>, module: &str, name: Option<&str>, alias: Option<&str>) {
    if module.is_empty() || module.len() > MAX_MODULE_BYTES {
        return;
    }
    let alias = alias.filter(|alias| Some(*alias) != name);
    imports.push(Import {
        module: module.into(),
        name: name.map(Into::into),
        alias: alias.map(Into::into),
        line: node.start_position().row as u32 + 1,
    });
}

/// A longer name of a module is data.
const MAX_MODULE_BYTES: usize = 400;

fn text_of<'t>(node: Node<'_>, text: &'t str) -> &'t str {
    text.get(node.byte_range()).unwrap_or_default()
}

/// The text of a string without its quotes.
fn unquoted<'t>(node: Node<'_>, text: &'t str) -> &'t str {
    text_of(node, text).trim_matches(|c| matches!(c, '"' | '\'' | '`'))
}

fn children<'t>(node: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    let mut next = node.named_child(0);
    std::iter::from_fn(move || {
        let child = next?;
        next = child.next_named_sibling();
        Some(child)
    })
}

/// A name of several parts without the spaces and line breaks that may stand in it.
fn compact(name: &str) -> std::borrow::Cow<'_, str> {
    if name.contains(char::is_whitespace) {
        name.split_whitespace().collect::<String>().into()
    } else {
        name.into()
    }
}
