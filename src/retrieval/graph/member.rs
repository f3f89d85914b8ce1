//! Types and their members: which symbol a method's name means on a type, by the type itself, by what
//! it extends, and by what extends it. Never guesses the type of a variable.

use std::collections::HashSet;

use super::candidate::Candidate;
use super::family::Family;
use super::known::Known;
use super::scope::{At, Meaning};
use super::{Graph, SymbolId};
use crate::retrieval::facts::{Reference, SymbolKind};

/// Types that are looked at above or below one; hierarchies of frameworks are wide, not deep.
const MAX_TYPES: usize = 200;

impl Graph {
    /// Members of this name that a type has itself.
    pub(super) fn members(&self, of: SymbolId, name: &str) -> Vec<SymbolId> {
        let known = self.known(of.file);
        let Some(symbol) = known.symbol(of.at) else {
            return Vec::new();
        };
        let candidates = self.candidates(name, known.family);
        let found = candidates
            .owned_by(&symbol.name)
            .filter(|candidate| self.belongs(candidate, of, &known));
        found.map(|candidate| candidate.id).collect()
    }

    /// Whether a member of a type of the right name belongs to this type of that name.
    fn belongs(&self, candidate: &Candidate, of: SymbolId, known: &Known) -> bool {
        if candidate.id.file == of.file {
            // Two types of one name in one file: the one that holds it.
            let holders = known.holders(Some(candidate.id.at)).skip(1);
            let mut types = holders.filter(|holder| known.symbol(*holder).is_some_and(|symbol| symbol.kind.is_type()));
            return types.next().is_none_or(|holder| holder == of.at);
        }
        let there = self.known(candidate.id.file);
        // A method written inside a type of the same name in another file is not this type's, unless
        // the language lets a type have parts.
        let is_part = there
            .symbol(candidate.id.at)
            .is_some_and(|symbol| symbol.owner.is_some());
        if !is_part {
            return known.family == Family::CSharp;
        }
        let Some(owner) = candidate.owner.as_deref() else {
            return false;
        };
        let at = At {
            file: candidate.id.file,
            known: &there,
            // The type may be one of a module that is written in the file.
            within: there.symbol(candidate.id.at).and_then(|symbol| symbol.parent),
        };
        match self.meaning(at, owner) {
            Meaning::Symbols(ids, ..) => ids.contains(&of),
            Meaning::Module(_) | Meaning::Outside => false,
            Meaning::Lost(_) | Meaning::Nothing => true,
        }
    }

    /// Members of this name that a type has from what it extends, nearest first.
    pub(super) fn members_above(&self, of: SymbolId, name: &str) -> Vec<SymbolId> {
        self.nearest_above(of, |id| self.members(id, name))
    }

    /// Members of this name on a type or above it.
    pub(super) fn members_on(&self, of: SymbolId, name: &str) -> Vec<SymbolId> {
        let own = self.members(of, name);
        if own.is_empty() {
            self.members_above(of, name)
        } else {
            own
        }
    }

    fn nearest_above(&self, of: SymbolId, members: impl Fn(SymbolId) -> Vec<SymbolId>) -> Vec<SymbolId> {
        let mut seen = HashSet::from([of]);
        let mut level = vec![of];
        while !level.is_empty() && seen.len() < MAX_TYPES {
            let mut next = Vec::new();
            for id in level {
                for above in self.supers_of(id) {
                    if seen.insert(above) {
                        next.push(above);
                    }
                }
            }
            let found: Vec<SymbolId> = next.iter().flat_map(|id| members(*id)).collect();
            if !found.is_empty() {
                return found;
            }
            level = next;
        }
        Vec::new()
    }

    /// The types that a type says it extends or implements, as far as they are in the repository.
    pub(super) fn supers_of(&self, of: SymbolId) -> Vec<SymbolId> {
        if let Some(known) = self.remembered_supers(of) {
            return known.to_vec();
        }
        let known = self.known(of.file);
        let mut found = Vec::new();
        for reference in known.uses(self.view(), of.file).supers(self.view(), of.at) {
            found.extend(self.type_named(of, &known, &reference));
        }
        // `impl Trait for Type` and the like may stand in another file than the type.
        if known.family == Family::Rust
            && let Some(symbol) = known.symbol(of.at)
        {
            found.extend(self.implemented_elsewhere(of, &symbol.name));
        }
        found.sort();
        found.dedup();
        found.retain(|id| *id != of);
        self.remember_supers(of, &found);
        found
    }

