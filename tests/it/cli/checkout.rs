//! A small checkout with a bug and a failing check, as a user would have it, and scripts for the
//! model that mend it or do not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Ended, User, ended};

/// Adds two numbers, or should.
const BROKEN: &str = "echo $(($1 - $2))\n";

pub(super) struct Checkout {
    pub(super) user: User,
}

impl Checkout {
    pub(super) fn new() -> Self {
        let checkout = Self { user: User::new() };
        checkout.git(&["init", "--quiet", "--initial-branch=main"]);
        checkout.write("add.sh", BROKEN);
        checkout.write("test.sh", "test \"$(sh add.sh 2 3)\" = 5\n");
        checkout.write(".github/forgehand.toml", "test = [\"sh test.sh\"]\n");
        checkout.commit("Add two numbers");
        checkout
    }

    pub(super) fn root(&self) -> PathBuf {
        self.user.work()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        self.user.write(&format!("work/{name}"), text);
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.root(), arguments)
    }

    /// What git says in a folder; it must succeed.
    #[track_caller]
    pub(super) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let who = ["-c", "user.name=Mona", "-c", "user.email=mona@example.org"];
        let output = self.user.command("git", folder).args(who).args(arguments).output();
        let ended = ended(output.unwrap());
        ended.assert_code(0);
        ended.out.trim_end().to_owned()
    }

    pub(super) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
    }

    /// Writes a script for the model and returns the option that names it.
    pub(super) fn script(&self, turns: &Value) -> String {
        let script = json!({"cases": [{"turns": turns}]});
        let path = self.user.write("script.json", &script.to_string());
        format!("model.stub_script={}", path.display())
    }

    /// Runs a task with a script in the checkout.
    pub(super) fn task(&self, turns: &Value, more: &[&str]) -> Ended {
        self.task_in(&self.root(), turns, more)
    }

    pub(super) fn task_in(&self, folder: &Path, turns: &Value, more: &[&str]) -> Ended {
        let script = self.script(turns);
        let mut command = self.user.forgehand();
        command.current_dir(folder).args(["run", "--set", &script]);
        if !more.contains(&"--task") {
            command.args(["--task", "Add, do not subtract"]);
        }
        ended(command.args(more).output().unwrap())
    }

    /// Every branch but the one the user is on.
    pub(super) fn other_branches(&self) -> Vec<String> {
        let branches = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        branches
            .lines()
            .filter(|name| *name != "main")
            .map(str::to_owned)
            .collect()
    }
}

/// One call of a tool, as a reply.
pub(super) fn call(tool: &str, arguments: Value) -> Value {
    json!({"say": "On it.", "calls": [{"tool": tool, "arguments": arguments}]})
}

/// A change, with the run and the look at the difference that a good worker adds.
pub(super) fn change(tool: &str, arguments: Value) -> Value {
    let look = json!({"tool": "run_command", "arguments": {"command": "sh test.sh; git diff"}});
    json!({"say": "On it.", "calls": [{"tool": tool, "arguments": arguments}, look]})
}

/// The edit that mends the bug.
pub(super) fn edit() -> Value {
    change(
        "edit_file",
        json!({"path": "add.sh", "old_text": "$1 - $2", "new_text": "$1 + $2"}),
    )
}

pub(super) fn finish(status: &str, summary: &str) -> Value {
    let title = if status == "done" {
        "Add instead of subtracting"
    } else {
        ""
    };
    call(
        "finish",
        json!({"status": status, "title": title, "summary": summary, "risks": "", "not_done": ""}),
    )
}

/// A script that mends the bug.
pub(super) fn fix() -> Value {
    json!([
        call("run_command", json!({"command": "sh test.sh"})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ])
}
