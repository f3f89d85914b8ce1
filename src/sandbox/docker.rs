//! The sandbox in containers of Docker or podman: one for the commands of a run, and one more for
//! each command in the background and each export. Called by the door. Inside works the same helper
//! as on this machine, so that files, limits and exports mean the same.
//! Never runs anything on the machine itself because the engine is missing or too weak.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::Background;
use super::cgroup::Membership;
use super::judge::is_whole;
use super::local::{EXPORT_TIMEOUT, FILES_TIMEOUT, PROBE_TIMEOUT, container_argv, quiet};
use super::output::SharedOutput;
use super::process::{Ended, Stops};
use super::spec::{CommandTask, HostFolders, Isolation, Report, Spec, Task};
use super::{
    BackgroundOutput, Exec, ExecOutput, Exit, FileReply, FileRequest, Part, Sandbox, SandboxDescription, SandboxError,
    SnapshotRequest, Started, WORKSPACE, export, root, snapshot,
};
use crate::config::SandboxConfig;
use crate::ids::CommitSha;

mod container;
mod door;
mod engine;
mod etc;
mod image;
mod judge;
mod label;
mod leftover;
mod opening;
mod stream;
mod tools;

use container::{Container, Extras, Plan, Reach};
use judge::JUDGE;
pub(super) use opening::open;
use tools::Tools;

/// Containers that services left which are gone, by id.
pub(super) async fn orphans(config: &SandboxConfig) -> Result<Vec<String>, SandboxError> {
    Ok(leftover::found(&engine::connect(config).await?).await)
}

