//! What the graph keeps of a file while it works: its symbols, its imports by the name they have
//! here, and, when somebody asks, its uses of names. Filled from a view, forgotten at will.
//! Never reads a file itself.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::family::Family;
use crate::retrieval::facts::{Import, Reference, ReferenceKind, Symbol, SymbolKind};
use crate::retrieval::view::{FileId, View};

/// A file as the graph reads it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) family: Family,
    pub(super) symbols: Vec<Symbol>,
    pub(super) imports: Vec<Import>,
    bound: HashMap<Box<str>, Vec<u32>>,
    stars: Vec<u32>,
    uses: OnceLock<Uses>,
}

/// The uses of names in a file.
#[derive(Debug)]
pub(super) struct Uses {
    pub(super) all: Vec<Reference>,
    /// By type: what it extends or implements, by place in `all`.
    supers: HashMap<u32, Vec<u32>>,
    /// By variable: where it is given a type, by place in `all`.
    typed: HashMap<Box<str>, Vec<u32>>,
    /// By function: the types of its result, by place in `all`.
    results: HashMap<u32, Vec<u32>>,
}

impl Known {
    pub(super) fn of(view: &View, file: FileId) -> Self {
        let family = Family::of(view.language(file));
        let imports = view.imports(file);
        let mut bound: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut stars = Vec::new();
        for (at, import) in imports.iter().enumerate() {
            for name in names_here(family, import) {
                bound.entry(name.into()).or_default().push(at as u32);
            }
            if is_star(family, import) {
                stars.push(at as u32);
            }
        }
        Self {
            family,
            symbols: view.symbols(file),
            imports,
            bound,
            stars,
            uses: OnceLock::new(),
        }
    }

    /// The imports that give a name a meaning in this file.
    pub(super) fn bound(&self, name: &str) -> impl Iterator<Item = &Import> {
        let at = self.bound.get(name).map_or(&[][..], Vec::as_slice);
        at.iter().map(|at| &self.imports[*at as usize])
    }

    /// The imports that bring in all names of a module.
    pub(super) fn stars(&self) -> impl Iterator<Item = &Import> {
        self.stars.iter().map(|at| &self.imports[*at as usize])
    }

    /// A symbol.
    pub(super) fn symbol(&self, at: u32) -> Option<&Symbol> {
        self.symbols.get(at as usize)
    }

    /// The type that a symbol belongs to, by name.
    pub(super) fn owner(&self, at: u32) -> Option<&str> {
        let symbol = self.symbol(at)?;
        if let Some(owner) = &symbol.owner {
            return Some(owner);
        }
        let parent = self.symbol(symbol.parent?)?;
        parent.kind.is_type().then_some(&*parent.name)
    }

    /// Whether a symbol is reached by its name alone from outside of its file: nothing but modules
    /// hold it.
    pub(super) fn is_top(&self, at: u32) -> bool {
        self.symbol(at).is_some_and(|symbol| symbol.owner.is_none())
            && self.holders(Some(at)).skip(1).all(|holder| {
                self.symbol(holder)
                    .is_some_and(|holder| holder.kind == SymbolKind::Module)
            })
    }

    /// A symbol and what holds it, innermost first.
    pub(super) fn holders(&self, at: Option<u32>) -> impl Iterator<Item = u32> {
        let mut next = at;
        // A parent stands before its child, so this ends; damaged facts may say otherwise.
        std::iter::from_fn(move || {
            let at = next?;
            next = self
                .symbol(at)
                .and_then(|symbol| symbol.parent)
                .filter(|parent| *parent < at);
            Some(at)
        })
    }

    /// The type around a place: its name, and its symbol when it is in this file.
    pub(super) fn type_around(&self, within: Option<u32>) -> Option<(&str, Option<u32>)> {
        self.holders(within).find_map(|at| {
            let symbol = self.symbol(at)?;
            if let Some(owner) = &symbol.owner {
                return Some((&**owner, self.type_named(owner)));
            }
            let is_type = symbol.kind.is_type() && symbol.kind != SymbolKind::Alias;
            is_type.then_some((&*symbol.name, Some(at)))
        })
    }

