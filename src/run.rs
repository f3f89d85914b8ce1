//! One run: from a leased job (or a task from the command line) to a change with a verdict.
//! `gather` asks GitHub what is to be done and whether it may be; `work` does it and knows no
//! GitHub, which is why local runs share it. Called by `worker` and `app`.
//! Never writes to GitHub, and never believes the model about what was tested.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::agent::{Brief, Checkpoint, Guidance, People, Solution, Stop};
use crate::clock::Clock;
use crate::config::{AgentConfig, BudgetConfig, RetrievalConfig, SandboxConfig, WorkspaceConfig};
use crate::draft::Draft;
use crate::egress::{Egress, Gate};
use crate::event::{CheckRun, RunEvent, Side, Stage};
use crate::git::{Git, GitError, Import, Remote, TreePolicy};
use crate::ids::{CommitSha, JobId};
use crate::job::JobError;
use crate::memory::Memory;
use crate::model::{Live, Model};
use crate::permission::Policy;
use crate::phrase::{Language, policy, run as words};
use crate::recorder::Recorder;
use crate::repo_config::RepoConfig;
use crate::retrieval::code_search::{CodeSearch, Indexes};
use crate::sandbox::Sandbox;
use crate::secret::Redactor;
use crate::skill::Shelf;
use crate::store::StoreError;
use crate::tool::{Finish, Mode, Web};
use crate::workgraph::Desk as GraphDesk;
use crate::workspace::{RunFolder, Setups, Trees};

mod checks;
mod dev_container;
mod egress;
mod environment;
mod format;
mod gather;
mod guidance;
mod join;
mod limits;
mod opening;
mod record;
mod restore;
mod reviewing;
mod setup;
mod solving;
mod template;
mod threads;
mod verify;

pub use checks::{Sorted, sort};
pub use dev_container::add_image_of_dev_container;
pub use gather::{Fork, Gathered, Target, commands_of, gather, rules_of};
pub use guidance::{guidance_of, has_instructions, untrusted_guidance};
pub use join::{
    BaseMerge, Bench, Carried, Earlier as EarlierMerge, Joined, MergeInWords, begin, bundle_of, carry, in_words,
    merge_base,
};
pub use record::{RECORD, RECORD_END, Record, RecordEnd, RecordedMemory};
pub use verify::Verdict;

use limits::budget;
use opening::{Opened, local_failure, open};
use solving::record_solved;

/// How often the agent is shown failing checks of its own change before the run ends.
const MAX_REPAIRS: u32 = 2;

pub use crate::agent::CONVERSATION;

/// What an agent is told that finished while somebody was writing.
const MORE_TO_DO: &str = "The work is not over yet: something was added to it while you finished.";

/// Checkpoint with how the agent ended; `null` while it works.
pub const SOLUTION: &str = "solution";

/// Checkpoint with the identity of the folder that the conversation is about; empty when there is none.
pub const FOLDER: &str = "folder";

/// Everything a run needs from outside. Cheap to clone.
#[derive(Clone)]
pub struct Ports {
    /// Host git.
    pub git: Git,
    /// The model.
    pub model: Arc<dyn Model>,
    /// `[sandbox]`
    pub sandbox: SandboxConfig,
    /// The way out of sandboxes.
    pub egress: Egress,
    /// `[agent]`
    pub agent: AgentConfig,
    /// Skills of this program and of the administrator.
    pub skills: Shelf,
    /// `[budget]`
    pub budget: BudgetConfig,
    /// What tool calls may do without asking.
    pub permission: Policy,
    /// Who can be asked.
    pub people: Arc<dyn People>,
    /// Who watches replies arrive.
    pub live: Live,
    /// What is kept for later runs, where the run has a repository of its own to keep it for.
    pub memory: Option<Memory>,
    /// The work graph, where the run belongs to one.
    pub desk: Option<GraphDesk>,
    /// The web, for runs that may reach it.
    pub web: Option<Arc<Web>>,
    /// Prepared trees of the repository, where they are kept.
    pub trees: Option<Trees>,
    /// What set-ups of the repository left, where that is kept.
    pub setups: Option<Setups>,
    /// `[workspace]`
    pub workspace: WorkspaceConfig,
    /// Indexes of code, where they are kept.
    pub indexes: Option<Indexes>,
    /// `[retrieval]`
    pub retrieval: RetrievalConfig,
    /// What the program's own words for people are written in.
    pub language: Language,
    /// The time.
    pub clock: Clock,
    /// Takes secrets out of texts.
    pub redactor: Redactor,
}

