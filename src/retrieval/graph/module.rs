//! From what an import writes to the files it means, by paths alone, with the rules of each language.
//! Never opens a manifest: names of crates and packages are read off their folders.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::family::Family;
use super::paths::Paths;
use crate::retrieval::view::{FileId, View};

mod go;
mod include;
mod jvm;
mod python;
mod rust;
mod script;

/// What an import means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// These files of the repository; none of them only when the module is a bare folder.
    Inside(Inside),
    /// Something that is not in the repository.
    Outside,
    /// The rules do not tell.
    Unknown,
}

/// A module of the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inside {
    /// The files whose names it has.
    pub(super) files: Vec<FileId>,
    /// The folder of the modules below it.
    pub(super) folder: Option<String>,
    /// What was left of the path behind the last file that was found: a type or a module in it.
    pub(super) rest: Vec<Box<str>>,
}

impl Inside {
    pub(super) fn file(file: FileId) -> Self {
        Self {
            files: vec![file],
            ..Self::default()
        }
    }
}

/// The modules of a view.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) paths: Paths,
    crates: OnceLock<HashMap<Box<str>, Box<str>>>,
    go_roots: OnceLock<Vec<go::Root>>,
    packages: OnceLock<HashMap<Box<str>, Box<str>>>,
}

/// An import of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) view: &'a View,
    pub(super) path: &'a str,
    pub(super) family: Family,
}

impl Modules {
    pub(super) fn of(view: &View) -> Self {
        Self {
            paths: Paths::of(view),
            crates: OnceLock::new(),
            go_roots: OnceLock::new(),
            packages: OnceLock::new(),
        }
    }

    fn crates(&self, view: &View) -> &HashMap<Box<str>, Box<str>> {
        self.crates.get_or_init(|| rust::crates(view, &self.paths))
    }

    fn go_roots(&self, view: &View) -> &[go::Root] {
        self.go_roots.get_or_init(|| go::roots(view, &self.paths))
    }

    fn packages(&self, view: &View) -> &HashMap<Box<str>, Box<str>> {
        self.packages.get_or_init(|| script::packages(view, &self.paths))
    }

    /// The module that a file means by these words.
    pub(super) fn place(&self, from: From<'_>, module: &str) -> Place {
        // Longer than any path: not what an import looks like.
        if module.is_empty() || module.len() > 1024 {
            return Place::Unknown;
        }
        match from.family {
            Family::Rust => rust::place(self, from, module),
            Family::Python => python::place(self, from, module),
            Family::Script => script::place(self, from, module),
            Family::Go => go::place(self, from, module),
            Family::Jvm => jvm::place(self, from, module),
            Family::Php => include::namespace(self, from, module),
            Family::C | Family::Ruby | Family::Bash => include::place(self, from, module),
            Family::CSharp | Family::Swift | Family::Other => Place::Unknown,
        }
    }

    /// The module of this name below another.
    pub(super) fn child(&self, from: From<'_>, of: &Inside, name: &str) -> Option<Inside> {
        let folder = of.folder.as_deref()?;
        if !of.rest.is_empty() {
            return None;
        }
        match from.family {
            Family::Rust => rust::child(from.view, folder, name),
            Family::Python => python::at(self, from.view, &super::paths::join(folder, name)?),
            Family::Jvm => jvm::child(self, from, folder, name),
            Family::Script
            | Family::Go
            | Family::C
            | Family::CSharp
            | Family::Php
            | Family::Ruby
            | Family::Swift
            | Family::Bash
            | Family::Other => None,
        }
    }
}
