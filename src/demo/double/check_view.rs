//! Check runs, check suites and commit statuses as GitHub's JSON. Called by `checks`.
//! Never decides who may see something.

use serde_json::{Value, json};

use super::checks::{CheckRun, Status, Suite};
use super::noun::{Pull, Repo};
use super::shape::{node_id, time};
use super::state::State;

impl State {
    pub(super) fn shape_check_run(&self, repo: &Repo, run: &CheckRun) -> Value {
        let url = format!("{}/repos/{}/check-runs/{}", self.api(), repo.full_name(), run.id);
        let suite = repo.suites.get(&run.suite).map(|suite| self.shape_suite(repo, suite));
        json!({
            "id": run.id,
            "node_id": node_id("CheckRun", run.id),
            "head_sha": run.head_sha,
            "name": run.name,
            "external_id": run.external_id,
            "url": url,
            "html_url": format!("{}/{}/runs/{}", self.origin, repo.full_name(), run.id),
            "details_url": run.details_url,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": time(run.started_at),
            "completed_at": run.completed_at.map(time),
            "output": {
                "title": run.title,
                "summary": run.summary,
                "text": run.text,
                "annotations_count": run.annotations.len(),
                "annotations_url": format!("{url}/annotations"),
            },
            "check_suite": suite,
            "app": self.app_of(run.by),
            "pull_requests": self.pulls_at(repo, &run.head_sha),
        })
    }

    pub(super) fn shape_suite(&self, repo: &Repo, suite: &Suite) -> Value {
        let url = format!("{}/repos/{}/check-suites/{}", self.api(), repo.full_name(), suite.id);
        let (status, conclusion, runs) = repo.suite_state(suite);
        json!({
            "id": suite.id,
            "node_id": node_id("CheckSuite", suite.id),
            "head_branch": repo.branch_at(&suite.head_sha),
            "head_sha": suite.head_sha,
            "status": status,
            "conclusion": conclusion,
            "url": url,
            "before": null,
            "after": suite.head_sha,
            "pull_requests": self.pulls_at(repo, &suite.head_sha),
            "app": self.app_of(suite.by),
            "repository": self.shape_repository(repo.id),
            "created_at": time(suite.created_at),
            "updated_at": time(suite.created_at),
            "head_commit": head_commit(&suite.head_sha, &time(suite.created_at)),
            "latest_check_runs_count": runs,
            "check_runs_url": format!("{url}/check-runs"),
        })
    }

    /// Open pull requests of this repository whose head is the commit; GitHub leaves forks out.
    fn pulls_at(&self, repo: &Repo, sha: &str) -> Value {
        let here = |pull: &&Pull| {
            let open = repo.issues.get(&pull.number).is_some_and(|issue| issue.open);
            open && pull.head_sha == sha && pull.head_repo == repo.id
        };
        let api = format!("{}/repos/{}", self.api(), repo.full_name());
        let home = json!({ "id": repo.id, "url": api, "name": repo.name });
        let shape = |pull: &Pull| {
            json!({
                "id": pull.id,
                "number": pull.number,
                "url": format!("{api}/pulls/{}", pull.number),
                "head": { "ref": pull.head, "sha": pull.head_sha, "repo": home },
                "base": { "ref": pull.base, "sha": pull.base_sha, "repo": home },
            })
        };
        repo.pulls.values().filter(here).map(shape).collect()
    }

    pub(super) fn shape_status(&self, repo: &Repo, status: &Status) -> Value {
        json!({
            "id": status.id,
            "node_id": node_id("StatusContext", status.id),
            "url": format!("{}/repos/{}/statuses/{}", self.api(), repo.full_name(), status.sha),
            "avatar_url": null,
            "state": status.state,
            "description": status.description,
            "target_url": null,
            "context": status.context,
            "created_at": time(status.at),
            "updated_at": time(status.at),
        })
    }

    /// What the `status` event holds beside the repository and the sender.
    pub(super) fn shape_status_event(&self, repo: &Repo, status: &Status, who: u64) -> Value {
        let api = format!("{}/repos/{}/commits/{}", self.api(), repo.full_name(), status.sha);
        let when = time(status.at);
        let commit = head_commit(&status.sha, &when);
        let branch = repo.branch_at(&status.sha);
        let branches: Value = branch
            .iter()
            .map(|name| json!({ "name": name, "commit": { "sha": status.sha, "url": api }, "protected": false }))
            .collect();
        json!({
            "id": status.id,
            "sha": status.sha,
            "name": repo.full_name(),
            "target_url": null,
            "avatar_url": null,
            "context": status.context,
            "description": status.description,
            "state": status.state,
            "commit": {
                "sha": status.sha,
                "node_id": node_id("Commit", status.id),
                "commit": {
                    "author": commit["author"],
                    "committer": commit["committer"],
                    "message": commit["message"],
                    "tree": { "sha": commit["tree_id"], "url": format!("{api}/tree") },
                    "url": api,
                    "comment_count": 0,
                    "verification": { "verified": false, "reason": "unsigned", "signature": null, "payload": null },
                },
                "url": api,
                "html_url": format!("{}/{}/commit/{}", self.origin, repo.full_name(), status.sha),
                "comments_url": format!("{api}/comments"),
                "author": self.shape_account(who),
                "committer": self.shape_account(who),
                "parents": [],
            },
            "branches": branches,
            "created_at": when,
            "updated_at": when,
        })
    }
}

/// A commit as checks name it. Only its id is known here.
fn head_commit(sha: &str, when: &Value) -> Value {
    let person = json!({ "name": "Octo Person", "email": "person@example.org", "date": when });
    json!({
        "id": sha,
        "tree_id": sha,
        "message": "",
        "timestamp": when,
        "author": person,
        "committer": person,
    })
}
