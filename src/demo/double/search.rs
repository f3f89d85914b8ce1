//! The search over issues and pull requests, and sub-issues. Called by `routes` and by tests.
//! Never finds what the caller may not see.

use serde_json::json;

use super::GitHubDouble;
use super::access::{Caller, Level};
use super::answer::{Answer, Refused};
use super::noun::{Issue, Repo};
use super::routes::Call;
use super::state::State;

/// GitHub's limit for what is searched for.
const MAX_QUERY_CHARS: usize = 256;

/// What a query asks for.
#[derive(Debug, Default)]
struct Query {
    words: Vec<String>,
    repo: Option<String>,
    /// Qualifiers with their values, in lower case, and whether they must not hold.
    qualifiers: Vec<(String, String, bool)>,
}

/// Qualifiers that the double knows, beside `repo`.
const QUALIFIERS: [&str; 6] = ["is", "label", "milestone", "author", "no", "state"];

impl Query {
    fn read(text: &str) -> Result<Self, Refused> {
        let invalid = |message: &str| Refused::invalid("Search", "q", "invalid", Some(message));
        let mut query = Self::default();
        for part in parts(text) {
            let (part, is_negated) = match part.strip_prefix('-') {
                Some(rest) => (rest, true),
                None => (part.as_str(), false),
            };
            match part.split_once(':') {
                Some(("repo", name)) => query.repo = Some(name.to_owned()),
                Some((name, value)) if QUALIFIERS.contains(&name) => {
                    let qualifier = (name.to_owned(), value.to_lowercase(), is_negated);
                    query.qualifiers.push(qualifier);
                }
                Some(_) => return Err(invalid("the GitHub double does not know this qualifier")),
                None => query.words.push(part.to_lowercase()),
            }
        }
        let length: usize = query.words.iter().map(|word| word.chars().count() + 1).sum();
        if length > MAX_QUERY_CHARS {
            return Err(invalid("The search is longer than 256 characters."));
        }
        if query.words.is_empty() && query.repo.is_none() && query.qualifiers.is_empty() {
            return Err(Refused::invalid("Search", "q", "missing", None));
        }
        Ok(query)
    }

    fn fits(&self, state: &State, repo: &Repo, issue: &Issue) -> bool {
        let pull = repo.pulls.get(&issue.number);
        let milestone = issue.milestone.and_then(|number| repo.milestones.get(&number));
        let holds = |name: &str, value: &str| match (name, value) {
            ("is" | "state", "open") => issue.open,
            ("is" | "state", "closed") => !issue.open,
            ("is", "issue") => pull.is_none(),
            ("is", "pr" | "pull-request") => pull.is_some(),
            ("is", "merged") => pull.is_some_and(|pull| pull.merged_at.is_some()),
            ("label", name) => issue.labels.iter().any(|label| label.to_lowercase() == name),
            ("milestone", title) => milestone.is_some_and(|milestone| milestone.title.to_lowercase() == title),
            ("author", login) => {
                let author = state.accounts.get(&issue.author);
                author.is_some_and(|author| author.login.to_lowercase() == login)
            }
            ("no", "label") => issue.labels.is_empty(),
            ("no", "milestone") => milestone.is_none(),
            ("no", "assignee") => true, // nobody is assigned here
            _ => false,
        };
        let text = format!("{} {}", issue.title, issue.body.as_deref().unwrap_or_default()).to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut qualifiers = self.qualifiers.iter();
        qualifiers.all(|(name, value, is_negated)| holds(name, value) != *is_negated)
            && self.words.iter().all(|word| words.contains(&word.as_str()))
    }
}

/// The parts of a query; quotes hold words together and are gone then.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut is_quoted) = (vec![String::new()], false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => parts.push(String::new()),
            c => parts.last_mut().expect("there is a part").push(c),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

