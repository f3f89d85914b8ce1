//! The sandbox on an OpenSandbox server: one remote sandbox for a run, in which the same helper works
//! as on this machine, so that commands, files, limits and exports mean the same. The run's files go
//! there once, and changes come back as a bundle. Called by the door.
//! Never runs anything on this machine because the server is missing or too weak.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::Background;
use super::cgroup::Membership;
use super::judge::{Judge, is_whole};
use super::local::{EXPORT_TIMEOUT, FILES_TIMEOUT, PROBE_TIMEOUT, container_argv, quiet};
use super::output::SharedOutput;
use super::process::{Ended, Stops};
use super::remote::{SWEEP, USER};
use super::spec::{CommandTask, HostFolders, Isolation, Limits, Report, Spec, Task};
use super::{
    BackgroundOutput, Exec, ExecOutput, Exit, FileReply, FileRequest, Part, Sandbox, SandboxDescription, SandboxError,
    SnapshotRequest, Started, WORKSPACE, export, root, snapshot,
};
use crate::ids::CommitSha;

mod execd;
mod frames;
mod opening;
mod seed;
mod server;
mod stream;
mod way;

pub(super) use opening::{let_go, open};
use server::Server;
use stream::Remote;
use way::Way;

/// How helpers on a server are judged.
const JUDGE: Judge = Judge {
    remedy: || {
        "Look at the server's configuration and at its nodes' kernel: a sandbox must let our helper use Landlock and \
         seccomp as an ordinary user"
            .to_owned()
    },
    says_ready: true,
};

/// How often a command is begun whose way out was lost before it could begin.
const WAYS_FOR_A_COMMAND: usize = 3;

/// Whether a task has the way out of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// For commands: what the run's proxy lets through.
    Proxy,
    /// For scripts of ours: nothing.
    Nothing,
}

#[derive(Debug)]
pub(super) struct OpenSandbox {
    server: Server,
    id: String,
    remote: Arc<Remote>,
    way: Option<Way>,
    out: PathBuf,
    marker: PathBuf,
    limits: Limits,
    /// Whether the sandbox is paused and not ended when the run closes it.
    keep: bool,
    timeout: Duration,
    output_bytes: usize,
    description: SandboxDescription,
    closing: CancellationToken,
    running: TaskTracker,
    background: Background,
}

impl OpenSandbox {
    /// Looks at the walls from inside and remembers which stand.
    async fn probe(&mut self) -> Result<(), SandboxError> {
        let never = CancellationToken::new();
        let spec = self.spec(Task::Probe, Reach::Proxy);
        let ended = self.run(spec, PROBE_TIMEOUT, &quiet(), &never).await?;
        let Some(Report::Ready { layers, warnings }) = ended.reports.first() else {
            return Err(JUDGE.failure(&ended));
        };
        self.description.layers.extend(layers.iter().cloned());
        self.description.warnings.extend(warnings.iter().cloned());
        Ok(())
    }

