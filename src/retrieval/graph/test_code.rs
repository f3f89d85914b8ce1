//! What is a test: by the customs of paths and names in each language. Pure. Never reads a file.

use super::paths::{last_of, stem_of};
use super::{Graph, SymbolId};
use crate::retrieval::facts::SymbolKind;

/// Folders that hold tests.
const FOLDERS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "__tests__",
    "spec",
    "specs",
    "e2e",
    "testFixtures",
    "integration-tests",
];

/// Whether a file holds tests, by its path.
pub fn is_test_path(path: &str) -> bool {
    let mut folders = path.split('/');
    folders.next_back();
    if folders.any(|folder| FOLDERS.contains(&folder)) {
        return true;
    }
    let (last, stem) = (last_of(path), stem_of(path));
    let inner = stem.rsplit('.').next().unwrap_or_default();
    stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || stem == "conftest"
        || (stem.contains('.') && matches!(inner, "test" | "spec"))
        || matches!(last, "tests.rs" | "test.rs" | "test.py" | "tests.py")
        || (stem.ends_with("Test") || stem.ends_with("Tests") || stem.ends_with("Spec")) && stem.len() > 5
}

impl Graph {
    /// Whether a symbol is code of a test: of a file of tests, or of a module of tests in its file.
    pub fn is_test(&self, id: SymbolId) -> bool {
        if is_test_path(self.view().path(id.file)) {
            return true;
        }
        let known = self.known(id.file);
        known.holders(Some(id.at)).any(|holder| {
            known
                .symbol(holder)
                .is_some_and(|symbol| symbol.kind == SymbolKind::Module && matches!(&*symbol.name, "tests" | "test"))
        })
    }
}
