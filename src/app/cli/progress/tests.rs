//! A run as a pipe shows it, line by line, and that nothing hostile gets to a terminal.

use std::sync::{Arc, Mutex};

use super::*;
use crate::app::cli::screen::canvas::Kind;
use crate::app::cli::screen::paint::Paint;
use crate::clock::Clock;
use crate::event::Usage;
use crate::ids::JobId;
use crate::secret::Secret;

/// What was written, readable while the canvas holds it.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Shown {
    telling: Telling<Written>,
    written: Written,
}

impl Shown {
    fn new(kind: Kind, reasoning: Reasoning) -> Self {
        let written = Written::default();
        let redactor = Redactor::default();
        redactor.add(&Secret::new("very-secret-value"));
        let canvas = Canvas::new(written.clone(), kind, Paint::Plain, || Some(41));
        let telling = Telling::new(canvas, reasoning, Limits { max_turns: 60 }, redactor);
        Self { telling, written }
    }

    fn tell(&mut self, body: RunEvent) -> &mut Self {
        let event = Event {
            job: JobId::new(Clock::System.now()),
            seq: 1,
            at: Clock::System.now(),
            body,
        };
        self.telling.event(&event);
        self
    }

    fn text(&self) -> String {
        String::from_utf8(self.written.0.lock().unwrap().clone()).unwrap()
    }
}

fn replied(text: &str, reasoning: &str) -> RunEvent {
    RunEvent::ModelReplied {
        model: String::new(),
        agent: String::new(),
        turn: 1,
        text: text.to_owned(),
        reasoning: reasoning.to_owned(),
        tools: Vec::new(),
        usage: Usage {
            input_tokens: 11_000,
            output_tokens: 1_300,
            reported: true,
        },
        cost_usd: Some(0.0123),
        took_ms: 1,
    }
}

fn called(tool: &str, arguments: &str, output: &str, ok: bool) -> RunEvent {
    RunEvent::ToolCalled {
        agent: String::new(),
        turn: 1,
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
        output: output.to_owned(),
        ok,
        took_ms: 1_250,
    }
}

