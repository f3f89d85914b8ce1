//! Ctrl-C and its like during a local run: the first stops it and keeps its work, the second leaves
//! at once and says where the work lies. Never removes anything.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::super::screen;
use super::ending::Ending;
use super::events::Events;
use crate::clock::Clock;
use crate::run::Place;
use crate::workspace::RunFolder;

/// Where the run that goes on keeps its folders, while one does.
#[derive(Clone, Default)]
pub(super) struct SharedPlace(Arc<Mutex<Option<Place>>>);

impl SharedPlace {
    pub(super) fn set(&self, place: Option<Place>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    fn get(&self) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Cancels a token on SIGINT, SIGTERM or when the terminal goes; the second signal ends the process.
pub(super) fn listen(stop: CancellationToken, place: SharedPlace, events: Arc<Events>) -> anyhow::Result<()> {
    let listen = |kind: SignalKind| signal(kind).context("listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            if stop.is_cancelled() {
                leave(&place, &events);
            }
            stop.cancel();
            note!("Stopping; what has been done is kept. Ctrl-C again leaves at once.");
        }
    });
    Ok(())
}

/// Ends the process. What runs in the sandbox and git end with it.
fn leave(place: &SharedPlace, events: &Events) -> ! {
    screen::end_active();
    events.left_at_once(Clock::System.now());
    let folder = place
        .get()
        .and_then(|place| RunFolder::open_existing(&place.state_dir, &place.job).ok()?);
    match folder {
        Some((folder, _)) => note!(
            "Left at once. The files as they were are in {}; remove {} when you have looked.",
            folder.workspace().display(),
            folder.root().display()
        ),
        None => note!("Left at once; no checkout was being worked on."),
    }
    std::process::exit(i32::from(Ending::Interrupted.code()));
}
