//! How the world changes, whoever asks for it: issues, labels, comments, reactions. Each change
//! queues the webhooks that GitHub would send. (Pull requests and reviews are in `pulls`.)
//! Called by REST routes and by `people`. Never checks permissions.

use serde_json::{Value, json};

use super::answer::Refused;
use super::issues::REACTIONS;
use super::noun::{Comment, Edit, Issue, Reaction, Repo};
use super::shape::time;
use super::state::State;
use super::view::Detail;

/// GitHub counts characters.
const MAX_BODY_CHARS: usize = 65_536;

/// GitHub's limit for titles.
const MAX_TITLE_CHARS: usize = 256;

/// Refuses texts that GitHub would refuse.
pub(super) fn check_body(resource: &str, body: &str) -> Result<(), Refused> {
    if body.chars().count() > MAX_BODY_CHARS {
        let message = format!("body is too long (maximum is {MAX_BODY_CHARS} characters)");
        return Err(Refused::invalid(resource, "body", "custom", Some(&message)));
    }
    Ok(())
}

pub(super) fn check_title(resource: &str, title: &str) -> Result<(), Refused> {
    if title.trim().is_empty() {
        return Err(Refused::invalid(resource, "title", "missing_field", None));
    }
    if title.chars().count() > MAX_TITLE_CHARS {
        let message = format!("title is too long (maximum is {MAX_TITLE_CHARS} characters)");
        return Err(Refused::invalid(resource, "title", "custom", Some(&message)));
    }
    Ok(())
}

/// A new issue, or the issue side of a new pull request.
pub(super) struct NewIssue<'a> {
    pub(super) title: &'a str,
    pub(super) body: Option<&'a str>,
    pub(super) labels: &'a [String],
}

/// What a reaction is put on.
pub(super) enum ReactionPlace {
    Issue(u64),
    Comment(u64),
    ReviewComment(u64),
}

impl State {
    pub(super) fn repo(&self, id: u64) -> Result<&Repo, Refused> {
        self.repos.get(&id).ok_or_else(Refused::not_found)
    }

    pub(super) fn repo_mut(&mut self, id: u64) -> Result<&mut Repo, Refused> {
        self.repos.get_mut(&id).ok_or_else(Refused::not_found)
    }

    pub(super) fn issue_mut(&mut self, repo: u64, number: u64) -> Result<&mut Issue, Refused> {
        self.repo_mut(repo)?
            .issues
            .get_mut(&number)
            .ok_or_else(Refused::not_found)
    }

    /// Adds the record without telling anybody.
    pub(super) fn insert_issue(&mut self, repo: u64, who: u64, new: &NewIssue<'_>) -> Result<u64, Refused> {
        check_title("Issue", new.title)?;
        check_body("Issue", new.body.unwrap_or_default())?;
        let now = self.now();
        let number = self.next_number(repo);
        let mut labels = Vec::new();
        for name in new.labels {
            labels.push(self.ensure_label(repo, name)?);
        }
        let issue = Issue {
            id: self.fresh_id(),
            number,
            title: new.title.to_owned(),
            body: new.body.map(str::to_owned),
            author: who,
            open: true,
            labels,
            milestone: None,
            created_at: now,
            updated_at: now,
            closed_at: None,
            reactions: Vec::new(),
            edits: Vec::new(),
        };
        self.repo_mut(repo)?.issues.insert(number, issue);
        Ok(number)
    }

    pub(super) fn open_issue(&mut self, repo: u64, who: u64, new: &NewIssue<'_>) -> Result<u64, Refused> {
        let number = self.insert_issue(repo, who, new)?;
        self.emit_subject(repo, number, "opened", who, json!({}))?;
        let labels = self.issue_mut(repo, number)?.labels.clone();
        for label in labels {
            let label = self.shape_label(self.repo(repo)?, &label);
            self.emit_subject(repo, number, "labeled", who, json!({ "label": label }))?;
        }
        Ok(number)
    }

    /// Tells about an issue, or about the pull request that it is.
    pub(super) fn emit_subject(
        &mut self,
        repo_id: u64,
        number: u64,
        action: &str,
        who: u64,
        mut about: Value,
    ) -> Result<(), Refused> {
        self.note_event(repo_id, number, action, who, &about);
        let repo = self.repo(repo_id)?;
        let event = match repo.pulls.get(&number) {
            Some(pull) => {
                about["number"] = number.into();
                about["pull_request"] = self.shape_pull(repo, pull, Detail::Alone);
                "pull_request"
            }
            None => {
                let issue = repo.issues.get(&number).ok_or_else(Refused::not_found)?;
                about["issue"] = self.shape_issue(repo, issue);
                "issues"
            }
        };
        self.emit(repo_id, event, Some(action), who, about);
        Ok(())
    }

