//! The REST routes of issues, comments, labels, reactions and of people's permissions.
//! Called by `routes` with a repository that the caller may touch. Never changes a record itself.

use serde_json::{Value, json};

use super::answer::{Answer, Refused};
use super::changes::{NewIssue, ReactionPlace};
use super::noun::{Comment, Issue, Repo};
use super::routes::Call;
use super::state::State;

/// GitHub's eight.
pub(super) const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"];

/// A text field of a request.
pub(super) fn text<'a>(call: &'a Call, resource: &str, field: &str) -> Result<&'a str, Refused> {
    let missing = || Refused::invalid(resource, field, "missing_field", None);
    call.body[field].as_str().ok_or_else(missing)
}

impl State {
    pub(super) fn get_issue(&self, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let issue = repo.issues.get(&number).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_issue(repo, issue))
    }

    pub(super) fn list_issues(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let state = call.query("state").unwrap_or("open");
        let labels: Vec<&str> = call
            .query("labels")
            .map(|list| list.split(',').collect())
            .unwrap_or_default();
        let since = call.since()?;
        let milestone = call.query("milestone");
        let is_milestone = |text: &str| matches!(text, "*" | "none") || text.parse::<u64>().is_ok();
        if milestone.is_some_and(|text| !is_milestone(text)) {
            return Err(Refused::invalid("Issue", "milestone", "invalid", None));
        }
        let milestoned = |issue: &Issue| match milestone {
            None => true,
            Some("*") => issue.milestone.is_some(),
            Some("none") => issue.milestone.is_none(),
            Some(number) => issue.milestone.is_some_and(|of| of.to_string() == number),
        };
        let wanted = |issue: &&Issue| {
            let labelled = |name: &&str| issue.labels.iter().any(|label| label.eq_ignore_ascii_case(name));
            (state == "all" || issue.open == (state == "open"))
                && labels.iter().all(labelled)
                && since.is_none_or(|since| issue.updated_at >= since)
                && milestoned(issue)
                && call.shows(issue.created_at)
        };
        // Newest first is GitHub's default here, unlike for comments.
        let mut issues: Vec<&Issue> = repo.issues.values().filter(wanted).collect();
        if call.query("sort") == Some("updated") {
            issues.sort_by_key(|issue| issue.updated_at);
        }
        if call.query("direction") != Some("asc") {
            issues.reverse();
        }
        call.page(issues, |issue| self.shape_issue(repo, issue))
    }

    pub(super) fn post_issue(&mut self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let labels: Vec<String> = names(&call.body["labels"]);
        let new = NewIssue {
            title: text(call, "Issue", "title")?,
            body: call.body["body"].as_str(),
            labels: &labels,
        };
        let number = self.open_issue(repo, self.app.bot, &new)?;
        let mut answer = self.get_issue(repo, number)?;
        answer.status = 201;
        Ok(answer)
    }

    pub(super) fn patch_issue(&mut self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let who = self.app.bot;
        let (title, body) = (call.body["title"].as_str(), call.body["body"].as_str());
        self.edit_issue(repo, number, who, title, body)?;
        match call.body["state"].as_str() {
            Some("open") => self.set_open(repo, number, who, true)?,
            Some("closed") => self.set_open(repo, number, who, false)?,
            Some(_) => return Err(Refused::invalid("Issue", "state", "invalid", None)),
            None => {}
        }
        self.get_issue(repo, number)
    }

    pub(super) fn list_comments(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        repo.issues.get(&number).ok_or_else(Refused::not_found)?;
        let since = call.since()?;
        let comments = repo.comments.values().filter(|comment| {
            comment.number == number
                && since.is_none_or(|since| comment.updated_at >= since)
                && call.shows(comment.created_at)
        });
        call.page(comments.collect(), |comment| self.shape_comment(repo, comment))
    }

    /// The comments of the whole repository.
    pub(super) fn list_all_comments(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let since = call.since()?;
        let wanted = |comment: &&Comment| {
            since.is_none_or(|since| comment.updated_at >= since) && call.shows(comment.created_at)
        };
        let mut comments: Vec<&Comment> = repo.comments.values().filter(wanted).collect();
        if call.query("sort") == Some("updated") {
            comments.sort_by_key(|comment| comment.updated_at);
            if call.query("direction") != Some("asc") {
                comments.reverse();
            }
        }
        call.page(comments, |comment| self.shape_comment(repo, comment))
    }

    pub(super) fn get_comment(&self, repo: u64, id: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let comment = repo.comments.get(&id).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_comment(repo, comment))
    }

    pub(super) fn post_comment(&mut self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let body = text(call, "IssueComment", "body")?;
        let id = self.add_comment(repo, number, self.app.bot, body)?;
        let mut answer = self.get_comment(repo, id)?;
        answer.status = 201;
        Ok(answer)
    }

    pub(super) fn patch_comment(&mut self, call: &Call, repo: u64, id: u64) -> Result<Answer, Refused> {
        self.edit_comment(repo, id, self.app.bot, text(call, "IssueComment", "body")?)?;
        self.get_comment(repo, id)
    }

    pub(super) fn list_labels(&self, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let issue = repo.issues.get(&number).ok_or_else(Refused::not_found)?;
        let labels = issue.labels.iter().map(|name| self.shape_label(repo, name));
        Answer::ok(labels.collect())
    }

    pub(super) fn list_repo_labels(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo: &Repo = self.repo(repo)?;
        call.page(repo.labels.keys().collect(), |name| self.shape_label(repo, name))
    }

    pub(super) fn post_labels(&mut self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        // GitHub takes an object with `labels` or a bare list.
        let list = if call.body.is_array() {
            &call.body
        } else {
            &call.body["labels"]
        };
        for name in names(list) {
            self.add_label(repo, number, self.app.bot, &name)?;
        }
        self.list_labels(repo, number)
    }

    pub(super) fn delete_label(&mut self, repo: u64, number: u64, name: &str) -> Result<Answer, Refused> {
        self.remove_label(repo, number, self.app.bot, name)?;
        self.list_labels(repo, number)
    }

    pub(super) fn post_reaction(&mut self, call: &Call, repo: u64, place: &ReactionPlace) -> Result<Answer, Refused> {
        let content = text(call, "Reaction", "content")?;
        let (reaction, fresh) = self.react(repo, place, self.app.bot, content)?;
        Ok(Answer::new(
            if fresh { 201 } else { 200 },
            self.shape_reaction(&reaction),
        ))
    }

    pub(super) fn list_reactions(&self, call: &Call, repo: u64, place: &ReactionPlace) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let reactions = match place {
            ReactionPlace::Issue(number) => repo.issues.get(number).map(|issue| &issue.reactions),
            ReactionPlace::Comment(id) => repo.comments.get(id).map(|comment| &comment.reactions),
            ReactionPlace::ReviewComment(id) => repo.review_comments.get(id).map(|comment| &comment.reactions),
        };
        let reactions = reactions.ok_or_else(Refused::not_found)?;
        call.page(reactions.iter().collect(), |reaction| self.shape_reaction(reaction))
    }

    /// `GET /collaborators/{login}/permission`. On a public repository everybody may read.
    pub(super) fn get_permission(&self, repo: u64, login: &str) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let account = self.account_named(login).ok_or_else(Refused::not_found)?;
        if account.app.is_some() {
            return Err(Refused::new(404, &format!("{} is not a user", account.login)));
        }
        let role = repo.roles.get(&account.id).map(String::as_str);
        let role = role.unwrap_or(if repo.private { "none" } else { "read" });
        let coarse = match role {
            "admin" => "admin",
            "maintain" | "write" => "write",
            "none" => "none",
            _ => "read",
        };
        let mut user = self.shape_account(account.id);
        user["role_name"] = role.into();
        user["permissions"] = json!({
            "admin": role == "admin",
            "maintain": matches!(role, "admin" | "maintain"),
            "push": matches!(role, "admin" | "maintain" | "write"),
            "triage": matches!(role, "admin" | "maintain" | "write" | "triage"),
            "pull": role != "none",
        });
        Answer::ok(json!({ "permission": coarse, "role_name": role, "user": user }))
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |item: &Value| item.as_str().or_else(|| item["name"].as_str()).map(str::to_owned);
    items.iter().filter_map(name).collect()
}
