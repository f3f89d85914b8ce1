//! From one use of a name to what it means, with how sure that is. The order of the rules is the order
//! of certainty: scopes and imports, owners and declared types, then names.
//! Never drops a candidate without a rule.

use std::sync::Arc;

use super::candidate::{Candidate, plain};
use super::family::Family;
use super::known::Known;
use super::paths::{folder_of, stem_of};
use super::receiver::Receiver;
use super::scope::{At, Meaning};
use super::{Certainty, Graph, SymbolId, Why};
use crate::retrieval::facts::{Reference, ReferenceKind, SymbolKind};
use crate::retrieval::view::FileId;

/// What a use means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing of the repository.
    Nowhere,
    /// These symbols.
    At(Vec<SymbolId>, Certainty, Why),
    /// Any symbol of this name that may stand in such a place; so many there are.
    Name(Arc<[SymbolId]>),
}

/// Types that have a member of one name, up to which the name of a variable tells which is meant.
const MAX_NAMED: usize = 64;

impl Graph {
    /// What a use means.
    pub(super) fn resolve(&self, file: FileId, known: &Known, reference: &Reference) -> Answer {
        let at = At {
            file,
            known,
            within: reference.within,
        };
        let answer = match reference.receiver.as_deref() {
            Some(_) if reference.kind == ReferenceKind::Super => self.bare(at, reference),
            None => self.bare(at, reference),
            Some(_) if reference.kind == ReferenceKind::Binding => self.bare(at, reference),
            Some(receiver) => self.behind(at, reference, receiver),
        };
        self.fitting(answer, reference.kind)
    }

    fn bare(&self, at: At<'_>, reference: &Reference) -> Answer {
        let name = &*reference.name;
        // What makes a value is a use of its own.
        if name.ends_with(')') {
            return Answer::Nowhere;
        }
        match self.meaning(at, name) {
            Meaning::Symbols(ids, certainty, why) => Answer::At(ids, certainty, why),
            Meaning::Module(_) | Meaning::Outside => Answer::Nowhere,
            Meaning::Lost(lost) => {
                let name = if lost.is_empty() { name } else { &lost };
                self.by_name(at, name, |candidate| candidate.top)
            }
            Meaning::Nothing => self.loose(at, name),
        }
    }

    /// A name that stands alone and that no rule finds.
    fn loose(&self, at: At<'_>, name: &str) -> Answer {
        let family = at.known.family;
        if family == Family::Rust {
            // Macros are seen from everywhere behind their definition.
            return self.by_name(at, name, |candidate| candidate.kind == SymbolKind::Macro);
        }
        if family.is_strict() {
            return Answer::Nowhere;
        }
        let included = |candidate: &Candidate| {
            let stem = stem_of(self.view().path(candidate.id.file));
            let mut imports = at.known.brought(self.view(), at.file).all.iter();
            imports.any(|import| stem_of(&import.module) == stem)
        };
        let candidates = self.candidates(name, family);
        let ids: Vec<SymbolId> = candidates
            .iter()
            .filter(|candidate| included(candidate))
            .map(|candidate| candidate.id)
            .collect();
        if !ids.is_empty() {
            return Answer::At(ids, Certainty::Exact, Why::Import);
        }
        self.by_name(at, name, |candidate| candidate.top || family.calls_methods_bare())
    }

    /// All symbols of a name that may be meant; one alone is likely the one.
    fn by_name(&self, at: At<'_>, name: &str, may: impl Fn(&Candidate) -> bool) -> Answer {
        let candidates = self.candidates(name, at.known.family);
        let ids: Vec<SymbolId> = candidates
            .iter()
            .filter(|candidate| may(candidate))
            .map(|candidate| candidate.id)
            .collect();
        match ids.len() {
            0 => Answer::Nowhere,
            1 => Answer::At(ids, Certainty::Likely, Why::Only),
            _ => {
                let folder = folder_of(self.view().path(at.file));
                let near = ids
                    .iter()
                    .copied()
                    .filter(|id| folder_of(self.view().path(id.file)) == folder);
                let near: Vec<SymbolId> = near.collect();
                if near.len() == 1 {
                    Answer::At(near, Certainty::Likely, Why::Package)
                } else {
                    Answer::Name(ids.into())
                }
            }
        }
    }

