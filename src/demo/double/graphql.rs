//! The GraphQL side: exactly the operations that the port sends, told apart by their names. An
//! error is answered with 200, as GitHub does. Called by `routes` and by tests.
//! Never reads a query in full: an operation that is not known is remembered as a missing route.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::GitHubDouble;
use super::access::{Caller, Level};
use super::answer::{Answer, Refused};
use super::noun::{Repo, ReviewComment};
use super::routes::Call;
use super::shape::{node_id, number_of, time};
use super::state::State;

/// An operation by its name, with a field that its text must have.
const OPERATIONS: [(&str, &str); 5] = [
    ("IssueEdits", "userContentEdits("),
    ("ReviewThreads", "reviewThreads("),
    ("ThreadComments", "PullRequestReviewThread"),
    ("ResolveThread", "resolveReviewThread("),
    ("MarkReady", "markPullRequestReadyForReview("),
];

/// GitHub shows no more on a page.
const MAX_PER_PAGE: usize = 100;

/// An error within a success.
struct Problem {
    kind: &'static str,
    message: String,
}

impl Problem {
    fn not_found(kind: &str, id: &str) -> Self {
        Self {
            kind: "NOT_FOUND",
            message: format!("Could not resolve to a {kind} with the name or id of '{id}'."),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let kind = match refused.status() {
            401 | 403 => "FORBIDDEN",
            404 => "NOT_FOUND",
            _ => "UNPROCESSABLE",
        };
        Self {
            kind,
            message: refused.message().to_owned(),
        }
    }
}

impl State {
    /// `POST /graphql`; `None` for an operation that is not known.
    pub(super) fn graphql(&mut self, call: &Call, caller: &Caller) -> Option<Result<Answer, Refused>> {
        let Caller::Installation(_) = caller else {
            return Some(Err(Refused::new(
                401,
                "This endpoint requires you to be authenticated.",
            )));
        };
        let name = call.body["operationName"].as_str().unwrap_or_default();
        let text = call.body["query"].as_str().unwrap_or_default();
        OPERATIONS
            .iter()
            .find(|(known, field)| *known == name && text.contains(name) && text.contains(field))?;
        let variables = &call.body["variables"];
        let outcome = match name {
            "IssueEdits" => self.issue_edits(caller, variables),
            "ReviewThreads" => self.review_threads(caller, variables),
            "ThreadComments" => self.thread_comments(caller, variables),
            "ResolveThread" => self.resolve(caller, variables),
            _ => self.mark_ready(caller, variables),
        };
        let body = match outcome {
            Ok(data) => json!({ "data": data }),
            Err(Problem { kind, message }) => {
                json!({ "data": null, "errors": [{ "type": kind, "path": [name], "message": message }] })
            }
        };
        Some(Answer::ok(body))
    }

    fn issue_edits(&self, caller: &Caller, variables: &Value) -> Result<Value, Problem> {
        let words = |name: &str| variables[name].as_str().unwrap_or_default();
        let full_name = format!("{}/{}", words("owner"), words("name"));
        let missing = || Problem::not_found("Repository", &full_name);
        let id = self.find_repo(&full_name).ok_or_else(missing)?;
        self.authorize(caller, id, &["issues"], Level::Read)?;
        let number = variables["number"].as_u64().unwrap_or(0);
        let repo = self.repo(id)?;
        let found = repo.issues.get(&number).filter(|_| !repo.pulls.contains_key(&number));
        let issue = found.ok_or_else(|| Problem::not_found("Issue", &number.to_string()))?;
        let first = variables["first"].as_u64().unwrap_or(0) as usize;
        let issue = self.shape_body_edits(issue, first.min(MAX_PER_PAGE));
        Ok(json!({ "repository": { "issue": issue } }))
    }

