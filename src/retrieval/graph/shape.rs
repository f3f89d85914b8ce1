//! Go: a type implements an interface when it has its methods, and says so nowhere. Called for the
//! implementors of an interface. Never compares parameters, whose types the index does not keep apart.

use std::collections::{BTreeMap, HashSet};

use super::family::Family;
use super::paths::last_of;
use super::receiver::Receiver;
use super::scope::At;
use super::{Graph, SymbolId};
use crate::retrieval::facts::SymbolKind;

/// Interfaces that take in others, as deep as this.
const MAX_DEPTH: u32 = 4;
/// Methods of one interface that are asked for; more tell no types apart.
const MAX_METHODS: usize = 64;
/// Types that are looked at for one interface.
const MAX_LOOKED_AT: usize = 2000;

/// The methods of an interface, each by its name.
type Methods = BTreeMap<Box<str>, SymbolId>;

impl Graph {
    /// The types that have all methods of an interface, with the line of each; nothing for what is no
    /// interface, and for one of which no method is known.
    pub(super) fn shaped_like(&self, of: SymbolId) -> Vec<(SymbolId, u32)> {
        let mut methods = Methods::new();
        if self.kind(of) != Some(SymbolKind::Interface) || !self.methods_of(of, &mut methods, MAX_DEPTH) {
            return Vec::new();
        }
        // Whoever has all of them has the one that the fewest have.
        let count = |name: &str| self.candidates(name, Family::Go).members.len();
        let Some(rarest) = methods.keys().min_by_key(|name| count(name)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for id in self.types_with(rarest) {
            let has = |name: &str, method: SymbolId| {
                let own = self.members_on(id, name);
                let mut own = own.iter().filter(|own| self.kind(**own) == Some(SymbolKind::Method));
                own.any(|own| self.result_names(*own) == self.result_names(method))
            };
            if id != of && methods.iter().all(|(name, method)| has(name, *method)) {
                found.push((id, self.symbol(id).map_or(0, |symbol| symbol.line)));
            }
        }
        found.sort();
        found
    }

    /// Whether all methods of an interface are known.
    fn methods_of(&self, of: SymbolId, methods: &mut Methods, depth: u32) -> bool {
        if depth == 0 || methods.len() > MAX_METHODS || self.is_open(of) {
            return false;
        }
        let known = self.known(of.file);
        let own = (0..).zip(&known.symbols);
        let own = own.filter(|(_, symbol)| symbol.parent == Some(of.at) && symbol.kind == SymbolKind::Method);
        methods.extend(own.map(|(at, symbol)| (symbol.name.clone(), SymbolId { file: of.file, at })));
        let mut above = self.supers_of(of).into_iter();
        above.all(|id| self.methods_of(id, methods, depth - 1))
    }

    /// The types, interfaces left out, that have a method of this name or take in one that has.
    fn types_with(&self, name: &str) -> Vec<SymbolId> {
        let mut open = Vec::new();
        for id in self.candidates(name, Family::Go).members.iter().take(MAX_LOOKED_AT) {
            let known = self.known(id.file);
            let at = At {
                file: id.file,
                known: &known,
                within: Some(id.at),
            };
            if let Receiver::Types(types, ..) = self.own_type(at) {
                open.extend(types);
            }
        }
        let mut seen = HashSet::new();
        let mut types = Vec::new();
        while let Some(id) = open.pop() {
            if types.len() >= MAX_LOOKED_AT || !seen.insert(id) || self.kind(id) == Some(SymbolKind::Interface) {
                continue;
            }
            types.push(id);
            open.extend(self.written_subs(id).into_iter().map(|(id, _)| id));
        }
        types
    }

    /// The types that a method returns, without their packages.
    fn result_names(&self, method: SymbolId) -> Vec<Box<str>> {
        let known = self.known(method.file);
        let results = known.uses(self.view(), method.file).results(self.view(), method.at);
        let name = |written: &str| Box::from(last_of(written).rsplit('.').next().unwrap_or(written));
        results.iter().map(|reference| name(&reference.name)).collect()
    }
}
