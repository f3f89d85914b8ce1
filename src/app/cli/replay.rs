//! `forgehand replay`: a recorded run once more, in a fresh workspace, with the recorded replies in
//! place of a model. Ends in the same tree or says at which turn it departed.
//! Never calls a model or any other server, and never touches the checkout or the job.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::progress::Limits;
use super::run::in_words;
use super::screen::{Look, Screen};
use super::{Context, Usage, show, surroundings};
use crate::agent::{Answer, People, Question};
use crate::app::record::{self, Recorded};
use crate::app::{App, ports, stop_on_signal};
use crate::clock::Clock;
use crate::closed;
use crate::config::{BudgetConfig, Config};
use crate::conversation::{Comparison, Entry, MAIN, compare, current};
use crate::event::Event;
use crate::git::Remote;
use crate::ids::{CommitSha, JobId, RunId};
use crate::memory::{Keeper, Lasting, Memory};
use crate::model::{ChatReply, FinishReason, Message, Replay, ReplayedAgent, Role};
use crate::recorder::Recorder;
use crate::repo_config::RepoConfig;
use crate::run::{self, Earlier, Place, Ports, RECORD, RECORD_END, Record, RecordedMemory, SetupOf, Work};
use crate::secret::{Redactor, Secret};
use crate::store::Store;
use crate::text;
use crate::workgraph::{Desk, RecordedDesk};
use crate::workspace::{mirror_path, remove_all};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The tools run as they did, in the sandbox, on the commit that the run started from. What differs \
from run to run (times, addresses, names of temporary files) does not count as a difference.

Exit codes:
  0   it ended in the same tree
  1   it departed, or cannot be run again
  64  wrong usage
  78  wrong configuration")]
pub(super) struct Args {
    /// The run: its id as `forgehand run` printed it, a file with its record, or the id of a job of
    /// the service.
    #[arg(value_name = "RUN|FILE|JOB")]
    run: String,
    /// A checkout that has the run's first commit [default: this folder, or the service's copy of
    /// the repository].
    #[arg(long, value_name = "FOLDER")]
    repo: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Entries of a conversation read in one statement.
const PAGE: u32 = 500;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let (recorded, mirror) = find(context, &config, &args.run).await?;
    let redactor = Redactor::default();
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let ports = replaying(&config, &recorded, &redactor)?;
    let mirror = match (&args.repo, mirror) {
        (None, Some(mirror)) => mirror,
        (named, _) => {
            let folder = named.as_deref().unwrap_or(Path::new("."));
            let found = ports.git.open_local(folder).await;
            found.with_context(|| format!("open {}", folder.display()))?.git_dir
        }
    };
    let played = Box::pin(play(ports, &recorded, mirror, redactor, &stop)).await?;
    let report = Report::of(&args.run, &recorded, played);
    if args.json {
        show::json(&report)?;
    } else {
        report.print();
    }
    Ok(ExitCode::from(u8::from(!report.same)))
}

/// The record, and where the service keeps the repository of a job.
async fn find(context: &Context, config: &Config, name: &str) -> anyhow::Result<(Recorded, Option<PathBuf>)> {
    let path = PathBuf::from(name);
    if path.is_file() {
        return Ok((record::read(&path)?, None));
    }
    let folder = record::folder(config, &surroundings()?);
    if let (Some(folder), Ok(run)) = (&folder, name.parse::<RunId>()) {
        let path = record::file(folder, &run);
        if path.is_file() {
            return Ok((record::read(&path)?, None));
        }
    }
    if let (Ok(job), None) = (name.parse::<JobId>(), super::missing_database(config)?) {
        let app = context.existing_app().await?;
        let found = of_job(&app, &job).await;
        app.store().close().await;
        if let Some(found) = found? {
            return Ok(found);
        }
    }
    let places = folder.map_or_else(String::new, |folder| format!(" in {}", folder.display()));
    Err(Usage(format!(
        "there is no record of {name}{places}, no such file, and no job with a record"
    ))
    .into())
}

