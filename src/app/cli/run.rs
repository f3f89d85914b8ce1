//! `forgehand run`: one task on a local checkout, without GitHub. Shows the diff, leaves a branch
//! and says by its exit code how it went. Never touches the checkout's files, index or branches
//! that exist, and leaves no file of its own behind but the record of the run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::progress::Limits;
use super::screen::{self, Screen, paint};
use super::{Context, Usage, complain, exit_code, show, surroundings};
use crate::agent::{Brief, Checkpoint, Solution, Stop};
use crate::app::{ports, prepare_state_dir, record};
use crate::clock::Clock;
use crate::config::{Config, ModelProvider, Problems};
use crate::event::{Event, RunEvent, Side, Totals};
use crate::git::{Git, GitError, LocalRepo, Remote, Signature, Uncommitted};
use crate::ids::{BranchName, CommitSha, JobId, RepoName, RunId};
use crate::job::JobError;
use crate::memory::{Keeper, Lasting, Memory};
use crate::phrase::{self, Language};
use crate::recorder::Recorder;
use crate::repo_config::{MAX_REPO_CONFIG_BYTES, REPO_CONFIG_PATH, RepoConfig};
use crate::run::{self, ChangeSet, Earlier, Finished, Place, Ports, SetupOf, Work};
use crate::secret::{Redactor, Secret};
use crate::store::Store;
use crate::text;
use crate::tool::Finish;
use crate::workspace::{RunFolder, remove_all};
use args::{Checks, Output};
use report::Report;

mod args;
mod drafts;
mod guidance;
mod interrupt;
mod people;
mod report;

pub(super) use args::{Args, Drafts, ModelArgs};

/// The model, the sandbox or git failed.
const ERROR: u8 = 4;
/// A signal ended it.
const INTERRUPTED: u8 = 130;

/// Largest task, in bytes.
const MAX_TASK_BYTES: u64 = 256 * 1024;
/// Most paths looked at.
const MAX_FILES: usize = 20_000;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let error = match Box::pin(attempt(context, &args)).await {
        Ok(code) => return Ok(ExitCode::from(code)),
        Err(error) => error,
    };
    complain(&error);
    let code = exit_code(&error).unwrap_or(ERROR);
    if args.output() == Output::Json {
        show::json(&report::failure(&format!("{error:#}"), code))?;
    }
    Ok(ExitCode::from(code))
}

async fn attempt(context: &Context, args: &Args) -> anyhow::Result<u8> {
    let began = Instant::now();
    let mut config = args.context(context).config()?;
    config.permission.allow.extend(args.allow.iter().cloned());
    let task = read_task(args.task())?;
    let (stop, shared_place) = (CancellationToken::new(), interrupt::SharedPlace::default());
    interrupt::listen(stop.clone(), shared_place.clone())?;
    let redactor = Redactor::default();
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let mut ports = ports::open(&config, &surroundings()?, &Clock::System, &redactor)?;
    let repo = open_repo(&ports.git, &args.repo).await?;
    somebody_answers(&config)?;
    ports = ports::for_person(ports, &config, &repo.root)?;
    let look = args.look();
    if look.is_some() {
        introduce(&ports, &repo).await;
    }
    let limits = Limits {
        max_turns: config.budget.max_turns,
    };
    let screen = look.map(|look| Screen::start(look, limits, redactor.clone()));
    ports.people = people::find(args.asking(), screen.as_ref(), &stop);
    if let Some(screen) = &screen {
        ports.live = screen.live();
    }
    let log = args.log.as_deref().map(Log::create).transpose()?;
    let run = RunId::new(Clock::System.now());
    let recorder = Recorder::in_memory(Clock::System, redactor);
    let recorder = recorded(recorder, &config, &run)?.with_listener(Arc::new(move |event: &Event| {
        if let Some(screen) = &screen {
            screen.tell(event);
        }
        if let Some(log) = &log {
            log.write(event);
        }
    }));
    let scratch = Scratch::make(&config)?;
    ports.memory = match memory(&config, &scratch, &repo, &task, &ports).await {
        Ok(memory) => Some(memory),
        Err(error) => {
            note!("forgehand: this run has no memory: {error:#}");
            None
        }
    };
    let place = Place {
        state_dir: scratch.folder().to_owned(),
        job: JobId::new(Clock::System.now()),
    };
    // Nobody else sets it.
    let _ = shared_place.set(place.clone());
    let local = Local {
        ports: &ports,
        repo: &repo,
        args,
        task: &task,
        run: &run,
        place: &place,
        recorder: &recorder,
        stop: &stop,
        began,
    };
    let code = Box::pin(local.work_and_report()).await;
    screen::end_active();
    // Also what an interrupted checkout left, which is no run folder yet.
    if let Err(error) = remove_all(&place.state_dir, &place.job) {
        note!("forgehand: {error:#}");
    }
    code
}

