//! JavaScript and TypeScript: relative paths with extensions and index files left out, and packages
//! of the workspace by the name of their folder. Never reads a manifest.

use std::collections::HashMap;

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::paths::{Paths, ancestors, folder_of, join, last_of};
use crate::retrieval::view::{FileId, View};

/// Extensions in the order in which resolvers try them.
const EXTENSIONS: &[&str] = &[
    "ts", "tsx", "mts", "cts", "d.ts", "js", "jsx", "mjs", "cjs", "vue", "svelte",
];

/// Where the sources of a package begin when its manifest is not read.
const ENTRIES: &[&str] = &[
    "src/index",
    "index",
    "src/main",
    "lib/index",
    "src/node/index",
    "src/lib",
];

/// Folders with a manifest, by the last part of the package's name.
pub(super) fn packages(view: &View, paths: &Paths) -> HashMap<Box<str>, Box<str>> {
    let mut packages: HashMap<Box<str>, Box<str>> = HashMap::new();
    for &file in paths.of_stem("package") {
        let path = view.path(file);
        if let Some(folder) = path.strip_suffix("/package.json") {
            let known = packages.entry(last_of(folder).into()).or_insert_with(|| folder.into());
            // Of two of one name the outer one: the other is an example or a fixture as a rule.
            if folder.matches('/').count() < known.matches('/').count() {
                *known = folder.into();
            }
        }
    }
    packages
}

pub(super) fn place(modules: &Modules, from: From<'_>, module: &str) -> Place {
    // `./a.css?inline`: what follows is for the bundler.
    let module = module.split('?').next().unwrap_or(module);
    let folder = folder_of(from.path);
    if module.starts_with('.') {
        let found = join(folder, module).and_then(|path| at(from.view, &path));
        return found.map_or(Place::Unknown, |file| Place::Inside(Inside::file(file)));
    }
    for mark in ["@/", "~/"] {
        if let Some(below) = module.strip_prefix(mark) {
            return in_source(from, below).map_or(Place::Unknown, |file| Place::Inside(Inside::file(file)));
        }
    }
    if module.starts_with("node:") || module.contains(':') {
        return Place::Outside;
    }
    package(modules, from.view, module).map_or(Place::Outside, |file| Place::Inside(Inside::file(file)))
}

/// `@/a` as most projects set it up: below the nearest `src`.
fn in_source(from: From<'_>, below: &str) -> Option<FileId> {
    ancestors(folder_of(from.path)).find_map(|folder| {
        let source = join(folder, "src").and_then(|source| join(&source, below));
        source.and_then(|path| at(from.view, &path))
    })
}

fn package(modules: &Modules, view: &View, module: &str) -> Option<FileId> {
    let mut parts = module.splitn(if module.starts_with('@') { 3 } else { 2 }, '/');
    let mut name = parts.next()?;
    if name.starts_with('@') {
        name = parts.next()?;
    }
    let folder = modules.packages(view).get(name)?;
    match parts.next() {
        None => ENTRIES.iter().find_map(|entry| at(view, &join(folder, entry)?)),
        Some(below) => [below.to_owned(), format!("src/{below}"), format!("src/node/{below}")]
            .iter()
            .find_map(|below| at(view, &join(folder, below)?)),
    }
}

/// The file that a path without an extension, or with the extension of its output, means.
fn at(view: &View, path: &str) -> Option<FileId> {
    if let Some(file) = view.file(path) {
        return Some(file);
    }
    let with = |path: &str| EXTENSIONS.iter().find_map(|end| view.file(&format!("{path}.{end}")));
    // TypeScript writes the extension of what it will be compiled to.
    let source = [(".js", ""), (".jsx", ""), (".mjs", ""), (".cjs", "")];
    let mut stems = source.iter().filter_map(|(end, _)| path.strip_suffix(end));
    with(path)
        .or_else(|| stems.find_map(with))
        .or_else(|| with(&join(path, "index")?))
}
