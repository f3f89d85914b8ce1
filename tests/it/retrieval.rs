//! Retrieval on real repositories: the index over commits and edits, what it skips, and how it
//! survives damage, other processes and its limits.

mod bench;
mod fuzz;
mod graph;
mod index;
mod keep;
mod rank;