    /// Gives the sandbox more time for as long as it is in use.
    fn renew_for(&self, life: Duration) {
        let (server, id, closing) = (self.server.clone(), self.id.clone(), self.closing.clone());
        self.running.spawn(async move {
            loop {
                // At once, too: one that was taken up again may have little time left.
                if let Err(error) = server.renew(&id, life).await {
                    tracing::warn!(sandbox = id, error = %error.words, "a sandbox was not renewed");
                }
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = tokio::time::sleep(life / 3) => {}
                }
            }
        });
    }

    fn spec(&self, task: Task, reach: Reach) -> Spec {
        let way = self.way.as_ref().filter(|_| reach == Reach::Proxy);
        Spec {
            isolation: Isolation::Container,
            uid: None,
            folders: HostFolders {
                workspace: WORKSPACE.into(),
                home: root::HOME.into(),
                tmp: root::TMP.into(),
                base_git: root::BASE_GIT.into(),
                out: None,
                toolchains: Vec::new(),
            },
            limits: self.limits.clone(),
            // The server holds those of its containers.
            group: Membership::default(),
            way_out: way.map(|way| way.inner().clone()),
            task,
            join: None,
        }
    }

    async fn run(
        &self,
        spec: Spec,
        timeout: Duration,
        kept: &SharedOutput,
        cancel: &CancellationToken,
    ) -> Result<Ended, SandboxError> {
        let ran = async |spec: &Spec| {
            let stops = Stops {
                timeout,
                cancel,
                closing: &self.closing,
            };
            let running = ran(&self.remote, spec, kept, stops, &self.running);
            self.running.track_future(running).await
        };
        let Some(way) = self.way.as_ref().filter(|_| spec.way_out.is_some()) else {
            return ran(&spec).await;
        };
        for _ in 0..WAYS_FOR_A_COMMAND {
            way.stand().await?;
            let ended = ran(&spec).await?;
            way.is_kept().await?;
            let has_begun = ended.stopped.is_some() || matches!(ended.reports.first(), Some(Report::Ready { .. }));
            if has_begun || !way.is_lost().await {
                return Ok(ended);
            }
        }
        Err(SandboxError::Broken(
            "the sandbox's way out is lost before each command".to_owned(),
        ))
    }

    async fn script(
        &self,
        argv: Vec<String>,
        out: Option<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let task = Task::Command(CommandTask {
            argv,
            folder: String::new(),
            environment: Vec::new(),
            stdin: String::new(),
        });
        let kept = SharedOutput::new(self.output_bytes);
        let mut spec = self.spec(task, Reach::Nothing);
        spec.folders.out = out;
        let ended = self.run(spec, EXPORT_TIMEOUT, &kept, cancel).await?;
        JUDGE.output(&ended, EXPORT_TIMEOUT, &kept, started)
    }
}

/// Runs a helper. One that did not come to its own end may have left something, which is then ended
/// with everything else of the commands' user; so it is when nobody waits any more.
async fn ran(
    remote: &Arc<Remote>,
    spec: &Spec,
    kept: &SharedOutput,
    stops: Stops<'_>,
    running: &TaskTracker,
) -> Result<Ended, SandboxError> {
    let watch = Watch {
        remote: Some(remote.clone()),
        running: running.clone(),
    };
    let ended = stream::run(remote, spec, kept, stops).await;
    watch.disarm();
    let is_whole = ended.as_ref().is_ok_and(|ended| is_whole(&spec.task, ended));
    if !is_whole {
        swept(remote).await?;
    }
    ended
}

async fn swept(remote: &Remote) -> Result<(), SandboxError> {
    let swept = remote.execd.chore(&remote.line(SWEEP)).await;
    swept.map_err(|error| error.broken("end what a command left in the sandbox"))
}

struct Watch {
    remote: Option<Arc<Remote>>,
    running: TaskTracker,
}

impl Watch {
    fn disarm(mut self) {
        self.remote = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(remote) = self.remote.take() else { return };
        // Without a runtime our process is ending; the server ends the sandbox when its time is over.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let sweeping = async move { drop(swept(&remote).await) };
            self.running.spawn_on(sweeping, &runtime);
        }
    }
}

/// A sandbox that nobody holds any more lets nothing go on. It is not ended here: a run that was
/// interrupted finds its files again, and otherwise nobody renews it.
impl Drop for OpenSandbox {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[async_trait]
impl Sandbox for OpenSandbox {
    fn description(&self) -> SandboxDescription {
        self.description.clone()
    }

    async fn exec(&self, exec: &Exec, cancel: &CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let timeout = exec.timeout.map_or(self.timeout, |asked| asked.min(self.timeout));
        let kept = SharedOutput::new(self.output_bytes);
        let spec = self.spec(Task::Command(task_of(exec)), Reach::Proxy);
        let ended = self.run(spec, timeout, &kept, cancel).await?;
        JUDGE.output(&ended, timeout, &kept, started)
    }

