//! Stories from outside: every test drives the program through its public doors.

mod databases;
mod store;
mod sandbox;
mod git;
mod workspace;
mod receiver;
