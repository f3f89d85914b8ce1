//! Branches: what a push changed, which pull requests follow it, and the questions about git that
//! a request asks. Called after every push and by `routes`.
//! Never lets an older picture of the refs replace a newer one: readers take turns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::diff::{ChangedFile, Comparison, DiffSide, line_after};
use super::noun::ReviewComment;
use super::routes::Call;
use super::shape::node_id;
use super::state::State;

/// An open pull request whose head moved.
struct Follower {
    base_repo: u64,
    base_path: PathBuf,
    number: u64,
    base_sha: String,
    head: String,
    old_sha: String,
    head_sha: Option<String>,
}

/// What a push means for a pull request.
#[derive(Default)]
struct Moved {
    comparison: Comparison,
    /// What was pushed, without context.
    pushed: Vec<ChangedFile>,
}

impl State {
    /// `GET /git/ref/{ref}`.
    pub(super) fn get_ref(&self, repo: u64, name: &str) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        if repo.refs.is_empty() {
            return Err(Refused::new(409, "Git Repository is empty."));
        }
        let full = format!("refs/{name}");
        let sha = repo.refs.get(&full).ok_or_else(Refused::not_found)?;
        let api = format!("{}/repos/{}/git", self.api(), repo.full_name());
        Answer::ok(json!({
            "ref": full,
            "node_id": node_id("Ref", repo.id),
            "url": format!("{api}/{full}"),
            "object": { "type": "commit", "sha": sha, "url": format!("{api}/commits/{sha}") },
        }))
    }

    /// Open pull requests, of any repository, whose head is a branch of `repo` that is now
    /// somewhere else than they think.
    fn followers(&self, repo: u64, refs: &BTreeMap<String, String>) -> Vec<Follower> {
        let mut followers = Vec::new();
        for base in self.repos.values() {
            for pull in base.pulls.values().filter(|pull| pull.head_repo == repo) {
                let head_sha = refs.get(&format!("refs/heads/{}", pull.head)).cloned();
                let open = base.issues.get(&pull.number).is_some_and(|issue| issue.open);
                if open && head_sha.as_deref() != Some(&pull.head_sha) {
                    followers.push(Follower {
                        base_repo: base.id,
                        base_path: base.path.clone(),
                        number: pull.number,
                        base_sha: pull.base_sha.clone(),
                        head: pull.head.clone(),
                        old_sha: pull.head_sha.clone(),
                        head_sha,
                    });
                }
            }
        }
        followers
    }
}

impl GitHubDouble {
    /// Takes over what a push changed on disk and tells about it.
    pub(super) async fn refresh_refs(&self, repo: u64, who: u64) -> anyhow::Result<()> {
        let _turn = self.inner.refs_turn.lock().await;
        let path = self.path_of(repo)?;
        let refs = self.inner.git.refs(&path).await?;
        let followers = self.lock().followers(repo, &refs);
        let mut moved = Vec::new();
        for follower in followers {
            let change = self.follow(&path, &follower).await?;
            moved.push((follower, change));
        }
        self.change(|state| {
            let old = match state.repos.get_mut(&repo) {
                Some(repo) => {
                    repo.seen.extend(refs.values().cloned());
                    std::mem::replace(&mut repo.refs, refs.clone())
                }
                None => return Ok(()),
            };
            for name in old.keys().chain(refs.keys().filter(|name| !old.contains_key(*name))) {
                let (before, after) = (old.get(name).map(String::as_str), refs.get(name).map(String::as_str));
                if before != after {
                    state.emit_push(repo, name, before, after, who);
                }
            }
            for (follower, change) in moved {
                move_pull(state, &follower, change, who)?;
            }
            Ok(())
        })
        .map_err(|refused: Refused| anyhow::anyhow!("after a push: {refused}"))
    }

