//! One run on a checkout: from a task and a commit to a change on a branch. Called by `Site`, which
//! has what several runs share. Never prints.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::args::Checks;
use super::own::{MAX_FILES, Own};
use super::{guidance, in_words};
use crate::agent::{Brief, Checkpoint, Solution, Stop};
use crate::app::cli::exit_code;
use crate::event::{Event, RunEvent, Side, Totals};
use crate::git::{LocalRepo, Remote, Signature};
use crate::ids::{BranchName, CommitSha, RepoName, RunId};
use crate::job::JobError;
use crate::phrase::{self, Language};
use crate::recorder::Recorder;
use crate::repo_config::REPO_CONFIG_PATH;
use crate::run::{self, ChangeSet, Earlier, Finished, Place, Ports, RECORD_END, RecordEnd, SetupOf, Work};
use crate::text;
use crate::tool::{Finish, Mode};
use crate::workspace::RunFolder;

/// What one run is to do.
pub(super) struct Order {
    /// In words.
    pub(super) task: String,
    pub(super) mode: Mode,
    /// The commit that it begins from.
    pub(super) base: CommitSha,
    pub(super) checks: Checks,
    /// The command that alone decides whether it is done, where there is one.
    pub(super) acceptance: Option<String>,
    /// What the work is called, where that is not the task's first line.
    pub(super) title: Option<String>,
    /// Name of the branch that a change is left on; otherwise made of the task.
    pub(super) branch: Option<BranchName>,
}

/// What came of it.
pub(super) struct Done {
    pub(super) run: RunId,
    /// The commit that it began from.
    pub(super) base: CommitSha,
    /// What it came to; nothing when it failed before there was any work.
    pub(super) finished: Option<Finished>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    /// The branch that holds the change.
    pub(super) left: Option<(BranchName, CommitSha)>,
    /// What it took.
    pub(super) totals: Totals,
    /// How long it took.
    pub(super) took: Duration,
}

/// What a run came to: nothing finished and no failure is a stop before there was any work.
pub(super) struct Tried {
    pub(super) finished: Option<Finished>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
}

/// One run on one checkout.
pub(super) struct Local<'a> {
    pub(super) ports: &'a Ports,
    pub(super) repo: &'a LocalRepo,
    /// What the checkout says of itself.
    pub(super) own: &'a Own,
    pub(super) order: &'a Order,
    pub(super) run: &'a RunId,
    pub(super) place: &'a Place,
    pub(super) recorder: &'a Recorder,
    pub(super) stop: &'a CancellationToken,
}

