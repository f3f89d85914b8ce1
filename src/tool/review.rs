//! The tool `review`: another look at the change by a child that did not write it, and what such a
//! review comes to. Never lets a good word outweigh a bad signal: of the verdict that was stated
//! and the one that follows from the signals and findings, the worse counts.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::one_line;
use super::{Conclusion, Errand, Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::text;

/// Longest request for a review, in bytes.
const MAX_FOCUS_BYTES: usize = 4 * 1024;

/// Most findings, and most characters of a sentence in one.
const MAX_FINDINGS: usize = 20;
const MAX_SENTENCE_CHARS: usize = 600;

/// A signal of this strength asks for a rebuild if it is the foundation, or if there are two.
const STRONGEST: u8 = 3;

/// From here on a signal has to be mended.
const STRONG: u8 = 2;

/// Asks for a review.
pub(super) struct AskReview;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to look at closely; empty for everything.
    #[serde(default, alias = "question", alias = "prompt", alias = "instructions")]
    focus: String,
}

#[async_trait]
impl Tool for AskReview {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "review".to_owned(),
            description:
                "Has your present change reviewed by somebody who did not write it and can only read. Gives a \
                          verdict (pass, needs_fix, rebuild), four signals of drift and findings with file and line."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("review", arguments)?;
        let focus = text::cap(asked.focus.trim(), MAX_FOCUS_BYTES);
        Ok(ToolOutput::Delegate(Errand::Review { focus }))
    }
}

/// What a review comes to, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    #[allow(missing_docs)] // a description would make the schema a union, which servers refuse
    #[serde(alias = "passed", alias = "approve", alias = "ok")]
    Pass,
    #[allow(missing_docs)]
    #[serde(alias = "needs-fix", alias = "fix", alias = "changes_requested")]
    NeedsFix,
    #[allow(missing_docs)]
    Rebuild,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::NeedsFix => "needs_fix",
            Verdict::Rebuild => "rebuild",
        }
    }
}

/// A review as the child gave it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// `pass`, `needs_fix` or `rebuild`.
    pub verdict: Verdict,
    /// What you found, in one or two sentences.
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
    /// What is wrong, worst first; empty if nothing.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The file.
    #[serde(alias = "path")]
    pub file: String,
    /// The line, from 1.
    #[serde(default)]
    pub line: u32,
    /// What is wrong, and what would be right.
    #[serde(alias = "message", alias = "description")]
    pub problem: String,
    /// Whether the change is wrong or incomplete with it.
    #[serde(default)]
    pub must_fix: bool,
}

impl Review {
    /// The verdict that counts: the worse of the stated one and the one that follows. What follows
    /// is `rebuild` if the foundation is rated 3, or two signals are; else `needs_fix` if a signal
    /// is rated 2 or more, or a finding must be fixed; else `pass`.
    pub fn counts(&self) -> Verdict {
        self.verdict.max(self.derived())
    }

    fn derived(&self) -> Verdict {
        let signals = self.signals().map(|(_, rated, _)| rated);
        let strongest = signals.iter().filter(|rated| **rated >= STRONGEST).count();
        if self.foundation >= STRONGEST || strongest >= 2 {
            Verdict::Rebuild
        } else if signals.iter().any(|rated| *rated >= STRONG) || self.findings.iter().any(|finding| finding.must_fix) {
            Verdict::NeedsFix
        } else {
            Verdict::Pass
        }
    }

