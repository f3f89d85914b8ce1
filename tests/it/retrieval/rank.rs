//! Ranking on a repository with a history: what speaks for a file, what is said when a source is
//! missing, how history survives a torn file and a forced push, and the measurement of it all.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::eval::{self, Ask, Case, Plan};
use forgehand::git::Git;
use forgehand::ids::CommitSha;
use forgehand::retrieval::history::History;
use forgehand::retrieval::index::{Bounds, Index, Limits, Reader};
use forgehand::retrieval::query::Query;
use forgehand::retrieval::rank::{Answer, Chronicle, Ranker, Sources};
use forgehand::retrieval::view::View;
use tokio_util::sync::CancellationToken;

struct Bench {
    folder: tempfile::TempDir,
    git: Git,
}

impl Bench {
    fn start() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            git: Git::find().unwrap(),
        };
        fs::create_dir_all(bench.work()).unwrap();
        bench.run(&["init", "-q", "-b", "main", "."]);
        bench
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("repos/octo/words")
    }

    fn repo(&self) -> PathBuf {
        self.work().join(".git")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(self.work())
            .args(["-c", "user.name=Robin", "-c", "user.email=robin@example.org"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, message: &str, files: &[(&str, &str)]) -> CommitSha {
        for (path, text) in files {
            let path = self.work().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", message]);
        self.head()
    }

    fn head(&self) -> CommitSha {
        self.run(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    fn view(&self, at: &CommitSha) -> Arc<View> {
        let index = Index::open(&self.folder.path().join("index"), Limits::default(), Reader::default()).unwrap();
        let bounds = Bounds {
            cancel: &CancellationToken::new(),
            until: Instant::now() + Duration::from_secs(60),
            progress: &|_| (),
        };
        index.update(&self.git, &self.repo(), at, &bounds).unwrap()
    }

    fn ranker(&self, at: &CommitSha) -> Ranker {
        let mut history = History::default();
        history.extend(&self.git, &self.repo(), at, None).unwrap();
        let view = self.view(at);
        let chronicle = Chronicle::new(Arc::new(history), &view, at).unwrap();
        Ranker::new(view, Ok(chronicle))
    }

    /// Two files of code, a test, and a message that only history understands.
    fn words(&self) -> CommitSha {
        self.commit(
            "Start",
            &[
                (
                    "src/parser.py",
                    "def parse_header(line):\n    return line.split()\n\ndef other():\n    pass\n",
                ),
                ("src/printer.py", "def render(page):\n    return str(page)\n"),
                (
                    "tests/test_parser.py",
                    "def test_parse_header():\n    parse_header('x')\n",
                ),
            ],
        );
        self.commit(
            "Ligatures no longer break umlauts",
            &[("src/printer.py", "def render(page):\n    return str(page).strip()\n")],
        );
        self.run(&["mv", "src/printer.py", "src/output.py"]);
        self.commit("Move", &[])
    }
}

fn answer(ranker: &Ranker, question: &str, max_tokens: usize) -> Answer {
    let query = Query::parse(question);
    let ranking = ranker.rank(&query, Sources::All, 20);
    ranker.places(&query, &ranking, max_tokens, &|text| text.split_whitespace().count())
}

#[test]
fn words_names_and_history_find_the_file_under_the_name_it_has_now() {
    let bench = Bench::start();
    let ranker = bench.ranker(&bench.words());
    let found = answer(&ranker, "`parse_header` fails on an empty line", 100);
    assert_eq!(found.places[0].path, "src/parser.py");
    assert_eq!(found.places[0].symbol.as_deref(), Some("parse_header"));
    assert_eq!((found.places[0].line, found.places[0].end_line), (1, 2));
    assert!(
        found.places.iter().all(|place| !place.path.contains("test")),
        "{found:?}"
    );
    let found = answer(&ranker, "umlauts are wrong", 100);
    assert_eq!(found.places[0].path, "src/output.py");
    assert!(
        found.text.contains("Ligatures no longer break umlauts"),
        "{}",
        found.text
    );
}

#[test]
fn an_answer_keeps_to_its_budget() {
    let bench = Bench::start();
    let ranker = bench.ranker(&bench.words());
    for budget in [0, 1, 3, 8, 50] {
        let found = answer(&ranker, "parse_header", budget);
        assert!(
            found.text.split_whitespace().count() <= budget,
            "{budget}: {}",
            found.text
        );
    }
    assert_eq!(answer(&ranker, "", 50).notes, Vec::<String>::new());
}

#[test]
fn a_missing_source_is_named() {
    let bench = Bench::start();
    let at = bench.words();
    let ranker = Ranker::new(bench.view(&at), Err("it is still being read".to_owned()));
    let found = answer(&ranker, "parse_header", 100);
    assert_eq!(found.notes, ["fallback: history unavailable: it is still being read"]);
    assert!(
        found.text.starts_with("fallback: history unavailable"),
        "{}",
        found.text
    );
    assert_eq!(found.places[0].path, "src/parser.py");
    let found = answer(&ranker, "qqqq wwww", 100);
    assert!(
        found.notes.iter().any(|note| note.contains("no file has the words")),
        "{:?}",
        found.notes
    );
}

#[test]
fn history_grows_by_what_is_new_and_survives_a_torn_file() {
    let bench = Bench::start();
    let first = bench.words();
    let file = bench.folder.path().join("history.jsonl");
    let mut history = History::load(&file);
    assert_eq!(
        history.extend(&bench.git, &bench.repo(), &first, Some(&file)).unwrap(),
        3
    );
    let second = bench.commit("Another", &[("src/more.py", "x = 1\n")]);
    let mut history = History::load(&file);
    assert_eq!(history.len(), 3);
    assert_eq!(
        history.extend(&bench.git, &bench.repo(), &second, Some(&file)).unwrap(),
        1
    );
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 7]).unwrap();
    let mut history = History::load(&file);
    assert_eq!(history.len(), 3);
    assert_eq!(
        history.extend(&bench.git, &bench.repo(), &second, Some(&file)).unwrap(),
        1
    );
    assert_eq!(fs::read(&file).unwrap(), whole);
    fs::write(&file, "something else\n").unwrap();
    assert!(History::load(&file).is_empty());
}

#[test]
fn history_is_read_again_when_what_was_known_is_gone() {
    let bench = Bench::start();
    let first = bench.words();
    let mut history = History::default();
    history.extend(&bench.git, &bench.repo(), &first, None).unwrap();
    bench.run(&["checkout", "-q", "--orphan", "fresh"]);
    let other = bench.commit("Anew", &[("src/parser.py", "def parse():\n    pass\n")]);
    bench.run(&["branch", "-D", "main"]);
    bench.run(&["reflog", "expire", "--expire=now", "--all"]);
    bench.run(&["gc", "-q", "--prune=now"]);
    assert_eq!(history.extend(&bench.git, &bench.repo(), &other, None).unwrap(), 1);
    let view = bench.view(&other);
    assert!(Chronicle::new(Arc::new(history), &view, &other).is_some());
}

#[test]
fn the_measurement_counts_what_it_finds_and_names_what_it_skips() {
    let bench = Bench::start();
    let at = bench.words();
    let case = |id: &str, repo: &str, text: &str, path: &str| Case {
        id: id.to_owned(),
        repo: repo.to_owned(),
        parent_commit: at.clone(),
        query_full: text.to_owned(),
        query_subject: None,
        query_nostem: None,
        gold_files: vec![path.to_owned()],
        gold_lines: BTreeMap::from([(path.to_owned(), vec![(2, 2)])]),
    };
    let plan = Plan {
        cases: vec![
            case("right", "octo/words", "parse_header fails", "src/parser.py"),
            case("test", "octo/words", "parse_header fails", "tests/test_parser.py"),
            case("away", "octo/away", "anything", "a.py"),
        ],
        find: &|name| eval::find_in(&bench.folder.path().join("repos"), name),
        limits: Limits::default(),
        ask: Ask::Full,
        indexes: &bench.folder.path().join("indexes"),
    };
    let report = eval::run(&plan, &bench.git, &CancellationToken::new(), &|_, _| ()).unwrap();
    let fused = &report.files[0];
    assert_eq!(
        (fused.name.as_str(), fused.measure.cases, fused.measure.acc[0]),
        ("fused", 2, 50.0)
    );
    assert_eq!(report.functions[0].measure.hit[0], 50.0);
    assert_eq!(report.lost, 1);
    assert_eq!(report.skipped.len(), 1);
    assert!(
        report
            .lines()
            .iter()
            .any(|line| line.starts_with("skipped away: no repository at "))
    );
}
