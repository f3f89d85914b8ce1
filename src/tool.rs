//! Tools that a model may call: one file each, specification and handler together. Called by
//! `agent`. Never touches the host: everything happens through the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::memory::Memory;
use crate::model::{EditFormat, Profile, ToolCall, ToolSpec};
use crate::retrieval::code_search::CodeSearch;
use crate::sandbox::{FileReply, FileRequest, Sandbox, SandboxError, WORKSPACE};
use crate::workgraph::{Desk, Purpose};

mod agent;
mod alias;
mod answer;
mod apply_patch;
mod arguments;
mod ask_user;
mod ast_grep;
mod background;
mod code_graph;
mod commit;
mod confirm;
mod diff;
mod draft_issue;
mod edit;
mod edit_file;
mod finish;
mod finish_drafts;
mod finish_review;
mod generate_milestones;
mod glob;
mod grep;
mod key;
mod list_directory;
mod memory;
mod milestone;
mod mode;
mod near_names;
mod patch;
mod plan;
mod propose_plan;
mod read_file;
mod reason;
mod review;
mod run_command;
mod run_tests;
mod search_code;
mod skill;
mod threads;
mod web;
mod write_file;

pub use draft_issue::Drafting;
pub use finish_review::{PullFinding, PullReview, Severity};
pub use mode::{Mode, only_reads};
pub use review::{Finding, Review, Verdict};
pub use threads::{Thread, ThreadAnswer, ThreadVerdict};
pub use web::Web;

/// Longest arguments of one call. A file that is longer is not written by hand.
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;

/// Tools that change nothing, which is all a child gets.
const READ_ONLY: [&str; 7] = [
    "list_directory",
    "read_file",
    "glob",
    "grep",
    "ast_grep",
    "search_code",
    "diff",
];

/// What a tool needs to work.
pub struct ToolContext<'a> {
    /// Where it works.
    pub sandbox: &'a Arc<dyn Sandbox>,
    /// The index of the code, where there is one.
    pub code: Option<&'a CodeSearch>,
    /// Stop.
    pub cancel: &'a CancellationToken,
}

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// Text for the model.
    Text(String),
    /// The agent's plan, and text for the model.
    Plan(Vec<crate::event::PlanStep>, String),
    /// A person has to be asked.
    Ask(crate::question::Question),
    /// An issue that people shall decide on.
    Draft(Box<crate::draft::Draft>, Drafting),
    /// A child has to do something.
    Delegate(Errand),
    /// A child is done.
    Conclude(Conclusion),
    /// The agent is done.
    Finish(Finish),
}

/// What a child is to do. It can read, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// Answer a question about the repository.
    Answer {
        /// The question.
        question: String,
    },
    /// Review the change.
    Review {
        /// What to look at closely.
        focus: String,
    },
}

/// What a child comes back with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// An answer.
    Answer(String),
    /// A review.
    Review(Review),
}

/// How the agent says it ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The change is made; summary for the pull request.
    Done {
        /// Title for the pull request, one line.
        title: String,
        /// What changed and why, Markdown.
        summary: String,
        /// What a reviewer should look at.
        risks: String,
        /// What was left out.
        not_done: String,
        /// What is said to the review threads that the run was given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        threads: Vec<ThreadAnswer>,
        /// Commands in the background that were ended with the work, as short lines: whatever they
        /// were for is not done.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unfinished: Vec<String>,
    },
    /// Nothing has to change.
    NothingToDo {
        /// Why.
        reason: String,
        /// What is said to the review threads that the run was given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        threads: Vec<ThreadAnswer>,
    },
    /// The question is answered.
    Answered {
        /// The answer, Markdown.
        answer: String,
    },
    /// The plan that nobody could be asked to approve.
    Planned(crate::question::ProposedPlan),
    /// The pull request is reviewed.
    Reviewed(PullReview),
    /// The request should not be done.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The call itself is wrong (no such tool, arguments that do not fit): nothing was done.
    #[error("{0}")]
    BadCall(String),
    /// The model can mend it: the text says what was wrong and what to do.
    #[error("{0}")]
    ForModel(String),
    /// The run cannot go on.
    #[error(transparent)]
    Fatal(#[from] SandboxError),
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and schema of arguments.
    fn spec(&self) -> ToolSpec;
    /// Whether the same call twice leaves the same as once, so that a call whose end nobody saw
    /// may be made again.
    fn may_repeat(&self) -> bool {
        false
    }
    /// Whether the same call again may have another answer though nothing was done in between, so
    /// that asking again is no sign of being stuck.
    fn waits(&self) -> bool {
        false
    }
    /// What the rules of permission know the call by, such as `write_file:src/`.
    fn permission_key(&self, _arguments: &Value) -> String {
        self.spec().name
    }
    /// Runs it with arguments that are valid JSON and nothing more.
    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError>;
}

