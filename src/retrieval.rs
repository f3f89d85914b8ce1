//! Where in a repository a change belongs, and who uses what: symbols, references and words of every
//! file, kept by blob id, and the history of the repository, fused into one ranked answer. Called by
//! tools, by the brief of a run and from the command line. Never runs a program of the repository,
//! never waits for a cold index, and never fails because of one file.

pub mod apart;
pub mod code_search;
pub mod graph;
pub mod history;
pub mod index;
pub mod map;
pub mod query;
pub mod rank;
pub mod segment;
pub mod source;
pub mod view;

pub use crate::code::{extract, facts, terms};
