//! The bench that the stories of the index stand on: a repository that is committed to, a folder for
//! its index, and a few lines that read `def NAME` and `NAME(`, since what is found in a file is
//! another story.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::git::Git;
use forgehand::ids::CommitSha;
use forgehand::retrieval::apart::Order;
use forgehand::retrieval::facts::{Facts, Reference, ReferenceKind, Symbol, SymbolKind};
use forgehand::retrieval::index::{Bounds, Index, IndexError, Limits, Reader, Reading};
use forgehand::retrieval::terms;
use forgehand::retrieval::view::View;
use tokio_util::sync::CancellationToken;

pub fn read(path: &str, bytes: &[u8], _until: Instant) -> Reading {
    let text = String::from_utf8_lossy(bytes);
    let mut facts = Facts::default();
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(name) = text.strip_prefix("def ") {
            facts.symbols.push(Symbol {
                name: name.into(),
                kind: SymbolKind::Function,
                line,
                end_line: line,
                parent: None,
                owner: None,
            });
        } else if let Some((name, _)) = text.split_once('(') {
            facts.references.push(Reference {
                name: name.into(),
                kind: ReferenceKind::Call,
                line,
                within: None,
                receiver: None,
            });
        }
        facts.lines = line;
    }
    (facts.units, facts.terms) = terms::terms(&text, &facts.symbols);
    let note = text.contains("GENERATED").then(|| "generated".to_owned());
    Reading {
        language: forgehand::language::of_path(path),
        facts,
        note,
    }
}

pub const READER: Reader = Reader { version: 1, read };

/// A repository that is committed to, and a folder for its index.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub git: Git,
    pub cancel: CancellationToken,
}

impl Bench {
    pub fn start() -> Self {
        Self::with_ids("sha1")
    }

    pub fn with_ids(format: &str) -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            git: Git::find().unwrap(),
            cancel: CancellationToken::new(),
        };
        bench.run(&["init", "-q", "-b", "main", &format!("--object-format={format}"), "."]);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        fs::create_dir_all(self.path("work")).unwrap();
        run(&self.path("work"), arguments)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn commit(&self) -> CommitSha {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", "a change"]);
        self.run(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    pub fn repo(&self) -> PathBuf {
        self.path("work/.git")
    }

    pub fn index(&self, limits: Limits) -> Index {
        Index::open(&self.path("index"), limits, READER).unwrap()
    }

    pub fn try_update(&self, index: &Index, commit: &CommitSha) -> Result<Arc<View>, IndexError> {
        let bounds = Bounds {
            cancel: &self.cancel,
            until: Instant::now() + Duration::from_secs(60),
            progress: &|_| (),
        };
        index.update(&self.git, &self.repo(), commit, &bounds)
    }

    pub fn update(&self, index: &Index, commit: &CommitSha) -> Arc<View> {
        self.try_update(index, commit).unwrap()
    }

    pub fn files_of_index(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("index")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect()
    }
}

/// What a process of its own is told to index.
pub fn order(bench: &Bench, commit: &CommitSha) -> Order {
    Order {
        index: bench.path("index"),
        repo: bench.repo(),
        lenders: Vec::new(),
        commit: commit.clone(),
        limits: Limits::default(),
        max_time: Duration::from_secs(120),
    }
}

pub fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Mona",
            "-c",
            "user.email=mona@example.com",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn paths(view: &View) -> Vec<&str> {
    view.files().map(|file| view.path(file)).collect()
}

pub fn defined_in(view: &View, name: &str) -> Vec<String> {
    let found = view.defined(name);
    found.into_iter().map(|(file, _)| view.path(file).to_owned()).collect()
}
