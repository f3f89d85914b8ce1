//! The program: starts the sandbox helper or the command line. Never contains anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    forgehand::app::cli::main()
}
