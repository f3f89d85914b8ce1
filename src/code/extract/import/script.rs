//! Imports of JavaScript and TypeScript: `import`, `export … from`, `require`, `import()`.
//! Never looks for the file.

use tree_sitter::Node;

use super::{children, push, text_of, unquoted};
use crate::code::facts::Import;

/// Reads one statement or call that brings in names. The default export has the name `default`.
pub fn script(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    match node.kind() {
        "variable_declarator" => required(node, text, imports),
        "call_expression" => {
            if let Some(module) = argument(node, text) {
                push(imports, node, module, None, None);
            }
        }
        _ => statement(node, text, imports),
    }
}

fn statement(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let before = imports.len();
    let mut source = node.child_by_field_name("source");
    let mut brought: Vec<(Node<'_>, Option<&str>, Option<&str>)> = Vec::new();
    let mut open: Vec<Node<'_>> = children(node).collect();
    open.reverse();
    while let Some(child) = open.pop() {
        match child.kind() {
            "import_require_clause" => {
                source = child.child_by_field_name("source");
                brought.push((child, None, child.named_child(0).map(|name| text_of(name, text))));
            }
            "import_clause" | "named_imports" | "export_clause" => {
                let first = open.len();
                open.extend(children(child));
                open[first..].reverse();
            }
            "identifier" => brought.push((child, Some("default"), Some(text_of(child, text)))),
            "namespace_import" | "namespace_export" => {
                brought.push((child, None, child.named_child(0).map(|name| unquoted(name, text))));
            }
            "import_specifier" | "export_specifier" => {
                let part = |field| child.child_by_field_name(field).map(|name| unquoted(name, text));
                brought.push((child, part("name"), part("alias")));
            }
            _ => {}
        }
    }
    let Some(source) = source else { return };
    let module = unquoted(source, text);
    for (at, name, alias) in brought {
        push(imports, at, module, name, alias);
    }
    if imports.len() == before {
        push(imports, node, module, None, None);
    }
}

/// `const name = require(…)`, `const { a, b: c } = require(…)`, `const name = require(…).part`.
fn required(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let Some((name, mut value)) = node.child_by_field_name("name").zip(node.child_by_field_name("value")) else {
        return;
    };
    let mut part = None;
    if value.kind() == "member_expression" {
        part = value.child_by_field_name("property").map(|part| text_of(part, text));
        let Some(object) = value.child_by_field_name("object") else {
            return;
        };
        value = object;
    }
    let Some(module) = argument(value, text) else { return };
    if name.kind() != "object_pattern" {
        return push(imports, node, module, part, Some(text_of(name, text)));
    }
    for child in children(name) {
        match child.kind() {
            "shorthand_property_identifier_pattern" => push(imports, child, module, Some(text_of(child, text)), None),
            "pair_pattern" => {
                let part = |field| child.child_by_field_name(field).map(|name| unquoted(name, text));
                push(imports, child, module, part("key"), part("value"));
            }
            _ => {}
        }
    }
}

/// The first argument of a call, a string.
fn argument<'t>(call: Node<'_>, text: &'t str) -> Option<&'t str> {
    let first = call.child_by_field_name("arguments")?.named_child(0)?;
    (first.kind() == "string").then(|| unquoted(first, text))
}
