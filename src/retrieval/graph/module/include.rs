//! Languages that name a file, or a class by a path: `#include`, `require`, `source`, PHP's
//! namespaces. Never reads a file.

use super::{From, Inside, Modules, Place};
use crate::retrieval::graph::family::Family;
use crate::retrieval::graph::paths::{ends, folder_of, join, last_of, stem_of};
use crate::retrieval::view::FileId;

pub(super) fn place(modules: &Modules, from: From<'_>, written: &str) -> Place {
    let written = written.trim_matches(['"', '\'', '<', '>', ' ']);
    let names = match from.family {
        Family::Ruby if !written.ends_with(".rb") => vec![format!("{written}.rb")],
        _ => vec![written.to_owned()],
    };
    for name in &names {
        let beside = join(folder_of(from.path), name).and_then(|path| from.view.file(&path));
        if let Some(file) = beside.or_else(|| from.view.file(name)) {
            return Place::Inside(Inside::file(file));
        }
        let tail = name.trim_start_matches("./");
        // `$DIR/lib.sh`, `$(dirname "$0")/lib.sh`: what follows the last variable.
        let tail = tail.rfind(['$', ')', '}']).map_or(tail, |at| {
            tail[at..].find('/').map_or(tail, |slash| &tail[at + slash + 1..])
        });
        let files = modules.paths.of_stem(stem_of(tail)).iter().copied();
        let mut files: Vec<FileId> = files.filter(|file| ends(from.view.path(*file), tail)).collect();
        nearest_first(from, &mut files);
        if let Some(file) = files.first() {
            return Place::Inside(Inside::file(*file));
        }
    }
    Place::Outside
}

/// The file that most of its path has in common with the user's.
fn nearest_first(from: From<'_>, files: &mut [FileId]) {
    let common = |file: &FileId| {
        let pairs = from.view.path(*file).bytes().zip(from.path.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    files.sort_by_key(|file| std::cmp::Reverse(common(file)));
}

/// A class of PHP by its full name: the file of that name whose folders agree longest.
pub(super) fn namespace(modules: &Modules, from: From<'_>, written: &str) -> Place {
    if written.contains('/') || written.ends_with(".php") {
        return place(modules, from, written);
    }
    let path = written.trim_matches('\\').replace('\\', "/");
    let class = last_of(&path);
    let agreeing = |file: &FileId| {
        let path_of_file = from.view.path(*file);
        let own = folder_of(path_of_file).rsplit('/');
        let wanted = folder_of(&path).rsplit('/');
        own.zip(wanted).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    let files = modules.paths.of_stem(class).iter();
    let files = files.filter(|file| from.view.path(**file).ends_with(".php"));
    match files.max_by_key(|file| agreeing(file)) {
        Some(file) if agreeing(file) > 0 || !path.contains('/') => Place::Inside(Inside::file(*file)),
        Some(_) | None => Place::Unknown,
    }
}