    pub(super) fn edit_issue(
        &mut self,
        repo: u64,
        number: u64,
        who: u64,
        title: Option<&str>,
        body: Option<&str>,
    ) -> Result<(), Refused> {
        let now = self.now();
        let mut changes = json!({});
        if let Some(title) = title {
            check_title("Issue", title)?;
        }
        check_body("Issue", body.unwrap_or_default())?;
        let issue = self.issue_mut(repo, number)?;
        if let Some(title) = title.filter(|title| *title != issue.title) {
            changes["title"] = json!({ "from": issue.title });
            issue.title = title.to_owned();
        }
        if let Some(body) = body.filter(|body| Some(*body) != issue.body.as_deref()) {
            let from = issue.body.replace(body.to_owned()).unwrap_or_default();
            changes["body"] = json!({ "from": from });
            issue.edits.push(Edit { at: now, by: who, from });
        }
        issue.updated_at = now;
        if changes == json!({}) {
            return Ok(());
        }
        self.emit_subject(repo, number, "edited", who, json!({ "changes": changes }))
    }

    pub(super) fn set_open(&mut self, repo: u64, number: u64, who: u64, open: bool) -> Result<(), Refused> {
        let now = self.now();
        let issue = self.issue_mut(repo, number)?;
        if issue.open == open {
            return Ok(());
        }
        issue.open = open;
        issue.updated_at = now;
        issue.closed_at = (!open).then_some(now);
        let action = if open { "reopened" } else { "closed" };
        self.emit_subject(repo, number, action, who, json!({}))
    }

    /// The repository's spelling of a label, which is made when it is new.
    pub(super) fn ensure_label(&mut self, repo: u64, name: &str) -> Result<String, Refused> {
        if name.trim().is_empty() || name.chars().count() > 50 {
            return Err(Refused::invalid("Label", "name", "invalid", None));
        }
        if let Some(known) = self.repo(repo)?.label_named(name) {
            return Ok(known);
        }
        let id = self.fresh_id();
        self.repo_mut(repo)?.labels.insert(name.to_owned(), id);
        Ok(name.to_owned())
    }

    pub(super) fn add_label(&mut self, repo: u64, number: u64, who: u64, name: &str) -> Result<(), Refused> {
        let now = self.now();
        let name = self.ensure_label(repo, name)?;
        let issue = self.issue_mut(repo, number)?;
        if issue.labels.contains(&name) {
            return Ok(());
        }
        issue.labels.push(name.clone());
        issue.updated_at = now;
        let label = self.shape_label(self.repo(repo)?, &name);
        self.emit_subject(repo, number, "labeled", who, json!({ "label": label }))
    }

    pub(super) fn remove_label(&mut self, repo: u64, number: u64, who: u64, name: &str) -> Result<(), Refused> {
        let now = self.now();
        let issue = self.issue_mut(repo, number)?;
        let found = issue.labels.iter().position(|label| label.eq_ignore_ascii_case(name));
        let at = found.ok_or_else(|| Refused::new(404, "Label does not exist"))?;
        let name = issue.labels.remove(at);
        issue.updated_at = now;
        let label = self.shape_label(self.repo(repo)?, &name);
        self.emit_subject(repo, number, "unlabeled", who, json!({ "label": label }))
    }

    pub(super) fn add_comment(&mut self, repo_id: u64, number: u64, who: u64, body: &str) -> Result<u64, Refused> {
        check_comment(body)?;
        let now = self.now();
        self.issue_mut(repo_id, number)?.updated_at = now;
        let id = self.fresh_id();
        let comment = Comment {
            id,
            number,
            body: body.to_owned(),
            author: who,
            ours: who == self.app.bot,
            created_at: now,
            updated_at: now,
            reactions: Vec::new(),
            edits: Vec::new(),
        };
        self.repo_mut(repo_id)?.comments.insert(id, comment);
        self.emit_comment(repo_id, id, "created", who, json!({}))?;
        Ok(id)
    }

