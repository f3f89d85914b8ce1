//! What a name means at a place: a symbol around it, something imported, something of the same
//! package. Only what the rules of the language allow; guesses by name alone are made elsewhere.
//! Never guesses by a name alone.

use super::candidate::{Candidate, Candidates};
use super::family::Family;
use super::known::Known;
use super::module::{From, Inside, Place};
use super::paths::{folder_of, stem_of};
use super::{Certainty, Graph, SymbolId, Why};
use crate::retrieval::facts::{Import, SymbolKind};
use crate::retrieval::view::FileId;

/// How many re-exports are followed to where a name is defined.
const MAX_REEXPORTS: u32 = 6;

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// These symbols; several when the language lets a name have several.
    Symbols(Vec<SymbolId>, Certainty, Why),
    /// A module of the repository.
    Module(Inside),
    /// Something that is not in the repository.
    Outside,
    /// Imported from somewhere in the repository that was not found, under this name there.
    Lost(Box<str>),
    /// The rules do not find it.
    Nothing,
}

/// A place in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) file: FileId,
    pub(super) known: &'a Known,
    pub(super) within: Option<u32>,
}

impl Graph {
    /// What a name that stands alone means at a place.
    pub(super) fn meaning(&self, at: At<'_>, name: &str) -> Meaning {
        let candidates = self.candidates(name, at.known.family);
        if let Some(ids) = self.around(at, &candidates) {
            // Where a name cannot be overloaded, one of several is meant: those of other blocks or
            // other conditions are not told apart.
            let sure = match ids.len() > 1 && !at.known.family.overloads() {
                true => Certainty::Likely,
                false => Certainty::Exact,
            };
            return Meaning::Symbols(ids, sure, Why::Scope);
        }
        let mut lost = None;
        for import in at.known.brought(self.view(), at.file).bound(name) {
            match self.through(at.file, at.known, *import, MAX_REEXPORTS) {
                Meaning::Nothing => {}
                Meaning::Lost(name) => lost = Some(name),
                meaning => return meaning,
            }
        }
        if let Some(name) = lost {
            return Meaning::Lost(name);
        }
        if let Some(ids) = self.inherited(at, name) {
            return Meaning::Symbols(ids, Certainty::Exact, Why::Inherited);
        }
        if let Some(ids) = self.in_package(at, &candidates) {
            return Meaning::Symbols(ids, Certainty::Exact, Why::Package);
        }
        self.by_star(at.file, at.known, name, MAX_REEXPORTS)
    }

    /// Symbols of this name in the innermost scope around a place.
    fn around(&self, at: At<'_>, candidates: &Candidates) -> Option<Vec<SymbolId>> {
        let here = candidates.in_file(at.file);
        if here.is_empty() {
            return None;
        }
        let holders: Vec<u32> = at.known.holders(at.within).collect();
        let mut best: Option<(usize, Vec<SymbolId>)> = None;
        for candidate in here {
            let Some(depth) = self.depth(at.known, &holders, candidate) else {
                continue;
            };
            match &mut best {
                Some((known, ids)) if *known == depth => ids.push(candidate.id),
                Some((known, _)) if *known > depth => {}
                _ => best = Some((depth, vec![candidate.id])),
            }
        }
        best.map(|(_, ids)| ids)
    }

    /// How deep the scope is in which a symbol of the same file is seen from inside these holders.
    fn depth(&self, known: &Known, holders: &[u32], candidate: &Candidate) -> Option<usize> {
        let symbol = known.symbol(candidate.id.at)?;
        let bare = known.family.calls_methods_bare();
        let is_nested_type = symbol.kind.is_type() || symbol.kind == SymbolKind::Variant;
        if symbol.owner.is_some() && !bare && !is_nested_type {
            return None;
        }
        let Some(parent) = symbol.parent else {
            return Some(0);
        };
        let place = holders.iter().position(|holder| *holder == parent)?;
        let parent = known.symbol(parent)?;
        // Functions of an object that is written out are reached through the object alone.
        let is_object =
            matches!(parent.kind, SymbolKind::Variable | SymbolKind::Field) || symbol.kind == SymbolKind::Method;
        if is_object && known.family == super::family::Family::Script {
            return None;
        }
        if parent.kind.is_type() && !bare && !is_nested_type {
            return None;
        }
        Some(holders.len() - place)
    }

    /// Members of the types around a place that come from what those extend.
    fn inherited(&self, at: At<'_>, name: &str) -> Option<Vec<SymbolId>> {
        if !at.known.family.calls_methods_bare() {
            return None;
        }
        let types = at.known.holders(at.within).filter(|holder| {
            let symbol = at.known.symbol(*holder);
            symbol.is_some_and(|symbol| symbol.kind.is_type())
        });
        for holder in types {
            let id = SymbolId {
                file: at.file,
                at: holder,
            };
            let found = self.members_above(id, name);
            if !found.is_empty() {
                return Some(found);
            }
        }
        None
    }

    /// Symbols of the package around a file.
    fn in_package(&self, at: At<'_>, candidates: &Candidates) -> Option<Vec<SymbolId>> {
        if !at.known.family.shares_folder() || candidates.is_empty() {
            return None;
        }
        let here = candidates.in_package(self.package_of(at.file));
        let ids: Vec<SymbolId> = here.map(|candidate| candidate.id).collect();
        (!ids.is_empty()).then_some(ids)
    }

