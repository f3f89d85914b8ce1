//! What is asked: the issue or pull request as it stood at the trigger, the discussion up to then,
//! the repository's own rules at the tip of the default branch, and the commit to start from.
//! Never lets text in that was written or edited after the trigger, and reads configuration and
//! instructions from the default branch only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dev_container::add_image_of_dev_container;
use super::guidance::text_of;
use super::template::template_of;
use super::{Ports, SetupOf, Work, checks, guidance_of, reviewing, threads};
use crate::agent::Brief;
use crate::event::RunEvent;
use crate::git::{GitError, Remote};
use crate::github::{Comment, Issue, Pull, PullRepo, RepoClient, Repository};
use crate::ids::{BranchName, CommitSha, IssueNumber, Subject};
use crate::job::{Job, JobError, JobKind, Outcome, Trigger};
use crate::phrase::{Language, reason, run as words, thread as thread_words};
use crate::recorder::Recorder;
use crate::repo_config::{MAX_REPO_CONFIG_BYTES, PullRules, REPO_CONFIG_PATH, RepoConfig};
use crate::text;
use crate::tool::Mode;
use crate::workspace::{Commands, detect_commands};

/// Where the result shall go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A new branch and a pull request to this base, closing this issue where there is one.
    NewPull {
        /// Where the pull request goes.
        base: BranchName,
        /// The issue it closes.
        issue: Option<IssueNumber>,
        /// The title of the issue or task.
        title: String,
        /// How it is opened.
        rules: PullRules,
    },
    /// More commits on the branch of an existing pull request.
    ExistingPull {
        /// Its number.
        number: IssueNumber,
        /// Its branch.
        branch: BranchName,
        /// Its head when work began.
        head: CommitSha,
        /// The branch that it shall go to.
        base: BranchName,
        /// Where its branch is, when it is not in the same repository.
        fork: Option<Fork>,
    },
}

/// The fork that a pull request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The repository; nothing when it was deleted.
    pub repo: Option<PullRepo>,
    /// Whether its author lets maintainers push to the branch.
    pub may_modify: bool,
}

/// Everything known before work begins.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// What is to be done.
    pub work: Work,
    /// Where it goes.
    pub target: Target,
}

/// Longest time a mirror may take to be refreshed.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(900);
/// Most comments of a discussion that are read.
const MAX_COMMENTS: usize = 200;
/// Most labels of a repository that are told.
const MAX_LABELS: usize = 100;
/// Most bytes of a discussion that go into the brief.
const MAX_DISCUSSION_BYTES: usize = 40 * 1024;
/// Most bytes of a pull request with its difference, for a review.
const MAX_REVIEWED_BYTES: usize = 160 * 1024;
/// Most bytes of one file of instructions.
const MAX_RULES_BYTES: u64 = 64 * 1024;
/// Most paths that are listed for orientation and for finding commands.
const MAX_FILES: usize = 20_000;
/// Most texts that are read to find out commands.
const MAX_TEXTS: usize = 64;
/// Files with instructions for agents, each read once, in this order.
pub(super) const RULE_FILES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md"];

