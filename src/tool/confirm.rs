//! The tool `confirm`: a yes or no before something that people may not want. Offered where
//! somebody can be asked. Never takes silence for consent, and never does what it asks about.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::plan::one_line;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::question::Question;

/// Most characters of the action, and of the consequence.
const MAX_CHARS: usize = 500;

/// Asks for a yes.
pub(super) struct Confirm;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What you want to do, in one sentence.
    action: String,
    /// What that changes for people, and what cannot be undone.
    #[serde(alias = "consequences", alias = "reason")]
    consequence: String,
}

#[async_trait]
impl Tool for Confirm {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "confirm".to_owned(),
            description: "Asks the people who gave you the task whether you may go on with something that they may not \
                          expect: a removed feature, a changed public interface, a new dependency. Waits for their yes or \
                          no, which can take days."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    /// A question that was asked already is answered with what was said.
    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        asked(arguments::fit("confirm", arguments)?).map(ToolOutput::Ask)
    }
}

fn asked(arguments: Arguments) -> Result<Question, ToolError> {
    let action = one_line(&arguments.action, MAX_CHARS);
    let consequence = one_line(&arguments.consequence, MAX_CHARS);
    if action.is_empty() || consequence.is_empty() {
        return Err(ToolError::BadCall(
            "confirm: nobody was asked; say both what you want to do and what it changes for people".to_owned(),
        ));
    }
    Ok(Question::Confirm { action, consequence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_action_comes_with_its_consequence() {
        let ask = |arguments| arguments::fit("confirm", arguments).and_then(asked);
        let question = ask(json!({"action": "Drop\n v1", "consequences": "Old clients stop."})).unwrap();
        let Question::Confirm { action, consequence } = question else {
            panic!("another question")
        };
        assert_eq!((&*action, &*consequence), ("Drop v1", "Old clients stop."));
        for bad in [
            json!({"action": "Drop v1"}),
            json!({"action": "Drop v1", "consequence": " "}),
        ] {
            let problem = ask(bad).unwrap_err().to_string();
            assert!(
                problem.contains("consequence") || problem.contains("changes for people"),
                "{problem}"
            );
        }
    }
}
