//! The folders of a run on this machine, and what a checkout says about how it is tested. Called
//! by `run` and by the cleaner. The calls here block on the disk: callers on a runtime wrap them in
//! `spawn_blocking`. Never follows a link that a sandbox left behind, and never runs anything.

mod detect;
mod folder;
mod remove;
mod setups;
mod stock;
mod trees;

pub use detect::{Commands, detect_commands};
pub use folder::{RunFolder, jobs_with_folders, mirror_path, publish_path, remove_all};
pub use setups::{Begun, SetupKey, Setups, tools_of_this_machine};
pub use trees::{Found, Trees};
