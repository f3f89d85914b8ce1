//! How results are printed: JSON for scripts, short lines for people, progress on a terminal.
//! Never prints to standard error what belongs to the result.

use std::fmt::Arguments;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use chrono::{DateTime, Utc};
use indicatif::{ProgressBar, ProgressStyle};

/// A line of the result, on standard output.
macro_rules! say {
    () => { $crate::app::cli::show::to_output(format_args!("")) };
    ($($part:tt)*) => { $crate::app::cli::show::to_output(format_args!($($part)*)) };
}

/// A line about the work, on standard error.
macro_rules! note {
    ($($part:tt)*) => { $crate::app::cli::show::to_error(format_args!($($part)*)) };
}

/// A reader that went away (`forgehand jobs list | head -1`) is no reason to stop, let alone to
/// panic as `println!` does.
pub(super) fn to_output(line: Arguments<'_>) {
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

/// As [`to_output`].
pub(super) fn to_error(line: Arguments<'_>) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

/// Prints a value as pretty JSON.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    say!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// A time as people read it in a terminal.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A spinner on a terminal; elsewhere each message is a plain line on standard error.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar: Some(bar) }
    }

    /// What is going on right now.
    pub(super) fn now(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(message.to_owned()),
            None => note!("… {message}"),
        }
    }

    /// Something that stays on the screen.
    pub(super) fn line(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.println(message),
            None => note!("{message}"),
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
