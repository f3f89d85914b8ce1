//! The table of REST routes: one line each, with the permission that GitHub asks for.
//! Called by `server` under the lock; the git questions of a request were answered before.
//! Never answers a route that is not in the table: it is remembered, and 501.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::access::{Caller, Level};
use super::answer::{Answer, Refused};
use super::changes::ReactionPlace;
use super::diff::Comparison;
use super::state::State;
use super::view::Detail;

/// The permissions that cover conversations: issues and pull requests share their routes.
const TALK: [&str; 2] = ["issues", "pull_requests"];

/// Names of routes that tests look at are enough; a scanner could ask for ever.
const MAX_UNKNOWN_ROUTES: usize = 100;

/// A request, taken apart.
pub(super) struct Call {
    pub(super) method: String,
    /// Path without the API's prefix.
    pub(super) path: String,
    pub(super) query: HashMap<String, String>,
    pub(super) body: Value,
    pub(super) authorization: Option<String>,
    /// What the caller knows the answer by already.
    pub(super) if_none_match: Option<String>,
    /// The full address without the query, for links to other pages.
    pub(super) address: String,
    /// What is younger than this is not shown in lists.
    pub(super) hidden_since: Option<DateTime<Utc>>,
    /// How the two branches of a new pull request differ, where both exist.
    pub(super) comparison: Option<Comparison>,
}

impl Call {
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(super) fn since(&self) -> Result<Option<DateTime<Utc>>, Refused> {
        let Some(text) = self.query("since") else {
            return Ok(None);
        };
        let at = DateTime::parse_from_rfc3339(text).map_err(|_| Refused::new(422, "since is not a timestamp"))?;
        // Times are shown in whole seconds, so the second itself counts.
        Ok(Some(at.to_utc() - TimeDelta::milliseconds(999)))
    }

    pub(super) fn shows(&self, created_at: DateTime<Utc>) -> bool {
        self.hidden_since.is_none_or(|since| created_at <= since)
    }

    /// One page of a list, with links to the others.
    pub(super) fn page<T>(&self, items: Vec<T>, shape: impl Fn(T) -> Value) -> Result<Answer, Refused> {
        let number =
            |name: &str, default: usize| self.query(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        let per_page = number("per_page", 30).clamp(1, 100);
        let page = number("page", 1).clamp(1, 1_000_000);
        let last = items.len().div_ceil(per_page).max(1);
        let shown: Vec<Value> = items
            .into_iter()
            .skip((page - 1) * per_page)
            .take(per_page)
            .map(shape)
            .collect();
        let link = |page: usize, rel: &str| format!("<{}>; rel=\"{rel}\"", self.address_of(page));
        let mut links = Vec::new();
        if page > 1 {
            links.extend([link(page - 1, "prev"), link(1, "first")]);
        }
        if page < last {
            links.extend([link(page + 1, "next"), link(last, "last")]);
        }
        let answer = Answer::new(200, shown.into());
        Ok(if links.is_empty() {
            answer
        } else {
            answer.header("link", &links.join(", "))
        })
    }

    fn address_of(&self, page: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        // In the same order each time: an unchanged answer has the same links.
        let others: BTreeMap<_, _> = self.query.iter().filter(|(name, _)| *name != "page").collect();
        for (name, value) in others {
            query.append_pair(name, value);
        }
        query.append_pair("page", &page.to_string());
        format!("{}?{}", self.address, query.finish())
    }
}

impl State {
    /// Answers a request.
    pub(super) fn answer(&mut self, call: &Call) -> Answer {
        let decoded: Vec<String> = call.path.split('/').skip(1).map(decode).collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let outcome = self
            .identify(call.authorization.as_deref())
            .and_then(|caller| match parts.as_slice() {
                ["repos", owner, name, rest @ ..] => self.of_repository(call, &caller, owner, name, rest),
                ["repositories", id, rest @ ..] => match id.parse() {
                    Ok(id) if self.repos.contains_key(&id) => self.in_repository(call, &caller, id, rest),
                    _ => Err(Refused::not_found()),
                },
                _ => self.of_app(call, &caller, &parts),
            });
        outcome.unwrap_or_else(Answer::from)
    }

