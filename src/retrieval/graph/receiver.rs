//! What stands before a name: the type around it, a type, a module, a variable whose type is written
//! somewhere, or something nobody knows. Called for each use that has a receiver.
//! Never infers a type that is not written.

use super::family::Family;
use super::known::Known;
use super::module::{From, Inside, Place};
use super::scope::{At, Meaning};
use super::{Certainty, Graph, SymbolId, Why};
use crate::retrieval::facts::{Reference, SymbolKind};

/// How many steps are taken from a variable over what a function returns to a type.
const MAX_STEPS: u32 = 6;

/// Steps up from a type to where one of its fields is set.
const MAX_ABOVE: usize = 4;

/// What a receiver is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Receiver {
    /// A value of one of these types, or one of these types.
    Types(Vec<SymbolId>, Certainty, Why),
    /// A module.
    Module(Inside),
    /// Something that the repository does not define.
    Outside,
    /// Nobody knows.
    Unknown,
}

impl Graph {
    /// What a receiver is at a place.
    pub(super) fn receiver(&self, at: At<'_>, word: &str) -> Receiver {
        self.value(at, word, MAX_STEPS)
    }

    fn value(&self, at: At<'_>, word: &str, steps: u32) -> Receiver {
        if steps == 0 || word == "?" {
            return Receiver::Unknown;
        }
        if let Some(call) = word.strip_suffix("()") {
            return self.call(at, call, steps - 1);
        }
        if word.contains("::") {
            return self.path_value(at, word, steps - 1);
        }
        if let Some((outer, field)) = word.rsplit_once('.') {
            return self.field_of(at, outer, field, steps - 1);
        }
        if let Some(found) = self.declared(at, word, steps - 1) {
            return found;
        }
        if let Some(found) = self.field(at, word, steps - 1) {
            return found;
        }
        match self.meaning(at, word) {
            Meaning::Symbols(ids, certainty, why) => self.value_of(&ids, certainty, why, steps - 1),
            Meaning::Module(inside) => Receiver::Module(inside),
            Meaning::Outside => Receiver::Outside,
            Meaning::Lost(_) | Meaning::Nothing => Receiver::Unknown,
        }
    }

    /// A variable whose type, or what it was made by, is written where it is declared.
    fn declared(&self, at: At<'_>, word: &str, steps: u32) -> Option<Receiver> {
        let holders: Vec<u32> = at.known.holders(at.within).collect();
        let uses = at.known.uses(self.view(), at.file);
        let depth = |reference: &Reference| match reference.within {
            None => Some(holders.len()),
            Some(within) => holders.iter().position(|holder| *holder == within),
        };
        let typed = uses.typed(self.view(), word);
        let visible = typed
            .iter()
            .filter_map(|reference| Some((depth(reference)?, reference)));
        let visible: Vec<(usize, &Reference)> = visible.collect();
        let innermost = visible.iter().map(|(depth, _)| *depth).min()?;
        let here = visible.iter().filter(|(depth, _)| *depth == innermost);
        self.types_written(at, here.map(|(_, reference)| *reference), steps)
    }

