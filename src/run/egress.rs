//! The way out of a run's sandboxes: the proxy is opened with the workspace, shared by every sandbox
//! of the run, and what it saw becomes events. Called by the stages of `run`. Never keeps a run from
//! its end: the record is bounded, and the proxy ends with the run.

use std::sync::Arc;

use super::opening::slot;
use super::{Ports, Work};
use crate::egress::{Gate, Row, Verdict};
use crate::event::RunEvent;
use crate::job::JobError;
use crate::recorder::Recorder;
use crate::sandbox::{self, Sandbox};
use crate::store::StoreError;
use crate::workspace::RunFolder;

/// Opens the run's proxy; nothing where there is no way out.
pub(super) fn open_gate(ports: &Ports, work: &Work, folder: &RunFolder) -> Result<Option<Arc<Gate>>, JobError> {
    // A file with a wrong list is not used at all, so this one is right.
    let narrowed = work.repo_config.egress_rules().map_err(JobError::Fail)?;
    let opened = ports.egress.open(folder.root(), narrowed);
    opened.map_err(|error| JobError::Retry(format!("open the proxy of the sandbox: {error}")))
}

/// A sandbox over a folder, with the image of the repository and the run's way out.
pub(super) async fn sandbox_over(
    ports: &Ports,
    work: &Work,
    folder: &RunFolder,
    gate: Option<&Arc<Gate>>,
) -> Result<Arc<dyn Sandbox>, JobError> {
    let way_out = gate.map(|gate| gate.way_out());
    let sandbox = sandbox::open_with(&work.sandbox(ports), folder.sandbox_folders(), slot(folder), way_out).await?;
    Ok(match gate {
        Some(gate) => gate.guard(sandbox),
        None => sandbox,
    })
}

/// Works while what the proxy sees is recorded, and records the rest afterwards.
pub(super) async fn recorded<T>(
    gate: Option<&Arc<Gate>>,
    recorder: &Recorder,
    work: impl Future<Output = Result<T, JobError>>,
) -> Result<T, JobError> {
    let Some(gate) = gate else { return work.await };
    let recording = async {
        loop {
            gate.wait().await;
            if record(gate, recorder).await.is_err() {
                // The work writes to the same store and finds out what is wrong.
                std::future::pending::<()>().await;
            }
        }
    };
    let result = tokio::select! {
        result = work => result,
        () = recording => unreachable!("the record goes on until the work is done"),
    };
    gate.close().await;
    if result.is_ok() {
        record(gate, recorder).await?;
        let totals = gate.totals();
        if totals.requests > 0 {
            recorder
                .record(RunEvent::WayOutClosed {
                    sent_bytes: totals.sent_bytes,
                    received_bytes: totals.received_bytes,
                    requests: totals.requests,
                    rows_left_out: totals.rows_left_out,
                })
                .await?;
        }
    }
    result
}

async fn record(gate: &Gate, recorder: &Recorder) -> Result<(), StoreError> {
    for Row { host, verdict } in gate.rows() {
        let event = match verdict {
            Verdict::Reached => RunEvent::HostReached { host },
            Verdict::Blocked { why, allow } => RunEvent::HostBlocked { host, why, allow },
        };
        recorder.record(event).await?;
    }
    Ok(())
}
