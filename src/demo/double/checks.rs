//! Check runs, check suites and commit statuses: their routes, and how other Apps and GitHub
//! Actions report. Called by `routes` and by tests. Never runs a check.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::issues::text;
use super::noun::Repo;
use super::routes::Call;
use super::state::State;

/// The slug of the App that runs a repository's workflows, and its id on github.com.
const ACTIONS: (&str, u64) = ("github-actions", 15_368);

/// GitHub's limit for the summary and the text of a check run.
const MAX_OUTPUT_CHARS: usize = 65_535;

/// GitHub's limit for remarks in one call.
const MAX_ANNOTATIONS: usize = 50;

const STATUSES: [&str; 3] = ["queued", "in_progress", "completed"];

const CONCLUSIONS: [&str; 8] = [
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "success",
    "skipped",
    "stale",
    "timed_out",
];

/// A check run.
#[derive(Debug, Clone)]
pub struct CheckRun {
    /// Id.
    pub id: u64,
    /// Account id of the bot of the App that made it.
    pub by: u64,
    /// Whether our App made it.
    pub ours: bool,
    /// The commit.
    pub head_sha: String,
    /// Name.
    pub name: String,
    /// What its maker calls it.
    pub external_id: String,
    /// `queued`, `in_progress`, `completed`.
    pub status: String,
    /// Once completed.
    pub conclusion: Option<String>,
    /// Title of what it says.
    pub title: Option<String>,
    /// Summary.
    pub summary: Option<String>,
    /// Details.
    pub text: Option<String>,
    /// Where its maker shows it.
    pub details_url: Option<String>,
    /// Remarks on lines as they were sent.
    pub annotations: Vec<Value>,
    /// How often somebody asked that it runs again.
    pub rerequested: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// The suite it belongs to.
    pub suite: u64,
}

/// All runs of one App for a commit.
#[derive(Debug, Clone)]
pub(super) struct Suite {
    pub(super) id: u64,
    pub(super) by: u64,
    pub(super) head_sha: String,
    pub(super) created_at: DateTime<Utc>,
}

/// A commit status.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) id: u64,
    pub(super) sha: String,
    pub(super) context: String,
    pub(super) state: String,
    pub(super) description: Option<String>,
    pub(super) at: DateTime<Utc>,
}

/// What another App reports.
#[derive(Debug, Clone, Copy)]
pub struct ForeignCheck<'a> {
    /// Slug of the App; `github-actions` is GitHub's own.
    pub app: &'a str,
    /// Name.
    pub name: &'a str,
    /// `queued`, `in_progress`, `completed`.
    pub status: &'a str,
    /// Once completed.
    pub conclusion: Option<&'a str>,
    /// Title of what it says.
    pub title: &'a str,
    /// Summary.
    pub summary: &'a str,
}

impl Repo {
    /// The latest runs of each name and App for a commit, as GitHub lists them.
    fn latest_runs(&self, sha: &str) -> Vec<&CheckRun> {
        let of_sha = || self.check_runs.values().filter(|run| run.head_sha == sha);
        of_sha()
            .filter(|run| !of_sha().any(|other| other.name == run.name && other.by == run.by && other.id > run.id))
            .collect()
    }

    /// The commit that a name in an address leads to.
    fn commit_of(&self, name: &str) -> String {
        let branch = name.strip_prefix("heads/").unwrap_or(name);
        self.branch(branch).cloned().unwrap_or_else(|| name.to_owned())
    }

    pub(super) fn suite_state(&self, suite: &Suite) -> (&'static str, Option<&str>, usize) {
        let runs = self.check_runs.values().filter(|run| run.suite == suite.id);
        let runs: Vec<&CheckRun> = runs.collect();
        if runs.is_empty() {
            return ("queued", None, 0);
        }
        if runs.iter().any(|run| run.status != "completed") {
            return ("in_progress", None, runs.len());
        }
        // The worst of them is the suite's.
        let worst = [
            "failure",
            "timed_out",
            "action_required",
            "cancelled",
            "stale",
            "success",
            "neutral",
            "skipped",
        ];
        let has = |conclusion: &&&str| runs.iter().any(|run| run.conclusion.as_deref() == Some(**conclusion));
        ("completed", worst.iter().find(has).copied(), runs.len())
    }
}

impl State {
    fn suite_for(&mut self, repo: u64, by: u64, sha: &str) -> Result<u64, Refused> {
        let found = self.repo(repo)?.suites.values();
        if let Some(suite) = found.into_iter().find(|suite| suite.by == by && suite.head_sha == sha) {
            return Ok(suite.id);
        }
        let suite = Suite {
            id: self.fresh_id(),
            by,
            head_sha: sha.to_owned(),
            created_at: self.now(),
        };
        let id = suite.id;
        self.repo_mut(repo)?.suites.insert(id, suite);
        Ok(id)
    }