    /// What the types that are written for one variable or function come to.
    fn types_written<'a>(
        &self,
        at: At<'_>,
        written: impl Iterator<Item = &'a Reference>,
        steps: u32,
    ) -> Option<Receiver> {
        let mut types = Vec::new();
        let mut worst = Certainty::Exact;
        let mut outside = false;
        let mut any = false;
        for reference in written.take(8) {
            any = true;
            let place = At {
                within: reference.within,
                ..at
            };
            match self.written(place, reference, steps) {
                Receiver::Types(ids, certainty, _) => {
                    worst = worst.min(certainty);
                    types.extend(ids);
                }
                Receiver::Outside => outside = true,
                Receiver::Module(_) | Receiver::Unknown => return Some(Receiver::Unknown),
            }
        }
        types.sort();
        types.dedup();
        match (any, types.is_empty()) {
            (false, _) => None,
            (true, true) if outside => Some(Receiver::Outside),
            (true, true) => Some(Receiver::Unknown),
            (true, false) => {
                let certainty = if types.len() == 1 && !outside {
                    worst
                } else {
                    worst.min(Certainty::Likely)
                };
                Some(Receiver::Types(types, certainty, Why::Declared))
            }
        }
    }

    /// What one written type, or the function whose result is given, comes to.
    fn written(&self, at: At<'_>, reference: &Reference, steps: u32) -> Receiver {
        if steps == 0 {
            return Receiver::Unknown;
        }
        if let Some(call) = reference.name.strip_suffix("()") {
            return self.call(at, call, steps - 1);
        }
        if at.known.family.is_own(&reference.name) {
            return self.own_type(at);
        }
        if let Some((module, name)) = reference.name.rsplit_once(['.', ':']) {
            return self.type_of_module(at, module.trim_end_matches(':'), name, steps - 1);
        }
        // `self.config = config`: what is written is a variable.
        if reference.receiver.is_some()
            && let Some(found) = self.declared(self.inside(at, reference.line), &reference.name, steps - 1)
        {
            return found;
        }
        match self.meaning(at, &reference.name) {
            Meaning::Symbols(ids, certainty, why) => self.value_of(&ids, certainty, why, steps),
            Meaning::Outside => Receiver::Outside,
            Meaning::Module(_) | Meaning::Lost(_) => Receiver::Unknown,
            // A type that strict rules do not find is one of the language itself, unless it is a
            // parameter of a generic.
            Meaning::Nothing if at.known.family.is_strict() && !is_generic(&reference.name) => Receiver::Outside,
            Meaning::Nothing => Receiver::Unknown,
        }
    }

    /// A type that is written behind its module or the type around it.
    fn type_of_module(&self, at: At<'_>, module: &str, name: &str, steps: u32) -> Receiver {
        match self.meaning(at, module) {
            Meaning::Module(inside) => {
                let ids = self.lookup(&inside, name, at.known.family, 4);
                self.value_of(&ids, Certainty::Exact, Why::Declared, steps)
            }
            Meaning::Outside => Receiver::Outside,
            Meaning::Symbols(ids, ..) => {
                let types: Vec<SymbolId> = ids.iter().flat_map(|id| self.members(*id, name)).collect();
                self.value_of(&types, Certainty::Exact, Why::Declared, steps)
            }
            Meaning::Lost(_) | Meaning::Nothing if at.known.family == Family::Go => Receiver::Outside,
            Meaning::Lost(_) | Meaning::Nothing => match self.types_meant(at, name) {
                types if types.is_empty() => Receiver::Unknown,
                types => Receiver::Types(types, Certainty::Exact, Why::Declared),
            },
        }
    }

    /// What a path of names comes to: `crate::text`, `text::Parser`.
    fn path_value(&self, at: At<'_>, path: &str, steps: u32) -> Receiver {
        let last = path.rsplit("::").next().unwrap_or(path);
        let first = path.split("::").next().unwrap_or(path);
        let place = match self.meaning(at, first) {
            Meaning::Outside => return Receiver::Outside,
            Meaning::Module(inside) if path.matches("::").count() == 1 => {
                let ids = self.lookup(&inside, last, at.known.family, 4);
                if !ids.is_empty() {
                    return self.value_of(&ids, Certainty::Exact, Why::Import, steps);
                }
                self.modules()
                    .child(self.from(at), &inside, last)
                    .map_or(Place::Unknown, Place::Inside)
            }
            _ => self.modules().place(self.from(at), path),
        };
        match place {
            Place::Outside => Receiver::Outside,
            Place::Unknown => self.value(at, last, steps),
            Place::Inside(inside) if inside.rest.is_empty() => Receiver::Module(inside),
            Place::Inside(mut inside) => {
                inside.rest.pop();
                let ids = self.lookup(&inside, last, at.known.family, 4);
                if ids.is_empty() {
                    self.value(at, last, steps)
                } else {
                    self.value_of(&ids, Certainty::Exact, Why::Import, steps)
                }
            }
        }
    }

    /// A field of a value, or a name of a module.
    fn field_of(&self, at: At<'_>, outer: &str, field: &str, steps: u32) -> Receiver {
        let on = match outer {
            "?" => Receiver::Unknown,
            outer if at.known.family.is_own(outer) => {
                // `self.parser = …` stands in a method of the same type.
                if let Some(found) = self.declared(at, field, steps) {
                    return found;
                }
                self.own_type(at)
            }
            outer => self.value(at, outer, steps),
        };
        match on {
            Receiver::Types(types, certainty, _) => {
                let mut ids: Vec<SymbolId> = types.iter().flat_map(|id| self.members_on(*id, field)).collect();
                ids.truncate(1);
                if ids.is_empty()
                    && let Some(Receiver::Types(found, known, why)) = self.attribute(&types, field, steps)
                {
                    return Receiver::Types(found, known.min(certainty), why);
                }
                self.value_of(&ids, certainty, Why::Declared, steps)
            }
            Receiver::Module(inside) => {
                let ids = self.lookup(&inside, field, at.known.family, 4);
                if !ids.is_empty() {
                    return self.value_of(&ids, Certainty::Exact, Why::Import, steps);
                }
                let child = self.modules().child(self.from(at), &inside, field);
                child.map_or(Receiver::Unknown, Receiver::Module)
            }
            Receiver::Outside => Receiver::Outside,
            Receiver::Unknown => Receiver::Unknown,
        }
    }

    /// What is written of a field that only the methods of its type set: `self.parser = Parser()`.
    fn attribute(&self, types: &[SymbolId], field: &str, steps: u32) -> Option<Receiver> {
        let mut level: Vec<SymbolId> = types.iter().copied().take(4).collect();
        for _ in 0..MAX_ABOVE {
            for id in &level {
                let known = self.known(id.file);
                let mut written = known.uses(self.view(), id.file).typed(self.view(), field);
                written.retain(|reference| reference.within == Some(id.at));
                let at = At {
                    file: id.file,
                    known: &known,
                    within: Some(id.at),
                };
                if let Some(found) = self.types_written(at, written.iter(), steps) {
                    return Some(found);
                }
            }
            level = level.iter().flat_map(|id| self.supers_of(*id)).take(16).collect();
        }
        None
    }

    fn from<'s>(&'s self, at: At<'_>) -> From<'s> {
        From {
            view: self.view(),
            path: self.view().path(at.file),
            family: at.known.family,
        }
    }

    /// The innermost symbol around a line: a type that is said of a field in a method is written there.
    fn inside<'k>(&self, at: At<'k>, line: u32) -> At<'k> {
        let symbols = at.known.symbols.iter().enumerate();
        let mut symbols = symbols;
        let innermost = symbols.rfind(|(_, symbol)| symbol.line <= line && line <= symbol.end_line);
        let innermost = innermost.map(|(at, _)| at as u32);
        At {
            within: innermost.or(at.within),
            ..at
        }
    }

    /// The value that a call gives; its function may have a receiver of its own.
    fn call(&self, at: At<'_>, call: &str, steps: u32) -> Receiver {
        let Some((receiver, function)) = call.rsplit_once('.') else {
            return self.result(at, call, steps);
        };
        if steps == 0 {
            return Receiver::Unknown;
        }
        let on = if at.known.family.is_own(receiver) {
            self.own_type(at)
        } else {
            self.value(at, receiver, steps - 1)
        };
        match on {
            Receiver::Types(types, certainty, _) => {
                let mut ids: Vec<SymbolId> = types.iter().flat_map(|id| self.members_on(*id, function)).collect();
                ids.truncate(1);
                match ids.is_empty() {
                    // `Parser::default()`: what makes a value of a type is called on it.
                    true if starts_capital(receiver) => Receiver::Types(types, Certainty::Likely, Why::Declared),
                    true => Receiver::Unknown,
                    false => self.value_of(&ids, certainty, Why::Declared, steps - 1),
                }
            }
            Receiver::Module(inside) => {
                let ids = self.lookup(&inside, function, at.known.family, 4);
                self.value_of(&ids, Certainty::Exact, Why::Declared, steps - 1)
            }
            Receiver::Outside => Receiver::Outside,
            Receiver::Unknown => self.result_by_name(at, function, steps - 1),
        }
    }

    /// The value that a call of this function gives.
    fn result(&self, at: At<'_>, function: &str, steps: u32) -> Receiver {
        if steps == 0 {
            return Receiver::Unknown;
        }
        if at.known.family.is_own(function) || at.known.family.is_above(function) {
            return self.own_type(at);
        }
        match self.meaning(at, function) {
            Meaning::Symbols(ids, certainty, why) => self.value_of(&ids, certainty, why, steps),
            Meaning::Outside => Receiver::Outside,
            Meaning::Module(_) => Receiver::Unknown,
            Meaning::Lost(_) | Meaning::Nothing => self.result_by_name(at, function, steps),
        }
    }

    /// What all functions of this name return, when they agree.
    fn result_by_name(&self, at: At<'_>, function: &str, steps: u32) -> Receiver {
        let candidates = self.candidates(function, at.known.family);
        let callable: Vec<SymbolId> = candidates
            .iter()
            .filter(|candidate| candidate.kind.is_callable())
            .map(|candidate| candidate.id)
            .collect();
        if callable.is_empty() || callable.len() > 12 {
            return Receiver::Unknown;
        }
        let mut agreed: Option<Receiver> = None;
        for id in callable {
            let this = match self.value_of(&[id], Certainty::Likely, Why::Declared, steps) {
                Receiver::Types(ids, ..) => Receiver::Types(ids, Certainty::Likely, Why::Declared),
                Receiver::Outside | Receiver::Module(_) | Receiver::Unknown => return Receiver::Unknown,
            };
            if agreed.as_ref().is_some_and(|agreed| *agreed != this) {
                return Receiver::Unknown;
            }
            agreed = Some(this);
        }
        agreed.unwrap_or(Receiver::Unknown)
    }

    /// A value of these symbols: of a type itself, of what a function returns, of a variable's type.
    fn value_of(&self, ids: &[SymbolId], certainty: Certainty, why: Why, steps: u32) -> Receiver {
        let types: Vec<SymbolId> = ids
            .iter()
            .copied()
            .filter(|id| self.kind(*id).is_some_and(SymbolKind::is_type))
            .collect();
        if !types.is_empty() {
            return Receiver::Types(types, certainty, why);
        }
        let Some(id) = ids.first().copied().filter(|_| steps > 0) else {
            return Receiver::Unknown;
        };
        let known = self.known(id.file);
        let place = At {
            file: id.file,
            known: &known,
            within: Some(id.at),
        };
        let written = known.uses(self.view(), id.file).results(self.view(), id.at);
        match self.types_written(place, written.iter(), steps - 1) {
            Some(Receiver::Types(types, known, why)) => Receiver::Types(types, known.min(certainty), why),
            Some(other) => other,
            // `enum` values have the type that holds them.
            None if known
                .symbol(id.at)
                .is_some_and(|symbol| symbol.kind == SymbolKind::Variant) =>
            {
                self.own_type(place)
            }
            None => Receiver::Unknown,
        }
    }

    /// A field of the type around a place, or of the only type that has one of this name.
    fn field(&self, at: At<'_>, word: &str, steps: u32) -> Option<Receiver> {
        let candidates = self.candidates(word, at.known.family);
        let fields = candidates
            .iter()
            .filter(|candidate| candidate.kind == SymbolKind::Field);
        let fields: Vec<_> = fields.take(64).collect();
        if fields.is_empty() {
            return None;
        }
        if let Receiver::Types(types, ..) = self.own_type(at)
            && let Some(own) = types.first()
        {
            let mut members = self.members_on(*own, word);
            members.retain(|id| self.kind(*id) == Some(SymbolKind::Field));
            if !members.is_empty() {
                return Some(self.value_of(&members[..1], Certainty::Exact, Why::Declared, steps));
            }
        }
        None
    }

    /// The type around a place.
    pub(super) fn own_type(&self, at: At<'_>) -> Receiver {
        let Some((name, here)) = at.known.type_around(at.within) else {
            return Receiver::Unknown;
        };
        if let Some(here) = here {
            let id = SymbolId {
                file: at.file,
                at: here,
            };
            return Receiver::Types(vec![id], Certainty::Exact, Why::Owner);
        }
        let types = self.types_meant(At { within: None, ..at }, name);
        if types.is_empty() {
            Receiver::Unknown
        } else {
            Receiver::Types(types, Certainty::Exact, Why::Owner)
        }
    }

    /// Whether a type is used as a value of which the repository may not know all members: something
    /// above it is not in the repository.
    pub(super) fn is_open(&self, of: SymbolId) -> bool {
        let known: std::sync::Arc<Known> = self.known(of.file);
        let written = known.uses(self.view(), of.file).super_count(of.at);
        written > self.supers_of(of).len()
    }
}

/// Whether a type's name is that of a parameter as people choose it: `T`, `ID`, `Fut`.
fn is_generic(name: &str) -> bool {
    name.len() <= 2 || name == "Fut"
}

fn starts_capital(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}
