//! The opening of a run: a checkout, made anew or left by an earlier attempt, and the sandbox over
//! it. Called by `run` alone. Never runs a command of the repository.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::egress::{open_gate, sandbox_over};
use super::{Earlier, Place, Ports, Work, restore};
use crate::egress::Gate;
use crate::event::RunEvent;
use crate::git::{GitError, Remote};
use crate::ids::{CommitSha, JobId};
use crate::job::JobError;
use crate::recorder::Recorder;
use crate::retrieval::code_search::CodeSearch;
use crate::sandbox::Sandbox;
use crate::workspace::RunFolder;

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

/// Opens the sandbox over the checkout, made anew unless an earlier attempt left a complete one.
pub(super) async fn open(
    ports: &Ports,
    work: &Work,
    earlier: &mut Earlier,
    place: &Place,
    recorder: &Recorder,
) -> Result<Opened, JobError> {
    let folder = match earlier.folder.take() {
        Some(folder) => folder,
        None => {
            let folder = fresh(
                ports,
                &place.state_dir,
                &place.job,
                &work.mirror,
                &work.remote,
                &work.base,
            )
            .await?;
            if let Some(bundle) = &earlier.bundle {
                restore::lay_down(&folder, bundle).await?;
            }
            folder
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
    let indexes = ports.indexes.as_ref();
    Ok(Opened {
        code: indexes.map(|indexes| indexes.begin(&work.mirror, &work.base, since_ns)),
        folder,
        sandbox,
        gate,
    })
}

/// A fresh run folder with the files of a commit.
pub(super) async fn fresh(
    ports: &Ports,
    state_dir: &Path,
    job: &JobId,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
) -> Result<RunFolder, JobError> {
    let (state_dir, job) = (state_dir.to_owned(), job.clone());
    let created = tokio::task::spawn_blocking(move || RunFolder::create(&state_dir, &job)).await;
    let folder = created
        .map_err(|error| JobError::Retry(error.to_string()))?
        .map_err(local_failure)?;
    folder
        .check_out(&ports.git, mirror, remote, at)
        .await
        .map_err(local_failure)?;
    Ok(folder)
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
