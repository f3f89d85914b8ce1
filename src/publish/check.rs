//! The check run of our own on the heads of our pull requests: what it says, and how it is settled.
//! Whether the work is verified is read from the log, from exit codes alone. Called by the
//! dispatcher, by maintenance and by `worker`.
//! Never says success where no command ran, and never touches a check of somebody else.

use chrono::{DateTime, Utc};

use super::{Publisher, dispatch, outcome, plan};
use crate::effect::{Effect, EffectBody, EffectState, NewEffect};
use crate::event::{CheckRun, RunEvent, Side};
use crate::github::{CheckReport, Conclusion, GitHubError, NewCheckRun, Progress, RepoClient};
use crate::ids::{CommitSha, IssueNumber};
use crate::job::{Job, JobError, LeasedJob, Outcome};
use crate::phrase::Language;
use crate::phrase::check::{self as words, Ended, NAME};
use crate::queue::Pulse;
use crate::store::StoreError;
use crate::text;

/// Most check runs of a commit that are looked through for our own.
const MAX_LOOKED_THROUGH: usize = 2_000;
/// Events read in one statement.
const PAGE: u32 = 500;
/// Most commands in the table, and most characters of one and of a reason.
const MAX_COMMANDS: usize = 30;
const MAX_COMMAND_CHARS: usize = 160;
const MAX_REASON_CHARS: usize = 2_000;

/// Shows on a pull request of ours that its head is worked on. On others nothing is shown.
///
/// # Errors
/// As [`dispatch()`]; a missing permission is none.
pub async fn begin_check(
    publisher: &Publisher,
    leased: &LeasedJob,
    pulse: &Pulse,
    pull: IssueNumber,
    head: &CommitSha,
) -> Result<(), JobError> {
    let job = &leased.job;
    let mut tx = publisher.store.begin().await?;
    if !tx.has_opened(job.repo_id, pull).await? {
        return Ok(());
    }
    let row = plan::row(
        job,
        plan::seq::BEGIN_CHECK,
        EffectBody::BeginCheck { sha: head.clone() },
    );
    tx.insert_effects(&leased.lease, &[row]).await?;
    tx.commit().await?;
    dispatch::dispatch(publisher, leased, pulse).await
}

/// Asks that failed checks run again: their id, name, and when they ended.
///
/// # Errors
/// As [`dispatch()`]; that an App does not allow it is none.
pub async fn rerun_checks(
    publisher: &Publisher,
    leased: &LeasedJob,
    pulse: &Pulse,
    checks: Vec<(u64, String, Option<DateTime<Utc>>)>,
) -> Result<(), JobError> {
    let rows: Vec<NewEffect> = (plan::seq::RERUN..)
        .zip(checks)
        .map(|(at, (id, name, ended))| plan::row(&leased.job, at, EffectBody::RerunCheck { id, name, ended }))
        .collect();
    let mut tx = publisher.store.begin().await?;
    tx.insert_effects(&leased.lease, &rows).await?;
    tx.commit().await?;
    dispatch::dispatch(publisher, leased, pulse).await
}

/// The check run of a job on a commit, if there is one.
pub(super) async fn find(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    sha: &CommitSha,
) -> Result<Option<u64>, GitHubError> {
    let runs = client.check_runs(sha, MAX_LOOKED_THROUGH).await?;
    let ours = runs.iter().find(|run| {
        let by_us = run.app.as_ref().is_some_and(|app| app.id == publisher.app.id);
        by_us && run.name == NAME && run.external_id == job.id.as_str()
    });
    Ok(ours.map(|run| run.id))
}

/// What it shows while the work goes on.
pub(super) fn under_way(language: Language, job: &Job) -> CheckReport {
    CheckReport {
        progress: Progress::InProgress,
        title: words::working(language).to_owned(),
        summary: words::working_summary(language, job.id.as_str()),
        text: String::new(),
        details_url: None,
        annotations: Vec::new(),
    }
}

