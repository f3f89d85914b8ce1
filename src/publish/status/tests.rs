//! Every state of a status comment as a person reads it, and which last words are said.

use chrono::TimeDelta;

use super::*;
use crate::effect::EffectState;
use crate::event::{PlanStep, Usage};
use crate::ids::{BranchName, CommitSha, EffectId, InstallationId, IssueNumber, RepoId, RunId, Subject, UserId};
use crate::job::{Actor, JobKind, JobState, Pins, Request};
use crate::money::Cap;

fn last(seq: i64, details: &str) -> Effect {
    Effect {
        id: EffectId::new(DateTime::UNIX_EPOCH),
        job: JobId::new(DateTime::UNIX_EPOCH),
        seq,
        dedupe_key: seq.to_string(),
        body: EffectBody::FinalStatus {
            details: details.to_owned(),
            drafts: format!("drafts of {details}"),
        },
        state: EffectState::Skipped,
        fence: 1,
        sent_at: None,
        tries: 12,
        remote_id: None,
        problem: None,
        unclear: 0,
        repaired: None,
    }
}

#[test]
fn words_that_could_not_be_said_are_kept_for_whoever_says_the_last_ones() {
    let effects = [last(20, "first round"), last(1_020, "second round")];
    assert_eq!(
        last_words_of(&effects, 1_000),
        ("second round", "drafts of second round")
    );
    assert_eq!(
        last_words_of(&effects[..1], 0),
        ("first round", "drafts of first round")
    );
    assert_eq!(
        last_words_of(&effects[..1], 1_000),
        ("", ""),
        "they are of another round"
    );
}

fn job() -> Job {
    let at = DateTime::UNIX_EPOCH;
    let request = Request {
        trigger: Trigger::Label {
            label: "agent".to_owned(),
        },
        actor: Actor {
            id: UserId(1),
            login: "mona".to_owned(),
            is_bot: false,
        },
        instructions: String::new(),
        triggered_at: at,
    };
    Job {
        id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
        repo_id: RepoId(1),
        repo: "octo/words".parse().unwrap(),
        installation: InstallationId(1),
        kind: JobKind::Fix,
        subject: Subject::Issue(IssueNumber(1)),
        state: JobState::Leased,
        priority: 0,
        run_at: at,
        attempt: 1,
        max_attempts: 5,
        lost_leases: 0,
        round: 0,
        fence: 1,
        lease_owner: None,
        lease_until: None,
        request,
        pins: Pins::default(),
        cancel_requested_at: None,
        reason: None,
        outcome: None,
        created_at: at,
        finished_at: None,
    }
}

/// The log of a run in the middle of its work.
fn at_work() -> Vec<RunEvent> {
    let step = |step: &str, done| PlanStep {
        step: step.to_owned(),
        done,
    };
    let mut log = vec![
        RunEvent::Claimed {
            worker: "w".to_owned(),
            attempt: 1,
        },
        RunEvent::RunStarted {
            run: RunId::new(DateTime::UNIX_EPOCH),
            model: "test-model".to_owned(),
        },
    ];
    for (at, stage) in (1..).zip(&STAGES[..4]) {
        let stage = *stage;
        log.push(RunEvent::StageStarted { stage });
        log.push(RunEvent::StageFinished {
            stage,
            took_ms: at * 700,
        });
    }
    log.push(RunEvent::StageStarted { stage: Stage::Solve });
    log.push(RunEvent::PlanUpdated {
        steps: vec![
            step("Show the bug with a test", true),
            step("Count the last word", false),
        ],
    });
    log.push(reply(Some(0.0123)));
    log
}

fn reply(cost_usd: Option<f64>) -> RunEvent {
    RunEvent::ModelReplied {
        turn: 1,
        model: "test-model".to_owned(),
        agent: String::new(),
        text: String::new(),
        reasoning: String::new(),
        tools: Vec::new(),
        usage: Usage {
            input_tokens: 5_200,
            output_tokens: 310,
            reported: true,
        },
        cost_usd,
        took_ms: 900,
    }
}

fn noted(text: &str) -> RunEvent {
    RunEvent::Noted { text: text.to_owned() }
}

fn asked(question: Question) -> RunEvent {
    RunEvent::Asked {
        question,
        answer_by: DateTime::UNIX_EPOCH + TimeDelta::days(7),
    }
}

/// The comment, for a log and an end.
fn shown(language: Language, log: Vec<RunEvent>, outcome: Option<&Outcome>, details: &str) -> String {
    let job = Job {
        outcome: outcome.cloned(),
        ..job()
    };
    let events: Vec<Event> = (1..)
        .zip(log)
        .map(|(seq, body)| Event {
            job: job.id.clone(),
            seq,
            at: DateTime::UNIX_EPOCH,
            body,
        })
        .collect();
    let used = Used {
        cap: Cap::Issue,
        most: Usd::from_dollars(20.0),
        sum: Usd::from_dollars(0.0123),
    };
    let view = StatusView {
        before: None,
        job: &job,
        events: &events,
        outcome,
        details,
        drafts: "",
        command: "/agent",
        used: Some(used),
        language,
    };
    render_status(&view, &str::to_owned)
}

