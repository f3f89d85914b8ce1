//! What the end of a helper in a container means, beyond what it means everywhere. Called by `docker`.
//! Never takes a helper that said nothing for a success.

use super::engine::Users;
use crate::sandbox::SandboxError;
use crate::sandbox::judge::Judge;
use crate::sandbox::process::Ended;

/// How helpers in containers are judged. What the kernel's namespaces need is no remedy for a container.
pub(super) const JUDGE: Judge = Judge {
    remedy: || {
        "Look at the engine's configuration and at sandbox.docker_runtime: a container must come without network, \
         capabilities and new privileges, with seccomp and with a read-only root"
            .to_owned()
    },
    says_ready: true,
};

/// Why the first look inside failed.
pub(super) fn not_ready(ended: &Ended, said: &str) -> SandboxError {
    match (ended.stopped, ended.reports.last()) {
        (None, None) => SandboxError::Broken(format!(
            "the helper does not start in the container: {}",
            crate::text::cap_middle(said.trim(), 500)
        )),
        _ => JUDGE.failure(ended),
    }
}

/// The layer that says who runs inside.
pub(super) fn user(inner: u32, users: Users) -> String {
    match users {
        Users::Same => format!("user id {inner}"),
        Users::From(first) => format!("user id {inner} (here {})", first.saturating_add(inner)),
        Users::OwnAsRoot => "user namespace of a rootless engine (user id 0 is the service's user)".to_owned(),
        Users::OwnKept => format!("user namespace of a rootless engine, user id {inner}"),
    }
}
