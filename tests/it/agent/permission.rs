//! Calls that the rules allow, ask about and deny, with a person who answers, and without one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forgehand::agent::{Answer, People, Question};
use forgehand::config::PermissionConfig;
use forgehand::permission::Policy;
use serde_json::json;

use super::{Bench, check_finished};
use crate::model_server::{Reply, Said};

/// A person who gives these answers in this order, and remembers what was asked.
#[derive(Default)]
pub(super) struct Person {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Question>>,
}

impl Person {
    pub(super) fn saying(answers: &[Answer]) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.iter().cloned().collect()),
            asked: Mutex::default(),
        })
    }

    /// (key, call) of everything that was asked.
    pub(super) fn asked(&self) -> Vec<(String, String)> {
        let asked = self.asked.lock().unwrap();
        let permits = asked.iter().map(|question| match question {
            Question::Permit { key, call } => (key.clone(), call.clone()),
            other => panic!("{other:?} was asked"),
        });
        permits.collect()
    }
}

#[async_trait]
impl People for Person {
    async fn ask(&self, question: &Question) -> Answer {
        self.asked.lock().unwrap().push(question.clone());
        self.answers.lock().unwrap().pop_front().expect("an answer is left")
    }
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Policy {
    let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    let config = PermissionConfig {
        allow: list(allow),
        ask: list(ask),
        deny: list(deny),
        ..PermissionConfig::default()
    };
    Policy::new(&config, &[]).unwrap()
}

fn run(command: &str) -> Reply {
    Reply::call("run_command", json!({ "command": command }))
}

#[tokio::test]
async fn m08_a_person_is_shown_the_call_itself_and_nothing_the_model_says_of_it() {
    let mut bench = Bench::with(&[("data", "kept")]).await;
    let person = Person::saying(&[Answer::No]);
    bench.permission = rules(&[], &["run_command:*"], &[]);
    bench.people = person.clone();
    let call = ("bash", json!({"cmd": "rm data # \u{202e}tset ograc"}).to_string());
    let (solution, _) = bench
        .run(vec![
            Said::calls([call])
                .thinking("I only list the files, please approve")
                .reply(),
            Reply::finish("t", "s"),
        ])
        .await;
    check_finished(&solution);
    let asked = person.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, r#"run_command {"cmd":"rm data # ⟦U+202E⟧tset ograc"}"#);
    assert!(!asked[0].0.contains("only list"));
    assert_eq!(bench.read("data"), "kept", "what was refused is not run");
    let calls = bench.calls();
    assert!(!calls[0].1 && calls[0].2.contains("a person refused"), "{calls:?}");
}

#[tokio::test]
async fn m08_a_long_call_is_cut_where_that_is_seen_and_named_by_its_hash() {
    let mut bench = Bench::with(&[]).await;
    let person = Person::saying(&[Answer::No, Answer::No]);
    bench.permission = rules(&[], &["run_command:*"], &[]);
    bench.people = person.clone();
    let padding = "x".repeat(20_000);
    let long = |middle: &str| run(&format!("echo {padding}{middle}{padding}"));
    bench
        .run(vec![long("; ls"), long("; rm"), Reply::finish("t", "s")])
        .await;
    let asked = person.asked();
    for (key, call) in &asked {
        assert!(call.len() < 5_000 && key.len() < 1_000, "{} {}", call.len(), key.len());
        assert!(call.contains("bytes left out") && call.contains("SHA-256"), "{call}");
    }
    assert_ne!(asked[0].1, asked[1].1, "an answer to one is none to the other");
}

#[tokio::test]
async fn an_approval_for_the_run_is_not_asked_again_and_covers_no_other_call() {
    let mut bench = Bench::with(&[]).await;
    let person = Person::saying(&[Answer::YesForRun, Answer::Yes, Answer::Yes]);
    bench.permission = rules(&[], &["run_command:*"], &[]);
    bench.people = person.clone();
    bench
        .run(vec![
            run("echo a >> log"),
            run("echo a >> log"),
            run("echo b >> log"),
            run("echo a >> log"),
            run("echo b >> log"),
            Reply::finish("t", "s"),
        ])
        .await;
    let keys: Vec<String> = person.asked().into_iter().map(|(key, _)| key).collect();
    let expected = [
        "run_command:echo a >> log",
        "run_command:echo b >> log",
        "run_command:echo b >> log",
    ];
    assert_eq!(keys, expected);
    assert_eq!(bench.read("log"), "a\na\nb\na\nb\n");
}

#[tokio::test]
async fn c06_a_denied_program_is_denied_in_every_part_of_a_line() {
    let mut bench = Bench::with(&[]).await;
    bench.permission = rules(&[], &[], &["run_command:touch"]);
    let line = format!("{}touch CANARY", "true; ".repeat(51));
    bench
        .run(vec![
            run(&line),
            run("bash -c 'touch CANARY'"),
            run("echo fine > ok"),
            Reply::finish("t", "s"),
        ])
        .await;
    assert!(!bench.path("CANARY").exists());
    assert!(bench.path("ok").exists());
    let calls = bench.calls();
    assert!(
        calls[0].2.contains("`run_command:touch`") && calls[1].2.contains("denies it"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn j17_an_unattended_run_asks_nobody_and_does_what_was_allowed_before() {
    let mut bench = Bench::with(&[]).await;
    let person = Person::saying(&[]);
    bench.permission = rules(&["write_file:docs/"], &["write_file:*"], &[]).unattended();
    bench.people = person.clone();
    let write = |path: &str| Reply::call("write_file", json!({"path": path, "content": "x"}));
    bench
        .run(vec![
            write("docs/a.md"),
            write("src.rs"),
            write(".git/config"),
            Reply::finish("t", "s"),
        ])
        .await;
    assert!(bench.path("docs/a.md").exists());
    assert!(!bench.path("src.rs").exists() && !bench.path(".git/config").exists());
    let calls = bench.calls();
    assert!(calls[1].2.contains("nobody can be asked in this run"), "{calls:?}");
    assert!(calls[2].2.contains(".git is git's own"), "{calls:?}");
    assert!(person.asked().is_empty());
}
