//! The backends that stories of the sandbox are told on. `FORGEHAND_TEST_DOCKER` is the socket of a
//! Docker engine that has the images `forgehand-test:debian`, with a shell, git and perl, and
//! `forgehand-test:busybox`, without git and without a C library. `tests/run` starts one.

use std::cell::Cell;

use forgehand::config::{ConfigSources, SandboxBackend, SandboxConfig};

use super::{become_nobody, helper, on_a_thread};

thread_local! {
    /// The backend of the story that this thread tells.
    static BACKEND: Cell<SandboxBackend> = const { Cell::new(SandboxBackend::Local) };
}

/// A story that holds on each backend, told as whoever we are.
pub fn on_each(story: impl AsyncFn() + Send + Copy + 'static) {
    for backend in backends() {
        told(backend, || {}, story);
    }
}

/// The same, as root also as an ordinary user.
pub fn on_each_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    backends().into_iter().for_each(|backend| as_each_user(backend, story));
}

/// A story of the local sandbox alone.
pub fn local_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    as_each_user(SandboxBackend::Local, story);
}

/// A story of containers alone.
pub fn docker_as_each_user(story: impl AsyncFn() + Send + Copy + 'static) {
    if socket().is_some() {
        as_each_user(SandboxBackend::Docker, story);
    }
}

fn as_each_user(backend: SandboxBackend, story: impl AsyncFn() + Send + Copy + 'static) {
    told(backend, || {}, story);
    if rustix::process::geteuid().is_root() {
        told(backend, become_nobody, story);
    }
}

fn told(backend: SandboxBackend, prepare: impl FnOnce() + Send + 'static, story: impl AsyncFn() + Send + 'static) {
    let prepared = move || {
        BACKEND.set(backend);
        prepare();
        eprintln!("on {backend:?} as user {}", rustix::process::getuid().as_raw());
    };
    on_a_thread(prepared, story);
}

fn backends() -> Vec<SandboxBackend> {
    // A story that starts itself again as another process names the one it is about.
    let only = variable("FORGEHAND_TEST_BACKEND");
    let mut backends = vec![SandboxBackend::Local];
    if socket().is_some() {
        backends.push(SandboxBackend::Docker);
    }
    backends.retain(|backend| only.as_ref().is_none_or(|only| *only == format!("{backend:?}")));
    backends
}

/// Their names.
pub fn all() -> Vec<String> {
    backends().iter().map(|backend| format!("{backend:?}")).collect()
}

pub fn socket() -> Option<String> {
    let socket = variable("FORGEHAND_TEST_DOCKER");
    if socket.is_none() {
        eprintln!("SKIPPED on Docker: FORGEHAND_TEST_DOCKER names no socket (tests/run starts an engine)");
    }
    socket
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The backend of the story at hand.
pub fn backend() -> SandboxBackend {
    BACKEND.get()
}

/// The defaults for the backend of the story at hand.
pub fn config() -> SandboxConfig {
    let mut config = forgehand::config::load(&ConfigSources::default())
        .expect("defaults are valid")
        .sandbox;
    config.helper = Some(helper());
    config.backend = backend();
    if config.backend == SandboxBackend::Docker {
        config.image = Some("forgehand-test:debian".to_owned());
        config.image_by_tag = true;
        config.docker_socket = socket().map(Into::into);
    }
    config
}
