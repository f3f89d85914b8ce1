//! How results are printed: JSON for scripts, short lines for people. What is said while a run is
//! shown goes through its screen.
//! Never prints to standard error what belongs to the result.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};

use super::screen;

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
    if let Err(line) = screen::show_line(line.to_string()) {
        let line = match ERRORS_ARE_JSON.load(Ordering::Relaxed) {
            true => serde_json::json!({"events": "note", "text": line.trim()}).to_string(),
            false => line,
        };
        drop(writeln!(std::io::stderr().lock(), "{line}"));
    }
}

/// Standard error holds lines of JSON.
static ERRORS_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// From now on every line about the work is one of JSON, too.
pub(super) fn errors_are_json() {
    ERRORS_ARE_JSON.store(true, Ordering::Relaxed);
}

/// Standard error for whoever writes whole lines, such as logs.
pub(super) struct Errors;

impl std::io::Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        to_error(format_args!("{}", String::from_utf8_lossy(bytes).trim_end()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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