/// Settles the check run that a job began, and makes one on the head that it pushed. `None`: there
/// is nothing to settle. A repeat changes nothing.
///
/// # Errors
/// The outer ones are of the database.
pub(super) async fn settle(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    effects: &[Effect],
    outcome: &Outcome,
) -> Result<Result<Option<String>, GitHubError>, JobError> {
    let commands = Commands::of(publisher, job).await?;
    let begun = effects.iter().rev().find_map(|effect| match &effect.body {
        EffectBody::BeginCheck { sha } if effect.seq >= plan::at(job, 0) => Some((effect, sha)),
        _ => None,
    });
    // However the job ended, the pull request that it opened is there.
    let opened = outcome::opened_since(effects, plan::at(job, 0));
    let pushed = match (opened.as_ref().unwrap_or(outcome), begun) {
        (Outcome::Opened { sha, .. }, _) | (Outcome::Pushed { sha, .. }, Some(_)) => Some(sha),
        _ => None,
    };
    Ok(async {
        let mut settled = None;
        if let Some((effect, sha)) = begun
            && let Some(id) = id_of(publisher, client, job, effect, sha).await?
        {
            let ended = match pushed {
                Some(_) => Ended::WentOn,
                None => commands.ended(outcome),
            };
            let report = commands.report(publisher, job, ended, outcome);
            settled = Some(client.update_check_run(id, &report).await?.id.to_string());
        }
        if let Some(sha) = pushed
            && find(publisher, client, job, sha).await?.is_none()
        {
            let new = NewCheckRun {
                name: NAME.to_owned(),
                head_sha: sha.clone(),
                external_id: job.id.to_string(),
                report: commands.report(publisher, job, commands.ended(outcome), outcome),
            };
            settled = Some(client.create_check_run(&new).await?.id.to_string());
        } else if pushed.is_some() {
            settled = settled.or(Some(NAME.to_owned()));
        }
        Ok(settled)
    }
    .await)
}

/// The check run that was begun; one whose answer was lost is looked for.
async fn id_of(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    begun: &Effect,
    sha: &CommitSha,
) -> Result<Option<u64>, GitHubError> {
    match (begun.remote_id.as_deref().and_then(|id| id.parse().ok()), begun.state) {
        (Some(id), _) => Ok(Some(id)),
        (None, EffectState::Unknown | EffectState::Sending) => find(publisher, client, job, sha).await,
        (None, _) => Ok(None),
    }
}

/// The last result of each command on both sides, as the log has them.
#[derive(Default)]
struct Commands {
    base: Vec<CheckRun>,
    head: Vec<CheckRun>,
}

impl Commands {
    async fn of(publisher: &Publisher, job: &Job) -> Result<Self, StoreError> {
        let (mut commands, mut seen) = (Self::default(), 0);
        loop {
            let mut tx = publisher.store.begin().await?;
            let page = tx.events(&job.id, seen, PAGE).await?;
            drop(tx);
            let Some(last) = page.last() else { return Ok(commands) };
            seen = last.seq;
            for event in page {
                if let RunEvent::Checked { check } = event.body {
                    commands.add(check);
                }
            }
        }
    }

    fn add(&mut self, check: CheckRun) {
        let side = match check.side {
            Side::Base => &mut self.base,
            Side::Head => &mut self.head,
        };
        side.retain(|other| other.command != check.command);
        side.push(check);
    }

    fn ended(&self, outcome: &Outcome) -> Ended {
        match outcome {
            Outcome::Opened { .. } | Outcome::Pushed { .. } => {
                let verified = !self.head.is_empty() && self.head.iter().all(CheckRun::passed);
                if verified { Ended::Verified } else { Ended::NotVerified }
            }
            Outcome::GaveUp { .. } if self.has_regressed() => Ended::Regressed,
            Outcome::GaveUp { .. } => Ended::GaveUp,
            Outcome::Stopped { .. } => Ended::Stopped,
            Outcome::Refused { .. } => Ended::Refused,
            Outcome::NothingToDo { .. } | Outcome::Answered | Outcome::Reviewed { .. } | Outcome::Measured { .. } => {
                Ended::Nothing
            }
        }
    }

    /// A command fails with the change and is not known to have failed before it.
    fn has_regressed(&self) -> bool {
        let failing = self.head.iter().filter(|check| !check.passed());
        failing
            .map(|check| of(&self.base, &check.command))
            .any(|before| before.is_none_or(CheckRun::passed))
    }