    /// A name behind a receiver.
    fn behind(&self, at: At<'_>, reference: &Reference, receiver: &str) -> Answer {
        let name = &*reference.name;
        let family = at.known.family;
        if family.is_above(receiver) {
            return self.above(at, name);
        }
        if family == Family::Rust && matches!(receiver, "crate" | "super") {
            return self.in_rust_module(at, receiver, name);
        }
        if family.is_own(receiver) {
            return self.own(at, name);
        }
        match self.receiver(at, receiver) {
            Receiver::Types(types, certainty, why) => self.on_types(at, &types, name, (certainty, why)),
            Receiver::Module(inside) => {
                let ids = self.lookup(&inside, name, family, 4);
                if ids.is_empty() {
                    Answer::Nowhere
                } else {
                    Answer::At(ids, Certainty::Exact, Why::Import)
                }
            }
            Receiver::Outside => Answer::Nowhere,
            Receiver::Unknown => self.unknown(at, reference.kind, name, receiver),
        }
    }

    /// `self.name()`.
    fn own(&self, at: At<'_>, name: &str) -> Answer {
        if let Receiver::Types(types, ..) = self.own_type(at) {
            return self.on_types(at, &types, name, (Certainty::Exact, Why::Owner));
        }
        if at.known.family == Family::Rust {
            return self.in_rust_module(at, "self", name);
        }
        self.unknown(at, ReferenceKind::Call, name, "?")
    }

    /// `super.name()`.
    fn above(&self, at: At<'_>, name: &str) -> Answer {
        let Receiver::Types(types, ..) = self.own_type(at) else {
            return Answer::Nowhere;
        };
        let ids: Vec<SymbolId> = types.iter().flat_map(|id| self.members_above(*id, name)).collect();
        if ids.is_empty() {
            Answer::Nowhere
        } else {
            Answer::At(ids, Certainty::Exact, Why::Inherited)
        }
    }

    fn in_rust_module(&self, at: At<'_>, module: &str, name: &str) -> Answer {
        let from = super::module::From {
            view: self.view(),
            path: self.view().path(at.file),
            family: Family::Rust,
        };
        let is_inside = |holder: u32| {
            at.known
                .symbol(holder)
                .is_some_and(|symbol| symbol.kind == SymbolKind::Module)
        };
        let inline = at.known.holders(at.within).any(is_inside);
        let module = if inline && module == "super" { "self" } else { module };
        match self.modules().place(from, module) {
            super::module::Place::Inside(inside) => {
                let ids = self.lookup(&inside, name, Family::Rust, 4);
                if ids.is_empty() {
                    Answer::Nowhere
                } else {
                    Answer::At(ids, Certainty::Exact, Why::Scope)
                }
            }
            super::module::Place::Outside | super::module::Place::Unknown => Answer::Nowhere,
        }
    }

    /// A member of a value whose types are known.
    fn on_types(&self, at: At<'_>, types: &[SymbolId], name: &str, sure: (Certainty, Why)) -> Answer {
        let mut ids: Vec<SymbolId> = types.iter().flat_map(|id| self.members_on(*id, name)).collect();
        ids.sort();
        ids.dedup();
        if !ids.is_empty() {
            let certainty = if types.len() > 1 {
                sure.0.min(Certainty::Likely)
            } else {
                sure.0
            };
            return Answer::At(ids, certainty, sure.1);
        }
        // A type extends something outside, or has members by other ways: extensions, generated code,
        // a wrapper that hands on.
        if types.iter().any(|id| self.is_open(*id)) || at.known.family == Family::Rust {
            return self.below(types, name);
        }
        Answer::Nowhere
    }

