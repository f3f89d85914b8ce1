//! All symbols of one name in one family of languages, with what holds them. Kept for a while, since
//! every use of the name asks for the same list. Never decides between them.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::family::Family;
use super::paths::{folder_of, last_of, stem_of};
use super::{Graph, SymbolId};
use crate::retrieval::facts::SymbolKind;
use crate::retrieval::view::FileId;

/// A symbol that a name may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: SymbolId,
    pub(super) kind: SymbolKind,
    /// The type it belongs to.
    pub(super) owner: Option<Box<str>>,
    /// What holds it, by name.
    pub(super) holder: Option<Box<str>>,
    /// Whether nothing but modules hold it.
    pub(super) top: bool,
    /// The owner's name as [`plain`] makes it.
    pub(super) plain_owner: Box<str>,
}

/// The symbols of one name.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// By file.
    pub(super) all: Vec<Candidate>,
    /// Those that belong to a type.
    pub(super) members: Arc<[SymbolId]>,
    /// Those of them that can be called; all of them when none can.
    pub(super) callable: Arc<[SymbolId]>,
    /// By the type they belong to, as places in `all`.
    owned: Groups,
    /// Those at the top by their package.
    packaged: Groups,
    /// Those at the top by the module of that name that they are in.
    by_module: Groups,
}

/// Places of candidates by a name.
type Groups = HashMap<Box<str>, Vec<u32>, RandomState>;

impl Candidates {
    /// Those that stand in a file.
    pub(super) fn in_file(&self, file: FileId) -> &[Candidate] {
        let from = self.all.partition_point(|candidate| candidate.id.file < file);
        let here = &self.all[from..];
        &here[..here.partition_point(|candidate| candidate.id.file == file)]
    }

    fn group<'a>(&'a self, groups: &'a Groups, name: &str) -> impl Iterator<Item = &'a Candidate> {
        let places = groups.get(name).map_or(&[][..], Vec::as_slice);
        places.iter().map(|at| &self.all[*at as usize])
    }

    /// Those that belong to a type of this name.
    pub(super) fn owned_by(&self, owner: &str) -> impl Iterator<Item = &Candidate> {
        self.group(&self.owned, owner)
    }

    /// Those at the top of a package.
    pub(super) fn in_package(&self, package: &str) -> impl Iterator<Item = &Candidate> {
        self.group(&self.packaged, package)
    }

    /// Those at the top of a module that is called so: written in a file, a file, or a folder.
    pub(super) fn in_module(&self, module: &str) -> impl Iterator<Item = &Candidate> {
        self.group(&self.by_module, module)
    }
}

impl Deref for Candidates {
    type Target = [Candidate];

    fn deref(&self) -> &[Candidate] {
        &self.all
    }
}

/// A name without its case and underscores, to be compared with others.
pub(super) fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// More symbols of one name than this are not told apart: `new`, `get`.
const MAX_CANDIDATES: usize = 20_000;

impl Graph {
    /// The symbols of a name, by file. Modules are found by their paths instead.
    pub(super) fn read_candidates(&self, name: &str, family: Family) -> Candidates {
        let mut found = Vec::new();
        let mut last = None;
        for (file, at) in self.view().defined(name).into_iter().take(MAX_CANDIDATES) {
            if Family::of(self.view().language(file)) != family {
                continue;
            }
            let known = match &last {
                Some((known_file, known)) if *known_file == file => Arc::clone(known),
                _ => self.known(file),
            };
            if let Some(symbol) = known.symbol(at) {
                let holder = symbol.parent.and_then(|parent| known.symbol(parent));
                found.push(Candidate {
                    id: SymbolId { file, at },
                    kind: symbol.kind,
                    plain_owner: known.owner(at).map_or_else(String::new, plain).into(),
                    owner: known.owner(at).map(Into::into),
                    holder: holder.map(|holder| holder.name.clone()),
                    top: known.is_top(at),
                });
            }
            last = Some((file, known));
        }
        found.sort_by_key(|candidate| candidate.id);
        self.grouped(found)
    }

    fn grouped(&self, found: Vec<Candidate>) -> Candidates {
        let ids = |of: &dyn Fn(&Candidate) -> bool| -> Arc<[SymbolId]> {
            let ids = found.iter().filter(|candidate| of(candidate));
            ids.map(|candidate| candidate.id).collect()
        };
        let members = ids(&|candidate| candidate.owner.is_some());
        let is_callable = |kind: SymbolKind| kind.is_callable() || kind.is_type();
        let callable = ids(&|candidate| candidate.owner.is_some() && is_callable(candidate.kind));
        let mut grouped = Candidates {
            callable: if callable.is_empty() { members.clone() } else { callable },
            members,
            ..Candidates::default()
        };
        for (at, candidate) in (0..).zip(&found) {
            if let Some(owner) = &candidate.owner {
                grouped.owned.entry(owner.clone()).or_default().push(at);
            }
            if candidate.top {
                let package = self.package_of(candidate.id.file);
                grouped.packaged.entry(package.into()).or_default().push(at);
                let module = self.module_of(candidate);
                grouped.by_module.entry(module.into()).or_default().push(at);
            }
        }
        grouped.all = found;
        grouped
    }

    /// The name of the module that a symbol at the top is in.
    fn module_of<'a>(&'a self, candidate: &'a Candidate) -> &'a str {
        if let Some(holder) = &candidate.holder {
            return holder;
        }
        let path = self.view().path(candidate.id.file);
        match stem_of(path) {
            "mod" | "lib" | "index" | "__init__" | "main" => last_of(folder_of(path)),
            stem => stem,
        }
    }
}
