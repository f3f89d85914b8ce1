//! Facts from what a query found: which symbol holds which, what is local, what a use names. One sweep
//! over places in the order of the text. Never sees a tree, so it is the same for all languages.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use super::binding::Binding;
use super::dialect::Dialect;
use super::found::{Found, Frame, Place, What};
use super::name;
use super::query::LocalKind;
use crate::code::facts::{Facts, Reference, ReferenceKind, Symbol, SymbolKind};
use crate::code::terms::Fast;

mod known;

/// A longer name is data.
const MAX_NAME_BYTES: usize = 200;

/// Puts the symbols and references that were found into the facts; the imports are there already.
pub fn facts(dialect: &Dialect, text: &str, mut found: Found, facts: &mut Facts) {
    let frames = in_order(std::mem::take(&mut found.frames));
    found.uses.sort_by_key(|used| (used.name.start, used.pattern));
    found.uses.dedup_by_key(|used| used.name.start);
    found.locals.sort_by_key(|local| local.name.start);
    found.bindings.sort_by_key(|binding| binding.name.start);
    let mut bindings = found.bindings.iter().peekable();
    let mut bound = Vec::with_capacity(found.bindings.len());
    let mut sweep = Sweep::new(dialect, text, &frames);
    sweep.locals.reserve(found.locals.len());
    let mut places = Vec::with_capacity(found.uses.len());
    let mut locals = found.locals.iter().peekable();
    let mut uses = found.uses.iter().peekable();
    for at in 0..=frames.len() {
        let next = frames.get(at).map_or(u32::MAX, |frame| frame.range.start);
        // Names come in the order of the text, between the frames.
        loop {
            let local = locals.peek().map_or(u32::MAX, |local| local.name.start);
            let binding = bindings.peek().map_or(u32::MAX, |binding| binding.name.start as u32);
            let used = uses.peek().map_or(u32::MAX, |used| used.name.start);
            let first = local.min(binding).min(used);
            if first >= next {
                break;
            } else if first == local {
                if let Some(local) = locals.next() {
                    sweep.bind(local.name, local.binding);
                }
            } else if first == binding {
                bound.extend(bindings.next().and_then(|binding| sweep.bound(binding)));
            } else {
                uses.next();
                places.push(sweep.within(used));
            }
        }
        if at < frames.len() {
            sweep.enter(at);
        }
    }
    known::references(&sweep, &found.uses, &places, facts);
    facts.references.extend(bound);
    facts.references.sort_by_key(|reference| reference.line);
    facts.symbols = sweep.symbols;
}

/// Frames from outside to inside in the order of the text, each symbol once.
fn in_order(frames: Vec<Frame>) -> Vec<Frame> {
    let (mut symbols, mut all): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame.what.is_symbol());
    symbols.sort_by_key(|frame| (frame.name.start, frame.pattern));
    symbols.dedup_by_key(|frame| frame.name.start);
    all.append(&mut symbols);
    all.sort_by_key(|frame| {
        (
            frame.range.start,
            Reverse(frame.range.end),
            frame.what,
            frame.name.start,
        )
    });
    all.dedup_by_key(|frame| (frame.range, frame.what, frame.name.start));
    all
}

/// What is around a place.
#[derive(Debug, Clone, Copy, Default)]
struct Within {
    /// The innermost symbol.
    symbol: Option<u32>,
    /// The innermost scope inside of it, by its frame.
    scope: Option<u32>,
    /// Whether it is inside of an import, or the name of a symbol.
    is_taken: bool,
}

/// What is local under a name.
#[derive(Debug, Clone, Copy, Default)]
struct Bound {
    is_variable: bool,
    is_parameter: bool,
    is_type: bool,
}

struct Sweep<'a> {
    dialect: &'a Dialect,
    text: &'a str,
    frames: &'a [Frame],
    /// Where names of symbols begin, in order, and how many lie behind: these are no uses.
    names: Vec<u32>,
    passed: usize,
    /// Frames around the place, with their symbol.
    stack: Vec<(usize, Option<u32>)>,
    symbols: Vec<Symbol>,
    /// Local names, each with the symbol in which it is local.
    locals: HashMap<(&'a str, u32), Bound, Fast>,
}

impl<'a> Sweep<'a> {
    fn new(dialect: &'a Dialect, text: &'a str, frames: &'a [Frame]) -> Self {
        let names = frames.iter().filter(|frame| frame.what.is_symbol());
        let mut names: Vec<u32> = names.map(|frame| frame.name.start).collect();
        names.sort_unstable();
        Self {
            dialect,
            text,
            frames,
            symbols: Vec::with_capacity(names.len()),
            names,
            passed: 0,
            stack: Vec::new(),
            locals: HashMap::default(),
        }
    }

