//! Stories from outside: every test drives the program through its public doors.

mod databases;
mod git;
mod github;
mod receiver;
mod agent;
mod model;
mod model_server;
mod sandbox;
mod store;
mod workspace;
