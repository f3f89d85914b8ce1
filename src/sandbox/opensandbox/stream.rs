//! One helper in a remote sandbox from the service's side: its orders, its lines, its end. What
//! `process` is for a helper on this machine. Called by `opensandbox`.
//! Never waits for a server that is silent, and never buffers without bound.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{FutureExt as _, Stream, StreamExt as _, future::FusedFuture as _};
use tokio::sync::Notify;

use super::execd::{Event, Execd, Source, User};
use super::server::CallError;
use crate::sandbox::SandboxError;
use crate::sandbox::output::SharedOutput;
use crate::sandbox::process::{Ended, GRACE, MAX_REPORT_BYTES, Stopped, Stops, take_lines};
use crate::sandbox::remote::{LEFT_OUT, OUTPUT, REMOTE, REPORT, USER};
use crate::sandbox::spec::{LET_GO, Report, Spec, TERMINATE};

/// Folder with the orders of tasks, which only the daemon's user can write.
pub(super) const TASKS: &str = "/run/forgehand/tasks";

/// How long the helper may take to kill everything, and its last words to come.
const LAST_WAIT: Duration = Duration::from_secs(4);

/// An order takes a command of the daemon's.
const ORDER_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time until the helper stands behind its walls.
const LONGEST_START: Duration = Duration::from_secs(30);

/// The daemon's own deadline is behind all of ours.
const BEHIND: Duration = Duration::from_secs(30);

/// Kept of what a helper that does not start says.
const MAX_NOISE: usize = 2_000;

/// A sandbox in which helpers can be started.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) execd: Execd,
    /// The command line of a stage goes behind it.
    pub(super) program: Vec<String>,
    /// Numbers of the files with orders that are in use; they are used again.
    taken: Mutex<BTreeSet<u32>>,
}

impl Remote {
    pub(super) fn new(execd: Execd, program: Vec<String>) -> Self {
        Self {
            execd,
            program,
            taken: Mutex::default(),
        }
    }

    /// The shell line that starts a stage.
    pub(super) fn line(&self, stage: &str) -> String {
        format!("exec {} {stage}", self.program.join(" "))
    }

    fn number(&self) -> Number<'_> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
        taken.insert(number);
        Number { of: self, number }
    }

    async fn order(&self, path: &str, order: u8) {
        let line = format!("printf {} >> {path}", char::from(order));
        if let Err(error) = tokio::time::timeout(ORDER_TIMEOUT, self.execd.chore(&line))
            .await
            .unwrap_or(Ok(()))
        {
            tracing::debug!(error = %error.words, "an order did not reach the sandbox");
        }
    }
}

/// A number in use.
struct Number<'r> {
    of: &'r Remote,
    number: u32,
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.number);
    }
}

/// Runs a helper to its end; what its command writes is `kept`.
pub(super) async fn run(
    remote: &Remote,
    spec: &Spec,
    kept: &SharedOutput,
    stops: Stops<'_>,
) -> Result<Ended, SandboxError> {
    let message = spec.encode().map_err(SandboxError::Broken)?;
    let number = remote.number();
    let path = format!("{TASKS}/{}", number.number);
    let ready = Notify::new();
    let stop = stops.reached_once(&ready, LONGEST_START);
    let mut stop = pin!(stop);
    let mut said = Said::new(kept, &ready);
    let mut stopped = None;
    let starting = async {
        remote.execd.upload(&path, 644, Source::Bytes(message)).await?;
        let line = format!("{} < {path}", remote.line(REMOTE));
        remote
            .execd
            .command(
                &line,
                User::Ordinary(USER),
                stops.timeout + LONGEST_START + GRACE + LAST_WAIT + BEHIND,
            )
            .await
    };
    let events = tokio::select! {
        events = starting => events.map_err(|error| error.broken("start a command in the sandbox"))?,
        why = &mut stop => return Ok(said.ended(Some(why))),
    };
    let mut failed = None;
    {
        let gather = async { failed = said.gather(events).await.err() };
        let mut gather = pin!(gather.fuse());
        tokio::select! {
            () = &mut gather => {}
            why = &mut stop => {
                stopped = Some(why);
                remote.order(&path, TERMINATE).await;
                let _ = tokio::time::timeout(GRACE, &mut gather).await;
            }
        }
        if !gather.is_terminated() {
            remote.order(&path, LET_GO).await;
            let _ = tokio::time::timeout(LAST_WAIT, &mut gather).await;
        }
    }
    if let (Some(command), false) = (&said.command, said.is_over) {
        // Afterwards its container is swept; this is only the daemon's end of it.
        let interrupted = tokio::time::timeout(ORDER_TIMEOUT, remote.execd.interrupt(command)).await;
        tracing::debug!(?interrupted, "a command was interrupted by force");
    }
    match failed {
        Some(error) if said.reports.is_empty() && stopped.is_none() => Err(error.broken("the sandbox lost a command")),
        _ => Ok(said.ended(stopped)),
    }
}

/// What came of a helper.
struct Said<'k> {
    kept: &'k SharedOutput,
    ready: &'k Notify,
    reports: Vec<Report>,
    unread: Vec<u8>,
    command: Option<String>,
    noise: String,
    is_over: bool,
}

impl<'k> Said<'k> {
    fn new(kept: &'k SharedOutput, ready: &'k Notify) -> Self {
        Self {
            kept,
            ready,
            reports: Vec::new(),
            unread: Vec::new(),
            command: None,
            noise: String::new(),
            is_over: false,
        }
    }

    async fn gather(&mut self, events: impl Stream<Item = Result<Event, CallError>>) -> Result<(), CallError> {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let event = event?;
            match event.kind.as_str() {
                "init" => self.command = Some(event.text),
                "stdout" => event.text.split('\n').for_each(|line| self.line(line)),
                "stderr" => self.noise(&event.text),
                "execution_complete" => {
                    self.is_over = true;
                    return Ok(());
                }
                "error" => {
                    self.is_over = true;
                    let code = event.error.map(|error| format!("{} {}", error.ename, error.evalue));
                    self.noise(&code.unwrap_or_default());
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        let mut letters = line.chars();
        let kind = letters.next();
        let rest = letters.as_str();
        match kind {
            Some(LEFT_OUT) => self.kept.skip(rest.trim().parse().unwrap_or(0)),
            Some(REPORT | OUTPUT) => match BASE64_STANDARD.decode(rest.trim()) {
                Ok(bytes) if kind == Some(OUTPUT) => self.kept.push(&bytes),
                Ok(bytes) => {
                    let room = usize::try_from(MAX_REPORT_BYTES).unwrap_or(usize::MAX) - self.unread.len();
                    self.unread.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if bytes.contains(&b'\n') {
                        take_lines(&mut self.unread, &mut self.reports);
                        self.ready.notify_one();
                    }
                }
                Err(_) => self.noise(line),
            },
            _ => self.noise(line),
        }
    }

    fn noise(&mut self, text: &str) {
        if self.noise.len() < MAX_NOISE && !text.trim().is_empty() {
            self.noise.push_str(&crate::text::cap_chars(text.trim(), MAX_NOISE));
            self.noise.push(' ');
        }
    }

    /// A helper that said nothing in our words is told of in its own.
    fn ended(self, stopped: Option<Stopped>) -> Ended {
        let mut reports = self.reports;
        if reports.is_empty() && stopped.is_none() {
            let noise = self.noise.trim();
            reports.push(Report::Broken(format!(
                "the helper does not start in the sandbox: {noise}"
            )));
        }
        Ended {
            reports,
            stopped,
            status: None,
        }
    }
}
