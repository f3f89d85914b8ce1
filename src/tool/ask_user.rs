//! The tool `ask_user`: questions that only a person can answer. Offered where somebody can be
//! asked; elsewhere the answer is to decide alone. Never waits: whoever runs the agent does.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::plan::one_line;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::question::{MAX_QUESTIONS, Question};

/// Most characters of one question.
const MAX_QUESTION_CHARS: usize = 500;

/// Asks people.
pub(super) struct AskUser;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// One to five short questions, each of which can be answered in a sentence.
    #[serde(alias = "question")]
    questions: Vec<String>,
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "ask_user".to_owned(),
            description: format!(
                "Asks the people who gave you the task up to {MAX_QUESTIONS} questions and waits for their answer, which \
                 can take days. Only for what decides the result and cannot be found out in the workspace; ask \
                 everything at once. Otherwise choose the most likely reading and name it in your summary."
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    /// A question that was asked already is answered with what was said.
    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let Arguments { questions } = arguments::fit("ask_user", as_list(arguments))?;
        asked(&questions).map(ToolOutput::Ask)
    }
}

/// Some models send the one question they have as a text.
fn as_list(mut arguments: Value) -> Value {
    if let Some(object) = arguments.as_object_mut() {
        for key in ["questions", "question"] {
            if let Some(Value::String(text)) = object.get(key)
                && !text.trim_start().starts_with('[')
            {
                let list = Value::Array(vec![Value::String(text.clone())]);
                object.insert(key.to_owned(), list);
            }
        }
    }
    arguments
}

fn asked(questions: &[String]) -> Result<Question, ToolError> {
    let questions: Vec<String> = questions
        .iter()
        .map(|question| one_line(question, MAX_QUESTION_CHARS))
        .filter(|question| !question.is_empty())
        .collect();
    match questions.len() {
        0 => Err(ToolError::BadCall("ask_user: there is no question in it".to_owned())),
        1..=MAX_QUESTIONS => Ok(Question::Ask { questions }),
        many => Err(ToolError::BadCall(format!(
            "ask_user: {many} questions are too many, so nobody was asked; ask the {MAX_QUESTIONS} that decide the result"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(arguments: Value, expected: Result<&[&str], &str>) {
        let fitted = arguments::fit::<Arguments>("ask_user", as_list(arguments));
        match (fitted.and_then(|fitted| asked(&fitted.questions)), expected) {
            (Ok(Question::Ask { questions }), Ok(expected)) => assert_eq!(questions, expected),
            (Err(problem), Err(words)) => assert!(problem.to_string().contains(words), "{problem}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn questions_are_few_short_lines() {
        check(json!({"questions": ["a?\n b", " ", "c?"]}), Ok(&["a? b", "c?"]));
        check(json!({"question": "only one?"}), Ok(&["only one?"]));
        check(json!({"questions": "[\"a?\", \"b?\"]"}), Ok(&["a?", "b?"]));
        check(json!({"questions": []}), Err("there is no question"));
        check(json!({"questions": vec!["a?"; 6]}), Err("6 questions are too many"));
        check(json!({}), Err("questions (array, required)"));
    }
}
