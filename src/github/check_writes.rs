//! Check runs of our own: made, kept up to date, settled. What GitHub does not take is cut or
//! sent in portions here. Called by `publish`. Never touches a check run of another App: GitHub
//! refuses it, except for asking that one runs again.

use serde::Serialize;
use serde_json::{Value, json};

use crate::ids::CommitSha;
use crate::text;

use super::RepoClient;
use super::checks::CheckRun;
use super::client::{Call, Need};
use super::error::GitHubError;

/// GitHub's limit for the summary and the text. It speaks of characters and counts bytes in
/// places, so bytes are counted here.
const MAX_OUTPUT_BYTES: usize = 65_535;

/// GitHub's limit for a title and for the title of a remark.
const MAX_TITLE_CHARS: usize = 255;

/// GitHub's limit for the message of a remark is 64 KB.
const MAX_MESSAGE_BYTES: usize = 64_000;

/// Bytes of the marker that says how much was cut.
const ROOM_FOR_MARKER: usize = 100;

/// GitHub takes this many remarks at a time and appends them.
const ANNOTATIONS_PER_CALL: usize = 50;

/// How a check run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// All is well.
    Success,
    /// Something is wrong.
    Failure,
    /// Neither.
    Neutral,
    /// It was stopped.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// A person has to do something.
    ActionRequired,
    /// There was nothing to do.
    Skipped,
}

/// Where a check run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not begun.
    Queued,
    /// Under way.
    InProgress,
    /// Over.
    Completed(Conclusion),
}

/// How loud a remark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnnotationLevel {
    /// For information.
    Notice,
    /// A warning.
    Warning,
    /// A failure.
    Failure,
}

/// A remark on lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// File.
    pub path: String,
    /// First line.
    pub start_line: u64,
    /// Last line.
    pub end_line: u64,
    /// How loud.
    pub level: AnnotationLevel,
    /// Title; empty for none.
    pub title: String,
    /// What it says.
    pub message: String,
}

/// What a check run shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Where it stands.
    pub progress: Progress,
    /// Title.
    pub title: String,
    /// Summary, Markdown.
    pub summary: String,
    /// Details, Markdown; empty for none.
    pub text: String,
    /// Where more is shown.
    pub details_url: Option<String>,
    /// Remarks on lines; each call adds them to those that are there.
    pub annotations: Vec<Annotation>,
}

/// A check run to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheckRun {
    /// Name.
    pub name: String,
    /// The commit.
    pub head_sha: CommitSha,
    /// What we call it, to find it again.
    pub external_id: String,
    /// What it shows.
    pub report: CheckReport,
}

impl Annotation {
    fn json(&self) -> Value {
        let mut json = json!({
            "path": self.path,
            "start_line": self.start_line,
            "end_line": self.end_line.max(self.start_line),
            "annotation_level": self.level,
            "message": fit(&self.message, MAX_MESSAGE_BYTES),
        });
        if !self.title.is_empty() {
            json["title"] = text::cap_chars(&self.title, MAX_TITLE_CHARS).into();
        }
        json
    }
}

/// Cut so that what is left fits together with the words that say so.
fn fit(words: &str, max_bytes: usize) -> String {
    if words.len() <= max_bytes {
        return words.to_owned();
    }
    text::cap(words, max_bytes - ROOM_FOR_MARKER)
}

impl CheckReport {
    /// The report with one portion of its remarks.
    fn json(&self, annotations: &[Annotation]) -> Value {
        let mut output = json!({
            "title": text::cap_chars(&self.title, MAX_TITLE_CHARS),
            "summary": fit(&self.summary, MAX_OUTPUT_BYTES),
        });
        if !self.text.is_empty() {
            output["text"] = fit(&self.text, MAX_OUTPUT_BYTES).into();
        }
        if !annotations.is_empty() {
            output["annotations"] = annotations.iter().map(Annotation::json).collect();
        }
        let mut json = json!({ "output": output });
        match self.progress {
            Progress::Queued => json["status"] = "queued".into(),
            Progress::InProgress => json["status"] = "in_progress".into(),
            Progress::Completed(conclusion) => {
                json["status"] = "completed".into();
                json["conclusion"] = json!(conclusion);
            }
        }
        if let Some(url) = &self.details_url {
            json["details_url"] = url.as_str().into();
        }
        json
    }

    fn portions(&self) -> impl Iterator<Item = &[Annotation]> {
        self.annotations.chunks(ANNOTATIONS_PER_CALL)
    }
}

impl RepoClient {
    /// `POST /check-runs`, and further calls for remarks beyond the first fifty. A repeat makes a
    /// second one: look for [`CheckRun::external_id`] first.
    pub async fn create_check_run(&self, new: &NewCheckRun) -> Result<CheckRun, GitHubError> {
        let mut portions = new.report.portions();
        let mut body = new.report.json(portions.next().unwrap_or_default());
        body["name"] = new.name.as_str().into();
        body["head_sha"] = json!(new.head_sha);
        body["external_id"] = new.external_id.as_str().into();
        let call = Call::post(&self.path(&["check-runs"]), body).needs(Need::Checks);
        let mut run: CheckRun = self.send(&call).await?.json(&call)?;
        for portion in portions {
            run = self.patch_check_run(run.id, &new.report, portion).await?;
        }
        Ok(run)
    }

    /// `PATCH /check-runs/{id}`, once for every fifty remarks. A repeat adds the remarks again.
    pub async fn update_check_run(&self, id: u64, report: &CheckReport) -> Result<CheckRun, GitHubError> {
        let mut portions = report.portions();
        let mut run = self
            .patch_check_run(id, report, portions.next().unwrap_or_default())
            .await?;
        for portion in portions {
            run = self.patch_check_run(id, report, portion).await?;
        }
        Ok(run)
    }

    async fn patch_check_run(
        &self,
        id: u64,
        report: &CheckReport,
        annotations: &[Annotation],
    ) -> Result<CheckRun, GitHubError> {
        let path = ["check-runs", &id.to_string()];
        let call = Call::patch(&self.path(&path), report.json(annotations)).needs(Need::Checks);
        self.send(&call).await?.json(&call)
    }

    /// Asks that a check runs again. `Forbidden` when its App does not allow it, `Rejected` when
    /// it is not over yet.
    pub async fn rerequest_check_run(&self, id: u64) -> Result<(), GitHubError> {
        let path = ["check-runs", &id.to_string(), "rerequest"];
        let call = Call::post(&self.path(&path), json!({})).needs(Need::Checks);
        self.send(&call).await.map(drop)
    }
}