impl Local<'_> {
    /// Works, and leaves the change on a branch.
    pub(super) async fn work(&self) -> anyhow::Result<Done> {
        let began = Instant::now();
        let Tried { finished, failure } = self.attempt().await?;
        let change = finished.as_ref().and_then(|finished| finished.change.as_ref());
        let (left, lost) = match change {
            Some(change) => match self.leave_branch(finished.as_ref(), change).await {
                Ok(left) => (Some(left), None),
                Err(error) => (None, Some(format!("the branch was not left: {error:#}"))),
            },
            None => (None, None),
        };
        Ok(Done {
            run: self.run.clone(),
            base: self.order.base.clone(),
            finished,
            failure: failure.or(lost),
            left,
            totals: Totals::of(self.recorder.kept().iter().map(|event| &event.body)),
            took: began.elapsed(),
        })
    }

    /// Works, to an end that is recorded in every case. A run that was stopped, or that failed, has done
    /// what it has done.
    ///
    /// # Errors
    /// What whoever called it can mend in their words or their configuration.
    pub(super) async fn attempt(&self) -> anyhow::Result<Tried> {
        let tried = match self.prepare().await {
            Ok(work) => match self.run(work.clone()).await {
                Ok(finished) => Tried {
                    finished: Some(finished),
                    failure: None,
                },
                Err(_) if self.stop.is_cancelled() => Tried {
                    finished: self.salvage(work, Stop::Cancelled).await,
                    failure: None,
                },
                Err(error) => {
                    let reason = in_words(error);
                    Tried {
                        finished: self.salvage(work, Stop::Stuck(reason.clone())).await,
                        failure: Some(reason),
                    }
                }
            },
            Err(error) if exit_code(&error).is_some() => return Err(error),
            Err(error) => Tried {
                finished: None,
                failure: Some(format!("{error:#}")),
            },
        };
        if tried.finished.is_none() {
            self.record_end(tried.failure.clone().map_or(Stop::Cancelled, Stop::Stuck))
                .await;
        }
        Ok(tried)
    }

    async fn run(&self, work: Work) -> Result<Finished, JobError> {
        let started = RunEvent::RunStarted {
            run: self.run.clone(),
            model: self.ports.model.name().to_owned(),
        };
        self.recorder.record(started).await?;
        let working = run::work(
            self.ports,
            work,
            Earlier::default(),
            self.place,
            self.recorder,
            self.stop,
        );
        // The checkout knows no stop: nothing has been done yet that could get lost.
        tokio::select! {
            biased;
            worked = Box::pin(working) => worked,
            () = self.stopped_before_opening() => Err(JobError::Fail("stopped before the checkout stood".to_owned())),
        }
    }

    /// A run that came to nothing has an end, too: without one it counts as interrupted.
    async fn record_end(&self, stop: Stop) {
        let end = RecordEnd { tree: None, stop };
        let end = self.recorder.cleaned(&end).ok();
        if let Some(body) = end.and_then(|end| serde_json::to_vec(&end).ok())
            && let Err(error) = self.recorder.checkpoint(RECORD_END, 0, &body).await
        {
            tracing::debug!(%error, "the end of the run was not recorded");
        }
    }

    async fn stopped_before_opening(&self) {
        self.stop.cancelled().await;
        let is_open = |event: &Event| matches!(event.body, RunEvent::WorkspaceOpened { .. });
        if self.recorder.kept().iter().any(is_open) {
            // Whatever goes on obeys the stop by itself.
            std::future::pending::<()>().await;
        }
    }

    /// What a run that broke off has done so far, if its checkout still stands: as a run that goes
    /// on where the other one ended, with nothing left to do.
    async fn salvage(&self, work: Work, stop: Stop) -> Option<Finished> {
        let events = self.recorder.kept();
        let worked = |event: &Event| matches!(event.body, RunEvent::ToolCalled { .. });
        if !events.iter().any(worked) {
            return None;
        }
        let (folder, _) = RunFolder::open_existing(&self.place.state_dir, &self.place.job).ok()??;
        let base_checks = events.into_iter().filter_map(|event| match event.body {
            RunEvent::Checked { check } if check.side == Side::Base => Some(check),
            _ => None,
        });
        let earlier = Earlier {
            folder: Some(folder),
            bundle: None,
            solution: Some(Solution {
                stop,
                last_words: String::new(),
                conversation: Checkpoint::NEW,
            }),
            conversation: Some(Checkpoint::NEW),
            base_checks: base_checks.collect(),
            record: None,
            joined: None,
        };
        // A stop has been obeyed already; taking the work in is short.
        let go_on = CancellationToken::new();
        let taking = run::work(self.ports, work, earlier, self.place, self.recorder, &go_on);
        // Why the run broke off is what people need to know, not that its work is lost as well.
        Box::pin(taking).await.ok()
    }

    async fn prepare(&self) -> anyhow::Result<Work> {
        let git = &self.ports.git;
        let remote = Remote {
            url: String::new(),
            token: None,
        };
        let (mirror, base) = (self.repo.git_dir.clone(), self.order.base.clone());
        let files = git.list_files(&mirror, &base, MAX_FILES).await?;
        let mut repo_config = self.own.config.clone();
        self.note_unused().await?;
        // Of the last commit, whatever the run begins from, as all that the checkout says of itself.
        let head = &self.repo.head;
        let noted = run::add_image_of_dev_container(self.ports, &mirror, &remote, head, &mut repo_config).await;
        if let Some(text) = noted.map_err(|error| anyhow::anyhow!(in_words(error)))? {
            self.recorder.record(RunEvent::Noted { text }).await?;
        }
        let found = run::commands_of(self.ports, &mirror, &remote, &base, &files).await;
        let found = found.map_err(|error| anyhow::anyhow!(in_words(error)))?;
        let (rules, guidance) = guidance::load(self.ports, self.repo, &remote, self.own).await?;
        let title = self.order.title.as_ref().unwrap_or(&self.order.task);
        let brief = Brief {
            mode: self.order.mode,
            repo: self.name(),
            title: text::cap_chars(title.trim().lines().next().unwrap_or_default(), 120),
            request: self.order.task.clone(),
            instructions: String::new(),
            rules,
            checks: match &self.order.checks {
                Checks::Given(commands) => commands.clone(),
                Checks::Found => repo_config.test.clone().unwrap_or(found.test),
            },
            files,
            notes: Vec::new(),
            places: String::new(),
            map: String::new(),
            threads: Vec::new(),
        };
        let setup = repo_config.setup.clone().unwrap_or(found.setup);
        Ok(Work {
            brief,
            guidance,
            mirror,
            remote,
            base,
            setup,
            setup_of: SetupOf::default(),
            acceptance: self.order.acceptance.clone(),
            repo_config,
        })
    }

    /// Says which keys of the repository's own file have no effect here.
    async fn note_unused(&self) -> anyhow::Result<()> {
        let unused = self.own.config.not_built(&self.ports.sandbox);
        if !unused.is_empty() {
            let text = phrase::run::no_effect(Language::English, REPO_CONFIG_PATH, &unused.join(", "));
            self.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(())
    }

    /// A name for the prompt; the checkout has no owner.
    fn name(&self) -> RepoName {
        let folder = self.repo.root.file_name().unwrap_or_default().to_string_lossy();
        format!("local/{}", text::slug(&folder, 60))
            .parse()
            .unwrap_or_else(|_| "local/checkout".parse().expect("a valid name"))
    }

    async fn leave_branch(
        &self,
        finished: Option<&Finished>,
        change: &ChangeSet,
    ) -> anyhow::Result<(BranchName, CommitSha)> {
        let git = &self.ports.git;
        let first_line = self.order.task.trim().lines().next().unwrap_or_default();
        let message = match finished.map(|finished| &finished.stop) {
            Some(Stop::Finished(Finish::Done { title, summary, .. })) => {
                format!("{}\n\n{}\n", text::cap_chars(title, 72), summary.trim())
            }
            _ => format!("Unfinished work: {}\n", text::cap_chars(first_line, 50)),
        };
        let by = Signature::of_program(self.ports.clock.now());
        let sha = git.commit(&change.import, &self.order.base, &message, &by).await?;
        let wanted = self.order.branch.clone();
        let wanted = wanted.unwrap_or_else(|| BranchName::for_task(first_line));
        let branch = git.leave_branch(self.repo, &change.import, &sha, &wanted).await?;
        Ok((branch, sha))
    }
}
