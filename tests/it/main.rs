//! Stories from outside: every test drives the program through its public doors.

mod agent;
mod model;
mod model_server;
mod sandbox;
