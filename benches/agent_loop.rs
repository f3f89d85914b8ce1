//! What the agent's loop itself costs, with a model that answers at once and a tool that gives 100
//! KB each time: time for each turn, memory and database, at 10, 100 and 1,000 turns, stored on
//! SQLite and in memory. Fails when a turn late in a long run costs much more than one early in it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use forgehand::agent::{Brief, Budget, Setting, Solution, Stop, Task, Unattended, solve};
use forgehand::clock::Clock;
use forgehand::config::SandboxConfig;
use forgehand::conversation::MAIN;
use forgehand::event::Usage;
use forgehand::ids::{InstallationId, IssueNumber, RepoId, Subject, UserId};
use forgehand::job::{Actor, JobKind, NewJob, Pins, Request, Trigger};
use forgehand::model::{
    ChatReply, ChatRequest, EditFormat, FinishReason, Live, Model, ModelError, Profile, Purpose, ToolCall, ToolSpec,
};
use forgehand::permission::Policy;
use forgehand::recorder::Recorder;
use forgehand::sandbox::{self, Sandbox, SandboxFolders};
use forgehand::secret::{Redactor, Secret};
use forgehand::store::Store;
use forgehand::tool::{Mode, Tool, ToolContext, ToolError, ToolOutput, Toolbox};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Bytes of each output.
const OUTPUT_BYTES: usize = 100 * 1024;

/// Lengths of the runs.
const TURNS: [u32; 3] = [10, 100, 1_000];

/// A turn in the last tenth of a long run may cost this much more than one in the second tenth,
/// when the window is full for the first time.
const MOST_GROWTH: f64 = 1.5;

#[tokio::main]
async fn main() -> ExitCode {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on disk");
    let sandbox = open_sandbox(folder.path().to_owned()).await;
    println!("stored   turns   first tenth     second tenth    last tenth      memory/turn   database/turn");
    let mut good = true;
    for turns in TURNS {
        good &= run_stored(&sandbox, folder.path().join(format!("{turns}.sqlite")), turns).await;
        good &= run_in_memory(&sandbox, turns).await;
    }
    sandbox.close().await;
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A sandbox that no call needs: the tool of this benchmark gives its output without one.
async fn open_sandbox(folder: PathBuf) -> Arc<dyn Sandbox> {
    let folders = SandboxFolders::within(&folder);
    for made in [&folders.workspace, &folders.base_git] {
        std::fs::create_dir(made).expect("a folder");
    }
    let config = SandboxConfig {
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand"))),
        ..SandboxConfig::default()
    };
    sandbox::open(&config, folders, 12).await.expect("the sandbox opens")
}

async fn run_stored(sandbox: &Arc<dyn Sandbox>, file: PathBuf, turns: u32) -> bool {
    let url = Secret::new(format!("sqlite:{}", file.display()));
    let store = Store::open(&url, 4).await.expect("the database opens");
    store.migrate().await.expect("the schema is made");
    let mut tx = store.begin().await.expect("a transaction");
    tx.insert_job(&job(), Clock::System.now()).await.expect("a job");
    let claimed = tx.claim_job("bench", Duration::from_secs(3_600)).await;
    let leased = claimed.expect("the database answers").expect("a job is ready");
    tx.commit().await.expect("it is stored");
    let recorder = Recorder::stored(store.clone(), leased.lease, Clock::System, Redactor::default());
    let measured = measure(sandbox, &recorder, turns).await;
    store.close().await;
    let bytes = |ending: &str| {
        let path = format!("{}{ending}", file.display());
        std::fs::metadata(path).map_or(0, |about| about.len())
    };
    measured.print("sqlite", turns, Some(bytes("") + bytes("-wal")))
}

async fn run_in_memory(sandbox: &Arc<dyn Sandbox>, turns: u32) -> bool {
    let recorder = Recorder::in_memory(Clock::System, Redactor::default());
    measure(sandbox, &recorder, turns).await.print("memory", turns, None)
}

/// The times between one request and the next, and how much the process grew.
struct Measured {
    turns: Vec<Duration>,
    grown_bytes: i64,
}

async fn measure(sandbox: &Arc<dyn Sandbox>, recorder: &Recorder, turns: u32) -> Measured {
    let model = AtOnce {
        turns,
        asked: Mutex::default(),
    };
    let before = resident_bytes();
    let solution = run(sandbox, recorder, &model).await;
    let grown_bytes = resident_bytes() - before;
    assert!(matches!(solution.stop, Stop::Finished(_)), "{:?}", solution.stop);
    let asked = model.asked.into_inner().expect("nobody panicked");
    assert!(asked.len() >= turns as usize, "{} of {turns} turns", asked.len());
    Measured {
        turns: asked.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        grown_bytes,
    }
}

async fn run(sandbox: &Arc<dyn Sandbox>, recorder: &Recorder, model: &dyn Model) -> Solution {
    let brief = Brief {
        mode: Mode::Change,
        repo: "octo/bench".parse().expect("a name"),
        title: "Read a lot".to_owned(),
        request: "Read as much as you can.".to_owned(),
        instructions: String::new(),
        rules: String::new(),
        checks: Vec::new(),
        files: Vec::new(),
        notes: Vec::new(),
        places: String::new(),
        map: String::new(),
        threads: Vec::new(),
    };
    let tools = Toolbox::standard().with(Box::new(Bulk));
    // It only reads, for as long as it likes.
    let setting = Setting {
        max_explore_turns: u32::MAX,
        ..Setting::default()
    };
    let task = Task {
        code: None,
        name: MAIN,
        fence: "00112233445566778899aabbccddeeff",
        brief: &brief,
        setting: &setting,
        sandbox,
        model,
        tools: &tools,
        recorder,
        budget: Budget {
            max_turns: u32::MAX,
            max_tokens: u64::MAX,
            max_cost_usd: 0.0,
            max_time: Duration::from_secs(3_600),
        },
        permission: &Policy::default(),
        people: &Unattended,
        live: Live::default(),
        cancel: &CancellationToken::new(),
        resume: None,
    };
    solve(task).await.expect("a solution")
}

/// Pages of this process in memory.
fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<i64>().ok());
    pages.expect("a number of pages") * 4_096
}

