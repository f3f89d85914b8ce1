//! What has to be seen before the agent may finish: a change, a command run after the last edit,
//! checks that pass, the agent's own difference, a review where one is asked for. Called by
//! `discipline`. Never takes the model's word for any of it, and sends it back only once.

use std::collections::{BTreeMap, BTreeSet};

use super::act::{self, Act};
use crate::agent::Setting;

/// How the answer to a `finish` that is sent back begins.
pub(super) const NOT_FINISHED: &str = "Not finished yet.";

/// What was done so far, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Calls so far.
    at: u64,
    first_edit_at: Option<u64>,
    last_edit_at: Option<u64>,
    last_run_at: Option<u64>,
    last_diff_at: Option<u64>,
    last_pass_at: Option<u64>,
    /// Files that tools changed.
    edited: BTreeSet<String>,
    /// Whether a shell line may have changed others.
    is_edited_by_shell: bool,
    /// Last result of each check: when, and whether it passed.
    checks: BTreeMap<String, (u64, bool)>,
    was_sent_back: bool,
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// In words.
    Words(String),
    /// The agent has not looked at its difference.
    Difference,
}

impl Ledger {
    /// Sees a call that worked, with its output.
    pub(super) fn see(&mut self, act: &Act, output: &str, checks: &[String]) {
        self.at += 1;
        let at = Some(self.at);
        if act.edits {
            self.first_edit_at = self.first_edit_at.or(at);
            self.last_edit_at = at;
            self.edited.extend(act.paths.iter().cloned());
            self.is_edited_by_shell |= act.line.is_some();
        }
        if act.runs {
            self.last_run_at = at;
        }
        if act.shows_diff {
            self.last_diff_at = at;
        }
        let Some(line) = &act.line else { return };
        for check in checks.iter().filter(|check| line.contains(check.trim())) {
            self.checks
                .insert(check.clone(), (self.at, act::exit_code(output) == Some(0)));
        }
    }

    /// Sees that a review of the present state passed.
    pub(super) fn see_pass(&mut self) {
        self.last_pass_at = Some(self.at);
    }

    /// Whether the call did, or may have done, something to files.
    pub(super) fn has_edits(&self) -> bool {
        self.first_edit_at.is_some()
    }

    /// Whether `finish` was sent back already.
    pub(super) fn was_sent_back(&self) -> bool {
        self.was_sent_back
    }

    /// Notes that `finish` was sent back.
    pub(super) fn send_back(&mut self) {
        self.was_sent_back = true;
    }

    /// What a change that is called done still lacks. Whether any file differs is `None` where
    /// nobody knows.
    pub(super) fn missing(&self, setting: &Setting, has_changes: Option<bool>) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut say = |words: String| missing.push(Missing::Words(words));
        if has_changes == Some(false) && !self.has_edits() {
            say(
                "no file differs from the beginning: make the change, or finish with `nothing_to_do` and the reason"
                    .to_owned(),
            );
            return missing;
        }
        let Some(edited_at) = self.last_edit_at else {
            return missing;
        };
        let has_run = self.last_run_at.is_some_and(|run_at| run_at >= edited_at);
        let only_prose = !self.is_edited_by_shell && self.edited.iter().all(|path| act::is_prose(path));
        if !has_run && !only_prose {
            say(
                "nothing was run after your last edit: run the near tests or the checks, and read the result"
                    .to_owned(),
            );
        }
        for (check, (at, passed)) in &self.checks {
            if *at >= edited_at && !passed && !setting.failing_checks.contains(check) {
                say(format!(
                    "`{check}` failed when you ran it last, and it passed before your change: mend it, or name it under \
                     `not_done` with the reason"
                ));
            }
        }
        if self.last_diff_at < self.first_edit_at {
            missing.push(Missing::Difference);
        }
        missing
    }

    /// Whether a review passed after the last edit.
    pub(super) fn is_reviewed(&self) -> bool {
        self.last_pass_at.is_some() && self.last_pass_at >= self.last_edit_at
    }
}

