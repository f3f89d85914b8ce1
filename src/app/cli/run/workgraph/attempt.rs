//! One try of a milestone: a run that begins at the end of the graph's branch, or with what an
//! earlier try left, and the word of the program on what came of it. Called by `workgraph` alone.
//! Never takes the agent's word where there is a command that decides.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::super::ending::Ending;
use super::super::events::End;
use super::super::local::{self, Local, Order};
use super::{Series, kept_branch_of};
use crate::agent::Stop;
use crate::event::{CheckRun, Event, Totals};
use crate::git::{Growth, Source};
use crate::ids::{CommitSha, RunId};
use crate::milestone::{Conclusion, Graph, Kept, Milestone};
use crate::run::{ChangeSet, Finished};
use crate::text;
use crate::tool::{Finish, Mode};
use crate::workgraph::{BeginsWith, Desk, Purpose, RENEW, request};

mod judge;

use judge::{Judged, judge};

/// A try, as it is told.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    /// The milestone as it was when the try began.
    pub(super) milestone: Milestone,
    /// How it ended.
    pub(super) how: How,
    /// What was wrong.
    pub(super) problem: Option<String>,
    /// The commit that it became.
    pub(super) commit: Option<CommitSha>,
    /// The run, if there was one.
    pub(super) run: Option<RunId>,
    /// What it took.
    pub(super) totals: Totals,
    /// How long it took.
    pub(super) took: Duration,
}

impl Tried {
    /// Its end, for those who follow the events.
    fn end(&self) -> End<'_> {
        let (outcome, ending) = match &self.how {
            How::Done => ("done", Ending::Done),
            How::Failed => ("failed", Ending::NoResult),
            How::Stopped => ("stopped", Ending::Done),
            How::Broke(_) => ("broke_off", Ending::Error),
        };
        End {
            outcome,
            exit_code: ending.code(),
            reason: self.problem.as_deref(),
            left: None,
        }
    }
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// The milestone is done.
    Done,
    /// It is not, and the try counts.
    Failed,
    /// A person stopped it.
    Stopped,
    /// The model, the sandbox, git or the database failed.
    Broke(String),
}

/// Where a try begins.
struct Begin {
    /// The end of the graph's branch, if there is one.
    tip: Option<CommitSha>,
    /// What the commit will stand on.
    head: CommitSha,
    /// What an earlier try left, if it stands on the same commit.
    kept: Option<Kept>,
}

impl Begin {
    fn at(&self) -> &CommitSha {
        self.kept.as_ref().map_or(&self.head, |kept| &kept.sha)
    }
}

