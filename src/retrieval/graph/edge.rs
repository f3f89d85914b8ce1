//! Callers and callees of one symbol, implementors and supertypes. Each use of the name is resolved by
//! itself; what cannot be told apart is listed as possible. Never follows more than one step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::family::Family;
use super::paths::in_common;
use super::resolve::Answer;
use super::{Certainty, Edge, Edges, Graph, MAX_EXAMINED, SymbolId, Why};
use crate::retrieval::facts::{Reference, ReferenceKind, SymbolKind};
use crate::retrieval::view::FileId;

/// Uses of a name above which the nearest are looked at first.
const MANY: usize = 200;

/// Symbols that fit one use are listed by name up to here, and only counted above.
const MAX_AMONG: usize = 8;

/// What a use has to mean to be one of a symbol.
struct Targets {
    /// The symbol itself, and what it overrides or implements with how many others.
    ids: HashMap<SymbolId, usize>,
    /// The type that it makes values of.
    maker: Option<SymbolId>,
    /// The last list of symbols that fit by name, and whether one of these is in it: most uses come
    /// with the very same list.
    last: RefCell<Option<(Arc<[SymbolId]>, bool)>>,
}

/// Whether a method makes values of its type.
fn is_maker(name: &str, owner: Option<&str>) -> bool {
    owner == Some(name) || matches!(name, "__init__" | "constructor" | "__construct" | "initialize")
}

/// How much work is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) uses: usize,
}

impl Graph {
    /// The uses of a symbol: calls, and for a type also where it is named. At most `max` edges.
    pub fn callers(&self, of: SymbolId, max: usize) -> Edges {
        let mut work = Work { uses: MAX_EXAMINED };
        let mut edges = self.callers_until(of, Certainty::Possible, &mut work, max);
        edges.cut_to(max);
        edges
    }

    /// The uses of a symbol that are at least this sure, for as long as the work lasts.
    pub(super) fn callers_within(&self, of: SymbolId, least: Certainty, work: &mut Work) -> Edges {
        self.callers_until(of, least, work, usize::MAX)
    }

    /// The same until there are `enough` that are exact: no other would be shown.
    fn callers_until(&self, of: SymbolId, least: Certainty, work: &mut Work, enough: usize) -> Edges {
        let mut found = Edges::default();
        let (Some(name), known) = (self.name_of(of), self.known(of.file)) else {
            return found;
        };
        let targets = self.targets(of);
        let uses = self.uses_of(of, &name, known.family);
        let is_called = self.kind(of).is_some_and(SymbolKind::is_callable);
        let mut exact = 0;
        for (looked_at, (file, at)) in uses.iter().enumerate() {
            if work.uses == 0 || exact >= enough {
                found.unexamined = uses.len() - looked_at;
                break;
            }
            if is_called && !self.may_be_call(*file, *at) {
                continue;
            }
            work.uses -= 1;
            if let Some(edge) = self.edge_to(of, &targets, (*file, *at))
                && edge.certainty >= least
            {
                exact += usize::from(edge.certainty == Certainty::Exact);
                found.edges.push(edge);
            }
        }
        found.sort();
        found
    }

    /// Whether a use can be one of a function: nobody names one as a type.
    fn may_be_call(&self, file: FileId, at: u32) -> bool {
        let kind = self.known(file).uses(self.view(), file).kind(at);
        matches!(kind, Some(ReferenceKind::Call | ReferenceKind::Read))
    }

    fn targets(&self, of: SymbolId) -> Targets {
        let mut targets = Targets {
            ids: HashMap::from([(of, 1)]),
            maker: None,
            last: RefCell::default(),
        };
        if self.kind(of) != Some(SymbolKind::Method) {
            return targets;
        }
        let (Some(name), known) = (self.name_of(of), self.known(of.file)) else {
            return targets;
        };
        // What a structure of Go takes in is not overridden.
        if known.family == Family::Go {
            return targets;
        }
        let at = super::scope::At {
            file: of.file,
            known: &known,
            within: Some(of.at),
        };
        if let super::receiver::Receiver::Types(types, ..) = self.own_type(at) {
            for id in types {
                if is_maker(&name, self.name_of(id).as_deref()) {
                    targets.maker = Some(id);
                    continue;
                }
                for above in self.members_above(id, &name) {
                    let also = self.overriders(above, &name);
                    targets.ids.entry(above).or_insert(also.max(1));
                }
            }
        }
        targets
    }

    /// How many types below that of a method have one of their own.
    fn overriders(&self, method: SymbolId, name: &str) -> usize {
        let known = self.known(method.file);
        let at = super::scope::At {
            file: method.file,
            known: &known,
            within: Some(method.at),
        };
        let super::receiver::Receiver::Types(types, ..) = self.own_type(at) else {
            return 1;
        };
        let below = types.iter().take(1).flat_map(|id| self.subs_of(*id)).take(32);
        below.filter(|(id, _)| !self.members(*id, name).is_empty()).count()
    }

