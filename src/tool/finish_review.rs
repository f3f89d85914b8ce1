//! The closing tool of a run that reviews a pull request: `finish` with the review. Its findings
//! become comments on lines of the difference; the program decides which of them can stand there.
//! Never posts anything, and never lets a good word outweigh a bad signal: see [`super::Review`].

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Finding, Review, Tool, ToolContext, ToolError, ToolOutput, Verdict, arguments};
use super::{Finish, relative};
use crate::model::ToolSpec;
use crate::text;

/// Most findings: a person reads no more, and the worst stand first.
const MAX_FINDINGS: usize = 25;

/// Most bytes of one text.
const MAX_TEXT_BYTES: usize = 3 * 1024;

/// Ends the run with a review.
pub(super) struct FinishReview;

/// How bad it is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    #[allow(missing_docs)] // a description would make the schema a union, which servers refuse
    #[serde(alias = "blocker", alias = "high", alias = "error")]
    Critical,
    #[allow(missing_docs)]
    #[serde(alias = "medium", alias = "warning", alias = "must_fix")]
    Major,
    #[allow(missing_docs)]
    #[serde(alias = "low", alias = "info", alias = "suggestion", alias = "nit")]
    Minor,
}

impl Severity {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Major => "major",
            Severity::Minor => "minor",
        }
    }
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PullReview {
    /// `pass`, `needs_fix` or `rebuild`.
    pub verdict: Verdict,
    /// What the change does and what you found, in two or three sentences.
    pub summary: String,
    /// 0 to 3: it builds on a wrong idea of the problem or the code.
    pub foundation: u8,
    /// Why, in a sentence.
    pub foundation_why: String,
    /// 0 to 3: layers, options or abstractions that nobody needs.
    pub over_engineering: u8,
    /// Why, in a sentence.
    pub over_engineering_why: String,
    /// 0 to 3: more changed lines than the problem justifies.
    pub volume: u8,
    /// Why, in a sentence.
    pub volume_why: String,
    /// 0 to 3: new words for what has a name, or misleading names.
    pub terminology: u8,
    /// Why, in a sentence.
    pub terminology_why: String,
    /// What is wrong, worst first; empty if nothing. Nothing that was said in an earlier review.
    #[serde(default)]
    pub findings: Vec<PullFinding>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PullFinding {
    /// The file, as the difference names it.
    #[serde(alias = "path")]
    pub file: String,
    /// The line in the new file, from 1; in the old file for a line that was taken out.
    #[serde(alias = "start_line")]
    pub line: u32,
    /// True when the line is one that the change took out.
    #[serde(default)]
    pub removed_line: bool,
    /// `critical`: wrong results, loss of data, a security hole. `major`: it has to be mended before it is merged. `minor`: better, but not needed.
    pub severity: Severity,
    /// What is wrong, which input shows it, and what would be right.
    #[serde(alias = "message", alias = "description", alias = "body")]
    pub problem: String,
    /// The line as it should be, where one line mends it; otherwise empty.
    #[serde(default)]
    pub replacement: String,
}

impl PullReview {
    /// The verdict that counts, by the same rule as for the agent's own reviews.
    pub fn counts(&self) -> Verdict {
        self.as_review().counts()
    }

    /// Ratings by name, 0 to 3, each with why.
    pub fn signals(&self) -> [(&'static str, u8, &str); 4] {
        [
            ("foundation", self.foundation.min(3), &self.foundation_why),
            (
                "over-engineering",
                self.over_engineering.min(3),
                &self.over_engineering_why,
            ),
            ("volume", self.volume.min(3), &self.volume_why),
            ("terminology", self.terminology.min(3), &self.terminology_why),
        ]
    }

    fn as_review(&self) -> Review {
        let findings = self.findings.iter().map(|finding| Finding {
            file: finding.file.clone(),
            line: finding.line,
            problem: finding.problem.clone(),
            must_fix: finding.severity < Severity::Minor,
        });
        Review {
            verdict: self.verdict,
            summary: self.summary.clone(),
            foundation: self.foundation,
            foundation_why: self.foundation_why.clone(),
            over_engineering: self.over_engineering,
            over_engineering_why: self.over_engineering_why.clone(),
            volume: self.volume,
            volume_why: self.volume_why.clone(),
            terminology: self.terminology,
            terminology_why: self.terminology_why.clone(),
            findings: findings.collect(),
        }
    }

    /// With texts cut to what can be stored and shown, worst findings first.
    fn tidied(mut self) -> Result<Self, ToolError> {
        let long = |said: &str| text::reveal(&text::cap(said.trim(), MAX_TEXT_BYTES));
        self.summary = long(&self.summary);
        if self.summary.is_empty() {
            return Err(ToolError::BadCall("finish: the summary is empty".to_owned()));
        }
        for why in [
            &mut self.foundation_why,
            &mut self.over_engineering_why,
            &mut self.volume_why,
            &mut self.terminology_why,
        ] {
            *why = long(why);
        }
        for finding in &mut self.findings {
            finding.file = relative(&finding.file);
            finding.problem = long(&finding.problem);
            // Its blanks count.
            finding.replacement = text::reveal(&text::cap(finding.replacement.trim_end(), MAX_TEXT_BYTES));
        }
        if let Some(empty) = self.findings.iter().find(|finding| finding.problem.is_empty()) {
            let place = format!("{}:{}", empty.file, empty.line);
            return Err(ToolError::BadCall(format!(
                "finish: the finding at {place} says nothing"
            )));
        }
        self.findings.sort_by_key(|finding| finding.severity);
        self.findings.truncate(MAX_FINDINGS);
        Ok(self)
    }
}

#[async_trait]
impl Tool for FinishReview {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "finish".to_owned(),
            description:
                "Gives the review and ends your work. Findings become comments on lines of the difference; one \
                          on a line outside it stands in the summary instead."
                    .to_owned(),
            parameters: arguments::schema::<PullReview>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let review: PullReview = arguments::fit("finish", arguments)?;
        Ok(ToolOutput::Finish(Finish::Reviewed(review.tidied()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(findings: Value) -> Result<PullReview, ToolError> {
        let given = json!({
            "verdict": "pass", "summary": "s", "findings": findings,
            "foundation": 0, "foundation_why": "", "over_engineering": 0, "over_engineering_why": "",
            "volume": 1, "volume_why": "", "terminology": 9, "terminology_why": "",
        });
        arguments::fit::<PullReview>("finish", given).and_then(PullReview::tidied)
    }

    #[test]
    fn the_worst_stands_first_and_the_rest_is_cut() {
        let minor = json!({"path": "/workspace/b.rs", "line": 1, "severity": "nit", "body": "m"});
        let critical = json!({"file": "a.rs", "line": 2, "severity": "critical", "problem": " c "});
        let mut many = vec![minor; 40];
        many.push(critical);
        let review = given(json!(many)).unwrap();
        assert_eq!(review.findings.len(), MAX_FINDINGS);
        let first = &review.findings[0];
        assert_eq!((first.file.as_str(), first.problem.as_str()), ("a.rs", "c"));
        assert_eq!(review.findings[1].file, "b.rs");
        assert_eq!(review.counts(), Verdict::NeedsFix);
        assert_eq!(review.signals()[3].1, 3);
    }

    #[test]
    fn an_empty_finding_goes_back_and_minor_ones_pass() {
        let empty = json!([{"file": "a.rs", "line": 2, "severity": "major", "problem": " "}]);
        assert!(given(empty).unwrap_err().to_string().contains("a.rs:2 says nothing"));
        let minor = json!([{"file": "a.rs", "line": 2, "severity": "minor", "problem": "x"}]);
        // Terminology is rated 3: one strong signal has to be mended.
        assert_eq!(given(minor).unwrap().counts(), Verdict::NeedsFix);
    }

    #[test]
    fn its_schema_is_plain() {
        let schema = FinishReview.spec().parameters.to_string();
        assert!(!schema.contains("$ref") && !schema.contains("oneOf"), "{schema}");
    }
}