/// Reads the request and refreshes the mirror.
///
/// # Errors
/// [`JobError::End`] when the request cannot or need not be worked on; others as they pass.
pub async fn gather(
    ports: &Ports,
    job: &Job,
    client: &RepoClient,
    mirror: PathBuf,
    before: Option<&BranchName>,
    recorder: &Recorder,
) -> Result<Gathered, JobError> {
    let repository = client.repository().await?;
    let asked = match job.subject.number() {
        Some(number) => {
            let issue = client.issue(number).await?;
            still_wanted(ports.language, job, &issue)?;
            Asked {
                number: Some(number),
                title: issue.title,
                body: issue.body,
            }
        }
        None => planned(job)?,
    };
    let remote = Remote {
        url: client.git_url(),
        token: Some(client.git_token().await?),
    };
    let pull = match (&job.subject, before) {
        (Subject::Pull(number), _) => Some(workable(ports.language, client.pull(*number).await?, job)?),
        (Subject::Task(_), Some(branch)) => open_pull(client, &repository, branch).await?,
        _ => None,
    };
    let extra_refs: Vec<String> = pull
        .iter()
        .map(|pull| format!("refs/pull/{}/head", pull.number))
        .collect();
    ports
        .git
        .refresh_mirror(&mirror, &remote, &extra_refs, MIRROR_TIMEOUT)
        .await?;
    let reader = Reader {
        ports,
        mirror: &mirror,
        remote: &remote,
    };
    let default = reader.resolve(&repository.default_branch).await?;
    let repo_config = repo_config(&reader, &default, recorder).await?;
    let (base, target) = target(&reader, &repository, &default, &repo_config, &asked, pull.as_ref()).await?;
    // Of a task's own pull request, nobody asked for what stands there.
    let pull = pull.filter(|_| asked.number.is_some());
    let mut brief = brief(
        job,
        &asked,
        client,
        &reader,
        &repo_config,
        &default,
        &base,
        pull.as_ref(),
        recorder,
    )
    .await?;
    if brief.mode == Mode::Draft {
        brief.notes.extend(labels_in_words(client).await);
    }
    // The App is installed here, so the default branch is trusted; a pull request's head is not.
    let files = reader.files(&default).await?;
    let guidance = guidance_of(ports, &mirror, &remote, &default, &files).await?;
    let setup = match &repo_config.setup {
        Some(setup) => setup.clone(),
        None => set_up_by(&reader.commands(&base).await?, ports.egress.is_closed()),
    };
    let setup_of = SetupOf {
        is_named: repo_config.setup.is_some(),
        is_default_branch: base == default,
    };
    Ok(Gathered {
        work: Work {
            brief,
            guidance,
            mirror: mirror.clone(),
            remote: remote.clone(),
            base,
            setup,
            setup_of,
            acceptance: acceptance_of(job),
            repo_config,
        },
        target,
    })
}

/// What is asked for, wherever it stands.
struct Asked {
    /// The issue or pull request that holds it.
    number: Option<IssueNumber>,
    title: String,
    body: String,
}

/// A task that no issue holds; its text was fixed when it was planned.
fn planned(job: &Job) -> Result<Asked, JobError> {
    match (&job.subject, &job.pins.title, &job.pins.body) {
        (Subject::Task(_), Some(title), Some(body)) => Ok(Asked {
            number: None,
            title: title.clone(),
            body: body.clone(),
        }),
        _ => Err(JobError::Fail("the job has no issue, pull request or task".to_owned())),
    }
}

/// The command that alone decides whether the work is done.
fn acceptance_of(job: &Job) -> Option<String> {
    match &job.request.trigger {
        Trigger::Milestone { acceptance, .. } => acceptance.clone(),
        _ => None,
    }
}

/// The pull request of an earlier job of the same task, while it is open: more work goes there.
async fn open_pull(
    client: &RepoClient,
    repository: &Repository,
    branch: &BranchName,
) -> Result<Option<Pull>, JobError> {
    let pulls = client.pulls_by_head(branch).await?;
    Ok(pulls
        .into_iter()
        .find(|pull| pull.state == "open" && fork_of(pull, repository).is_none()))
}

/// The commands that set a checkout up: what needs the network only where there is a way out.
fn set_up_by(found: &Commands, is_closed: bool) -> Vec<String> {
    let fetch = found.fetch.iter().filter(|_| !is_closed);
    found.setup.iter().chain(fetch).cloned().collect()
}

/// The trigger still stands: open, labelled, and with the text that the person saw who asked. A
/// person who starts a job again at the command line does so after its end took the label off.
fn still_wanted(language: Language, job: &Job, issue: &Issue) -> Result<(), JobError> {
    let stopped = |reason: String| Err(JobError::End(Outcome::Stopped { reason, branch: None }));
    // What is closed can still be asked about.
    if issue.state != "open" && !matches!(job.kind, JobKind::Ask | JobKind::Draft) {
        return stopped(reason::closed(language, &issue.number.to_string()));
    }
    // We took the label off ourselves when the job ended; who starts it again wants it.
    let first_round = job.round == 0;
    if let Some(label) = job.request.trigger.label()
        && first_round
        && !issue.labels.iter().any(|other| other.name.eq_ignore_ascii_case(label))
    {
        return stopped(reason::unlabelled(language, label));
    }
    if matches!(job.request.trigger, Trigger::Checks { .. }) {
        return Ok(()); // our own continuation: nobody read the text and asked for work on it
    }
    let pinned = (job.pins.title.as_deref(), job.pins.body.as_deref());
    let (Some(title), Some(body)) = pinned else {
        return Err(JobError::End(Outcome::Refused {
            reason: reason::unknown_text(language).to_owned(),
        }));
    };
    if title != issue.title || body != issue.body {
        let reason = reason::edited(language);
        return Err(JobError::End(Outcome::Refused {
            reason: reason.to_owned(),
        }));
    }
    Ok(())
}