    fn unknown(&mut self, call: &Call) -> Result<Answer, Refused> {
        if self.unknown_routes.len() < MAX_UNKNOWN_ROUTES {
            self.unknown_routes.push(format!("{} {}", call.method, call.path));
        }
        Err(Refused::new(501, "the GitHub double does not have this route"))
    }

    fn of_app(&mut self, call: &Call, caller: &Caller, parts: &[&str]) -> Result<Answer, Refused> {
        let as_app = || match caller {
            Caller::App => Ok(()),
            _ => Err(Refused::new(401, "A JSON web token could not be decoded")),
        };
        match (call.method.as_str(), parts) {
            ("GET", ["app"]) => as_app().and_then(|()| Answer::ok(self.shape_app())),
            ("GET", ["app", "hook", "deliveries"]) => {
                as_app()?;
                self.list_deliveries(call)
            }
            ("GET", ["app", "hook", "deliveries", id]) => {
                as_app()?;
                self.show_delivery(id)
            }
            ("GET", ["app", "installations"]) => {
                as_app()?;
                call.page(vec![self.shape_installation()], |shape| shape)
            }
            ("POST", ["app", "installations", id, "access_tokens"]) => {
                as_app()?;
                self.mint(id, &call.body)
            }
            ("POST", ["app-manifests", code, "conversions"]) => self.convert_manifest(code),
            ("DELETE", ["installation", "token"]) => {
                let Caller::Installation(_) = caller else {
                    return Err(Refused::new(401, "Requires authentication"));
                };
                let token = call.authorization.as_deref().and_then(|text| text.split_once(' '));
                self.tokens
                    .remove(token.map(|(_, token)| token.trim()).unwrap_or_default());
                Answer::no_content()
            }
            ("GET", ["search", "issues"]) => self.search_issues(call, caller),
            ("POST", ["graphql"]) => match self.graphql(call, caller) {
                Some(answer) => answer,
                None => self.unknown(call),
            },
            ("GET", ["installation", "repositories"]) => self.list_installation_repositories(call, caller),
            _ => self.unknown(call),
        }
    }

    fn list_installation_repositories(&self, call: &Call, caller: &Caller) -> Result<Answer, Refused> {
        let Caller::Installation(token) = caller else {
            return Err(Refused::new(401, "Requires authentication"));
        };
        let visible = |id: &&u64| token.repositories.as_ref().is_none_or(|ids| ids.contains(id));
        let ids: Vec<&u64> = self.installation.repositories.iter().filter(visible).collect();
        let total = ids.len();
        let mut answer = call.page(ids, |id| self.shape_repository(*id))?;
        answer.body = json!({ "total_count": total, "repository_selection": "selected", "repositories": answer.body });
        Ok(answer)
    }

    /// Finds the repository by name, sends callers of an old name on to the new one.
    fn of_repository(
        &mut self,
        call: &Call,
        caller: &Caller,
        owner: &str,
        name: &str,
        rest: &[&str],
    ) -> Result<Answer, Refused> {
        let full_name = format!("{owner}/{name}");
        if let Some(id) = self.find_repo(&full_name) {
            return self.in_repository(call, caller, id, rest);
        }
        let Some(id) = self.moved.get(&full_name.to_lowercase()).copied() else {
            return Err(Refused::not_found());
        };
        let tail = call
            .path
            .splitn(5, '/')
            .nth(4)
            .map(|tail| format!("/{tail}"))
            .unwrap_or_default();
        let target = format!("{}/repositories/{id}{tail}", self.api());
        let status = if call.method == "GET" { 301 } else { 307 };
        let body = json!({ "message": "Moved Permanently", "url": target });
        Ok(Answer::new(status, body).header("location", &target))
    }

