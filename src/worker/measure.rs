//! The path of `eval`: the cases of a file in the repository are asked of retrieval, and the figures are the
//! result. Called by the worker's attempt.
//! Never asks a model, never runs anything of the repository, and never changes it.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{InHand, Worker};
use crate::eval::{self, Ask, Case, Plan, Report};
use crate::event::{RunEvent, Stage};
use crate::git::{Git, Remote};
use crate::github::RepoClient;
use crate::ids::RepoId;
use crate::job::{EvalSuite, JobError, Outcome};
use crate::phrase::{measure as words, reason};
use crate::run;
use crate::text;
use crate::workspace::{mirror_path, publish_path};

/// Longest file of cases, in bytes.
const MAX_SUITE_BYTES: u64 = 16 * 1024 * 1024;
/// Most cases: what one reads in a night.
const MAX_CASES: usize = 5_000;
/// Longest fetch of what is new in the repository.
const FETCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest time of a suite, in hours.
const LONGEST_HOURS: u64 = 6;
/// Longest table in the log of the job, in characters.
const MAX_TABLE_CHARS: usize = 20_000;

/// A repository that is up to date, and its cases.
struct Suite {
    cases: Vec<Case>,
    elsewhere: Vec<(String, String)>,
    mirror: PathBuf,
    remote: Remote,
}