/// Without a model and without a script nobody could answer: better said before the checkout and
/// the checks than after them.
fn somebody_answers(config: &Config) -> anyhow::Result<()> {
    if config.model.provider == ModelProvider::Stub && config.model.stub_script.is_none() {
        return Err(Usage(
            "no model is set up: add --base-url URL and --model NAME, or set FORGEHAND_MODEL__PROVIDER=openai, \
             FORGEHAND_MODEL__BASE_URL, FORGEHAND_MODEL__NAME and FORGEHAND_MODEL__API_KEY (or model.stub_script, to \
             script the answers)"
                .to_owned(),
        )
        .into());
    }
    Ok(())
}

/// Where the run begins, with which model, and what it leaves out.
async fn introduce(ports: &Ports, repo: &LocalRepo) {
    let branch = repo
        .branch
        .as_ref()
        .map(|branch| format!(" on {branch}"))
        .unwrap_or_default();
    note!(
        "{}{branch} at {} · {}",
        paint::clean(&repo.root.display().to_string()),
        repo.head.short(),
        paint::one_line(ports.model.name())
    );
    match ports.git.uncommitted(repo).await {
        Ok(found) if found == Uncommitted::default() => {}
        Ok(Uncommitted { changed, unknown }) => {
            let counted = |count: usize, what: &str| match count {
                0 => None,
                1 => Some(format!("1 {what} file")),
                _ => Some(format!("{count} {what} files")),
            };
            let parts = [counted(changed, "changed"), counted(unknown, "untracked")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            note!(
                "The run starts from the last commit: what you have not committed ({}) is left out.",
                parts.join(", ")
            );
        }
        Err(error) => {
            tracing::debug!(%error, "what is not committed was not counted");
            note!("The run starts from the last commit; what is not committed is left out.");
        }
    }
}

/// The recorder with a record of the run, where one can be kept.
fn recorded(recorder: Recorder, config: &Config, run: &RunId) -> anyhow::Result<Recorder> {
    let Some(folder) = record::folder(config, &surroundings()?) else {
        return Ok(recorder);
    };
    match record::begin(&folder, run) {
        Ok(tape) => Ok(recorder.with_tape(tape)),
        Err(error) => {
            note!("forgehand: this run is not recorded: {error:#}");
            Ok(recorder)
        }
    }
}

fn read_task(task: Option<String>) -> anyhow::Result<String> {
    use std::io::Read as _;
    let Some(mut text) = task else {
        return Err(Usage(
            "say what is to be done: forgehand run \"Mend the …\", or --task TEXT, or - to read it from standard input"
                .to_owned(),
        )
        .into());
    };
    if text == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .take(MAX_TASK_BYTES + 1)
            .read_to_end(&mut bytes)
            .context("read the task from standard input")?;
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    if text.len() as u64 > MAX_TASK_BYTES {
        let most = text::bytes_in_words(MAX_TASK_BYTES);
        return Err(Usage(format!(
            "the task is longer than {most}; put the details into a file of the repository"
        ))
        .into());
    }
    if text.trim().is_empty() {
        return Err(Usage("the task is empty; say what is to be done".to_owned()).into());
    }
    Ok(text)
}

async fn open_repo(git: &Git, folder: &Path) -> anyhow::Result<LocalRepo> {
    match git.open_local(folder).await {
        // Whoever named the folder can name another one.
        Err(error @ GitError::NotFound(_)) => Err(Usage(format!("--repo {}: {error}", folder.display())).into()),
        other => other.with_context(|| format!("open {}", folder.display())),
    }
}

/// The file that the run is written to, a line for each event.
struct Log(Mutex<std::fs::File>);

impl Log {
    fn create(file: &Path) -> anyhow::Result<Self> {
        let created = std::fs::File::create(file).with_context(|| format!("--log: make {}", file.display()))?;
        Ok(Self(Mutex::new(created)))
    }

    /// A full disk is no reason to lose the run itself.
    fn write(&self, event: &Event) {
        use std::io::Write as _;
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(line) = serde_json::to_string(event) {
            drop(writeln!(file, "{line}"));
        }
    }
}

/// Where a local run keeps its checkout: in a folder that goes with it, unless one is configured.
enum Scratch {
    Temporary(tempfile::TempDir),
    Configured(PathBuf),
}

impl Scratch {
    fn make(config: &Config) -> anyhow::Result<Self> {
        if config.origins.contains_key("server.state_dir") {
            return prepare_state_dir(&config.server.state_dir).map(Self::Configured);
        }
        let folder = tempfile::Builder::new().prefix("forgehand-run-").tempdir();
        folder.map(Self::Temporary).context("make a temporary folder")
    }

    fn folder(&self) -> &Path {
        match self {
            Scratch::Temporary(folder) => folder.path(),
            Scratch::Configured(folder) => folder,
        }
    }
}

/// What the run keeps: in the database of the configured state folder, for later runs on the same
/// checkout; otherwise in one that goes with the run.
async fn memory(
    config: &Config,
    scratch: &Scratch,
    repo: &LocalRepo,
    task: &str,
    ports: &Ports,
) -> anyhow::Result<Memory> {
    let (url, lasting) = match scratch {
        Scratch::Temporary(folder) => {
            let file = folder.path().join("memory.sqlite");
            (Secret::new(format!("sqlite:{}", file.display())), Lasting::ForThisRun)
        }
        Scratch::Configured(folder) => {
            let mut config = config.clone();
            config.server.state_dir = folder.clone();
            (config.database_url(), Lasting::ForLaterRuns)
        }
    };
    let store = Store::open(&url, 2).await.context("open the database")?;
    store.migrate().await.context("bring the database up to date")?;
    let keeper = Keeper {
        repository: format!("local/{}", repo.root.display()),
        subject: format!(
            "task/{}",
            text::slug(task.trim().lines().next().unwrap_or_default(), 60)
        ),
        by: format!("a local run on {}", ports.clock.now().format("%Y-%m-%d %H:%M UTC")),
        lease: None,
        lasting,
        may_write_global: config.agent.global_memory,
    };
    Ok(Memory::new(store, keeper, ports.clock.clone(), ports.redactor.clone()))
}

/// Why there is no result, in words.
pub(super) fn in_words(error: JobError) -> String {
    match error {
        JobError::Retry(reason)
        | JobError::Snooze(_, reason)
        | JobError::Fail(reason)
        | JobError::NoRight(reason)
        | JobError::HeadMoved(reason) => reason,
        JobError::End(outcome) => serde_json::to_string(&outcome).unwrap_or_default(),
        JobError::LeaseLost => "the run lost its lease".to_owned(),
    }
}

/// One run on one checkout.
struct Local<'a> {
    ports: &'a Ports,
    repo: &'a LocalRepo,
    args: &'a Args,
    task: &'a str,
    run: &'a RunId,
    place: &'a Place,
    recorder: &'a Recorder,
    stop: &'a CancellationToken,
    began: Instant,
}