async fn of_job(app: &App, id: &JobId) -> anyhow::Result<Option<(Recorded, Option<PathBuf>)>> {
    let mut tx = app.store().begin().await?;
    let (Some(job), Some((_, head))) = (tx.job(id).await?, tx.checkpoint(id, RECORD).await?) else {
        return Ok(None);
    };
    let record: Record = serde_json::from_slice(&head).context("the record of the job does not parse")?;
    let end = tx.checkpoint(id, RECORD_END).await?;
    let end = end.map(|(_, end)| serde_json::from_slice(&end)).transpose()?;
    let mut logs = Vec::new();
    for agent in tx.conversation_agents(id).await? {
        let mut log: Vec<Entry> = Vec::new();
        loop {
            let page = tx.conversation(id, &agent, i64::try_from(log.len())?, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for (_, body) in page {
                log.push(serde_json::from_str(&body).context("an entry of the conversation does not parse")?);
            }
        }
        logs.push((agent, log));
    }
    let mirror = mirror_path(&app.config().server.state_dir, job.repo_id);
    Ok(Some((Recorded { record, logs, end }, Some(mirror))))
}

/// The ports of the run, with the record in place of the model and the record's limits.
fn replaying(config: &Config, recorded: &Recorded, redactor: &Redactor) -> anyhow::Result<Ports> {
    let record = &recorded.record;
    let agents = recorded.logs.iter().map(|(name, log)| (name.clone(), said_by(log)));
    let model = Replay::new(
        record.model.clone(),
        record.profile.clone(),
        record.price_known,
        agents.collect::<HashMap<_, _>>(),
    );
    let mut config = config.clone();
    config.budget = BudgetConfig {
        max_turns: record.budget.max_turns,
        max_tokens: record.budget.max_tokens,
        max_cost_usd: record.budget.max_cost_usd,
        max_minutes: record.budget.max_time.as_secs().div_ceil(60),
        ..config.budget
    };
    let ports = ports::with_model(Arc::new(model), &config, &surroundings()?, &Clock::System, redactor)?;
    ports::for_replay(ports, &config, record, Arc::new(Answers::of(recorded)))
}

/// Tools whose output is the answer of a person.
const ASKING: [&str; 2] = ["ask_user", "confirm"];

/// People who answer what they answered. Every call may run: what was refused then departs now, and
/// all that can come of it stays in the sandbox.
struct Answers {
    can_ask: bool,
    said: Mutex<VecDeque<String>>,
}

impl Answers {
    fn of(recorded: &Recorded) -> Self {
        let mut asked: Vec<&str> = Vec::new();
        let mut answers = VecDeque::new();
        for entry in recorded.logs.iter().flat_map(|(_, log)| current(log)) {
            let Some(message) = entry.message() else { continue };
            if message.role == Role::Assistant {
                let calls = message.tool_calls.iter();
                asked = calls
                    .filter(|call| ASKING.contains(&call.name.as_str()))
                    .map(|call| call.id.as_str())
                    .collect();
            } else if message.tool_call_id.as_deref().is_some_and(|id| asked.contains(&id)) {
                answers.push_back(message.content.clone());
            }
        }
        Self {
            can_ask: recorded.record.people,
            said: Mutex::new(answers),
        }
    }
}

#[async_trait]
impl People for Answers {
    fn can_ask(&self) -> bool {
        self.can_ask
    }

    async fn ask(&self, question: &Question) -> Answer {
        if matches!(question, Question::Permit { .. }) {
            return Answer::Yes;
        }
        let mut answers = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        answers.pop_front().map_or(Answer::Nobody, Answer::Said)
    }
}

/// What the model said in a conversation.
fn said_by(log: &[Entry]) -> ReplayedAgent {
    let mut agent = ReplayedAgent::default();
    for entry in current(log) {
        let before = u32::try_from(agent.turns.len()).unwrap_or(u32::MAX);
        match entry {
            Entry::Replied {
                message,
                finish,
                usage,
                cost_usd,
                model,
                ..
            } => {
                let Message {
                    content,
                    reasoning,
                    tool_calls,
                    ..
                } = message.as_ref().clone();
                agent.turns.push(ChatReply {
                    content,
                    reasoning,
                    tool_calls,
                    finish: *finish,
                    usage: *usage,
                    cost_usd: *cost_usd,
                    model: model.clone(),
                    notes: Vec::new(),
                });
            }
            Entry::Refused { why } => agent.refusals.push_back((before, why.clone())),
            Entry::Summarised { summary, by, .. } => {
                let reply = by.as_ref().map(|by| ChatReply {
                    content: summary.clone(),
                    reasoning: String::new(),
                    tool_calls: Vec::new(),
                    finish: FinishReason::Stop,
                    usage: by.usage,
                    cost_usd: by.cost_usd,
                    model: by.model.clone(),
                    notes: Vec::new(),
                });
                agent.summaries.push_back((before, reply));
            }
            Entry::Said { .. } | Entry::Shed { .. } | Entry::Restarted => {}
        }
    }
    agent
}

/// What came of running it again.
struct Played {
    log: Vec<Entry>,
    tree: Option<String>,
    failure: Option<String>,
}

/// A memory with nothing in it, in place of the one that the run had.
async fn empty_memory(recorded: &RecordedMemory, folder: &Path, redactor: &Redactor) -> anyhow::Result<Memory> {
    let url = Secret::new(format!("sqlite:{}", folder.join("memory.sqlite").display()));
    let store = Store::open(&url, 1).await.context("open an empty memory")?;
    store.migrate().await.context("make an empty memory")?;
    let keeper = Keeper {
        repository: "replay".to_owned(),
        subject: recorded.subject.clone(),
        by: "replay".to_owned(),
        lease: None,
        lasting: match recorded.is_lasting {
            true => Lasting::ForLaterRuns,
            false => Lasting::ForThisRun,
        },
        may_write_global: false,
    };
    Ok(Memory::new(store, keeper, Clock::System, redactor.clone()))
}

/// The work graph as the run found it.
async fn recorded_desk(recorded: &RecordedDesk, folder: &Path, redactor: &Redactor) -> anyhow::Result<Desk> {
    let url = Secret::new(format!("sqlite:{}", folder.join("graph.sqlite").display()));
    let store = Store::open(&url, 1).await.context("open an empty database")?;
    store.migrate().await.context("make an empty database")?;
    let desk = recorded.again(store, Clock::System, redactor.clone()).await;
    desk.context("lay out the recorded work graph")
}

async fn play(
    mut ports: Ports,
    recorded: &Recorded,
    mirror: PathBuf,
    redactor: Redactor,
    stop: &CancellationToken,
) -> anyhow::Result<Played> {
    let record = &recorded.record;
    let scratch = closed::temporary("forgehand-replay-").context("make a temporary folder")?;
    if let Some(memory) = &record.memory {
        ports.memory = Some(empty_memory(memory, scratch.path(), &redactor).await?);
    }
    if let Some(desk) = &record.desk {
        ports.desk = Some(recorded_desk(desk, scratch.path(), &redactor).await?);
    }
    let place = Place {
        state_dir: scratch.path().to_owned(),
        job: JobId::new(Clock::System.now()),
    };
    let limits = Limits {
        max_turns: record.budget.max_turns,
    };
    let screen = Screen::start(Look::of_errors(), limits, redactor.clone());
    let shown = screen.clone();
    let recorder =
        Recorder::in_memory(Clock::System, redactor).with_listener(Arc::new(move |event: &Event| shown.tell(event)));
    let earlier = Earlier {
        record: Some(record.clone()),
        ..Earlier::default()
    };
    let worked = Box::pin(run::work(
        &ports,
        work(record, mirror),
        earlier,
        &place,
        &recorder,
        stop,
    ))
    .await;
    screen.end();
    // The folder's own end does not know what a sandbox may have left in it.
    if let Err(error) = remove_all(&place.state_dir, &place.job) {
        note!("forgehand: {error:#}");
    }
    if stop.is_cancelled() {
        anyhow::bail!("stopped");
    }
    let (tree, failure) = match worked {
        Ok(finished) => (finished.change.map(|change| change.import.tree), None),
        Err(error) => (None, Some(in_words(error))),
    };
    Ok(Played {
        log: kept(&recorder).await?,
        tree,
        failure,
    })
}

fn work(record: &Record, mirror: PathBuf) -> Work {
    Work {
        brief: record.brief.clone(),
        guidance: record.setting.guidance.clone(),
        mirror,
        remote: Remote {
            url: String::new(),
            token: None,
        },
        base: record.base.clone(),
        setup: record.setup.clone(),
        setup_of: SetupOf::default(),
        acceptance: None,
        repo_config: RepoConfig {
            protected_paths: record.protected_paths.clone(),
            ..RepoConfig::default()
        },
    }
}

async fn kept(recorder: &Recorder) -> anyhow::Result<Vec<Entry>> {
    let mut log: Vec<Entry> = Vec::new();
    loop {
        let page = recorder.conversation(MAIN, log.len() as u64).await?;
        if page.is_empty() {
            return Ok(log);
        }
        log.extend(page);
    }
}

/// The result, as it is printed.
#[derive(Serialize)]
struct Report<'a> {
    run: &'a str,
    base: &'a CommitSha,
    /// Whether it ended in the same tree.
    same: bool,
    /// The turn at which it departed, from 1.
    departed: Option<usize>,
    recorded_by: &'a str,
    recorded_tree: Option<String>,
    tree: Option<String>,
    /// Whether the record has an end at all.
    ended: bool,
    failure: Option<String>,
    #[serde(flatten)]
    comparison: Comparison,
}

