//! Issues, their comments, labels and reactions, and who may do what in a repository. A pull
//! request's conversation is an issue's too. Called by `run` and `publish`.
//! Never decides what a permission allows.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::json;

use crate::effect::ReactionTarget;
use crate::ids::{AppId, CommentId, IssueNumber};

use super::client::Call;
use super::error::GitHubError;
use super::{Account, Collaborator, Comment, Issue, Label, Permission, RepoClient, Repository};

/// An issue to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    /// Title.
    pub title: String,
    /// Body.
    pub body: String,
    /// Labels. GitHub makes those that the repository does not have, so pass only known ones.
    pub labels: Vec<String>,
}

impl RepoClient {
    /// The path below `/repos/{owner}/{repo}`.
    pub(super) fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec!["repos", self.name.owner(), self.name.name()];
        path.extend(rest);
        path
    }

    /// `GET /repos/{owner}/{repo}`; follows a rename, so compare the id.
    pub async fn repository(&self) -> Result<Repository, GitHubError> {
        let call = Call::get(&self.path(&[]));
        self.send(&call).await?.json(&call)
    }

    /// `GET /collaborators/{login}/permission`. `NotFound` when GitHub knows no such person here.
    pub async fn permission(&self, login: &str) -> Result<Collaborator, GitHubError> {
        #[derive(Deserialize)]
        struct Answer {
            permission: String,
            #[serde(default)]
            role_name: Option<String>,
            user: Option<Account>,
        }
        let call = Call::get(&self.path(&["collaborators", login, "permission"]));
        let answer: Answer = self.send(&call).await?.json(&call)?;
        let account = answer.user.ok_or_else(|| GitHubError::NotFound { what: call.what() })?;
        let role = answer.role_name.unwrap_or_else(|| answer.permission.clone());
        Ok(Collaborator {
            account,
            permission: permission(&answer.permission, &role),
            role,
        })
    }

    /// `GET /issues/{number}`, also for the issue side of a pull request.
    pub async fn issue(&self, number: IssueNumber) -> Result<Issue, GitHubError> {
        let call = Call::get(&self.path(&["issues", &number.to_string()]));
        self.send(&call).await?.json(&call)
    }

    /// `POST /issues`. A repeat opens a second one: look among [`RepoClient::issues_of_ours`].
    pub async fn create_issue(&self, new: &NewIssue) -> Result<Issue, GitHubError> {
        let body = json!({ "title": new.title, "body": new.body, "labels": new.labels });
        let call = Call::post(&self.path(&["issues"]), body);
        self.send(&call).await?.json(&call)
    }

    /// Issues that this App opened at or after `since`, newest first, open or closed, at most
    /// `max`. Pull requests are left out.
    pub async fn issues_of_ours(&self, since: DateTime<Utc>, max: usize) -> Result<Vec<Issue>, GitHubError> {
        let mut call = Call::get(&self.path(&["issues"]));
        let text = since.to_rfc3339_opts(SecondsFormat::Secs, true);
        // What was opened since then was changed since then; GitHub has no filter for the former.
        for (name, value) in [
            ("state", "all"),
            ("since", &text),
            ("sort", "created"),
            ("direction", "desc"),
        ] {
            call.query.push((name, value.to_owned()));
        }
        let app: AppId = self.shared.key.app();
        // GitHub tells times in whole seconds.
        let since = since - chrono::TimeDelta::milliseconds(999);
        let ours = |issue: &Issue| {
            issue.pull_request.is_none()
                && issue.performed_via_github_app.as_ref().is_some_and(|by| by.id == app)
                && issue.created_at.is_none_or(|at| at >= since)
        };
        self.list(call, max, ours).await
    }

    /// Closes an issue as one that is not needed.
    pub async fn close_issue(&self, number: IssueNumber) -> Result<(), GitHubError> {
        let body = json!({ "state": "closed", "state_reason": "not_planned" });
        let call = Call::patch(&self.path(&["issues", &number.to_string()]), body);
        self.send(&call).await.map(drop)
    }

    /// Makes an issue ([`Issue::id`], not its number) a sub-issue of another. That it is one
    /// already is `Rejected` or `Conflict` in GitHub's words.
    pub async fn add_sub_issue(&self, parent: IssueNumber, child: u64) -> Result<(), GitHubError> {
        let path = ["issues", &parent.to_string(), "sub_issues"];
        let call = Call::post(&self.path(&path), json!({ "sub_issue_id": child }));
        self.send(&call).await.map(drop)
    }

    /// Labels that the repository has, at most `max`.
    pub async fn repo_labels(&self, max: usize) -> Result<Vec<Label>, GitHubError> {
        self.list(Call::get(&self.path(&["labels"])), max, |_| true).await
    }

    /// All comments, oldest first, at most `max`, optionally changed since a time.
    pub async fn comments(
        &self,
        number: IssueNumber,
        since: Option<DateTime<Utc>>,
        max: usize,
    ) -> Result<Vec<Comment>, GitHubError> {
        let mut call = Call::get(&self.path(&["issues", &number.to_string(), "comments"]));
        if let Some(since) = since {
            let text = since.to_rfc3339_opts(SecondsFormat::Secs, true);
            call.query.push(("since", text));
        }
        self.list(call, max, |_| true).await
    }

    /// `POST /issues/{number}/comments`. A repeat makes a second comment.
    pub async fn create_comment(&self, number: IssueNumber, body: &str) -> Result<Comment, GitHubError> {
        let number = number.to_string();
        let call = Call::post(&self.path(&["issues", &number, "comments"]), json!({ "body": body }));
        self.send(&call).await?.json(&call)
    }

    /// `PATCH /issues/comments/{id}`. A repeat changes nothing.
    pub async fn update_comment(&self, id: CommentId, body: &str) -> Result<Comment, GitHubError> {
        let id = id.to_string();
        let call = Call::patch(&self.path(&["issues", "comments", &id]), json!({ "body": body }));
        self.send(&call).await?.json(&call)
    }

    /// `DELETE /issues/comments/{id}`.
    pub async fn delete_comment(&self, id: CommentId) -> Result<(), GitHubError> {
        let call = Call::delete(&self.path(&["issues", "comments", &id.to_string()]));
        self.send(&call).await.map(drop)
    }

    /// Puts a reaction (`eyes`, `+1`, …) on something; that it is there already is fine.
    pub async fn react(&self, target: ReactionTarget, content: &str) -> Result<(), GitHubError> {
        let (kind, id) = match target {
            ReactionTarget::Issue { number } => (["issues"].as_slice(), number.to_string()),
            ReactionTarget::Comment { id } => (["issues", "comments"].as_slice(), id.to_string()),
            ReactionTarget::ReviewComment { id } => (["pulls", "comments"].as_slice(), id.to_string()),
        };
        let path = [kind, &[&id, "reactions"]].concat();
        let call = Call::post(&self.path(&path), json!({ "content": content }));
        self.send(&call).await.map(drop)
    }

    /// Removes a label; that it was not there is fine.
    pub async fn remove_label(&self, number: IssueNumber, label: &str) -> Result<(), GitHubError> {
        let call = Call::delete(&self.path(&["issues", &number.to_string(), "labels", label]));
        match self.send(&call).await {
            // What is missing may be the issue: only a label that is gone leaves it to be seen.
            Err(GitHubError::NotFound { .. }) => self.issue(number).await.map(drop),
            other => other.map(drop),
        }
    }
}

/// The finer role where it is one of GitHub's own, else the coarse permission, to which custom
/// roles are mapped. Words that nobody knows give nothing.
fn permission(coarse: &str, role: &str) -> Permission {
    let level = |word: &str| match word {
        "none" => Some(Permission::None),
        "read" => Some(Permission::Read),
        "triage" => Some(Permission::Triage),
        "write" => Some(Permission::Write),
        "maintain" => Some(Permission::Maintain),
        "admin" => Some(Permission::Admin),
        _ => None,
    };
    match (level(coarse), level(role)) {
        (None | Some(Permission::None), _) => Permission::None,
        (Some(_), Some(role)) => role,
        (Some(coarse), None) => coarse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_finely_and_fail_closed() {
        for (coarse, role, expected) in [
            ("write", "maintain", Permission::Maintain),
            ("read", "triage", Permission::Triage),
            ("admin", "admin", Permission::Admin),
            ("write", "security-team", Permission::Write),
            ("read", "security-team", Permission::Read),
            ("none", "read", Permission::None),
            ("emperor", "admin", Permission::None),
        ] {
            assert_eq!(permission(coarse, role), expected, "{coarse} {role}");
        }
    }
}