/// What is to be done, where the code comes from, and what the repository wants.
#[derive(Debug, Clone)]
pub struct Work {
    /// What the agent is asked.
    pub brief: Brief,
    /// What the repository, if it is trusted, and the administrator say to the agent besides.
    pub guidance: Guidance,
    /// Bare repository that holds the base.
    pub mirror: PathBuf,
    /// Where the mirror gets missing objects from.
    pub remote: Remote,
    /// The commit to start from.
    pub base: CommitSha,
    /// Commands that prepare the sandbox.
    pub setup: Vec<String>,
    /// Where they came from, and whose code they run.
    pub setup_of: SetupOf,
    /// The command that alone decides whether the work is done, where there is one.
    pub acceptance: Option<String>,
    /// The repository's own file.
    pub repo_config: RepoConfig,
}

impl Work {
    /// The sandbox's section with the image that the repository chose, if the operator lets it.
    fn sandbox(&self, ports: &Ports) -> SandboxConfig {
        ports.sandbox.with_image_of(self.repo_config.image.as_deref())
    }
}

/// What is known of a run's set-up commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetupOf {
    /// The repository's own file names them; otherwise they were guessed.
    pub is_named: bool,
    /// The run begins at the head of the default branch: what they leave is no stranger's, and later
    /// runs may begin with it.
    pub is_default_branch: bool,
}

/// Where a run keeps its folders, and whose it is.
#[derive(Debug, Clone)]
pub struct Place {
    /// The service's state folder.
    pub state_dir: PathBuf,
    /// The job, or an id made up for a run without one.
    pub job: JobId,
}

/// What an earlier attempt of the same job left.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// Its complete checkout with whatever the agent did there.
    pub folder: Option<RunFolder>,
    /// The change it had made until then, where there is no folder: a bundle on top of the base.
    pub bundle: Option<Vec<u8>>,
    /// How the agent ended, if it had.
    pub solution: Option<Solution>,
    /// The conversation up to the last complete turn.
    pub conversation: Option<Checkpoint>,
    /// Results of the checks on the base.
    pub base_checks: Vec<CheckRun>,
    /// The record that it goes on from, or that is replayed: the agent is asked what stands there.
    pub record: Option<Record>,
    /// The merge that this attempt finishes, which its checkout or bundle holds.
    pub joined: Option<Joined>,
}

/// A change that passed the rules for trees.
#[derive(Debug)]
pub struct ChangeSet {
    /// The checked import.
    pub import: Import,
    /// The sandbox's bundle, from which the import can be made again.
    pub bundle: PathBuf,
    /// Unified diff, capped.
    pub diff: String,
}

/// What a run came to.
#[derive(Debug)]
pub struct Finished {
    /// How the agent ended.
    pub stop: Stop,
    /// Its last words when it did not finish by itself.
    pub last_words: String,
    /// The change, if there is one.
    pub change: Option<ChangeSet>,
    /// Why there is no change although files differ, one rule a line.
    pub violations: Vec<String>,
    /// What the checks said.
    pub verdict: Verdict,
    /// Drafts of issues that the agent gave.
    pub drafts: Vec<Draft>,
}

/// Largest change: it is kept in the database until it is published, which takes 64 MiB.
const MAX_CHANGE_BYTES: u64 = 60 * 1024 * 1024;
/// Most bytes of a diff that is kept for people.
const MAX_DIFF_BYTES: usize = 200 * 1024;

/// Does the work: opens the workspace, lets the agent work, imports and verifies the change.
///
/// # Errors
/// [`JobError`] when there is no result; everything the agent itself can end with is in
/// [`Finished`].
pub async fn work(
    ports: &Ports,
    work: Work,
    mut earlier: Earlier,
    place: &Place,
    recorder: &Recorder,
    cancel: &CancellationToken,
) -> Result<Finished, JobError> {
    let opening = open(ports, &work, &mut earlier, place, recorder);
    let Opened {
        folder,
        sandbox,
        gate,
        code,
    } = stage(recorder, Stage::Open, opening).await?;
    let desk = Desk {
        ports,
        folder: &folder,
        place,
        sandbox: &sandbox,
        code: code.as_ref(),
        gate: gate.as_ref(),
        recorder,
        cancel,
        permission: permission(ports, &work)?,
        joined: earlier.joined.take(),
    };
    let result = egress::recorded(gate.as_ref(), recorder, Box::pin(desk.work(work, earlier))).await;
    sandbox.close().await;
    result
}

