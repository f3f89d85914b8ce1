//! Facts from what a query found: which symbol holds which, what a use names, what is local. One sweep
//! over places in the order of the text. Never sees a tree, so it is the same for all languages.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::binding::Binding;
use super::dialect::{Dialect, Visibility};
use super::name;
use super::query::Use;
use super::tree::{Found, Frame, Used, What};
use crate::code::facts::{Facts, Reference, ReferenceKind, Symbol, SymbolKind};

/// A longer name is data.
const MAX_NAME_BYTES: usize = 200;

/// Puts the symbols and references that were found into the facts; the imports are there already.
pub fn facts(dialect: &Dialect, text: &str, mut found: Found, facts: &mut Facts) {
    let frames = in_order(std::mem::take(&mut found.frames));
    let mut sweep = Sweep::new(dialect, text, &frames);
    found.uses.sort_unstable_by_key(|used| (used.name.start, used.pattern));
    found.uses.dedup_by_key(|used| used.name.start);
    found.locals.sort_unstable_by_key(|local| local.name.start);
    found.bindings.sort_by_key(|binding| binding.name.start);
    let mut bindings = found.bindings.iter().peekable();
    let mut bound = Vec::with_capacity(found.bindings.len());
    let mut within = vec![Within::default(); found.uses.len()];
    let mut uses = found.uses.iter().zip(&mut within).peekable();
    let mut locals = found.locals.iter().peekable();
    for at in 0..=frames.len() {
        let next = frames.get(at).map_or(usize::MAX, |frame| frame.range.start);
        // Uses and locals come in the order of the text, between the frames.
        while let Some((used, within)) = uses.next_if(|(used, _)| used.name.start < next) {
            *within = sweep.within(used.name.start);
        }
        while let Some(local) = locals.next_if(|local| local.name.start < next) {
            let around = sweep.within(local.name.start).symbol;
            sweep.add_local(&text[local.name.clone()], around, local.is_parameter);
        }
        while let Some(binding) = bindings.next_if(|binding| binding.name.start < next) {
            bound.extend(sweep.bound(binding));
        }
        if at < frames.len() {
            sweep.enter(at);
        }
    }
    let mut references = Vec::with_capacity(found.uses.len());
    let known = Known::of(dialect, &sweep, facts);
    for (used, within) in found.uses.iter().zip(&within) {
        references.extend(known.reference(used, within));
    }
    references.extend(bound);
    references.sort_by_key(|reference| reference.line);
    facts.symbols = sweep.symbols;
    facts.references = references;
}

/// Frames from outside to inside in the order of the text, each symbol once.
fn in_order(mut frames: Vec<Frame>) -> Vec<Frame> {
    let mut best: HashMap<usize, usize> = HashMap::new();
    for frame in &frames {
        if frame.what.is_symbol() {
            let pattern = best.entry(frame.name.start).or_insert(frame.pattern);
            *pattern = frame.pattern.min(*pattern);
        }
    }
    frames.retain(|frame| !frame.what.is_symbol() || best.get(&frame.name.start) == Some(&frame.pattern));
    frames.sort_by_key(|frame| {
        (
            frame.range.start,
            Reverse(frame.range.end),
            frame.what,
            frame.name.start,
        )
    });
    frames.dedup_by_key(|frame| (frame.range.start, frame.range.end, frame.what, frame.name.start));
    frames
}

/// What is around a place.
#[derive(Debug, Clone, Copy, Default)]
struct Within {
    /// The innermost symbol.
    symbol: Option<u32>,
    /// The innermost scope inside of it, by its frame.
    scope: Option<usize>,
    /// Whether it is inside of an import, or the name of a symbol.
    is_taken: bool,
}