#[test]
fn in_a_pipe_a_run_is_plain_lines() {
    let mut shown = Shown::new(Kind::Lines, Reasoning::Folded);
    let step = |step: &str, done| PlanStep {
        step: step.to_owned(),
        done,
    };
    shown.telling.text("never twice");
    shown
        .tell(RunEvent::StageStarted { stage: Stage::Solve })
        .tell(replied("I look at it.\n\n\n1. first\n", "hm"))
        .tell(RunEvent::PlanUpdated {
            steps: vec![step("Look", true), step("Mend", false)],
        })
        .tell(called("plan", "{}", "The plan has 2 steps.", true))
        .tell(called(
            "run_command",
            r#"{"command": "make"}"#,
            "[exit code 2, 1 s]\nbad\u{1b}[2J",
            true,
        ))
        .tell(called(
            "edit_file",
            r#"{"path": "a", "old_text": "x", "new_text": "y"}"#,
            "Edited a at line 7. It",
            true,
        ))
        .tell(RunEvent::Noted {
            text: "one\ntwo".into(),
        });
    shown.telling.draw();
    shown.telling.clear();
    insta::assert_snapshot!(shown.text(), @r"
    … Work on the change

      I look at it.

      1. first
      Plan  1 of 2 done
        ✓ Look
        ○ Mend
      ✗ $ make  exit 2, 1 line · 1.2 s
          │ bad⟦U+001B⟧[2J
      ✓ edit_file a:7  +1 −1 · 1.2 s
          - x
          + y
      note: one
            two
    ");
}

#[test]
fn u05_on_a_terminal_nothing_from_outside_is_a_control_code() {
    let mut shown = Shown::new(Kind::Terminal, Reasoning::Shown);
    let evil = "\u{1b}]0;evil\u{7}\u{1b}[2J\u{9b}31m\r\u{8}x\n";
    shown.telling.reasoning(evil);
    shown.telling.text(evil);
    shown.telling.draw();
    shown.telling.line(evil);
    let check = CheckRun {
        command: evil.into(),
        side: Side::Head,
        exit_code: None,
        killed: Some(evil.into()),
        took_ms: 1,
        output_tail: evil.into(),
    };
    let arguments = serde_json::json!({"command": evil, "path": evil, "old_text": evil, "new_text": "b"}).to_string();
    shown
        .tell(replied(evil, evil))
        .tell(replied(evil, evil))
        .tell(RunEvent::ToolStarted {
            turn: 1,
            tool: evil.into(),
            arguments: arguments.clone(),
        })
        .tell(called("run_command", &arguments, evil, true))
        .tell(called("edit_file", &arguments, evil, true))
        .tell(called("edit_file", &arguments, evil, false))
        .tell(called(evil, evil, evil, true))
        .tell(RunEvent::Noted { text: evil.into() })
        .tell(RunEvent::SetUpRan {
            command: evil.into(),
            exit_code: None,
            took_ms: 1,
        })
        .tell(RunEvent::WorkspaceOpened {
            base_sha: "a".repeat(40).parse().unwrap(),
            sandbox: evil.into(),
        })
        .tell(RunEvent::PlanUpdated {
            steps: vec![PlanStep {
                step: evil.into(),
                done: false,
            }],
        })
        .tell(RunEvent::Checked { check });
    shown.telling.draw();
    shown.telling.clear();
    // Only the program's own movements are left.
    let mut text = shown.text();
    for own in ["\r\u{1b}[J", "\r\u{1b}[1A\u{1b}[J", "\r\u{1b}[2A\u{1b}[J"] {
        text = text.replace(own, "");
    }
    let left: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert!(left.is_empty(), "{left:?} in {text:?}");
    assert!(text.matches("⟦U+001B⟧]0;evil").count() > 10, "{text}");
}

#[test]
fn words_that_arrive_one_by_one_are_the_same_as_whole_ones() {
    let text = "The quick brown fox jumps over the lazy dog, which holds very-secret-value in its mouth.\r\n\n  - one\n\n\n- two\n";
    let mut whole = Shown::new(Kind::Terminal, Reasoning::Folded);
    whole.tell(replied(text, "")).telling.canvas.clear();
    let expected = "\n  The quick brown fox jumps over the\n  lazy dog, which holds [redacted] in\n  its mouth.\n\n    - one\n\n  - two\n";
    assert_eq!(whole.text(), expected);
    for size in [1, 3, 7, 1_000] {
        let mut live = Shown::new(Kind::Terminal, Reasoning::Folded);
        let chars: Vec<char> = text.chars().collect();
        for part in chars.chunks(size) {
            live.telling.text(&part.iter().collect::<String>());
        }
        // Whatever was drawn meanwhile is drawn over; only what stays is compared.
        live.tell(replied(text, "")).telling.canvas.clear();
        assert_eq!(live.text(), expected, "in parts of {size}");
    }
}

#[test]
fn a_reply_that_begins_anew_is_told_once_more() {
    let mut live = Shown::new(Kind::Terminal, Reasoning::Folded);
    live.telling.text("Half a re");
    live.telling.restarted();
    live.telling.text("A whole reply.");
    live.tell(replied("A whole reply.", "")).telling.canvas.clear();
    assert_eq!(
        live.text(),
        "  [the reply broke off and begins anew]\n\n  A whole reply.\n"
    );
}

#[test]
fn the_status_line_says_what_goes_on() {
    let mut shown = Shown::new(Kind::Terminal, Reasoning::Folded);
    let status = |shown: &Shown| -> Vec<String> {
        let rows = shown.telling.bottom();
        let text = |row: &Row| format!("{row:?}");
        rows.iter().map(text).collect()
    };
    shown.tell(RunEvent::StageStarted { stage: Stage::Solve });
    let rows = status(&shown);
    assert!(
        rows[0].contains("Wait for the model") && rows[0].contains("turn 1/60"),
        "{rows:?}"
    );
    shown.telling.reasoning("I think about lines\nand words");
    let rows = status(&shown);
    assert!(
        rows[0].contains("thinks: ") && rows[0].contains("and words"),
        "{rows:?}"
    );
    shown.tell(replied("", "")).tell(RunEvent::ToolStarted {
        turn: 1,
        tool: "bash".into(),
        arguments: r#"{"command": "make"}"#.into(),
    });
    let rows = status(&shown);
    assert!(rows[0].contains("$ make") && rows.len() == 2, "{rows:?}");
    assert!(rows[1].contains("turn 1/60 · 12.3k tokens · $0.01"), "{rows:?}");
}
