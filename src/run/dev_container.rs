//! The image of a repository's dev container, for a run whose repository names none in its own file:
//! read from one pinned commit of the default branch. Called by `gather` and by local runs.
//! Never reads a work tree or a pull request's head.

use std::path::Path;

use super::Ports;
use super::guidance::text_of;
use crate::config::SandboxBackend;
use crate::dev_container::{DEV_CONTAINER_PATHS, DevContainer, MAX_DEV_CONTAINER_BYTES, in_words};
use crate::git::Remote;
use crate::ids::CommitSha;
use crate::job::JobError;
use crate::phrase::run as words;
use crate::repo_config::RepoConfig;

/// Adds the image to what the repository wants, where the operator lets it choose that one. Gives what
/// people should know of the file.
///
/// # Errors
/// When git cannot read the commit.
pub async fn add_image_of_dev_container(
    ports: &Ports,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    repo_config: &mut RepoConfig,
) -> Result<Option<String>, JobError> {
    let (language, sandbox) = (ports.language, &ports.sandbox);
    if repo_config.image.is_some() || sandbox.backend == SandboxBackend::Local {
        return Ok(None);
    }
    for path in DEV_CONTAINER_PATHS {
        let bytes = ports.git.read_file(mirror, remote, at, path, MAX_DEV_CONTAINER_BYTES);
        let text = match text_of(bytes.await)? {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(problem) => return Ok(Some(words::nothing_used(language, &problem))),
        };
        return Ok(match DevContainer::parse(&text) {
            Ok(found) => {
                repo_config.image = found.image(sandbox).map(str::to_owned);
                found.note(language, path, sandbox)
            }
            Err(problem) => Some(in_words(language, path, &problem)),
        });
    }
    Ok(None)
}
