//! The path of `eval`: the cases of a file in the repository are asked of retrieval, and the figures are the
//! result. Called by the worker's attempt.
//! Never asks a model, never runs anything of the repository, and never changes it.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::{InHand, Worker};
use crate::eval::Case;
use crate::eval::apart::{self, Measured, Order};
use crate::event::{RunEvent, Stage};
use crate::git::{GitError, Remote};
use crate::github::RepoClient;
use crate::ids::RepoId;
use crate::job::{EvalSuite, JobError, Outcome};
use crate::phrase::{measure as words, reason};
use crate::retrieval::code_search::lenders;
use crate::run;
use crate::text;
use crate::workspace::{mirror_path, publish_path};

/// Longest file of cases, in bytes.
const MAX_SUITE_BYTES: u64 = 16 * 1024 * 1024;
/// Most cases: what one reads in a night.
const MAX_CASES: usize = 5_000;
/// Longest fetch of what is new in the repository.
const FETCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest time of a suite, with all that is fetched for it, in hours.
const LONGEST_HOURS: u64 = 6;
/// Longest name of a repository that is said, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Longest that is said of what is wrong with a file, in characters.
const MAX_PROBLEM_CHARS: usize = 500;
/// Cases that were left out before, of which the log says why.
const MAX_LEFT_OUT_SHOWN: usize = 20;

/// A repository that is up to date, its cases, and those that are left out.
struct Suite {
    cases: Vec<Case>,
    left_out: Vec<(String, String)>,
    mirror: PathBuf,
}

impl Worker {
    pub(super) async fn measure(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<(), JobError> {
        let job = &in_hand.leased.job;
        let wanted = job.pins.suite.clone();
        let wanted = wanted.ok_or_else(|| JobError::Fail("the job does not say what is measured".to_owned()))?;
        let until = Instant::now() + Duration::from_secs(LONGEST_HOURS * 3600);
        let working = Box::pin(self.figures(in_hand, client, &wanted));
        let worked = tokio::select! {
            // Whatever runs for it ends with it.
            () = in_hand.cancel.cancelled() => None,
            worked = tokio::time::timeout_at(until, working) => Some(worked),
        };
        let outcome = match worked {
            Some(Ok(worked)) => worked?,
            Some(Err(_)) => gave_up(words::too_long(self.ports.language, LONGEST_HOURS)),
            // A service that stops hands the job back.
            None if !self.was_cancelled(in_hand) && job.cancel_requested_at.is_none() => {
                return Err(JobError::Retry(reason::service_stopped(self.ports.language).to_owned()));
            }
            None => Outcome::Stopped {
                reason: self.why_stopped(job).await?,
                branch: None,
            },
        };
        self.end(in_hand, outcome).await
    }

    async fn figures(
        &self,
        in_hand: &InHand<'_>,
        client: &RepoClient,
        wanted: &EvalSuite,
    ) -> Result<Outcome, JobError> {
        let recorder = &in_hand.recorder;
        let reading = self.suite(client, wanted, in_hand.leased.job.repo_id);
        let mut suite = match run::stage(recorder, Stage::Brief, reading).await? {
            Ok(suite) => suite,
            Err(reason) => return Ok(gave_up(reason)),
        };
        let measuring = self.ask_all(in_hand, client, &mut suite);
        let measured = match run::stage(recorder, Stage::Solve, measuring).await? {
            Ok(measured) => measured,
            Err(reason) => return Ok(gave_up(reason)),
        };
        let mut table = measured.table.clone();
        for (case, why) in suite.left_out.iter().take(MAX_LEFT_OUT_SHOWN) {
            table.push_str(&format!("\nskipped {}: {why}", text::cap_chars(case, MAX_NAME_CHARS)));
        }
        recorder.record(RunEvent::Noted { text: table }).await?;
        Ok(self.verdict(&measured, &suite.left_out, wanted))
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
        let remote = remote(client).await?;
        let mirror = mirror_path(&self.state_dir, repo);
        if let Err(error) = git.refresh_mirror(&mirror, &remote, &[], FETCH_TIMEOUT).await {
            return Err(failed(client, error).await);
        }
        let branch = &repository.default_branch;
        let at = git.resolve(&mirror, &format!("refs/heads/{branch}")).await?;
        let bytes = match git
            .read_file(&mirror, &remote, &at, &wanted.cases, MAX_SUITE_BYTES)
            .await
        {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Err(words::no_suite(language, &wanted.cases, branch))),
            Err(GitError::Failed(problem)) if problem.contains("is larger than") => {
                return Ok(Err(words::bad_suite(language, &wanted.cases, &problem)));
            }
            Err(error) => return Err(failed(client, error).await),
        };
        let cases = match Case::parse_all(&String::from_utf8_lossy(&bytes)) {
            Ok(cases) if cases.is_empty() => Err("it is empty".to_owned()),
            Ok(cases) if cases.len() > MAX_CASES => Err(format!("it has more than {MAX_CASES} cases")),
            Ok(cases) => Ok(cases),
            Err(error) => Err(text::reveal(&text::cap_chars(&format!("{error:#}"), MAX_PROBLEM_CHARS))),
        };
        let cases = match cases {
            Ok(cases) => cases,
            Err(problem) => return Ok(Err(words::bad_suite(language, &wanted.cases, &problem))),
        };
        let here = client.name().to_string();
        let (mut cases, others): (Vec<Case>, Vec<Case>) = cases
            .into_iter()
            .partition(|case| case.repo.eq_ignore_ascii_case(&here));
        for case in &mut cases {
            case.repo.clone_from(&here);
        }
        let elsewhere = |case: Case| {
            let why = words::elsewhere(language, &text::cap_chars(&case.repo, MAX_NAME_CHARS));
            (case.id, why)
        };
        Ok(Ok(Suite {
            cases,
            left_out: others.into_iter().map(elsewhere).collect(),
            mirror,
        }))
    }

