//! What people and the model do in most stories, in one line each. Never looks at anything.

use forgehand::demo::double::RepositorySeed;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Service, until};
use crate::model_server::Reply;

/// The repository of the stories.
pub const REPO: &str = "octo/words";
/// Who owns it and asks for work.
pub const MONA: &str = "mona";
/// The usual issue.
pub const ISSUE_TITLE: &str = "The last word is not counted";
/// Its body.
pub const ISSUE_BODY: &str = "`echo a b | sh count.sh` prints 1. I expect 2.";

/// The files of the usual repository: the test fails because of the bug.
pub fn with_bug(seed: RepositorySeed) -> RepositorySeed {
    seed.file(
        "count.sh",
        "# Counts the words of its input.\necho $(( $(wc -w) - 1 ))\n",
    )
    .file(
        "test.sh",
        "got=$(echo a b | sh count.sh)\necho \"counted $got\"\ntest \"$got\" = 2\n",
    )
    .file("README.md", "# words\n")
}

/// The model's turn that mends the bug.
pub fn mend() -> Reply {
    Reply::change(
        "edit_file",
        json!({"path": "count.sh", "old_text": " - 1 ", "new_text": " "}),
    )
}

/// The model's last turn.
pub fn finish() -> Reply {
    Reply::finish("Count the last word", "The count was one too low.")
}

/// The model's turn that writes a small file.
pub fn note(path: &str) -> Reply {
    Reply::change("write_file", json!({"path": path, "content": "x\n"}))
}

/// The whole script of a run that finds nothing to do.
pub fn nothing_to_do() -> [Reply; 1] {
    [Reply::call(
        "finish",
        json!({"status": "nothing_to_do", "summary": "All is well."}),
    )]
}

/// The whole script of a run that mends the bug.
pub fn bug_fix() -> [Reply; 2] {
    [mend(), finish()]
}

impl Service {
    /// Mona opens the usual issue.
    pub fn issue(&self) -> u64 {
        self.issue_saying(ISSUE_TITLE, ISSUE_BODY)
    }

    /// Mona opens an issue.
    pub fn issue_saying(&self, title: &str, body: &str) -> u64 {
        self.github
            .open_issue(REPO, title, body, &[], MONA)
            .expect("the issue opens")
    }

    /// Mona opens the usual issue and puts the label on it.
    pub fn labelled_issue(&self) -> u64 {
        let issue = self.issue();
        self.label(issue);
        issue
    }

    /// Mona puts the label on an issue.
    pub fn label(&self, issue: u64) {
        self.github
            .label_issue(REPO, issue, "agent", MONA)
            .expect("the label is put on");
    }

    /// Mona comments.
    pub fn comment(&self, number: u64, text: &str) -> u64 {
        self.comment_by(number, text, MONA)
    }

    /// Somebody comments.
    pub fn comment_by(&self, number: u64, text: &str, by: &str) -> u64 {
        self.github
            .comment(REPO, number, text, by)
            .expect("the comment is written")
    }

    /// A job on an issue of its own that is in the middle of its work until the token is
    /// cancelled, and then finds nothing to do.
    pub async fn occupied(&self) -> CancellationToken {
        let gate = CancellationToken::new();
        self.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
        let asked = self.model.requests().len();
        let issue = self.issue_saying("Look around", "Is all well?");
        self.label(issue);
        self.model_is_asked(asked + 1).await;
        gate
    }

    /// Waits for the next second: GitHub's times have no parts of seconds, and what is as young
    /// as a trigger counts as younger.
    pub async fn next_second(&self) {
        let second = chrono::Utc::now().timestamp();
        until("the next second begins", async || {
            chrono::Utc::now().timestamp() > second
        })
        .await;
    }

    /// A finished pull request for the usual issue, as the service opens it.
    pub async fn opened_pull(&self) -> u64 {
        self.model.play(bug_fix());
        self.labelled_issue();
        self.done().await;
        self.only_pull().number
    }
}