impl Worker {
    pub(super) async fn measure(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<(), JobError> {
        let job = &in_hand.leased.job;
        let wanted = job.pins.suite.clone();
        let wanted = wanted.ok_or_else(|| JobError::Fail("the job does not say what is measured".to_owned()))?;
        if job.cancel_requested_at.is_some() {
            return self.end(in_hand, self.stopped(in_hand)).await;
        }
        let reading = self.suite(client, &wanted, job.repo_id);
        let suite = match run::stage(&in_hand.recorder, Stage::Brief, reading).await? {
            Ok(suite) => suite,
            Err(reason) => return self.end(in_hand, Outcome::GaveUp { reason, branch: None }).await,
        };
        let measuring = self.ask_all(in_hand, suite);
        let report = match run::stage(&in_hand.recorder, Stage::Solve, measuring).await? {
            Some(report) => report,
            None => return self.end(in_hand, self.stopped(in_hand)).await,
        };
        let table = text::cap_chars(&report.lines().join("\n"), MAX_TABLE_CHARS);
        in_hand.recorder.record(RunEvent::Noted { text: table }).await?;
        self.end(in_hand, self.verdict(&report, &wanted)).await
    }

    /// The cases that stand on the default branch; or, for good, why there are none.
    async fn suite(
        &self,
        client: &RepoClient,
        wanted: &EvalSuite,
        repo: RepoId,
    ) -> Result<Result<Suite, String>, JobError> {
        let (git, language) = (&self.ports.git, self.ports.language);
        let repository = client.repository().await?;
        let remote = Remote {
            url: client.git_url(),
            token: Some(client.git_token().await?),
        };
        let mirror = mirror_path(&self.state_dir, repo);
        git.refresh_mirror(&mirror, &remote, &[], FETCH_TIMEOUT).await?;
        let branch = &repository.default_branch;
        let at = git.resolve(&mirror, &format!("refs/heads/{branch}")).await?;
        let file = git.read_file(&mirror, &remote, &at, &wanted.cases, MAX_SUITE_BYTES);
        let Some(bytes) = file.await? else {
            return Ok(Err(words::no_suite(language, &wanted.cases, branch)));
        };
        let cases = match Case::parse_all(&String::from_utf8_lossy(&bytes)) {
            Ok(cases) if cases.is_empty() => Err("it is empty".to_owned()),
            Ok(cases) if cases.len() > MAX_CASES => Err(format!("it has more than {MAX_CASES} cases")),
            Ok(cases) => Ok(cases),
            Err(error) => Err(format!("{error:#}")),
        };
        let cases = match cases {
            Ok(cases) => cases,
            Err(problem) => return Ok(Err(words::bad_suite(language, &wanted.cases, &problem))),
        };
        let here = client.name().to_string();
        let (cases, others): (Vec<Case>, Vec<Case>) = cases
            .into_iter()
            .partition(|case| case.repo.eq_ignore_ascii_case(&here));
        let elsewhere = others
            .into_iter()
            .map(|case| {
                let why = words::elsewhere(language, &case.repo);
                (case.id, why)
            })
            .collect();
        Ok(Ok(Suite {
            cases,
            elsewhere,
            mirror,
            remote,
        }))
    }

    /// Asks every case; nothing when somebody stopped the job. Of each commit what the mirror lacks is
    /// fetched before, since the measurement itself reaches nobody.
    async fn ask_all(&self, in_hand: &InHand<'_>, suite: Suite) -> Result<Option<Report>, JobError> {
        let Suite {
            mut cases,
            mut elsewhere,
            mirror,
            remote,
        } = suite;
        let git = self.ports.git.clone();
        let mut fetched = Vec::with_capacity(cases.len());
        for case in cases.drain(..) {
            if in_hand.cancel.is_cancelled() {
                return self.after_cancel(in_hand);
            }
            match git.complete(&mirror, &remote, &case.parent_commit).await {
                Ok(()) => fetched.push(case),
                Err(error) => elsewhere.push((case.id, error.to_string())),
            }
        }
        let folder = publish_path(&self.state_dir, &in_hand.leased.job.id);
        run::begin(&folder).await?;
        // When the lease is lost this future is dropped, and the measurement ends as well.
        let stop = in_hand.cancel.child_token();
        let guard = stop.clone().drop_guard();
        let working = tokio::task::spawn_blocking(move || measured(&git, fetched, mirror, folder, &stop));
        let limit = Duration::from_secs(LONGEST_HOURS * 3600);
        let Ok(worked) = tokio::time::timeout(limit, working).await else {
            let reason = words::too_long(self.ports.language, LONGEST_HOURS);
            return Err(JobError::End(Outcome::GaveUp { reason, branch: None }));
        };
        drop(guard);
        let worked = worked.map_err(|error| JobError::Retry(format!("the measurement broke off: {error}")))?;
        if in_hand.cancel.is_cancelled() {
            return self.after_cancel(in_hand);
        }
        let mut report = worked.map_err(|error| JobError::Retry(format!("{error:#}")))?;
        report.skipped.append(&mut elsewhere);
        Ok(Some(report))
    }

    /// A service that stops hands the job back; a person that stops it gets an end.
    fn after_cancel(&self, in_hand: &InHand<'_>) -> Result<Option<Report>, JobError> {
        match self.was_cancelled(in_hand) {
            true => Ok(None),
            false => Err(JobError::Retry(reason::service_stopped(self.ports.language).to_owned())),
        }
    }

    fn stopped(&self, in_hand: &InHand<'_>) -> Outcome {
        let reason = in_hand.leased.job.reason.clone();
        Outcome::Stopped {
            reason: reason.unwrap_or_else(|| reason::stopped(self.ports.language).to_owned()),
            branch: None,
        }
    }

    /// Whether the figures are as good as they have to be.
    fn verdict(&self, report: &Report, wanted: &EvalSuite) -> Outcome {
        let language = self.ports.language;
        let (asked, skipped) = (report.cases.len(), report.skipped.len());
        let gave_up = |reason| Outcome::GaveUp { reason, branch: None };
        let Some(files) = report.files.first().filter(|_| asked > 0) else {
            let first = report.skipped.first().map(|(_, why)| why.as_str());
            return gave_up(words::nothing_asked(
                language,
                skipped,
                first.unwrap_or("there are none"),
            ));
        };
        let figures = |row: &eval::Row| words::Figures {
            acc: row.measure.acc,
            mrr: row.measure.mrr,
        };
        let functions = report.functions.first().filter(|row| row.measure.cases > 0);
        let summary = words::summary(language, asked, skipped, figures(files), functions.map(figures));
        if files.measure.mrr < f64::from(wanted.min_mrr) {
            return gave_up(words::below(language, files.measure.mrr, wanted.min_mrr, &summary));
        }
        Outcome::Measured { summary }
    }
}

fn measured(
    git: &Git,
    cases: Vec<Case>,
    mirror: PathBuf,
    folder: PathBuf,
    stop: &CancellationToken,
) -> anyhow::Result<Report> {
    let plan = Plan {
        cases,
        find: &|_| Ok(mirror.clone()),
        ask: Ask::Full,
        indexes: &folder,
    };
    eval::run(&plan, git, stop, &|_, _| {})
}