/// Every state, with its name.
fn states(language: Language) -> Vec<(&'static str, String)> {
    let logs = working().into_iter().chain(asking());
    let open = logs.map(|(name, log)| (name, shown(language, log, None, "")));
    let ended = ended().into_iter();
    let ended = ended.map(|(name, outcome, details)| (name, shown(language, at_work(), Some(&outcome), details)));
    open.chain(ended).collect()
}

fn at_work_and(more: Vec<RunEvent>) -> Vec<RunEvent> {
    at_work().into_iter().chain(more).collect()
}

/// Logs of work that goes on.
fn working() -> Vec<(&'static str, Vec<RunEvent>)> {
    let failed = RunEvent::AttemptFailed {
        reason: "GitHub is not reachable".to_owned(),
        retry_at: DateTime::UNIX_EPOCH,
    };
    let again = RunEvent::Claimed {
        worker: "w".to_owned(),
        attempt: 2,
    };
    let twice = vec![noted("The checks failed."), noted("The checks failed.")];
    vec![
        ("starting", Vec::new()),
        ("working", at_work()),
        ("working, second attempt", at_work_and(vec![failed, again])),
        ("working, with the same note twice", at_work_and(twice)),
        ("working, price unknown", at_work_and(vec![reply(None)])),
    ]
}

/// Logs of work that waits, and of work that waited.
fn asking() -> Vec<(&'static str, Vec<RunEvent>)> {
    let ask = |questions: &[&str]| {
        asked(Question::Ask {
            questions: questions.iter().map(|words| (*words).to_owned()).collect(),
        })
    };
    let confirm = Question::Confirm {
        action: "Delete the old script.".to_owned(),
        consequence: "Who calls it gets an error.".to_owned(),
    };
    let permit = Question::Permit {
        key: "run_command:curl".to_owned(),
        call: "curl https://example.com".to_owned(),
    };
    let answered = RunEvent::Answered { by: "mona".to_owned() };
    let two = ["Do tabs count?", "Shall README.md say so?"];
    vec![
        ("asks one thing", at_work_and(vec![ask(&two[..1])])),
        ("asks two things", at_work_and(vec![ask(&two)])),
        ("asks for a yes", at_work_and(vec![asked(confirm)])),
        ("asks for a permission", at_work_and(vec![asked(permit)])),
        ("answered, goes on", at_work_and(vec![ask(&two), answered])),
    ]
}

/// Ends, each with what follows its headline.
fn ended() -> Vec<(&'static str, Outcome, &'static str)> {
    let branch = || "agent/1-words".parse::<BranchName>().unwrap();
    let sha = || "1a2b3c4d5e".repeat(4).parse::<CommitSha>().unwrap();
    let gave_up = |reason: &str, branch| Outcome::GaveUp {
        reason: reason.to_owned(),
        branch,
    };
    let opened = Outcome::Opened {
        pull: IssueNumber(2),
        branch: branch(),
        sha: sha(),
    };
    let pushed = Outcome::Pushed {
        branch: branch(),
        sha: sha(),
    };
    let reviewed = Outcome::Reviewed {
        verdict: "pass".to_owned(),
        comments: 0,
    };
    let nothing = Outcome::NothingToDo {
        reason: "The count is right.".to_owned(),
    };
    let refused = Outcome::Refused {
        reason: "the repository is archived".to_owned(),
    };
    let stopped = Outcome::Stopped {
        reason: "mona asked to stop".to_owned(),
        branch: Some(branch()),
    };
    let limit = gave_up("the limit of replies is reached (3 of 3)", Some(branch()));
    let lines = gave_up("the model cannot go on. Its last words: \n\n```text\nno\n```", None);
    vec![
        ("opened", opened, ""),
        ("pushed", pushed, "**Count tabs, too**\n\n## Summary\n\nTabs count.\n"),
        ("answered", Outcome::Answered, "`count.sh` counts words."),
        ("reviewed", reviewed, ""),
        ("nothing to do", nothing, ""),
        ("refused", refused, ""),
        ("gave up", limit, ""),
        ("gave up with lines", lines, ""),
        ("stopped", stopped, ""),
    ]
}

#[test]
fn every_state_reads_well() {
    let page = |language| {
        let states = states(language);
        let states: Vec<String> = states
            .iter()
            .map(|(name, text)| format!("==== {name}\n{text}"))
            .collect();
        states.join("\n\n")
    };
    insta::assert_snapshot!("states", page(Language::English));
    insta::assert_snapshot!("states_in_chinese", page(Language::Chinese));
}

#[test]
fn no_state_has_a_line_that_commands_or_more_than_one_blank_line() {
    for language in [Language::English, Language::Chinese] {
        for (name, text) in states(language) {
            assert!(!text.lines().any(|line| line.starts_with("/agent")), "{name}: {text}");
            assert!(!text.contains("\n\n\n"), "{name}: {text}");
        }
    }
}
