//! A sandbox whose commands are told what the proxy blocked, under their own output. Called by
//! `run` in place of the sandbox itself. Never changes what a command did, only adds words.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Gate;
use super::log::{Row, Verdict};
use crate::ids::CommitSha;
use crate::sandbox::{
    BackgroundOutput, Exec, ExecOutput, FileReply, FileRequest, Layer, Part, Sandbox, SandboxDescription, SandboxError,
    SnapshotRequest, Started,
};

/// Hosts that are named under one output.
const MAX_NAMED: usize = 5;

pub(super) struct Guarded {
    gate: Arc<Gate>,
    inner: Arc<dyn Sandbox>,
    /// Up to when readers of commands in the background were told.
    told: AtomicU64,
}

impl Guarded {
    pub(super) fn new(gate: Arc<Gate>, inner: Arc<dyn Sandbox>) -> Self {
        let told = AtomicU64::new(gate.shared.log.moment());
        Self { gate, inner, told }
    }

    /// Adds what is to be said about commands in the background.
    fn tell(&self, output: Option<BackgroundOutput>) -> Option<BackgroundOutput> {
        let mut output = output?;
        let log = &self.gate.shared.log;
        let since = self.told.swap(log.moment(), Ordering::Relaxed);
        add(&mut output.output, &log.blocked_since(since));
        Some(output)
    }
}

/// Adds a line for each blocked host.
fn add(output: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    for row in rows.iter().take(MAX_NAMED) {
        output.push_str(&line(row));
        output.push('\n');
    }
    if rows.len() > MAX_NAMED {
        output.push_str(&format!("[network: {} more were blocked]\n", rows.len() - MAX_NAMED));
    }
}

fn line(row: &Row) -> String {
    match &row.verdict {
        Verdict::Blocked {
            why,
            allow: Some(allow),
        } => format!(
            "[network: {} was blocked: {why}. Only an administrator can allow it, with {allow}; do not look for a way \
             around it]",
            row.host
        ),
        Verdict::Blocked { why, allow: None } => format!("[network: {} was not reached: {why}]", row.host),
        Verdict::Reached => format!("[network: {} was reached]", row.host),
    }
}

#[async_trait]
impl Sandbox for Guarded {
    fn description(&self) -> SandboxDescription {
        self.inner.description()
    }

    async fn exec(&self, exec: &Exec, cancel: &CancellationToken) -> Result<ExecOutput, SandboxError> {
        let before = self.gate.shared.log.moment();
        let mut output = self.inner.exec(exec, cancel).await?;
        add(&mut output.output, &self.gate.shared.log.blocked_since(before));
        Ok(output)
    }

    async fn start(&self, exec: &Exec, cancel: &CancellationToken) -> Result<Started, SandboxError> {
        if self.inner.running().is_empty() {
            // What commands in front were told is not told again.
            self.told.store(self.gate.shared.log.moment(), Ordering::Relaxed);
        }
        self.inner.start(exec, cancel).await
    }

    fn running(&self) -> Vec<(u32, String)> {
        self.inner.running()
    }

    async fn output(
        &self,
        id: u32,
        part: Part,
        wait: Duration,
        cancel: &CancellationToken,
    ) -> Option<BackgroundOutput> {
        self.tell(self.inner.output(id, part, wait, cancel).await)
    }

    async fn stop(&self, id: u32) -> Option<BackgroundOutput> {
        self.tell(self.inner.stop(id).await)
    }

    async fn files(&self, request: &FileRequest) -> Result<FileReply, SandboxError> {
        self.inner.files(request).await
    }

    async fn snapshot(
        &self,
        request: &SnapshotRequest,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput, SandboxError> {
        self.inner.snapshot(request, cancel).await
    }

    async fn export(&self, base: &CommitSha, cancel: &CancellationToken) -> Result<Option<PathBuf>, SandboxError> {
        self.inner.export(base, cancel).await
    }

    async fn layers(&self) -> Result<Vec<Layer>, SandboxError> {
        self.inner.layers().await
    }

    async fn left_by_setup(
        &self,
        base: &CommitSha,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, SandboxError> {
        self.inner.left_by_setup(base, cancel).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(host: &str, allow: Option<&str>) -> Row {
        Row {
            host: host.to_owned(),
            verdict: Verdict::Blocked {
                why: "no".to_owned(),
                allow: allow.map(str::to_owned),
            },
        }
    }

    #[track_caller]
    fn check(output: &str, rows: &[Row], expected: &str) {
        let mut shown = output.to_owned();
        add(&mut shown, rows);
        assert_eq!(shown, expected);
    }

    #[test]
    fn words_stand_under_the_output() {
        check("x", &[], "x");
        check("x", &[blocked("h:1", None)], "x\n[network: h:1 was not reached: no]\n");
        check(
            "",
            &[blocked("h:1", Some("`a`"))],
            "[network: h:1 was blocked: no. Only an administrator can allow it, with `a`; do not look for a way around \
             it]\n",
        );
        let many: Vec<Row> = (0..9).map(|at| blocked(&format!("h{at}:1"), None)).collect();
        let mut shown = String::new();
        add(&mut shown, &many);
        assert!(
            shown.lines().count() == MAX_NAMED + 1 && shown.contains("4 more"),
            "{shown}"
        );
    }
}
