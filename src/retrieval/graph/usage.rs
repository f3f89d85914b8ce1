//! Which file uses which, by imports, and the other names that imports give to symbols. Read once for
//! a view, when first asked for. Never resolves a symbol.

use std::collections::{BTreeSet, HashMap};

use super::edge::Work;
use super::family::Family;
use super::module::{From, Place};
use super::scope::Meaning;
use super::{Certainty, Graph, SymbolId};
use crate::retrieval::view::FileId;

/// Which files import which.
#[derive(Debug, Default)]
pub(super) struct Imports {
    users: HashMap<FileId, Vec<FileId>>,
}

/// Other names of a symbol that are looked for.
const MAX_ALIASES: usize = 16;
/// Uses that are resolved to find the users of one file.
const MAX_USES: usize = 2000;
/// Symbols of a file whose uses are looked for.
const MAX_SYMBOLS: usize = 64;

impl Graph {
    pub(super) fn imports(&self) -> &Imports {
        self.imports.get_or_init(|| self.read_imports())
    }

    /// The other names that imports give to a name.
    pub(super) fn aliases(&self, name: &str) -> BTreeSet<Box<str>> {
        let mut aliases = BTreeSet::new();
        let renamed = self.view().renamed(name);
        for places in renamed.chunk_by(|a, b| a.0 == b.0) {
            let imports = self.view().imports(places[0].0);
            let at = places.iter().filter_map(|(_, at)| imports.get(*at as usize));
            aliases.extend(at.filter_map(|import| import.alias.clone()));
            if aliases.len() > MAX_ALIASES {
                break;
            }
        }
        aliases.into_iter().take(MAX_ALIASES).collect()
    }

    fn read_imports(&self) -> Imports {
        let view = self.view();
        let mut read = Imports::default();
        for file in view.files() {
            let family = Family::of(view.language(file));
            let from = From {
                view,
                path: view.path(file),
                family,
            };
            for import in view.imports(file) {
                // A package of Go is a folder, which says nothing of a single file.
                if family == Family::Go {
                    continue;
                }
                if let Place::Inside(inside) = self.modules().place(from, &import.module) {
                    let child = import
                        .name
                        .as_deref()
                        .and_then(|name| self.modules().child(from, &inside, name));
                    let files = child.map_or(inside.files, |child| child.files);
                    for used in files.into_iter().filter(|used| *used != file).take(4) {
                        read.users.entry(used).or_default().push(file);
                    }
                }
            }
        }
        for users in read.users.values_mut() {
            users.dedup();
        }
        read
    }

    /// The files that import a file, or use what it defines, by path. At most `max`.
    pub fn used_by(&self, file: FileId, max: usize) -> Vec<FileId> {
        let mut users = self.imports().users.get(&file).cloned().unwrap_or_default();
        let known = self.known(file);
        let mut work = Work { uses: MAX_USES };
        let tops = (0..known.symbols.len() as u32).filter(|at| known.is_top(*at));
        for at in tops.take(MAX_SYMBOLS) {
            let edges = self.callers_within(SymbolId { file, at }, Certainty::Likely, &mut work);
            users.extend(edges.edges.into_iter().map(|edge| edge.file));
        }
        users.sort();
        users.dedup();
        users.retain(|user| *user != file);
        users.truncate(max);
        users
    }

    /// The files that import a file, at most `max`. Quicker than [`Self::used_by`], which also looks at
    /// uses of names.
    pub fn importers(&self, file: FileId, max: usize) -> Vec<FileId> {
        let users = self.imports().users.get(&file);
        users.into_iter().flatten().copied().take(max).collect()
    }

    /// The files that a file imports, or whose symbols it uses, by path. At most `max`.
    pub fn uses(&self, file: FileId, max: usize) -> Vec<FileId> {
        let known = self.known(file);
        let mut used = Vec::new();
        for import in 0..known.brought(self.view(), file).all.len() as u32 {
            match self.through(file, &known, import, 4) {
                Meaning::Symbols(ids, ..) => used.extend(ids.into_iter().map(|id| id.file)),
                Meaning::Module(inside) if known.family != Family::Go => used.extend(inside.files),
                Meaning::Module(_) | Meaning::Outside | Meaning::Lost(_) | Meaning::Nothing => {}
            }
        }
        let uses = known.uses(self.view(), file);
        for reference in uses
            .raw()
            .take(MAX_USES)
            .filter_map(|(at, _)| uses.get(self.view(), at))
        {
            if let super::resolve::Answer::At(ids, Certainty::Exact | Certainty::Likely, _) =
                self.resolve(file, &known, &reference)
            {
                used.extend(ids.into_iter().map(|id| id.file));
            }
        }
        used.sort();
        used.dedup();
        used.retain(|other| *other != file);
        used.truncate(max);
        used
    }
}