struct Sweep<'a> {
    dialect: &'a Dialect,
    text: &'a str,
    frames: &'a [Frame],
    /// Frames around the place, with their symbol.
    stack: Vec<(usize, Option<u32>)>,
    symbols: Vec<Symbol>,
    /// Where names of symbols stand: these are no uses.
    names: HashSet<usize>,
    /// Local names, each with the symbol in which it is local, and whether it is a parameter.
    locals: HashMap<(&'a str, Option<u32>), bool>,
}

impl<'a> Sweep<'a> {
    fn new(dialect: &'a Dialect, text: &'a str, frames: &'a [Frame]) -> Self {
        let names = frames.iter().filter(|frame| !frame.name.is_empty());
        Self {
            dialect,
            text,
            frames,
            stack: Vec::new(),
            symbols: Vec::with_capacity(frames.len()),
            names: names.map(|frame| frame.name.start).collect(),
            locals: HashMap::new(),
        }
    }

    /// What is around a place that no frame begins before anymore.
    fn within(&mut self, at: usize) -> Within {
        while self
            .stack
            .last()
            .is_some_and(|(frame, _)| self.frames[*frame].range.end <= at)
        {
            self.stack.pop();
        }
        let mut within = Within {
            is_taken: self.names.contains(&at),
            ..Within::default()
        };
        for (frame, symbol) in self.stack.iter().rev() {
            match self.frames[*frame].what {
                What::Import => within.is_taken = true,
                What::Scope => within.scope = within.scope.or(Some(*frame)),
                What::Closure | What::Prototype | What::Symbol(_) => {}
            }
            if symbol.is_some() {
                within.symbol = *symbol;
                break;
            }
        }
        within
    }

    /// What a declaration says of a type.
    fn bound(&mut self, binding: &Binding) -> Option<Reference> {
        let name = self.text.get(binding.name.clone())?;
        if name.is_empty() || name.len().max(binding.written.len()) > MAX_NAME_BYTES {
            return None;
        }
        let mut within = self.within(binding.name.start).symbol;
        let symbol = within.and_then(|at| self.symbols.get(at as usize));
        let is_symbol = symbol.is_some_and(|symbol| *symbol.name == *name) && self.names.contains(&binding.name.start);
        // `self.parser = …` in a method says it of the type, for all of its methods.
        let before = name::before(self.text, binding.name.start, self.dialect.separators);
        if !is_symbol && before.is_some_and(|before| matches!(before, "self" | "this")) {
            within = symbol.and_then(|symbol| symbol.parent);
        }
        Some(Reference {
            name: binding.written.as_str().into(),
            kind: ReferenceKind::Binding,
            line: binding.line,
            within,
            receiver: (!is_symbol).then(|| name.into()),
        })
    }

    fn add_local(&mut self, name: &'a str, around: Option<u32>, is_parameter: bool) {
        *self.locals.entry((name, around)).or_default() |= is_parameter;
    }

    /// Goes into a frame; makes its symbol unless that is local.
    fn enter(&mut self, at: usize) {
        let frame = &self.frames[at];
        while let Some((top, _)) = self.stack.last() {
            let top = &self.frames[*top];
            let is_sibling = top.range == frame.range && top.what.is_symbol() && frame.what.is_symbol();
            if top.range.end <= frame.range.start || is_sibling {
                self.stack.pop();
            } else {
                break;
            }
        }
        let symbol = match frame.what {
            What::Symbol(kind) => self.symbol(frame, kind),
            What::Prototype => self.symbol(frame, SymbolKind::Function),
            What::Import | What::Scope | What::Closure => None,
        };
        self.stack.push((at, symbol));
    }

