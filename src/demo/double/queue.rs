//! What a polled queue sees: the events of issues, milestones, changes of a body, and answers that
//! are not sent again while they are as they were. Called by `routes`, `server` and by tests.
//! Never leaves out who did something, but for accounts that are gone.

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::noun::{Event, Issue, Milestone, Repo};
use super::routes::Call;
use super::shape::{node_id, time};
use super::state::State;

impl State {
    /// Keeps what happened to an issue; what about it is read from what webhooks tell.
    pub(super) fn note_event(&mut self, repo: u64, number: u64, action: &str, who: u64, about: &Value) {
        let rename = about["changes"]["title"]["from"].as_str();
        let (event, about) = match (action, rename) {
            ("labeled" | "unlabeled", _) => {
                let label = &about["label"];
                (
                    action,
                    json!({ "label": { "name": label["name"], "color": label["color"] } }),
                )
            }
            ("milestoned" | "demilestoned", _) => {
                let title = &about["milestone"]["title"];
                (action, json!({ "milestone": { "title": title } }))
            }
            ("edited", Some(from)) => {
                let found = self.repo(repo).ok().and_then(|repo| repo.issues.get(&number));
                let to = found.map(|issue| issue.title.clone());
                ("renamed", json!({ "rename": { "from": from, "to": to } }))
            }
            ("closed" | "reopened", _) => (action, json!({})),
            _ => return,
        };
        let event = Event {
            id: self.fresh_id(),
            number,
            event: event.to_owned(),
            by: who,
            about,
            at: self.now(),
        };
        if let Ok(repo) = self.repo_mut(repo) {
            repo.events.push(event);
        }
    }

    /// `GET /issues/{number}/events`, oldest first.
    pub(super) fn list_events(&self, call: &Call, repo: u64, number: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        repo.issues.get(&number).ok_or_else(Refused::not_found)?;
        let events = repo.events.iter().filter(|event| event.number == number);
        call.page(events.collect(), |event| self.shape_event(repo, event))
    }

    /// `GET /issues/events` of the whole repository, the last first, each with its issue.
    pub(super) fn list_all_events(&self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        call.page(repo.events.iter().rev().collect(), |event| {
            let mut shape = self.shape_event(repo, event);
            let issue = repo.issues.get(&event.number);
            shape["issue"] = issue.map_or(Value::Null, |issue| self.shape_issue(repo, issue));
            shape
        })
    }

    fn shape_event(&self, repo: &Repo, event: &Event) -> Value {
        let mut shape = json!({
            "id": event.id,
            "node_id": node_id("IssueEvent", event.id),
            "url": format!("{}/repos/{}/issues/events/{}", self.api(), repo.full_name(), event.id),
            "actor": self.shape_account(event.by),
            "event": event.event,
            "commit_id": null,
            "commit_url": null,
            "created_at": time(event.at),
            "performed_via_github_app": self.app_of(event.by),
        });
        for (name, value) in event.about.as_object().into_iter().flatten() {
            shape[name] = value.clone();
        }
        shape
    }

    pub(super) fn shape_milestone(&self, repo: &Repo, number: u64) -> Value {
        let Some(milestone) = repo.milestones.get(&number) else {
            return Value::Null;
        };
        let url = format!("{}/repos/{}/milestones/{number}", self.api(), repo.full_name());
        let of = |open: bool| {
            let issues = repo.issues.values();
            issues
                .filter(|issue| issue.milestone == Some(number) && issue.open == open)
                .count()
        };
        json!({
            "id": milestone.id,
            "node_id": node_id("Milestone", milestone.id),
            "url": url,
            "html_url": format!("{}/{}/milestone/{number}", self.origin, repo.full_name()),
            "labels_url": format!("{url}/labels"),
            "number": number,
            "title": milestone.title,
            "description": null,
            "creator": null,
            "state": "open",
            "open_issues": of(true),
            "closed_issues": of(false),
            "created_at": time(milestone.created_at),
            "updated_at": time(milestone.created_at),
            "due_on": null,
            "closed_at": null,
        })
    }

