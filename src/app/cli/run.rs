//! `forgehand run`: one task on a local checkout, without GitHub. Shows the diff, leaves a branch
//! and says by its exit code how it went. Never touches the checkout's files or current branch.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;

use super::{Context, show, surroundings};
use crate::agent::{Brief, Stop};
use crate::app::{App, stop_on_signal};
use crate::clock::Clock;
use crate::event::{Event, RunEvent, Totals};
use crate::git::{LocalRepo, Remote, Signature};
use crate::ids::{BranchName, JobId, RepoName};
use crate::job::JobError;
use crate::recorder::Recorder;
use crate::repo_config::{MAX_REPO_CONFIG_BYTES, REPO_CONFIG_PATH, RepoConfig};
use crate::run::{self, ChangeSet, Earlier, Finished, Place, Ports, Work};
use crate::secret::Redactor;
use crate::text;
use crate::tool::Finish;
use crate::workspace::RunFolder;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The checkout to work on; its last commit is the base.
    #[arg(long, default_value = ".")]
    repo: PathBuf,
    /// What is to be done. `-` reads it from standard input.
    #[arg(long)]
    task: String,
    /// Name of the branch to leave [default: agent/ and words of the task].
    #[arg(long)]
    branch: Option<BranchName>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The agent got nowhere or refused.
const NO_RESULT: u8 = 2;
/// A limit stopped it.
const LIMIT: u8 = 3;
/// The model, the sandbox or git failed.
const ERROR: u8 = 4;

/// Largest task, in bytes.
const MAX_TASK_BYTES: u64 = 256 * 1024;
/// Most paths looked at.
const MAX_FILES: usize = 20_000;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let task = read_task(&args.task)?;
    let redactor = Redactor::default();
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let app = App::build(config, surroundings()?).await?;
    let ports = app.ports()?;
    let repo = ports
        .git
        .open_local(&args.repo)
        .await
        .with_context(|| format!("open {}", args.repo.display()))?;
    eprintln!(
        "the base is {}, the last commit; what is not committed is left out",
        repo.head.short()
    );
    let progress = Arc::new(show::Progress::start());
    let shown = progress.clone();
    let recorder =
        Recorder::in_memory(Clock::System, redactor).with_listener(Arc::new(move |event: &Event| tell(&shown, event)));
    let id = JobId::new(Clock::System.now());
    let place = Place {
        state_dir: app.config().server.state_dir.clone(),
        job: id,
    };
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let local = Local {
        ports: &ports,
        repo: &repo,
        args: &args,
        task: &task,
    };
    let result = local.work(&place, &recorder, &stop).await;
    progress.end();
    let code = match result {
        Ok(finished) => local.report(&finished, &recorder).await,
        Err(error) => {
            eprintln!("forgehand: {}", in_words(error));
            Ok(ExitCode::from(ERROR))
        }
    };
    if let Some((folder, _)) = RunFolder::open_existing(&place.state_dir, &place.job)? {
        folder.remove()?;
    }
    code
}

fn read_task(task: &str) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = task.to_owned();
    if task == "-" {
        text.clear();
        std::io::stdin()
            .take(MAX_TASK_BYTES)
            .read_to_string(&mut text)
            .context("read the task from standard input")?;
    }
    if text.trim().is_empty() {
        bail!("the task is empty; say what is to be done with --task");
    }
    Ok(text)
}

fn in_words(error: JobError) -> String {
    match error {
        JobError::Retry(reason) | JobError::Snooze(_, reason) | JobError::Fail(reason) | JobError::NoRight(reason) => {
            reason
        }
        JobError::End(outcome) => format!("{outcome:?}"),
        JobError::LeaseLost => "the run lost its lease".to_owned(),
    }
}

struct Local<'a> {
    ports: &'a Ports,
    repo: &'a LocalRepo,
    args: &'a Args,
    task: &'a str,
}

