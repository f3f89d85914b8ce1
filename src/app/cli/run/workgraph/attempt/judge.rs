//! The word on a try: a pure judgement over what the run came to. Called by `attempt` alone.
//! Never calls a milestone done whose command did not pass.

use crate::agent::Stop;
use crate::event::CheckRun;
use crate::milestone::Kept;
use crate::run::Finished;
use crate::tool::Finish;

/// What a try came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judged {
    Done,
    Failed(String),
    Stopped,
    Broke(String),
}

/// Judges a run that came to its end.
pub(super) fn judge(finished: &Finished, kept: Option<&Kept>) -> Judged {
    if finished.stop == Stop::Cancelled {
        return Judged::Stopped;
    }
    if !finished.violations.is_empty() {
        let broken = finished.violations.join("\n");
        return Judged::Failed(format!("The change breaks rules for what may be changed:\n{broken}"));
    }
    let ended = how_it_ended(&finished.stop);
    if let Some(accepted) = finished.verdict.accepted() {
        return match (ended, accepted.passed()) {
            // What was made is not what the command was run on, unless the agent had finished.
            (Ok(()), true) => Judged::Done,
            (Err(why), true) => Judged::Failed(why),
            (Ok(()), false) => Judged::Failed(in_words(accepted)),
            (Err(why), false) => Judged::Failed(format!("{why}\n\n{}", in_words(accepted))),
        };
    }
    if finished.verdict.acceptance.is_some() {
        let why = ended.err().unwrap_or_else(|| "It was not run.".to_owned());
        return Judged::Failed(format!("The acceptance command did not say that it is done. {why}"));
    }
    if let Err(why) = ended {
        return Judged::Failed(why);
    }
    let changed_nothing = finished.change.is_none() && matches!(finished.stop, Stop::Finished(Finish::Done { .. }));
    if changed_nothing && kept.is_none() {
        return Judged::Failed("The agent said that it is done, but no file differs.".to_owned());
    }
    let broken = broken(finished, kept);
    match broken.is_empty() {
        true => Judged::Done,
        false => Judged::Failed(broken.into_iter().map(in_words).collect::<Vec<_>>().join("\n\n")),
    }
}

/// Whether the agent says that it is done, or why not.
fn how_it_ended(stop: &Stop) -> Result<(), String> {
    match stop {
        Stop::Finished(Finish::Done { .. } | Finish::NothingToDo { .. }) => Ok(()),
        Stop::Finished(Finish::Refused { reason }) => Err(format!("The agent refused: {reason}")),
        Stop::Finished(_) => Err("The agent ended without a change.".to_owned()),
        Stop::Stuck(why) => Err(format!("The agent got nowhere: {why}")),
        Stop::Budget(limit) => Err(format!("A limit stopped it: {limit}")),
        Stop::NeedsInput(_) => Err("The agent asked a question, and nobody answered.".to_owned()),
        Stop::Cancelled => Err("It was stopped.".to_owned()),
    }
}

/// Checks that fail now and passed before the first try. What the base of a later try says counts
/// for nothing: its base is the work of an earlier one.
fn broken<'a>(finished: &'a Finished, kept: Option<&Kept>) -> Vec<&'a CheckRun> {
    let verdict = &finished.verdict;
    let Some(kept) = kept else {
        return verdict.regressions();
    };
    let ran = match verdict.head.is_empty() {
        true => &verdict.base,
        false => &verdict.head,
    };
    let failed_before = |check: &&CheckRun| kept.failed_before.contains(&check.command);
    ran.iter()
        .filter(|check| !check.passed())
        .filter(|check| !failed_before(check))
        .collect()
}

fn in_words(check: &CheckRun) -> String {
    let ended = match (&check.killed, check.exit_code) {
        (Some(killed), _) => killed.clone(),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "no exit code".to_owned(),
    };
    format!(
        "`{}` ended with {ended}:\n{}",
        check.command,
        check.output_tail.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Side;
    use crate::run::Verdict;

    fn check(command: &str, side: Side, exit_code: i32) -> CheckRun {
        CheckRun {
            command: command.to_owned(),
            side,
            exit_code: Some(exit_code),
            killed: None,
            took_ms: 1,
            output_tail: "said\n".to_owned(),
        }
    }

    fn finished(stop: Stop, acceptance: Option<&str>, checks: &[CheckRun]) -> Finished {
        let of = |side: Side| checks.iter().filter(|check| check.side == side).cloned().collect();
        Finished {
            stop,
            last_words: String::new(),
            change: None,
            violations: Vec::new(),
            verdict: Verdict {
                commands: Vec::new(),
                base: of(Side::Base),
                head: of(Side::Head),
                acceptance: acceptance.map(str::to_owned),
            },
            drafts: Vec::new(),
        }
    }

    fn nothing_to_do() -> Stop {
        Stop::Finished(Finish::NothingToDo {
            reason: "it is there".to_owned(),
            threads: Vec::new(),
        })
    }

    fn done() -> Stop {
        Stop::Finished(Finish::Done {
            title: "t".to_owned(),
            summary: "s".to_owned(),
            risks: String::new(),
            not_done: String::new(),
            unfinished: Vec::new(),
            threads: Vec::new(),
        })
    }

    #[track_caller]
    fn fails(finished: &Finished, kept: Option<&Kept>, words: &str) {
        match judge(finished, kept) {
            Judged::Failed(problem) => assert!(problem.contains(words), "{problem}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_decides_and_not_the_agent() {
        let (base, head) = (check("accept", Side::Base, 1), check("accept", Side::Head, 0));
        let passes = finished(done(), Some("accept"), &[base.clone(), head.clone()]);
        assert_eq!(judge(&passes, None), Judged::Done);
        let broken = check("accept", Side::Head, 3);
        fails(
            &finished(done(), Some("accept"), &[base.clone(), broken]),
            None,
            "`accept` ended with exit code 3:\nsaid",
        );
        fails(
            &finished(nothing_to_do(), Some("accept"), std::slice::from_ref(&base)),
            None,
            "`accept` ended with exit code 1",
        );
        fails(
            &finished(Stop::Budget("60 turns".to_owned()), Some("accept"), &[base]),
            None,
            "A limit stopped it: 60 turns\n\n`accept` ended with exit code 1",
        );
        fails(&finished(done(), Some("accept"), &[]), None, "It was not run.");
        let before = check("accept", Side::Base, 0);
        assert_eq!(
            judge(&finished(nothing_to_do(), Some("accept"), &[before]), None),
            Judged::Done
        );
    }

    #[test]
    fn without_a_command_nothing_may_break_since_the_first_try() {
        fails(&finished(done(), None, &[]), None, "no file differs");
        assert_eq!(judge(&finished(nothing_to_do(), None, &[]), None), Judged::Done);
        let kept = Kept {
            branch: "agent/kept/main/a".parse().unwrap(),
            sha: "a".repeat(40).parse().unwrap(),
            base: "b".repeat(40).parse().unwrap(),
            failed_before: vec!["lint".to_owned()],
        };
        let checks = [
            check("test", Side::Base, 1),
            check("test", Side::Head, 1),
            check("lint", Side::Head, 1),
        ];
        fails(
            &finished(done(), None, &checks),
            Some(&kept),
            "`test` ended with exit code 1",
        );
        assert_eq!(judge(&finished(done(), None, &checks[2..]), Some(&kept)), Judged::Done);
        assert_eq!(judge(&finished(Stop::Cancelled, None, &[]), None), Judged::Stopped);
    }
}
