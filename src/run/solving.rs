//! The agent's part of a run: what it is given to work with, its turns, and how they ended. Called by
//! `run` alone. Never judges what came out.

use super::{ChangeSet, Desk, Record, SOLUTION, Verdict, Work, environment};
use crate::agent::{self, Brief, Checkpoint, Setting, Solution, SolveError, Stop};
use crate::conversation::MAIN;
use crate::event::RunEvent;
use crate::job::JobError;
use crate::model::tokens_of;
use crate::recorder::Recorder;
use crate::retrieval::code_search::Budget;
use crate::store::StoreError;
use crate::text;
use crate::tool::{Drafting, Finish, Mode, Toolbox, Web};

/// Most tokens of the places that a request may be about.
const MAX_PLACES_TOKENS: usize = 1000;

/// Most bytes of an answer in the log; people read the whole in the comment.
const MAX_SUMMARY_BYTES: usize = 2 * 1024;

impl Desk<'_> {
    /// The agent's turns. How it ended is stored, so that a crash during the checks does not send
    /// it back to work.
    pub(super) async fn solve(&self, record: &Record, resume: Option<Checkpoint>) -> Result<Solution, JobError> {
        let tools = self.tools(record);
        let task = agent::Task {
            name: MAIN,
            fence: &record.fence,
            brief: &record.brief,
            setting: &record.setting,
            sandbox: self.sandbox,
            code: self.code,
            model: self.ports.model.as_ref(),
            tools: &tools,
            recorder: self.recorder,
            budget: record.budget,
            permission: &self.permission,
            people: self.ports.people.as_ref(),
            live: self.ports.live.clone(),
            cancel: self.cancel,
            resume,
        };
        let solution = Box::pin(agent::solve(task)).await.map_err(solve_failed)?;
        if solution.stop != Stop::Cancelled {
            self.keep(SOLUTION, &Some(&solution)).await?;
            fp!("solve.stored");
        }
        Ok(solution)
    }

    /// Puts into the brief what the index says of the request; without an index, why.
    pub(super) async fn look_first(&self, brief: &mut Brief) {
        let Some(code) = self.code else { return };
        let task = format!("{}\n\n{}\n\n{}", brief.title, brief.request, brief.instructions);
        let budget = Budget {
            places: MAX_PLACES_TOKENS,
            map: self.ports.retrieval.map_tokens as usize,
        };
        let wait = self.ports.retrieval.wait_seconds;
        match code.first_look(&task, budget, tokens_of, wait).await {
            Ok(look) => {
                brief.places = look.places.text.trim_end().to_owned();
                brief.map = look.map.trim_end().to_owned();
            }
            Err(why) => brief.places = format!("[fallback: index unavailable: {why}]"),
        }
    }

    /// What the agent works with.
    fn tools(&self, record: &Record) -> Toolbox {
        let mode = record.brief.mode;
        let of_the_sandbox = Toolbox::for_mode(&self.ports.model.profile(), mode)
            .with_children(mode)
            .testing_by(&record.checks)
            .answering(if mode.changes_code() {
                &record.brief.threads
            } else {
                &[]
            })
            .with_skills(&record.setting.guidance.skills);
        let of_the_web = self.ports.web.iter().flat_map(Web::tools);
        let tools = of_the_web.fold(of_the_sandbox, Toolbox::with);
        let tools = self.ports.memory.iter().fold(tools, Toolbox::remembering);
        let tools = self.ports.desk.iter().fold(tools, Toolbox::at_desk);
        let tools = match record.drafts && mode.changes_code() {
            true => tools.drafting(Drafting::Noticed),
            false => tools,
        };
        match self.ports.people.can_ask() && mode.changes_code() {
            true => tools.asking_people(),
            false => tools,
        }
    }

    /// What the agent finds beside its brief.
    pub(super) async fn setting(&self, work: &Work, verdict: &Verdict) -> Setting {
        let config = &self.ports.agent;
        let failed = verdict.base.iter().filter(|check| !check.passed());
        Setting {
            language: self.ports.language,
            environment: environment::look(self.sandbox, self.cancel).await,
            network: false,
            failing_checks: failed.map(|check| check.command.clone()).collect(),
            guidance: work.guidance.clone(),
            review_before_finish: config.review_before_finish,
            max_explore_turns: match work.brief.mode {
                Mode::Change => config.max_explore_turns,
                // To look around is what it is for.
                Mode::Plan | Mode::Answer | Mode::Review | Mode::Draft => u32::MAX,
            },
        }
    }
}

fn solve_failed(error: SolveError) -> JobError {
    match error {
        SolveError::Store(error) => error.into(),
        SolveError::Sandbox(error) => error.into(),
        SolveError::Model(error) => error.into(),
    }
}

/// Writes down how the agent ended.
pub(super) async fn record_solved(
    recorder: &Recorder,
    solution: &agent::Solution,
    change: Option<&ChangeSet>,
) -> Result<(), StoreError> {
    let (how, summary) = match &solution.stop {
        Stop::Finished(Finish::Done { title, .. }) => ("finished", title.clone()),
        Stop::Finished(Finish::NothingToDo { reason, .. }) => ("nothing_to_do", reason.clone()),
        Stop::Finished(Finish::Answered { answer }) => ("answered", text::cap(answer, MAX_SUMMARY_BYTES)),
        Stop::Finished(Finish::Planned(plan)) => ("planned", plan.summary.clone()),
        Stop::Finished(Finish::Reviewed(review)) => ("reviewed", review.summary.clone()),
        Stop::Finished(Finish::Refused { reason }) => ("refused", reason.clone()),
        Stop::Budget(limit) => ("budget", limit.clone()),
        Stop::Cancelled => ("cancelled", String::new()),
        Stop::Stuck(why) => ("stuck", why.clone()),
        Stop::NeedsInput(_) => ("needs_input", String::new()),
    };
    let files = change.map_or(0, |change| {
        u32::try_from(change.import.changes.len()).unwrap_or(u32::MAX)
    });
    recorder
        .record(RunEvent::Solved {
            how: how.to_owned(),
            summary,
            files,
        })
        .await
}