    fn signals(&self) -> [(&'static str, u8, &str); 4] {
        [
            ("foundation", self.foundation, &self.foundation_why),
            ("over_engineering", self.over_engineering, &self.over_engineering_why),
            ("volume", self.volume, &self.volume_why),
            ("terminology", self.terminology, &self.terminology_why),
        ]
    }

    /// The review as the agent reads it.
    pub fn in_words(&self) -> String {
        let sentence = |text: &str| one_line(text, MAX_SENTENCE_CHARS);
        let counts = self.counts();
        let mut words = format!("Verdict: {}", counts.word());
        if counts != self.verdict {
            let _ = write!(
                words,
                " (stated was {}; the signals and findings weigh more)",
                self.verdict.word()
            );
        }
        let _ = write!(words, "\n{}\n", sentence(&self.summary));
        for (name, rated, why) in self.signals() {
            let _ = write!(words, "\n- {name} {}: {}", rated.min(STRONGEST), sentence(why));
        }
        words.push_str("\n\nFindings:");
        if self.findings.is_empty() {
            words.push_str(" none");
        }
        for finding in self.findings.iter().take(MAX_FINDINGS) {
            let must = if finding.must_fix {
                "must be fixed"
            } else {
                "could be better"
            };
            let file = one_line(&finding.file, 200);
            let _ = write!(
                words,
                "\n- {file}:{} ({must}): {}",
                finding.line,
                sentence(&finding.problem)
            );
        }
        if self.findings.len() > MAX_FINDINGS {
            let _ = write!(words, "\n- and {} more", self.findings.len() - MAX_FINDINGS);
        }
        words
    }
}

/// Ends an errand that was a review.
pub(super) struct ConcludeReview;

#[async_trait]
impl Tool for ConcludeReview {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "conclude".to_owned(),
            description: "Gives the review and ends your work.".to_owned(),
            parameters: arguments::schema::<Review>(),
        }
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let review: Review = arguments::fit("conclude", arguments)?;
        Ok(ToolOutput::Conclude(Conclusion::Review(review)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn review(verdict: &str, signals: [u8; 4], must_fix: &[bool]) -> Review {
        let findings: Vec<Value> = must_fix
            .iter()
            .map(|must| json!({"file": "src/a.rs", "line": 3, "problem": "It\nloses the last word.", "must_fix": must}))
            .collect();
        let given = json!({
            "verdict": verdict, "summary": "s", "findings": findings,
            "foundation": signals[0], "foundation_why": "f",
            "over_engineering": signals[1], "over_engineering_why": "o",
            "volume": signals[2], "volume_why": "v",
            "terminology": signals[3], "terminology_why": "t",
        });
        arguments::fit("conclude", given).unwrap()
    }

    #[track_caller]
    fn check(verdict: &str, signals: [u8; 4], must_fix: &[bool], expected: Verdict) {
        assert_eq!(
            review(verdict, signals, must_fix).counts(),
            expected,
            "{verdict} {signals:?} {must_fix:?}"
        );
    }

    #[test]
    fn the_worse_of_stated_and_derived_counts() {
        use Verdict::{NeedsFix, Pass, Rebuild};
        check("pass", [0, 0, 0, 0], &[], Pass);
        check("pass", [1, 1, 1, 1], &[false], Pass);
        check("pass", [0, 0, 0, 0], &[false, true], NeedsFix);
        check("pass", [0, 0, 2, 0], &[], NeedsFix);
        check("pass", [0, 3, 0, 0], &[], NeedsFix);
        check("pass", [3, 0, 0, 0], &[], Rebuild);
        check("needs_fix", [0, 3, 3, 0], &[], Rebuild);
        check("pass", [0, 9, 9, 0], &[], Rebuild);
        check("needs_fix", [0, 0, 0, 0], &[], NeedsFix);
        check("rebuild", [0, 0, 0, 0], &[], Rebuild);
        check("approve", [0, 0, 0, 0], &[], Pass);
    }

    #[test]
    fn it_reads_as_lines_with_places() {
        let words = review("pass", [0, 0, 7, 0], &[true]).in_words();
        assert!(words.starts_with("Verdict: needs_fix (stated was pass;"), "{words}");
        assert!(words.contains("- volume 3: v"), "{words}");
        assert!(
            words.ends_with("- src/a.rs:3 (must be fixed): It loses the last word."),
            "{words}"
        );
        assert!(review("pass", [0; 4], &[]).in_words().ends_with("Findings: none"));
        assert!(review("pass", [0; 4], &[true; 100]).in_words().len() < 4_000);
    }

    #[test]
    fn its_schema_is_plain() {
        let schema = ConcludeReview.spec().parameters;
        assert!(
            !schema.to_string().contains("$ref") && !schema.to_string().contains("oneOf"),
            "{schema}"
        );
        assert_eq!(schema["properties"]["verdict"]["type"], "string");
    }
}