/// The labels that a draft can have. Without them it is written all the same.
async fn labels_in_words(client: &RepoClient) -> Option<String> {
    match client.repo_labels(MAX_LABELS).await {
        Ok(labels) => {
            let names: Vec<String> = labels.iter().map(|label| text::cap_chars(&label.name, 60)).collect();
            Some(format!("The labels of the repository: {}", names.join(", ")))
        }
        Err(error) => {
            tracing::info!(%error, "the labels of the repository are not known to the run");
            None
        }
    }
}

/// What the run of a job is for.
fn mode_of(kind: JobKind) -> Mode {
    match kind {
        JobKind::Plan => Mode::Plan,
        JobKind::Ask => Mode::Answer,
        JobKind::Review => Mode::Review,
        JobKind::Draft => Mode::Draft,
        _ => Mode::Change,
    }
}

fn workable(language: Language, pull: Pull, job: &Job) -> Result<Pull, JobError> {
    let refuse = |reason: String| Err(JobError::End(Outcome::Refused { reason }));
    if pull.state != "open" && !matches!(job.kind, JobKind::Ask | JobKind::Draft) {
        return refuse(reason::pull_over(language, &pull.number.to_string(), pull.merged));
    }
    if let Some(pinned) = &job.pins.head_sha
        && *pinned != pull.head.sha
    {
        return refuse(reason::head_moved(language, pinned.short(), pull.head.sha.short()));
    }
    Ok(pull)
}

/// Work on a fork begins at the head that GitHub keeps for its pull request; configuration and rules
/// come from the base repository in any case.
fn fork_of(pull: &Pull, repository: &Repository) -> Option<Fork> {
    let is_here = pull.head.repo.as_ref().is_some_and(|repo| repo.id == repository.id);
    (!is_here).then(|| Fork {
        repo: pull.head.repo.clone(),
        may_modify: pull.maintainer_can_modify,
    })
}

/// The repository's pull request template, as its default branch has it. Without it the body has
/// our own sections.
async fn template(reader: &Reader<'_>, default: &CommitSha) -> Result<Option<String>, JobError> {
    let files = reader.files(default).await?;
    let Some(path) = template_of(&files) else {
        return Ok(None);
    };
    let bytes = reader
        .ports
        .git
        .read_file(reader.mirror, reader.remote, default, path, MAX_RULES_BYTES);
    Ok(text_of(bytes.await)?.ok().flatten())
}

async fn target(
    reader: &Reader<'_>,
    repository: &Repository,
    default: &CommitSha,
    repo_config: &RepoConfig,
    asked: &Asked,
    pull: Option<&Pull>,
) -> Result<(CommitSha, Target), JobError> {
    let branch = |name: &str| {
        name.parse::<BranchName>()
            .map_err(|error| JobError::Fail(error.to_string()))
    };
    if let Some(pull) = pull {
        let target = Target::ExistingPull {
            number: pull.number,
            branch: branch(&pull.head.branch)?,
            head: pull.head.sha.clone(),
            base: branch(&pull.base.branch)?,
            fork: fork_of(pull, repository),
        };
        return Ok((pull.head.sha.clone(), target));
    }
    let base = branch(repo_config.base.as_deref().unwrap_or(&repository.default_branch))?;
    let sha = reader.resolve(base.as_str()).await?;
    let template = template(reader, default).await?;
    let closes = base.as_str() == repository.default_branch;
    let target = Target::NewPull {
        base,
        issue: asked.number,
        title: asked.title.clone(),
        rules: repo_config.pull_rules(closes, template),
    };
    Ok((sha, target))
}