/// The tools of a run.
pub struct Toolbox {
    tools: Vec<(ToolSpec, Box<dyn Tool>)>,
    /// Tools that ask people. Offered only where somebody can be asked; called all the same, they
    /// are answered with what to do instead.
    asking: Vec<(ToolSpec, Box<dyn Tool>)>,
}

impl Toolbox {
    /// All tools of this program that need nothing but a sandbox; `edit_file` is the one to change
    /// files with.
    pub fn standard() -> Self {
        Self::preferring(EditFormat::Replace)
    }

    /// As [`Self::standard`], with the way of changing files first that suits the model.
    pub fn for_model(profile: &Profile) -> Self {
        Self::preferring(profile.edit_format)
    }

    fn preferring(format: EditFormat) -> Self {
        let (edit, patch): (Box<dyn Tool>, Box<dyn Tool>) =
            (Box::new(edit_file::EditFile), Box::new(apply_patch::ApplyPatch));
        let [first, second] = match format {
            EditFormat::Replace => [edit, patch],
            EditFormat::Patch => [patch, edit],
        };
        let preferred = first.spec().name;
        let before: [Box<dyn Tool>; 2] = [Box::new(list_directory::ListDirectory), Box::new(read_file::ReadFile)];
        let after: [Box<dyn Tool>; 14] = [
            Box::new(write_file::WriteFile),
            Box::new(glob::Glob),
            Box::new(grep::Grep),
            Box::new(ast_grep::AstGrep),
            Box::new(search_code::SearchCode),
            Box::new(run_command::RunCommand),
            Box::new(run_tests::RunTests::default()),
            Box::new(background::StartCommand),
            Box::new(background::CommandOutput),
            Box::new(background::StopCommand),
            Box::new(diff::Diff),
            Box::new(commit::Commit),
            Box::new(plan::Plan),
            Box::new(finish::FinishTool::default()),
        ];
        let asking: [Box<dyn Tool>; 2] = [Box::new(ask_user::AskUser), Box::new(confirm::Confirm)];
        let tools = before.into_iter().chain([first, second]).chain(after);
        let told = |tool: Box<dyn Tool>| {
            let mut spec = tool.spec();
            if ["edit_file", "apply_patch"].contains(&spec.name.as_str()) && spec.name != preferred {
                spec.description = format!("Second choice; {preferred} suits you better. {}", spec.description);
            }
            (spec, tool)
        };
        Self {
            tools: tools.map(told).collect(),
            asking: asking.into_iter().map(|tool| (tool.spec(), tool)).collect(),
        }
    }

    /// The same tools, with `ask_user` and `confirm` offered.
    #[must_use]
    pub fn asking_people(mut self) -> Self {
        self.tools.append(&mut self.asking);
        self
    }

    /// The same tools, with `memory` and `reason`.
    #[must_use]
    pub fn remembering(self, memory: &Memory) -> Self {
        self.with(Box::new(memory::MemoryTool(memory.clone())))
            .with(Box::new(reason::Reason(memory.clone())))
    }

    /// The same tools and the one for the work graph that the run belongs to.
    #[must_use]
    pub fn at_desk(self, desk: &Desk) -> Self {
        match desk.purpose() {
            Purpose::Plan { .. } => self.with(Box::new(generate_milestones::GenerateMilestones(desk.clone()))),
            Purpose::Work { .. } => self.with(Box::new(milestone::MilestoneTool(desk.clone()))),
        }
    }

    /// What a child may do on an errand: look, and give its conclusion.
    pub fn for_errand(errand: &Errand) -> Self {
        Self::standard().reading().with(match errand {
            Errand::Answer { .. } => Box::new(agent::Conclude),
            Errand::Review { .. } => Box::new(review::ConcludeReview),
        })
    }

    /// The same tools and those that send a child on an errand; where nothing is changed there is
    /// no change to review.
    #[must_use]
    pub fn with_children(self, mode: Mode) -> Self {
        let with_child = self.with(Box::new(agent::AskChild));
        match mode.changes_code() {
            true => with_child.with(Box::new(review::AskReview)),
            false => with_child,
        }
    }