    fn report(&self, publisher: &Publisher, job: &Job, ended: Ended, outcome: &Outcome) -> CheckReport {
        let language = publisher.language;
        let conclusion = match ended {
            Ended::Verified => Conclusion::Success,
            Ended::Regressed => Conclusion::Failure,
            Ended::Refused => Conclusion::Skipped,
            Ended::NotVerified | Ended::WentOn | Ended::Stopped | Ended::GaveUp | Ended::Nothing => Conclusion::Neutral,
        };
        let reason = match outcome {
            Outcome::GaveUp { reason, .. } | Outcome::Stopped { reason, .. } | Outcome::Refused { reason } => {
                let lead = crate::phrase::status::because(language);
                format!("{lead}{}", publisher.safe_within(reason, MAX_REASON_CHARS))
            }
            Outcome::NothingToDo { reason } => publisher.safe_within(reason, MAX_REASON_CHARS),
            Outcome::Pushed { sha, .. } if ended == Ended::WentOn => sha.to_string(),
            _ => String::new(),
        };
        let of_job = words::of_job(language, job.id.as_str());
        let parts = [reason, self.table(language), of_job];
        let parts: Vec<&str> = parts
            .iter()
            .map(|part| part.trim())
            .filter(|part| !part.is_empty())
            .collect();
        CheckReport {
            progress: Progress::Completed(conclusion),
            title: words::ended(language, ended).to_owned(),
            summary: parts.join("\n\n"),
            text: String::new(),
            details_url: None,
            annotations: Vec::new(),
        }
    }

    fn table(&self, language: Language) -> String {
        let mut commands: Vec<&str> = self.base.iter().map(|check| check.command.as_str()).collect();
        let more = self.head.iter().map(|check| check.command.as_str());
        commands.extend(more.filter(|command| of(&self.base, command).is_none()));
        if commands.is_empty() {
            return words::nothing_run(language).to_owned();
        }
        let mut table = words::table_head(language).to_owned();
        for command in commands.into_iter().take(MAX_COMMANDS) {
            let cell = |side| words::cell(language, of(side, command).map(|check| check.exit_code));
            let code = text::code_span(&text::cap_chars(command, MAX_COMMAND_CHARS));
            table.push_str(&format!("| {code} | {} | {} |\n", cell(&self.base), cell(&self.head)));
        }
        table
    }
}

fn of<'a>(side: &'a [CheckRun], command: &str) -> Option<&'a CheckRun> {
    side.iter().find(|check| check.command == command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(results: &[(Side, i32)]) -> Commands {
        let mut commands = Commands::default();
        for (side, exit_code) in results {
            commands.add(CheckRun {
                command: "sh test.sh".to_owned(),
                side: *side,
                exit_code: Some(*exit_code),
                killed: None,
                took_ms: 1,
                output_tail: String::new(),
            });
        }
        commands
    }

    #[test]
    fn only_exit_codes_verify() {
        use Side::{Base, Head};
        let pushed = Outcome::Pushed {
            branch: "agent/1".parse().unwrap(),
            sha: "a".repeat(40).parse().unwrap(),
        };
        let gave_up = Outcome::GaveUp {
            reason: String::new(),
            branch: None,
        };
        for (results, outcome, expected) in [
            ([].as_slice(), &pushed, Ended::NotVerified),
            (&[(Base, 1), (Head, 0)], &pushed, Ended::Verified),
            (&[(Base, 1), (Head, 1)], &pushed, Ended::NotVerified),
            (&[(Head, 1), (Head, 0)], &pushed, Ended::Verified),
            (&[(Base, 0), (Head, 1)], &gave_up, Ended::Regressed),
            (&[(Head, 1)], &gave_up, Ended::Regressed),
            (&[(Base, 1), (Head, 1)], &gave_up, Ended::GaveUp),
            (&[], &gave_up, Ended::GaveUp),
        ] {
            assert_eq!(commands(results).ended(outcome), expected, "{results:?} {outcome:?}");
        }
    }
}