/// Ends one of them; one that is none any more is left alone.
pub(super) async fn end_orphan(config: &SandboxConfig, id: &str) -> Result<(), SandboxError> {
    let engine = engine::connect(config).await?;
    if leftover::found(&engine).await.iter().any(|found| found == id) {
        container::remove(&engine.docker, id).await;
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct DockerSandbox {
    plan: Arc<Plan>,
    out: PathBuf,
    timeout: Duration,
    output_bytes: usize,
    description: SandboxDescription,
    /// The container of commands in front and of files; none after it had to be ended.
    front: Mutex<Option<Arc<Container>>>,
    tools: OnceCell<Tools>,
    closing: CancellationToken,
    running: TaskTracker,
    background: Background,
}

impl DockerSandbox {
    /// Starts the first container, looks at its walls from inside and remembers which stand.
    async fn probe(&mut self) -> Result<(), SandboxError> {
        let never = CancellationToken::new();
        let kept = quiet();
        let ended = self.in_front(Task::Probe, PROBE_TIMEOUT, &kept, &never).await?;
        let Some(Report::Ready { layers, .. }) = ended.reports.first() else {
            return Err(judge::not_ready(&ended, &kept.text()));
        };
        let (plan, description) = (&self.plan, &mut self.description);
        let runtime = plan.runtime.as_deref().unwrap_or("its own runtime");
        description.layers = vec![
            format!("{} with {runtime}", plan.engine.name),
            format!("image {}", plan.image.id),
        ];
        description.layers.push(judge::user(plan.user.0, plan.engine.users));
        description.layers.extend(layers.iter().cloned());
        description
            .layers
            .push("limits of memory, processes and processors".to_owned());
        description.warnings.clone_from(&plan.engine.warnings);
        if let Some(container) = self.front.lock().await.as_ref() {
            description.warnings.extend(container.warnings.iter().cloned());
        }
        Ok(())
    }

    /// A container, made to its end even when nobody waits any more: a half-made one would stay.
    async fn container(&self, extras: Extras) -> Result<Container, SandboxError> {
        if self.closing.is_cancelled() {
            return Err(SandboxError::Cancelled);
        }
        let plan = self.plan.clone();
        let made = self
            .running
            .spawn(async move { Container::start(&plan, &extras).await });
        made.await.map_err(|error| SandboxError::Broken(error.to_string()))?
    }

    async fn front(&self) -> Result<Arc<Container>, SandboxError> {
        let mut front = self.front.lock().await;
        if let Some(container) = front.as_ref().filter(|container| !container.is_spoiled()) {
            return Ok(container.clone());
        }
        let container = Arc::new(self.container(Extras::commands()).await?);
        *front = Some(container.clone());
        Ok(container)
    }

    /// Ends a container of which it is not known that nothing is left running in it.
    async fn give_up(&self, container: &Arc<Container>) {
        let mut front = self.front.lock().await;
        if front.as_ref().is_some_and(|current| Arc::ptr_eq(current, container)) {
            *front = None;
        }
        drop(front);
        container.remove().await;
    }

    fn spec(&self, task: Task, out: Option<PathBuf>, reach: Reach) -> Spec {
        let door = self.plan.door.as_ref().filter(|_| reach == Reach::Proxy);
        Spec {
            isolation: Isolation::Container,
            uid: None,
            // Where they are on this machine is nobody's business inside.
            folders: HostFolders {
                workspace: WORKSPACE.into(),
                home: root::HOME.into(),
                tmp: root::TMP.into(),
                base_git: root::BASE_GIT.into(),
                out,
                toolchains: Vec::new(),
            },
            limits: self.plan.limits.clone(),
            // The engine made a group for the container.
            group: Membership::default(),
            way_out: door.map(|door| door.inner.clone()),
            task,
            join: None,
        }
    }

    /// Does a task in the container of commands in front.
    async fn in_front(
        &self,
        task: Task,
        timeout: Duration,
        kept: &SharedOutput,
        cancel: &CancellationToken,
    ) -> Result<Ended, SandboxError> {
        let spec = self.spec(task, None, Reach::Proxy);
        let work = async {
            // Nothing was started yet when the engine refuses, so that a second try is harmless: the
            // container may have ended since, by its memory or by a restart of the engine.
            let mut tries = 2;
            loop {
                tries -= 1;
                let container = self.front().await?;
                let stops = Stops {
                    timeout,
                    cancel,
                    closing: &self.closing,
                };
                let watch = Watch {
                    sandbox: self,
                    container: Some(container.clone()),
                };
                let ran = stream::run(&container, &spec, kept, stops).await;
                watch.disarm();
                match ran {
                    Ok(ended) => {
                        if !is_whole(&spec.task, &ended) {
                            self.give_up(&container).await;
                        }
                        return Ok(ended);
                    }
                    Err(SandboxError::Broken(_)) if tries > 0 => self.give_up(&container).await,
                    Err(error) => {
                        self.give_up(&container).await;
                        return Err(error);
                    }
                }
            }
        };
        self.running.track_future(work).await
    }

    /// Does a task in a container of its own, which is gone afterwards.
    async fn apart(
        &self,
        spec: &Spec,
        extras: Extras,
        timeout: Duration,
        kept: &SharedOutput,
        cancel: &CancellationToken,
    ) -> Result<Ended, SandboxError> {
        let work = async {
            let container = self.container(extras).await?;
            let stops = Stops {
                timeout,
                cancel,
                closing: &self.closing,
            };
            let ended = stream::run(&container, spec, kept, stops).await;
            container.remove().await;
            ended
        };
        self.running.track_future(work).await
    }

    fn task_of(&self, exec: &Exec) -> CommandTask {
        let mut environment = tools::environment_of(&self.plan.image);
        environment.extend(exec.environment.clone());
        CommandTask {
            // Whether the image has bash is seen inside.
            argv: container_argv(&exec.program),
            environment,
            ..super::local::task_of(exec)
        }
    }

    /// A script of ours with the image's git or, in a container apart, with this machine's.
    async fn script(
        &self,
        argv: Vec<String>,
        out: Option<&Path>,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let tools = *self.tools.get_or_try_init(|| self.look_for_tools(cancel)).await?;
        let environment = match tools {
            Tools::OfImage => tools::environment_of(&self.plan.image),
            Tools::OfMachine => Vec::new(),
        };
        let task = Task::Command(CommandTask {
            argv,
            folder: String::new(),
            environment,
            stdin: String::new(),
        });
        let kept = SharedOutput::new(self.output_bytes);
        let ended = match (tools, out) {
            (Tools::OfImage, None) => self.in_front(task, EXPORT_TIMEOUT, &kept, cancel).await?,
            _ => {
                let extras = Extras {
                    reach: Reach::Nothing,
                    out: out.map(Path::to_path_buf),
                    machine_tools: tools == Tools::OfMachine,
                };
                let spec = self.spec(task, out.map(|_| root::OUT.into()), Reach::Nothing);
                self.apart(&spec, extras, EXPORT_TIMEOUT, &kept, cancel).await?
            }
        };
        JUDGE.output(&ended, EXPORT_TIMEOUT, &kept, started)
    }

    async fn look_for_tools(&self, cancel: &CancellationToken) -> Result<Tools, SandboxError> {
        let kept = quiet();
        let task = Task::Command(CommandTask {
            argv: tools::look(),
            folder: String::new(),
            environment: tools::environment_of(&self.plan.image),
            stdin: String::new(),
        });
        let ended = self.in_front(task, PROBE_TIMEOUT, &kept, cancel).await?;
        if ended.stopped.is_some() {
            return Err(JUDGE.failure(&ended));
        }
        Ok(Tools::found(&ended.reports, &kept.text()))
    }
}

/// Ends the container when nobody waits for its command any more: Docker then ends the command by
/// itself, podman does not.
struct Watch<'s> {
    sandbox: &'s DockerSandbox,
    container: Option<Arc<Container>>,
}

impl Watch<'_> {
    fn disarm(mut self) {
        self.container = None;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else {
            return;
        };
        container.spoil();
        // Without a runtime our process is ending, and the container with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let removal = async move { container.remove().await };
            self.sandbox.running.spawn_on(removal, &runtime);
        }
    }
}

