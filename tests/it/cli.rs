//! The command line as a new user meets it: the real program, started in an empty environment with
//! a home folder and a folder for temporary files of its own, which must be empty afterwards.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

mod checkout;
mod configuration;
mod demo;
mod dev_container;
mod doctor;
mod doctor_model;
mod doctor_sandbox;
mod draft;
mod endings;
mod events;
mod from_cron;
mod graph;
mod headless;
mod help;
mod interrupted;
mod live;
mod replay;
mod repo_env;
mod run;
mod schedule;
mod secret_files;
mod state_folder;
mod terminal;
mod transcript;
mod trust;
mod web;
mod workgraph;

/// A user's home, working folder and temporary files.
pub(super) struct User {
    all: tempfile::TempDir,
    /// On another file system than the rest where the machine has two.
    tmp: tempfile::TempDir,
}

/// How the program ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl User {
    pub(super) fn new() -> Self {
        // Many small files are made: in memory where there is a place for it.
        let all = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let user = Self {
            all: all.unwrap(),
            tmp: tempfile::tempdir().unwrap(),
        };
        for folder in ["home", "work"] {
            std::fs::create_dir(user.path(folder)).unwrap();
        }
        user
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    /// Where the program is started, unless a test says otherwise.
    pub(super) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a file below the user's folders.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A program in the user's environment, which holds nothing but three variables.
    pub(super) fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.tmp.path())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn forgehand(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_forgehand"), &self.work())
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.forgehand().args(arguments).output().unwrap())
    }

    /// Nothing of the program is left in the folder for temporary files or the home folder, but
    /// records of runs and indexes of code.
    #[track_caller]
    pub(super) fn assert_tidy(&self) {
        let mut left: Vec<PathBuf> = snapshot(self.tmp.path()).into_keys().collect();
        left.extend(snapshot(&self.path("home")).into_keys());
        let indexes = self.path("home/.local/state/forgehand/index");
        // The ledger of runs that nobody watched.
        let ledger = |path: &PathBuf| {
            path.to_string_lossy()
                .contains("/.local/state/forgehand/forgehand.sqlite")
        };
        left.retain(|path| !path.starts_with(self.records()) && !path.starts_with(&indexes) && !ledger(path));
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Where records of runs are.
    pub(super) fn records(&self) -> PathBuf {
        self.path("home/.local/state/forgehand/records")
    }
}

pub(super) fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Waits for the end of a program that was started.
pub(super) fn wait(child: Child) -> Ended {
    ended(child.wait_with_output().unwrap())
}

impl Ended {
    #[track_caller]
    pub(super) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "\nout: {}\nerr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(super) fn assert_out(&self, part: &str) -> &Self {
        assert!(self.out.contains(part), "{part:?} is not in the output:\n{}", self.out);
        self
    }

    #[track_caller]
    pub(super) fn assert_err(&self, part: &str) -> &Self {
        assert!(self.err.contains(part), "{part:?} is not in the errors:\n{}", self.err);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {:?}; {}", self.out, self.err))
    }
}

/// Every file below a folder with its content, to see that nothing changed.
pub(super) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}
