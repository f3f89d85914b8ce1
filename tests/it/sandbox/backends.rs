//! Where stories of the sandbox are told. `FORGEHAND_TEST_DOCKER` and `FORGEHAND_TEST_PODMAN` are the
//! sockets of engines that have the images `forgehand-test:debian`, with a shell, git and perl, and
//! `forgehand-test:busybox`, without git and without a C library. `tests/run` starts both, and sets
//! `FORGEHAND_TEST_ALL`, with which a missing one is a failure. `FORGEHAND_TEST_OPENSANDBOX` is the
//! address of an OpenSandbox server. Never a silent skip.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use forgehand::config::{ConfigSources, SandboxBackend, SandboxConfig};
use forgehand::secret::Secret;

use super::{become_nobody, helper, on_a_thread, scratch};

/// Where a story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Local,
    Docker,
    Podman,
    OpenSandbox,
}

impl Place {
    /// Those whose files lie on this machine.
    const NEAR: [Self; 3] = [Self::Local, Self::Docker, Self::Podman];

    /// The variable that names its socket or address.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Local => None,
            Self::Docker => Some("FORGEHAND_TEST_DOCKER"),
            Self::Podman => Some("FORGEHAND_TEST_PODMAN"),
            Self::OpenSandbox => Some("FORGEHAND_TEST_OPENSANDBOX"),
        }
    }

    fn is_there(self) -> bool {
        let Some(name) = self.variable() else { return true };
        let is_set = variable(name).is_some();
        if !is_set {
            let missing = format!("on {self:?}: {name} names nothing (tests/run starts it)");
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

/// A story that holds everywhere and looks at nothing but what the sandbox shows, told in a remote one
/// too.
pub fn on_each_and_far_away(story: impl AsyncFn() + Send + Copy + 'static) {
    on_each(story);
    far_away(story);
}

/// The same, where it is told as each user on this machine.
pub fn on_each_as_each_user_and_far_away(story: impl AsyncFn() + Send + Copy + 'static) {
    on_each_as_each_user(story);
    far_away(story);
}

/// A story of remote sandboxes alone.
pub fn far_away(story: impl AsyncFn() + Send + Copy + 'static) {
    if is_wanted(Place::OpenSandbox) {
        told(Place::OpenSandbox, || {}, story);
    }
}

/// A story of each place on this machine, told as whoever we are.
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

/// The same, told as whoever we are.
pub fn on_engines(story: impl AsyncFn() + Send + Copy + 'static) {
    let engines = places().into_iter().filter(|place| *place != Place::Local);
    engines.for_each(|place| told(place, || {}, story));
}

/// A story of one engine, because others tell of their containers in other words.
pub fn in_docker_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    if is_wanted(Place::Docker) {
        as_each_user(Place::Docker, story);
    }
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
    Place::NEAR.into_iter().filter(|place| is_wanted(*place)).collect()
}

fn is_wanted(place: Place) -> bool {
    // A story that starts itself again as another process names the one it is about.
    let only = variable("FORGEHAND_TEST_BACKEND");
    only.is_none_or(|only| only == format!("{place:?}")) && place.is_there()
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
    config.image_by_tag = place() != Place::Local;
    match place() {
        Place::Local => {}
        Place::Docker | Place::Podman => {
            config.backend = SandboxBackend::Docker;
            config.image = Some("forgehand-test:debian".to_owned());
            config.docker_socket = socket().map(Into::into);
        }
        Place::OpenSandbox => {
            config.backend = SandboxBackend::OpenSandbox;
            // The stand-in for its daemon is a program of Python.
            config.image = Some("forgehand-test:python".to_owned());
            config.helper = Some(stripped_helper());
            config.opensandbox_url = variable("FORGEHAND_TEST_OPENSANDBOX");
            config.opensandbox_api_key = variable("FORGEHAND_TEST_OPENSANDBOX_KEY").map(Secret::new);
        }
    }
    config
}

/// The program goes over the network, so that what debuggers need stays here.
fn stripped_helper() -> PathBuf {
    static COPY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let copy = COPY.get_or_init(|| {
        let folder = scratch();
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(folder.path().join("forgehand")).arg(helper());
        assert!(strip.status().expect("strip").success());
        folder
    });
    copy.path().join("forgehand")
}