    /// Members of what extends these types: what a mixin or a template method calls.
    fn below(&self, types: &[SymbolId], name: &str) -> Answer {
        let mut ids = Vec::new();
        for id in types.iter().take(2) {
            for (below, _) in self.subs_of(*id).into_iter().take(32) {
                ids.extend(self.members(below, name));
            }
        }
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            Answer::Nowhere
        } else {
            Answer::Name(ids.into())
        }
    }

    /// A member of a value of which nothing is known.
    fn unknown(&self, at: At<'_>, kind: ReferenceKind, name: &str, receiver: &str) -> Answer {
        let candidates = self.candidates(name, at.known.family);
        // `a::b::name`: the last part of the path is the file or the module of it.
        let receiver = receiver.rsplit(['.', ':']).next().unwrap_or(receiver);
        let in_module = candidates.in_module(receiver);
        let in_module: Vec<SymbolId> = in_module.map(|candidate| candidate.id).collect();
        if in_module.len() == 1 {
            return Answer::At(in_module, Certainty::Likely, Why::Only);
        }
        let members = &candidates.members;
        // Where many types have it, being called alike is no sign.
        if members.len() <= MAX_NAMED {
            let called = plain(receiver.rsplit('.').next().unwrap_or(receiver));
            let near = candidates
                .iter()
                .filter(|candidate| is_named_after(&called, &candidate.plain_owner));
            let near: Vec<SymbolId> = near.map(|candidate| candidate.id).collect();
            if near.len() == 1 {
                return Answer::At(near, Certainty::Likely, Why::Named);
            }
        }
        match members.len() {
            0 if in_module.is_empty() => Answer::Nowhere,
            0 => Answer::Name(in_module.into()),
            1 if self.mentions(at, &candidates) => Answer::At(members.to_vec(), Certainty::Likely, Why::Only),
            _ => match kind {
                ReferenceKind::Call => Answer::Name(Arc::clone(&candidates.callable)),
                _ => Answer::Name(Arc::clone(members)),
            },
        }
    }

    /// Whether a file says the name of the only member's owner, or is near it.
    fn mentions(&self, at: At<'_>, candidates: &[Candidate]) -> bool {
        let member = candidates.iter().find(|candidate| candidate.owner.is_some());
        let Some((candidate, owner)) = member.and_then(|member| Some((member, member.owner.as_deref()?))) else {
            return false;
        };
        candidate.id.file == at.file
            || !at.known.brought(self.view(), at.file).bound(owner).is_empty()
            || self
                .view()
                .referred(owner)
                .binary_search_by(|(file, _)| file.cmp(&at.file))
                .is_ok()
    }

    /// Only what such a use can mean: a type behind `extends`, no field where something is called
    /// that is also a function.
    fn fitting(&self, answer: Answer, kind: ReferenceKind) -> Answer {
        let is_type = |id: &SymbolId| {
            self.kind(*id)
                .is_some_and(|kind| kind.is_type() || kind == SymbolKind::Module)
        };
        let keep = |mut ids: Vec<SymbolId>| {
            match kind {
                ReferenceKind::Type | ReferenceKind::Super => ids.retain(is_type),
                ReferenceKind::Call => {
                    let callable =
                        |id: &SymbolId| self.kind(*id).is_some_and(|kind| kind.is_callable() || kind.is_type());
                    if ids.iter().any(callable) {
                        ids.retain(callable);
                    }
                }
                ReferenceKind::Read | ReferenceKind::Binding => {}
            }
            ids
        };
        match answer {
            Answer::Nowhere => Answer::Nowhere,
            Answer::At(ids, certainty, why) => match keep(ids) {
                ids if ids.is_empty() => Answer::Nowhere,
                ids => Answer::At(ids, certainty, why),
            },
            Answer::Name(ids) => Answer::Name(ids),
        }
    }
}

/// Whether a variable is called like a type: `parser` or `argParser` like `Parser`, `request` like
/// `HttpRequest`. Both are plain.
fn is_named_after(variable: &str, owner: &str) -> bool {
    // Shorter names say nothing: `id`, `ctx`.
    variable.len() >= 4 && owner.len() >= 4 && (owner.ends_with(variable) || variable.ends_with(owner))
}
