//! Pull requests, reviews and review comments as GitHub's JSON.
//! Called by routes and webhooks. Never decides who may see something.

use serde_json::{Value, json};

use super::diff::ChangedFile;
use super::noun::{Pull, Repo, Review, ReviewComment};
use super::shape::{node_id, reaction_counts, time};
use super::state::State;

/// Whether a pull request is shown alone or in a list, where GitHub leaves the dear parts out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Alone,
    Listed,
}

impl State {
    pub(super) fn shape_pull(&self, repo: &Repo, pull: &Pull, detail: Detail) -> Value {
        let Some(issue) = repo.issues.get(&pull.number) else {
            return Value::Null;
        };
        let full_name = repo.full_name();
        let api = format!("{}/repos/{full_name}", self.api());
        let url = format!("{api}/pulls/{}", pull.number);
        let issue_url = format!("{api}/issues/{}", pull.number);
        let html_url = format!("{}/{full_name}/pull/{}", self.origin, pull.number);
        let statuses_url = format!("{api}/statuses/{}", pull.head_sha);
        let mut shape = json!({
            "id": pull.id,
            "node_id": node_id("PullRequest", pull.id),
            "url": url,
            "html_url": html_url,
            "diff_url": format!("{html_url}.diff"),
            "patch_url": format!("{html_url}.patch"),
            "issue_url": issue_url,
            "commits_url": format!("{url}/commits"),
            "review_comments_url": format!("{url}/comments"),
            "review_comment_url": format!("{api}/pulls/comments{{/number}}"),
            "comments_url": format!("{issue_url}/comments"),
            "statuses_url": statuses_url,
            "number": pull.number,
            "state": if issue.open { "open" } else { "closed" },
            "locked": false,
            "active_lock_reason": null,
            "title": issue.title,
            "body": issue.body,
            "user": self.shape_account(issue.author),
            "labels": issue.labels.iter().map(|name| self.shape_label(repo, name)).collect::<Value>(),
            "assignee": null,
            "assignees": [],
            "requested_reviewers": pull.requested.iter().map(|id| self.shape_account(*id)).collect::<Value>(),
            "requested_teams": [],
            "milestone": null,
            "draft": pull.draft,
            "created_at": time(issue.created_at),
            "updated_at": time(issue.updated_at),
            "closed_at": issue.closed_at.map(time),
            "merged_at": pull.merged_at.map(time),
            "merge_commit_sha": pull.merge_commit,
            "auto_merge": null,
            "author_association": self.association(repo, issue.author),
            "head": self.shape_end(pull.head_repo, &pull.head, &pull.head_sha),
            "base": self.shape_end(repo.id, &pull.base, &pull.base_sha),
        });
        shape["_links"] = json!({
            "self": { "href": url },
            "html": { "href": html_url },
            "issue": { "href": issue_url },
            "comments": { "href": shape["comments_url"] },
            "review_comments": { "href": shape["review_comments_url"] },
            "review_comment": { "href": shape["review_comment_url"] },
            "commits": { "href": shape["commits_url"] },
            "statuses": { "href": statuses_url },
        });
        if detail == Detail::Alone {
            self.add_detail(&mut shape, repo, pull);
        }
        shape
    }

    fn add_detail(&self, shape: &mut Value, repo: &Repo, pull: &Pull) {
        let comments = repo
            .comments
            .values()
            .filter(|comment| comment.number == pull.number)
            .count();
        let inline = repo
            .review_comments
            .values()
            .filter(|comment| comment.number == pull.number)
            .count();
        let detail = json!({
            "merged": pull.merged_at.is_some(),
            "mergeable": pull.mergeable,
            "rebaseable": null,
            "mergeable_state": match (pull.mergeable, pull.draft) {
                (None, _) => "unknown",
                (Some(false), _) => "dirty",
                (Some(true), true) => "draft",
                (Some(true), false) => "clean",
            },
            "merged_by": null,
            "comments": comments,
            "review_comments": inline,
            "maintainer_can_modify": pull.maintainer_can_modify,
            "commits": pull.comparison.commits.len(),
            "additions": pull.comparison.additions(),
            "deletions": pull.comparison.deletions(),
            "changed_files": pull.comparison.files.len(),
        });
        if let (Some(shape), Some(detail)) = (shape.as_object_mut(), detail.as_object()) {
            shape.extend(detail.clone());
        }
    }