/// The rules of this run, with those of the repository's own file.
fn permission(ports: &Ports, work: &Work) -> Result<Policy, JobError> {
    let policy = ports.permission.for_run();
    let list = &work.repo_config.permission;
    if list.is_empty() {
        return Ok(policy);
    }
    let narrowed = policy.with_list_of(&list.as_rules());
    narrowed.map_err(|problems| JobError::Fail(problems.join("; ")))
}

/// What set-up and the checks before the change came to.
#[derive(Default)]
struct Prepared {
    notes: Vec<String>,
    base: Vec<CheckRun>,
    /// Set-up failed, and nothing is to be changed.
    only_reads: bool,
}

/// Where the agent of an earlier attempt was.
struct Before {
    conversation: Option<Checkpoint>,
    solution: Option<Solution>,
}

/// One run's tools and place, shared by its stages.
struct Desk<'a> {
    ports: &'a Ports,
    folder: &'a RunFolder,
    place: &'a Place,
    sandbox: &'a Arc<dyn Sandbox>,
    code: Option<&'a CodeSearch>,
    /// The proxy that its sandboxes share.
    gate: Option<&'a Arc<Gate>>,
    recorder: &'a Recorder,
    cancel: &'a CancellationToken,
    /// The rules with what people approve in this run.
    permission: Policy,
    /// The merge that the run finishes.
    joined: Option<Joined>,
}

/// Nothing is to be changed, so that there is nothing to check either.
fn only_read(work: &mut Work, verdict: &mut Verdict) {
    work.brief.mode = Mode::Answer;
    verdict.commands.clear();
}

