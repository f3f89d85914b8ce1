//! The tool `draft_issue`: how a model writes down an issue for people to decide on. Names every
//! broken rule of the contract at once.
//! Never creates an issue, and never looks at GitHub: that is for publishing, after a person said so.

use async_trait::async_trait;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::draft::Draft;
use crate::model::ToolSpec;
use crate::text;

/// Most drafts of a run that is asked for them: an epic with its parts.
const MAX_ASKED: usize = 10;

/// Most drafts of a run that was asked for something else.
const MAX_NOTICED: usize = 3;

/// Longest list that is read; longer ones break the contract anyway.
const MAX_LIST: usize = 50;

/// Longest text that is read.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// What drafts a run may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drafting {
    /// It was asked for them.
    Asked,
    /// What it notices beside its work and leaves alone.
    Noticed,
}

impl Drafting {
    /// Most drafts of one run.
    pub fn most(self) -> usize {
        match self {
            Drafting::Asked => MAX_ASKED,
            Drafting::Noticed => MAX_NOTICED,
        }
    }
}

/// Takes a draft.
pub(super) struct DraftIssue(pub(super) Drafting);

#[async_trait]
impl Tool for DraftIssue {
    fn spec(&self) -> ToolSpec {
        let for_whom = match self.0 {
            Drafting::Asked => {
                "Writes down the draft of one issue; people decide whether it is created. Call it once for each goal; for \
                 several goals that belong together draft the epic first and name its title in part_of of the others."
            }
            Drafting::Noticed => {
                "Writes down the draft of an issue for something that you noticed, that is not part of the task and that you \
                 left alone; people decide whether it is created. Only for what matters and what you saw yourself; most \
                 tasks need none."
            }
        };
        ToolSpec {
            name: "draft_issue".to_owned(),
            description: format!(
                "{for_whom} Keep apart what was observed (each with its evidence), what is expected and what is only a \
                 hypothesis. What endangers users when it is known has the kind `security` and is shown to the maintainers \
                 only. A draft with the title of an earlier one takes its place."
            ),
            parameters: arguments::schema::<Draft>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let draft = judge(arguments::fit("draft_issue", arguments)?)?;
        Ok(ToolOutput::Draft(Box::new(draft), self.0))
    }
}

fn judge(mut draft: Draft) -> Result<Draft, ToolError> {
    draft.observed.truncate(MAX_LIST);
    let lists = [
        &mut draft.reproduction,
        &mut draft.expected,
        &mut draft.hypotheses,
        &mut draft.scope,
        &mut draft.non_goals,
        &mut draft.acceptance_criteria,
        &mut draft.validation,
        &mut draft.dependencies_and_risks,
        &mut draft.labels,
    ];
    lists.into_iter().for_each(|list| list.truncate(MAX_LIST));
    let draft = draft.cleaned(&|text| text::reveal(&text::cap(text, MAX_TEXT_BYTES)));
    let problems = draft.check(None);
    if problems.is_empty() {
        return Ok(draft);
    }
    let problems: Vec<String> = problems.iter().map(|problem| format!("- {problem}")).collect();
    Err(ToolError::ForModel(format!(
        "The draft is not kept, because it breaks rules of the contract:\n{}\nMend all of them and send the whole draft again.",
        problems.join("\n")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bug() -> Value {
        json!({
            "type": "bug", "title": "The last word is not counted",
            "environment": "sh on Linux", "steps": ["Run `sh count.sh`."],
            "observed": [{"statement": "It prints 1.", "path": "count.sh:1", "output": "1"}],
            "expected": ["It prints 2."], "impact": "Counts are wrong.", "scope": ["count.sh"],
            "acceptance_criteria": ["It prints 2."], "validation": "[\"sh test.sh\"]",
        })
    }

    fn given(arguments: Value) -> Result<Draft, ToolError> {
        arguments::fit("draft_issue", arguments).and_then(judge)
    }

    #[test]
    fn a_draft_is_taken_as_models_write_it() {
        let draft = given(bug()).unwrap();
        assert_eq!((draft.kind, draft.reproduction.len()), (crate::draft::Kind::Bug, 1));
        assert_eq!(draft.validation, ["sh test.sh"]);
        assert_eq!(draft.observed[0].file, "count.sh:1");
    }

    #[test]
    fn all_broken_rules_come_back_at_once() {
        let mut broken = bug();
        broken["title"] = json!("bug");
        broken["observed"] = json!([{"statement": "It prints 1."}]);
        broken["scope"] = json!([]);
        let problem = given(broken).unwrap_err().to_string();
        for words in [
            "- title: it says too little",
            "- scope: a bug needs it",
            "- observed: statement 1 has no evidence",
        ] {
            assert!(problem.contains(words), "{problem}");
        }
        let problem = given(json!({"kind": "wish", "title": "x"})).unwrap_err();
        assert!(matches!(problem, ToolError::BadCall(_)), "{problem}");
    }

    #[test]
    fn the_schema_has_no_unions_and_no_references() {
        let schema = arguments::schema::<Draft>().to_string();
        for word in ["$ref", "anyOf", "oneOf", "allOf"] {
            assert!(!schema.contains(word), "{schema}");
        }
    }
}
