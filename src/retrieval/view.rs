//! One state of a repository as the index sees it: its files with what is known of each, and every
//! name and word with where it stands. What ranking and the graph read. Never changes once made.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::{Facts, Field, Import, Reference, Symbol, Unit};
use crate::language::Language;

/// A file of a view, from 0 to [`View::len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Where a word stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting {
    /// The file.
    pub file: FileId,
    /// The unit in it.
    pub unit: u32,
    /// How often.
    pub count: u32,
}

/// A state of a repository.
#[derive(Debug, Default)]
pub struct View {
    files: Vec<(String, Option<&'static Language>, Arc<Facts>)>,
    by_path: HashMap<String, FileId>,
    postings: HashMap<(Field, Box<str>), Vec<Posting>>,
    defined: HashMap<Box<str>, Vec<(FileId, u32)>>,
    referred: HashMap<Box<str>, Vec<(FileId, u32)>>,
}

impl View {
    /// A view of files whose facts are at hand.
    pub fn of(files: Vec<(String, Option<&'static Language>, Arc<Facts>)>) -> Self {
        let mut view = Self::default();
        for (at, (path, _, facts)) in files.iter().enumerate() {
            let file = FileId(at as u32);
            view.by_path.insert(path.clone(), file);
            for (at, symbol) in facts.symbols.iter().enumerate() {
                view.defined
                    .entry(symbol.name.clone())
                    .or_default()
                    .push((file, at as u32));
            }
            for (at, reference) in facts.references.iter().enumerate() {
                view.referred
                    .entry(reference.name.clone())
                    .or_default()
                    .push((file, at as u32));
            }
            for term in &facts.terms {
                let posting = Posting {
                    file,
                    unit: term.unit,
                    count: term.count,
                };
                view.postings
                    .entry((term.field, term.text.clone()))
                    .or_default()
                    .push(posting);
            }
        }
        view.files = files;
        view
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// All files, by path.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// A file's path.
    pub fn path(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].0
    }

    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<FileId> {
        self.by_path.get(path).copied()
    }

    /// A file's language.
    pub fn language(&self, file: FileId) -> Option<&'static Language> {
        self.files[file.0 as usize].1
    }

    /// A file's number of lines.
    pub fn lines(&self, file: FileId) -> u32 {
        self.files[file.0 as usize].2.lines
    }

    /// A file's definitions.
    pub fn symbols(&self, file: FileId) -> Vec<Symbol> {
        self.files[file.0 as usize].2.symbols.clone()
    }

    /// A file's uses of names.
    pub fn references(&self, file: FileId) -> Vec<Reference> {
        self.files[file.0 as usize].2.references.clone()
    }

    /// What a file brings in.
    pub fn imports(&self, file: FileId) -> Vec<Import> {
        self.files[file.0 as usize].2.imports.clone()
    }

    /// A file's units.
    pub fn units(&self, file: FileId) -> Vec<Unit> {
        self.files[file.0 as usize].2.units.clone()
    }

    /// Where a name is defined: file and place in its [`Self::symbols`].
    pub fn defined(&self, name: &str) -> Vec<(FileId, u32)> {
        self.defined.get(name).cloned().unwrap_or_default()
    }

    /// Where a name is used: file and place in its [`Self::references`].
    pub fn referred(&self, name: &str) -> Vec<(FileId, u32)> {
        self.referred.get(name).cloned().unwrap_or_default()
    }

    /// Defined names that begin like this, at most `max`, for suggestions.
    pub fn names_from(&self, prefix: &str, max: usize) -> Vec<String> {
        let names = self.defined.keys().filter(|name| name.starts_with(prefix));
        let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
        names.sort();
        names.truncate(max);
        names
    }

    /// Where a word stands, by file and unit.
    pub fn postings(&self, field: Field, term: &str) -> Vec<Posting> {
        self.postings.get(&(field, term.into())).cloned().unwrap_or_default()
    }
}