    fn shape_end(&self, repo: u64, branch: &str, sha: &str) -> Value {
        let shape = self.shape_repository(repo);
        let owner = self.repos.get(&repo).map(|repo| repo.owner.clone()).unwrap_or_default();
        json!({
            "label": format!("{owner}:{branch}"),
            "ref": branch,
            "sha": sha,
            "user": shape["owner"],
            "repo": shape,
        })
    }

    pub(super) fn shape_file(&self, repo: &Repo, pull: &Pull, file: &ChangedFile) -> Value {
        let web = format!("{}/{}", self.origin, repo.full_name());
        let api = format!("{}/repos/{}", self.api(), repo.full_name());
        let at = format!("{}/{}", pull.head_sha, file.path);
        let mut shape = json!({
            "sha": node_id("Blob", pull.id),
            "filename": file.path,
            "status": file.status,
            "additions": file.additions,
            "deletions": file.deletions,
            "changes": file.additions + file.deletions,
            "blob_url": format!("{web}/blob/{at}"),
            "raw_url": format!("{web}/raw/{at}"),
            "contents_url": format!("{api}/contents/{}?ref={}", file.path, pull.head_sha),
        });
        if let Some(patch) = file.patch() {
            shape["patch"] = patch.into();
        }
        if let Some(previous) = &file.previous {
            shape["previous_filename"] = previous.as_str().into();
        }
        shape
    }

    pub(super) fn shape_review(&self, repo: &Repo, review: &Review) -> Value {
        let html = format!("{}/{}/pull/{}", self.origin, repo.full_name(), review.number);
        let url = format!("{}/repos/{}/pulls/{}", self.api(), repo.full_name(), review.number);
        let html_url = format!("{html}#pullrequestreview-{}", review.id);
        json!({
            "id": review.id,
            "node_id": node_id("PullRequestReview", review.id),
            "user": self.shape_account(review.author),
            "body": review.body,
            "state": review.state,
            "html_url": html_url,
            "pull_request_url": url,
            "author_association": self.association(repo, review.author),
            "submitted_at": time(review.submitted_at),
            "commit_id": review.commit,
            "_links": { "html": { "href": html_url }, "pull_request": { "href": url } },
        })
    }

    pub(super) fn shape_review_comment(&self, repo: &Repo, comment: &ReviewComment) -> Value {
        let api = format!("{}/repos/{}", self.api(), repo.full_name());
        let url = format!("{api}/pulls/comments/{}", comment.id);
        let pull_url = format!("{api}/pulls/{}", comment.number);
        let html_url = format!(
            "{}/{}/pull/{}#discussion_r{}",
            self.origin,
            repo.full_name(),
            comment.number,
            comment.id
        );
        let mut shape = json!({
            "id": comment.id,
            "node_id": node_id("PullRequestReviewComment", comment.id),
            "url": url,
            "html_url": html_url,
            "pull_request_url": pull_url,
            "pull_request_review_id": comment.review,
            "diff_hunk": comment.hunk,
            "path": comment.path,
            "line": comment.line,
            "original_line": comment.original_line,
            "start_line": comment.line.and(comment.start_line),
            "original_start_line": comment.start_line,
            "side": comment.side.word(),
            "start_side": comment.start_line.map(|_| comment.side.word()),
            "position": comment.line,
            "original_position": comment.original_line,
            "subject_type": "line",
            "commit_id": comment.commit,
            "original_commit_id": comment.commit,
            "user": self.shape_account(comment.author),
            "body": comment.body,
            "author_association": self.association(repo, comment.author),
            "created_at": time(comment.created_at),
            "updated_at": time(comment.updated_at),
            "reactions": reaction_counts(&url, &comment.reactions),
            "_links": {
                "self": { "href": url },
                "html": { "href": html_url },
                "pull_request": { "href": pull_url },
            },
        });
        if let Some(parent) = comment.in_reply_to {
            shape["in_reply_to_id"] = parent.into();
        }
        shape
    }
}
