//! The one place of standard error while a run goes on: a thread that shows what it is told, and
//! that others' lines (notes, logs) go through as well. Called by `run` and `demo`.
//! Never makes whoever tells it something wait, and never writes to standard output.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::progress::{Limits, Telling};
use crate::event::Event;
use crate::model::{Delta, Live};
use crate::secret::Redactor;

pub(super) mod canvas;
pub(super) mod paint;

use canvas::{Canvas, Kind};
use paint::Paint;

/// Time between two movements of the spinner.
const TICK: Duration = Duration::from_millis(120);
/// Longest wait for a terminal that takes nothing any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) kind: Kind,
    pub(super) paint: Paint,
    /// Whether the model's reasoning is shown whole.
    pub(super) reasoning: Reasoning,
}

/// What is shown of a model's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reasoning {
    Folded,
    Shown,
}

impl Look {
    /// What suits standard error.
    pub(super) fn of_errors() -> Self {
        let is_terminal = std::io::stderr().is_terminal() && !has_variable("TERM", |value| value == "dumb");
        let (kind, paint) = match (is_terminal, wants_colour()) {
            (true, true) => (Kind::Terminal, Paint::Coloured),
            (true, false) => (Kind::Terminal, Paint::Plain),
            (false, _) => (Kind::Lines, Paint::Plain),
        };
        Self {
            kind,
            paint,
            reasoning: Reasoning::Folded,
        }
    }
}

/// Colours of the result on standard output.
pub(super) fn paint_of_output() -> Paint {
    if std::io::stdout().is_terminal() && wants_colour() {
        Paint::Coloured
    } else {
        Paint::Plain
    }
}

/// <https://no-color.org>: set and not empty.
fn wants_colour() -> bool {
    !has_variable("NO_COLOR", |value| !value.is_empty()) && !has_variable("TERM", |value| value == "dumb")
}

#[allow(clippy::disallowed_methods)] // the command line is where the environment is read
fn has_variable(name: &str, is: impl Fn(&std::ffi::OsStr) -> bool) -> bool {
    std::env::var_os(name).is_some_and(|value| is(&value))
}

/// Columns of the terminal behind standard error.
pub(super) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// What the thread is told.
enum Happening {
    Event(Box<Event>),
    Text(String),
    Reasoning(String),
    Restarted,
    /// A line of somebody else.
    Line(String),
    /// The bottom rows go and everything waits until [`Happening::Back`]; then the answer is sent.
    Aside(Sender<()>),
    Back,
    /// The end; then the answer is sent.
    Leave(Sender<()>),
}

/// The way to the screen that is there; one at most, since there is one standard error.
static ACTIVE: Mutex<Option<Sender<Happening>>> = Mutex::new(None);

fn active() -> MutexGuard<'static, Option<Sender<Happening>>> {
    ACTIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Shows a line of somebody else above the bottom rows; gives it back when there is no screen.
pub(super) fn show_line(line: String) -> Result<(), String> {
    let Some(screen) = active().clone() else {
        return Err(line);
    };
    screen.send(Happening::Line(line)).map_err(|unsent| match unsent.0 {
        Happening::Line(line) => line,
        _ => String::new(),
    })
}

/// Ends the screen that is there, if one is, since the program ends.
pub(super) fn end_active() {
    let screen = active().clone();
    if let Some(to) = screen {
        Screen { to }.end();
    }
}

/// The screen of a run.
#[derive(Clone)]
pub(super) struct Screen {
    to: Sender<Happening>,
}

impl Screen {
    /// Begins to show.
    pub(super) fn start(look: Look, limits: Limits, redactor: Redactor) -> Self {
        let (to, from) = mpsc::channel();
        let canvas = Canvas::new(std::io::stderr(), look.kind, look.paint, terminal_width);
        let telling = Telling::new(canvas, look.reasoning, limits, redactor);
        std::thread::spawn(move || show_all(telling, &from));
        *active() = Some(to.clone());
        Self { to }
    }

    /// Something happened.
    pub(super) fn tell(&self, event: &Event) {
        self.send(Happening::Event(Box::new(event.clone())));
    }

    /// Whoever watches replies arrive.
    pub(super) fn live(&self) -> Live {
        let screen = self.clone();
        Live::to(move |delta| {
            screen.send(match delta {
                Delta::Text(text) => Happening::Text(text.to_owned()),
                Delta::Reasoning(text) => Happening::Reasoning(text.to_owned()),
                Delta::Restarted => Happening::Restarted,
            });
        })
    }

    /// Leaves the terminal to somebody else until what comes back is dropped.
    pub(super) fn step_aside(&self) -> Aside<'_> {
        self.send_and_wait(Happening::Aside);
        Aside(self)
    }

    /// Ends it; what was told before is shown.
    pub(super) fn end(&self) {
        *active() = None;
        self.send_and_wait(Happening::Leave);
    }

    fn send(&self, happening: Happening) {
        // After the end nothing is shown any more.
        let _ = self.to.send(happening);
    }

    fn send_and_wait(&self, happening: impl Fn(Sender<()>) -> Happening) {
        let (done, is_done) = mpsc::channel();
        self.send(happening(done));
        let _ = is_done.recv_timeout(PATIENCE);
    }
}

/// As long as it lives, the terminal is left alone.
pub(super) struct Aside<'a>(&'a Screen);

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.0.send(Happening::Back);
    }
}

fn show_all(mut telling: Telling<std::io::Stderr>, from: &Receiver<Happening>) {
    loop {
        let mut next = match from.recv_timeout(TICK) {
            Ok(happening) => Some(happening),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // What has come together is drawn together.
        while let Some(happening) = next {
            match happening {
                Happening::Event(event) => telling.event(&event),
                Happening::Text(text) => telling.text(&text),
                Happening::Reasoning(text) => telling.reasoning(&text),
                Happening::Restarted => telling.restarted(),
                Happening::Line(line) => telling.line(&line),
                Happening::Aside(done) => {
                    telling.clear();
                    let _ = done.send(());
                    if wait_for_return(&mut telling, from) == Next::Leave {
                        return;
                    }
                }
                Happening::Back => {}
                Happening::Leave(done) => {
                    telling.clear();
                    let _ = done.send(());
                    return;
                }
            }
            next = from.try_recv().ok();
        }
        telling.draw();
    }
    telling.clear();
}

#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

/// What happens meanwhile is shown afterwards: the question must stay where it is.
fn wait_for_return(telling: &mut Telling<std::io::Stderr>, from: &Receiver<Happening>) -> Next {
    while let Ok(happening) = from.recv() {
        match happening {
            Happening::Back => return Next::GoOn,
            Happening::Event(event) => telling.event(&event),
            Happening::Line(line) => telling.line(&line),
            Happening::Text(text) => telling.text(&text),
            Happening::Reasoning(text) => telling.reasoning(&text),
            Happening::Restarted => telling.restarted(),
            Happening::Aside(done) => {
                let _ = done.send(());
            }
            Happening::Leave(done) => {
                telling.clear();
                let _ = done.send(());
                return Next::Leave;
            }
        }
    }
    Next::Leave
}