impl Series<'_> {
    /// Tries a milestone that this process holds, and concludes it.
    pub(super) async fn attempt(&self, milestone: &Milestone, graph: &Graph) -> Tried {
        let began = Instant::now();
        let mut tried = Tried {
            milestone: milestone.clone(),
            how: How::Done,
            problem: None,
            commit: None,
            run: None,
            totals: Totals::default(),
            took: Duration::ZERO,
        };
        if self.args.look().is_some() {
            note!("\n{} · {}", milestone.id, text::plain_output(&milestone.title));
        }
        let stop = self.site.stop.child_token();
        let held = self.keep_holding(milestone, stop.clone());
        let worked = Box::pin(self.work_on(milestone, graph, &stop, &mut tried)).await;
        held.abort();
        if let Err(error) = worked {
            tried.how = How::Broke(format!("{error:#}"));
            // A commit that stands on the branch already is not forgotten by giving the milestone back.
            let _ = self.settle(|hold| hold.by == self.by).await;
            // What cannot be said now is found out when the hold has run out.
            let freed = Conclusion::Released { kept: None };
            let _ = self.graph.conclude(&milestone.id, &self.by, freed).await;
        }
        if let Err(error) = self.graph.release_all(&self.by).await {
            tracing::warn!(%error, "what the model began besides was not freed; it is free when the hold has run out");
        }
        tried.took = began.elapsed();
        if tried.run.is_some() {
            self.site.told_end(&tried.end());
        }
        tried
    }

    /// Says again and again that this process is at the milestone; the run ends when it is not its own
    /// any more.
    fn keep_holding(&self, milestone: &Milestone, stop: CancellationToken) -> tokio::task::JoinHandle<()> {
        let (graph, by, id) = (self.graph.clone(), self.by.clone(), milestone.id.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEW).await;
                match graph.renew(&id, &by).await {
                    Ok(true) => {}
                    Ok(false) => return stop.cancel(),
                    Err(error) => tracing::warn!(%error, "the hold on {id} was not lengthened"),
                }
            }
        })
    }

    async fn work_on(
        &self,
        milestone: &Milestone,
        graph: &Graph,
        stop: &CancellationToken,
        tried: &mut Tried,
    ) -> anyhow::Result<()> {
        let begin = self.begin(milestone).await?;
        let begins_with = match begin.kept {
            Some(_) => BeginsWith::WhatWasLeft,
            None => BeginsWith::Nothing,
        };
        let request = request(milestone, graph, begins_with, self.graph.limits());
        let order = Order {
            // The first line names the task, also where something is remembered of it.
            task: format!("{}\n\n{request}", milestone.title),
            mode: Mode::Change,
            base: begin.at().clone(),
            checks: self.args.checks(),
            acceptance: milestone.acceptance.clone(),
            title: Some(milestone.title.clone()),
            branch: None,
        };
        let mut begun = self.site.begin(&order).await?;
        tried.run = Some(begun.run.clone());
        let purpose = Purpose::Work {
            at_hand: milestone.id.clone(),
        };
        let redactor = begun.ports.redactor.clone();
        begun.ports.desk = Some(Desk::new(self.graph.clone(), self.by.clone(), purpose, redactor));
        let local = Local {
            stop,
            ..self.site.local(&order, &begun)
        };
        let worked = Box::pin(local.attempt()).await;
        tried.totals = Totals::of(begun.recorder.kept().iter().map(|event: &Event| &event.body));
        let concluded = match worked {
            Ok(ended) => self.conclude(milestone, &begin, ended, tried).await,
            Err(error) => Err(error),
        };
        self.site.over(&begun);
        concluded
    }

    async fn begin(&self, milestone: &Milestone) -> anyhow::Result<Begin> {
        let (git, repo) = (&self.site.ports.git, &self.site.repo);
        let tip = git.tip(repo, &self.branch).await?;
        let head = tip.clone().unwrap_or_else(|| repo.head.clone());
        let kept = match &milestone.kept {
            Some(kept) if kept.base == head => {
                let stands = git.tip(repo, &kept.branch).await?.as_ref() == Some(&kept.sha);
                stands.then(|| kept.clone())
            }
            _ => None,
        };
        Ok(Begin { tip, head, kept })
    }

    async fn conclude(
        &self,
        milestone: &Milestone,
        begin: &Begin,
        ended: local::Tried,
        tried: &mut Tried,
    ) -> anyhow::Result<()> {
        let change_of = |finished: &Option<Finished>| {
            finished
                .as_ref()
                .and_then(|finished| finished.change.as_ref())
                .is_some()
        };
        let local::Tried { finished, failure } = ended;
        let judged = match (failure, &finished) {
            (Some(reason), _) => Judged::Broke(reason),
            (None, Some(finished)) => judge(finished, begin.kept.as_ref()),
            (None, None) => Judged::Stopped,
        };
        let conclusion = match &judged {
            Judged::Done => {
                let commit = self.commit(milestone, begin, finished.as_ref()).await?;
                tried.commit.clone_from(&commit);
                Conclusion::Done { commit }
            }
            Judged::Failed(problem) => Conclusion::Failed {
                problem: problem.clone(),
                kept: self.keep(milestone, begin, finished.as_ref()).await,
            },
            Judged::Stopped | Judged::Broke(_) if change_of(&finished) => Conclusion::Released {
                kept: self.keep(milestone, begin, finished.as_ref()).await,
            },
            Judged::Stopped | Judged::Broke(_) => Conclusion::Released { kept: None },
        };
        self.graph
            .conclude(&milestone.id, &self.by, conclusion)
            .await
            .context("say how the milestone ended")?;
        (tried.how, tried.problem) = match judged {
            Judged::Done => (How::Done, None),
            Judged::Failed(problem) => (How::Failed, Some(problem)),
            Judged::Stopped => (How::Stopped, None),
            Judged::Broke(reason) => (How::Broke(reason.clone()), Some(reason)),
        };
        if tried.how == How::Done {
            self.forget_kept(milestone).await;
        }
        Ok(())
    }

    /// Puts the work at the end of the graph's branch. What is about to be there is in a row before.
    async fn commit(
        &self,
        milestone: &Milestone,
        begin: &Begin,
        finished: Option<&Finished>,
    ) -> anyhow::Result<Option<CommitSha>> {
        let (git, repo) = (&self.site.ports.git, &self.site.repo);
        let change = finished.and_then(|finished| finished.change.as_ref());
        let source = match (change, &begin.kept) {
            (Some(change), _) => Source::Import(&change.import),
            // The command passes on what an earlier try left.
            (None, Some(kept)) => Source::Commit(&kept.sha),
            (None, None) => return Ok(None),
        };
        let said = match finished.map(|finished| &finished.stop) {
            Some(Stop::Finished(Finish::Done { title, summary, .. })) => {
                format!("{}\n\n{}", text::cap_chars(title, 72), summary.trim())
            }
            _ => text::cap_chars(&milestone.title, 72),
        };
        let message = format!(
            "{}\n\nMilestone: {}/{}\n",
            said.trim(),
            self.graph.key().name,
            milestone.id
        );
        let growth = Growth {
            source,
            parent: &begin.head,
            message: &message,
            by: &self.site.signature(),
        };
        let sha = git.place_commit(repo, &growth).await?;
        self.graph.intend(&milestone.id, &self.by, &sha).await?;
        git.move_branch(repo, &self.branch, begin.tip.as_ref(), &sha).await?;
        Ok(Some(sha))
    }

    /// Keeps what a try left on a branch of its own; nothing where that cannot be.
    async fn keep(&self, milestone: &Milestone, begin: &Begin, finished: Option<&Finished>) -> Option<Kept> {
        let finished = finished?;
        let change = finished.change.as_ref()?;
        match self.keep_change(milestone, begin, finished, change).await {
            Ok(kept) => Some(kept),
            Err(error) => {
                note!("forgehand: what this try left is lost: {error:#}");
                None
            }
        }
    }

    async fn keep_change(
        &self,
        milestone: &Milestone,
        begin: &Begin,
        finished: &Finished,
        change: &ChangeSet,
    ) -> anyhow::Result<Kept> {
        let (git, repo) = (&self.site.ports.git, &self.site.repo);
        let branch = kept_branch_of(&self.graph.key().name, &milestone.id);
        let message = format!("Unfinished work: {}\n", text::cap_chars(&milestone.title, 50));
        let growth = Growth {
            source: Source::Import(&change.import),
            parent: &begin.head,
            message: &message,
            by: &self.site.signature(),
        };
        let sha = git.place_commit(repo, &growth).await?;
        let before = git.tip(repo, &branch).await?;
        if before.as_ref() != Some(&sha) {
            git.move_branch(repo, &branch, before.as_ref(), &sha).await?;
        }
        let failed = finished.verdict.base.iter().filter(|check| !check.passed());
        let failed_before = match &begin.kept {
            Some(kept) => kept.failed_before.clone(),
            None => failed.map(|check: &CheckRun| check.command.clone()).collect(),
        };
        Ok(Kept {
            branch,
            sha,
            base: begin.head.clone(),
            failed_before,
        })
    }

    /// What earlier tries left is of no use once the milestone is done.
    async fn forget_kept(&self, milestone: &Milestone) {
        let (git, repo) = (&self.site.ports.git, &self.site.repo);
        let branch = kept_branch_of(&self.graph.key().name, &milestone.id);
        let Ok(Some(at)) = git.tip(repo, &branch).await else {
            return;
        };
        if let Err(error) = git.remove_branch(repo, &branch, &at).await {
            note!("forgehand: {branch} is of no use any more and stays: {error}");
        }
    }
}
