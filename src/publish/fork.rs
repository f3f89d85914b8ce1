//! Where the result of work on a pull request from a fork goes: to the fork itself, where the App is
//! installed there and the author lets maintainers in, otherwise to the reader as a patch.
//! Called by `plan`, by `carry` and by `worker`. Never puts commits of a fork on a branch of the base
//! repository: its workflows would run a stranger's code with the repository's rights.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::carry::beside;
use super::plan::{self, Planned, row};
use super::{Publisher, body};
use crate::closed;
use crate::effect::{EffectBody, PushTo};
use crate::git::{Import, Remote};
use crate::github::{Access, GitHubError, PullRepo, RepoClient};
use crate::ids::{BranchName, CommitSha, Subject};
use crate::job::{Job, JobError, Outcome};
use crate::phrase::{branch as words, reason};
use crate::text;
use crate::workspace::{mirror_path, publish_path};

/// Largest patch that is shown in a comment. With what else stands there, it is well below what
/// GitHub takes.
const MAX_SHOWN_BYTES: usize = 30_000;
/// Most characters of what stands above a patch.
const MAX_LEAD_CHARS: usize = 18_000;
/// Largest patch at all.
const MAX_PATCH_BYTES: usize = 20 << 20;

/// Somebody who gets a patch instead of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByPatch {
    /// The branch that the pull request shall go to.
    pub base: BranchName,
    /// Why nothing is pushed, as a sentence.
    pub why: String,
}