    fn symbol(&mut self, frame: &'a Frame, kind: SymbolKind) -> Option<u32> {
        let text = self.text;
        let name = text[frame.name.clone()].trim_matches(|c| matches!(c, '`' | '"' | '\'' | ':'));
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\n') {
            return None;
        }
        let around = self.around();
        if around.is_import {
            return None;
        }
        let is_plain = matches!(kind, SymbolKind::Variable | SymbolKind::Field) || frame.what == What::Prototype;
        if is_plain && around.is_local {
            self.add_local(name, around.symbol, false);
            return None;
        }
        let owner = frame.owner.clone().or(around.owner).map(|owner| &text[owner]);
        let owner = owner.or_else(|| self.written_owner(frame, kind));
        let is_member = around.is_type || owner.is_some();
        self.symbols.push(Symbol {
            name: name.into(),
            kind: match kind {
                SymbolKind::Function if is_member => SymbolKind::Method,
                SymbolKind::Variable if is_member => SymbolKind::Field,
                kind => kind,
            },
            line: frame.lines.0,
            end_line: frame.lines.1.max(frame.lines.0),
            parent: around.symbol,
            owner: owner.map(Into::into),
        });
        Some(self.symbols.len() as u32 - 1)
    }

    /// The type that stands before the name of a function: `Parser` of `Parser::parse` and of
    /// `Parser.prototype.parse`.
    fn written_owner(&self, frame: &Frame, kind: SymbolKind) -> Option<&'a str> {
        if !kind.is_callable() || !self.dialect.names_owners {
            return None;
        }
        let separators = self.dialect.separators;
        let mut owner = name::before(self.text, frame.name.start, separators)?;
        if owner == "prototype" {
            let at = owner.as_ptr() as usize - self.text.as_ptr() as usize;
            owner = name::before(self.text, at, separators)?;
        }
        (!matches!(owner, "self" | "this" | "exports" | "module")).then_some(owner)
    }

    fn around(&self) -> Around {
        let mut around = Around::default();
        for (frame, symbol) in self.stack.iter().rev() {
            let frame = &self.frames[*frame];
            match frame.what {
                What::Import => around.is_import = true,
                What::Closure => around.is_local = true,
                What::Scope if !around.is_local => around.owner = around.owner.or(frame.owner.clone()),
                What::Scope | What::Prototype | What::Symbol(_) => {}
            }
            if let Some(symbol) = symbol {
                let kind = self.symbols[*symbol as usize].kind;
                around.symbol = Some(*symbol);
                around.is_local |= kind.is_callable() && around.owner.is_none();
                around.is_type = kind.is_type() && !around.is_local;
                break;
            }
        }
        around
    }
}

/// What is around a definition.
#[derive(Default)]
struct Around {
    symbol: Option<u32>,
    owner: Option<std::ops::Range<usize>>,
    is_import: bool,
    is_local: bool,
    is_type: bool,
}