impl Local<'_> {
    async fn work(&self, place: &Place, recorder: &Recorder, stop: &CancellationToken) -> Result<Finished, JobError> {
        let model = self.ports.model.name().to_owned();
        recorder
            .record(RunEvent::RunStarted {
                run: crate::ids::RunId::new(self.ports.clock.now()),
                model,
            })
            .await?;
        let work = self.prepare().await?;
        run::work(self.ports, work, Earlier::default(), place, recorder, stop).await
    }

    async fn prepare(&self) -> Result<Work, JobError> {
        let git = &self.ports.git;
        let remote = Remote {
            url: String::new(),
            token: None,
        };
        let (mirror, base) = (self.repo.git_dir.clone(), self.repo.head.clone());
        let files = git.list_files(&mirror, &base, MAX_FILES).await?;
        let read = async |path: &str| {
            git.read_file(&mirror, &remote, &base, path, MAX_REPO_CONFIG_BYTES)
                .await
        };
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let repo_config = match text(read(REPO_CONFIG_PATH).await?) {
            Some(own) => RepoConfig::parse(&own).map_err(JobError::Fail)?,
            None => RepoConfig::default(),
        };
        let found = run::commands_of(self.ports, &mirror, &remote, &base, &files).await?;
        let rules = text(read("AGENTS.md").await?).unwrap_or_default();
        let brief = Brief {
            repo: self.name(),
            title: text::cap_chars(self.task.lines().next().unwrap_or_default(), 120),
            request: self.task.to_owned(),
            instructions: String::new(),
            rules,
            checks: repo_config.test.clone().unwrap_or(found.test),
            files,
            notes: Vec::new(),
        };
        let setup = repo_config.setup.clone().unwrap_or(found.setup);
        Ok(Work {
            brief,
            mirror,
            remote,
            base,
            setup,
            repo_config,
        })
    }

    /// A name for the prompt; the checkout has no owner.
    fn name(&self) -> RepoName {
        let folder = self
            .repo
            .root
            .file_name()
            .map(|name| text::slug(&name.to_string_lossy(), 60))
            .unwrap_or_default();
        format!("local/{folder}")
            .parse()
            .unwrap_or_else(|_| "local/checkout".parse().expect("a valid name"))
    }

    async fn report(&self, finished: &Finished, recorder: &Recorder) -> anyhow::Result<ExitCode> {
        let branch = match &finished.change {
            Some(change) => Some(self.leave_branch(finished, change).await?),
            None => None,
        };
        let totals = Totals::of(recorder.kept().iter().map(|event| &event.body));
        if self.args.json {
            show::json(&self.as_json(finished, branch.as_ref(), &totals))?;
        } else {
            self.print(finished, branch.as_ref(), &totals);
        }
        let regressed = !finished.verdict.regressions().is_empty();
        Ok(match &finished.stop {
            Stop::Finished(Finish::Refused { .. }) | Stop::Stuck(_) => ExitCode::from(NO_RESULT),
            Stop::Finished(Finish::Done { .. }) if finished.change.is_none() || regressed => ExitCode::from(NO_RESULT),
            Stop::Finished(_) => ExitCode::SUCCESS,
            Stop::Budget(_) => ExitCode::from(LIMIT),
            Stop::Cancelled => ExitCode::from(130),
        })
    }

    async fn leave_branch(&self, finished: &Finished, change: &ChangeSet) -> anyhow::Result<BranchName> {
        let git = &self.ports.git;
        let message = match &finished.stop {
            Stop::Finished(Finish::Done { title, summary, .. }) => {
                format!("{}\n\n{}\n", text::cap_chars(title, 72), summary.trim())
            }
            _ => format!(
                "Unfinished work: {}\n",
                text::cap_chars(self.task.lines().next().unwrap_or_default(), 60)
            ),
        };
        let by = Signature {
            name: "Forgehand".into(),
            email: "forgehand@localhost".into(),
            at: self.ports.clock.now(),
        };
        let sha = git.commit(&change.import, &self.repo.head, &message, &by).await?;
        let wanted = self
            .args
            .branch
            .clone()
            .unwrap_or_else(|| BranchName::for_task(self.task.lines().next().unwrap_or_default()));
        Ok(git.leave_branch(self.repo, &change.import, &sha, &wanted).await?)
    }

    fn as_json(&self, finished: &Finished, branch: Option<&BranchName>, totals: &Totals) -> serde_json::Value {
        serde_json::json!({
            "stop": format!("{:?}", finished.stop),
            "branch": branch,
            "base": self.repo.head,
            "diff": finished.change.as_ref().map(|change| &change.diff),
            "violations": finished.violations,
            "checks": {"base": finished.verdict.base, "head": finished.verdict.head},
            "totals": totals,
        })
    }

    fn print(&self, finished: &Finished, branch: Option<&BranchName>, totals: &Totals) {
        if let Some(change) = &finished.change {
            println!("{}", change.diff);
        }
        finished
            .violations
            .iter()
            .for_each(|violation| println!("not allowed: {violation}"));
        for check in finished.verdict.base.iter().chain(&finished.verdict.head) {
            let result = check.exit_code.map_or_else(
                || check.killed.clone().unwrap_or_default(),
                |code| format!("exit {code}"),
            );
            println!(
                "{:4}  {}  {result}",
                format!("{:?}", check.side).to_lowercase(),
                check.command
            );
        }
        match &finished.stop {
            Stop::Finished(Finish::Done { title, summary, .. }) => println!("\n{title}\n\n{summary}"),
            Stop::Finished(Finish::NothingToDo { reason }) => println!("\nNo change needed: {reason}"),
            Stop::Finished(Finish::Refused { reason }) => println!("\nNot done: {reason}"),
            Stop::Budget(limit) => println!("\nStopped by a limit: {limit}"),
            Stop::Stuck(why) => println!("\nIt did not work out: {why}"),
            Stop::Cancelled => println!("\nStopped."),
        }
        if let Some(branch) = branch {
            println!(
                "\nThe change is on the branch {branch}: git diff {}..{branch}",
                self.repo.head.short()
            );
        }
        let cost = if totals.price_unknown {
            "price unknown".to_owned()
        } else {
            format!("${:.4}", totals.cost_usd)
        };
        println!(
            "{} turns, {} tokens in, {} out, {cost}",
            totals.turns, totals.input_tokens, totals.output_tokens
        );
    }
}

