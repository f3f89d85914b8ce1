//! Stories from outside: every test drives the program through its public doors.
#![allow(clippy::disallowed_methods)] // tests read what tests/run tells them in the environment

mod agent;
mod cli;
mod databases;
mod git;
mod github;
mod model;
mod model_server;
mod receiver;
mod sandbox;
mod store;
mod tidy;
mod workspace;
