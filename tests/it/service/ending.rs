//! What must hold when a story is over, whatever it was about. Never forgives anything silently.

use std::path::Path;

use forgehand::effect::{EffectBody, EffectState};
use forgehand::job::Job;

use super::{REPO, Service, until};

/// A final status comment says one of these in its headline.
const FINAL_MARKS: [&str; 7] = ["### ✅", "### 💬", "### ☑️", "### 🚫", "### ❌", "### ⏹️", "### 🔍"];

impl Service {
    /// Ends the story: everything is over and said, nothing is left running or unread.
    pub(super) async fn end(mut self) {
        self.done().await;
        if self.running.is_some() {
            self.stop().await;
        }
        self.github.assert_no_unknown_routes();
        assert_eq!(
            crate::github::facts::unfit(&self.github.requests()),
            Vec::<String>::new()
        );
        assert_eq!(self.github.unused_faults(), Vec::<String>::new(), "faults never struck");
        self.model.assert_all_read();
        for job in self.jobs().await {
            self.assert_said_once(&job).await;
            self.assert_label_is_gone(&job);
        }
        let folder = self.folder.path().to_owned();
        until("every process of the sandbox is gone", async || {
            processes_in(&folder).is_empty()
        })
        .await;
        self.store.close().await;
    }

    /// T15: however a job ended, the label that started it is a button that can be pressed again.
    fn assert_label_is_gone(&self, job: &Job) {
        let (Some(label), Some(number)) = (job.request.trigger.label(), job.subject.number()) else {
            return;
        };
        // Nothing can be taken off in a repository that is read-only.
        let is_there = self.github.repo_id(REPO).ok() == Some(job.repo_id) && !self.github.is_archived(REPO);
        if is_there && let Ok(issue) = self.github.issue(REPO, number.0) {
            let stays = issue.labels.iter().any(|other| other.eq_ignore_ascii_case(label));
            assert!(!stays, "the label of job {} is still on: {:?}", job.id, issue.labels);
        }
    }

    /// A job that changes code has exactly one status comment for each round in which it began,
    /// and the comment has come to its end.
    async fn assert_said_once(&self, job: &Job) {
        let Some(number) = job.subject.number().filter(|_| job.kind.is_work()) else {
            return;
        };
        if self.github.repo_id(REPO).ok() != Some(job.repo_id) {
            return; // what was said went with its repository
        }
        let comments = self.github.comments(REPO, number.0).unwrap();
        let mut tx = self.store.begin().await.unwrap();
        let effects = tx.effects(&job.id).await.unwrap();
        drop(tx);
        for effect in effects.iter().filter(|effect| effect.body.kind() == "status_comment") {
            let mark = format!("<!-- forgehand:v1:{}:{}:", job.id, effect.seq);
            let found: Vec<&str> = comments
                .iter()
                .filter(|comment| comment.ours && comment.body.contains(&mark))
                .map(|comment| comment.body.as_str())
                .collect();
            let was_deleted = effects.iter().any(|last| {
                last.seq > effect.seq
                    && matches!(last.body, EffectBody::FinalStatus { .. })
                    && last.state != EffectState::Done
            });
            let expected = usize::from(effect.remote_id.is_some() && !was_deleted);
            assert_eq!(found.len(), expected, "status comments of job {}: {found:#?}", job.id);
            for body in found {
                let is_final = FINAL_MARKS.iter().any(|mark| body.starts_with(mark));
                assert!(is_final, "the status comment of job {} is not final: {body}", job.id);
            }
        }
    }
}

/// Processes that have a folder of the story mounted: the inside of its sandboxes.
fn processes_in(folder: &Path) -> Vec<String> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let mounts = std::fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        if mounts.contains(&name) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}
