//! The sandbox on this machine: each command gets fresh walls over the same folders. Called by
//! the door. Never runs without isolation unless the administrator said so, and then says it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::Background;
use super::cgroup::{self, Group, Membership};
use super::judge::Judge;
use super::output::SharedOutput;
use super::overlay::{Holder, Join, Layers};
use super::process::{self, Ended, Stops};
use super::remedy::Facts;
use super::root::View;
use super::spare::Spares;
use super::spec::{CommandTask, HostFolders, Isolation, Limits, Report, Spec, Task};
use super::{
    BackgroundOutput, Exec, ExecOutput, Exit, FileReply, FileRequest, Layer, Part, Program, Sandbox,
    SandboxDescription, SandboxError, SandboxFolders, SnapshotRequest, Started, WayOut, examine, export, folders,
    layer, left, snapshot,
};
use crate::config::SandboxConfig;
use crate::ids::CommitSha;

/// Longest file operation; searches end themselves earlier.
pub(super) const FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest probe.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest export, which hashes the whole workspace.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(300);

/// What a command may take before walls are built for the next ones.
const SHORT: Duration = Duration::from_millis(50);

/// Output kept of helpers that should say nothing.
const QUIET_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct LocalSandbox {
    helper: PathBuf,
    isolation: Isolation,
    uid: Option<u32>,
    folders: HostFolders,
    out: PathBuf,
    limits: Limits,
    cpus: f64,
    groups: cgroup::Bases,
    way_out: Option<WayOut>,
    timeout: Duration,
    output_bytes: usize,
    description: SandboxDescription,
    closing: CancellationToken,
    running: TaskTracker,
    background: Background,
    spares: Spares,
    join: Option<Join>,
    holder: Mutex<Option<Holder>>,
}

pub(super) async fn open(
    config: &SandboxConfig,
    folders: SandboxFolders,
    slot: u16,
    way_out: Option<WayOut>,
) -> Result<LocalSandbox, SandboxError> {
    let uid = rustix::process::geteuid()
        .is_root()
        .then(|| config.uid_base.saturating_add(slot.into()));
    let toolchains = config.toolchains.clone();
    let prepared = tokio::task::spawn_blocking(move || {
        let prepared = folders::prepare(&folders, &toolchains, uid)?;
        let layers = Layers::of(&folders, uid)?;
        Ok((prepared, layers, cgroup::Bases::find()))
    });
    let ((folders, out), layers, groups) = prepared
        .await
        .map_err(|error| SandboxError::Broken(error.to_string()))
        .and_then(|prepared| prepared.map_err(SandboxError::Broken))?;
    let helper = config.helper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let (holder, join) = match &layers {
        Some(layers) => Holder::start(&helper, layers)
            .await
            .map(|(holder, join)| (Some(holder), Some(join)))?,
        None => (None, None),
    };
    let mut sandbox = LocalSandbox {
        helper,
        isolation: Isolation::Namespaces,
        uid,
        folders,
        out,
        limits: Limits {
            memory_mib: config.memory_mib,
            max_processes: config.max_processes,
            disk_mib: config.disk_mib,
        },
        cpus: config.cpus,
        groups,
        way_out,
        timeout: config.command_timeout_seconds,
        output_bytes: usize::try_from(config.output_kib.saturating_mul(1024)).unwrap_or(usize::MAX),
        description: SandboxDescription {
            backend: "local".to_owned(),
            layers: Vec::new(),
            warnings: Vec::new(),
        },
        closing: CancellationToken::new(),
        running: TaskTracker::new(),
        background: Background::default(),
        spares: Spares::default(),
        join,
        holder: Mutex::new(holder),
    };
    match sandbox.probe().await {
        Err(SandboxError::Unavailable { problem, .. }) if config.unsafe_local && sandbox.join.is_none() => {
            sandbox.isolation = Isolation::None;
            let had_way_out = sandbox.way_out.take().is_some();
            sandbox.probe().await?;
            sandbox
                .description
                .warnings
                .insert(0, format!("NO ISOLATION: commands see this machine ({problem})"));
            if had_way_out {
                let warning = "no way out: without a network of its own a sandbox has no door to guard";
                sandbox.description.warnings.push(warning.to_owned());
            }
        }
        probed => probed?,
    }
    Ok(sandbox)
}

