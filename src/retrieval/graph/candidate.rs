//! All symbols of one name in one family of languages, with what holds them. Kept for a while, since
//! every use of the name asks for the same list.

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
}

/// More symbols of one name than this are not told apart: `new`, `get`.
const MAX_CANDIDATES: usize = 20_000;

impl Graph {
    /// The symbols of a name, by file. Modules are found by their paths instead.
    pub(super) fn read_candidates(&self, name: &str, family: Family) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut last = None;
        for (file, at) in self.view().defined(name).into_iter().take(MAX_CANDIDATES) {
            if Family::of(self.view().language(file)) != family {
                continue;
            }
            let known = match &last {
                Some((known_file, known)) if *known_file == file => std::sync::Arc::clone(known),
                _ => self.known(file),
            };
            if let Some(symbol) = known.symbol(at) {
                let holder = symbol.parent.and_then(|parent| known.symbol(parent));
                found.push(Candidate {
                    id: SymbolId { file, at },
                    kind: symbol.kind,
                    owner: known.owner(at).map(Into::into),
                    holder: holder.map(|holder| holder.name.clone()),
                    top: known.is_top(at),
                });
            }
            last = Some((file, known));
        }
        found.sort_by_key(|candidate| candidate.id);
        found
    }
}
