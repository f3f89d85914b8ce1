//! Imports of Rust: trees of `use`, other crates, modules in other files. Never looks for the file.

use tree_sitter::Node;

use super::{children, compact, push, text_of};
use crate::code::facts::Import;

/// Reads `use`, `extern crate` or `mod name;`. The module of `mod name;` is `self::name`.
pub fn rust(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    match node.kind() {
        "mod_item" => {
            let Some(name) = node.child_by_field_name("name") else {
                return;
            };
            let module = format!("self::{}", text_of(name, text));
            push(imports, name, &module, None, None);
        }
        "extern_crate_declaration" => {
            let Some(name) = node.child_by_field_name("name") else {
                return;
            };
            let alias = node.child_by_field_name("alias").map(|alias| text_of(alias, text));
            push(imports, name, text_of(name, text), None, alias);
        }
        _ => {
            if let Some(tree) = node.child_by_field_name("argument") {
                use_tree(tree, text, imports);
            }
        }
    }
}

fn use_tree(tree: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let mut open = vec![(tree, String::new())];
    while let Some((node, prefix)) = open.pop() {
        let path = |node: Option<Node<'_>>| {
            let path = node.map_or("".into(), |node| compact(text_of(node, text)));
            join(&prefix, path.trim_start_matches("::"))
        };
        match node.kind() {
            "scoped_use_list" => {
                let inner = path(node.child_by_field_name("path"));
                open.extend(node.child_by_field_name("list").map(|list| (list, inner)));
            }
            "use_list" => {
                let first = open.len();
                open.extend(children(node).map(|child| (child, prefix.clone())));
                open[first..].reverse();
            }
            "use_wildcard" => push(imports, node, &path(node.named_child(0)), None, None),
            "use_as_clause" => {
                let alias = node.child_by_field_name("alias").map(|alias| text_of(alias, text));
                one(node, &path(node.child_by_field_name("path")), alias, imports);
            }
            "identifier" | "scoped_identifier" | "crate" | "self" | "super" => {
                one(node, &path(Some(node)), None, imports)
            }
            _ => {}
        }
    }
}

fn one(node: Node<'_>, path: &str, alias: Option<&str>, imports: &mut Vec<Import>) {
    let path = path.strip_suffix("::self").unwrap_or(path);
    let is_list_self = path.is_empty();
    match path.rsplit_once("::") {
        // `use a::b::{self}` brings in the module, as `use a::b` does.
        Some((module, name)) => push(imports, node, module, Some(name), alias),
        None if !is_list_self => push(imports, node, path, None, alias),
        None => {}
    }
}

fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => prefix.to_owned(),
        _ => format!("{prefix}::{path}"),
    }
}