    /// What an import brings in.
    pub(super) fn through(&self, file: FileId, known: &Known, import: u32, depth: u32) -> Meaning {
        let from = From {
            view: self.view(),
            path: self.view().path(file),
            family: known.family,
        };
        let Some((import, place)) = self.place_of(from, file, known, import) else {
            return Meaning::Nothing;
        };
        let inside = match place {
            Place::Outside => return Meaning::Outside,
            Place::Unknown => return Meaning::Lost(import.name.as_deref().unwrap_or_default().into()),
            Place::Inside(inside) => inside,
        };
        let name = match import.name.as_deref() {
            None if known.family == Family::Jvm && inside.folder.is_none() => {
                super::known::last_part(known.family, &import.module)
            }
            None | Some("*" | "self") => return Meaning::Module(inside.clone()),
            Some(name) => name,
        };
        let found = self.lookup(inside, name, known.family, depth);
        if !found.is_empty() {
            return Meaning::Symbols(found, Certainty::Exact, Why::Import);
        }
        if let Some(child) = self.modules().child(from, inside, name) {
            return Meaning::Module(child);
        }
        if name == "default" {
            return self.default_export(import, inside.clone(), depth);
        }
        Meaning::Lost(name.into())
    }

    /// An import of a file, and what it means.
    pub(super) fn place_of<'k>(
        &self,
        from: From<'_>,
        file: FileId,
        known: &'k Known,
        import: u32,
    ) -> Option<(&'k Import, &'k Place)> {
        let brought = known.brought(self.view(), file);
        let place = |import: &Import| self.modules().place(from, self.module_words(known, import, from.path));
        brought.place(import, place)
    }

    /// `super` of an import inside a module that is written in the file means the file.
    fn module_words<'a>(&self, known: &Known, import: &'a Import, path: &str) -> &'a str {
        let inline = known.family == Family::Rust
            && known.symbols.iter().any(|symbol| {
                symbol.kind == SymbolKind::Module && symbol.line < import.line && import.line < symbol.end_line
            });
        let is_root = matches!(stem_of(path), "lib" | "main" | "mod");
        match import.module.strip_prefix("super") {
            Some("") if inline => "self",
            Some(rest) if inline && rest.starts_with("::") && !is_root => &import.module["super::".len()..],
            _ => &import.module,
        }
    }

    /// What a module exports without a name: what its file or its user calls so.
    fn default_export(&self, import: &Import, inside: Inside, depth: u32) -> Meaning {
        let file = inside.files.first().copied();
        let stem = file.map(|file| stem_of(self.view().path(file)).to_owned());
        let names = [import.alias.as_deref(), stem.as_deref()];
        let found = names.into_iter().flatten().find_map(|name| {
            let found = self.lookup(&inside, name, Family::Script, depth);
            (!found.is_empty()).then_some(found)
        });
        found.map_or(Meaning::Module(inside), |found| {
            Meaning::Symbols(found, Certainty::Likely, Why::Import)
        })
    }

    /// The symbols of a name in a module, also those that it only passes on.
    pub(super) fn lookup(&self, inside: &Inside, name: &str, family: Family, depth: u32) -> Vec<SymbolId> {
        let candidates = self.candidates(name, family);
        let files = inside.files.iter();
        let mut found: Vec<SymbolId> = files
            .flat_map(|file| candidates.in_file(*file))
            .filter(|candidate| self.is_in(inside, candidate, family))
            .map(|candidate| candidate.id)
            .collect();
        found.sort();
        if !found.is_empty() || depth == 0 || !inside.rest.is_empty() || family == Family::Go {
            // Of two classes of one full name the nearest is meant.
            if family == Family::Jvm && inside.folder.is_none() {
                let nearest = inside
                    .files
                    .iter()
                    .find(|file| found.iter().any(|id| id.file == **file));
                let nearest = nearest.copied();
                found.retain(|id| Some(id.file) == nearest);
            }
            return found;
        }
        for &file in inside.files.iter().take(8) {
            let known = self.known(file);
            for import in known.brought(self.view(), file).bound(name) {
                if let Meaning::Symbols(ids, ..) = self.through(file, &known, *import, depth - 1) {
                    return ids;
                }
            }
            if let Meaning::Symbols(ids, ..) = self.by_star(file, &known, name, depth - 1) {
                return ids;
            }
        }
        Vec::new()
    }

    fn is_in(&self, inside: &Inside, candidate: &Candidate, family: Family) -> bool {
        match inside.rest.last() {
            None if candidate.top => true,
            // The file of a class stands for the class.
            None => {
                let stem = stem_of(self.view().path(candidate.id.file));
                family == Family::Jvm && inside.folder.is_none() && candidate.owner.as_deref() == Some(stem)
            }
            Some(last) => candidate.holder.as_deref() == Some(last) || candidate.owner.as_deref() == Some(last),
        }
    }

    /// What a name means by the imports that bring in everything.
    fn by_star(&self, file: FileId, known: &Known, name: &str, depth: u32) -> Meaning {
        if depth == 0 {
            return Meaning::Nothing;
        }
        let from = From {
            view: self.view(),
            path: self.view().path(file),
            family: known.family,
        };
        for import in known.brought(self.view(), file).stars().iter().take(64) {
            if let Some((_, Place::Inside(inside))) = self.place_of(from, file, known, *import) {
                // `use super::*` in a module of the file itself was looked at already.
                if inside.files == [file] {
                    continue;
                }
                let found = self.lookup(inside, name, known.family, depth - 1);
                if !found.is_empty() {
                    return Meaning::Symbols(found, Certainty::Exact, Why::Import);
                }
            }
        }
        Meaning::Nothing
    }

    /// What files of one package have in common: the folder, without the source root in Java.
    pub(super) fn package_of(&self, file: FileId) -> &str {
        let folder = folder_of(self.view().path(file));
        let below = ["/java/", "/kotlin/", "/scala/"]
            .iter()
            .find_map(|root| folder.find(root).map(|at| &folder[at + root.len()..]));
        below.unwrap_or(folder)
    }
}
