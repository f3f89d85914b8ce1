//! What people do on GitHub's pages, and what a test sees there. Each action happens at once and
//! sends the webhooks that it would send. Called by tests and by the demo.
//! Never acts for somebody without an account.

use anyhow::{Context as _, ensure};

use crate::ids::UserId;
use crate::secret::{Secret, random_hex};

use super::GitHubDouble;
use super::answer::Refused;
use super::changes::{NewIssue, ReactionPlace};
use super::noun::{Comment, Issue, Pull, Review, ReviewComment};
use super::pulls::NewPull;
use super::reviews::{Inline, NewReview};
use super::state::{ManifestCredentials, State};

/// A comment on a line, within a review.
#[derive(Debug, Clone)]
pub struct InlineComment {
    /// File.
    pub path: String,
    /// Line in the new file.
    pub line: u64,
    /// Text.
    pub body: String,
}

/// A pull request that a person opens.
#[derive(Debug, Clone, Copy)]
pub struct NewPullByPerson<'a> {
    /// Repository of the head: the same one, or a fork.
    pub head_repo: &'a str,
    /// Head branch.
    pub head: &'a str,
    /// Base branch.
    pub base: &'a str,
    /// Title.
    pub title: &'a str,
    /// Body.
    pub body: &'a str,
    /// Who opens it.
    pub by: &'a str,
}

impl GitHubDouble {
    /// Adds a person.
    pub fn person(&self, login: &str) -> UserId {
        UserId(self.lock().add_account(login, "User", None))
    }

    /// Adds the bot of another App, `NAME[bot]`.
    pub fn bot(&self, login: &str, app: u64) -> UserId {
        UserId(self.lock().add_account(login, "Bot", Some(app)))
    }

    /// Deletes an account; what it wrote stays, without an author.
    pub fn delete_account(&self, login: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.actor(login)?;
        ensure!(
            id != state.app.bot && id != state.app.owner,
            "{login} is needed by the App"
        );
        state.accounts.remove(&id);
        Ok(())
    }

    /// Gives a person (who is added where new) a role: `read`, `triage`, `write`, `maintain`,
    /// `admin`, or a custom role's name.
    pub fn grant(&self, repo: &str, login: &str, role: &str) -> anyhow::Result<UserId> {
        let mut state = self.lock();
        let id = state.add_account(login, "User", None);
        state.repo_named_mut(repo)?.roles.insert(id, role.to_owned());
        Ok(UserId(id))
    }

    /// Takes a person's role away.
    pub fn revoke(&self, repo: &str, login: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.actor(login)?;
        state.repo_named_mut(repo)?.roles.remove(&id);
        Ok(())
    }

    /// Does something in a repository as somebody.
    pub(super) fn act<T>(
        &self,
        repo: &str,
        by: &str,
        action: impl FnOnce(&mut State, u64, u64) -> Result<T, Refused>,
    ) -> anyhow::Result<T> {
        self.change(|state| {
            let who = state.actor(by)?;
            let id = state.repo_named(repo)?.id;
            action(state, id, who).with_context(|| format!("{by} in {repo}"))
        })
    }

    /// Opens an issue with labels and gives its number.
    pub fn open_issue(&self, repo: &str, title: &str, body: &str, labels: &[&str], by: &str) -> anyhow::Result<u64> {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let new = NewIssue {
            title,
            body: (!body.is_empty()).then_some(body), // an empty field becomes `null`
            labels: &labels,
        };
        self.act(repo, by, |state, repo, who| state.open_issue(repo, who, &new))
    }

