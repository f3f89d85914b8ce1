//! What a run is for, which decides its tools. A run that only reads has no tool that could change a
//! file or run a command, and nothing of its workspace is looked at when it ends.
//! Never decides what a person may ask for.

use serde::{Deserialize, Serialize};

use super::{Drafting, READ_ONLY, Toolbox, answer, finish_drafts, finish_review, propose_plan};
use crate::model::Profile;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// To change code.
    #[default]
    Change,
    /// To propose a plan, and to change code once a person approved it.
    Plan,
    /// To answer a question.
    Answer,
    /// To review a pull request.
    Review,
    /// To write drafts of issues.
    Draft,
}

impl Mode {
    /// Whether what stands in the workspace at the end is the result.
    pub fn changes_code(self) -> bool {
        matches!(self, Mode::Change | Mode::Plan)
    }
}

/// Tools beside those that only read which change nothing in the workspace either.
const HARMLESS: [&str; 13] = [
    "draft_issue",
    "plan",
    "ask_user",
    "confirm",
    "skill",
    "memory",
    "reason",
    "milestone",
    "generate_milestones",
    "agent",
    "propose_plan",
    "command_output",
    "finish",
];

/// Whether a call of this tool is for looking and talking only. Tools of the web are: they read.
pub fn only_reads(tool: &str) -> bool {
    READ_ONLY.contains(&tool) || HARMLESS.contains(&tool) || super::web::NAMES.contains(&tool)
}

impl Toolbox {
    /// The tools of this program for a run of a kind, with the way of changing files first that
    /// suits the model.
    pub fn for_mode(profile: &Profile, mode: Mode) -> Self {
        let all = Self::for_model(profile);
        match mode {
            Mode::Change => all,
            Mode::Plan => all.with(Box::new(propose_plan::ProposePlan)),
            Mode::Answer => all.reading().with(Box::new(answer::FinishAnswer)),
            Mode::Review => all.reading().with(Box::new(finish_review::FinishReview)),
            Mode::Draft => all
                .reading()
                .drafting(Drafting::Asked)
                .with(Box::new(finish_drafts::FinishDrafts)),
        }
    }

    /// Only the tools that read, and nobody to ask.
    pub(super) fn reading(mut self) -> Self {
        self.tools.retain(|(spec, _)| READ_ONLY.contains(&spec.name.as_str()));
        self.asking.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EditFormat;

    fn names(mode: Mode) -> Vec<String> {
        let profile = Profile {
            context_window: 1,
            max_output_tokens: 1,
            output_ceiling: 1,
            edit_format: EditFormat::Replace,
        };
        let tools = Toolbox::for_mode(&profile, mode).asking_people();
        tools.specs().into_iter().map(|spec| spec.name).collect()
    }

    #[test]
    fn runs_that_read_can_change_nothing() {
        for mode in [Mode::Answer, Mode::Review, Mode::Draft] {
            let names = names(mode);
            assert!(names.iter().all(|name| only_reads(name)), "{names:?}");
            assert!(
                names.contains(&"read_file".to_owned()) && names.contains(&"finish".to_owned()),
                "{names:?}"
            );
            assert!(!mode.changes_code());
        }
    }

    #[test]
    fn a_plan_comes_before_every_tool_that_changes() {
        let names = names(Mode::Plan);
        assert!(names.contains(&"propose_plan".to_owned()));
        for changing in [
            "write_file",
            "edit_file",
            "apply_patch",
            "run_command",
            "start_command",
            "run_tests",
            "commit",
        ] {
            assert!(names.contains(&changing.to_owned()), "{changing}");
            assert!(!only_reads(changing), "{changing}");
        }
    }
}
