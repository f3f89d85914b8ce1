//! Which uses of names are worth keeping, and as what: by what the file defines, brings in and binds.
//! Never keeps a use of a local name.

use std::collections::{HashMap, HashSet};

use super::{Bound, MAX_NAME_BYTES, Sweep, Within};
use crate::code::extract::dialect::{Hiding, Visibility};
use crate::code::extract::found::Used;
use crate::code::extract::name;
use crate::code::extract::query::Use;
use crate::code::facts::{Facts, Reference, ReferenceKind, SymbolKind};
use crate::code::terms::Fast;

/// Puts the references into the facts, of all uses and what is around each.
pub fn references(sweep: &Sweep<'_>, uses: &[Used], places: &[Within], facts: &mut Facts) {
    let known = Known::of(sweep, facts);
    let references = uses.iter().zip(places);
    let references = references.filter_map(|(used, within)| known.reference(used, within));
    let references = references.collect();
    facts.references = references;
}

/// What names mean in a file.
struct Known<'a> {
    sweep: &'a Sweep<'a>,
    /// Names of symbols.
    defined: HashMap<&'a str, u32, Fast>,
    imported: HashSet<&'a str, Fast>,
}

impl<'a> Known<'a> {
    fn of(sweep: &'a Sweep<'a>, facts: &'a Facts) -> Self {
        let mut defined = HashMap::with_capacity_and_hasher(sweep.symbols.len(), Fast::default());
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
            sweep,
            defined,
            imported: imported.collect(),
        }
    }

    /// The reference that a use is, if it is one.
    fn reference(&self, used: &Used, within: &Within) -> Option<Reference> {
        if within.is_taken {
            return None;
        }
        let text = self.sweep.text;
        let name = used.name.of(text).trim_matches('`');
        if name.len() > MAX_NAME_BYTES || matches!(name, "" | "_" | "class") {
            return None;
        }
        let mut receiver = name::receiver(text, used.name.start as usize, self.sweep.dialect.separators);
        if self.sweep.dialect.name == "php" {
            receiver = receiver.map(|receiver| receiver.replace('$', "").into());
        }
        let last = receiver.as_deref();
        let last = last.map(|receiver| receiver.rsplit(['.', ':']).next().unwrap_or(receiver));
        let kind = self.kind(used, name, last, within)?;
        if receiver.is_none() && self.is_builtin(name) {
            return None;
        }
        let mut symbol = within.symbol;
        if let (ReferenceKind::Super, Some(scope)) = (kind, within.scope) {
            // `impl Trait for Type`: the type extends, wherever it is defined.
            let owner = self.sweep.frames[scope as usize].owner?.of(text);
            symbol = self.defined.get(owner).copied();
            receiver = Some(owner.into());
        }
        Some(Reference {
            name: name.into(),
            kind,
            line: used.line,
            within: symbol,
            receiver: receiver.map(|receiver| receiver.into_owned().into()),
        })
    }

    fn kind(&self, used: &Used, name: &str, receiver: Option<&str>, within: &Within) -> Option<ReferenceKind> {
        let rest = &self.sweep.text[used.name.end as usize..];
        match used.how {
            Use::Super => Some(ReferenceKind::Super),
            // An element of a list looks like a call to the grammar of Swift.
            Use::Call if rest.starts_with('[') && self.sweep.dialect.name == "swift" => {
                self.is_read(name, receiver, within).then_some(ReferenceKind::Read)
            }
            Use::Call => (!self.is_hidden(name, receiver, within)).then_some(ReferenceKind::Call),
            Use::Bare => {
                let is_call = !self.is_bound(name, within, |bound| bound.is_variable || bound.is_parameter);
                is_call.then_some(ReferenceKind::Call)
            }
            // `org.example.Type`: the packages are no types.
            Use::Type if rest.starts_with('.') && !name::is_capital(name) => None,
            Use::Type => {
                let is_parameter = receiver.is_none() && self.is_bound(name, within, |bound| bound.is_type);
                (!is_parameter).then_some(ReferenceKind::Type)
            }
            Use::Path => self.capital(name, within),
            Use::Token if rest.starts_with('(') || rest.starts_with("!(") => Some(ReferenceKind::Call),
            Use::Token => self.capital(name, within),
            Use::Element => (receiver.is_some() || name::is_capital(name)).then_some(ReferenceKind::Call),
            Use::Member => self.is_member(name, receiver?, within).then_some(ReferenceKind::Read),
            Use::Read if rest.starts_with("::") => self.capital(name, within),
            Use::Read => self.is_read(name, receiver, within).then_some(ReferenceKind::Read),
        }
    }

    /// What a name is that is written like a type or a constant.
    fn capital(&self, name: &str, within: &Within) -> Option<ReferenceKind> {
        if !name::is_capital(name) || self.is_bound(name, within, |_| true) {
            return None;
        }
        let symbol = self.defined.get(name).map(|at| self.sweep.symbols[*at as usize].kind);
        let is_constant = match symbol {
            Some(kind) => !kind.is_type() && kind != SymbolKind::Module,
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
        let is_visible = self.sweep.dialect.visibility == Visibility::Implicit
            || name::is_capital(name)
            || self.defined.contains_key(name)
            || self.imported.contains(name);
        is_visible && !self.is_bound(name, within, |_| true)
    }

    /// Whether a member is of a type or a module, or a constant of the type around.
    fn is_member(&self, name: &str, receiver: &str, within: &Within) -> bool {
        match receiver {
            "self" | "this" | "static" => name::is_capital(name),
            _ if name::is_capital(receiver) => true,
            _ => self.imported.contains(receiver) && !self.is_bound(receiver, within, |_| true),
        }
    }

    /// Whether what is called is local: a variable that holds a function.
    fn is_hidden(&self, name: &str, receiver: Option<&str>, within: &Within) -> bool {
        receiver.is_none()
            && match self.sweep.dialect.hiding {
                Hiding::Nothing => false,
                Hiding::Parameters => self.is_bound(name, within, |bound| bound.is_parameter),
                Hiding::Locals => self.is_bound(name, within, |bound| bound.is_parameter || bound.is_variable),
            }
    }

    fn is_builtin(&self, name: &str) -> bool {
        self.sweep.dialect.builtins.binary_search(&name).is_ok()
            && !self.defined.contains_key(name)
            && !self.imported.contains(name)
    }

    /// Whether a name is local where it is used.
    fn is_bound(&self, name: &str, within: &Within, counts: impl Fn(&Bound) -> bool) -> bool {
        let locals = &self.sweep.locals;
        if locals.is_empty() {
            return false;
        }
        let mut around = within.symbol;
        loop {
            if locals.get(&(name, around.unwrap_or(u32::MAX))).is_some_and(&counts) {
                return true;
            }
            match around {
                Some(at) => around = self.sweep.symbols[at as usize].parent,
                None => return false,
            }
        }
    }
}
