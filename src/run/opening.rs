//! The opening of a run: a checkout, made anew or left by an earlier attempt, and the sandbox over
//! it. Called by `run` alone. Never runs a command of the repository.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::egress::{open_gate, sandbox_over};
use super::{Earlier, FOLDER, Place, Ports, Work, restore, setup};
use crate::egress::Gate;
use crate::event::RunEvent;
use crate::git::{GitError, Remote};
use crate::ids::{CommitSha, JobId};
use crate::job::JobError;
use crate::recorder::Recorder;
use crate::retrieval::code_search::CodeSearch;
use crate::sandbox::Sandbox;
use crate::workspace::{Found, RunFolder};

/// What a run works in.
pub(super) struct Opened {
    /// The checkout.
    pub(super) folder: RunFolder,
    /// The sandbox over it.
    pub(super) sandbox: Arc<dyn Sandbox>,
    /// The proxy that its sandboxes share.
    pub(super) gate: Option<Arc<Gate>>,
    /// The index of its code, on its way.
    pub(super) code: Option<CodeSearch>,
}

/// Opens the sandbox over the checkout, made anew unless an earlier attempt left a complete one. The
/// index of the code does not wait for the files.
pub(super) async fn open(
    ports: &Ports,
    work: &Work,
    earlier: &mut Earlier,
    place: &Place,
    recorder: &Recorder,
) -> Result<Opened, JobError> {
    let index = || {
        let indexes = ports.indexes.as_ref();
        indexes.map(|indexes| indexes.begin(&work.mirror, &work.base, i64::MAX))
    };
    let (folder, code) = match earlier.folder.take() {
        Some(folder) => (folder, index()),
        None => {
            let folder = create(&place.state_dir, &place.job).await?;
            let code = {
                let source = Source {
                    repo: &work.mirror,
                    remote: &work.remote,
                    at: &work.base,
                };
                let found = find(ports, &folder, source).await?;
                if found.is_none() {
                    ports.git.complete(source.repo, source.remote, source.at).await?;
                }
                let code = index();
                let makes = match earlier.joined {
                    // A merge is opened once.
                    Some(_) => Makes::Nothing,
                    None => Makes::Tree,
                };
                fill(ports, &folder, source, found, makes).await?;
                setup::begin(ports, &folder, source, work).await?;
                code
            };
            if let Some(bundle) = &earlier.bundle {
                restore::lay_down(&folder, bundle).await?;
            }
            // From here on this is the one that the conversation is about, whatever other machines kept.
            let identity = folder.identity().unwrap_or_default();
            recorder.checkpoint(FOLDER, 0, identity.as_bytes()).await?;
            (folder, code)
        }
    };
    let gate = open_gate(ports, work, &folder)?;
    let sandbox = sandbox_over(ports, work, &folder, gate.as_ref()).await?;
    let since_ns = folder.opened_ns().map_err(local_failure)?;
    if earlier.bundle.is_some() {
        restore::take_up(&sandbox).await?;
    }
    let description = sandbox.description().to_string();
    recorder
        .record(RunEvent::WorkspaceOpened {
            base_sha: work.base.clone(),
            sandbox: description,
        })
        .await?;
    Ok(Opened {
        folder,
        sandbox,
        gate,
        code: code.map(|code| code.edited_since(since_ns)),
    })
}

/// Where files come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The bare repository.
    pub(super) repo: &'a Path,
    /// Where it gets missing objects from.
    pub(super) remote: &'a Remote,
    /// The commit.
    pub(super) at: &'a CommitSha,
}

/// What is kept of a checkout for later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Makes {
    /// A prepared tree.
    Tree,
    /// Nothing: its commit is of this run alone.
    Nothing,
}

/// A fresh run folder with the files of a commit that is of this run alone, or was seen before.
pub(super) async fn fresh(
    ports: &Ports,
    state_dir: &Path,
    job: &JobId,
    source: Source<'_>,
    work: &Work,
) -> Result<RunFolder, JobError> {
    let folder = create(state_dir, job).await?;
    let found = find(ports, &folder, source).await?;
    fill(ports, &folder, source, found, Makes::Nothing).await?;
    setup::begin(ports, &folder, source, work).await?;
    Ok(folder)
}

async fn create(state_dir: &Path, job: &JobId) -> Result<RunFolder, JobError> {
    let (state_dir, job) = (state_dir.to_owned(), job.clone());
    let created = tokio::task::spawn_blocking(move || RunFolder::create(&state_dir, &job)).await;
    created
        .map_err(|error| JobError::Retry(error.to_string()))?
        .map_err(local_failure)
}

/// A prepared tree that the folder can lie on.
async fn find(ports: &Ports, folder: &RunFolder, source: Source<'_>) -> Result<Option<Found>, JobError> {
    match &ports.trees {
        Some(trees) => trees.find(folder, source.repo, source.at).await.map_err(local_failure),
        None => Ok(None),
    }
}

/// Fills a folder from a prepared tree, which is made where it is missing and worth it, or from the
/// repository.
async fn fill(
    ports: &Ports,
    folder: &RunFolder,
    source: Source<'_>,
    found: Option<Found>,
    makes: Makes,
) -> Result<(), JobError> {
    let Source { repo, remote, at } = source;
    let filled = async {
        match (&ports.trees, found) {
            (Some(trees), Some(found)) => trees.lay(folder, &found, repo, remote).await,
            (Some(trees), None) if makes == Makes::Tree => {
                let made = trees.make(folder, repo, remote, at).await?;
                trees.lay(folder, &made, repo, remote).await
            }
            _ => folder.check_out(&ports.git, repo, remote, at).await,
        }
    };
    filled.await.map_err(local_failure)
}

/// The number that a run's user id is made from: by folder, so that it is the same after a
/// restart and differs between runs that are alive together.
pub(super) fn slot(folder: &RunFolder) -> u16 {
    let hash = Sha256::digest(folder.root().as_os_str().as_encoded_bytes());
    // The last slot belongs to `doctor`.
    u16::from_le_bytes([hash[0], hash[1]]) % (u16::MAX - 1)
}

/// A failure of this machine's disk, or of git in it.
pub(super) fn local_failure(error: anyhow::Error) -> JobError {
    match error.downcast::<GitError>() {
        Ok(error) => error.into(),
        Err(error) => JobError::Retry(format!("{error:#}")),
    }
}