    fn in_repository(&mut self, call: &Call, caller: &Caller, repo: u64, rest: &[&str]) -> Result<Answer, Refused> {
        if let ("GET", ["installation"]) = (call.method.as_str(), rest) {
            let Caller::App = caller else {
                return Err(Refused::new(401, "A JSON web token could not be decoded"));
            };
            if !self.installation.repositories.contains(&repo) {
                return Err(Refused::not_found());
            }
            return Answer::ok(self.shape_installation());
        }
        let level = if call.method == "GET" {
            Level::Read
        } else {
            Level::Write
        };
        let permissions: &[&str] = match rest {
            ["issues", ..] | ["labels", ..] => &TALK,
            ["pulls", ..] => &["pull_requests"],
            ["check-runs", ..] | ["commits", _, "check-runs" | "check-suites"] => &["checks"],
            ["commits", _, "status"] => &["statuses"],
            ["commits", _, "pulls"] => &["pull_requests", "contents"],
            ["security-advisories", ..] => &["repository_advisories"],
            ["git", ..] | ["branches", ..] | ["commits", ..] => &["contents"],
            _ => &["metadata"],
        };
        self.authorize(caller, repo, permissions, level)?;
        if level == Level::Write && self.repo(repo)?.archived {
            return Err(Refused::new(403, "Repository was archived so is read-only."));
        }
        match rest {
            ["issues", ..] | ["labels", ..] => self.of_issues(call, repo, rest),
            ["pulls", ..] => self.of_pulls(call, repo, rest),
            _ => self.of_code(call, repo, rest),
        }
    }

    fn of_issues(&mut self, call: &Call, repo: u64, rest: &[&str]) -> Result<Answer, Refused> {
        match (call.method.as_str(), rest) {
            ("GET", ["issues"]) => self.list_issues(call, repo),
            ("POST", ["issues"]) => self.post_issue(call, repo),
            ("GET", ["issues", "comments"]) => self.list_all_comments(call, repo),
            ("GET", ["issues", "events"]) => self.list_all_events(call, repo),
            ("GET", ["issues", "comments", id]) => self.get_comment(repo, number(id)?),
            ("PATCH", ["issues", "comments", id]) => self.patch_comment(call, repo, number(id)?),
            ("DELETE", ["issues", "comments", id]) => {
                self.delete_comment(repo, number(id)?, self.app.bot)?;
                Answer::no_content()
            }
            ("GET", ["issues", "comments", id, "reactions"]) => {
                self.list_reactions(call, repo, &ReactionPlace::Comment(number(id)?))
            }
            ("POST", ["issues", "comments", id, "reactions"]) => {
                self.post_reaction(call, repo, &ReactionPlace::Comment(number(id)?))
            }
            ("GET", ["issues", n]) => self.get_issue(repo, number(n)?),
            ("PATCH", ["issues", n]) => self.patch_issue(call, repo, number(n)?),
            ("GET", ["issues", n, "comments"]) => self.list_comments(call, repo, number(n)?),
            ("POST", ["issues", n, "comments"]) => self.post_comment(call, repo, number(n)?),
            ("GET", ["issues", n, "events"]) => self.list_events(call, repo, number(n)?),
            ("GET", ["issues", n, "labels"]) => self.list_labels(repo, number(n)?),
            ("POST", ["issues", n, "labels"]) => self.post_labels(call, repo, number(n)?),
            ("DELETE", ["issues", n, "labels", name]) => self.delete_label(repo, number(n)?, name),
            ("GET", ["issues", n, "reactions"]) => self.list_reactions(call, repo, &ReactionPlace::Issue(number(n)?)),
            ("POST", ["issues", n, "reactions"]) => self.post_reaction(call, repo, &ReactionPlace::Issue(number(n)?)),
            ("POST", ["issues", n, "sub_issues"]) => self.post_sub_issue(call, repo, number(n)?),
            ("GET", ["labels"]) => self.list_repo_labels(call, repo),
            _ => self.unknown(call),
        }
    }

