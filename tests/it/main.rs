//! Stories from outside: every test drives the program through its public doors.
#![allow(clippy::disallowed_methods)] // tests read what tests/run tells them in the environment

mod agent;
mod aimock;
mod cli;
mod crash;
mod databases;
mod deploy;
mod git;
mod github;
mod model;
mod model_server;
mod net;
mod polling;
mod process;
mod publishing;
mod receiver;
mod retrieval;
mod sandbox;
mod service;
mod store;
mod story;
mod tidy;
mod tool;
mod workspace;
