//! Forgehand.

// words
pub mod clock;
pub mod ids;
pub mod secret;
pub mod text;
// nouns
pub mod config;
pub mod effect;
pub mod event;
pub mod job;
pub mod repo_config;
// ports
pub mod git;
pub mod github;
pub mod model;
pub mod sandbox;
pub mod store;
// abilities
pub mod recorder;
// tools
pub mod tool;
// agent
pub mod agent;
// loops and doors
pub mod demo;