impl<'a> Report<'a> {
    fn of(run: &'a str, recorded: &'a Recorded, played: Played) -> Self {
        let empty: &[Entry] = &[];
        let log = recorded.logs.iter().find(|(name, _)| name == MAIN);
        let comparison = compare(log.map_or(empty, |(_, log)| log), &played.log);
        let recorded_tree = recorded.end.as_ref().and_then(|end| end.tree.clone());
        let same = recorded.end.is_some() && played.failure.is_none() && recorded_tree == played.tree;
        // A tree that came out differently although nothing else did changed in the last turn at
        // the latest.
        let departed = comparison
            .departed()
            .or_else(|| (!same).then_some(comparison.turns.max(1)));
        Self {
            run,
            base: &recorded.record.base,
            same,
            departed,
            recorded_by: &recorded.record.program,
            recorded_tree,
            tree: played.tree,
            ended: recorded.end.is_some(),
            failure: played.failure,
            comparison,
        }
    }

    fn print(&self) {
        let turns = self.comparison.turns;
        match (self.same, self.departed) {
            (true, None) => say!("The same: {turns} turns, and the tree {}", tree(self.tree.as_deref())),
            (true, Some(turn)) => say!(
                "The same tree {} after {turns} turns, although something differed from turn {turn} on",
                tree(self.tree.as_deref())
            ),
            (false, turn) => {
                say!("It departed at turn {}", turn.unwrap_or(turns));
                if self.ended {
                    say!("recorded: tree {}", tree(self.recorded_tree.as_deref()));
                } else {
                    say!("recorded: no end; the run was broken off");
                }
                say!("now:      tree {}", tree(self.tree.as_deref()));
            }
        }
        if let Some(failure) = &self.failure {
            say!("It could not go on: {failure}");
        }
        if let Some(output) = &self.comparison.output {
            say!("\nTurn {}: the output of {} differs", output.turn, output.tool);
            say!("recorded: {}", indented(&output.recorded));
            say!("now:      {}", indented(&output.now));
        }
        if let Some(turn) = self.comparison.request {
            say!("Turn {turn}: the model was shown something else");
        }
        if let Some(turn) = self.comparison.missing {
            say!("Turn {turn}: only one of the two runs has it");
        }
        if self.recorded_by != env!("CARGO_PKG_VERSION") {
            say!("It was recorded by version {} of this program.", self.recorded_by);
        }
    }
}

fn tree(tree: Option<&str>) -> &str {
    tree.unwrap_or("of the first commit")
}

fn indented(text: &str) -> String {
    text::plain_output(text).trim().replace('\n', "\n          ")
}
