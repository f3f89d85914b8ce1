//! How far something long is: a bar on a terminal, lines elsewhere, on standard error.
//! Never shows anything of what is over before somebody could read it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The bar moves as often as the eye follows; a log gets a line now and then.
const BAR_PAUSE: Duration = Duration::from_millis(80);
const LINE_PAUSE: Duration = Duration::from_secs(3);

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Progress,
    Nothing,
}

/// A bar.
pub(super) struct Bar {
    show: Show,
    /// What is done, as in `indexing`.
    what: &'static str,
    /// To what, as in `files`.
    things: &'static str,
    is_terminal: bool,
    last: Mutex<Option<Instant>>,
}

impl Bar {
    pub(super) fn new(show: Show, what: &'static str, things: &'static str) -> Self {
        Self {
            show,
            what,
            things,
            is_terminal: std::io::stderr().is_terminal(),
            last: Mutex::new(None),
        }
    }

    pub(super) fn show(&self, done: usize, all: usize) {
        if self.show == Show::Nothing {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = if self.is_terminal { BAR_PAUSE } else { LINE_PAUSE };
        let now = Instant::now();
        // What has little to do says nothing of it.
        match *last {
            None => *last = Some(now),
            Some(before) if now.duration_since(before) >= pause => {
                *last = Some(now);
                self.draw(done, all);
            }
            Some(_) => {}
        }
    }

    fn draw(&self, done: usize, all: usize) {
        let (what, things) = (self.what, self.things);
        if !self.is_terminal {
            note!("{what}: {done} of {all} {things}");
            return;
        }
        let width = 24;
        let filled = (done * width).checked_div(all).unwrap_or(width).min(width);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(width - filled));
        let mut out = std::io::stderr().lock();
        drop(write!(out, "\r\x1b[K{what} {bar} {done}/{all} {things}"));
        drop(out.flush());
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if self.is_terminal && self.show == Show::Progress {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K"));
        }
    }
}