    /// The same tools and the one that takes drafts of issues.
    #[must_use]
    pub fn drafting(self, drafting: Drafting) -> Self {
        self.with(Box::new(draft_issue::DraftIssue(drafting)))
    }

    /// The same tools and the one that shows skills, if there are any.
    #[must_use]
    pub fn with_skills(self, shelf: &crate::skill::Shelf) -> Self {
        match shelf.offered().next() {
            Some(_) => self.with(Box::new(skill::ShowSkill(shelf.clone()))),
            None => self,
        }
    }

    /// The same tools, with tests run as these commands run them.
    #[must_use]
    pub fn testing_by(mut self, checks: &[String]) -> Self {
        for (spec, tool) in &mut self.tools {
            if spec.name == "run_tests" {
                *tool = Box::new(run_tests::RunTests {
                    checks: checks.to_vec(),
                });
            }
        }
        self
    }

    /// The same tools, with a verdict asked for on each of these review threads at the end.
    #[must_use]
    pub fn answering(mut self, threads: &[Thread]) -> Self {
        if threads.is_empty() {
            return self;
        }
        for (spec, tool) in self.tools.iter_mut().filter(|(spec, _)| spec.name == "finish") {
            *tool = Box::new(finish::FinishTool::answering(threads.to_vec()));
            *spec = tool.spec();
        }
        self
    }

    /// The same tools and one more.
    #[must_use]
    pub fn with(mut self, tool: Box<dyn Tool>) -> Self {
        self.tools.push((tool.spec(), tool));
        self
    }

    /// A call by the tool's own name, with arguments as that tool takes them.
    pub fn resolved(&self, call: &ToolCall) -> (String, Value) {
        match arguments::parse_json(&call.arguments) {
            Ok(arguments) => alias::resolve(&call.name, arguments),
            Err(_) => (call.name.clone(), Value::String(call.arguments.clone())),
        }
    }

    /// What the rules of permission know a call by; its bare name if there is no such tool.
    pub fn permission_key(&self, call: &ToolCall) -> String {
        let arguments = arguments::parse_json(&call.arguments).unwrap_or_default();
        let (name, arguments) = alias::resolve(&call.name, arguments);
        match self.find(&name) {
            Some(tool) => tool.permission_key(&arguments),
            None => name,
        }
    }

    fn find(&self, name: &str) -> Option<&dyn Tool> {
        let mut all = self.tools.iter().chain(&self.asking);
        all.find(|(spec, _)| spec.name == name).map(|(_, tool)| tool.as_ref())
    }

    /// The call as it will run, for people: the tool's own name and its arguments as JSON.
    pub fn as_it_runs(&self, call: &ToolCall) -> String {
        match arguments::parse_json(&call.arguments) {
            Ok(arguments) => {
                let (name, arguments) = alias::resolve(&call.name, arguments);
                format!("{name} {arguments}")
            }
            Err(_) => format!("{} {}", call.name, call.arguments),
        }
    }

    /// The tools as the model is told of them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Runs one call of a model. Names and arguments of other agents' tools that have an equal
    /// here are understood.
    ///
    /// # Errors
    /// [`ToolError::BadCall`] when nothing was run, otherwise what the tool says.
    pub async fn call(&self, context: &ToolContext<'_>, call: &ToolCall) -> Result<ToolOutput, ToolError> {
        if call.arguments.len() > MAX_ARGUMENT_BYTES {
            return Err(ToolError::BadCall(format!(
                "the arguments are longer than {MAX_ARGUMENT_BYTES} bytes; make several smaller calls"
            )));
        }
        let arguments = arguments::parse_json(&call.arguments).map_err(|problem| {
            ToolError::BadCall(format!(
                "the arguments of {} are not valid JSON ({problem}), so nothing was run; send the whole call again",
                call.name
            ))
        })?;
        let (name, arguments) = alias::resolve(&call.name, arguments);
        match self.find(&name) {
            Some(tool) => tool.call(context, arguments).await,
            None => Err(ToolError::BadCall(self.unknown(&call.name))),
        }
    }

