//! Which failpoints are armed, and what they do. Armed by the command line from
//! `FORGEHAND_FAILPOINTS`, met by `fp!`. Never part of a build that people run.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An armed point made the surrounding function fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failpoint {0}")]
pub struct Injected(pub &'static str);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    Crash,
    Error,
    Hang(Duration),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Crash => f.write_str("crash"),
            Action::Error => f.write_str("error"),
            Action::Hang(time) => write!(f, "hang({})", time.as_secs_f64()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    name: String,
    /// It acts at this many hits from now; at every hit when nothing.
    hits: Option<u32>,
    action: Action,
}

/// Points wait for each other: the second counts its hits only once the first has acted.
struct Armed {
    /// Read anew at every hit, so that a test can arm a running process.
    file: Option<PathBuf>,
    text: String,
    points: VecDeque<Point>,
}

static ARMED: Mutex<Armed> = Mutex::new(Armed {
    file: None,
    text: String::new(),
    points: VecDeque::new(),
});

/// Arms points: `[HIT*]NAME=crash|error|hang(SECONDS)`, separated by `;`, one after another. `3*`
/// acts at the third hit, a lone `*` at every one; otherwise a point acts once. `@FILE` stands for
/// what the file says at the time.
///
/// # Errors
/// What cannot be read, in words.
pub fn arm(text: &str) -> Result<(), String> {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = text.strip_prefix('@') {
        armed.file = Some(file.into());
        return Ok(());
    }
    armed.set(text)
}

/// A moment. Returns at once, after a while, with an error or never.
///
/// # Errors
/// [`Injected`] where the point is armed so.
pub async fn at(name: &'static str) -> Result<(), Injected> {
    let action = ARMED.lock().unwrap_or_else(PoisonError::into_inner).hit(name);
    let Some(action) = action else { return Ok(()) };
    tracing::warn!("failpoint {name} fires: {action}");
    match action {
        Action::Crash => die(),
        Action::Error => Err(Injected(name)),
        Action::Hang(time) => {
            // Boxed: most futures never hang, and a run is a deep one.
            Box::pin(tokio::time::sleep(time)).await;
            Ok(())
        }
    }
}

/// As `kill -9`: nothing is flushed, no destructor runs, no core is written.
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

impl Armed {
    fn set(&mut self, text: &str) -> Result<(), String> {
        let points = text.split(';').map(str::trim).filter(|point| !point.is_empty());
        self.points = points.map(parse).collect::<Result<_, _>>()?;
        text.clone_into(&mut self.text);
        Ok(())
    }

    fn hit(&mut self, name: &str) -> Option<Action> {
        if let Some(file) = &self.file {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text != self.text
                && let Err(problem) = self.set(&text)
            {
                tracing::error!("failpoints: {problem}");
            }
        }
        let first = self.points.front_mut().filter(|point| point.name == name)?;
        let action = first.action;
        match &mut first.hits {
            None => Some(action),
            Some(hits) if *hits > 1 => {
                *hits -= 1;
                None
            }
            Some(_) => {
                self.points.pop_front();
                Some(action)
            }
        }
    }
}

fn parse(text: &str) -> Result<Point, String> {
    let problem = || format!("{text:?} is not [HIT*]NAME=crash|error|hang(SECONDS)");
    let (place, action) = text.split_once('=').ok_or_else(problem)?;
    let (hits, name) = match place.split_once('*') {
        Some(("", name)) => (None, name),
        Some((hits, name)) => (Some(hits.parse().map_err(|_| problem())?), name),
        None => (Some(1), place),
    };
    let seconds = |text: &str| {
        let seconds = text.strip_prefix("hang(")?.strip_suffix(')')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let action = match action {
        "crash" => Action::Crash,
        "error" => Action::Error,
        other => Action::Hang(seconds(other).ok_or_else(problem)?),
    };
    Ok(Point {
        name: name.to_owned(),
        hits,
        action,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(text: &str) -> Armed {
        let mut armed = Armed {
            file: None,
            text: String::new(),
            points: VecDeque::new(),
        };
        armed.set(text).unwrap();
        armed
    }

    #[test]
    fn points_act_at_their_hit_one_after_another() {
        let mut armed = armed("2*a=error; b=hang(0.5); *c=crash");
        assert_eq!(armed.hit("b"), None, "a has not acted yet");
        assert_eq!(armed.hit("a"), None);
        assert_eq!(armed.hit("a"), Some(Action::Error));
        assert_eq!(armed.hit("a"), None, "once only");
        assert_eq!(armed.hit("b"), Some(Action::Hang(Duration::from_millis(500))));
        assert_eq!(
            (armed.hit("c"), armed.hit("c")),
            (Some(Action::Crash), Some(Action::Crash))
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in ["a", "a=panic", "x*a=error", "a=hang(soon)", "a=hang(-1)"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