impl Desk<'_> {
    async fn work(&self, mut work: Work, earlier: Earlier) -> Result<Finished, JobError> {
        fp!("open.done");
        for text in std::mem::take(&mut work.guidance.notes) {
            self.recorder.record(RunEvent::Noted { text }).await?;
        }
        let mut verdict = verify::verdict_of(&mut work);
        let only_read_before = earlier.record.as_ref().map(|record| record.brief.mode) == Some(Mode::Answer);
        if work.brief.mode.changes_code() && only_read_before {
            // Because set-up failed, and a restart does not mend that.
            only_read(&mut work, &mut verdict);
        }
        let changes_code = work.brief.mode.changes_code();
        let has_begun = earlier.conversation.as_ref().is_some_and(Checkpoint::has_begun);
        let worked_in = has_begun || earlier.solution.is_some();
        let known = work
            .brief
            .checks
            .iter()
            .all(|command| earlier.base_checks.iter().any(|check| check.command == *command));
        if let Some(joined) = &self.joined {
            let prepare = async {
                let failures = setup::set_up(self, &work.setup, self.folder, self.sandbox).await?;
                work.brief.notes.extend(setup::in_words(&failures));
                join::checks_before(self, &work, joined).await
            };
            verdict.base = stage(self.recorder, Stage::SetUp, prepare).await?;
        } else if worked_in && known {
            verdict.base = earlier.base_checks;
            if earlier.bundle.is_some() {
                // The files are what they were, what was prepared beside them is not.
                let prepare = setup::set_up(self, &work.setup, self.folder, self.sandbox);
                stage(self.recorder, Stage::SetUp, prepare).await?;
            }
        } else if changes_code {
            let prepare = self.prepare(&work, worked_in);
            let prepared = stage(self.recorder, Stage::SetUp, prepare).await?;
            verdict.base = prepared.base;
            work.brief.notes.extend(prepared.notes);
            if prepared.only_reads {
                only_read(&mut work, &mut verdict);
            }
        }
        let changes_code = work.brief.mode.changes_code();
        // A merge that goes on holds finished work: there the command passes because of it.
        let is_untouched = changes_code && !worked_in && self.joined.is_none();
        if let Some(finished) = verify::done_before(&verdict, is_untouched) {
            return Ok(finished);
        }
        if changes_code {
            work.brief.notes.extend(verdict.base_in_words());
        }
        if let Some(memory) = &self.ports.memory {
            work.brief.notes.extend(memory.in_brief().await?);
        }
        if earlier.record.is_none() {
            self.look_first(&mut work.brief).await;
        }
        let budget = budget(&self.ports.budget, &work.repo_config);
        let record = match earlier.record {
            // The limits are those of now: an administrator may have changed them.
            Some(record) => Record { budget, ..record },
            None => {
                let begun = Record::begin(self.ports, &work, self.setting(&work, &verdict).await, budget);
                begun.at_desk(self.ports).await?
            }
        };
        if earlier.solution.is_none() {
            // The head is text of strangers, too, and is read by people.
            self.keep(RECORD, &self.recorder.cleaned(&record)?).await?;
        }
        let before = Before {
            conversation: earlier.conversation,
            solution: earlier.solution,
        };
        let finished = Box::pin(self.solve_and_check(&work, &record, before, verdict)).await?;
        let end = RecordEnd {
            tree: finished.change.as_ref().map(|change| change.import.tree.clone()),
            stop: finished.stop.clone(),
        };
        self.keep(RECORD_END, &self.recorder.cleaned(&end)?).await?;
        Ok(finished)
    }

    /// Set-up and checks before the agent begins. A workspace that an agent has worked in already
    /// is not the base any more: nothing is run there.
    async fn prepare(&self, work: &Work, worked_in: bool) -> Result<Prepared, JobError> {
        if worked_in {
            return Ok(Prepared::default());
        }
        let failures = setup::set_up(self, &work.setup, self.folder, self.sandbox).await?;
        let mut prepared = Prepared {
            notes: setup::in_words(&failures),
            ..Prepared::default()
        };
        match setup::judge(self.ports, work, &failures)? {
            setup::Then::Keep => setup::keep(self, work).await,
            setup::Then::GoOn => {}
            setup::Then::OnlyRead => {
                prepared.notes.push(setup::ONLY_READ.to_owned());
                prepared.only_reads = true;
                return Ok(prepared);
            }
        }
        prepared.base =
            verify::run_checks(self.sandbox, &work.brief.checks, Side::Base, self.recorder, self.cancel).await?;
        Ok(prepared)
    }

    /// The agent's turns, then the import and the checks; a change that breaks what worked goes
    /// back to the agent a few times.
    async fn solve_and_check(
        &self,
        work: &Work,
        record: &Record,
        before: Before,
        mut verdict: Verdict,
    ) -> Result<Finished, JobError> {
        let (mut resume, mut solved) = (before.conversation, before.solution);
        let mut record = record.clone();
        let mut repairs = 0;
        let mut shown = None;
        // What it came to before somebody said more.
        let mut finished: Option<Solution> = None;
        loop {
            let mut solution = match solved.take() {
                Some(solution) => solution,
                None => stage(self.recorder, Stage::Solve, self.solve(&record, resume.take())).await?,
            };
            if let Some(finished) = finished.take() {
                solution = solution.or_before(finished);
            } else if self.has_more_to_do(&solution).await {
                finished = Some(solution.clone());
                resume = Some(match solution.conversation.has_begun() {
                    true => solution.conversation.with_remark(MORE_TO_DO),
                    false => solution.conversation,
                });
                self.keep(CONVERSATION, &resume).await?;
                self.keep(SOLUTION, &None::<Solution>).await?;
                continue;
            }
            let (mut change, mut violations) = match work.brief.mode.changes_code() {
                true => self.import(work).await?,
                false => (None, Vec::new()),
            };
            fp!("import.done");
            let formats = &work.repo_config.format;
            let done = matches!(solution.stop, Stop::Finished(Finish::Done { .. }));
            // A merge is not reformatted: what it brings is of others.
            if let (Some(unformatted), true, None) = (&change, done, &self.joined)
                && self.format(formats, unformatted).await?
            {
                (change, violations) = self.import(work).await?;
            }
            verdict.head.clear(); // what an earlier change of this run came to
            record_solved(self.recorder, &solution, change.as_ref()).await?;
            if let (Some(change), true) = (&change, done) {
                verdict.head = Box::pin(verify::check_head(self, work, change)).await?;
            }
            fp!("verify.done");
            if self.cancel.is_cancelled() {
                // Stopped during the checks: what they said is not the whole.
                solution.stop = Stop::Cancelled;
            }
            let done = done && solution.stop != Stop::Cancelled;
            let tree = change.as_ref().map(|change| change.import.tree.clone());
            // Of a tree that it was shown once, the agent has said what it has to say.
            let is_new = tree.is_none() || tree != shown;
            let complaint = verify::complaint(&verdict, &violations, &solution.stop);
            let complaint = complaint.filter(|_| done && is_new && repairs < MAX_REPAIRS);
            let Some(complaint) = complaint else {
                return Ok(Finished {
                    stop: solution.stop,
                    last_words: solution.last_words,
                    change,
                    violations,
                    verdict,
                    drafts: solution.conversation.drafts,
                });
            };
            repairs += 1;
            shown = tree;
            let text = match violations.as_slice() {
                [] => words::checks_failed(self.ports.language).to_owned(),
                broken => words::breaks_rules(self.ports.language, &policy::list(self.ports.language, broken)),
            };
            self.recorder.record(RunEvent::Noted { text }).await?;
            resume = Some(match solution.conversation.has_begun() {
                true => solution.conversation.with_remark(&complaint),
                // Nobody was asked yet: a merge that needed no agent.
                false => {
                    record.brief.notes.push(complaint);
                    self.keep(RECORD, &self.recorder.cleaned(&record)?).await?;
                    solution.conversation
                }
            });
            self.keep(CONVERSATION, &resume).await?;
            self.keep(SOLUTION, &None::<Solution>).await?;
        }
    }

    /// Whether somebody said something to a run that thought it had finished.
    async fn has_more_to_do(&self, solution: &Solution) -> bool {
        let ended = matches!(
            solution.stop,
            Stop::Finished(Finish::Done { .. } | Finish::NothingToDo { .. })
        );
        ended && self.ports.people.has_more(solution.conversation.heard).await
    }

    async fn keep(&self, kind: &str, value: &impl serde::Serialize) -> Result<(), JobError> {
        let body = serde_json::to_vec(value)
            .map_err(|error| JobError::Fail(format!("the {kind} cannot be stored: {error}")))?;
        Ok(self.recorder.checkpoint(kind, 0, &body).await?)
    }

    /// The change as a checked import, or the rules it breaks, or nothing when no file differs. A
    /// stopped run exports what it has, so the run's own stop does not stop the export.
    async fn import(&self, work: &Work) -> Result<(Option<ChangeSet>, Vec<String>), JobError> {
        let Some(bundle) = self.sandbox.export(&work.base, &CancellationToken::new()).await? else {
            return self.judged(work, None).await;
        };
        let folder = self.folder.clone();
        let emptied = tokio::task::spawn_blocking(move || folder.import()).await;
        let into = emptied
            .map_err(|error| JobError::Retry(error.to_string()))?
            .map_err(local_failure)?;
        let policy = TreePolicy {
            protected: work.repo_config.protected_paths.clone(),
            max_bundle_bytes: MAX_CHANGE_BYTES,
            language: self.ports.language,
            ..TreePolicy::default()
        };
        let git = &self.ports.git;
        match git
            .import(&bundle, &self.folder.base_git(), &work.base, &into, &policy)
            .await
        {
            Ok(import) => {
                let diff = git.diff(&import, MAX_DIFF_BYTES).await?;
                self.judged(work, Some(ChangeSet { import, bundle, diff })).await
            }
            Err(GitError::Policy(violations)) => Ok((None, violations)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Desk<'_> {
    async fn judged(
        &self,
        work: &Work,
        change: Option<ChangeSet>,
    ) -> Result<(Option<ChangeSet>, Vec<String>), JobError> {
        match &self.joined {
            Some(joined) => join::judge(self.ports, work, joined, change).await,
            None => Ok((change, Vec::new())),
        }
    }
}

/// Runs one stage and records its beginning, its end and the time it took.
pub async fn stage<T, E: From<StoreError>>(
    recorder: &Recorder,
    stage: Stage,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let started = Instant::now();
    recorder.record(RunEvent::StageStarted { stage }).await?;
    let result = step.await?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    recorder.record(RunEvent::StageFinished { stage, took_ms }).await?;
    Ok(result)
}