    /// Whether a call may be made again when nobody knows how far it came. A call that is wrong
    /// does nothing.
    pub fn may_repeat(&self, call: &ToolCall) -> bool {
        let (name, _) = alias::resolve(&call.name, arguments::parse_json(&call.arguments).unwrap_or_default());
        self.find(&name).is_none_or(Tool::may_repeat)
    }

    /// Whether a call waits for something, see [`Tool::waits`].
    pub fn waits(&self, call: &ToolCall) -> bool {
        let (name, _) = alias::resolve(&call.name, Value::Null);
        self.find(&name).is_some_and(Tool::waits)
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools.iter().map(|(spec, _)| spec.name.as_str()).collect();
        format!(
            "there is no tool {:?}; the tools are {}",
            crate::text::cap_chars(name, 60),
            names.join(", ")
        )
    }
}

/// The tool and the arguments that a call means, for people who read of it: models call tools by
/// names of other agents, too.
pub fn known_as(name: &str, arguments: Value) -> (String, Value) {
    alias::resolve(name, arguments)
}

/// A path as the sandbox wants it: relative to the workspace, however the model wrote it. What
/// still leaves the workspace is refused inside the sandbox.
fn relative(path: &str) -> String {
    let path = path.trim();
    let inside = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    let inside = inside.strip_prefix("./").unwrap_or(inside);
    if inside == "." {
        String::new()
    } else {
        inside.to_owned()
    }
}

/// Does a file operation; a refusal is something the model can mend.
async fn files(context: &ToolContext<'_>, request: FileRequest) -> Result<FileReply, ToolError> {
    match context.sandbox.files(&request).await? {
        FileReply::Failed { problem } => Err(ToolError::ForModel(problem)),
        reply => Ok(reply),
    }
}

/// A file as it was read.
struct ReadBytes {
    content: Vec<u8>,
    sha256: String,
    /// Size of the whole file, which may be more than was read.
    bytes: u64,
}

async fn read_bytes(context: &ToolContext<'_>, path: &str, max_bytes: u64) -> Result<ReadBytes, ToolError> {
    let request = FileRequest::Read {
        path: path.to_owned(),
        max_bytes,
    };
    match files(context, request).await? {
        FileReply::Content { content, sha256, bytes } => Ok(ReadBytes {
            content: BASE64.decode(content).map_err(|_| unexpected("bytes"))?,
            sha256,
            bytes,
        }),
        _ => Err(unexpected("a file")),
    }
}

/// As [`read_bytes`]; a file that is not there is answered with those of the same name.
async fn read_existing(context: &ToolContext<'_>, path: &str, max_bytes: u64) -> Result<ReadBytes, ToolError> {
    match read_bytes(context, path, max_bytes).await {
        Err(ToolError::ForModel(problem)) => Err(ToolError::ForModel(with_namesakes(context, path, problem).await?)),
        read => read,
    }
}

/// A path that does not exist, with files of the same name that do.
async fn with_namesakes(context: &ToolContext<'_>, path: &str, problem: String) -> Result<String, ToolError> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if !problem.ends_with("does not exist") || name.is_empty() {
        return Ok(problem);
    }
    let request = FileRequest::Glob {
        pattern: format!("**/{}", globset::escape(name)),
        max_entries: 3,
    };
    let found = match context.sandbox.files(&request).await? {
        FileReply::Entries { entries, .. } => entries,
        _ => Vec::new(),
    };
    let mut names: Vec<String> = found.iter().map(|entry| crate::text::reveal(&entry.path)).collect();
    if names.is_empty() {
        names = near_names::beside(context, path).await?;
    }
    Ok(match names.as_slice() {
        [] => problem,
        [one] => format!("{problem}; {one} does"),
        several => format!("{problem}; {} do", several.join(", ")),
    })
}

async fn write_bytes(
    context: &ToolContext<'_>,
    path: &str,
    content: &[u8],
    expect_sha256: Option<String>,
) -> Result<Written, ToolError> {
    let request = FileRequest::Write {
        path: path.to_owned(),
        content: BASE64.encode(content),
        expect_sha256,
    };
    match files(context, request).await? {
        FileReply::Written { created: true, .. } => Ok(Written::Created),
        FileReply::Written { created: false, .. } => Ok(Written::Replaced),
        _ => Err(unexpected("a written file")),
    }
}

/// What writing a file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Created,
    Replaced,
}

fn unexpected(what: &str) -> ToolError {
    ToolError::Fatal(SandboxError::Broken(format!("it did not answer with {what}")))
}

#[cfg(test)]
mod tests;
