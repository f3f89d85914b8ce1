//! Imports of languages whose modules are names with dots, and of Go. Never looks for the file.

use tree_sitter::Node;

use super::{children, compact, push, text_of, unquoted};
use crate::code::facts::Import;

/// Reads `import a.b as c` and `from .a import b as c, d`.
pub fn python(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let module = node.child_by_field_name("module_name");
    for child in children(node) {
        if Some(child) == module {
            continue;
        }
        let (name, alias) = match child.kind() {
            "aliased_import" => (child.child_by_field_name("name"), child.child_by_field_name("alias")),
            "dotted_name" => (Some(child), None),
            "wildcard_import" => (None, None),
            _ => continue,
        };
        let name = name.map(|name| compact(text_of(name, text)));
        let alias = alias.map(|alias| text_of(alias, text));
        match (module, name) {
            (Some(module), name) => push(imports, child, &compact(text_of(module, text)), name.as_deref(), alias),
            (None, Some(module)) => push(imports, child, &module, None, alias),
            (None, None) => {}
        }
    }
}

/// Reads one path of an `import`.
pub fn go(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    if let Some(path) = node.child_by_field_name("path") {
        let alias = node.child_by_field_name("name").map(|name| text_of(name, text));
        push(imports, node, unquoted(path, text), None, alias);
    }
}

/// Reads `import a.b.C`, `import a.b.*`, `import static a.b.C.d`.
pub fn java(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let Some(path) = node.named_child(0).filter(|path| path.kind() != "asterisk") else {
        return;
    };
    let path = compact(text_of(path, text));
    let is_all = children(node).any(|child| child.kind() == "asterisk");
    match path.rsplit_once('.') {
        Some((module, name)) if !is_all => push(imports, node, module, Some(name), None),
        _ => push(imports, node, &path, None, None),
    }
}
