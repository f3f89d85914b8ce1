//! Stories from outside: every test drives the program through its public doors.

mod databases;
mod git;
mod github;
mod receiver;
mod sandbox;
mod store;
mod workspace;
