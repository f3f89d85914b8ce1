//! Stories from outside: every test drives the program through its public doors.

mod databases;
mod receiver;
mod store;