impl LocalSandbox {
    /// Builds the walls once and remembers which stand. They are for the first command.
    async fn probe(&mut self) -> Result<(), SandboxError> {
        let group = self.group()?;
        let spec = self.spec(Task::Wait, None, group.membership());
        let never = CancellationToken::new();
        let stops = Stops {
            timeout: PROBE_TIMEOUT,
            cancel: &never,
            closing: &self.closing,
        };
        let (spare, ready) = process::prepare(&self.helper, &spec, stops)
            .await?
            .map_err(|ended| JUDGE.failure(&ended))?;
        if let Report::Ready { layers, warnings } = ready {
            self.description.layers = layers;
            self.description.layers.push(self.groups.layer());
            self.description.warnings = warnings;
        }
        self.spares.keep(spare, group);
        Ok(())
    }

    /// Builds walls for the next commands, unless somebody does.
    fn prepare_next(&self) {
        let Some(building) = self.spares.build() else { return };
        let (groups, limits, cpus) = (self.groups.clone(), self.limits.clone(), self.cpus);
        let spec = self.spec(Task::Wait, None, Membership::default());
        let (helper, closing) = (self.helper.clone(), self.closing.clone());
        self.running.spawn(async move {
            let mut spec = spec;
            let never = CancellationToken::new();
            // Without walls that wait, the next command builds its own and says what is wrong.
            while building.wants_more() {
                let Ok(group) = groups.make(&limits, cpus) else { return };
                spec.group = group.membership();
                let stops = Stops {
                    timeout: PROBE_TIMEOUT,
                    cancel: &never,
                    closing: &closing,
                };
                match process::prepare(&helper, &spec, stops).await {
                    Ok(Ok((spare, _))) => building.keep(spare, group),
                    _ => return,
                }
            }
        });
    }

    async fn run(
        &self,
        task: Task,
        timeout: Duration,
        kept: &SharedOutput,
        cancel: &CancellationToken,
        out: Option<PathBuf>,
    ) -> Result<Ended, SandboxError> {
        let stops = Stops {
            timeout,
            cancel,
            closing: &self.closing,
        };
        // Those that wait do not show the folder of exports.
        let ready = match out {
            None if !self.closing.is_cancelled() => self.spares.take(),
            _ => None,
        };
        let (mut ended, group) = if let Some((spare, group)) = ready {
            let run = self.running.track_future(spare.run(&task, kept, stops, &self.running));
            tokio::pin!(run);
            // A short command has the machine for itself; while a longer one runs, walls are built.
            let ended = tokio::select! {
                ended = &mut run => ended,
                () = tokio::time::sleep(SHORT) => {
                    self.prepare_next();
                    run.await
                }
            };
            (ended?, group)
        } else {
            let group = self.group()?;
            let spec = self.spec(task, out, group.membership());
            let run = process::run(&self.helper, &spec, kept, stops, &self.running);
            (self.running.track_future(run).await?, group)
        };
        ended.add_limit(group.passed(&self.limits));
        if !self.closing.is_cancelled() {
            self.prepare_next();
        }
        Ok(ended)
    }

    fn group(&self) -> Result<Group, SandboxError> {
        let made = self.groups.make(&self.limits, self.cpus);
        made.map_err(|error| SandboxError::Broken(format!("make a group for the limits: {error}")))
    }

    fn spec(&self, task: Task, out: Option<PathBuf>, group: Membership) -> Spec {
        Spec {
            isolation: self.isolation,
            uid: self.uid,
            folders: HostFolders {
                out,
                ..self.folders.clone()
            },
            limits: self.limits.clone(),
            group,
            way_out: self.way_out.clone().filter(|_| goes_out(&task)),
            task,
            join: self.join.clone(),
        }
    }

    /// Runs a command and judges how it ended.
    async fn command(
        &self,
        task: CommandTask,
        timeout: Duration,
        cancel: &CancellationToken,
        out: Option<PathBuf>,
    ) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let kept = SharedOutput::new(self.output_bytes);
        let ended = self.run(Task::Command(task), timeout, &kept, cancel, out).await?;
        JUDGE.output(&ended, timeout, &kept, started)
    }

    fn view(&self, out: &Path) -> View {
        let folders = HostFolders {
            out: Some(out.to_path_buf()),
            ..self.folders.clone()
        };
        match self.isolation {
            Isolation::Namespaces | Isolation::Container => View::isolated(&folders),
            Isolation::None => View::plain(&folders),
        }
    }
}

/// File operations need no network.
fn goes_out(task: &Task) -> bool {
    match task {
        Task::Probe | Task::Examine | Task::Wait | Task::Command(_) => true,
        Task::Files(_) => false,
    }
}

pub(super) fn quiet() -> SharedOutput {
    SharedOutput::new(QUIET_BYTES)
}

pub(super) fn task_of(exec: &Exec) -> CommandTask {
    CommandTask {
        argv: argv(&exec.program),
        folder: exec.folder.clone(),
        environment: exec.environment.clone().into_iter().collect(),
        stdin: base64::prelude::BASE64_STANDARD.encode(&exec.stdin),
    }
}

