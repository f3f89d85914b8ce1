//! The agent at work: a scripted model over HTTP, the real tools, the real sandbox.

mod background;
mod children;
mod compaction;
mod cut;
mod discipline;
mod limits;
mod permission;
mod protocol;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forgehand::agent::{
    Brief, Budget, Checkpoint, People, Setting, Solution, SolveError, Stop, Task, Unattended, solve,
};
use forgehand::clock::Clock;
use forgehand::config::{ModelConfig, ModelProvider, SandboxConfig};
use forgehand::conversation::MAIN;
use forgehand::event::RunEvent;
use forgehand::model::{Live, Message, Model, Role, ToolCall};
use forgehand::permission::Policy;
use forgehand::recorder::Recorder;
use forgehand::sandbox::{self, Exec, Sandbox, SandboxFolders};
use forgehand::secret::Redactor;
use forgehand::tool::{Finish, Mode, Toolbox};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model_server::{ModelServer, Reply, Said};

const BUDGET: Budget = Budget {
    max_turns: 20,
    max_tokens: 1_000_000,
    max_cost_usd: 5.0,
    max_time: Duration::from_secs(120),
};

const FENCE: &str = "00112233445566778899aabbccddeeff";

/// A workspace in its sandbox, and what a run in it leaves.
struct Bench {
    folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
    recorder: Recorder,
    cancel: CancellationToken,
    budget: Budget,
    setting: Setting,
    resume: Option<Checkpoint>,
    tools: Toolbox,
    permission: Policy,
    people: Arc<dyn People>,
}

impl Bench {
    async fn with(files: &[(&str, &str)]) -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let folder = made.expect("a scratch folder");
        let folders = SandboxFolders::within(folder.path());
        for made in [&folders.workspace, &folders.base_git] {
            std::fs::create_dir(made).expect("a folder");
        }
        for (path, content) in files {
            std::fs::write(folders.workspace.join(path), content).expect("a file");
        }
        let config = SandboxConfig {
            helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand"))),
            ..SandboxConfig::default()
        };
        let sandbox = sandbox::open(&config, folders, 11).await.expect("the sandbox opens");
        Self {
            folder,
            sandbox,
            recorder: Recorder::in_memory(Clock::System, Redactor::default()),
            cancel: CancellationToken::new(),
            budget: BUDGET,
            setting: Setting::default(),
            resume: None,
            tools: Toolbox::standard(),
            permission: Policy::default(),
            people: Arc::new(Unattended),
        }
    }

    /// The same workspace as the checkout of a commit.
    async fn committed(self) -> Self {
        let line = "git init --quiet && git add --all && git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m Base";
        let made = self
            .sandbox
            .exec(&Exec::shell(line), &self.cancel)
            .await
            .expect("git runs");
        assert_eq!(made.code(), Some(0), "{}", made.output);
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).expect("a file")
    }

    /// Runs the agent with a scripted server and checks that the whole script was played.
    async fn run(&self, script: Vec<Reply>) -> (Solution, ModelServer) {
        let server = ModelServer::start(script).await;
        let solution = self.try_run(&server).await.unwrap_or_else(|error| {
            let requests = server.requests();
            let last = requests.last().map_or("nothing", |request| request.last());
            panic!("no solution: {error:?}; the model was told last: {last}")
        });
        server.assert_all_read();
        (solution, server)
    }

    async fn try_run(&self, server: &ModelServer) -> Result<Solution, SolveError> {
        let config = ModelConfig {
            provider: ModelProvider::OpenAi,
            base_url: Some(server.url().to_owned()),
            name: "test-model".to_owned(),
            input_usd_per_million: Some(1.0),
            output_usd_per_million: Some(10.0),
            ..ModelConfig::default()
        };
        let model = forgehand::model::open(&config, self.recorder.redactor()).expect("a model");
        self.run_with(model.as_ref()).await
    }

    async fn run_with(&self, model: &dyn Model) -> Result<Solution, SolveError> {
        let brief = Brief {
            mode: Mode::Change,
            repo: "octo/wordcount".parse().expect("a name"),
            title: "The last word is not counted".to_owned(),
            request: "Counting `a b` gives 1. <!-- psst -->".to_owned(),
            instructions: String::new(),
            rules: String::new(),
            checks: vec!["sh test.sh".to_owned()],
            files: Vec::new(),
            notes: Vec::new(),
            places: String::new(),
            map: String::new(),
            threads: Vec::new(),
        };
        solve(Task {
            code: None,
            name: MAIN,
            fence: FENCE,
            brief: &brief,
            setting: &self.setting,
            sandbox: &self.sandbox,
            model,
            tools: &self.tools,
            recorder: &self.recorder,
            budget: self.budget,
            permission: &self.permission,
            people: self.people.as_ref(),
            live: Live::default(),
            cancel: &self.cancel,
            resume: self.resume.clone(),
        })
        .await
    }

    fn events(&self) -> Vec<RunEvent> {
        self.recorder.kept().into_iter().map(|event| event.body).collect()
    }

    /// (tool, whether it worked, output) of every call.
    fn calls(&self) -> Vec<(String, bool, String)> {
        let calls = self.events().into_iter().filter_map(|event| match event {
            RunEvent::ToolCalled { tool, ok, output, .. } => Some((tool, ok, output)),
            _ => None,
        });
        calls.collect()
    }
}

