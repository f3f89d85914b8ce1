//! Who uses what: callers, callees, paths of calls, what a change reaches, who implements a type. Edges
//! are worked out when asked from names, imports, scopes and owners, and each says how sure it is.
//! Called by tools, the command line and the repository map. Never runs a compiler, never hides that a
//! name has several meanings, and never answers without a bound on work and length.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::facts::{Reference, ReferenceKind, Symbol, SymbolKind};
use super::view::{FileId, View};

mod candidate;
mod edge;
mod family;
mod kept;
mod known;
mod member;
mod module;
mod near;
mod paths;
mod receiver;
mod resolve;
mod scope;
mod shape;
mod test_code;
mod usage;
mod walk;

pub use near::Named;
pub use test_code::is_test_path;
pub use walk::{Impact, Reached};

use candidate::Candidates;
use family::Family;
use kept::Kept;
use known::Known;
use module::Modules;

/// Uses of one name that are looked at for one answer. Each costs a few microseconds.
pub const MAX_EXAMINED: usize = 2000;
/// Lines of the files that are kept in memory between questions, at about thirty bytes each.
const MAX_KNOWN: usize = 4_000_000;
/// Symbols that are kept by their names between questions.
const MAX_NAMES: usize = 400_000;
/// Types whose neighbours above and below are kept between questions.
const MAX_TYPES: usize = 100_000;

/// A symbol of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId {
    /// Its file.
    pub file: FileId,
    /// Its place in [`View::symbols`].
    pub at: u32,
}

/// How sure an edge is. The greater the surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certainty {
    /// The name fits, and so do other symbols, or nothing is known of what stands before it.
    Possible,
    /// One symbol fits by something that is right as a rule: the only one of its name, what a variable
    /// is called, a function that returns it.
    Likely,
    /// The rules of the language lead here: same scope, import, package, owner or declared type.
    Exact,
}

impl Certainty {
    /// Which share of such edges is right, roughly, as measured against compilers.
    pub fn share(self) -> f32 {
        match self {
            Self::Exact => 0.97,
            Self::Likely => 0.8,
            Self::Possible => 0.2,
        }
    }

    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// By which rule an edge was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Defined around the place of use.
    Scope,
    /// Imported by the file of the use.
    Import,
    /// Of the same package.
    Package,
    /// A member of the type around the use, or of a type that is named.
    Owner,
    /// A member of what that type extends.
    Inherited,
    /// A member of the type that a variable, field or result is declared with.
    Declared,
    /// A member of a type after which the variable is called.
    Named,
    /// The only one that fits.
    Only,
    /// A use of what it overrides or implements.
    Dispatch,
    /// The name alone.
    Name,
}

impl Why {
    /// Its words in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scope => "same scope",
            Self::Import => "import",
            Self::Package => "same package",
            Self::Owner => "owner",
            Self::Inherited => "inherited",
            Self::Declared => "declared type",
            Self::Named => "name of the variable",
            Self::Only => "only one of this name",
            Self::Dispatch => "through what it implements",
            Self::Name => "name only",
        }
    }
}

/// A use of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The file of the use.
    pub file: FileId,
    /// Its line.
    pub line: u32,
    /// The function around it, or what else is around it; nothing at the top of a file.
    pub from: Option<SymbolId>,
    /// What is used.
    pub to: SymbolId,
    /// How it is used.
    pub kind: ReferenceKind,
    /// How sure this is.
    pub certainty: Certainty,
    /// By which rule.
    pub why: Why,
    /// How many symbols fit, this one included.
    pub among: usize,
}

/// Edges, and what is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The surest first, then by file and line.
    pub edges: Vec<Edge>,
    /// Edges that were found and cut off.
    pub cut: usize,
    /// Uses of the name that were not looked at.
    pub unexamined: usize,
}

/// The symbols of names in a family of languages.
type ByName = Kept<Box<str>, Arc<Candidates>>;
/// Types with the types next to them.
type ByType<T> = Kept<SymbolId, Arc<[T]>>;