/// Whether a fork can be pushed to, or why not, as a sentence.
///
/// # Errors
/// When GitHub cannot be asked.
pub async fn way_to(
    publisher: &Publisher,
    fork: Option<&PullRepo>,
    may_modify: bool,
) -> Result<Result<PushTo, String>, JobError> {
    let language = publisher.language;
    let Some(fork) = fork else {
        return Ok(Err(words::fork_deleted(language)));
    };
    let name = fork.full_name.as_str();
    if !may_modify {
        return Ok(Err(words::fork_forbids(language, name)));
    }
    let installation = match publisher.github.installation_of(&fork.full_name).await {
        Ok(installation) => installation,
        Err(GitHubError::NotFound { .. }) => return Ok(Err(words::fork_without_app(language, name))),
        Err(error) => return Err(error.into()),
    };
    let client = publisher
        .github
        .repo(installation, fork.id, fork.full_name.clone(), Access::Write);
    // Only a token that can write says that we may.
    match client.git_token().await {
        Ok(_) => Ok(Ok(PushTo {
            installation,
            repo_id: fork.id,
            repo: fork.full_name.clone(),
        })),
        Err(GitHubError::NotFound { .. } | GitHubError::Rejected { .. } | GitHubError::Forbidden { .. }) => {
            Ok(Err(words::fork_without_app(language, name)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Who gets the job's work as a patch, if its pull request comes from a fork.
pub(super) async fn by_patch_of(
    publisher: &Publisher,
    job: &Job,
    client: &RepoClient,
) -> Result<Option<ByPatch>, JobError> {
    let Subject::Pull(number) = job.subject else {
        return Ok(None);
    };
    let pull = client.pull(number).await?;
    let fork = pull.head.repo.as_ref();
    if fork.is_some_and(|fork| fork.id == job.repo_id) {
        return Ok(None);
    }
    let base = pull
        .base
        .branch
        .parse()
        .map_err(|error| JobError::Fail(format!("{error}")))?;
    let name = fork.map(|fork| fork.full_name.as_str());
    let why = words::fork_not_here(publisher.language, name);
    Ok(Some(ByPatch { base, why }))
}

/// A change on its way as a patch.
pub(super) struct Offer<'a> {
    /// The change.
    pub import: &'a Import,
    /// Its commit message.
    pub message: &'a str,
    /// To whom.
    pub to: &'a ByPatch,
    /// What stands above it; safe already.
    pub lead: &'a str,
    /// How the job ends.
    pub outcome: Outcome,
}

/// Plans that a change is shown as a patch. One that is too large for a comment, or that a comment
/// would change, lies as a file on a branch of its own on top of the base.
pub(super) async fn offer(publisher: &Publisher, job: &Job, offer: Offer<'_>) -> Result<Planned, JobError> {
    let (git, import, language) = (&publisher.git, offer.import, publisher.language);
    let by = publisher.signature(job);
    let commit = git.commit(import, &import.base, offer.message, &by).await?;
    let lead = text::cap_markdown(offer.lead, MAX_LEAD_CHARS);
    let mut details = match lead.is_empty() {
        true => format!("> [!NOTE]\n> {}\n", offer.to.why),
        false => format!("> [!NOTE]\n> {}\n\n{lead}", offer.to.why),
    };
    let patch = git.letter(&import.repo, &commit, MAX_PATCH_BYTES).await?;
    let Some(patch) = patch else {
        let _ = write!(details, "\n{}\n", words::patch_too_large(language));
        return Ok(plan::ending_with(job, offer.outcome, details));
    };
    let shown = String::from_utf8_lossy(&patch);
    if publisher.redactor.redact(&shown) != shown {
        let _ = write!(details, "\n{}\n", words::patch_has_secret(language));
        return Ok(plan::ending_with(job, offer.outcome, details));
    }
    let survives = std::str::from_utf8(&patch).is_ok() && !shown.contains('\r') && text::visible(&shown) == shown;
    if survives && patch.len() <= MAX_SHOWN_BYTES {
        let fence = text::code_fence(&shown);
        let _ = write!(
            details,
            "\n<details><summary>{}</summary>\n\n{fence}diff\n{}\n{fence}\n\n</details>\n\n{}\n",
            words::patch_title(language),
            shown.trim_end_matches('\n'),
            words::patch_how(language, import.base.short()),
        );
        return Ok(plan::ending_with(job, offer.outcome, details));
    }
    as_file(publisher, job, offer, details, &patch).await
}

/// The patch as a file on a branch.
async fn as_file(
    publisher: &Publisher,
    job: &Job,
    offer: Offer<'_>,
    mut details: String,
    patch: &[u8],
) -> Result<Planned, JobError> {
    let (git, branch) = (&publisher.git, beside(job));
    let client = publisher.client(job).under_present_name().await?;
    let remote = Remote {
        url: client.git_url(),
        token: Some(client.git_token().await?),
    };
    let mirror = mirror_path(&publisher.state_dir, job.repo_id);
    let tip = git.resolve(&mirror, &offer.to.base.full_ref()).await?;
    let folder = publish_path(&publisher.state_dir, &job.id);
    let local = |error: std::io::Error| JobError::Retry(format!("{}: {error}", folder.display()));
    if tokio::fs::try_exists(&folder).await.map_err(local)? {
        tokio::fs::remove_dir_all(&folder).await.map_err(local)?;
    }
    closed::make_folder(&folder).map_err(local)?;
    let path = format!("forgehand-{}.patch", text::slug(&job.subject.to_string(), 40));
    let into = folder.join("patch.git");
    let tree = git.with_file((&mirror, &remote), &tip, (&path, patch), &into).await?;
    let title = reason::a_patch(publisher.language, &job.subject.to_string());
    let message = body::message(publisher, &title, offer.message);
    let commit = git
        .commit_tree(&into, &tree, &[&tip], &message, &publisher.signature(job))
        .await?;
    let file = folder.join("patch.bundle");
    git.write_bundle(&into, &commit, &[&tip], &file, 2 * MAX_PATCH_BYTES as u64)
        .await?;
    let bundle = tokio::fs::read(&file).await.map_err(local)?;
    let how = words::patch_on_branch(publisher.language, branch.as_str(), &path, offer.import.base.short());
    let _ = write!(details, "\n{how}\n");
    let outcome = match offer.outcome {
        Outcome::GaveUp { reason, .. } => Outcome::GaveUp {
            reason,
            branch: Some(branch.clone()),
        },
        Outcome::Stopped { reason, .. } => Outcome::Stopped {
            reason,
            branch: Some(branch.clone()),
        },
        _ => Outcome::Pushed {
            branch: branch.clone(),
            sha: commit.clone(),
        },
    };
    let mut planned = plan::ending_with(job, outcome, details);
    planned.bundle = Some(bundle);
    planned
        .effects
        .insert(0, row(job, plan::seq::PUSH, push(&branch, &tip, &commit, message)));
    Ok(planned)
}

fn push(branch: &BranchName, tip: &CommitSha, commit: &CommitSha, message: String) -> EffectBody {
    EffectBody::Push {
        branch: branch.clone(),
        to: None,
        expect: None,
        parent: tip.clone(),
        merged: Vec::new(),
        sha: commit.clone(),
        message,
    }
}