    /// Puts an issue into a milestone, which is made when it is new, or takes it out.
    pub(super) fn set_milestone(
        &mut self,
        repo: u64,
        number: u64,
        who: u64,
        title: Option<&str>,
    ) -> Result<(), Refused> {
        let wanted = match title {
            None => None,
            Some(title) => Some(self.ensure_milestone(repo, title)?),
        };
        let now = self.now();
        let issue = self.issue_mut(repo, number)?;
        let before = std::mem::replace(&mut issue.milestone, wanted);
        if before == wanted {
            return Ok(());
        }
        issue.updated_at = now;
        for (milestone, action) in [(before, "demilestoned"), (wanted, "milestoned")] {
            if let Some(milestone) = milestone {
                let milestone = self.shape_milestone(self.repo(repo)?, milestone);
                self.emit_subject(repo, number, action, who, json!({ "milestone": milestone }))?;
            }
        }
        Ok(())
    }

    fn ensure_milestone(&mut self, repo: u64, title: &str) -> Result<u64, Refused> {
        let known = self.repo(repo)?.milestones.iter();
        let known = known.filter(|(_, milestone)| milestone.title == title);
        if let Some(number) = known.map(|(number, _)| *number).next() {
            return Ok(number);
        }
        let milestone = Milestone {
            id: self.fresh_id(),
            title: title.to_owned(),
            created_at: self.now(),
        };
        let repo = self.repo_mut(repo)?;
        let number = repo.milestones.keys().next_back().map_or(1, |last| last + 1);
        repo.milestones.insert(number, milestone);
        Ok(number)
    }

    /// The changes of an issue's body as GraphQL tells them, newest first. Once there is one, the
    /// first text counts as a change, too.
    pub(super) fn shape_body_edits(&self, issue: &Issue, first: usize) -> Value {
        let editor = |id: u64| {
            let account = self.accounts.get(&id)?;
            Some(json!({
                "__typename": account.kind,
                "login": account.login.trim_end_matches("[bot]"),
                "databaseId": account.id,
            }))
        };
        let edit = |at, by| json!({ "editedAt": time(at), "editor": editor(by) });
        let mut nodes: Vec<Value> = issue.edits.iter().rev().map(|it| edit(it.at, it.by)).collect();
        if !nodes.is_empty() {
            nodes.push(edit(issue.created_at, issue.author));
        }
        let has_next = nodes.len() > first;
        nodes.truncate(first);
        json!({
            "lastEditedAt": issue.edits.last().map(|edit| time(edit.at)),
            "userContentEdits": {
                "pageInfo": { "hasNextPage": has_next, "endCursor": null },
                "nodes": nodes,
            },
        })
    }
}

/// What an answer is known by while it is as it is.
pub(super) fn etag(answer: &Answer) -> String {
    let mut hash = Sha256::new();
    hash.update(answer.body.to_string());
    for (name, value) in &answer.headers {
        hash.update(format!("\n{name}: {value}"));
    }
    format!("W/\"{}\"", hex::encode(&hash.finalize()[..16]))
}

impl GitHubDouble {
    /// Keeps nothing of what happened to an issue so far, as where GitHub's list of events is late.
    pub fn lose_events(&self, repo: &str, number: u64) -> anyhow::Result<()> {
        let mut state = self.lock();
        let repo = state.repo_named_mut(repo)?;
        repo.events.retain(|event| event.number != number);
        Ok(())
    }

    /// Puts an issue into a milestone, which is made when it is new.
    pub fn set_milestone(&self, repo: &str, number: u64, title: &str, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.set_milestone(repo, number, who, Some(title))
        })
    }

    /// Takes an issue out of its milestone.
    pub fn clear_milestone(&self, repo: &str, number: u64, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| {
            state.set_milestone(repo, number, who, None)
        })
    }

    /// Deletes an issue with its events, as somebody who may.
    pub fn delete_issue(&self, repo: &str, number: u64) -> anyhow::Result<()> {
        let mut state = self.lock();
        let repo = state.repo_named_mut(repo)?;
        repo.issues.remove(&number).context("no such issue")?;
        repo.events.retain(|event| event.number != number);
        Ok(())
    }

    /// How many requests were answered with "as it was", which cost nothing.
    pub fn unchanged_answers(&self) -> usize {
        self.requests().iter().filter(|request| request.status == 304).count()
    }
}
