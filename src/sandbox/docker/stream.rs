//! One helper in a container from the service's side: its streams, its reports, its end. What
//! `process` is for a helper on this machine. Called by `docker`.
//! Never waits for an engine that is silent, and never buffers without bound.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::future::FusedFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::container::{Container, Streams};
use crate::sandbox::SandboxError;
use crate::sandbox::output::SharedOutput;
use crate::sandbox::process::{Ended, GRACE, MAX_REPORT_BYTES, Stops, take_lines};
use crate::sandbox::spec::{LET_GO, Report, Spec, TERMINATE};

/// How long the helper may take to kill everything; then the container is ended.
const LAST_WAIT: Duration = Duration::from_millis(1500);

/// Longest time until the helper stands behind its walls.
const LONGEST_START: Duration = Duration::from_secs(20);

/// An engine that does not take one byte in this time takes none.
const ORDER_TIMEOUT: Duration = Duration::from_millis(300);

/// Runs a helper to its end; what its command writes is `kept`.
pub(super) async fn run(
    container: &Container,
    spec: &Spec,
    kept: &SharedOutput,
    stops: Stops<'_>,
) -> Result<Ended, SandboxError> {
    let message = spec.encode().map_err(SandboxError::Broken)?;
    let ready = Notify::new();
    let stop = stops.reached_once(&ready, LONGEST_START);
    tokio::pin!(stop);
    let mut reports = Vec::new();
    let mut stopped = None;
    let Streams { output, mut input } = tokio::select! {
        streams = container.helper() => streams?,
        why = &mut stop => return Ok(Ended { reports, stopped: Some(why), status: None }),
    };
    {
        let gather = gather(output, kept, &mut reports, &ready).fuse();
        tokio::pin!(gather);
        tokio::select! {
            _ = say(&mut input, &message) => {}
            why = &mut stop => stopped = Some(why),
            // A helper that cannot start closes its streams.
            () = &mut gather => {}
        }
        if stopped.is_none() && !gather.is_terminated() {
            tokio::select! {
                () = &mut gather => {}
                why = &mut stop => {
                    stopped = Some(why);
                    order(&mut input, TERMINATE).await;
                    let _ = tokio::time::timeout(GRACE, &mut gather).await;
                }
            }
        }
        if !gather.is_terminated() {
            order(&mut input, LET_GO).await;
            // Where the spec did not get through, only the end of the stream is understood.
            let _ = tokio::time::timeout(ORDER_TIMEOUT, input.shutdown()).await;
            let _ = tokio::time::timeout(LAST_WAIT, &mut gather).await;
        }
    }
    Ok(Ended {
        reports,
        stopped,
        status: None,
    })
}

/// A helper that is gone needs no orders.
async fn say(input: &mut Pin<Box<dyn AsyncWrite + Send>>, message: &[u8]) {
    let said = async {
        input.write_all(message).await?;
        input.flush().await
    };
    let _: std::io::Result<()> = said.await;
}

async fn order(input: &mut Pin<Box<dyn AsyncWrite + Send>>, order: u8) {
    let _ = tokio::time::timeout(ORDER_TIMEOUT, say(input, &[order])).await;
}

/// Reads as fast as it comes; the engine slows down who writes faster.
async fn gather(
    mut output: Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    kept: &SharedOutput,
    reports: &mut Vec<Report>,
    ready: &Notify,
) {
    let mut said = Vec::new();
    while let Some(Ok(block)) = output.next().await {
        match block {
            LogOutput::StdOut { message } => {
                let room = usize::try_from(MAX_REPORT_BYTES).unwrap_or(usize::MAX) - said.len();
                said.extend_from_slice(&message[..message.len().min(room)]);
                // A report of many blocks is looked through once, not with each of them.
                if message.contains(&b'\n') {
                    take_lines(&mut said, reports);
                    ready.notify_one();
                }
            }
            LogOutput::StdErr { message } | LogOutput::Console { message } => kept.push(&message),
            LogOutput::StdIn { .. } => {}
        }
    }
}