    fn type_named(&self, name: &str) -> Option<u32> {
        let found = self
            .symbols
            .iter()
            .position(|symbol| symbol.kind.is_type() && *symbol.name == *name);
        found.map(|at| at as u32)
    }

    /// The uses of names, read when first asked for.
    pub(super) fn uses(&self, view: &View, file: FileId) -> &Uses {
        self.uses.get_or_init(|| Uses::of(view.references(file)))
    }
}

impl Uses {
    fn of(all: Vec<Reference>) -> Self {
        let mut supers: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut typed: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut results: HashMap<u32, Vec<u32>> = HashMap::new();
        for (at, reference) in all.iter().enumerate() {
            let at = at as u32;
            match (reference.kind, reference.within, &reference.receiver) {
                (ReferenceKind::Super, Some(within), _) => supers.entry(within).or_default().push(at),
                (ReferenceKind::Binding, _, Some(variable)) => typed.entry(variable.clone()).or_default().push(at),
                (ReferenceKind::Binding, Some(within), None) => results.entry(within).or_default().push(at),
                _ => {}
            }
        }
        Self {
            all,
            supers,
            typed,
            results,
        }
    }

    fn of_index<'a>(&'a self, at: Option<&'a Vec<u32>>) -> impl Iterator<Item = &'a Reference> {
        let at = at.map_or(&[][..], Vec::as_slice);
        at.iter().filter_map(|at| self.all.get(*at as usize))
    }

    /// What a type says that it extends or implements.
    pub(super) fn supers(&self, of: u32) -> impl Iterator<Item = &Reference> {
        self.of_index(self.supers.get(&of))
    }

    /// Where a variable is given a type.
    pub(super) fn typed(&self, variable: &str) -> impl Iterator<Item = &Reference> {
        self.of_index(self.typed.get(variable))
    }

    /// The types that a function says it returns.
    pub(super) fn results(&self, of: u32) -> impl Iterator<Item = &Reference> {
        self.of_index(self.results.get(&of))
    }
}

/// The names that an import gives to something in this file.
fn names_here(family: Family, import: &Import) -> Vec<&str> {
    if let Some(alias) = &import.alias {
        return vec![alias];
    }
    if let Some(name) = import.name.as_deref().filter(|name| *name != "*") {
        return match name {
            "self" => vec![last_part(family, &import.module)],
            name => vec![name],
        };
    }
    let last = last_part(family, &import.module);
    match family {
        // `import os.path` gives `os`; calls are written with the last part before the name.
        Family::Python => vec![import.module.split('.').next().unwrap_or_default(), last],
        Family::Go => go_names(last, &import.module),
        _ => vec![last],
    }
}

/// The names that a package of Go may have by its path: `v2` and `go-` do not belong to it.
fn go_names<'a>(last: &'a str, path: &'a str) -> Vec<&'a str> {
    let is_version = last.len() > 1 && last.starts_with('v') && last[1..].bytes().all(|byte| byte.is_ascii_digit());
    let last = if is_version {
        path.rsplit('/').nth(1).unwrap_or(last)
    } else {
        last
    };
    let mut names = vec![last];
    names.extend(last.strip_prefix("go-"));
    names.extend(last.strip_suffix("-go"));
    names.extend(last.split_once('.').map(|(name, _)| name));
    names
}

/// The last part of a module's path.
pub(super) fn last_part(family: Family, module: &str) -> &str {
    let last = match family {
        Family::Rust => module.rsplit("::").next(),
        Family::Python | Family::Jvm | Family::CSharp | Family::Swift => module.rsplit('.').next(),
        Family::Php => module.rsplit('\\').next(),
        Family::Go | Family::Script | Family::C | Family::Ruby | Family::Bash | Family::Other => {
            module.rsplit('/').next()
        }
    };
    last.unwrap_or(module)
}

/// Whether an import brings in everything.
fn is_star(family: Family, import: &Import) -> bool {
    match family {
        Family::Go => import.alias.as_deref() == Some("."),
        _ => import.alias.is_none() && import.name.as_deref().is_none_or(|name| name == "*"),
    }
}
