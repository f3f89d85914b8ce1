//! Go: a package is a folder. The module's own path is not read from `go.mod`; it is what most
//! imports that end in a folder of the repository begin with. Never reads a file.

use std::collections::HashMap;

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::family::Family;
use crate::retrieval::graph::paths::{Paths, ancestors, folder_of, join};
use crate::retrieval::view::{FileId, View};

/// A module: what its imports begin with, and its folder.
#[derive(Debug)]
pub(super) struct Root {
    prefix: String,
    folder: String,
}

/// Files whose imports are counted; the module's path shows in the first few.
const MAX_COUNTED: usize = 2000;

pub(super) fn roots(view: &View, paths: &Paths) -> Vec<Root> {
    let mut votes: HashMap<(String, String), usize> = HashMap::new();
    let is_go = |file: &FileId| Family::of(view.language(*file)) == Family::Go;
    for file in view.files().filter(is_go).take(MAX_COUNTED) {
        let module = ancestors(folder_of(view.path(file)))
            .find(|folder| join(folder, "go.mod").is_some_and(|path| view.file(&path).is_some()))
            .unwrap_or_default();
        for import in view.imports(file) {
            if let Some(prefix) = prefix(paths, module, &import.module) {
                *votes.entry((prefix.to_owned(), module.to_owned())).or_default() += 1;
            }
        }
    }
    let mut best: HashMap<String, (usize, String)> = HashMap::new();
    for ((prefix, folder), count) in votes {
        let known = best.entry(folder).or_default();
        if (count, &known.1) > (known.0, &prefix) {
            *known = (count, prefix);
        }
    }
    let mut roots: Vec<Root> = best
        .into_iter()
        .map(|(folder, (_, prefix))| Root { prefix, folder })
        .collect();
    // The longest first: a module inside another takes its own packages.
    roots.sort_by(|a, b| (b.prefix.len(), &a.folder).cmp(&(a.prefix.len(), &b.folder)));
    roots
}

/// What stands before the longest end of an import that is a folder of the module.
fn prefix<'a>(paths: &Paths, module: &str, import: &'a str) -> Option<&'a str> {
    if !import.split('/').next()?.contains('.') && import.matches('/').count() == 0 {
        return None;
    }
    let cuts = import.match_indices('/').map(|(at, _)| at);
    for cut in cuts {
        let folder = join(module, &import[cut + 1..])?;
        if paths.has_folder(&folder) {
            return Some(&import[..cut]);
        }
    }
    None
}

pub(super) fn place(modules: &Modules, from: From<'_>, import: &str) -> Place {
    for root in modules.go_roots(from.view) {
        let Some(below) = import.strip_prefix(&root.prefix) else {
            continue;
        };
        if !below.is_empty() && !below.starts_with('/') {
            continue;
        }
        let Some(folder) = join(&root.folder, below) else {
            continue;
        };
        if modules.paths.has_folder(&folder) {
            return Place::Inside(Inside {
                files: modules.paths.in_folder(&folder).to_vec(),
                folder: Some(folder),
                rest: Vec::new(),
            });
        }
    }
    Place::Outside
}
