//! Rust: `crate`, `self`, `super`, modules as `a.rs` or `a/mod.rs`, and crates of the workspace by
//! the name of their folder. Never reads a manifest.

use std::collections::HashMap;

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::paths::{Paths, ancestors, folder_of, join, last_of, stem_of};
use crate::retrieval::view::View;

/// Crates by name, with the folder of their root file. A folder's name is the crate's name as a
/// rule; the manifest would know better.
pub(super) fn crates(view: &View, paths: &Paths) -> HashMap<Box<str>, Box<str>> {
    let mut crates = HashMap::new();
    for &file in paths.of_stem("lib") {
        let path = view.path(file);
        let Some(source) = path.strip_suffix("/lib.rs").or((path == "lib.rs").then_some("")) else {
            continue;
        };
        let package = if last_of(source) == "src" {
            folder_of(source)
        } else {
            source
        };
        let name = last_of(package).replace('-', "_");
        let known: &mut Box<str> = crates.entry(name.into()).or_insert_with(|| source.into());
        // Of two of one name the outer one: the other is a fixture as a rule.
        if source.len() < known.len() {
            *known = source.into();
        }
    }
    crates
}

/// The folder of the crate's root file, and the module of the file below it.
fn home(view: &View, path: &str) -> (String, Vec<String>) {
    let folder = folder_of(path);
    let is_root = |folder: &str| {
        ["lib.rs", "main.rs"]
            .iter()
            .any(|name| join(folder, name).is_some_and(|path| view.file(&path).is_some()))
    };
    // `tests/a.rs`, `benches/a.rs`, `examples/a.rs` and `src/bin/a.rs` are crates of their own.
    let alone = matches!(last_of(folder), "tests" | "benches" | "examples" | "bin");
    if alone && !is_root(folder) {
        return (folder.to_owned(), Vec::new());
    }
    let root = ancestors(folder).find(|folder| is_root(folder));
    let root = root.unwrap_or(folder);
    let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    let mut module: Vec<String> = folder_of(below)
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let stem = stem_of(path);
    let is_root_file = module.is_empty() && matches!(stem, "lib" | "main");
    if stem != "mod" && !is_root_file {
        module.push(stem.to_owned());
    }
    (root.to_owned(), module)
}

pub(super) fn place(modules: &Modules, from: From<'_>, module: &str) -> Place {
    let parts: Vec<&str> = module.split("::").map(|part| part.trim_start_matches("r#")).collect();
    let (root, own) = home(from.view, from.path);
    let mut base = own;
    let mut rest = &parts[..];
    match parts.first().copied().unwrap_or_default() {
        "crate" => {
            base.clear();
            rest = &parts[1..];
        }
        "self" => rest = &parts[1..],
        "super" => {
            while rest.first() == Some(&"super") {
                if base.pop().is_none() {
                    return Place::Unknown;
                }
                rest = &rest[1..];
            }
        }
        "std" | "core" | "alloc" => return Place::Outside,
        first => {
            let below = step(from.view, &root, &base, first);
            if below.is_none() {
                return outer(modules, from, &parts);
            }
        }
    }
    let base: Vec<&str> = base.iter().map(String::as_str).chain(rest.iter().copied()).collect();
    descend(from.view, &root, &base).map_or(Place::Unknown, Place::Inside)
}

/// Another crate of the repository.
fn outer(modules: &Modules, from: From<'_>, parts: &[&str]) -> Place {
    let name = parts[0];
    if let Some(root) = modules.crates(from.view).get(name) {
        return descend(from.view, root, &parts[1..]).map_or(Place::Unknown, Place::Inside);
    }
    // A test of a crate whose folder is named otherwise than the crate: the first module tells.
    let package = ancestors(folder_of(from.path)).find_map(|folder| {
        let source = join(folder, "src")?;
        let lib = join(&source, "lib.rs")?;
        (from.view.file(&lib).is_some() && !from.path.starts_with(&source)).then_some(source)
    });
    let Some(source) = package else { return Place::Outside };
    match parts.get(1) {
        Some(first) if step(from.view, &source, &[], first).is_some() => {
            descend(from.view, &source, &parts[1..]).map_or(Place::Unknown, Place::Inside)
        }
        Some(_) | None => Place::Outside,
    }
}

/// The file of a module below another.
fn step(view: &View, root: &str, module: &[String], name: &str) -> Option<Inside> {
    let folder = join(root, &module.join("/"))?;
    child(view, &folder, name)
}

/// The module of this name whose file stands in this folder.
pub(super) fn child(view: &View, folder: &str, name: &str) -> Option<Inside> {
    let below = join(folder, name)?;
    let file = view
        .file(&format!("{below}.rs"))
        .or_else(|| view.file(&format!("{below}/mod.rs")))?;
    Some(Inside {
        folder: Some(below),
        ..Inside::file(file)
    })
}

/// Goes down from the root file as far as there are files.
fn descend(view: &View, root: &str, parts: &[&str]) -> Option<Inside> {
    let at = |name: &str| join(root, name).and_then(|path| view.file(&path));
    let file = at("lib.rs").or_else(|| at("main.rs")).or_else(|| at("mod.rs"));
    let mut inside = Inside {
        files: file.into_iter().collect(),
        folder: Some(root.to_owned()),
        rest: Vec::new(),
    };
    // A binary beside a library has modules of its own.
    if file.is_some() && at("main.rs") != file {
        inside.files.extend(at("main.rs").filter(|_| parts.is_empty()));
    }
    for (index, part) in parts.iter().enumerate() {
        let below = inside.folder.as_deref().and_then(|folder| child(view, folder, part));
        match below {
            Some(below) => inside = below,
            None => {
                inside.rest = parts[index..].iter().map(|part| Box::from(*part)).collect();
                break;
            }
        }
    }
    (!inside.files.is_empty()).then_some(inside)
}