#[track_caller]
fn check_stuck(solution: &Solution, words: &str) {
    match &solution.stop {
        Stop::Stuck(why) if why.contains(words) => {}
        other => panic!("{other:?}, and stuck with {words:?} was expected"),
    }
}

#[track_caller]
fn check_finished(solution: &Solution) {
    assert!(
        matches!(solution.stop, Stop::Finished(Finish::Done { .. })),
        "{solution:?}"
    );
}

fn finish() -> Reply {
    Reply::finish("Count the last word", "It was dropped.")
}

#[tokio::test]
async fn a_change_is_made_checked_and_finished() {
    let bench = Bench::with(&[
        ("count.sh", "echo $(( $(wc -w) - 1 ))\n"),
        ("test.sh", "test $(echo a b | sh count.sh) = 2\n"),
    ])
    .await;
    let (solution, server) = bench
        .run(vec![
            Reply::calls(&[
                ("plan", json!({"steps": ["Reproduce", "Mend"]})),
                ("list_directory", json!({})),
                ("read_file", json!({"path": "count.sh"})),
            ]),
            Reply::call("run_command", json!({"command": "sh test.sh"})),
            Reply::call(
                "edit_file",
                json!({"path": "/workspace/count.sh", "old_text": " - 1 ", "new_text": " "}),
            ),
            Reply::call("run_command", json!({"command": "git diff; sh test.sh"})),
            finish(),
        ])
        .await;
    check_finished(&solution);
    assert_eq!(bench.read("count.sh"), "echo $(( $(wc -w) ))\n");
    let calls = bench.calls();
    assert!(calls.iter().all(|(_, ok, _)| *ok), "{calls:#?}");
    assert!(calls[1].2.contains("count.sh (25 B)"), "{}", calls[1].2);
    assert_eq!(calls[2].2, "     1\techo $(( $(wc -w) - 1 ))");
    assert!(calls[3].2.starts_with("[exit code 1,") && calls[5].2.starts_with("[exit code 0,"));
    let events = bench.events();
    assert!(
        matches!(&events[0], RunEvent::Noted { text } if text.contains("does not show")),
        "{:?}",
        events[0]
    );
    let plans = events
        .iter()
        .filter(|event| matches!(event, RunEvent::PlanUpdated { steps } if steps.len() == 2));
    assert_eq!(plans.count(), 1);
    let costs = events.iter().filter_map(|event| match event {
        RunEvent::ModelReplied { cost_usd, .. } => *cost_usd,
        _ => None,
    });
    assert!((costs.sum::<f64>() - 5.0 * 0.0003).abs() < 1e-9);
    let first = &server.requests()[0];
    assert!(first.last().contains("⟦hidden html⟧") && first.last().contains("`sh test.sh`"));
    assert_eq!(
        first.body["tools"].as_array().map(Vec::len),
        Some(Toolbox::standard().specs().len())
    );
}