/// One event as a line of progress.
pub(super) fn tell(progress: &show::Progress, event: &Event) {
    match &event.body {
        RunEvent::StageStarted { stage } => progress.now(stage.words()),
        RunEvent::Noted { text } | RunEvent::BudgetWarned { text } => progress.line(&format!("  note: {text}")),
        RunEvent::WorkspaceOpened { sandbox, .. } => progress.line(&format!("  sandbox: {sandbox}")),
        RunEvent::ModelReplied { turn, text, .. } if !text.trim().is_empty() => {
            progress.line(&format!(
                "  {turn:>2}  {}",
                text::cap_chars(&text::reveal(text).replace('\n', " "), 110)
            ));
        }
        RunEvent::ToolCalled {
            turn,
            tool,
            arguments,
            ok,
            ..
        } => {
            let mark = if *ok { ' ' } else { '!' };
            progress.line(&format!(
                "  {turn:>2} {mark}{tool} {}",
                text::cap_chars(&text::reveal(arguments).replace('\n', " "), 100)
            ));
        }
        RunEvent::Checked { check } => {
            let result = check.exit_code.map_or_else(
                || check.killed.clone().unwrap_or_default(),
                |code| format!("exit {code}"),
            );
            progress.line(&format!("      {:?}: {} → {result}", check.side, check.command).to_lowercase());
        }
        _ => {}
    }
}
