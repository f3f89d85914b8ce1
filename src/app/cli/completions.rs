//! `forgehand completions`. Never touches files; the shell's user redirects.

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: forgehand completions bash > ~/.local/share/bash-completion/completions/forgehand")]
pub(super) struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

pub(super) fn run(args: Args, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics when standard output goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "forgehand", &mut script);
    say!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(ExitCode::SUCCESS)
}