    async fn start(&self, exec: &Exec, cancel: &CancellationToken) -> Result<Started, SandboxError> {
        let spec = self.spec(Task::Command(task_of(exec)), Reach::Proxy);
        if let Some(way) = &self.way {
            way.stand().await?;
        }
        let (remote, running) = (self.remote.clone(), self.running.clone());
        self.background
            .start(exec, cancel, &self.closing, &self.running, async move |own| {
                let ended = ran(&remote, &spec, &own.output, own.stops(), &running).await?;
                JUDGE.exit(&ended, own.timeout)
            })
    }

    fn running(&self) -> Vec<(u32, String)> {
        self.background.running()
    }

    async fn output(
        &self,
        id: u32,
        part: Part,
        wait: Duration,
        cancel: &CancellationToken,
    ) -> Option<BackgroundOutput> {
        self.background.output(id, part, wait, cancel).await
    }

    async fn stop(&self, id: u32) -> Option<BackgroundOutput> {
        self.background.stop(id).await
    }

    async fn files(&self, request: &FileRequest) -> Result<FileReply, SandboxError> {
        let spec = self.spec(Task::Files(request.clone()), Reach::Nothing);
        let never = CancellationToken::new();
        let ended = self.run(spec, FILES_TIMEOUT, &quiet(), &never).await?;
        JUDGE.files(ended, request)
    }

    async fn snapshot(
        &self,
        request: &SnapshotRequest,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput, SandboxError> {
        let argv = snapshot::argv(Path::new(root::BASE_GIT), request);
        self.script(argv, None, cancel).await
    }

    async fn export(&self, base: &CommitSha, cancel: &CancellationToken) -> Result<Option<PathBuf>, SandboxError> {
        let (out, broken) = (root::OUT, "fetch the change from the sandbox");
        // Whatever lies there, nobody of ours put it there.
        let emptied = format!("rm -rf {out} && mkdir -m 700 {out} && chown {USER}:{USER} {out}");
        let emptied = self.remote.execd.chore(&emptied).await;
        emptied.map_err(|error| error.broken("empty the folder of exports"))?;
        let argv = export::argv(Path::new(root::BASE_GIT), Path::new(out), base);
        let output = self.script(argv, Some(out.into()), cancel).await?;
        if output.exit == Exit::Cancelled {
            return Err(SandboxError::Cancelled);
        }
        if !export::has_bundle(&output) {
            return export::found(&output, &self.out);
        }
        let bundle = self.out.join(export::BUNDLE);
        match tokio::fs::remove_file(&bundle).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(SandboxError::Broken(format!("remove {}: {error}", bundle.display())));
            }
            _ => {}
        }
        let path = format!("{out}/{}", export::BUNDLE);
        let fetched = self
            .remote
            .execd
            .download(&path, &bundle, export::MAX_BUNDLE_BYTES)
            .await;
        fetched.map_err(|error| error.broken(broken))?;
        export::found(&output, &self.out)
    }

    async fn close(&self) {
        self.closing.cancel();
        self.running.close();
        self.running.wait().await;
        let ended = match self.keep {
            true => self.server.pause(&self.id).await,
            false => self.server.delete(&self.id).await,
        };
        match ended {
            Ok(()) if !self.keep => {
                // The run's files went with it: without its home the run folder is no longer whole, so
                // that a later attempt begins from what was stored and not from the bare commit.
                let _ = tokio::fs::remove_file(&self.marker).await;
                let _ = tokio::fs::remove_dir_all(self.marker.with_file_name("home")).await;
            }
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(sandbox = self.id, error = %error.words, "a sandbox was not ended; its time will");
            }
        }
    }
}

fn task_of(exec: &Exec) -> CommandTask {
    CommandTask {
        // Whether the image has bash is seen inside.
        argv: container_argv(&exec.program),
        ..super::local::task_of(exec)
    }
}