async fn repo_config(reader: &Reader<'_>, default: &CommitSha, recorder: &Recorder) -> Result<RepoConfig, JobError> {
    let mut config = own_file(reader, default, recorder).await?;
    let Reader { ports, mirror, remote } = reader;
    if let Some(text) = add_image_of_dev_container(ports, mirror, remote, default, &mut config).await? {
        recorder.record(RunEvent::Noted { text }).await?;
    }
    Ok(config)
}

async fn own_file(reader: &Reader<'_>, default: &CommitSha, recorder: &Recorder) -> Result<RepoConfig, JobError> {
    let Some(bytes) = reader.read(default, REPO_CONFIG_PATH, MAX_REPO_CONFIG_BYTES).await? else {
        return Ok(RepoConfig::default());
    };
    match RepoConfig::parse(&String::from_utf8_lossy(&bytes)) {
        Ok(config) => {
            let unused = config.not_built(&reader.ports.sandbox);
            if !unused.is_empty() {
                let language = reader.ports.language;
                let text = words::no_effect(language, REPO_CONFIG_PATH, &unused.join(", "));
                recorder.record(RunEvent::Noted { text }).await?;
            }
            Ok(config)
        }
        Err(problem) => {
            recorder
                .record(RunEvent::Noted {
                    text: words::nothing_used(reader.ports.language, &problem.in_words(reader.ports.language)),
                })
                .await?;
            Ok(RepoConfig::default())
        }
    }
}

#[allow(clippy::too_many_arguments)] // a brief is made from everything that was read
async fn brief(
    job: &Job,
    asked: &Asked,
    client: &RepoClient,
    reader: &Reader<'_>,
    repo_config: &RepoConfig,
    default: &CommitSha,
    base: &CommitSha,
    pull: Option<&Pull>,
    recorder: &Recorder,
) -> Result<Brief, JobError> {
    let files = reader.files(base).await?;
    let mut wanted = threads::Wanted::default();
    let is_continuation = matches!(job.request.trigger, Trigger::Checks { .. });
    if let (Some(pull), JobKind::Fix | JobKind::Plan | JobKind::Ask, false) = (pull, job.kind, is_continuation) {
        let all = (files.len() < MAX_FILES).then_some(files.as_slice());
        wanted = threads::wanted(client, job, pull.number, all, repo_config.resolve_threads).await?;
    }
    if wanted.left > 0 {
        let text = thread_words::too_many(reader.ports.language, wanted.threads.len(), wanted.left);
        recorder.record(RunEvent::Noted { text }).await?;
    }
    let mut request = asked.body.clone();
    if !wanted.review.is_empty() {
        request = format!(
            "--- the review that asks for this ---\n{}\n\n--- the pull request ---\n{request}",
            wanted.review
        );
    }
    // What strangers wrote since a person asked for the work was read by nobody who may ask.
    if let (Some(number), false) = (asked.number, is_continuation) {
        let comments = client.comments(number, None, MAX_COMMENTS).await?;
        request.push_str(&discussion(job, &comments));
    }
    match (pull, job.kind) {
        (Some(pull), _) if is_continuation => request.push_str(&checks::shown(client, &pull.head.sha).await?),
        (Some(pull), JobKind::Review) => request.push_str(&reviewing::shown(client, pull.number).await?),
        _ => {}
    }
    let checks = match &repo_config.test {
        Some(test) => test.clone(),
        None => reader.commands(base).await?.test,
    };
    Ok(Brief {
        mode: mode_of(job.kind),
        repo: job.repo.clone(),
        title: asked.title.clone(),
        request: text::cap_middle(
            &request,
            match job.kind {
                JobKind::Review => MAX_REVIEWED_BYTES,
                _ => MAX_DISCUSSION_BYTES,
            },
        ),
        instructions: job.request.instructions.clone(),
        rules: rules(reader, default, repo_config).await?,
        checks,
        files,
        notes: Vec::new(),
        places: String::new(),
        map: String::new(),
        threads: wanted.threads,
    })
}

