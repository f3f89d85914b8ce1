//! All symbols of one name in one family of languages, with what holds them. Kept for a while, since
//! every use of the name asks for the same list. Never decides between them.

use std::ops::Deref;
use std::sync::Arc;

use super::family::Family;
use super::{Graph, SymbolId};
use crate::retrieval::facts::SymbolKind;

/// A symbol that a name may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: SymbolId,
    pub(super) kind: SymbolKind,
    /// The type it belongs to.
    pub(super) owner: Option<Box<str>>,
    /// What holds it, by name.
    pub(super) holder: Option<Box<str>>,
    /// Whether nothing but modules hold it.
    pub(super) top: bool,
    /// The owner's name as [`plain`] makes it.
    pub(super) plain_owner: Box<str>,
}

/// The symbols of one name.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// By file.
    pub(super) all: Vec<Candidate>,
    /// Those that belong to a type.
    pub(super) members: Arc<[SymbolId]>,
    /// Those of them that can be called; all of them when none can.
    pub(super) callable: Arc<[SymbolId]>,
}

impl Deref for Candidates {
    type Target = [Candidate];

    fn deref(&self) -> &[Candidate] {
        &self.all
    }
}

/// A name without its case and underscores, to be compared with others.
pub(super) fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// More symbols of one name than this are not told apart: `new`, `get`.
const MAX_CANDIDATES: usize = 20_000;

impl Graph {
    /// The symbols of a name, by file. Modules are found by their paths instead.
    pub(super) fn read_candidates(&self, name: &str, family: Family) -> Candidates {
        let mut found = Vec::new();
        let mut last = None;
        for (file, at) in self.view().defined(name).into_iter().take(MAX_CANDIDATES) {
            if Family::of(self.view().language(file)) != family {
                continue;
            }
            let known = match &last {
                Some((known_file, known)) if *known_file == file => Arc::clone(known),
                _ => self.known(file),
            };
            if let Some(symbol) = known.symbol(at) {
                let holder = symbol.parent.and_then(|parent| known.symbol(parent));
                found.push(Candidate {
                    id: SymbolId { file, at },
                    kind: symbol.kind,
                    plain_owner: known.owner(at).map_or_else(String::new, plain).into(),
                    owner: known.owner(at).map(Into::into),
                    holder: holder.map(|holder| holder.name.clone()),
                    top: known.is_top(at),
                });
            }
            last = Some((file, known));
        }
        found.sort_by_key(|candidate| candidate.id);
        let members = || found.iter().filter(|candidate| candidate.owner.is_some());
        let callable = |candidate: &&Candidate| candidate.kind.is_callable() || candidate.kind.is_type();
        let callable: Arc<[SymbolId]> = members().filter(callable).map(|candidate| candidate.id).collect();
        let members: Arc<[SymbolId]> = members().map(|candidate| candidate.id).collect();
        Candidates {
            callable: if callable.is_empty() { members.clone() } else { callable },
            members,
            all: found,
        }
    }
}
