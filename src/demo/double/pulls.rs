//! Pull requests and reviews: their REST routes and how they change. Called by `routes` and
//! `people`. Never asks git: what a request needs to know of it was asked before.

use serde_json::{Value, json};

use super::answer::{Answer, Refused};
use super::bare::Comparison;
use super::changes::{NewIssue, check_body};
use super::issues::text;
use super::noun::{Edit, Pull, Repo, Review, ReviewComment};
use super::people::InlineComment;
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

/// A review to be submitted.
pub(super) struct NewReview<'a> {
    pub(super) number: u64,
    pub(super) who: u64,
    pub(super) state: &'a str,
    pub(super) body: &'a str,
    pub(super) comments: &'a [InlineComment],
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
            comparison: call.comparison.unwrap_or_default(),
        };
        let number = self.open_pull(repo_id, self.app.bot, &new)?;
        let repo = self.repo(repo_id)?;
        let pull = repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        Answer::created(self.shape_pull(repo, pull, Detail::Alone))
    }

    pub(super) fn open_pull(&mut self, repo_id: u64, who: u64, new: &NewPull<'_>) -> Result<u64, Refused> {
        let repo = self.repo(repo_id)?;
        let custom = |message: &str| Refused::invalid("PullRequest", "base", "custom", Some(message));
        if new.comparison.commits == 0 {
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
            comparison: new.comparison,
        };
        self.repo_mut(repo_id)?.pulls.insert(number, pull);
        self.emit_subject(repo_id, number, "opened", who, json!({}))?;
        Ok(number)
    }

    pub(super) fn patch_pull(&mut self, call: &Call, repo_id: u64, number: u64) -> Result<Answer, Refused> {
        if !self.repo(repo_id)?.pulls.contains_key(&number) {
            return Err(Refused::not_found());
        }
        self.patch_issue(call, repo_id, number)?;
        let repo = self.repo(repo_id)?;
        let pull = repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_pull(repo, pull, Detail::Alone))
    }

    pub(super) fn list_review_comments(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let comments = repo.review_comments.values();
        let comments = comments.filter(|comment| comment.number == number && call.shows(comment.created_at));
        call.page(comments.collect(), |comment| self.shape_review_comment(repo, comment))
    }

    pub(super) fn list_reviews(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let reviews = repo.reviews.values();
        let reviews = reviews.filter(|review| review.number == number && call.shows(review.submitted_at));
        call.page(reviews.collect(), |review| self.shape_review(repo, review))
    }

    pub(super) fn post_review(&mut self, call: &Call, repo_id: u64, number: u64) -> Result<Answer, Refused> {
        let state = match call.body["event"].as_str() {
            Some("APPROVE") => "APPROVED",
            Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
            Some("COMMENT") => "COMMENTED",
            _ => return Err(Refused::invalid("PullRequestReview", "event", "invalid", None)),
        };
        let comments = call.body["comments"].as_array().map(Vec::as_slice).unwrap_or_default();
        let comment = |value: &Value| InlineComment {
            path: value["path"].as_str().unwrap_or_default().to_owned(),
            line: value["line"].as_u64().unwrap_or(1),
            body: value["body"].as_str().unwrap_or_default().to_owned(),
        };
        let comments: Vec<InlineComment> = comments.iter().map(comment).collect();
        let review = NewReview {
            number,
            who: self.app.bot,
            state,
            body: call.body["body"].as_str().unwrap_or_default(),
            comments: &comments,
        };
        let id = self.submit_review(repo_id, &review)?;
        let repo = self.repo(repo_id)?;
        let review = repo.reviews.get(&id).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_review(repo, review))
    }

    /// One review event and one event for each inline comment, as GitHub sends them.
    pub(super) fn submit_review(&mut self, repo_id: u64, new: &NewReview<'_>) -> Result<u64, Refused> {
        check_body("PullRequestReview", new.body)?;
        let now = self.now();
        let pull = self
            .repo(repo_id)?
            .pulls
            .get(&new.number)
            .ok_or_else(Refused::not_found)?;
        let commit = pull.head_sha.clone();
        let id = self.fresh_id();
        let review = Review {
            id,
            number: new.number,
            author: new.who,
            body: new.body.to_owned(),
            state: new.state.to_owned(),
            commit,
            submitted_at: now,
        };
        self.repo_mut(repo_id)?.reviews.insert(id, review);
        let mut ids = Vec::new();
        for comment in new.comments {
            ids.push(self.insert_review_comment(repo_id, id, new.who, comment, None)?);
        }
        let repo = self.repo(repo_id)?;
        let mut shape = repo
            .reviews
            .get(&id)
            .map(|review| self.shape_review(repo, review))
            .unwrap_or_default();
        // Webhooks spell the state small.
        shape["state"] = new.state.to_lowercase().into();
        let pull = repo
            .pulls
            .get(&new.number)
            .map(|pull| self.shape_pull(repo, pull, Detail::Listed));
        let about = json!({ "review": shape, "pull_request": pull });
        self.emit(repo_id, "pull_request_review", Some("submitted"), new.who, about);
        for id in ids {
            self.emit_review_comment(repo_id, id, "created", new.who, json!({}))?;
        }
        Ok(id)
    }

    fn insert_review_comment(
        &mut self,
        repo_id: u64,
        review: u64,
        who: u64,
        inline: &InlineComment,
        in_reply_to: Option<u64>,
    ) -> Result<u64, Refused> {
        check_body("PullRequestReviewComment", &inline.body)?;
        let now = self.now();
        let id = self.fresh_id();
        let repo = self.repo_mut(repo_id)?;
        let review = repo.reviews.get(&review).ok_or_else(Refused::not_found)?;
        let comment = ReviewComment {
            id,
            number: review.number,
            review: review.id,
            author: who,
            body: inline.body.clone(),
            path: inline.path.clone(),
            line: Some(inline.line),
            original_line: inline.line,
            commit: review.commit.clone(),
            in_reply_to,
            created_at: now,
            updated_at: now,
            reactions: Vec::new(),
            edits: Vec::new(),
        };
        repo.review_comments.insert(id, comment);
        Ok(id)
    }

    fn emit_review_comment(
        &mut self,
        repo_id: u64,
        id: u64,
        action: &str,
        who: u64,
        mut about: Value,
    ) -> Result<(), Refused> {
        let repo = self.repo(repo_id)?;
        let comment = repo.review_comments.get(&id).ok_or_else(Refused::not_found)?;
        let pull = repo.pulls.get(&comment.number).ok_or_else(Refused::not_found)?;
        about["comment"] = self.shape_review_comment(repo, comment);
        about["pull_request"] = self.shape_pull(repo, pull, Detail::Listed);
        self.emit(repo_id, "pull_request_review_comment", Some(action), who, about);
        Ok(())
    }

    /// `POST /pulls/{n}/comments/{id}/replies`; only the first comment of a thread is replied to.
    pub(super) fn post_reply(&mut self, call: &Call, repo: u64, number: u64, to: u64) -> Result<Answer, Refused> {
        let body = text(call, "PullRequestReviewComment", "body")?;
        let id = self.reply(repo, number, to, self.app.bot, body)?;
        let repo = self.repo(repo)?;
        let comment = repo.review_comments.get(&id).ok_or_else(Refused::not_found)?;
        Answer::created(self.shape_review_comment(repo, comment))
    }

    pub(super) fn reply(&mut self, repo_id: u64, number: u64, to: u64, who: u64, body: &str) -> Result<u64, Refused> {
        let parent = self.repo(repo_id)?.review_comments.get(&to);
        let parent = parent
            .filter(|parent| parent.number == number)
            .ok_or_else(Refused::not_found)?;
        if parent.in_reply_to.is_some() {
            let message = "in_reply_to is not the first comment of its thread";
            return Err(Refused::invalid(
                "PullRequestReviewComment",
                "in_reply_to",
                "custom",
                Some(message),
            ));
        }
        let inline = InlineComment {
            path: parent.path.clone(),
            line: parent.original_line,
            body: body.to_owned(),
        };
        // A reply is a review of its own on GitHub.
        let review = Review {
            id: self.fresh_id(),
            number,
            author: who,
            body: String::new(),
            state: "COMMENTED".to_owned(),
            commit: self
                .repo(repo_id)?
                .pulls
                .get(&number)
                .ok_or_else(Refused::not_found)?
                .head_sha
                .clone(),
            submitted_at: self.now(),
        };
        let review_id = review.id;
        self.repo_mut(repo_id)?.reviews.insert(review_id, review);
        let id = self.insert_review_comment(repo_id, review_id, who, &inline, Some(to))?;
        self.emit_review_comment(repo_id, id, "created", who, json!({}))?;
        Ok(id)
    }

    pub(super) fn edit_review_comment(&mut self, repo: u64, id: u64, who: u64, body: &str) -> Result<(), Refused> {
        check_body("PullRequestReviewComment", body)?;
        let now = self.now();
        let found = self.repo_mut(repo)?.review_comments.get_mut(&id);
        let comment = found.ok_or_else(Refused::not_found)?;
        let from = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_at = now;
        let changes = json!({ "changes": { "body": { "from": from } } });
        comment.edits.push(Edit { at: now, by: who, from });
        self.emit_review_comment(repo, id, "edited", who, changes)
    }
}
