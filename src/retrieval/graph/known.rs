//! What the graph keeps of a file while it works: its symbols, its imports by the name they have
//! here, and, when somebody asks, its uses of names. Filled from a view, forgotten at will.
//! Never reads a file itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use super::family::Family;
use super::module::Place;
use crate::retrieval::facts::{Import, Reference, ReferenceKind, Symbol, SymbolKind};
use crate::retrieval::segment::Use;
use crate::retrieval::view::{FileId, View};

/// A file as the graph reads it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) family: Family,
    pub(super) symbols: Vec<Symbol>,
    brought: OnceLock<Brought>,
    uses: OnceLock<Uses>,
}

/// What a file imports.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub(super) all: Vec<Import>,
    bound: HashMap<Box<str>, Vec<u32>>,
    stars: Vec<u32>,
    /// What each means, worked out when first asked for.
    places: Vec<OnceLock<Place>>,
}

/// The uses of names in a file. Their texts stay in the segment until somebody asks.
#[derive(Debug)]
pub(super) struct Uses {
    segment: u32,
    all: Vec<Use>,
    /// By type: what it extends or implements, by place in `all`.
    supers: Vec<(u32, u32)>,
    /// By variable, as the number of its text: where it is given a type, by place in `all`.
    typed: Vec<(u32, u32)>,
    /// Where in `typed` each variable is, by its text; read when first asked for.
    variables: OnceLock<HashMap<Box<str>, Range<usize>, RandomState>>,
    /// By function: the types of its result, by place in `all`.
    results: Vec<(u32, u32)>,
}

impl Known {
    pub(super) fn of(view: &View, file: FileId) -> Self {
        Self {
            family: Family::of(view.language(file)),
            symbols: view.symbols(file),
            brought: OnceLock::new(),
            uses: OnceLock::new(),
        }
    }

    /// What the file imports, read when first asked for.
    pub(super) fn brought(&self, view: &View, file: FileId) -> &Brought {
        self.brought
            .get_or_init(|| Brought::of(self.family, view.imports(file)))
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
        self.uses.get_or_init(|| Uses::of(view.uses(file)))
    }
}

impl Brought {
    fn of(family: Family, all: Vec<Import>) -> Self {
        let mut brought = Self {
            places: all.iter().map(|_| OnceLock::new()).collect(),
            ..Self::default()
        };
        for (at, import) in (0..).zip(&all) {
            for name in names_here(family, import) {
                brought.bound.entry(name.into()).or_default().push(at);
            }
            if is_star(family, import) {
                brought.stars.push(at);
            }
        }
        Self { all, ..brought }
    }

    /// The imports that give a name a meaning in this file, by their places.
    pub(super) fn bound(&self, name: &str) -> &[u32] {
        self.bound.get(name).map_or(&[], Vec::as_slice)
    }

    /// The imports that bring in all names of a module, by their places.
    pub(super) fn stars(&self) -> &[u32] {
        &self.stars
    }

    /// What an import means, worked out once.
    pub(super) fn place(&self, at: u32, of: impl FnOnce(&Import) -> Place) -> Option<(&Import, &Place)> {
        let (import, place) = (self.all.get(at as usize)?, self.places.get(at as usize)?);
        Some((import, place.get_or_init(|| of(import))))
    }
}

impl Uses {
    fn of((segment, all): (u32, Vec<Use>)) -> Self {
        let (mut supers, mut typed, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for (at, reference) in (0..).zip(&all) {
            match (reference.kind, reference.within, reference.receiver) {
                (ReferenceKind::Super, Some(within), _) => supers.push((within, at)),
                (ReferenceKind::Binding, _, Some(variable)) => typed.push((variable, at)),
                (ReferenceKind::Binding, Some(within), None) => results.push((within, at)),
                _ => {}
            }
        }
        for list in [&mut supers, &mut typed, &mut results] {
            list.sort_unstable();
        }
        Self {
            segment,
            all,
            supers,
            typed,
            variables: OnceLock::new(),
            results,
        }
    }

    /// How a use is one, without its texts.
    pub(super) fn kind(&self, at: u32) -> Option<ReferenceKind> {
        self.all.get(at as usize).map(|raw| raw.kind)
    }

    /// One use, with its texts.
    pub(super) fn get(&self, view: &View, at: u32) -> Option<Reference> {
        let raw = self.all.get(at as usize)?;
        let text = |id| Box::from(&*view.text(self.segment, id));
        Some(Reference {
            name: text(raw.name),
            kind: raw.kind,
            line: raw.line,
            within: raw.within,
            receiver: raw.receiver.map(text),
        })
    }

    /// All uses without their texts, by place.
    pub(super) fn raw(&self) -> impl Iterator<Item = (u32, &Use)> {
        (0..).zip(&self.all)
    }

    fn of_list(&self, view: &View, list: &[(u32, u32)], key: u32) -> Vec<Reference> {
        let from = list.partition_point(|(other, _)| *other < key);
        let same = list[from..].iter().take_while(|(other, _)| *other == key);
        same.filter_map(|(_, at)| self.get(view, *at)).collect()
    }

    /// What a type says that it extends or implements.
    pub(super) fn supers(&self, view: &View, of: u32) -> Vec<Reference> {
        self.of_list(view, &self.supers, of)
    }

    /// How many types a type says that it extends or implements.
    pub(super) fn super_count(&self, of: u32) -> usize {
        self.supers.iter().filter(|(other, _)| *other == of).count()
    }

    /// Where a variable is given a type.
    pub(super) fn typed(&self, view: &View, variable: &str) -> Vec<Reference> {
        let variables = self.variables.get_or_init(|| self.read_variables(view));
        let places = variables
            .get(variable)
            .map_or(&[][..], |range| &self.typed[range.clone()]);
        places.iter().filter_map(|(_, at)| self.get(view, *at)).collect()
    }

    fn read_variables(&self, view: &View) -> HashMap<Box<str>, Range<usize>, RandomState> {
        let mut variables = HashMap::default();
        let mut from = 0;
        for group in self.typed.chunk_by(|a, b| a.0 == b.0) {
            let text = view.text(self.segment, group[0].0);
            variables.insert(Box::from(&*text), from..from + group.len());
            from += group.len();
        }
        variables
    }

    /// The types that a function says it returns.
    pub(super) fn results(&self, view: &View, of: u32) -> Vec<Reference> {
        self.of_list(view, &self.results, of)
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
