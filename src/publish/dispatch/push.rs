//! The push of a stored change: the commit is rebuilt from the bundle, must be the one that was
//! promised, and goes to its branch with a lease. Called by the dispatcher.
//! Never overwrites what somebody else pushed, and never claims a push that the remote does not show.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Landed, Step, pushed_id};
use crate::closed;
use crate::effect::{EffectState, PushTo};
use crate::git::{GitError, Import, Remote, TreePolicy};
use crate::github::{Access, RepoClient};
use crate::ids::{BranchName, CommitSha, Subject};
use crate::job::{Job, JobError};
use crate::phrase::{branch as words, reason};
use crate::publish::carry::{Carry, beside};
use crate::publish::{BUNDLE, Publisher};
use crate::secret::Secret;
use crate::workspace::{mirror_path, publish_path};

/// Longest time a mirror may take to be refreshed.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(900);

/// How one push ended.
enum Pushed {
    /// As it should, or for good.
    Settled(Landed),
    /// The token was refused.
    TokenRefused(String),
}

/// A commit and where it belongs.
pub(super) struct Promise<'a> {
    /// The branch.
    pub branch: &'a BranchName,
    /// The fork that has it, where it is not in the job's repository.
    pub to: Option<&'a PushTo>,
    /// Where it must point before.
    pub expect: Option<&'a CommitSha>,
    /// Parent of the commit.
    pub parent: &'a CommitSha,
    /// Its further parents.
    pub merged: &'a [CommitSha],
    /// The commit.
    pub sha: &'a CommitSha,
    /// Its message.
    pub message: &'a str,
}