/// The graph of a view.
#[derive(Debug)]
pub struct Graph {
    view: Arc<View>,
    modules: OnceLock<Modules>,
    imports: OnceLock<usage::Imports>,
    known: Mutex<Kept<FileId, Arc<Known>>>,
    names: Mutex<HashMap<Family, ByName>>,
    supers: Mutex<ByType<SymbolId>>,
    subs: Mutex<ByType<(SymbolId, u32)>>,
}

impl Graph {
    /// The graph of a view. Nothing is read before the first question.
    pub fn of(view: Arc<View>) -> Self {
        Self {
            view,
            modules: OnceLock::new(),
            imports: OnceLock::new(),
            known: Mutex::new(Kept::new(MAX_KNOWN)),
            names: Mutex::default(),
            supers: Mutex::new(Kept::new(MAX_TYPES)),
            subs: Mutex::new(Kept::new(MAX_TYPES)),
        }
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The view, to keep.
    pub fn shared_view(&self) -> Arc<View> {
        self.view.clone()
    }

    /// A symbol.
    pub fn symbol(&self, id: SymbolId) -> Option<Symbol> {
        self.known(id.file).symbol(id.at).cloned()
    }

    /// A symbol's name behind that of its type or of the function that holds it: `Parser.parse`.
    pub fn full_name(&self, id: SymbolId) -> String {
        let known = self.known(id.file);
        let Some(symbol) = known.symbol(id.at) else {
            return String::new();
        };
        let mut name = symbol.name.to_string();
        if let Some(owner) = &symbol.owner {
            return format!("{owner}.{name}");
        }
        for holder in known.holders(Some(id.at)).skip(1).take(8) {
            if let Some(holder) = known.symbol(holder).filter(|holder| holder.kind != SymbolKind::Module) {
                name = format!("{}.{name}", holder.name);
            }
        }
        name
    }

    fn kind(&self, id: SymbolId) -> Option<SymbolKind> {
        self.known(id.file).symbol(id.at).map(|symbol| symbol.kind)
    }

    fn name_of(&self, id: SymbolId) -> Option<Box<str>> {
        self.known(id.file).symbol(id.at).map(|symbol| symbol.name.clone())
    }

    fn modules(&self) -> &Modules {
        self.modules.get_or_init(|| Modules::of(&self.view))
    }

    fn known(&self, file: FileId) -> Arc<Known> {
        if let Some(known) = lock(&self.known).get(&file) {
            return known;
        }
        let known = Arc::new(Known::of(&self.view, file));
        let weight = self.view.lines(file) as usize + 16;
        lock(&self.known).put(file, Arc::clone(&known), weight);
        known
    }

    fn reference(&self, file: FileId, at: u32) -> Option<Reference> {
        let known = self.known(file);
        known.uses(&self.view, file).get(&self.view, at)
    }

    fn candidates(&self, name: &str, family: Family) -> Arc<Candidates> {
        let kept = || Kept::new(MAX_NAMES);
        if let Some(candidates) = lock(&self.names).entry(family).or_insert_with(kept).get(name) {
            return candidates;
        }
        let candidates = Arc::new(self.read_candidates(name, family));
        let mut names = lock(&self.names);
        let names = names.entry(family).or_insert_with(kept);
        names.put(name.into(), Arc::clone(&candidates), candidates.all.len() + 4);
        candidates
    }

    fn remembered_supers(&self, of: SymbolId) -> Option<Arc<[SymbolId]>> {
        lock(&self.supers).get(&of)
    }

    fn remember_supers(&self, of: SymbolId, supers: &[SymbolId]) {
        lock(&self.supers).put(of, supers.into(), supers.len() + 1);
    }

    fn remembered_subs(&self, of: SymbolId) -> Option<Arc<[(SymbolId, u32)]>> {
        lock(&self.subs).get(&of)
    }

    fn remember_subs(&self, of: SymbolId, subs: &[(SymbolId, u32)]) {
        lock(&self.subs).put(of, subs.into(), subs.len() + 1);
    }
}

/// What is kept here is only a copy of the view, so a panic elsewhere cannot have broken it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
