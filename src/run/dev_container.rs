//! The image of a repository's dev container, for a run whose repository names none in its own file:
//! read from one pinned commit of the default branch. Called by `gather` and by local runs.
//! Never reads a work tree or a pull request's head.

use std::path::Path;

use super::Ports;
use super::guidance::text_of;
use crate::config::SandboxBackend;
use crate::dev_container::{
    Choice, DEV_CONTAINER_PATHS, DEV_CONTAINERS, DevContainer, MAX_DEV_CONTAINER_BYTES, MAX_DEV_CONTAINER_FILES,
    choose, in_words, path_of,
};
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
    let tree = Tree {
        ports,
        mirror,
        remote,
        at,
    };
    let chosen = repo_config.devcontainer.as_deref().map(path_of);
    let paths = chosen
        .clone()
        .map_or_else(|| DEV_CONTAINER_PATHS.map(str::to_owned).to_vec(), |path| vec![path]);
    for path in paths {
        if let Some(read) = tree.read(&path, repo_config).await? {
            return Ok(read.note);
        }
    }
    if let Some(path) = chosen {
        return Ok(Some(words::no_dev_container(language, &path)));
    }
    match tree.several().await? {
        Choice::None => Ok(None),
        Choice::Only(path) => Ok(tree.read(&path, repo_config).await?.and_then(|read| read.note)),
        Choice::OneOf(names) => Ok(Some(choose(language, &names))),
    }
}

/// A file that was there, with what people should know of it.
struct Read {
    note: Option<String>,
}

/// The commit that is read.
struct Tree<'t> {
    ports: &'t Ports,
    mirror: &'t Path,
    remote: &'t Remote,
    at: &'t CommitSha,
}

impl Tree<'_> {
    /// Takes the image of the file at this path; nothing where no file is.
    async fn read(&self, path: &str, repo_config: &mut RepoConfig) -> Result<Option<Read>, JobError> {
        let (language, sandbox) = (self.ports.language, &self.ports.sandbox);
        let git = &self.ports.git;
        let bytes = git.read_file(self.mirror, self.remote, self.at, path, MAX_DEV_CONTAINER_BYTES);
        let note = match text_of(bytes.await)? {
            Ok(None) => return Ok(None),
            Err(problem) => Some(words::nothing_used(language, &problem)),
            Ok(Some(text)) => match DevContainer::parse(&text) {
                Ok(found) => {
                    repo_config.image = found.image(sandbox).map(str::to_owned);
                    found.note(language, path, sandbox)
                }
                Err(problem) => Some(in_words(language, path, &problem)),
            },
        };
        Ok(Some(Read { note }))
    }

    /// What stands in folders of their own.
    async fn several(&self) -> Result<Choice, JobError> {
        let git = &self.ports.git;
        let files = git.list_below(self.mirror, self.at, DEV_CONTAINERS, MAX_DEV_CONTAINER_FILES);
        Ok(Choice::among(&files.await?.unwrap_or_default()))
    }
}