impl Step<'_> {
    /// Pushes; a refused token is replaced once, since tokens can end early.
    pub(super) async fn push(&self, promise: &Promise<'_>) -> Result<Landed, JobError> {
        let client = self.client_for(promise.to);
        let token = client.git_token().await?;
        let refused = match self.push_with(promise, token.clone()).await? {
            Pushed::Settled(landed) => return Ok(landed),
            Pushed::TokenRefused(_) => client.git_token_after(&token).await?,
        };
        match self.push_with(promise, refused).await? {
            Pushed::Settled(landed) => Ok(landed),
            Pushed::TokenRefused(why) => Ok(Landed::Not(EffectState::Failed, why)),
        }
    }

    async fn push_with(&self, promise: &Promise<'_>, token: Secret) -> Result<Pushed, JobError> {
        let there = Remote {
            url: self.client_for(promise.to).git_url(),
            token: Some(token.clone()),
        };
        let token = match promise.to {
            Some(_) => self.client.git_token().await?,
            None => token,
        };
        let remote = Remote {
            url: self.client.git_url(),
            token: Some(token),
        };
        let folder = publish_path(&self.publisher.state_dir, &self.leased.job.id);
        let result = self.rebuild_and_push(promise, &folder, &remote, &there).await;
        if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
            tracing::debug!(folder = %folder.display(), %error, "the publishing folder was not removed");
        }
        match result {
            Ok(landed) => Ok(Pushed::Settled(landed)),
            // Of the job's repository: the one with the branch is asked below.
            Err(Broken::Git(GitError::Limited(problem))) => Err(self.client.limited_at_git(&problem).await.into()),
            Err(Broken::Git(GitError::Unauthorized(why))) => Ok(Pushed::TokenRefused(why)),
            Err(Broken::Git(GitError::Refused(why))) => Ok(Pushed::Settled(Landed::Not(EffectState::Failed, why))),
            Err(Broken::Git(error)) => Err(error.into()),
            Err(Broken::Job(error)) => Err(error),
        }
    }

    /// P10: commits on the branch of a pull request that is over would go nowhere.
    async fn over(&self, expect: Option<&CommitSha>) -> Result<Option<String>, JobError> {
        let (Subject::Pull(number), Some(_)) = (&self.leased.job.subject, expect) else {
            return Ok(None);
        };
        let pull = self.client.pull(*number).await?;
        Ok((pull.state != "open")
            .then(|| reason::pull_over_meanwhile(self.publisher.language, &number.to_string(), pull.merged)))
    }

    /// Where somebody moved the branch meanwhile, the work is carried over first. Where it moves on
    /// and on, or the pull request is over, the work goes beside it. Nothing of theirs is touched.
    async fn rebuild_and_push(
        &self,
        promise: &Promise<'_>,
        folder: &Path,
        remote: &Remote,
        there: &Remote,
    ) -> Result<Landed, Broken> {
        let (publisher, job) = (self.publisher, &self.leased.job);
        let over = self.over(promise.expect).await?;
        let Promise { branch, sha, .. } = *promise;
        let repo = self.promised(promise, folder, remote).await?;
        let client = self.client_for(promise.to);
        let is_over = over.is_some();
        let why = match over {
            Some(over) => over,
            None => {
                client.turn_to_push().await.map_err(JobError::from)?;
                match publisher.git.push(&repo, there, sha, branch, promise.expect).await {
                    Ok(()) => return Ok(Landed::As(pushed_id(branch, sha))),
                    Err(GitError::Moved(_)) => reason::pushed_meanwhile(publisher.language, branch.as_str()),
                    Err(GitError::Limited(problem)) => {
                        return Err(Broken::Job(client.limited_at_git(&problem).await.into()));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        // HTTP libraries repeat a request whose connection broke: it may have been us who moved it.
        if client.branch_sha(branch).await.map_err(JobError::from)?.as_ref() == Some(sha) {
            return Ok(Landed::As(pushed_id(branch, sha)));
        }
        if !is_over && self.may_follow(promise).await? {
            let why = words::moved(publisher.language, branch.as_str());
            return Err(Broken::Job(JobError::HeadMoved(why)));
        }
        if promise.to.is_some() {
            // A branch of ours here would have a stranger's commits, and our workflows run on it.
            return Ok(Landed::Not(EffectState::Failed, why));
        }
        let beside = beside(job);
        self.client.turn_to_push().await.map_err(JobError::from)?;
        publisher.git.push(&repo, remote, sha, &beside, None).await?;
        Ok(Landed::Beside(pushed_id(&beside, sha), why))
    }

    /// Finished work follows a branch that moved, but not one that is gone and not for ever.
    async fn may_follow(&self, promise: &Promise<'_>) -> Result<bool, Broken> {
        let (publisher, job) = (self.publisher, &self.leased.job);
        let client = self.client_for(promise.to);
        if promise.expect.is_none()
            || client
                .branch_sha(promise.branch)
                .await
                .map_err(JobError::from)?
                .is_none()
        {
            return Ok(false);
        }
        let carry = Carry::of(&publisher.store, job).await.map_err(JobError::from)?;
        Ok(carry.is_some_and(|carry| carry.may_go_on()))
    }

    /// The way to the repository that has the branch.
    pub(super) fn client_for(&self, to: Option<&PushTo>) -> RepoClient {
        let Some(to) = to else { return self.client.clone() };
        let pulse = self.pulse.clone();
        let github = &self.publisher.github;
        let client = github.repo(to.installation, to.repo_id, to.repo.clone(), Access::Write);
        client.only_while(move || pulse.is_alive())
    }

    /// A repository with the promised commit: rebuilt from the stored change, or unpacked where it
    /// is a merge.
    async fn promised(&self, promise: &Promise<'_>, folder: &Path, remote: &Remote) -> Result<PathBuf, Broken> {
        let (publisher, job, sha) = (self.publisher, &self.leased.job, promise.sha);
        if !promise.merged.is_empty() {
            let parents: Vec<&CommitSha> = [promise.parent].into_iter().chain(promise.merged).collect();
            return unpack(publisher, job, folder, remote, sha, &parents).await;
        }
        let import = rebuild(publisher, job, folder, remote, promise.parent).await?;
        let by = publisher.signature(job);
        let rebuilt = publisher
            .git
            .commit(&import, promise.parent, promise.message, &by)
            .await?;
        if rebuilt != *sha {
            let reason = format!("the stored change rebuilds to {rebuilt}, not to {sha}");
            return Err(Broken::Job(JobError::Fail(reason)));
        }
        Ok(import.repo)
    }
}

/// The bytes of a job's stored change in a folder that is made anew, and a mirror that was just
/// refreshed.
async fn lay_out(
    publisher: &Publisher,
    job: &Job,
    folder: &Path,
    remote: &Remote,
) -> Result<(PathBuf, PathBuf), Broken> {
    let mut tx = publisher.store.begin().await.map_err(JobError::from)?;
    let stored = tx.checkpoint(&job.id, BUNDLE).await.map_err(JobError::from)?;
    drop(tx);
    let Some((_, bundle)) = stored else {
        return Err(Broken::Job(JobError::Fail("the stored change is missing".to_owned())));
    };
    let local = |error: std::io::Error| JobError::Retry(format!("{}: {error}", folder.display()));
    if tokio::fs::try_exists(folder).await.map_err(local)? {
        tokio::fs::remove_dir_all(folder).await.map_err(local)?;
    }
    closed::make_folder(folder).map_err(local)?;
    let bundle_file = folder.join("change.bundle");
    tokio::fs::write(&bundle_file, bundle).await.map_err(local)?;
    let mirror = mirror_path(&publisher.state_dir, job.repo_id);
    publisher
        .git
        .refresh_mirror(&mirror, remote, &[], MIRROR_TIMEOUT)
        .await?;
    Ok((bundle_file, mirror))
}

/// The stored change of a job as an import, made again from its bundle in a folder that is made
/// anew. `base` is the commit that it stands on.
pub(in crate::publish) async fn rebuild(
    publisher: &Publisher,
    job: &Job,
    folder: &Path,
    remote: &Remote,
    base: &CommitSha,
) -> Result<Import, Broken> {
    let (bundle_file, mirror) = lay_out(publisher, job, folder, remote).await?;
    let (base_git, tree) = (folder.join("base.git"), folder.join("tree"));
    let git = &publisher.git;
    git.check_out(&mirror, remote, base, &base_git, &tree).await?;
    // The rules were applied when the change was accepted; here only the bytes are needed.
    let policy = TreePolicy::default();
    Ok(git
        .import(&bundle_file, &base_git, base, &folder.join("import.git"), &policy)
        .await?)
}

/// The stored merge of a job in a repository of its own, in a folder that is made anew.
pub(in crate::publish) async fn unpack(
    publisher: &Publisher,
    job: &Job,
    folder: &Path,
    remote: &Remote,
    commit: &CommitSha,
    parents: &[&CommitSha],
) -> Result<PathBuf, Broken> {
    let (bundle_file, mirror) = lay_out(publisher, job, folder, remote).await?;
    let into = folder.join("merge.git");
    let git = &publisher.git;
    git.read_bundle(&bundle_file, (&mirror, remote), commit, parents, &into)
        .await?;
    Ok(into)
}

/// Why there was no push: git's own reason is kept, since a refused token is not the end.
pub(in crate::publish) enum Broken {
    /// Of git.
    Git(GitError),
    /// Of anything else.
    Job(JobError),
}

impl Broken {
    /// What becomes of the job.
    pub(in crate::publish) fn into_job(self) -> JobError {
        match self {
            Broken::Git(error) => error.into(),
            Broken::Job(error) => error,
        }
    }
}

impl From<GitError> for Broken {
    fn from(error: GitError) -> Self {
        Broken::Git(error)
    }
}

impl From<JobError> for Broken {
    fn from(error: JobError) -> Self {
        Broken::Job(error)
    }
}