    /// Where a name or its other names are used; of very many the nearest files first.
    fn uses_of(&self, of: SymbolId, name: &str, family: Family) -> Vec<(FileId, u32)> {
        let mut uses = self.view().referred(name);
        // An import may rename it, and others may import it under that name.
        for alias in self.aliases(name) {
            uses.extend(self.view().referred(&alias));
        }
        // A constructor is called by the name of its type, and a default export by any.
        if matches!(name, "__init__" | "constructor" | "__construct" | "initialize")
            && let Some(owner) = self.known(of.file).owner(of.at)
        {
            uses.extend(self.view().referred(owner));
        }
        let own = self.view().path(of.file);
        let mut files: Vec<(usize, &[(FileId, u32)])> = uses
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|places| Family::of(self.view().language(places[0].0)) == family)
            .map(|places| (in_common(self.view().path(places[0].0), own), places))
            .collect();
        if uses.len() > MANY {
            files.sort_by_key(|(common, places)| (std::cmp::Reverse(*common), places[0]));
        }
        files.into_iter().flat_map(|(_, places)| places).copied().collect()
    }

    fn edge_to(&self, of: SymbolId, targets: &Targets, (file, at): (FileId, u32)) -> Option<Edge> {
        let known = self.known(file);
        let reference = &known.uses(self.view(), file).get(self.view(), at)?;
        let edge = |certainty, why, among| Edge {
            file,
            line: reference.line,
            from: self.user(file, reference),
            to: of,
            kind: reference.kind,
            certainty,
            why,
            among,
        };
        match self.resolve(file, &known, reference) {
            Answer::Nowhere => None,
            Answer::At(ids, certainty, why) => {
                if ids.contains(&of) {
                    return Some(edge(certainty, why, ids.len()));
                }
                if reference.kind == ReferenceKind::Call && targets.maker.is_some_and(|maker| ids.contains(&maker)) {
                    return Some(edge(certainty, why, ids.len()));
                }
                let also = ids.iter().filter_map(|id| targets.ids.get(id)).min()?;
                Some(edge(Certainty::Possible, Why::Dispatch, *also))
            }
            Answer::Name(ids) => {
                let mut last = targets.last.borrow_mut();
                let fits = match &*last {
                    Some((list, fits)) if Arc::ptr_eq(list, &ids) => *fits,
                    _ => ids.iter().any(|id| targets.ids.contains_key(id)),
                };
                *last = Some((Arc::clone(&ids), fits));
                fits.then(|| edge(Certainty::Possible, Why::Name, ids.len()))
            }
        }
    }

    /// The function around a use, or what else is.
    fn user(&self, file: FileId, reference: &Reference) -> Option<SymbolId> {
        let known = self.known(file);
        let holders = || known.holders(reference.within);
        let callable = holders().find(|at| known.symbol(*at).is_some_and(|symbol| symbol.kind.is_callable()));
        let not_module = |at: &u32| {
            known
                .symbol(*at)
                .is_some_and(|symbol| symbol.kind != SymbolKind::Module)
        };
        let at = callable.or_else(|| holders().find(not_module))?;
        Some(SymbolId { file, at })
    }

    /// What a symbol calls; for a type, what its members call. At most `max` edges.
    pub fn callees(&self, of: SymbolId, max: usize) -> Edges {
        let mut work = Work { uses: MAX_EXAMINED };
        let mut edges = self.callees_within(of, Certainty::Possible, &mut work);
        edges.cut_to(max);
        edges
    }

    pub(super) fn callees_within(&self, of: SymbolId, least: Certainty, work: &mut Work) -> Edges {
        let mut found = Edges::default();
        let known = self.known(of.file);
        let uses = known.uses(self.view(), of.file);
        let inside = uses.raw().filter(|(_, reference)| {
            let is_used = matches!(reference.kind, ReferenceKind::Call | ReferenceKind::Read);
            is_used && known.holders(reference.within).any(|holder| holder == of.at)
        });
        for (at, _) in inside {
            if work.uses == 0 {
                found.unexamined += 1;
                continue;
            }
            work.uses -= 1;
            let Some(reference) = &uses.get(self.view(), at) else {
                continue;
            };
            let (ids, certainty, why) = match self.resolve(of.file, &known, reference) {
                Answer::Nowhere => continue,
                Answer::At(ids, certainty, why) => (ids, certainty, why),
                Answer::Name(ids) => (ids.to_vec(), Certainty::Possible, Why::Name),
            };
            if certainty < least {
                continue;
            }
            let among = ids.len();
            found.cut += among.saturating_sub(MAX_AMONG);
            found.edges.extend(ids.into_iter().take(MAX_AMONG).map(|to| Edge {
                file: of.file,
                line: reference.line,
                from: self.user(of.file, reference),
                to,
                kind: reference.kind,
                certainty,
                why,
                among,
            }));
        }
        found.sort();
        found
    }

    /// The types that extend or implement a type, and those below them, with the line that says so.
    pub fn implementors(&self, of: SymbolId, max: usize) -> Vec<(SymbolId, u32)> {
        let mut found: Vec<(SymbolId, u32)> = Vec::new();
        let mut open = std::collections::VecDeque::from([of]);
        while let Some(next) = open.pop_front() {
            for (id, line) in self.subs_of(next) {
                if id != of && found.len() < max && found.iter().all(|(known, _)| *known != id) {
                    found.push((id, line));
                    open.push_back(id);
                }
            }
        }
        found
    }

    /// The types that a type extends or implements, as far as they are in the repository.
    pub fn supertypes(&self, of: SymbolId) -> Vec<SymbolId> {
        self.supers_of(of)
    }
}

impl Edges {
    fn sort(&mut self) {
        self.edges.sort_by_key(|edge| {
            (
                std::cmp::Reverse(edge.certainty),
                edge.file,
                edge.line,
                edge.to,
                edge.kind,
            )
        });
        self.edges
            .dedup_by_key(|edge| (edge.certainty, edge.file, edge.line, edge.to));
    }

    fn cut_to(&mut self, max: usize) {
        self.cut += self.edges.len().saturating_sub(max);
        self.edges.truncate(max);
    }
}