    fn type_named(&self, of: SymbolId, known: &Known, reference: &Reference) -> Vec<SymbolId> {
        let holder = known.symbol(of.at).and_then(|symbol| symbol.parent);
        let at = At {
            file: of.file,
            known,
            within: holder,
        };
        match reference.receiver.as_deref() {
            // What stands before it is its module, but in `impl Trait for Type`, where it is the type.
            Some(module) if known.family != Family::Rust => {
                let module = module.rsplit(['.', ':']).next().unwrap_or(module);
                match self.meaning(at, module) {
                    Meaning::Module(inside) => self.lookup(&inside, &reference.name, known.family, 4),
                    Meaning::Symbols(ids, ..) => ids.iter().flat_map(|id| self.members(*id, &reference.name)).collect(),
                    Meaning::Outside => Vec::new(),
                    Meaning::Lost(_) | Meaning::Nothing => self.types_meant(at, &reference.name),
                }
            }
            _ => self.types_meant(at, &reference.name),
        }
    }

    /// The types that a name means at a place; those of that name when only one is in the repository.
    pub(super) fn types_meant(&self, at: At<'_>, name: &str) -> Vec<SymbolId> {
        let is_type = |id: &SymbolId| self.kind(*id).is_some_and(SymbolKind::is_type);
        match self.meaning(at, name) {
            Meaning::Symbols(ids, ..) => ids.into_iter().filter(is_type).collect(),
            Meaning::Module(_) | Meaning::Outside => Vec::new(),
            Meaning::Lost(lost) => self.only_type(at, if lost.is_empty() { name } else { &lost }),
            Meaning::Nothing if at.known.family.is_strict() => Vec::new(),
            Meaning::Nothing => self.only_type(at, name),
        }
    }

    fn only_type(&self, at: At<'_>, name: &str) -> Vec<SymbolId> {
        let candidates = self.candidates(name, at.known.family);
        let mut types = candidates.iter().filter(|candidate| candidate.kind.is_type());
        match (types.next(), types.next()) {
            (Some(only), None) => vec![only.id],
            _ => Vec::new(),
        }
    }

    /// What other files say that a type implements: uses of kind `Super` whose receiver is the type.
    fn implemented_elsewhere(&self, of: SymbolId, name: &str) -> Vec<SymbolId> {
        let mut found = Vec::new();
        for (file, at) in self.view().extends(name).into_iter().take(MAX_TYPES) {
            let Some(reference) = self.reference(file, at).filter(|_| file != of.file) else {
                continue;
            };
            let known = self.known(file);
            let at = At {
                file,
                known: &known,
                within: None,
            };
            if self.types_meant(at, name).contains(&of) {
                found.extend(self.types_meant(at, &reference.name));
            }
        }
        found
    }

    /// The types that extend or implement this one, one step down, with the lines that say so.
    pub(super) fn subs_of(&self, of: SymbolId) -> Vec<(SymbolId, u32)> {
        if let Some(known) = self.remembered_subs(of) {
            return known.to_vec();
        }
        let mut found = self.written_subs(of);
        if self.known(of.file).family == Family::Go {
            let shaped = self.shaped_like(of);
            found.retain(|(id, _)| shaped.iter().all(|(other, _)| other != id));
            found.extend(shaped);
        }
        self.remember_subs(of, &found);
        found
    }

    /// The types that say they extend or implement this one.
    pub(super) fn written_subs(&self, of: SymbolId) -> Vec<(SymbolId, u32)> {
        let Some(name) = self.name_of(of) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (file, at) in self.view().extended(&name).into_iter().take(super::MAX_EXAMINED) {
            let Some(reference) = self.reference(file, at) else {
                continue;
            };
            let known = self.known(file);
            let around = reference
                .within
                .filter(|within| known.symbol(*within).is_some_and(|symbol| symbol.kind.is_type()));
            let holder = around
                .and_then(|around| known.symbol(around))
                .and_then(|symbol| symbol.parent);
            let place = At {
                file,
                known: &known,
                within: holder,
            };
            let is_this = match around {
                Some(around) => self.supers_of(SymbolId { file, at: around }).contains(&of),
                None => self.types_meant(place, &name).contains(&of),
            };
            if !is_this {
                continue;
            }
            match (around, &reference.receiver) {
                (Some(around), _) => found.push((SymbolId { file, at: around }, reference.line)),
                (None, Some(receiver)) => {
                    let types = self.types_meant(place, receiver);
                    found.extend(types.into_iter().map(|id| (id, reference.line)));
                }
                (None, None) => {}
            }
            if found.len() >= MAX_TYPES {
                break;
            }
        }
        found.sort();
        found.dedup_by_key(|(id, _)| *id);
        found.retain(|(id, _)| *id != of);
        found
    }
}
