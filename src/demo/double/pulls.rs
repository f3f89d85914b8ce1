//! Pull requests: their REST routes and how they change. (Reviews are in `reviews`.) Called by
//! `routes` and `people`. Never asks git: what a request needs to know of it was asked before.

use serde_json::{Value, json};

use super::answer::{Answer, Refused};
use super::changes::NewIssue;
use super::diff::{ChangedFile, Comparison};
use super::issues::text;
use super::noun::{Pull, Repo};
use super::routes::Call;
use super::state::State;
use super::view::Detail;

/// The branch in `head`, which may be written `owner:branch`.
pub(super) fn head_branch<'a>(repo: &Repo, head: &'a str) -> Option<&'a str> {
    match head.split_once(':') {
        None => Some(head),
        Some((owner, branch)) => owner.eq_ignore_ascii_case(&repo.owner).then_some(branch),
    }
}

/// A pull request to be opened; its branches exist.
pub(super) struct NewPull<'a> {
    pub(super) title: &'a str,
    pub(super) body: Option<&'a str>,
    pub(super) head_repo: u64,
    pub(super) head: &'a str,
    pub(super) head_sha: String,
    pub(super) base: &'a str,
    pub(super) draft: bool,
    pub(super) comparison: Comparison,
}

impl State {
    pub(super) fn list_pulls(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let state = call.query("state").unwrap_or("open");
        // Without an owner the filter is ignored, as GitHub does.
        let head = call.query("head").and_then(|head| head.split_once(':'));
        let wanted = |pull: &&Pull| {
            let Some(issue) = repo.issues.get(&pull.number) else {
                return false;
            };
            let owner = self
                .repos
                .get(&pull.head_repo)
                .map(|repo| repo.owner.as_str())
                .unwrap_or_default();
            (state == "all" || issue.open == (state == "open"))
                && head.is_none_or(|(of, branch)| of.eq_ignore_ascii_case(owner) && branch == pull.head)
                && call.query("base").is_none_or(|base| base == pull.base)
                && call.shows(issue.created_at)
        };
        let mut pulls: Vec<&Pull> = repo.pulls.values().filter(wanted).collect();
        if call.query("direction") != Some("asc") {
            pulls.reverse();
        }
        call.page(pulls, |pull| self.shape_pull(repo, pull, Detail::Listed))
    }

    pub(super) fn post_pull(&mut self, call: &Call, repo_id: u64) -> Result<Answer, Refused> {
        let title = text(call, "PullRequest", "title")?;
        let (head, base) = (text(call, "PullRequest", "head")?, text(call, "PullRequest", "base")?);
        let repo = self.repo(repo_id)?;
        let invalid = |field| Refused::invalid("PullRequest", field, "invalid", None);
        let head = head_branch(repo, head).ok_or_else(|| invalid("head"))?;
        let head_sha = repo.branch(head).ok_or_else(|| invalid("head"))?.clone();
        repo.branch(base).ok_or_else(|| invalid("base"))?;
        let new = NewPull {
            title,
            body: call.body["body"].as_str(),
            head_repo: repo_id,
            head,
            head_sha,
            base,
            draft: call.body["draft"] == Value::Bool(true),
            comparison: call.comparison.clone().unwrap_or_default(),
        };
        let number = self.open_pull(repo_id, self.app.bot, &new)?;
        let repo = self.repo(repo_id)?;
        let pull = repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        Answer::created(self.shape_pull(repo, pull, Detail::Alone))
    }

    pub(super) fn open_pull(&mut self, repo_id: u64, who: u64, new: &NewPull<'_>) -> Result<u64, Refused> {
        let repo = self.repo(repo_id)?;
        let custom = |message: &str| Refused::invalid("PullRequest", "base", "custom", Some(message));
        if new.comparison.commits.is_empty() {
            return Err(custom(&format!("No commits between {} and {}", new.base, new.head)));
        }
        let twin = repo.pulls.values().find(|pull| {
            let open = repo.issues.get(&pull.number).is_some_and(|issue| issue.open);
            open && pull.head_repo == new.head_repo && pull.head == new.head && pull.base == new.base
        });
        if twin.is_some() {
            let owner = &self.repo(new.head_repo)?.owner;
            return Err(custom(&format!(
                "A pull request already exists for {owner}:{}.",
                new.head
            )));
        }
        let base_sha = repo.branch(new.base).ok_or_else(Refused::not_found)?.clone();
        let issue = NewIssue {
            title: new.title,
            body: new.body,
            labels: &[],
        };
        let number = self.insert_issue(repo_id, who, &issue)?;
        let pull = Pull {
            id: self.fresh_id(),
            number,
            head_repo: new.head_repo,
            head: new.head.to_owned(),
            head_sha: new.head_sha.clone(),
            base: new.base.to_owned(),
            base_sha,
            draft: new.draft,
            merged_at: None,
            merge_commit: None,
            mergeable: None,
            maintainer_can_modify: false,
            requested: Vec::new(),
            comparison: new.comparison.clone(),
        };
        self.repo_mut(repo_id)?.pulls.insert(number, pull);
        self.emit_subject(repo_id, number, "opened", who, json!({}))?;
        Ok(number)
    }

    pub(super) fn list_files(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let pull = repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let files: Vec<&ChangedFile> = pull.comparison.files.iter().collect();
        call.page(files, |file| self.shape_file(repo, pull, file))
    }

    /// Takes a pull request out of draft or makes it one again.
    pub(super) fn set_draft(&mut self, repo: u64, number: u64, who: u64, draft: bool) -> Result<(), Refused> {
        let pull = self
            .repo_mut(repo)?
            .pulls
            .get_mut(&number)
            .ok_or_else(Refused::not_found)?;
        if pull.draft == draft {
            return Ok(());
        }
        pull.draft = draft;
        let action = if draft {
            "converted_to_draft"
        } else {
            "ready_for_review"
        };
        self.emit_subject(repo, number, action, who, json!({}))
    }
}
