//! Work of an earlier attempt on another machine, brought into a fresh checkout. The bundle was made
//! in a sandbox, so it is unpacked in a sandbox, too. Called when a run opens.
//! Never lets host git look at the bundle.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::job::JobError;
use crate::sandbox::{Exec, Sandbox};
use crate::text;
use crate::workspace::RunFolder;

/// Name of the bundle in the home folder of the sandbox.
const BUNDLE: &str = "forgehand-change.bundle";

/// The files become what they were; to the workspace's own git they are changes that nobody
/// committed.
const SCRIPT: &str = r#"
set -eu
git fetch --quiet --no-tags "$HOME/forgehand-change.bundle" refs/heads/change
git read-tree -u -m HEAD FETCH_HEAD
git reset --quiet
rm "$HOME/forgehand-change.bundle"
"#;

/// Puts the bundle into a fresh folder that no sandbox has seen yet.
pub(super) async fn lay_down(folder: &RunFolder, bundle: &[u8]) -> Result<(), JobError> {
    let home = folder.own_home();
    let path = home.join(BUNDLE);
    let write = async {
        tokio::fs::create_dir_all(&home).await?;
        let mut options = tokio::fs::File::options();
        let mut file = options.write(true).create_new(true).open(&path).await?;
        file.write_all(bundle).await?;
        file.flush().await
    };
    let written: std::io::Result<()> = write.await;
    written.map_err(|error| JobError::Retry(format!("{}: {error}", path.display())))
}

/// Makes the workspace what it was.
pub(super) async fn take_up(sandbox: &Arc<dyn Sandbox>) -> Result<(), JobError> {
    let done = sandbox.exec(&Exec::shell(SCRIPT), &CancellationToken::new()).await?;
    if done.code() == Some(0) {
        return Ok(());
    }
    let said = text::cap_middle(&done.output, 1_000);
    Err(JobError::Retry(format!(
        "the stored work could not be brought into the checkout ({:?}): {said}",
        done.exit
    )))
}