    /// Replaces an issue's body.
    pub fn edit_issue(&self, repo: &str, number: u64, body: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.edit_issue(repo, number, who, None, Some(body))
        })
    }

    /// Replaces an issue's title.
    pub fn retitle_issue(&self, repo: &str, number: u64, title: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.edit_issue(repo, number, who, Some(title), None)
        })
    }

    /// Closes an issue or pull request.
    pub fn close_issue(&self, repo: &str, number: u64, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.set_open(repo, number, who, false))
    }

    /// Opens it again.
    pub fn reopen_issue(&self, repo: &str, number: u64, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.set_open(repo, number, who, true))
    }

    /// Puts a label on an issue or pull request.
    pub fn label_issue(&self, repo: &str, number: u64, label: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.add_label(repo, number, who, label))
    }

    /// Takes a label off.
    pub fn unlabel_issue(&self, repo: &str, number: u64, label: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.remove_label(repo, number, who, label)
        })
    }

    /// Comments and gives the comment's id.
    pub fn comment(&self, repo: &str, number: u64, body: &str, by: &str) -> anyhow::Result<u64> {
        self.act(repo, by, |state, repo, who| state.add_comment(repo, number, who, body))
    }

    /// Edits a comment, one's own or another's.
    pub fn edit_comment(&self, repo: &str, id: u64, body: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.edit_comment(repo, id, who, body))
    }

    /// Deletes a comment.
    pub fn delete_comment(&self, repo: &str, id: u64, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.delete_comment(repo, id, who))
    }

    /// Reacts to an issue.
    pub fn react_to_issue(&self, repo: &str, number: u64, content: &str, by: &str) -> anyhow::Result<()> {
        let place = ReactionPlace::Issue(number);
        self.act(repo, by, |state, repo, who| {
            state.react(repo, &place, who, content).map(drop)
        })
    }

    /// Submits a review (`APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`) and gives its id.
    pub fn submit_review(
        &self,
        repo: &str,
        number: u64,
        (state, body): (&str, &str),
        comments: &[InlineComment],
        by: &str,
    ) -> anyhow::Result<u64> {
        let comments: Vec<Inline> = comments.iter().map(Inline::from).collect();
        self.act(repo, by, |world, repo, who| {
            let review = NewReview {
                number,
                who,
                state,
                body,
                comments: &comments,
            };
            world.submit_review(repo, &review)
        })
    }

    /// Replies to the first review comment of a thread.
    pub fn reply(&self, repo: &str, number: u64, to: u64, body: &str, by: &str) -> anyhow::Result<u64> {
        self.act(repo, by, |state, repo, who| state.reply(repo, number, to, who, body))
    }

    /// Edits a review comment.
    pub fn edit_review_comment(&self, repo: &str, id: u64, body: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.edit_review_comment(repo, id, who, body)
        })
    }

    /// The line of a review comment is not part of the diff any more.
    pub fn outdate_review_comment(&self, repo: &str, id: u64) -> anyhow::Result<()> {
        let mut state = self.lock();
        let comments = &mut state.repo_named_mut(repo)?.review_comments;
        comments.get_mut(&id).context("no such review comment")?.line = None;
        Ok(())
    }

    /// Opens a pull request and gives its number.
    pub async fn open_pull(&self, repo: &str, new: NewPullByPerson<'_>) -> anyhow::Result<u64> {
        let (base_path, head_path, head_repo, base_sha, head_sha) = {
            let state = self.lock();
            let (base, head) = (state.repo_named(repo)?, state.repo_named(new.head_repo)?);
            let base_sha = base.branch(new.base).context("the base branch does not exist")?.clone();
            let head_sha = head.branch(new.head).context("the head branch does not exist")?.clone();
            (base.path.clone(), head.path.clone(), head.id, base_sha, head_sha)
        };
        let git = &self.inner.git;
        if base_path != head_path {
            git.fetch(&base_path, &head_path, &format!("refs/heads/{}", new.head))
                .await?;
        }
        let comparison = git.compare(&base_path, &base_sha, &head_sha).await?;
        let pull = NewPull {
            title: new.title,
            body: (!new.body.is_empty()).then_some(new.body),
            head_repo,
            head: new.head,
            head_sha,
            base: new.base,
            draft: false,
            comparison,
        };
        let number = self.act(repo, new.by, |state, repo, who| state.open_pull(repo, who, &pull))?;
        git.update_ref(&base_path, &format!("refs/pull/{number}/head"), &pull.head_sha)
            .await?;
        Ok(number)
    }

    /// Merges a pull request with a merge commit.
    pub async fn merge_pull(&self, repo: &str, number: u64, by: &str) -> anyhow::Result<()> {
        let (id, path, pull, base_sha, who) = {
            let state = self.lock();
            let who = state.actor(by)?;
            let repo = state.repo_named(repo)?;
            let pull = repo.pulls.get(&number).context("no such pull request")?.clone();
            let base_sha = repo.branch(&pull.base).context("the base branch is gone")?.clone();
            (repo.id, repo.path.clone(), pull, base_sha, who)
        };
        let message = format!("Merge pull request #{number} from {}", pull.head);
        let git = &self.inner.git;
        let merged = git.merge(&path, &base_sha, &pull.head_sha, &message).await?;
        git.update_ref(&path, &format!("refs/heads/{}", pull.base), &merged)
            .await?;
        self.act(repo, by, |state, repo, who| {
            let now = state.now();
            if let Some(pull) = state.repo_mut(repo)?.pulls.get_mut(&number) {
                pull.merged_at = Some(now);
                pull.merge_commit = Some(merged.clone());
            }
            state.set_open(repo, number, who, false)
        })?;
        self.refresh_refs(id, who).await
    }

    /// Renames a repository; the old name leads to the new one.
    pub fn rename_repository(&self, old: &str, new_name: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let repo = state.repo_named_mut(old)?;
        let former = repo.full_name().to_lowercase();
        new_name.clone_into(&mut repo.name);
        let id = repo.id;
        state.moved.insert(former, id);
        Ok(())
    }

    /// Deletes a repository; its name is free again.
    pub fn delete_repository(&self, repo: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.repo_named(repo)?.id;
        state.repos.remove(&id);
        state.installation.repositories.remove(&id);
        Ok(())
    }

    /// Whether a repository is there and read-only.
    pub fn is_archived(&self, repo: &str) -> bool {
        self.lock().repo_named(repo).is_ok_and(|repo| repo.archived)
    }

    /// Makes a repository read-only.
    pub fn archive_repository(&self, repo: &str) -> anyhow::Result<()> {
        self.lock().repo_named_mut(repo)?.archived = true;
        Ok(())
    }

    /// Adds a repository, for example a fork, to the App's installation.
    pub fn install(&self, repo: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.repo_named(repo)?.id;
        state.installation.repositories.insert(id);
        Ok(())
    }

    /// Takes a repository out of the App's installation.
    pub fn uninstall(&self, repo: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.repo_named(repo)?.id;
        state.installation.repositories.remove(&id);
        Ok(())
    }

    /// Suspends the installation: its tokens are refused and none is minted.
    pub fn suspend_installation(&self) {
        self.lock().installation.suspended = true;
    }

    /// Uses up this many requests of the current hour, as other work of the App would.
    pub fn spend_rate(&self, requests: u64) {
        let mut state = self.lock();
        state.rate.used = state.rate.used.saturating_add(requests);
    }

    /// Begins a new hour of requests now.
    pub fn renew_rate(&self) {
        self.lock().rate.used = 0;
    }

    /// Ends all minted tokens early.
    pub fn revoke_tokens(&self) {
        self.lock().tokens.clear();
    }

    /// The one-time code with which the manifest flow would come back.
    pub fn manifest_code(&self) -> String {
        let code = random_hex::<20>();
        let credentials = ManifestCredentials {
            pem: self.private_key(),
            webhook_secret: self.webhook_secret(),
            client_secret: Secret::new(random_hex::<20>()),
        };
        self.lock().manifest_codes.push((code.clone(), credentials));
        code
    }

    /// The login of an account id, or `ghost`.
    pub fn login(&self, id: u64) -> String {
        let state = self.lock();
        state
            .accounts
            .get(&id)
            .map_or_else(|| "ghost".to_owned(), |account| account.login.clone())
    }

    /// An issue, or the issue side of a pull request.
    pub fn issue(&self, repo: &str, number: u64) -> anyhow::Result<Issue> {
        let state = self.lock();
        let issue = state.repo_named(repo)?.issues.get(&number).cloned();
        issue.with_context(|| format!("{repo} has no issue {number}"))
    }

    /// The comments of an issue or pull request, oldest first.
    pub fn comments(&self, repo: &str, number: u64) -> anyhow::Result<Vec<Comment>> {
        let state = self.lock();
        let comments = state.repo_named(repo)?.comments.values();
        Ok(comments.filter(|comment| comment.number == number).cloned().collect())
    }

    /// All pull requests, oldest first.
    pub fn pulls(&self, repo: &str) -> anyhow::Result<Vec<Pull>> {
        Ok(self.lock().repo_named(repo)?.pulls.values().cloned().collect())
    }

    /// The reviews of a pull request.
    pub fn reviews(&self, repo: &str, number: u64) -> anyhow::Result<Vec<Review>> {
        let state = self.lock();
        let reviews = state.repo_named(repo)?.reviews.values();
        Ok(reviews.filter(|review| review.number == number).cloned().collect())
    }

    /// The review comments of a pull request, oldest first.
    pub fn review_comments(&self, repo: &str, number: u64) -> anyhow::Result<Vec<ReviewComment>> {
        let state = self.lock();
        let comments = state.repo_named(repo)?.review_comments.values();
        Ok(comments.filter(|comment| comment.number == number).cloned().collect())
    }

    /// Where a branch points.
    pub fn branch(&self, repo: &str, branch: &str) -> anyhow::Result<Option<String>> {
        Ok(self.lock().repo_named(repo)?.branch(branch).cloned())
    }

    /// The names of all branches.
    pub fn branches(&self, repo: &str) -> anyhow::Result<Vec<String>> {
        let state = self.lock();
        let names = state.repo_named(repo)?.refs.keys();
        Ok(names
            .filter_map(|name| name.strip_prefix("refs/heads/"))
            .map(str::to_owned)
            .collect())
    }

    /// A file at a branch or commit.
    pub async fn file(&self, repo: &str, at: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        let bare = self.lock().repo_named(repo)?.path.clone();
        self.inner.git.show(&bare, at, path).await
    }

    /// The whole message of a branch's last commit.
    pub async fn message(&self, repo: &str, at: &str) -> anyhow::Result<String> {
        let bare = self.lock().repo_named(repo)?.path.clone();
        self.inner.git.message(&bare, at).await
    }

    /// What a branch changes beyond its common ancestor with another, as a unified diff.
    pub async fn diff(&self, repo: &str, base: &str, head: &str) -> anyhow::Result<String> {
        let bare = self.lock().repo_named(repo)?.path.clone();
        self.inner.git.diff(&bare, base, head).await
    }

    /// Subjects of the commits of a branch, newest first.
    pub async fn commits(&self, repo: &str, at: &str) -> anyhow::Result<Vec<String>> {
        let bare = self.lock().repo_named(repo)?.path.clone();
        self.inner.git.subjects(&bare, at).await
    }
}
