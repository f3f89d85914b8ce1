//! What a reviewer is shown beside the pull request's own words: its difference, and what earlier
//! reviews said, so that nothing is said twice. Called by `gather`. Never reads another head than
//! the one that is checked out.

use std::fmt::Write as _;

use crate::github::{PullFile, PullFiles, RepoClient, ReviewThread};
use crate::ids::IssueNumber;
use crate::job::JobError;
use crate::text;

/// Most files that are listed.
const MAX_FILES: usize = 1_000;
/// Most bytes of the difference of one file, and of all of them.
const MAX_PATCH_BYTES: usize = 16 * 1024;
const MAX_DIFFERENCE_BYTES: usize = 96 * 1024;
/// Most threads that are read, and most bytes of one comment in them.
const MAX_THREADS: usize = 200;
const MAX_COMMENT_BYTES: usize = 1024;
/// Most bytes of all threads.
const MAX_THREADS_BYTES: usize = 32 * 1024;

/// The difference and the earlier threads of a pull request, as text of strangers.
///
/// # Errors
/// When GitHub does not answer.
pub(super) async fn shown(client: &RepoClient, number: IssueNumber) -> Result<String, JobError> {
    let files = client.pull_files(number, MAX_FILES).await?;
    let threads = client.review_threads(number, MAX_THREADS).await?;
    let mut out = difference(&files);
    out.push_str(&said(&threads));
    Ok(out)
}

fn difference(files: &PullFiles) -> String {
    let mut out = "\n\n--- the difference, as GitHub shows it ---\n".to_owned();
    if !files.whole {
        // W5: the list of a very large pull request is not whole, or is not there at all.
        out.push_str("(it is too large to be shown as a whole; read the rest in the checkout)\n");
    }
    let mut left = MAX_DIFFERENCE_BYTES;
    for file in &files.files {
        let patch = text::cap_middle(file.patch.as_deref().unwrap_or_default(), MAX_PATCH_BYTES);
        let _ = write!(out, "\n{}", head_of(file));
        match (patch.is_empty(), patch.len() <= left) {
            (true, _) => out.push_str(" (its difference is not shown: binary, too large, or only moved)\n"),
            (false, true) => {
                left -= patch.len();
                let _ = writeln!(out, "\n{patch}");
            }
            (false, false) => out.push_str(" (left out here: read it in the checkout)\n"),
        }
    }
    out
}

fn head_of(file: &PullFile) -> String {
    let moved = file
        .previous_path
        .as_ref()
        .map_or_else(String::new, |before| format!(" (was {before})"));
    format!(
        "=== {}{moved}: {:?}, +{} -{}",
        file.path, file.kind, file.additions, file.deletions
    )
}

fn said(threads: &[ReviewThread]) -> String {
    if threads.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    for thread in threads {
        let place = match thread.line.or(thread.original_line) {
            Some(line) => format!("{}:{line}", thread.path),
            None => thread.path.clone(),
        };
        let state = match (thread.is_resolved, thread.is_outdated) {
            (true, _) => " (resolved)",
            (false, true) => " (outdated)",
            (false, false) => "",
        };
        let _ = write!(out, "\n{place}{state}");
        for comment in &thread.comments {
            let who = comment.author.as_ref().map_or("ghost", |author| author.login.as_str());
            let words = text::cap(comment.body.trim(), MAX_COMMENT_BYTES).replace('\n', "\n    ");
            let _ = write!(out, "\n  {who}: {words}");
        }
    }
    format!(
        "\n\n--- said in earlier reviews ---\n{}",
        text::cap_middle(out.trim_start(), MAX_THREADS_BYTES)
    )
}