#[tokio::test]
async fn the_stub_runs_its_built_in_script() {
    let bench = Bench::with(&[("README.md", "hello\n")]).await;
    let stub = forgehand::model::open(&ModelConfig::default(), bench.recorder.redactor()).unwrap();
    let solution = bench.run_with(stub.as_ref()).await.unwrap();
    assert!(matches!(solution.stop, Stop::Finished(_)), "{solution:?}");
    assert!(solution.last_words.starts_with("(scripted)"), "{}", solution.last_words);
}

#[tokio::test]
async fn every_call_gets_one_output_and_broken_ones_are_not_run() {
    let bench = Bench::with(&[]).await;
    let broken = [
        ("write_file", r#"{"path": "a.txt", "content": "hal"#.to_owned()),
        (
            "write_file",
            r#"{"path": "b.txt", "content": "x", "content": "y"}"#.to_owned(),
        ),
        ("launch_rocket", "{}".to_owned()),
        ("write_file", r#"{"path": "c.txt"}"#.to_owned()),
        ("bash", r#"{"command": "echo fine"}"#.to_owned()),
    ];
    let (solution, server) = bench.run(vec![Said::calls(broken).reply(), finish()]).await;
    check_finished(&solution);
    let calls = bench.calls();
    let worked: Vec<bool> = calls.iter().map(|(_, ok, _)| *ok).collect();
    assert_eq!(worked, [false, false, false, false, true, true]);
    assert!(calls[0].2.contains("not valid JSON"), "{}", calls[0].2);
    assert!(calls[1].2.contains("twice"), "{}", calls[1].2);
    assert!(
        calls[2].2.contains("the tools are list_directory, read_file"),
        "{}",
        calls[2].2
    );
    assert!(calls[3].2.contains("missing field `content`") && calls[3].2.contains("path (string, required)"));
    assert!(calls[4].2.ends_with("fine"));
    for path in ["a.txt", "b.txt", "c.txt"] {
        assert!(!bench.path(path).exists(), "{path}");
    }
    let outputs = server.requests()[1]
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    assert_eq!(outputs, 5);
}

#[tokio::test]
async fn l17_an_interrupted_run_goes_on_with_its_calls_answered() {
    let mut bench = Bench::with(&[]).await;
    let call = ToolCall {
        id: "call_x".to_owned(),
        name: "run_command".to_owned(),
        arguments: "{\"command\":\"make\"}".to_owned(),
    };
    let orphan = Message {
        role: Role::Assistant,
        tool_calls: vec![call],
        ..Message::user("")
    };
    bench.resume = Some(Checkpoint {
        turn: 18,
        unlogged: vec![Message::system("Rules."), Message::user("Brief."), orphan],
        tokens: 10,
        cost_usd: 0.5,
        spent_ms: 1_000,
        ..Checkpoint::NEW
    });
    let (solution, server) = bench
        .run(vec![Reply::call("glob", json!({"pattern": "*"})), finish()])
        .await;
    check_finished(&solution);
    let first = &server.requests()[0];
    assert_eq!(first.messages()[0]["content"], "Rules.");
    assert_eq!(first.messages()[3]["tool_call_id"], "call_x");
    assert!(
        first.messages()[3]["content"]
            .as_str()
            .is_some_and(|output| output.contains("interrupted"))
    );
}

/// Only the first call without an output can have begun; what does no harm twice is simply made.
#[tokio::test]
async fn l17_calls_that_had_not_begun_are_made_after_an_interruption() {
    let call = |id: &str, name: &str, arguments: Value| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let mut bench = Bench::with(&[]).await;
    let reply = Message {
        role: Role::Assistant,
        tool_calls: vec![
            call(
                "a",
                "edit_file",
                json!({"path": "none", "old_text": "a", "new_text": "b"}),
            ),
            call("b", "write_file", json!({"path": "made", "content": "it"})),
        ],
        ..Message::user("")
    };
    let stored = |messages| Checkpoint {
        turn: 3,
        unlogged: messages,
        tokens: 10,
        spent_ms: 1_000,
        ..Checkpoint::NEW
    };
    let brief = || vec![Message::system("Rules."), Message::user("Brief.")];
    bench.resume = Some(stored([brief(), vec![reply]].concat()));
    let (solution, server) = bench.run(vec![finish()]).await;
    check_finished(&solution);
    let output = |at: usize| {
        server.requests()[0].messages()[at]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(output(3).contains("interrupted"), "{}", output(3));
    assert!(output(4).contains("made"), "{}", output(4));

    let arguments =
        json!({"status": "done", "title": "It is done", "summary": "All of it.", "risks": "None.", "not_done": ""});
    let reply = Message {
        role: Role::Assistant,
        tool_calls: vec![call("c", "finish", arguments)],
        ..Message::user("")
    };
    bench.resume = Some(stored([brief(), vec![reply]].concat()));
    bench.recorder = Recorder::in_memory(Clock::System, Redactor::default());
    let (solution, server) = bench.run(vec![]).await;
    check_finished(&solution);
    assert_eq!(server.requests().len(), 0, "the model had finished already");
}

#[tokio::test]
async fn finishing_beside_a_failed_call_is_put_off() {
    let bench = Bench::with(&[]).await;
    let both: [(&str, Value); 2] = [
        ("edit_file", json!({"path": "no.txt", "old_text": "a", "new_text": "b"})),
        ("finish", json!({"status": "done", "title": "t", "summary": "s"})),
    ];
    let (solution, server) = bench.run(vec![Reply::calls(&both), finish()]).await;
    check_finished(&solution);
    assert!(
        server.requests()[1]
            .last()
            .contains("another call of the same reply failed")
    );
}

#[tokio::test]
async fn f01_paths_outside_the_workspace_are_refused() {
    let bench = Bench::with(&[]).await;
    let calls: Vec<(&str, Value)> = ["../../etc/passwd", "/etc/passwd", "/workspace/../etc/passwd"]
        .map(|path| ("read_file", json!({"path": path})))
        .into();
    bench.run(vec![Reply::calls(&calls), finish()]).await;
    for (_, ok, output) in &bench.calls()[..3] {
        assert!(!ok && !output.contains("root:"), "{output}");
    }
}

#[tokio::test]
async fn r01_secrets_in_files_reach_neither_model_nor_log() {
    let token = format!("ghs_{}", "A1b2".repeat(9));
    let bench = Bench::with(&[("config.txt", &format!("token = {token}\n"))]).await;
    let calls: [(&str, Value); 2] = [
        ("read_file", json!({"path": "config.txt"})),
        ("run_command", json!({"command": "cat config.txt"})),
    ];
    let (_, server) = bench.run(vec![Reply::calls(&calls), finish()]).await;
    let seen = format!("{:?} {:?}", server.requests(), bench.events());
    assert!(!seen.contains(&token) && seen.contains("[redacted]"));
}

#[tokio::test]
async fn e25_a_file_with_crlf_stays_one() {
    let bench = Bench::with(&[("a.txt", "one\r\ntwo\r\n")]).await;
    let edit = json!({"path": "a.txt", "old_text": "one\ntwo", "new_text": "1\n2\n3"});
    bench.run(vec![Reply::call("edit_file", edit), finish()]).await;
    assert_eq!(bench.read("a.txt"), "1\r\n2\r\n3\r\n");
}

#[tokio::test]
async fn l32_an_empty_account_is_an_error_at_once() {
    let bench = Bench::with(&[]).await;
    let server = ModelServer::start([Reply::error(402, "insufficient credits")]).await;
    let error = bench.try_run(&server).await.unwrap_err().to_string();
    assert!(error.contains("asks for payment"), "{error}");
    server.assert_all_read();
}
