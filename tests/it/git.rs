//! Host git against a real server: mirrors, checkouts, imports, pushes, and the hostile
//! repositories of the abuse cases.

pub mod bench;
mod hostile;
mod merge;
mod mirror;
mod push;
mod server;