    /// What is around a place; places come in their order.
    fn within(&mut self, at: u32) -> Within {
        while self.names.get(self.passed).is_some_and(|name| *name < at) {
            self.passed += 1;
        }
        let mut within = Within {
            is_taken: self.names.get(self.passed) == Some(&at),
            ..Within::default()
        };
        self.leave(at);
        for (frame, symbol) in self.stack.iter().rev() {
            match self.frames[*frame].what {
                What::Import => within.is_taken = true,
                What::Scope => within.scope = within.scope.or(Some(*frame as u32)),
                What::Closure | What::Prototype | What::Promoted | What::Symbol(_) => {}
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
        let start = binding.name.start as u32;
        self.leave(start);
        let mut within = self.stack.iter().rev().find_map(|(_, symbol)| *symbol);
        let symbol = within.and_then(|at| self.symbols.get(at as usize));
        let is_symbol = symbol.is_some_and(|symbol| *symbol.name == *name) && self.names.binary_search(&start).is_ok();
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

    fn leave(&mut self, at: u32) {
        while self
            .stack
            .last()
            .is_some_and(|(frame, _)| self.frames[*frame].range.end <= at)
        {
            self.stack.pop();
        }
    }

    /// Makes a name local where it stands.
    fn bind(&mut self, name: Place, binding: LocalKind) {
        self.leave(name.start);
        let around = self.stack.iter().rev().find_map(|(_, symbol)| *symbol);
        self.bind_in(name.of(self.text), around, binding);
    }

    fn bind_in(&mut self, name: &'a str, around: Option<u32>, binding: LocalKind) {
        let bound = self.locals.entry((name, around.unwrap_or(u32::MAX))).or_default();
        match binding {
            LocalKind::Variable => bound.is_variable = true,
            LocalKind::Parameter => bound.is_parameter = true,
            LocalKind::Type => bound.is_type = true,
        }
    }

    /// Goes into a frame; makes its symbol unless that is local.
    fn enter(&mut self, at: usize) {
        let frame = &self.frames[at];
        self.leave(frame.range.start);
        // Several names of one declaration stand beside each other, not in each other.
        while let Some((top, _)) = self.stack.last() {
            let top = &self.frames[*top];
            if top.range == frame.range && top.what.is_symbol() && frame.what.is_symbol() {
                self.stack.pop();
            } else {
                break;
            }
        }
        let symbol = match frame.what {
            What::Symbol(kind) => self.symbol(frame, kind),
            What::Prototype => self.symbol(frame, SymbolKind::Function),
            What::Promoted => self.symbol(frame, SymbolKind::Field),
            What::Import | What::Scope | What::Closure => None,
        };
        self.stack.push((at, symbol));
    }

    fn symbol(&mut self, frame: &'a Frame, kind: SymbolKind) -> Option<u32> {
        let name = name_of(frame, self.text)?;
        let mut around = self.around();
        if around.is_import {
            return None;
        }
        if frame.what == What::Promoted {
            around = self.around_constructor(&around)?;
        }
        let is_plain = matches!(kind, SymbolKind::Variable | SymbolKind::Field) || frame.what == What::Prototype;
        if is_plain && around.is_local {
            self.bind_in(frame.name.of(self.text), around.symbol, LocalKind::Variable);
            return None;
        }
        let owner = frame.owner.or(around.owner).map(|owner| owner.of(self.text));
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
        let mut owner = name::before(self.text, frame.name.start as usize, separators)?;
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
                What::Scope if !around.is_local => around.owner = around.owner.or(frame.owner),
                What::Scope | What::Prototype | What::Promoted | What::Symbol(_) => {}
            }
            if let Some(symbol) = symbol {
                let kind = self.symbols[*symbol as usize].kind;
                around.symbol = Some(*symbol);
                around.is_local |= kind.is_callable() && around.owner.is_none();
                around.is_type = !around.is_local && self.has_members(kind);
                break;
            }
        }
        around
    }

    /// The type around the constructor that is around a place.
    fn around_constructor(&self, around: &Around) -> Option<Around> {
        let class = self.symbols[around.symbol? as usize].parent?;
        Some(Around {
            symbol: Some(class),
            is_type: true,
            ..Around::default()
        })
    }

    fn has_members(&self, kind: SymbolKind) -> bool {
        let is_mixin = kind == SymbolKind::Module && self.dialect.name == "ruby";
        kind.is_type() || kind == SymbolKind::Variant || is_mixin
    }
}

/// What is around a definition.
#[derive(Default)]
struct Around {
    symbol: Option<u32>,
    owner: Option<Place>,
    is_import: bool,
    is_local: bool,
    is_type: bool,
}

fn name_of<'a>(frame: &Frame, text: &'a str) -> Option<Cow<'a, str>> {
    let name = frame.name.of(text);
    let name = match name.strip_prefix('(') {
        Some(arguments) => made_by_macro(arguments).into(),
        None => Cow::from(name.trim_matches(|c| matches!(c, '`' | '"' | '\'' | ':'))),
    };
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains('\n')).then_some(name)
}

/// The name of what a macro defines: `Ring.Grows` of `TEST(Ring, Grows)`, `read` of
/// `SYSCALL_DEFINE3(read, unsigned int, fd)`.
fn made_by_macro(arguments: &str) -> String {
    let mut names = arguments.split([',', ')']).map(str::trim);
    let is_name =
        |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let first = names.next().filter(is_name).unwrap_or_default();
    let second = names.next().filter(is_name);
    match second {
        Some(second) if second.starts_with(|c: char| c.is_uppercase()) => format!("{first}.{second}"),
        _ => first.to_owned(),
    }
}