/// What the model is told whose `finish` is sent back. `difference` is shown if it was not looked
/// at; without one the model has to look itself.
pub(super) fn in_words(missing: &[Missing], difference: Option<&str>) -> String {
    let mut words = format!("{NOT_FINISHED} Before that:\n");
    let mut shown = None;
    for missing in missing {
        match (missing, difference) {
            (Missing::Words(text), _) => words.push_str(&format!("- {text}\n")),
            (Missing::Difference, None) => {
                words.push_str("- you have not looked at your own difference: read it, every line has to be needed\n");
            }
            (Missing::Difference, Some(difference)) => {
                words.push_str(
                    "- you have not looked at your own difference; here it is, every line has to be needed\n",
                );
                shown = Some(difference);
            }
        }
    }
    words.push_str(
        "Then call `finish` again. If something of this cannot be done, call it again all the same and say so under `not_done`.",
    );
    if let Some(difference) = shown {
        words.push_str("\n\n");
        words.push_str(difference.trim_end());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CHECK: &str = "make check";

    /// Plays calls: `e` edits code, `p` edits prose, `r` runs something, `c` runs the check well,
    /// `f` runs it badly, `d` looks at the difference, `s` edits through the shell.
    fn ledger(calls: &str) -> Ledger {
        let mut ledger = Ledger::default();
        for call in calls.chars() {
            let run = |line: &str| Act::of("run_command", &json!({ "command": line }));
            let (act, output) = match call {
                'e' => (Act::of("edit_file", &json!({"path": "src/a.rs"})), ""),
                'p' => (Act::of("write_file", &json!({"path": "README.md"})), ""),
                'r' => (run("sh a.sh"), "[exit code 0, 1 s]"),
                'c' => (run("cd . && make check"), "[exit code 0, 1 s]"),
                'f' => (run(CHECK), "[exit code 2, 1 s]"),
                'd' => (Act::of("diff", &json!({})), ""),
                _ => (run("sed -i s/a/b/ a.rs"), "[exit code 0, 1 s]"),
            };
            ledger.see(&act, output, &[CHECK.to_owned()]);
        }
        ledger
    }

    #[track_caller]
    fn check(calls: &str, has_changes: Option<bool>, expected: &[&str]) {
        let missing = ledger(calls).missing(&Setting::default(), has_changes);
        let words = in_words(&missing, None);
        let lines: Vec<&str> = words.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(lines.len(), expected.len(), "{calls}: {words}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{calls}: {line}");
        }
    }

    #[test]
    fn a_verified_change_lacks_nothing() {
        check("erd", Some(true), &[]);
        check("ecd", Some(true), &[]);
        check("edr", Some(true), &[]);
        check("feecd", Some(true), &[]);
        check("pd", Some(true), &[]);
        check("srd", Some(true), &[]);
        check("", None, &[]);
    }

    #[test]
    fn what_is_missing_is_named() {
        check("", Some(false), &["no file differs"]);
        check("r", Some(false), &["no file differs"]);
        check("e", Some(true), &["nothing was run", "own difference"]);
        check("re", Some(true), &["nothing was run", "own difference"]);
        check("rde", Some(true), &["nothing was run", "own difference"]);
        check("erde", Some(true), &["nothing was run"]);
        check("efd", Some(true), &["`make check` failed"]);
        check("ecfd", Some(true), &["`make check` failed"]);
        check("ped", Some(true), &["nothing was run"]);
        check("sd", Some(true), &["nothing was run"]);
    }

    #[test]
    fn a_check_that_failed_before_is_not_ours() {
        let setting = Setting {
            failing_checks: vec![CHECK.to_owned()],
            ..Setting::default()
        };
        assert_eq!(ledger("efd").missing(&setting, None), []);
    }

    #[test]
    fn a_review_counts_until_the_next_edit() {
        let mut reviewed = ledger("e");
        assert!(!reviewed.is_reviewed());
        reviewed.see_pass();
        assert!(reviewed.is_reviewed());
        reviewed.see(&Act::of("edit_file", &json!({"path": "a"})), "", &[]);
        assert!(!reviewed.is_reviewed());
    }

    #[test]
    fn the_difference_is_shown_with_what_is_missing() {
        let words = in_words(&[Missing::Difference], Some("-a\n+b\n"));
        assert!(words.starts_with(NOT_FINISHED) && words.ends_with("-a\n+b"), "{words}");
    }
}