/// The comments that stood unchanged when the work was asked for, oldest first.
fn discussion(job: &Job, comments: &[Comment]) -> String {
    let mut text = String::new();
    for comment in comments {
        // GitHub tells seconds: what is as young as the trigger may be younger.
        let after = comment.created_at >= job.request.triggered_at;
        let edited = comment.updated_at >= job.request.triggered_at;
        let by_bot = comment.user.as_ref().is_some_and(|user| user.kind == "Bot");
        if after || edited || by_bot {
            continue;
        }
        let who = comment.user.as_ref().map_or("ghost", |user| &user.login);
        text.push_str(&format!(
            "\n\n--- comment by {who} on {} ---\n{}",
            comment.created_at.format("%Y-%m-%d"),
            comment.body
        ));
    }
    text
}

/// The repository's instructions at a commit, for runs without GitHub.
///
/// # Errors
/// When git cannot read the commit.
pub async fn rules_of(
    ports: &Ports,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    repo_config: &RepoConfig,
) -> Result<String, JobError> {
    let reader = Reader { ports, mirror, remote };
    rules(&reader, at, repo_config).await
}

/// The repository's instructions: files for agents and its own configuration.
async fn rules(reader: &Reader<'_>, default: &CommitSha, repo_config: &RepoConfig) -> Result<String, JobError> {
    let mut rules = String::new();
    let mut seen: Vec<String> = Vec::new();
    for path in RULE_FILES {
        let git = &reader.ports.git;
        let bytes = git.read_file(reader.mirror, reader.remote, default, path, MAX_RULES_BYTES);
        let text = match text_of(bytes.await)? {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(problem) => format!("[left out: {problem}]"),
        };
        if seen.contains(&text) {
            continue; // one of them is a link to the other
        }
        rules.push_str(&format!("# {path}\n{}\n\n", text.trim()));
        seen.push(text);
    }
    if let Some(instructions) = &repo_config.instructions {
        rules.push_str(instructions.trim());
    }
    Ok(rules)
}

/// Reads the mirror.
struct Reader<'a> {
    ports: &'a Ports,
    mirror: &'a Path,
    remote: &'a Remote,
}

impl Reader<'_> {
    async fn resolve(&self, branch: &str) -> Result<CommitSha, JobError> {
        match self
            .ports
            .git
            .resolve(self.mirror, &format!("refs/heads/{branch}"))
            .await
        {
            Err(GitError::NotFound(_)) => {
                let reason = reason::no_branch(self.ports.language, branch);
                Err(JobError::End(Outcome::Refused { reason }))
            }
            other => Ok(other?),
        }
    }

    async fn read(&self, at: &CommitSha, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, JobError> {
        Ok(self
            .ports
            .git
            .read_file(self.mirror, self.remote, at, path, max_bytes)
            .await?)
    }

    async fn files(&self, at: &CommitSha) -> Result<Vec<String>, JobError> {
        Ok(self.ports.git.list_files(self.mirror, at, MAX_FILES).await?)
    }

    /// Set-up and test commands found out from the project's own files.
    async fn commands(&self, at: &CommitSha) -> Result<Commands, JobError> {
        let files = self.files(at).await?;
        commands_of(self.ports, self.mirror, self.remote, at, &files).await
    }
}

/// Set-up and test commands of a commit, found out from its own files. Detection is pure and asks
/// for texts by path; it is run again until every text it asks for has been read.
///
/// # Errors
/// When git cannot read the commit.
pub async fn commands_of(
    ports: &Ports,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    files: &[String],
) -> Result<Commands, JobError> {
    let mut texts: BTreeMap<String, Option<String>> = BTreeMap::new();
    loop {
        let missing = RefCell::new(Vec::new());
        let found = detect_commands(files, |path| match texts.get(path) {
            Some(text) => text.clone(),
            None => {
                missing.borrow_mut().push(path.to_owned());
                None
            }
        });
        let missing = missing.into_inner();
        if missing.is_empty() || texts.len() > MAX_TEXTS {
            return Ok(found);
        }
        for path in missing {
            let bytes = ports.git.read_file(mirror, remote, at, &path, MAX_RULES_BYTES).await?;
            texts.insert(path, bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}
