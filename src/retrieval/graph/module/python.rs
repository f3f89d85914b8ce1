//! Python: dotted names below a folder that is on the path, and dots for the package around.
//! Never reads a file.

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::paths::{ancestors, ends, folder_of, join, last_of};
use crate::retrieval::view::View;

pub(super) fn place(modules: &Modules, from: From<'_>, module: &str) -> Place {
    let dots = module.bytes().take_while(|byte| *byte == b'.').count();
    let path = module[dots..].replace('.', "/");
    let folder = folder_of(from.path);
    if dots > 0 {
        let base = ancestors(folder).nth(dots - 1);
        let found = base
            .and_then(|base| join(base, &path))
            .and_then(|path| at(modules, from.view, &path));
        return found.map_or(Place::Unknown, Place::Inside);
    }
    let is_package = |folder: &&str| join(folder, "__init__.py").is_some_and(|path| from.view.file(&path).is_some());
    // Folders on the path are not packages as a rule; a script imports what stands beside it.
    let roots = ancestors(folder).filter(|folder| !is_package(folder));
    let mut tried = roots.flat_map(|root| [join(root, &path), join(root, &format!("src/{path}"))]);
    if let Some(found) = tried.find_map(|path| at(modules, from.view, &path?)) {
        return Place::Inside(found);
    }
    elsewhere(modules, from, &path).map_or(Place::Outside, Place::Inside)
}

/// A package that stands in a folder nobody tells us about, when there is only one such.
fn elsewhere(modules: &Modules, from: From<'_>, path: &str) -> Option<Inside> {
    // A single word such as `json` means the library far more often than a file somewhere.
    if !path.contains('/') {
        let mut folders = modules.paths.folders_ending(path);
        let found = folders.find(|folder| from.view.file(&format!("{folder}/__init__.py")).is_some())?;
        // Only a package that is not itself inside one.
        let above = folder_of(found);
        let inner = from.view.file(&format!("{above}/__init__.py")).is_some();
        return (!inner).then(|| at(modules, from.view, found)).flatten();
    }
    let file = format!("{path}.py");
    let files = modules.paths.of_stem(last_of(path)).iter();
    let mut files = files.filter(|id| ends(from.view.path(**id), &file));
    match (files.next(), files.next()) {
        (Some(file), None) => Some(Inside {
            folder: Some(from.view.path(*file).trim_end_matches(".py").to_owned()),
            ..Inside::file(*file)
        }),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let mut folders = modules.paths.folders_ending(path);
            let found = folders.next()?;
            folders
                .next()
                .is_none()
                .then(|| at(modules, from.view, found))
                .flatten()
        }
    }
}

/// The module at a path without its extension.
pub(super) fn at(modules: &Modules, view: &View, path: &str) -> Option<Inside> {
    let file = ["py", "pyi"]
        .iter()
        .flat_map(|end| [format!("{path}/__init__.{end}"), format!("{path}.{end}")])
        .find_map(|path| view.file(path.trim_start_matches('/')));
    let folder = modules.paths.has_folder(path).then(|| path.to_owned());
    if file.is_none() && (folder.is_none() || path.is_empty()) {
        return None;
    }
    // A folder without Python in it is no package.
    let holds = |folder: &str| {
        let files = modules.paths.in_folder(folder).iter();
        files.copied().any(|file| view.path(file).ends_with(".py"))
    };
    if file.is_none() && !folder.as_deref().is_some_and(holds) {
        return None;
    }
    Some(Inside {
        files: file.into_iter().collect(),
        folder,
        rest: Vec::new(),
    })
}
