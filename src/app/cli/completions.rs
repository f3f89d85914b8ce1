//! `forgehand completions`. Never touches files; the shell's user redirects.

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which shell.
    shell: clap_complete::Shell,
}

pub(super) fn run(args: Args, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, command, "forgehand", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