    fn review_threads(&self, caller: &Caller, variables: &Value) -> Result<Value, Problem> {
        let words = |name: &str| variables[name].as_str().unwrap_or_default();
        let full_name = format!("{}/{}", words("owner"), words("name"));
        let missing = || Problem::not_found("Repository", &full_name);
        let id = self.find_repo(&full_name).ok_or_else(missing)?;
        self.allowed(caller, id, Level::Read)?;
        let repo = self.repo(id)?;
        let number = variables["number"].as_u64().unwrap_or(0);
        if !repo.pulls.contains_key(&number) {
            return Err(Problem::not_found("PullRequest", &number.to_string()));
        }
        let roots = repo.review_comments.values();
        let roots: Vec<&ReviewComment> = roots
            .filter(|comment| comment.number == number && comment.in_reply_to.is_none())
            .collect();
        let page = page(&roots, variables, |root| self.shape_thread(repo, root));
        Ok(json!({ "repository": { "pullRequest": { "reviewThreads": page } } }))
    }

    fn shape_thread(&self, repo: &Repo, root: &ReviewComment) -> Value {
        let first = json!({ "first": MAX_PER_PAGE });
        json!({
            "id": node_id("PullRequestReviewThread", root.id),
            "isResolved": repo.resolved.contains_key(&root.id),
            "isOutdated": root.line.is_none(),
            "path": root.path,
            "line": root.line,
            "startLine": root.line.and(root.start_line),
            "originalLine": root.original_line,
            "diffSide": root.side.word(),
            "comments": page(&repo.thread(root.id), &first, |comment| self.shape_thread_comment(comment)),
        })
    }

    fn shape_thread_comment(&self, comment: &ReviewComment) -> Value {
        let author = self.accounts.get(&comment.author).map(|account| {
            json!({
                "__typename": account.kind,
                "login": account.login.trim_end_matches("[bot]"),
                "databaseId": account.id,
            })
        });
        let big = |id: u64| json!({ "fullDatabaseId": id.to_string() });
        json!({
            "fullDatabaseId": comment.id.to_string(),
            "body": comment.body,
            "createdAt": time(comment.created_at),
            "updatedAt": time(comment.updated_at),
            "diffHunk": comment.hunk,
            "author": author,
            "originalCommit": { "oid": comment.commit },
            "replyTo": comment.in_reply_to.map(big),
            "pullRequestReview": big(comment.review),
        })
    }

    fn thread_comments(&self, caller: &Caller, variables: &Value) -> Result<Value, Problem> {
        let (id, root) = self.thread_named(&variables["thread"])?;
        self.allowed(caller, id, Level::Read)?;
        let comments = self.repo(id)?.thread(root);
        let variables = json!({ "first": MAX_PER_PAGE, "after": variables["after"] });
        let page = page(&comments, &variables, |comment| self.shape_thread_comment(comment));
        Ok(json!({ "node": { "comments": page } }))
    }

    fn resolve(&mut self, caller: &Caller, variables: &Value) -> Result<Value, Problem> {
        let (id, root) = self.thread_named(&variables["thread"])?;
        self.allowed(caller, id, Level::Write)?;
        let bot = self.app.bot;
        self.repo_mut(id)?.resolved.entry(root).or_insert(bot);
        let thread = json!({ "id": variables["thread"], "isResolved": true });
        Ok(json!({ "resolveReviewThread": { "thread": thread } }))
    }

    fn mark_ready(&mut self, caller: &Caller, variables: &Value) -> Result<Value, Problem> {
        let node = variables["pull"].as_str().unwrap_or_default();
        let wanted = number_of("PullRequest", node);
        let found = self.repos.values().find_map(|repo| {
            let pull = repo.pulls.values().find(|pull| Some(pull.id) == wanted)?;
            Some((repo.id, pull.number))
        });
        let (repo, number) = found.ok_or_else(|| Problem::not_found("node", node))?;
        self.allowed(caller, repo, Level::Write)?;
        self.set_draft(repo, number, self.app.bot, false)?;
        let pull = json!({ "id": node, "isDraft": false });
        Ok(json!({ "markPullRequestReadyForReview": { "pullRequest": pull } }))
    }