impl State {
    /// `GET /search/issues`: all words must be in the title or body.
    pub(super) fn search_issues(&self, call: &Call, caller: &Caller) -> Result<Answer, Refused> {
        let query = Query::read(call.query("q").unwrap_or_default())?;
        let may_see = |repo: &&Repo| {
            self.authorize(caller, repo.id, &["issues", "pull_requests"], Level::Read)
                .is_ok()
        };
        let repos: Vec<&Repo> = match &query.repo {
            None => self.repos.values().filter(may_see).collect(),
            Some(name) => {
                let found = self.find_repo(name).and_then(|id| self.repos.get(&id)).filter(may_see);
                let message = "The listed users and repositories cannot be searched either because the resources do \
                               not exist or you do not have permission to view them.";
                vec![found.ok_or_else(|| Refused::invalid("Search", "q", "invalid", Some(message)))?]
            }
        };
        let found = repos.iter().flat_map(|repo| {
            let fits = |issue: &&Issue| query.fits(self, repo, issue) && call.shows(issue.created_at);
            repo.issues.values().filter(fits).map(|issue| (*repo, issue))
        });
        let mut found: Vec<(&Repo, &Issue)> = found.collect();
        if call.query("order") != Some("asc") && call.query("sort").is_some() {
            found.reverse();
        }
        let total = found.len();
        let mut answer = call.page(found, |(repo, issue)| {
            let mut shape = self.shape_issue(repo, issue);
            shape["score"] = json!(1.0);
            shape
        })?;
        answer.body = json!({ "total_count": total, "incomplete_results": false, "search_type": "lexical", "items": answer.body });
        Ok(answer)
    }

    /// `POST /issues/{number}/sub_issues`.
    pub(super) fn post_sub_issue(&mut self, call: &Call, repo_id: u64, parent: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo_id)?;
        repo.issues.get(&parent).ok_or_else(Refused::not_found)?;
        let id = call.body["sub_issue_id"].as_u64();
        let child = repo.issues.values().find(|issue| Some(issue.id) == id);
        let number = child
            .ok_or_else(|| Refused::new(404, "The provided sub-issue does not exist"))?
            .number;
        if number == parent || repo.sub_issues.values().flatten().any(|known| *known == number) {
            let message = "Issue may not contain duplicate sub-issues and Sub issue may only have one parent";
            return Err(Refused::new(422, message));
        }
        self.repo_mut(repo_id)?
            .sub_issues
            .entry(parent)
            .or_default()
            .push(number);
        let mut answer = self.get_issue(repo_id, parent)?;
        answer.status = 201;
        Ok(answer)
    }
}

impl GitHubDouble {
    /// All issues, without pull requests, oldest first.
    pub fn issues(&self, repo: &str) -> anyhow::Result<Vec<Issue>> {
        let state = self.lock();
        let repo = state.repo_named(repo)?;
        let issues = repo
            .issues
            .values()
            .filter(|issue| !repo.pulls.contains_key(&issue.number));
        Ok(issues.cloned().collect())
    }

    /// Numbers of the sub-issues of an issue.
    pub fn sub_issues(&self, repo: &str, number: u64) -> anyhow::Result<Vec<u64>> {
        let state = self.lock();
        let known = state.repo_named(repo)?.sub_issues.get(&number);
        Ok(known.cloned().unwrap_or_default())
    }

    /// Makes a label that no issue has yet.
    pub fn add_repo_label(&self, repo: &str, name: &str) -> anyhow::Result<()> {
        let mut state = self.lock();
        let id = state.repo_named(repo)?.id;
        state.ensure_label(id, name)?;
        Ok(())
    }

    /// Gives the App's installation a permission (`read` or `write`), or takes it (`none`), as its
    /// owner would. Tokens that were minted before keep what they have.
    pub fn set_permission(&self, name: &str, level: &str) {
        let permissions = &mut self.lock().installation.permissions;
        match Level::parse(level) {
            Some(level) => permissions.insert(name.to_owned(), level),
            None => permissions.remove(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read() {
        let query = Query::read("Parser drops repo:octo/widgets is:open -label:\"not yet\"").unwrap();
        assert_eq!(query.words, ["parser", "drops"]);
        assert_eq!(query.repo.as_deref(), Some("octo/widgets"));
        let qualifier = |name: &str, value: &str, is_negated| (name.to_owned(), value.to_owned(), is_negated);
        let expected = [qualifier("is", "open", false), qualifier("label", "not yet", true)];
        assert_eq!(query.qualifiers, expected);
        for text in ["", "reactions:>3", &"long ".repeat(60)] {
            assert!(Query::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_are_in_githubs_form() {
        let answer: Answer = Query::read("").unwrap_err().into();
        assert_eq!(answer.body["errors"][0]["code"], "missing");
    }
}
