//! What one file of code says: its symbols, references, imports and words. Called by retrieval for
//! every blob, and inside sandboxes for files that an agent edited. Pure functions of bytes and a
//! name. Never knows a repository or another file, and never parses without a limit.

pub mod extract;
pub mod facts;
pub mod terms;
pub use extract::{Extracted, facts_of};