    fn emit_comment(&mut self, repo_id: u64, id: u64, action: &str, who: u64, mut about: Value) -> Result<(), Refused> {
        let repo = self.repo(repo_id)?;
        let comment = repo.comments.get(&id).ok_or_else(Refused::not_found)?;
        let issue = repo.issues.get(&comment.number).ok_or_else(Refused::not_found)?;
        about["issue"] = self.shape_issue(repo, issue);
        about["comment"] = self.shape_comment(repo, comment);
        self.emit(repo_id, "issue_comment", Some(action), who, about);
        Ok(())
    }

    pub(super) fn edit_comment(&mut self, repo: u64, id: u64, who: u64, body: &str) -> Result<(), Refused> {
        check_comment(body)?;
        let now = self.now();
        let found = self.repo_mut(repo)?.comments.get_mut(&id);
        let comment = found.ok_or_else(Refused::not_found)?;
        let from = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_at = now;
        let changes = json!({ "changes": { "body": { "from": from } } });
        comment.edits.push(Edit { at: now, by: who, from });
        self.emit_comment(repo, id, "edited", who, changes)
    }

    pub(super) fn delete_comment(&mut self, repo: u64, id: u64, who: u64) -> Result<(), Refused> {
        self.emit_comment(repo, id, "deleted", who, json!({}))?;
        self.repo_mut(repo)?.comments.remove(&id);
        Ok(())
    }

    /// Puts a reaction; one that is there already is given back with `false`.
    pub(super) fn react(
        &mut self,
        repo: u64,
        place: &ReactionPlace,
        who: u64,
        content: &str,
    ) -> Result<(Reaction, bool), Refused> {
        if !REACTIONS.contains(&content) {
            return Err(Refused::invalid("Reaction", "content", "invalid", None));
        }
        let by = self.accounts.get(&who).map(|account| account.login.clone());
        let fresh = Reaction {
            id: self.fresh_id(),
            by: by.ok_or_else(Refused::not_found)?,
            content: content.to_owned(),
            at: self.now(),
        };
        let repo = self.repo_mut(repo)?;
        let reactions = match place {
            ReactionPlace::Issue(number) => repo.issues.get_mut(number).map(|issue| &mut issue.reactions),
            ReactionPlace::Comment(id) => repo.comments.get_mut(id).map(|comment| &mut comment.reactions),
            ReactionPlace::ReviewComment(id) => repo.review_comments.get_mut(id).map(|comment| &mut comment.reactions),
        };
        let reactions = reactions.ok_or_else(Refused::not_found)?;
        if let Some(known) = reactions
            .iter()
            .find(|known| known.by == fresh.by && known.content == content)
        {
            return Ok((known.clone(), false));
        }
        reactions.push(fresh.clone());
        Ok((fresh, true))
    }

    /// A `push` event for a moved branch.
    pub(super) fn emit_push(&mut self, repo_id: u64, full_ref: &str, old: Option<&str>, new: Option<&str>, who: u64) {
        const NOTHING: &str = "0000000000000000000000000000000000000000";
        let pusher = self.shape_account(who)["login"].clone();
        let head_commit = new.map(|sha| self.shape_pushed_commit(repo_id, sha, &pusher));
        let about = json!({
            "ref": full_ref,
            "before": old.unwrap_or(NOTHING),
            "after": new.unwrap_or(NOTHING),
            "created": old.is_none(),
            "deleted": new.is_none(),
            "forced": false,
            "base_ref": null,
            "compare": format!("{}/compare", self.origin),
            "commits": [],
            "head_commit": head_commit,
            "pusher": { "name": pusher, "email": null },
        });
        self.emit(repo_id, "push", None, who, about);
    }

    /// Only the id of a commit is known here; what git knows of it is fetched from git.
    fn shape_pushed_commit(&self, repo: u64, sha: &str, pusher: &Value) -> Value {
        let name = self.repos.get(&repo).map(Repo::full_name).unwrap_or_default();
        let person = json!({ "name": pusher, "email": null, "username": pusher });
        json!({
            "id": sha,
            "tree_id": sha,
            "distinct": true,
            "message": "",
            "timestamp": time(self.now()),
            "url": format!("{}/{name}/commit/{sha}", self.origin),
            "author": person,
            "committer": person,
            "added": [],
            "removed": [],
            "modified": [],
        })
    }
}

fn check_comment(body: &str) -> Result<(), Refused> {
    if body.trim().is_empty() {
        let message = "body can't be blank";
        return Err(Refused::invalid("IssueComment", "body", "custom", Some(message)));
    }
    check_body("IssueComment", body)
}