    /// The repository and the first comment of a thread.
    fn thread_named(&self, node: &Value) -> Result<(u64, u64), Problem> {
        let node = node.as_str().unwrap_or_default();
        let root = number_of("PullRequestReviewThread", node);
        let found = self.repos.values().find_map(|repo| {
            let root = repo.review_comments.get(&root?)?;
            Some((repo.id, root.id))
        });
        found.ok_or_else(|| Problem::not_found("node", node))
    }

    fn allowed(&self, caller: &Caller, repo: u64, level: Level) -> Result<(), Refused> {
        self.authorize(caller, repo, &["pull_requests"], level)
    }
}

impl Repo {
    /// The comments of a thread by its first one.
    pub(super) fn thread(&self, root: u64) -> Vec<&ReviewComment> {
        let comments = self.review_comments.values();
        comments
            .filter(|comment| comment.id == root || comment.in_reply_to == Some(root))
            .collect()
    }
}

/// One page of a connection; a cursor is the number of items before it.
fn page<T>(items: &[T], variables: &Value, shape: impl Fn(&T) -> Value) -> Value {
    let first = variables["first"].as_u64().unwrap_or(0) as usize;
    let first = first.min(MAX_PER_PAGE);
    let skipped: usize = variables["after"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let shown: Vec<Value> = items.iter().skip(skipped).take(first).map(shape).collect();
    let end = skipped + shown.len();
    json!({
        "pageInfo": { "hasNextPage": end < items.len(), "endCursor": (!shown.is_empty()).then(|| end.to_string()) },
        "nodes": shown,
    })
}

/// A conversation about lines, as a test sees it.
#[derive(Debug, Clone)]
pub struct Thread {
    /// The comment that it began with.
    pub root: ReviewComment,
    /// What was answered, oldest first.
    pub replies: Vec<ReviewComment>,
    /// Login of who resolved it.
    pub resolved_by: Option<String>,
}

impl GitHubDouble {
    /// The threads of a pull request, oldest first.
    pub fn threads(&self, repo: &str, number: u64) -> anyhow::Result<Vec<Thread>> {
        let state = self.lock();
        let repo = state.repo_named(repo)?;
        let roots = repo.review_comments.values();
        let roots = roots.filter(|comment| comment.number == number && comment.in_reply_to.is_none());
        let thread = |root: &ReviewComment| Thread {
            root: root.clone(),
            replies: repo.thread(root.id).into_iter().skip(1).cloned().collect(),
            resolved_by: repo.resolved.get(&root.id).map(|id| {
                let account = state.accounts.get(id);
                account.map_or_else(|| "ghost".to_owned(), |account| account.login.clone())
            }),
        };
        Ok(roots.map(thread).collect())
    }

    /// Somebody resolves the thread that begins with a comment.
    pub fn resolve_thread(&self, repo: &str, root: u64, by: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let who = state.actor(by)?;
        let repo = state.repo_named_mut(repo)?;
        repo.review_comments.get(&root).context("no such review comment")?;
        repo.resolved.insert(root, who);
        Ok(())
    }

    /// Somebody takes a pull request out of draft, or makes it one.
    pub fn set_draft(&self, repo: &str, number: u64, draft: bool, by: &str) -> anyhow::Result<()> {
        self.act(repo, by, |state, repo, who| state.set_draft(repo, number, who, draft))
    }

    /// Whether maintainers of the base may push to the fork that a pull request comes from.
    pub fn allow_maintainer_edits(&self, repo: &str, number: u64, allowed: bool) -> anyhow::Result<()> {
        let mut state = self.lock();
        let pull = state.repo_named_mut(repo)?.pulls.get_mut(&number);
        pull.context("no such pull request")?.maintainer_can_modify = allowed;
        Ok(())
    }

    /// What GitHub has found out about whether a pull request can be merged. A push makes it
    /// unknown again.
    pub fn set_mergeable(&self, repo: &str, number: u64, mergeable: Option<bool>) -> anyhow::Result<()> {
        let mut state = self.lock();
        let pull = state.repo_named_mut(repo)?.pulls.get_mut(&number);
        pull.context("no such pull request")?.mergeable = mergeable;
        Ok(())
    }
}
