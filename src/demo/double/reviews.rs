//! Reviews and the comments of their threads: their REST routes and how they change, and who is
//! asked to review. Called by `routes` and `people`. Never takes a line from the App that is not
//! in the diff.

use serde_json::{Value, json};

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::changes::check_body;
use super::diff::DiffSide;
use super::issues::text;
use super::noun::{Edit, Pull, Review, ReviewComment};
use super::people::InlineComment;
use super::routes::Call;
use super::state::State;
use super::view::Detail;

/// A comment of a review to be submitted.
pub(super) struct Inline {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) start_line: Option<u64>,
    pub(super) side: DiffSide,
    pub(super) body: String,
    pub(super) in_reply_to: Option<u64>,
    pub(super) is_outdated: bool,
}

impl From<&InlineComment> for Inline {
    fn from(comment: &InlineComment) -> Self {
        Self {
            path: comment.path.clone(),
            line: comment.line,
            start_line: None,
            side: DiffSide::Right,
            body: comment.body.clone(),
            in_reply_to: None,
            is_outdated: false,
        }
    }
}

/// A comment of a review that is more than one on a line of the new file.
#[derive(Debug, Clone)]
pub enum PartOfReview {
    /// On a line of the new file.
    OnLine(InlineComment),
    /// On a line that a push changed while the review was being written.
    Outdated(InlineComment),
    /// On a line of the old file, for example of one that is deleted.
    OnOldLine(InlineComment),
    /// A reply in a thread that is there already, by its first comment.
    Reply {
        /// That comment.
        to: u64,
        /// Text.
        body: String,
    },
}

impl PartOfReview {
    fn inline(&self, repo: &super::noun::Repo) -> Option<Inline> {
        Some(match self {
            PartOfReview::OnLine(comment) => comment.into(),
            PartOfReview::Outdated(comment) => Inline {
                is_outdated: true,
                ..comment.into()
            },
            PartOfReview::OnOldLine(comment) => Inline {
                side: DiffSide::Left,
                ..comment.into()
            },
            PartOfReview::Reply { to, body } => {
                let root = repo.review_comments.get(to)?;
                Inline {
                    path: root.path.clone(),
                    line: root.original_line,
                    start_line: root.start_line,
                    side: root.side,
                    body: body.clone(),
                    in_reply_to: Some(*to),
                    is_outdated: root.line.is_none(),
                }
            }
        })
    }
}

/// A review to be submitted.
pub(super) struct NewReview<'a> {
    pub(super) number: u64,
    pub(super) who: u64,
    pub(super) state: &'a str,
    pub(super) body: &'a str,
    pub(super) comments: &'a [Inline],
}

impl State {
    pub(super) fn list_review_comments(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let comments = repo.review_comments.values();
        let comments = comments.filter(|comment| comment.number == number && call.shows(comment.created_at));
        call.page(comments.collect(), |comment| self.shape_review_comment(repo, comment))
    }

    /// The comments on lines of the whole repository.
    pub(super) fn list_all_review_comments(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let since = call.since()?;
        let comments = repo
            .review_comments
            .values()
            .filter(|comment| since.is_none_or(|since| comment.updated_at >= since) && call.shows(comment.created_at));
        let mut comments: Vec<_> = comments.collect();
        if call.query("sort") == Some("updated") {
            comments.sort_by_key(|comment| comment.updated_at);
            if call.query("direction") != Some("asc") {
                comments.reverse();
            }
        }
        call.page(comments, |comment| self.shape_review_comment(repo, comment))
    }