    /// Asks every case; or, for good, why there are no figures. Of each commit what the mirror lacks is
    /// fetched before, since whoever measures reaches nobody.
    async fn ask_all(
        &self,
        in_hand: &InHand<'_>,
        client: &RepoClient,
        suite: &mut Suite,
    ) -> Result<Result<Measured, String>, JobError> {
        let language = self.ports.language;
        let Some(indexes) = &self.ports.indexes else {
            return Ok(Err(words::switched_off(language).to_owned()));
        };
        let git = &self.ports.git;
        let mut fetched = Vec::with_capacity(suite.cases.len());
        for case in std::mem::take(&mut suite.cases) {
            let remote = remote(client).await?;
            match git.complete(&suite.mirror, &remote, &case.parent_commit).await {
                Ok(()) => fetched.push(case),
                // Of anything else, such as a server that is down or a disk that is full, figures of those
                // cases that happen to be there would say nothing.
                Err(error) if !lacks(&error, &case) => return Err(failed(client, error).await),
                Err(error) => suite.left_out.push((case.id, error.to_string())),
            }
        }
        if fetched.is_empty() {
            let first = suite.left_out.first().map(|(_, why)| why.as_str());
            let all = suite.left_out.len();
            return Ok(Err(words::nothing_asked(language, all, first.unwrap_or_default())));
        }
        let folder = publish_path(&self.state_dir, &in_hand.leased.job.id);
        run::begin(&folder).await?;
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let repo = real(suite.mirror.clone());
        let order = Order {
            folder: real(folder),
            lenders: lenders(&repo),
            repo,
            limits: indexes.limits().clone(),
        };
        let measured = apart::measure(indexes.program(), &order, &fetched).await;
        measured.map(Ok).map_err(JobError::Retry)
    }

    /// Whether the figures are as good as they have to be.
    fn verdict(&self, measured: &Measured, left_out: &[(String, String)], wanted: &EvalSuite) -> Outcome {
        let language = self.ports.language;
        let skipped = measured.skipped + left_out.len();
        if measured.asked == 0 {
            let first = measured.first_skipped.as_deref();
            let first = first.or(left_out.first().map(|(_, why)| why.as_str()));
            return gave_up(words::nothing_asked(language, skipped, first.unwrap_or_default()));
        }
        let figures = |(acc, mrr): ([f64; 3], f64)| words::Figures { acc, mrr };
        let files = figures(measured.files);
        let summary = words::summary(
            language,
            measured.asked,
            skipped,
            files,
            measured.functions.map(figures),
        );
        // As it is shown: a sum of shares that should be 100 may be a little less.
        if (files.mrr * 10.0).round() < f64::from(wanted.min_mrr) * 10.0 {
            return gave_up(words::below(language, files.mrr, wanted.min_mrr, &summary));
        }
        Outcome::Measured { summary }
    }
}

/// Whether the repository has no such commit, or no whole one.
fn lacks(error: &GitError, case: &Case) -> bool {
    match error {
        GitError::NotFound(_) => true,
        GitError::Unavailable(problem) | GitError::Failed(problem) => problem.contains(case.parent_commit.as_str()),
        _ => false,
    }
}

/// A limit that git meets is told to everybody.
async fn failed(client: &RepoClient, error: GitError) -> JobError {
    match error {
        GitError::Limited(problem) => client.limited_at_git(&problem).await.into(),
        error => error.into(),
    }
}

fn gave_up(reason: String) -> Outcome {
    Outcome::GaveUp { reason, branch: None }
}

async fn remote(client: &RepoClient) -> Result<Remote, JobError> {
    Ok(Remote {
        url: client.git_url(),
        token: Some(client.git_token().await?),
    })
}