    /// Lets `refs/pull/N/head` follow.
    async fn follow(&self, head_path: &std::path::Path, follower: &Follower) -> anyhow::Result<Moved> {
        let Some(sha) = &follower.head_sha else {
            return Ok(Moved::default());
        };
        let git = &self.inner.git;
        if follower.base_path != head_path {
            git.fetch(&follower.base_path, head_path, &format!("refs/heads/{}", follower.head))
                .await?;
        }
        let name = format!("refs/pull/{}/head", follower.number);
        git.update_ref(&follower.base_path, &name, sha).await?;
        Ok(Moved {
            comparison: git.compare(&follower.base_path, &follower.base_sha, sha).await?,
            pushed: git.pushed(&follower.base_path, &follower.old_sha, sha).await?,
        })
    }

    pub(super) fn path_of(&self, repo: u64) -> anyhow::Result<PathBuf> {
        let state = self.lock();
        let repo = state.repos.get(&repo).context("the repository is gone")?;
        Ok(repo.path.clone())
    }

    /// Makes `refs/pull/N/head` of a pull request that was just opened over REST.
    pub(super) async fn publish_pull_ref(&self, call: &Call, answer: &Answer) -> anyhow::Result<()> {
        let (201, Some(_)) = (answer.status, &call.comparison) else {
            return Ok(());
        };
        let (number, head) = (&answer.body["number"], &answer.body["head"]);
        let repo = head["repo"]["id"]
            .as_u64()
            .context("a pull request without a repository")?;
        let sha = head["sha"].as_str().context("a pull request without a commit")?;
        let path = self.path_of(repo)?;
        self.inner
            .git
            .update_ref(&path, &format!("refs/pull/{number}/head"), sha)
            .await
    }

    /// How the branches of a pull request to be opened differ, where both exist.
    pub(super) async fn compare_for(&self, call: &Call) -> anyhow::Result<Option<Comparison>> {
        let parts: Vec<&str> = call.path.split('/').skip(1).collect();
        let ("POST", ["repos", owner, name, "pulls"]) = (call.method.as_str(), parts.as_slice()) else {
            return Ok(None);
        };
        let found = {
            let state = self.lock();
            let repo = state
                .find_repo(&format!("{owner}/{name}"))
                .and_then(|id| state.repos.get(&id));
            repo.and_then(|repo| {
                let head = super::pulls::head_branch(repo, call.body["head"].as_str()?)?;
                let base = call.body["base"].as_str()?;
                Some((
                    repo.path.clone(),
                    repo.branch(base)?.clone(),
                    repo.branch(head)?.clone(),
                ))
            })
        };
        match found {
            Some((path, base, head)) => self.inner.git.compare(&path, &base, &head).await.map(Some),
            None => Ok(None),
        }
    }
}

/// A moved head is a new commit of the pull request; a deleted one closes it.
/// Comments on lines go with their lines, or are outdated where those have changed.
fn move_pull(state: &mut State, follower: &Follower, change: Moved, who: u64) -> Result<(), Refused> {
    let Some(sha) = &follower.head_sha else {
        return state.set_open(follower.base_repo, follower.number, who, false);
    };
    let now = state.now();
    let repo = state.repo_mut(follower.base_repo)?;
    let pull = repo.pulls.get_mut(&follower.number).ok_or_else(Refused::not_found)?;
    let before = std::mem::replace(&mut pull.head_sha, sha.clone());
    pull.comparison = change.comparison;
    pull.mergeable = None;
    let on_it = |comment: &&mut ReviewComment| comment.number == follower.number;
    for comment in repo.review_comments.values_mut().filter(on_it) {
        let Some(line) = comment.line else { continue };
        let now = match comment.side {
            DiffSide::Right => line_after(&change.pushed, &comment.path, line),
            DiffSide::Left => Some(line),
        };
        let file = pull.comparison.file(&comment.path);
        let shown = |line: &u64| file.is_some_and(|file| file.hunk_down_to(comment.side, *line).is_some());
        comment.line = now.filter(shown);
    }
    if let Some(issue) = repo.issues.get_mut(&follower.number) {
        issue.updated_at = now;
    }
    let about = json!({ "before": before, "after": sha });
    state.emit_subject(follower.base_repo, follower.number, "synchronize", who, about)
}
