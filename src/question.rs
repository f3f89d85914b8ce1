//! What a run asks people, and what they say. Plain data, in events, rows and checkpoints too.
//! Never decides what an answer means: that is `agent`'s.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::CommitSha;
use crate::text;

/// Most questions asked at once: more than a person answers in one go.
pub const MAX_QUESTIONS: usize = 5;

/// Most bytes of one text of a question.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Questions of the model, to be shown with numbers.
    Ask {
        /// The questions.
        questions: Vec<String>,
    },
    /// Whether the model may go on with something.
    Confirm {
        /// What it wants to do, in its words.
        action: String,
        /// What that means for people, in its words.
        #[serde(default)]
        consequence: String,
    },
    /// Whether the work may be done as it is planned.
    Plan(ProposedPlan),
    /// Whether a tool call may run that the rules do not allow by themselves.
    Permit {
        /// Its permission key.
        key: String,
        /// The call as it would run.
        call: String,
    },
}

/// What the agent means to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedPlan {
    /// In two or three sentences: what is wrong or wanted, and how it will be done.
    pub summary: String,
    /// What will be done, in order, one sentence each.
    pub steps: Vec<String>,
    /// Files that will be changed or made, each with what happens to it.
    #[serde(default)]
    pub files: Vec<String>,
    /// Tests that will be written or changed, and commands that will show that it works.
    #[serde(default)]
    pub tests: Vec<String>,
    /// What could go wrong, what is not known, and what was decided although it could be decided otherwise.
    #[serde(default)]
    pub risks: Vec<String>,
}

/// Most items of one list of a plan.
const MAX_PLAN_ITEMS: usize = 20;

impl ProposedPlan {
    /// The whole as plain text.
    pub fn in_words(&self) -> String {
        let mut words = self.summary.clone();
        for (at, step) in self.steps.iter().enumerate() {
            words.push_str(&format!("\n{}. {step}", at + 1));
        }
        for (name, items) in [("Files", &self.files), ("Tests", &self.tests), ("Risks", &self.risks)] {
            if !items.is_empty() {
                words.push_str(&format!("\n{name}:\n- {}", items.join("\n- ")));
            }
        }
        words
    }

    fn cleaned(&self, clean: &dyn Fn(&str) -> String) -> Self {
        let list = |items: &[String]| -> Vec<String> {
            let items = items.iter().map(|item| clean(item));
            items.filter(|item| !item.is_empty()).take(MAX_PLAN_ITEMS).collect()
        };
        Self {
            summary: clean(&self.summary),
            steps: list(&self.steps),
            files: list(&self.files),
            tests: list(&self.tests),
            risks: list(&self.risks),
        }
    }
}

impl Question {
    /// What is asked, a line for each question.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Question::Ask { questions } => questions.clone(),
            Question::Confirm { action, consequence } => {
                vec![format!("May I go on with this? {action} What it means: {consequence}")]
            }
            Question::Plan(plan) => vec![format!("May I do it in this way? {}", plan.summary)],
            Question::Permit { key, call } => vec![format!("May I run this ({key})? {call}")],
        }
    }

    /// The same question with each text changed and cut to a size that can be stored and shown.
    /// Done twice, it changes nothing more.
    #[must_use]
    pub fn cleaned(&self, clean: &dyn Fn(&str) -> String) -> Self {
        let clean = |words: &str| text::cap_middle(&clean(words).replace('\0', "␀"), MAX_TEXT_BYTES);
        match self {
            Question::Ask { questions } => Question::Ask {
                questions: questions.iter().take(MAX_QUESTIONS).map(|words| clean(words)).collect(),
            },
            Question::Plan(plan) => Question::Plan(plan.cleaned(&clean)),
            Question::Confirm { action, consequence } => Question::Confirm {
                action: clean(action),
                consequence: clean(consequence),
            },
            Question::Permit { key, call } => Question::Permit {
                key: clean(key),
                call: clean(call),
            },
        }
    }
}

/// A question that a job waits with, or waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Position among the questions of its job, from 1.
    pub seq: u32,
    /// Round of the job in which it was asked.
    pub round: u32,
    /// What was asked.
    pub question: Question,
    /// The commit that the work done until then stands on, if files had changed; the change itself
    /// is stored as a bundle.
    pub base: Option<CommitSha>,
    /// When it was asked.
    pub asked_at: DateTime<Utc>,
    /// How long an answer is waited for.
    pub answer_by: DateTime<Utc>,
    /// Whether the run has been given what was said.
    pub is_taken: bool,
    /// Whether nobody answered in time.
    pub is_expired: bool,
}

/// What one person said to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Login of the person.
    pub by: String,
    /// The words, as they were written.
    pub words: String,
    /// When.
    pub at: DateTime<Utc>,
}
