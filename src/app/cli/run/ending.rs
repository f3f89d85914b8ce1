//! How `forgehand run` ends, for scripts: one table of exit codes, of which the help is made and
//! which the README repeats. Never decides which one it is.

use std::process::ExitCode;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app::cli) enum Ending {
    /// The work is done, or there is none, or an unattended run was stopped.
    Done,
    /// No result, broken checks, or milestones that are blocked or stuck.
    NoResult,
    /// A limit or the circuit breaker stopped it.
    Limit,
    /// The model, the sandbox or git failed.
    Error,
    /// A work graph without milestones.
    Empty,
    /// Wrong usage, as in `sysexits.h`.
    Usage,
    /// Wrong configuration, as in `sysexits.h`.
    Config,
    /// A signal ended it at a terminal.
    Interrupted,
}

impl Ending {
    /// Every one, in the order of the table.
    const ALL: [Ending; 8] = [
        Ending::Done,
        Ending::NoResult,
        Ending::Limit,
        Ending::Error,
        Ending::Empty,
        Ending::Usage,
        Ending::Config,
        Ending::Interrupted,
    ];

    /// The exit code.
    pub(in crate::app::cli) const fn code(self) -> u8 {
        match self {
            Ending::Done => 0,
            Ending::NoResult => 2,
            Ending::Limit => 3,
            Ending::Error => 4,
            Ending::Empty => 5,
            Ending::Usage => 64,
            Ending::Config => 78,
            Ending::Interrupted => 130,
        }
    }

    /// What it means.
    const fn words(self) -> &'static str {
        match self {
            Ending::Done => "done, nothing to do, or stopped while nobody was there",
            Ending::NoResult => "no result, broken checks, something unfinished; milestones blocked or stuck",
            Ending::Limit => "stopped by a limit, or by the circuit breaker",
            Ending::Error => "the model, the sandbox or git failed",
            Ending::Empty => "the work graph is empty",
            Ending::Usage => "wrong usage",
            Ending::Config => "wrong configuration",
            Ending::Interrupted => "interrupted at a terminal, or left at once",
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}

/// The table, a line for each code.
pub(in crate::app::cli) fn table() -> String {
    let lines = Ending::ALL.map(|ending| format!("  {:<4} {}", ending.code(), ending.words()));
    lines.join("\n")
}
