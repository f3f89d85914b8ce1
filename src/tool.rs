//! Tools that a model may call: one file each, specification and handler together. Called by
//! `agent`. Never touches the host: everything happens through the sandbox.

use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::model::ToolSpec;
use crate::sandbox::Sandbox;

/// What a tool needs to work.
pub struct ToolContext<'a> {
    /// Where it works.
    pub sandbox: &'a Arc<dyn Sandbox>,
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
    /// The agent is done.
    Finish(Finish),
}

/// How the agent says it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    },
    /// Nothing has to change.
    NothingToDo {
        /// Why.
        reason: String,
    },
    /// The request should not be done.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model can mend it: the text says what was wrong and what to do.
    #[error("{0}")]
    ForModel(String),
    /// The run cannot go on.
    #[error(transparent)]
    Fatal(#[from] crate::sandbox::SandboxError),
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and schema of arguments.
    fn spec(&self) -> ToolSpec;
    /// Runs it with arguments that are valid JSON and nothing more.
    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError>;
}

/// The tools of a run.
pub struct Toolbox {
    _tools: Vec<Box<dyn Tool>>,
}

impl Toolbox {
    /// list_directory, read_file, write_file, edit_file, glob, grep, run_command, plan, finish.
    pub fn standard() -> Self {
        todo!()
    }
}
