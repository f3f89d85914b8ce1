//! Where stories of the sandbox are told. `FORGEHAND_TEST_DOCKER` and `FORGEHAND_TEST_PODMAN` are the
//! sockets of engines that have the images `forgehand-test:debian`, with a shell, git and perl, and
//! `forgehand-test:busybox`, without git and without a C library. `tests/run` starts both, and sets
//! `FORGEHAND_TEST_ALL`, with which a missing one is a failure. Never a silent skip.

use std::cell::Cell;

use forgehand::config::{ConfigSources, SandboxBackend, SandboxConfig};

use super::{become_nobody, helper, on_a_thread};

/// Where a story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Local,
    Docker,
    Podman,
}

impl Place {
    const ALL: [Self; 3] = [Self::Local, Self::Docker, Self::Podman];

    /// The variable that names its socket.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Local => None,
            Self::Docker => Some("FORGEHAND_TEST_DOCKER"),
            Self::Podman => Some("FORGEHAND_TEST_PODMAN"),
        }
    }

    fn is_there(self) -> bool {
        let Some(name) = self.variable() else { return true };
        let is_set = variable(name).is_some();
        if !is_set {
            let missing = format!("on {self:?}: {name} names no socket (tests/run starts an engine)");
            assert!(variable("FORGEHAND_TEST_ALL").is_none(), "{missing}");
            eprintln!("SKIPPED {missing}");
        }
        is_set
    }
}

thread_local! {
    /// Where the story of this thread is told.
    static PLACE: Cell<Place> = const { Cell::new(Place::Local) };
}

/// A story that holds everywhere, told as whoever we are.
pub fn on_each(story: impl AsyncFn() + Send + Copy + 'static) {
    for place in places() {
        told(place, || {}, story);
    }
}

/// The same, as root also as an ordinary user.
pub fn on_each_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    places().into_iter().for_each(|place| as_each_user(place, story));
}

/// A story of the local sandbox alone.
pub fn local_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    as_each_user(Place::Local, story);
}

/// A story of containers alone.
pub fn docker_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    let engines = places().into_iter().filter(|place| *place != Place::Local);
    engines.for_each(|place| as_each_user(place, story));
}

fn as_each_user(place: Place, story: impl AsyncFn() + Send + Copy + 'static) {
    told(place, || {}, story);
    if rustix::process::geteuid().is_root() {
        told(place, become_nobody, story);
    }
}

fn told(place: Place, prepare: impl FnOnce() + Send + 'static, story: impl AsyncFn() + Send + 'static) {
    let prepared = move || {
        PLACE.set(place);
        prepare();
        eprintln!("on {place:?} as user {}", rustix::process::getuid().as_raw());
    };
    on_a_thread(prepared, story);
}

fn places() -> Vec<Place> {
    // A story that starts itself again as another process names the one it is about.
    let only = variable("FORGEHAND_TEST_BACKEND");
    let wanted = |place: &Place| only.as_ref().is_none_or(|only| *only == format!("{place:?}"));
    Place::ALL
        .into_iter()
        .filter(wanted)
        .filter(|place| place.is_there())
        .collect()
}

/// Their names.
pub fn all() -> Vec<String> {
    places().iter().map(|place| format!("{place:?}")).collect()
}

/// The socket of the engine of the story at hand.
pub fn socket() -> Option<String> {
    place().variable().and_then(variable)
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where the story at hand is told.
pub fn place() -> Place {
    PLACE.get()
}

/// The defaults for the place of the story at hand.
pub fn config() -> SandboxConfig {
    let mut config = forgehand::config::load(&ConfigSources::default())
        .expect("defaults are valid")
        .sandbox;
    config.helper = Some(helper());
    if place() != Place::Local {
        config.backend = SandboxBackend::Docker;
        config.image = Some("forgehand-test:debian".to_owned());
        config.image_by_tag = true;
        config.docker_socket = socket().map(Into::into);
    }
    config
}