    pub(super) fn list_check_runs(&self, call: &Call, repo: u64, name: &str) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let runs = repo.latest_runs(&repo.commit_of(name));
        let runs: Vec<&CheckRun> = runs
            .into_iter()
            .filter(|run| call.query("check_name").is_none_or(|name| name == run.name) && call.shows(run.started_at))
            .collect();
        let total = runs.len();
        let mut answer = call.page(runs, |run| self.shape_check_run(repo, run))?;
        answer.body = json!({ "total_count": total, "check_runs": answer.body });
        Ok(answer)
    }

    pub(super) fn get_combined_status(&self, call: &Call, repo: u64, name: &str) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let sha = repo.commit_of(name);
        let of_sha = || repo.statuses.iter().filter(|status| status.sha == sha);
        let latest: Vec<&Status> = of_sha()
            .filter(|status| !of_sha().any(|other| other.context == status.context && other.id > status.id))
            .collect();
        let any = |states: &[&str]| latest.iter().any(|status| states.contains(&status.state.as_str()));
        // Without any status GitHub says `pending`.
        let state = match (any(&["failure", "error"]), any(&["pending"]) || latest.is_empty()) {
            (true, _) => "failure",
            (false, true) => "pending",
            (false, false) => "success",
        };
        let total = latest.len();
        let mut answer = call.page(latest, |status| self.shape_status(repo, status))?;
        let api = format!("{}/repos/{}/commits/{sha}", self.api(), repo.full_name());
        answer.body = json!({
            "state": state,
            "sha": sha,
            "total_count": total,
            "statuses": answer.body,
            "repository": self.shape_repository(repo.id),
            "commit_url": api,
            "url": format!("{api}/status"),
        });
        Ok(answer)
    }

    pub(super) fn get_check_run(&self, repo: u64, id: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let run = repo.check_runs.get(&id).ok_or_else(Refused::not_found)?;
        Answer::ok(self.shape_check_run(repo, run))
    }

    pub(super) fn list_annotations(&self, call: &Call, repo: u64, id: u64) -> Result<Answer, Refused> {
        let repo = self.repo(repo)?;
        let run = repo.check_runs.get(&id).ok_or_else(Refused::not_found)?;
        let (web, sha) = (format!("{}/{}", self.origin, repo.full_name()), &run.head_sha);
        let shape = |remark: &Value| {
            // What an App left out is there all the same.
            let mut shown = json!({ "title": null, "raw_details": null, "start_column": null, "end_column": null });
            for (key, value) in remark.as_object().into_iter().flatten() {
                shown[key] = value.clone();
            }
            let path = remark["path"].as_str().unwrap_or_default();
            shown["blob_href"] = format!("{web}/blob/{sha}/{path}").into();
            shown
        };
        call.page(run.annotations.iter().collect(), shape)
    }

    pub(super) fn post_check_run(&mut self, call: &Call, repo_id: u64) -> Result<Answer, Refused> {
        let (name, sha) = (text(call, "CheckRun", "name")?, text(call, "CheckRun", "head_sha")?);
        if !self.repo(repo_id)?.knows(sha) {
            return Err(Refused::new(422, &format!("No commit found for SHA: {sha}")));
        }
        let by = self.app.bot;
        let suite = self.suite_for(repo_id, by, sha)?;
        let mut run = CheckRun {
            id: self.fresh_id(),
            by,
            ours: true,
            head_sha: sha.to_owned(),
            name: name.to_owned(),
            external_id: call.body["external_id"].as_str().unwrap_or_default().to_owned(),
            status: "queued".to_owned(),
            conclusion: None,
            title: None,
            summary: None,
            text: None,
            details_url: None,
            annotations: Vec::new(),
            rerequested: 0,
            started_at: self.now(),
            completed_at: None,
            suite,
        };
        run.take(&call.body, self.now())?;
        let mut answer = self.put_check_run(repo_id, run, "created")?;
        answer.status = 201;
        Ok(answer)
    }

    pub(super) fn patch_check_run(&mut self, call: &Call, repo: u64, id: u64) -> Result<Answer, Refused> {
        let now = self.now();
        let mut run = self.own_check_run(repo, id)?;
        run.take(&call.body, now)?;
        self.put_check_run(repo, run, "")
    }

    fn own_check_run(&self, repo: u64, id: u64) -> Result<CheckRun, Refused> {
        let run = self.repo(repo)?.check_runs.get(&id).ok_or_else(Refused::not_found)?;
        if run.by != self.app.bot {
            let words = "Invalid app_id `{}` - check run can only be modified by the GitHub App that created it.";
            return Err(Refused::new(403, &words.replace("{}", &self.app.id.to_string())));
        }
        Ok(run.clone())
    }

    /// Stores a run and tells about it: made, completed, and the suite when it is the last.
    fn put_check_run(&mut self, repo: u64, run: CheckRun, made: &str) -> Result<Answer, Refused> {
        let (id, by, suite) = (run.id, run.by, run.suite);
        let before = self.repo_mut(repo)?.check_runs.insert(id, run.clone());
        let ended = run.status == "completed" && before.is_none_or(|before| before.status != "completed");
        if made == "created" {
            self.emit_check_run(repo, id, "created", by)?;
        }
        if ended {
            self.emit_check_run(repo, id, "completed", by)?;
            let world = self.repo(repo)?;
            let suite = world.suites.get(&suite).ok_or_else(Refused::not_found)?;
            if world.suite_state(suite).0 == "completed" {
                let about = json!({ "check_suite": self.shape_suite(world, suite) });
                self.emit(repo, "check_suite", Some("completed"), by, about);
            }
        }
        self.get_check_run(repo, id)
    }

    fn emit_check_run(&mut self, repo: u64, id: u64, action: &str, who: u64) -> Result<(), Refused> {
        let world = self.repo(repo)?;
        let run = world.check_runs.get(&id).ok_or_else(Refused::not_found)?;
        let about = json!({ "check_run": self.shape_check_run(world, run) });
        self.emit(repo, "check_run", Some(action), who, about);
        Ok(())
    }

    /// Asks that a check runs again; its App hears of it.
    pub(super) fn rerequest_check_run(&mut self, repo: u64, id: u64) -> Result<Answer, Refused> {
        let bot = self.app.bot;
        let run = self
            .repo_mut(repo)?
            .check_runs
            .get_mut(&id)
            .ok_or_else(Refused::not_found)?;
        if run.status != "completed" {
            return Err(Refused::new(422, "This check run is not completed yet."));
        }
        run.rerequested += 1;
        if run.by == bot {
            self.emit_check_run(repo, id, "rerequested", bot)?;
        }
        Ok(Answer::new(201, json!({})))
    }
}

