//! The program: starts the sandbox helper or the command line. Never contains anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(forgehand::sandbox::HELPER_COMMAND) {
        return forgehand::sandbox::helper_main(arguments.next().as_deref());
    }
    ExitCode::SUCCESS
}
