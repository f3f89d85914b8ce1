//! The program: starts the sandbox helper or the command line. Never contains anything else.

fn main() {}
