//! Java, Kotlin and Scala: packages are folders below some source root, classes are files as a rule.
//! Never reads a file.

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::family::Family;
use crate::retrieval::graph::paths::{ends, folder_of};
use crate::retrieval::view::FileId;

pub(super) fn place(modules: &Modules, from: From<'_>, module: &str) -> Place {
    let parts: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
    for end in (1..=parts.len()).rev() {
        if let Some(mut inside) = at(modules, from, &parts[..end]) {
            inside.rest = parts[end..].iter().map(|part| Box::from(*part)).collect();
            // A package found for less than the whole path says nothing about the rest.
            let is_class = inside.folder.is_none();
            return if is_class || inside.rest.is_empty() || end + 1 >= parts.len() {
                Place::Inside(inside)
            } else {
                Place::Outside
            };
        }
    }
    Place::Outside
}

/// The class or package of this full name.
fn at(modules: &Modules, from: From<'_>, parts: &[&str]) -> Option<Inside> {
    let (class, package) = parts.split_last()?;
    let folder = package.join("/");
    let mut files = classes(modules, from, &folder, class);
    nearest_first(from, &mut files);
    if !files.is_empty() {
        return Some(Inside {
            files,
            folder: None,
            rest: Vec::new(),
        });
    }
    // One word alone is no package of ours: every repository has a folder `util` somewhere.
    if parts.len() < 2 {
        return None;
    }
    let folder = parts.join("/");
    let files = files_of(modules, from, &folder);
    (!files.is_empty()).then_some(Inside {
        files,
        folder: Some(folder),
        rest: Vec::new(),
    })
}

fn classes(modules: &Modules, from: From<'_>, folder: &str, class: &str) -> Vec<FileId> {
    let files = modules.paths.of_stem(class).iter().copied();
    files
        .filter(|file| Family::of(from.view.language(*file)) == Family::Jvm)
        .filter(|file| !folder.is_empty() && ends(folder_of(from.view.path(*file)), folder))
        .collect()
}

fn files_of(modules: &Modules, from: From<'_>, folder: &str) -> Vec<FileId> {
    let folders = modules.paths.folders_ending(folder);
    folders
        .flat_map(|folder| modules.paths.in_folder(folder))
        .copied()
        .filter(|file| Family::of(from.view.language(*file)) == Family::Jvm)
        .collect()
}

/// Of two classes of one full name the one whose path has more in common with the user's.
fn nearest_first(from: From<'_>, files: &mut [FileId]) {
    let common = |file: &FileId| {
        let pairs = from.view.path(*file).bytes().zip(from.path.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    files.sort_by_key(|file| std::cmp::Reverse(common(file)));
}

/// The class of this name in a package, or the package below it.
pub(super) fn child(modules: &Modules, from: From<'_>, folder: &str, name: &str) -> Option<Inside> {
    let mut parts: Vec<&str> = folder.split('/').collect();
    parts.push(name);
    at(modules, from, &parts)
}