    pub(super) fn get_review_comment(&self, repo: u64, id: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let comment = repo.review_comments.get(&id).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_review_comment(repo, comment))
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
        let pull = self.repo(repo_id)?.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let author = self.repo(repo_id)?.issues.get(&number).map(|issue| issue.author);
        if state != "COMMENTED" && author == Some(self.app.bot) {
            let words = "Can not approve or request changes on your own pull request";
            return Err(Refused::unprocessable(words));
        }
        if let Some(commit) = call.body["commit_id"].as_str()
            && commit != pull.head_sha
            && !pull.comparison.commits.iter().any(|known| known == commit)
        {
            return Err(Refused::unprocessable("The commit is not part of the pull request"));
        }
        let comments = call.body["comments"].as_array().map(Vec::as_slice).unwrap_or_default();
        let comments: Vec<Inline> = comments
            .iter()
            .map(|comment| in_diff(pull, comment))
            .collect::<Result<_, _>>()?;
        let blank = call.body["body"].as_str().unwrap_or_default().trim().is_empty();
        if blank && comments.is_empty() {
            return Err(Refused::unprocessable("Review body can't be blank"));
        }
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
        self.issue_mut(repo_id, new.number)?.updated_at = now;
        if let Some(pull) = self.repo_mut(repo_id)?.pulls.get_mut(&new.number) {
            pull.requested.retain(|asked| *asked != new.who); // they have answered
        }
        let mut ids = Vec::new();
        for comment in new.comments {
            ids.push(self.insert_review_comment(repo_id, id, new.who, comment)?);
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

    fn insert_review_comment(&mut self, repo_id: u64, review: u64, who: u64, inline: &Inline) -> Result<u64, Refused> {
        let in_reply_to = inline.in_reply_to;
        check_body("PullRequestReviewComment", &inline.body)?;
        let now = self.now();
        let id = self.fresh_id();
        let repo = self.repo_mut(repo_id)?;
        let review = repo.reviews.get(&review).ok_or_else(Refused::not_found)?;
        let file = repo
            .pulls
            .get(&review.number)
            .and_then(|pull| pull.comparison.file(&inline.path));
        let hunk = file.and_then(|file| file.hunk_down_to(inline.side, inline.line));
        let parent = in_reply_to.and_then(|parent| repo.review_comments.get(&parent));
        let comment = ReviewComment {
            id,
            number: review.number,
            review: review.id,
            author: who,
            body: inline.body.clone(),
            path: inline.path.clone(),
            line: parent.map_or((!inline.is_outdated).then_some(inline.line), |parent| parent.line),
            start_line: inline.start_line,
            original_line: inline.line,
            side: inline.side,
            hunk: match parent {
                Some(parent) => parent.hunk.clone(),
                None => hunk.unwrap_or_else(|| format!("@@ -{line} +{line} @@", line = inline.line)),
            },
            commit: review.commit.clone(),
            in_reply_to,
            created_at: now,
            updated_at: now,
            reactions: Vec::new(),
            edits: Vec::new(),
        };
        let number = comment.number;
        repo.review_comments.insert(id, comment);
        self.issue_mut(repo_id, number)?.updated_at = now;
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
        let inline = Inline {
            path: parent.path.clone(),
            line: parent.original_line,
            start_line: parent.start_line,
            side: parent.side,
            body: body.to_owned(),
            in_reply_to: Some(to),
            is_outdated: parent.line.is_none(),
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
        let id = self.insert_review_comment(repo_id, review_id, who, &inline)?;
        self.emit_review_comment(repo_id, id, "created", who, json!({}))?;
        Ok(id)
    }

    /// `PUT /pulls/{n}/reviews/{id}`: the App changes the text of its own review.
    pub(super) fn put_review(&mut self, call: &Call, repo: u64, number: u64, id: u64) -> Result<Answer, Refused> {
        let (body, bot) = (text(call, "PullRequestReview", "body")?.to_owned(), self.app.bot);
        check_body("PullRequestReview", &body)?;
        let found = self.repo_mut(repo)?.reviews.get_mut(&id);
        let review = found
            .filter(|review| review.number == number)
            .ok_or_else(Refused::not_found)?;
        if review.author != bot {
            return Err(Refused::new(403, "Resource not accessible by integration"));
        }
        review.body = body;
        let repo = self.repo(repo)?;
        let review = repo.reviews.get(&id).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_review(repo, review))
    }

    /// `DELETE /pulls/comments/{id}`.
    pub(super) fn delete_own_review_comment(&mut self, repo: u64, id: u64) -> Result<Answer, Refused> {
        let gone = self.repo_mut(repo)?.review_comments.remove(&id);
        gone.map_or_else(|| Err(Refused::not_found()), |_| Answer::no_content())
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

/// A comment of a request, on lines that the diff shows.
fn in_diff(pull: &Pull, comment: &Value) -> Result<Inline, Refused> {
    let words = |name: &str| comment[name].as_str().unwrap_or_default();
    let (path, line) = (words("path"), comment["line"].as_u64().unwrap_or(0));
    let side = if words("side") == "LEFT" {
        DiffSide::Left
    } else {
        DiffSide::Right
    };
    let file = pull.comparison.file(path);
    let file = file.ok_or_else(|| Refused::unprocessable("Path could not be resolved"))?;
    if file.hunk_down_to(side, line).is_none() {
        return Err(Refused::unprocessable("Line could not be resolved"));
    }
    let start_line = comment["start_line"].as_u64();
    if start_line.is_some_and(|start| !file.is_range(side, start, line)) {
        return Err(Refused::unprocessable(
            "Start line must be part of the same hunk as the line.",
        ));
    }
    if words("body").trim().is_empty() {
        return Err(Refused::unprocessable("Body can't be blank"));
    }
    Ok(Inline {
        path: path.to_owned(),
        line,
        start_line,
        side,
        body: words("body").to_owned(),
        in_reply_to: None,
        is_outdated: false,
    })
}

/// Who is asked to review.
impl State {
    pub(super) fn post_requested_reviewers(
        &mut self,
        call: &Call,
        repo_id: u64,
        number: u64,
    ) -> Result<Answer, Refused> {
        let logins = call.body["reviewers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let repo = self.repo(repo_id)?;
        let author = repo.issues.get(&number).map(|issue| issue.author);
        repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        let mut asked = Vec::new();
        for login in logins {
            let account = self.account_named(login.as_str().unwrap_or_default());
            let account = account.filter(|account| repo.roles.contains_key(&account.id));
            let Some(account) = account else {
                return Err(Refused::new(
                    422,
                    &format!(
                        "Reviews may only be requested from collaborators. One or more of the users or teams you \
                         specified is not a collaborator of the {} repository.",
                        repo.full_name()
                    ),
                ));
            };
            if Some(account.id) == author {
                return Err(Refused::new(
                    422,
                    "Review cannot be requested from pull request author.",
                ));
            }
            asked.push(account.id);
        }
        for id in asked {
            let pull = self
                .repo_mut(repo_id)?
                .pulls
                .get_mut(&number)
                .ok_or_else(Refused::not_found)?;
            if !pull.requested.contains(&id) {
                pull.requested.push(id);
                let about = json!({ "requested_reviewer": self.shape_account(id) });
                self.emit_subject(repo_id, number, "review_requested", self.app.bot, about)?;
            }
        }
        let repo = self.repo(repo_id)?;
        let pull = repo.pulls.get(&number).ok_or_else(Refused::not_found)?;
        Answer::created(self.shape_pull(repo, pull, Detail::Listed))
    }
}

impl GitHubDouble {
    /// Submits a review of comments of every kind and gives its id.
    pub fn submit_review_of(
        &self,
        repo: &str,
        number: u64,
        (state, body): (&str, &str),
        parts: &[PartOfReview],
        by: &str,
    ) -> anyhow::Result<u64> {
        self.act(repo, by, |world, repo, who| {
            let known = world.repo(repo)?;
            let comments: Option<Vec<Inline>> = parts.iter().map(|part| part.inline(known)).collect();
            let comments = comments.ok_or_else(Refused::not_found)?;
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

    /// Somebody deletes a review comment; what answered it stays.
    pub fn delete_review_comment(&self, repo: &str, id: u64) -> anyhow::Result<()> {
        let mut state = self.lock();
        let gone = state.repo_named_mut(repo)?.review_comments.remove(&id);
        anyhow::ensure!(gone.is_some(), "no such review comment");
        Ok(())
    }

    /// Logins of those whose review of a pull request is asked for and not given yet.
    pub fn requested_reviewers(&self, repo: &str, number: u64) -> anyhow::Result<Vec<String>> {
        let state = self.lock();
        let pull = state.repo_named(repo)?.pulls.get(&number);
        let asked = pull.map(|pull| pull.requested.as_slice()).unwrap_or_default();
        let login = |id: &u64| state.accounts.get(id).map(|account| account.login.clone());
        Ok(asked.iter().filter_map(login).collect())
    }
}