impl Measured {
    /// Prints a line; false when turns became dearer.
    fn print(&self, stored: &str, turns: u32, database: Option<u64>) -> bool {
        let tenth = (self.turns.len() / 10).max(1);
        let mean = |part: &[Duration]| part.iter().sum::<Duration>() / u32::try_from(part.len()).expect("few turns");
        let first = mean(&self.turns[..tenth]);
        let second = mean(&self.turns[tenth..2 * tenth]);
        let last = mean(&self.turns[self.turns.len() - tenth..]);
        let database = database.map_or_else(
            || "-".to_owned(),
            |bytes| format!("{:.1} KiB", bytes as f64 / f64::from(turns) / 1024.0),
        );
        println!(
            "{stored:6}  {turns:6}   {:11.3} ms  {:11.3} ms  {:11.3} ms  {:9.1} KiB  {database:>13}",
            first.as_secs_f64() * 1e3,
            second.as_secs_f64() * 1e3,
            last.as_secs_f64() * 1e3,
            self.grown_bytes as f64 / f64::from(turns) / 1024.0,
        );
        turns < 1_000 || last.as_secs_f64() < second.as_secs_f64() * MOST_GROWTH
    }
}

/// A model that answers at once: a call of the tool in each turn, and `finish` in the last.
struct AtOnce {
    turns: u32,
    asked: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Model for AtOnce {
    fn name(&self) -> &str {
        "instant"
    }

    async fn complete(&self, request: &ChatRequest, _cancel: &CancellationToken) -> Result<ChatReply, ModelError> {
        if request.purpose == Purpose::Summary {
            return Ok(reply("Much was read.", Vec::new()));
        }
        self.asked.lock().expect("nobody panicked").push(Instant::now());
        let arguments =
            json!({"status": "nothing_to_do", "title": "", "summary": "All is read.", "risks": "", "not_done": ""});
        let (name, arguments) = match request.turn + 1 {
            turn if turn < self.turns => ("bulk", json!({"part": turn})),
            _ => ("finish", arguments),
        };
        let call = ToolCall {
            id: format!("call_{}", request.turn),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        Ok(reply("I read on.", vec![call]))
    }

    fn price_known(&self) -> bool {
        true
    }

    fn profile(&self) -> Profile {
        Profile {
            context_window: 128_000,
            max_output_tokens: 8_192,
            output_ceiling: 32_768,
            edit_format: EditFormat::Replace,
        }
    }
}

fn reply(content: &str, tool_calls: Vec<ToolCall>) -> ChatReply {
    ChatReply {
        content: content.to_owned(),
        reasoning: String::new(),
        tool_calls,
        finish: FinishReason::Stop,
        usage: Usage::default(),
        cost_usd: Some(0.0),
        model: "instant".to_owned(),
        notes: Vec::new(),
    }
}

/// A tool with a large output.
struct Bulk;

#[async_trait]
impl Tool for Bulk {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bulk".to_owned(),
            description: "Gives a large output".to_owned(),
            parameters: json!({"type": "object", "properties": {"part": {"type": "integer"}}}),
        }
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let line = format!(
            "part {}: a line of output as a compiler or a test may print it\n",
            arguments["part"]
        );
        Ok(ToolOutput::Text(line.repeat(OUTPUT_BYTES / line.len())))
    }
}

/// A job of its own.
fn job() -> NewJob {
    let now = Clock::System.now();
    NewJob {
        repo_id: RepoId(7),
        repo: "octo/bench".parse().expect("a name"),
        installation: InstallationId(99),
        kind: JobKind::Fix,
        subject: Subject::Issue(IssueNumber(1)),
        dedupe_key: None,
        priority: 0,
        // Before any rounding of the database's clock.
        run_at: now - chrono::TimeDelta::seconds(1),
        max_attempts: 5,
        request: Request {
            trigger: Trigger::Label {
                label: "agent".to_owned(),
            },
            actor: Actor {
                id: UserId(3),
                login: "mona".to_owned(),
                is_bot: false,
            },
            instructions: String::new(),
            triggered_at: now,
        },
        pins: Pins::default(),
    }
}