    fn of_pulls(&mut self, call: &Call, repo: u64, rest: &[&str]) -> Result<Answer, Refused> {
        match (call.method.as_str(), rest) {
            ("GET", ["pulls"]) => self.list_pulls(call, repo),
            ("POST", ["pulls"]) => self.post_pull(call, repo),
            ("DELETE", ["pulls", "comments", id]) => self.delete_own_review_comment(repo, number(id)?),
            ("GET", ["pulls", "comments"]) => self.list_all_review_comments(call, repo),
            ("GET", ["pulls", "comments", id]) => self.get_review_comment(repo, number(id)?),
            ("POST", ["pulls", "comments", id, "reactions"]) => {
                self.post_reaction(call, repo, &ReactionPlace::ReviewComment(number(id)?))
            }
            ("GET", ["pulls", "comments", id, "reactions"]) => {
                self.list_reactions(call, repo, &ReactionPlace::ReviewComment(number(id)?))
            }
            ("GET", ["pulls", n]) => {
                let repo = self.repo(repo)?;
                let pull = repo.pulls.get(&number(n)?).ok_or_else(Refused::not_found)?;
                Answer::ok(self.shape_pull(repo, pull, Detail::Alone))
            }
            ("GET", ["pulls", n, "comments"]) => self.list_review_comments(call, repo, number(n)?),
            ("POST", ["pulls", n, "comments", id, "replies"]) => self.post_reply(call, repo, number(n)?, number(id)?),
            ("GET", ["pulls", n, "files"]) => self.list_files(call, repo, number(n)?),
            ("POST", ["pulls", n, "requested_reviewers"]) => self.post_requested_reviewers(call, repo, number(n)?),
            ("GET", ["pulls", n, "reviews"]) => self.list_reviews(call, repo, number(n)?),
            ("POST", ["pulls", n, "reviews"]) => self.post_review(call, repo, number(n)?),
            ("PUT", ["pulls", n, "reviews", id]) => self.put_review(call, repo, number(n)?, number(id)?),
            _ => self.unknown(call),
        }
    }

    fn of_code(&mut self, call: &Call, repo: u64, rest: &[&str]) -> Result<Answer, Refused> {
        match (call.method.as_str(), rest) {
            ("GET", []) => Answer::ok(self.shape_repository(repo)),
            ("GET", ["collaborators", login, "permission"]) => self.get_permission(repo, login),
            ("GET", ["git", "ref", name @ ..]) => self.get_ref(repo, &name.join("/")),
            ("GET", ["commits", sha, "check-runs"]) => self.list_check_runs(call, repo, sha),
            ("GET", ["commits", sha, "status"]) => self.get_combined_status(call, repo, sha),
            ("POST", ["check-runs"]) => self.post_check_run(call, repo),
            ("GET", ["check-runs", id]) => self.get_check_run(repo, number(id)?),
            ("GET", ["check-runs", id, "annotations"]) => self.list_annotations(call, repo, number(id)?),
            ("PATCH", ["check-runs", id]) => self.patch_check_run(call, repo, number(id)?),
            ("POST", ["check-runs", id, "rerequest"]) => self.rerequest_check_run(repo, number(id)?),
            ("POST", ["security-advisories"]) => self.post_advisory(call, repo),
            _ => self.unknown(call),
        }
    }

    /// `POST /app-manifests/{code}/conversions`; a code works once.
    fn convert_manifest(&mut self, code: &str) -> Result<Answer, Refused> {
        let found = self.manifest_codes.iter().position(|(known, _)| known == code);
        let (_, credentials) = self.manifest_codes.remove(found.ok_or_else(Refused::not_found)?);
        let mut shape = self.shape_app();
        shape["pem"] = credentials.pem.expose().into();
        shape["webhook_secret"] = credentials.webhook_secret.expose().into();
        shape["client_secret"] = credentials.client_secret.expose().into();
        Answer::created(shape)
    }
}

fn number(text: &str) -> Result<u64, Refused> {
    text.parse().map_err(|_| Refused::not_found())
}

/// Undoes percent-encoding.
fn decode(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