impl Local<'_> {
    async fn work_and_report(&self) -> anyhow::Result<u8> {
        let work = self.prepare().await?;
        let (finished, failure) = match self.work(work.clone()).await {
            Ok(finished) => (Some(finished), None),
            Err(_) if self.stop.is_cancelled() => (self.salvage(work, Stop::Cancelled).await, None),
            Err(error) => {
                let reason = in_words(error);
                (self.salvage(work, Stop::Stuck(reason.clone())).await, Some(reason))
            }
        };
        let change = finished.as_ref().and_then(|finished| finished.change.as_ref());
        let (left, lost) = match change {
            Some(change) => match self.leave_branch(finished.as_ref(), change).await {
                Ok(left) => (Some(left), None),
                Err(error) => (None, Some(format!("the branch was not left: {error:#}"))),
            },
            None => (None, None),
        };
        screen::end_active();
        let report = Report {
            repo: self.repo,
            finished: finished.as_ref(),
            failure: failure.or(lost),
            left,
            totals: Totals::of(self.recorder.kept().iter().map(|event| &event.body)),
            took: self.began.elapsed(),
            mode: self.args.mode(),
            language: self.ports.language,
        };
        match self.args.output() {
            Output::Json => show::json(&report.as_json())?,
            Output::Text(diff) => {
                report.print(diff);
                if self.args.look().is_some() {
                    let run = &self.run;
                    note!(
                        "\nforgehand show {run} reads it again, forgehand replay {run} runs it again from its record"
                    );
                }
            }
        }
        Ok(report.ending().1)
    }

    async fn work(&self, work: Work) -> Result<Finished, JobError> {
        let started = RunEvent::RunStarted {
            run: self.run.clone(),
            model: self.ports.model.name().to_owned(),
        };
        self.recorder.record(started).await?;
        let working = run::work(
            self.ports,
            work,
            Earlier::default(),
            self.place,
            self.recorder,
            self.stop,
        );
        // The checkout knows no stop: nothing has been done yet that could get lost.
        tokio::select! {
            biased;
            worked = Box::pin(working) => worked,
            () = self.stopped_before_opening() => Err(JobError::Fail("stopped before the checkout stood".to_owned())),
        }
    }

    async fn stopped_before_opening(&self) {
        self.stop.cancelled().await;
        let is_open = |event: &Event| matches!(event.body, RunEvent::WorkspaceOpened { .. });
        if self.recorder.kept().iter().any(is_open) {
            // Whatever goes on obeys the stop by itself.
            std::future::pending::<()>().await;
        }
    }

    /// What a run that broke off has done so far, if its checkout still stands: as a run that goes
    /// on where the other one ended, with nothing left to do.
    async fn salvage(&self, work: Work, stop: Stop) -> Option<Finished> {
        let events = self.recorder.kept();
        let worked = |event: &Event| matches!(event.body, RunEvent::ToolCalled { .. });
        if !events.iter().any(worked) {
            return None;
        }
        let (folder, _) = RunFolder::open_existing(&self.place.state_dir, &self.place.job).ok()??;
        let base_checks = events.into_iter().filter_map(|event| match event.body {
            RunEvent::Checked { check } if check.side == Side::Base => Some(check),
            _ => None,
        });
        let earlier = Earlier {
            folder: Some(folder),
            bundle: None,
            solution: Some(Solution {
                stop,
                last_words: String::new(),
                conversation: Checkpoint::NEW,
            }),
            conversation: Some(Checkpoint::NEW),
            base_checks: base_checks.collect(),
            record: None,
            joined: None,
        };
        // A stop has been obeyed already; taking the work in is short.
        let go_on = CancellationToken::new();
        let taking = run::work(self.ports, work, earlier, self.place, self.recorder, &go_on);
        // Why the run broke off is what people need to know, not that its work is lost as well.
        Box::pin(taking).await.ok()
    }

    async fn prepare(&self) -> anyhow::Result<Work> {
        let git = &self.ports.git;
        let remote = Remote {
            url: String::new(),
            token: None,
        };
        let (mirror, base) = (self.repo.git_dir.clone(), self.repo.head.clone());
        let files = git.list_files(&mirror, &base, MAX_FILES).await?;
        let repo_config = self.repo_config(&mirror, &remote, &base).await?;
        let found = run::commands_of(self.ports, &mirror, &remote, &base, &files).await;
        let found = found.map_err(|error| anyhow::anyhow!(in_words(error)))?;
        let (rules, guidance) = guidance::load(self.ports, self.repo, &remote, &files, &repo_config).await?;
        let brief = Brief {
            mode: self.args.mode(),
            repo: self.name(),
            title: text::cap_chars(self.task.trim().lines().next().unwrap_or_default(), 120),
            request: self.task.to_owned(),
            instructions: String::new(),
            rules,
            checks: match self.args.checks() {
                Checks::Given(commands) => commands,
                Checks::Found => repo_config.test.clone().unwrap_or(found.test),
            },
            files,
            notes: Vec::new(),
            places: String::new(),
            map: String::new(),
            threads: Vec::new(),
        };
        let setup = repo_config.setup.clone().unwrap_or(found.setup);
        Ok(Work {
            brief,
            guidance,
            mirror,
            remote,
            base,
            setup,
            setup_of: SetupOf::default(),
            repo_config,
        })
    }

    /// The repository's own file as it is committed. Whoever runs this can mend a broken one, so
    /// nothing is done without it.
    async fn repo_config(&self, mirror: &Path, remote: &Remote, base: &CommitSha) -> anyhow::Result<RepoConfig> {
        let git = &self.ports.git;
        let read = git.read_file(mirror, remote, base, REPO_CONFIG_PATH, MAX_REPO_CONFIG_BYTES);
        let Some(bytes) = read.await? else {
            return Ok(RepoConfig::default());
        };
        let config = RepoConfig::parse(&String::from_utf8_lossy(&bytes)).map_err(|problem| {
            Problems(vec![format!(
                "{} (as committed in {})",
                problem.in_words(Language::English),
                base.short()
            )])
        })?;
        let unused = config.not_built(&self.ports.sandbox);
        if !unused.is_empty() {
            let text = phrase::run::no_effect(Language::English, REPO_CONFIG_PATH, &unused.join(", "));
            self.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(config)
    }

    /// A name for the prompt; the checkout has no owner.
    fn name(&self) -> RepoName {
        let folder = self.repo.root.file_name().unwrap_or_default().to_string_lossy();
        format!("local/{}", text::slug(&folder, 60))
            .parse()
            .unwrap_or_else(|_| "local/checkout".parse().expect("a valid name"))
    }

    async fn leave_branch(
        &self,
        finished: Option<&Finished>,
        change: &ChangeSet,
    ) -> anyhow::Result<(BranchName, CommitSha)> {
        let git = &self.ports.git;
        let first_line = self.task.trim().lines().next().unwrap_or_default();
        let message = match finished.map(|finished| &finished.stop) {
            Some(Stop::Finished(Finish::Done { title, summary, .. })) => {
                format!("{}\n\n{}\n", text::cap_chars(title, 72), summary.trim())
            }
            _ => format!("Unfinished work: {}\n", text::cap_chars(first_line, 50)),
        };
        let by = Signature {
            name: "Forgehand".into(),
            email: "forgehand@localhost".into(),
            at: self.ports.clock.now(),
        };
        let sha = git.commit(&change.import, &self.repo.head, &message, &by).await?;
        let wanted = self.args.branch.clone();
        let wanted = wanted.unwrap_or_else(|| BranchName::for_task(first_line));
        let branch = git.leave_branch(self.repo, &change.import, &sha, &wanted).await?;
        Ok((branch, sha))
    }
}