impl CheckRun {
    /// Takes over what a request says.
    fn take(&mut self, body: &Value, now: DateTime<Utc>) -> Result<(), Refused> {
        let invalid = |field: &str, message: &str| Refused::invalid("CheckRun", field, "invalid", Some(message));
        if let Some(status) = body["status"].as_str() {
            if !STATUSES.contains(&status) {
                return Err(invalid("status", "not a status"));
            }
            status.clone_into(&mut self.status);
        }
        if let Some(conclusion) = body["conclusion"].as_str() {
            if !CONCLUSIONS.contains(&conclusion) {
                return Err(invalid("conclusion", "not a conclusion"));
            }
            self.conclusion = Some(conclusion.to_owned());
            "completed".clone_into(&mut self.status);
        }
        match (self.status.as_str(), &self.conclusion) {
            ("completed", None) => return Err(invalid("conclusion", "a completed check run needs a conclusion")),
            ("completed", Some(_)) => self.completed_at = self.completed_at.or(Some(now)),
            _ => (self.conclusion, self.completed_at) = (None, None),
        }
        if let Some(url) = body["details_url"].as_str() {
            self.details_url = Some(url.to_owned());
        }
        let Some(output) = body["output"].as_object() else {
            return Ok(());
        };
        for (name, place) in [
            ("title", &mut self.title),
            ("summary", &mut self.summary),
            ("text", &mut self.text),
        ] {
            let Some(words) = output.get(name).and_then(Value::as_str) else {
                continue;
            };
            if name != "title" && words.chars().count() > MAX_OUTPUT_CHARS {
                let message = format!("Only {MAX_OUTPUT_CHARS} characters are allowed");
                return Err(invalid(name, &message));
            }
            *place = Some(words.to_owned());
        }
        if self.title.is_none() || self.summary.is_none() {
            return Err(invalid("output", "title and summary are required"));
        }
        let annotations = output.get("annotations").and_then(Value::as_array);
        let annotations = annotations.map(Vec::as_slice).unwrap_or_default();
        if annotations.len() > MAX_ANNOTATIONS {
            return Err(invalid("annotations", "no more than 50 annotations in one request"));
        }
        let whole = |annotation: &&Value| {
            let required = ["path", "start_line", "end_line", "annotation_level", "message"];
            required.iter().all(|name| !annotation[*name].is_null())
        };
        if !annotations.iter().all(|annotation| whole(&annotation)) {
            return Err(invalid("annotations", "a field of an annotation is missing"));
        }
        self.annotations.extend(annotations.iter().cloned());
        Ok(())
    }
}