/// A sandbox that nobody holds any more lets nothing go on.
impl Drop for LocalSandbox {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// How helpers on this machine are judged. Their walls were looked at before the task came.
const JUDGE: Judge = Judge {
    remedy: || Facts::of_this_machine().remedy().to_owned(),
    says_ready: false,
};

fn argv(program: &Program) -> Vec<String> {
    match program {
        Program::Argv(argv) => argv.clone(),
        Program::Shell(line) => {
            let shell = if Path::new("/bin/bash").exists() {
                "/bin/bash"
            } else {
                "/bin/sh"
            };
            [shell, "-c", line].map(str::to_owned).to_vec()
        }
    }
}

/// The same where only the helper sees which shell an image has.
pub(super) fn container_argv(program: &Program) -> Vec<String> {
    match program {
        Program::Argv(argv) => argv.clone(),
        Program::Shell(line) => ["/bin/bash", "-c", line].map(str::to_owned).to_vec(),
    }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn description(&self) -> SandboxDescription {
        self.description.clone()
    }

    async fn exec(&self, exec: &Exec, cancel: &CancellationToken) -> Result<ExecOutput, SandboxError> {
        self.command(
            task_of(exec),
            exec.timeout.map_or(self.timeout, |asked| asked.min(self.timeout)),
            cancel,
            None,
        )
        .await
    }

    async fn start(&self, exec: &Exec, cancel: &CancellationToken) -> Result<Started, SandboxError> {
        let group = self.group()?;
        let spec = self.spec(Task::Command(task_of(exec)), None, group.membership());
        let (helper, limits, ends) = (self.helper.clone(), self.limits.clone(), self.running.clone());
        self.background
            .start(exec, cancel, &self.closing, &self.running, async move |own| {
                let mut ended = process::run(&helper, &spec, &own.output, own.stops(), &ends).await?;
                ended.add_limit(group.passed(&limits));
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
        let task = Task::Files(request.clone());
        let never = CancellationToken::new();
        let ended = self.run(task, FILES_TIMEOUT, &quiet(), &never, None).await?;
        JUDGE.files(ended, request)
    }

    async fn snapshot(
        &self,
        request: &SnapshotRequest,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput, SandboxError> {
        let view = self.view(&self.out);
        let task = CommandTask {
            argv: snapshot::argv(&view.base_git, request),
            folder: String::new(),
            environment: Vec::new(),
            stdin: String::new(),
        };
        self.command(task, EXPORT_TIMEOUT, cancel, None).await
    }

    async fn export(&self, base: &CommitSha, cancel: &CancellationToken) -> Result<Option<PathBuf>, SandboxError> {
        let view = self.view(&self.out);
        let inner_out = view.out.clone().unwrap_or_default();
        let task = CommandTask {
            argv: export::argv(&view.base_git, &inner_out, base),
            folder: String::new(),
            environment: Vec::new(),
            stdin: String::new(),
        };
        let output = self
            .command(task, EXPORT_TIMEOUT, cancel, Some(self.out.clone()))
            .await?;
        if output.exit == Exit::Cancelled {
            return Err(SandboxError::Cancelled);
        }
        export::found(&output, &self.out)
    }

    async fn layers(&self) -> Result<Vec<Layer>, SandboxError> {
        let never = CancellationToken::new();
        let mut ended = self.run(Task::Examine, PROBE_TIMEOUT, &quiet(), &never, None).await?;
        let Some(Report::Examined(found)) = ended.reports.pop() else {
            return Err(JUDGE.failure(&ended));
        };
        let rows = layer::Local {
            found: &found,
            outside: &examine::spaces(),
            description: &self.description,
            groups: &self.groups,
            limits: &self.limits,
            cpus: self.cpus,
            way_out: self.way_out.as_ref(),
            remedy: Facts::of_this_machine().remedy(),
        };
        Ok(rows.rows())
    }

    async fn left_by_setup(
        &self,
        base: &CommitSha,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, SandboxError> {
        let view = self.view(&self.out);
        let task = CommandTask {
            argv: left::argv(&view.base_git, &view.out.clone().unwrap_or_default(), base),
            folder: String::new(),
            environment: Vec::new(),
            stdin: String::new(),
        };
        let out = Some(self.out.clone());
        let output = self.command(task, EXPORT_TIMEOUT, cancel, out).await?;
        left::found(&output, &self.out).map(Some)
    }

    async fn close(&self) {
        self.closing.cancel();
        self.running.close();
        self.running.wait().await;
        while let Some((spare, _group)) = self.spares.take() {
            spare.end().await;
        }
        if let Some(holder) = self.holder.lock().await.take() {
            holder.end().await;
        }
    }
}