/// What names mean in this file.
struct Known<'a> {
    dialect: &'a Dialect,
    sweep: &'a Sweep<'a>,
    /// Names of symbols outside of functions.
    defined: HashMap<&'a str, u32>,
    imported: HashSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(dialect: &'a Dialect, sweep: &'a Sweep<'a>, facts: &'a Facts) -> Self {
        let mut defined = HashMap::with_capacity(sweep.symbols.len());
        for (at, symbol) in sweep.symbols.iter().enumerate() {
            if symbol.kind != SymbolKind::Module {
                defined.entry(&*symbol.name).or_insert(at as u32);
            }
        }
        let imported = facts.imports.iter().map(|import| {
            let name = import.alias.as_deref().or(import.name.as_deref());
            name.unwrap_or_else(|| {
                let module = &*import.module;
                module.rsplit(['/', '.', ':', '\\']).next().unwrap_or(module)
            })
        });
        Self {
            dialect,
            sweep,
            defined,
            imported: imported.collect(),
        }
    }

    /// The reference that a use is, if it is one.
    fn reference(&self, used: &Used, within: &Within) -> Option<Reference> {
        let text = self.sweep.text;
        let name = text[used.name.clone()].trim_matches('`');
        if within.is_taken || name.is_empty() || name == "_" || name.len() > MAX_NAME_BYTES {
            return None;
        }
        let receiver = name::receiver(text, used.name.start, self.dialect.separators);
        let receiver = receiver.as_deref();
        let last = receiver.map(|receiver| receiver.rsplit(['.', ':']).next().unwrap_or(receiver));
        let kind = self.kind(used, name, last, within)?;
        if receiver.is_none() && self.is_builtin(name) {
            return None;
        }
        let mut reference = Reference {
            name: name.into(),
            kind,
            line: used.line,
            within: within.symbol,
            receiver: receiver.map(Into::into),
        };
        if let (ReferenceKind::Super, Some(scope)) = (kind, within.scope) {
            // `impl Trait for Type`: the type extends, wherever it is defined.
            let owner = self.sweep.frames[scope].owner.clone().map(|owner| &text[owner])?;
            reference.within = self.defined.get(owner).copied();
            reference.receiver = Some(owner.into());
        }
        Some(reference)
    }

    fn kind(&self, used: &Used, name: &str, receiver: Option<&str>, within: &Within) -> Option<ReferenceKind> {
        let rest = &self.sweep.text[used.name.end..];
        match used.how {
            Use::Super => Some(ReferenceKind::Super),
            Use::Call => {
                let is_given = receiver.is_none() && self.local(name, within) == Some(true);
                (!is_given).then_some(ReferenceKind::Call)
            }
            Use::Type => {
                let is_local = receiver.is_none() && self.local(name, within).is_some();
                (!is_local).then_some(ReferenceKind::Type)
            }
            Use::Bare => {
                let is_call = self.local(name, within).is_none();
                is_call.then_some(ReferenceKind::Call)
            }
            Use::Path => self.capital(name, within),
            Use::Token if rest.starts_with('(') || rest.starts_with("!(") => Some(ReferenceKind::Call),
            Use::Token => self.capital(name, within),
            Use::Element => (receiver.is_some() || name::is_capital(name)).then_some(ReferenceKind::Call),
            Use::Member => {
                let is_known =
                    receiver.is_some_and(|receiver| name::is_capital(receiver) || self.is_module(receiver, within));
                is_known.then_some(ReferenceKind::Read)
            }
            Use::Read if rest.starts_with("::") => self.capital(name, within),
            Use::Read => self.is_read(name, receiver, within).then_some(ReferenceKind::Read),
        }
    }

    /// What a name is that is written like a type or a constant.
    fn capital(&self, name: &str, within: &Within) -> Option<ReferenceKind> {
        if !name::is_capital(name) || self.local(name, within).is_some() {
            return None;
        }
        let symbol = self.defined.get(name).map(|at| self.sweep.symbols[*at as usize].kind);
        let is_constant = match symbol {
            Some(kind) => !kind.is_type(),
            None => name.contains('_') && !name.contains(char::is_lowercase),
        };
        Some(if is_constant {
            ReferenceKind::Read
        } else {
            ReferenceKind::Type
        })
    }

    fn is_read(&self, name: &str, receiver: Option<&str>, within: &Within) -> bool {
        if receiver.is_some() {
            return true;
        }
        let is_visible = self.dialect.visibility == Visibility::Implicit
            || name::is_capital(name)
            || self.defined.contains_key(name)
            || self.imported.contains(name);
        is_visible && self.local(name, within).is_none()
    }

    fn is_module(&self, name: &str, within: &Within) -> bool {
        self.imported.contains(name) && self.local(name, within).is_none()
    }

    fn is_builtin(&self, name: &str) -> bool {
        self.dialect.builtins.binary_search(&name).is_ok()
            && !self.defined.contains_key(name)
            && !self.imported.contains(name)
    }

    /// Whether a name is local where it is used, and then whether it is a parameter.
    fn local(&self, name: &str, within: &Within) -> Option<bool> {
        let locals = &self.sweep.locals;
        if locals.is_empty() {
            return None;
        }
        let mut around = within.symbol;
        loop {
            if let Some(is_parameter) = locals.get(&(name, around)) {
                return Some(*is_parameter);
            }
            around = self.sweep.symbols[around? as usize].parent;
        }
    }
}