impl GitHubDouble {
    /// GitHub Actions reports about a commit and gives the run's id: the same name again moves
    /// the same run on.
    pub fn set_check(
        &self,
        repo: &str,
        sha: &str,
        name: &str,
        status: &str,
        conclusion: Option<&str>,
    ) -> anyhow::Result<u64> {
        let check = ForeignCheck {
            app: ACTIONS.0,
            name,
            status,
            conclusion,
            title: name,
            summary: "",
        };
        self.set_check_of(repo, sha, check)
    }

    /// Another App reports about a commit.
    pub fn set_check_of(&self, repo: &str, sha: &str, check: ForeignCheck<'_>) -> anyhow::Result<u64> {
        self.change(|state| {
            let repo = state.repo_named(repo)?.id;
            state.foreign_check(repo, sha, &check).context("report a check")
        })
    }

    /// A check run says something to a line.
    pub fn annotate_check(&self, repo: &str, id: u64, path: &str, line: u64, message: &str) -> anyhow::Result<()> {
        self.change(|state| {
            let repo = state.repo_named(repo)?.id;
            let run = state.repo_mut(repo).ok().and_then(|repo| repo.check_runs.get_mut(&id));
            let run = run.context("there is no such check run")?;
            run.annotations.push(json!({
                "path": path, "start_line": line, "end_line": line, "start_column": null, "end_column": null,
                "annotation_level": "failure", "title": null, "message": message, "raw_details": null,
                "blob_href": "",
            }));
            Ok(())
        })
    }

    /// Somebody's CI sets a commit status (`pending`, `success`, `failure`, `error`).
    pub fn set_status(&self, repo: &str, sha: &str, context: &str, state: &str, by: &str) -> anyhow::Result<()> {
        self.change(|world| {
            let who = world.actor(by)?;
            let repo = world.repo_named(repo)?.id;
            let status = Status {
                id: world.fresh_id(),
                sha: sha.to_owned(),
                context: context.to_owned(),
                state: state.to_owned(),
                description: None,
                at: world.now(),
            };
            world.put_status(repo, who, status).context("set a status")
        })
    }

    /// All check runs of a commit, oldest first.
    pub fn check_runs(&self, repo: &str, sha: &str) -> anyhow::Result<Vec<CheckRun>> {
        let state = self.lock();
        let runs = state.repo_named(repo)?.check_runs.values();
        Ok(runs.filter(|run| run.head_sha == sha).cloned().collect())
    }

    /// The check runs that our App made, for any commit, oldest first.
    pub fn our_check_runs(&self, repo: &str) -> anyhow::Result<Vec<CheckRun>> {
        let state = self.lock();
        let runs = state.repo_named(repo)?.check_runs.values();
        Ok(runs.filter(|run| run.ours).cloned().collect())
    }
}

impl State {
    fn foreign_check(&mut self, repo: u64, sha: &str, check: &ForeignCheck<'_>) -> Result<u64, Refused> {
        let login = format!("{}[bot]", check.app);
        let app = if check.app == ACTIONS.0 {
            ACTIONS.1
        } else {
            self.fresh_id()
        };
        let by = self.add_account(&login, "Bot", Some(app));
        let suite = self.suite_for(repo, by, sha)?;
        let known = self.repo(repo)?.latest_runs(sha);
        let known = known
            .into_iter()
            .find(|run| run.by == by && run.name == check.name)
            .cloned();
        let (made, mut run) = match known {
            Some(run) => ("", run),
            None => {
                let run = CheckRun {
                    id: self.fresh_id(),
                    by,
                    ours: false,
                    head_sha: sha.to_owned(),
                    name: check.name.to_owned(),
                    external_id: String::new(),
                    status: "queued".to_owned(),
                    conclusion: None,
                    title: None,
                    summary: None,
                    text: None,
                    details_url: None,
                    annotations: Vec::new(),
                    rerequested: 0,
                    started_at: self.now(),
                    completed_at: None,
                    suite,
                };
                ("created", run)
            }
        };
        let mut body = json!({
            "status": check.status,
            "output": { "title": check.title, "summary": check.summary },
            "details_url": format!("{}/ci/{sha}", self.origin),
        });
        if let Some(conclusion) = check.conclusion {
            body["conclusion"] = conclusion.into();
        }
        run.take(&body, self.now())?;
        let id = run.id;
        self.put_check_run(repo, run, made)?;
        Ok(id)
    }

    fn put_status(&mut self, repo: u64, who: u64, status: Status) -> Result<(), Refused> {
        if !["pending", "success", "failure", "error"].contains(&status.state.as_str()) {
            return Err(Refused::invalid("Status", "state", "invalid", None));
        }
        let about = self.shape_status_event(self.repo(repo)?, &status, who);
        self.repo_mut(repo)?.statuses.push(status);
        self.emit(repo, "status", None, who, about);
        Ok(())
    }
}
