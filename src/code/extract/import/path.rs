//! Imports of languages that name a file: headers of C, `require` of Ruby, `source` of a shell. And
//! those of languages that name a namespace in their own way: C++, C#, PHP, Kotlin, Swift, Scala.
//! Never looks for the file.

use tree_sitter::Node;

use super::{children, compact, push, text_of, unquoted};
use crate::code::facts::Import;

/// Reads `#include`, `using a::b;` and `using namespace a;`.
pub fn c(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    if let Some(path) = node.child_by_field_name("path") {
        let path = text_of(path, text).trim_matches(|c| matches!(c, '"' | '<' | '>'));
        return push(imports, node, path, None, None);
    }
    let Some(name) = node.named_child(0) else { return };
    let is_namespace = children_of_any_kind(node).any(|child| child.kind() == "namespace");
    let name = compact(text_of(name, text));
    match name.rsplit_once("::") {
        Some((module, name)) if !is_namespace => push(imports, node, module, Some(name), None),
        _ => push(imports, node, &name, None, None),
    }
}

/// Reads `using A.B;`, `using static A.B;` and `using X = A.B;`.
pub fn c_sharp(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let alias = node.child_by_field_name("name");
    let Some(path) = children(node).find(|child| Some(*child) != alias) else {
        return;
    };
    let path = compact(text_of(path, text));
    let alias = alias.map(|alias| text_of(alias, text));
    match path.rsplit_once('.') {
        Some((module, name)) if alias.is_some() => push(imports, node, module, Some(name), alias),
        _ => push(imports, node, &path, None, alias),
    }
}

/// Reads `require 'a'`, `require_relative '../a'`, `autoload :A, 'a'`.
pub fn ruby(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let Some(arguments) = node.child_by_field_name("arguments") else {
        return;
    };
    let is_relative = node
        .child_by_field_name("method")
        .is_some_and(|method| text_of(method, text) == "require_relative");
    let name = children(arguments).find(|argument| argument.kind() == "simple_symbol");
    let name = name.map(|name| text_of(name, text).trim_start_matches(':'));
    let Some(path) = children(arguments).find(|argument| argument.kind() == "string") else {
        return;
    };
    let path = unquoted(path, text);
    if is_relative && !path.starts_with('.') {
        push(imports, node, &format!("./{path}"), name, None);
    } else {
        push(imports, node, path, name, None);
    }
}

/// Reads `use A\B;`, `use A\B as C;`, `use function A\b;`, `use A\{B, C as D};`, `require 'a.php'`.
pub fn php(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    if node.kind() != "namespace_use_declaration" {
        let mut last = node.named_child(0);
        if let Some(right) = last.and_then(|last| last.child_by_field_name("right")) {
            last = Some(right);
        }
        if let Some(path) = last {
            push(imports, node, unquoted(path, text).trim_start_matches('/'), None, None);
        }
        return;
    }
    let prefix = children(node).find(|child| child.kind() == "namespace_name");
    let prefix = prefix.map_or("", |prefix| text_of(prefix, text));
    let group = node.child_by_field_name("body");
    for clause in children(group.unwrap_or(node)).filter(|child| child.kind() == "namespace_use_clause") {
        let alias = clause.child_by_field_name("alias");
        let Some(path) = children(clause).find(|child| Some(*child) != alias) else {
            continue;
        };
        let path = text_of(path, text).trim_start_matches('\\');
        let alias = alias.map(|alias| text_of(alias, text));
        let whole = if prefix.is_empty() {
            path.to_owned()
        } else {
            format!("{prefix}\\{path}")
        };
        match whole.rsplit_once('\\') {
            Some((module, name)) => push(imports, clause, module, Some(name), alias),
            None => push(imports, clause, &whole, None, alias),
        }
    }
}

/// Reads `import a.b.C`, `import a.b.*`, `import a.b.C as D`.
pub fn kotlin(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let mut parts = children(node);
    let Some(path) = parts.next() else { return };
    let path = compact(text_of(path, text));
    let (mut alias, mut is_all) = (None, false);
    for part in parts {
        match part.kind() {
            "import_alias" => alias = part.named_child(0).map(|alias| text_of(alias, text)),
            "wildcard_import" => is_all = true,
            _ => {}
        }
    }
    match path.rsplit_once('.') {
        Some((module, name)) if !is_all => push(imports, node, module, Some(name), alias),
        _ => push(imports, node, &path, None, alias),
    }
}

/// Reads `import A`, `import A.B`, `import struct A.B`.
pub fn swift(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let Some(path) = children(node).find(|child| child.kind() == "identifier") else {
        return;
    };
    let path = compact(text_of(path, text));
    match path.rsplit_once('.') {
        Some((module, name)) => push(imports, node, module, Some(name), None),
        None => push(imports, node, &path, None, None),
    }
}

/// Reads `import a.b.C`, `import a.b.{C, D => E}`, `import a.b._`, `import a.b.*`, `import a.b.C as D`.
pub fn scala(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let mut path: Vec<&str> = Vec::new();
    let mut selectors = Vec::new();
    let mut is_all = false;
    for child in children_of_any_kind(node) {
        match child.kind() {
            "," => scala_path(node, &mut path, &mut is_all, imports),
            "identifier" | "operator_identifier" => path.push(text_of(child, text)),
            "namespace_wildcard" => is_all = true,
            "namespace_selectors" => selectors.extend(children(child)),
            "as_renamed_identifier" | "arrow_renamed_identifier" => selectors.push(child),
            _ => {}
        }
    }
    if selectors.is_empty() {
        return scala_path(node, &mut path, &mut is_all, imports);
    }
    let module = path.join(".");
    for selector in selectors {
        let part = |field| selector.child_by_field_name(field).map(|part| text_of(part, text));
        match selector.kind() {
            "as_renamed_identifier" | "arrow_renamed_identifier" => {
                push(imports, selector, &module, part("name"), part("alias"));
            }
            "namespace_wildcard" | "wildcard" => push(imports, selector, &module, None, None),
            _ => push(imports, selector, &module, Some(text_of(selector, text)), None),
        }
    }
}

fn scala_path(node: Node<'_>, path: &mut Vec<&str>, is_all: &mut bool, imports: &mut Vec<Import>) {
    let name = if *is_all || path.len() < 2 { None } else { path.pop() };
    push(imports, node, &path.join("."), name, None);
    path.clear();
    *is_all = false;
}

/// Reads `source a.sh` and `. a.sh`.
pub fn bash(node: Node<'_>, text: &str, imports: &mut Vec<Import>) {
    let Some(path) = node.child_by_field_name("argument") else {
        return;
    };
    // `"$(dirname "$0")/lib.sh"`, `"$HERE/lib.sh"`: what follows the folder is all that can be known.
    let path = unquoted(path, text);
    let known = path.rfind(['}', ')']).map_or(path, |at| &path[at + 1..]);
    let known = match known.strip_prefix('$') {
        Some(variable) => variable.split_once('/').map_or("", |(_, rest)| rest),
        None => known,
    };
    push(imports, node, known.trim_start_matches('/'), None, None);
}

fn children_of_any_kind<'t>(node: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    let mut next = node.child(0);
    std::iter::from_fn(move || {
        let child = next?;
        next = child.next_sibling();
        Some(child)
    })
}