/// A sandbox that nobody holds any more lets nothing go on: its containers end with the connections.
impl Drop for DockerSandbox {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn description(&self) -> SandboxDescription {
        self.description.clone()
    }

    async fn exec(&self, exec: &Exec, cancel: &CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let timeout = exec.timeout.map_or(self.timeout, |asked| asked.min(self.timeout));
        let kept = SharedOutput::new(self.output_bytes);
        let task = Task::Command(self.task_of(exec));
        let ended = self.in_front(task, timeout, &kept, cancel).await?;
        JUDGE.output(&ended, timeout, &kept, started)
    }

    /// In a container of its own: there its network and processes are its own, too.
    async fn start(&self, exec: &Exec, cancel: &CancellationToken) -> Result<Started, SandboxError> {
        let spec = self.spec(Task::Command(self.task_of(exec)), None, Reach::Proxy);
        let plan = self.plan.clone();
        self.background
            .start(exec, cancel, &self.closing, &self.running, async move |own| {
                let container = Container::start(&plan, &Extras::commands()).await?;
                let ended = stream::run(&container, &spec, &own.output, own.stops()).await;
                container.remove().await;
                JUDGE.exit(&ended?, own.timeout)
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
        let task = Task::Files(request.clone());
        let never = CancellationToken::new();
        let ended = self.in_front(task, FILES_TIMEOUT, &quiet(), &never).await?;
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
        let argv = export::argv(Path::new(root::BASE_GIT), Path::new(root::OUT), base);
        let output = self.script(argv, Some(&self.out), cancel).await?;
        if output.exit == Exit::Cancelled {
            return Err(SandboxError::Cancelled);
        }
        export::found(&output, &self.out)
    }

    async fn close(&self) {
        self.closing.cancel();
        self.running.close();
        self.running.wait().await;
        if let Some(container) = self.front.lock().await.take() {
            container.remove().await;
        }
    }
}
