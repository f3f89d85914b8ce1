//! Children of the agent: they read and conclude, within a share of its budget, and what goes wrong
//! with them is only a tool's error.

use forgehand::agent::Stop;
use forgehand::event::{RunEvent, Totals};
use forgehand::tool::{Mode, Toolbox};
use serde_json::{Value, json};

use super::{Bench, check_finished, check_stuck, finish};
use crate::model_server::{Reply, Said};

async fn bench() -> Bench {
    let mut bench = Bench::with(&[("a.sh", "echo x\n")]).await.committed().await;
    bench.tools = Toolbox::standard().with_children(Mode::Change);
    bench
}

fn ask() -> Reply {
    Reply::call("agent", json!({"question": "What does a.sh print?"}))
}

fn review() -> Reply {
    Reply::call("review", json!({}))
}

fn conclude(words: &str) -> Reply {
    Reply::call("conclude", json!({ "conclusion": words }))
}

fn verdict(verdict: &str, foundation: u8) -> Reply {
    Reply::call(
        "conclude",
        json!({
            "verdict": verdict, "summary": "It prints y now.",
            "foundation": foundation, "foundation_why": "It is about a.sh.",
            "over_engineering": 0, "over_engineering_why": "One word.",
            "volume": 0, "volume_why": "One line.",
            "terminology": 0, "terminology_why": "No new names.",
            "findings": [],
        }),
    )
}

fn edit() -> Reply {
    Reply::call("edit_file", json!({"path": "a.sh", "old_text": "x", "new_text": "y"}))
}

fn verify() -> Reply {
    Reply::call("run_command", json!({"command": "sh a.sh && git diff"}))
}

/// Output of the only call of a tool by the agent itself.
fn output(bench: &Bench, wanted: &str) -> (bool, String) {
    let found = bench.events().into_iter().find_map(|event| match event {
        RunEvent::ToolCalled {
            tool,
            agent,
            ok,
            output,
            ..
        } if tool == wanted && agent.is_empty() => Some((ok, output)),
        _ => None,
    });
    found.expect("the call was made")
}

#[tokio::test]
async fn a_child_reads_and_only_its_conclusion_comes_back() {
    let bench = bench().await;
    let read = Reply::call("read_file", json!({"path": "a.sh"}));
    let script = vec![ask(), read, conclude("`a.sh:1` prints x."), edit(), verify(), finish()];
    let (solution, server) = bench.run(script).await;
    check_finished(&solution);
    assert_eq!(output(&bench, "agent"), (true, "`a.sh:1` prints x.".to_owned()));
    let requests = server.requests();
    let names: Vec<&str> = requests[1].body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    for absent in ["write_file", "edit_file", "run_command", "agent", "review", "finish"] {
        assert!(!names.contains(&absent), "{names:?}");
    }
    assert!(names.contains(&"read_file") && names.contains(&"conclude"), "{names:?}");
    assert!(requests[1].last().contains("What does a.sh print?") && !requests[1].last().contains("last word"));
    let of_parent = requests[3].messages().len();
    assert_eq!(of_parent, 4, "system, brief, the call, its output");
    let children: Vec<String> = bench
        .events()
        .into_iter()
        .filter_map(|event| match event {
            RunEvent::ModelReplied { agent, .. } => Some(agent),
            _ => None,
        })
        .collect();
    assert_eq!(children, ["", "agent-1", "agent-1", "", "", ""]);
    let log = bench.recorder.conversation("agent-1", 0).await.unwrap();
    assert_eq!(log.len(), 6, "rules, question, two replies with their outputs");
    let totals = Totals::of(&bench.events());
    assert_eq!((totals.turns, totals.input_tokens), (6, 600));
    assert_eq!(solution.conversation.tokens, 6 * 120, "charged to the parent");
    assert_eq!(solution.conversation.turn, 4, "its turns are its own");
}

#[tokio::test]
async fn a_child_cannot_write_or_have_children() {
    let bench = bench().await;
    let calls: [(&str, Value); 3] = [
        ("write_file", json!({"path": "b", "content": "x"})),
        ("agent", json!({"question": "?"})),
        ("run_command", json!({"command": "touch c"})),
    ];
    bench
        .run(vec![ask(), Reply::calls(&calls), conclude("No."), finish()])
        .await;
    let refused = bench.events().into_iter().filter(|event| {
        matches!(event, RunEvent::ToolCalled { agent, ok: false, output, .. }
            if agent == "agent-1" && output.contains("there is no tool"))
    });
    assert_eq!(refused.count(), 3);
    assert!(!bench.path("b").exists() && !bench.path("c").exists());
}

#[tokio::test]
async fn a_child_that_fails_is_an_error_of_its_tool_and_the_agent_goes_on() {
    let bench = bench().await;
    let script = vec![
        ask(),
        Reply::error(400, "no such model for helpers"),
        edit(),
        verify(),
        finish(),
    ];
    let (solution, _) = bench.run(script).await;
    check_finished(&solution);
    let (ok, said) = output(&bench, "agent");
    assert!(
        !ok && said.contains("the helper failed") && said.contains("no such model"),
        "{said}"
    );
}

#[tokio::test]
async fn a_child_without_a_conclusion_ends_with_its_share() {
    let mut bench = bench().await;
    bench.budget.max_turns = 3;
    let look = |at: u32| Reply::call("glob", json!({"pattern": format!("*{at}")}));
    let mut script = vec![ask()];
    script.extend((0..15).map(look));
    script.push(finish());
    let (_, server) = bench.run(script).await;
    let (ok, said) = output(&bench, "agent");
    assert!(!ok && said.contains("15 of 15"), "{said}");
    let requests = server.requests();
    assert!(requests[14].last().contains("Call `conclude` with what you know"));
    assert!(requests[15].last().contains("this one included: 1"));
}

#[tokio::test]
async fn a_child_has_a_fifth_of_what_is_left() {
    let mut bench = bench().await;
    bench.budget.max_tokens = 25_000;
    let much = |at: u32| {
        Said::calls([("glob", json!({"pattern": format!("*{at}")}).to_string())])
            .usage(Some((2_500, 0)))
            .reply()
    };
    bench.run(vec![ask(), much(1), much(2), finish()]).await;
    let (ok, said) = output(&bench, "agent");
    assert!(!ok && said.contains("tokens"), "{said}");

    bench.budget.max_tokens = 15_000;
    let bench = Bench {
        recorder: forgehand::recorder::Recorder::in_memory(forgehand::clock::Clock::System, Default::default()),
        ..bench
    };
    bench.run(vec![ask(), finish()]).await;
    let (ok, said) = output(&bench, "agent");
    assert!(!ok && said.contains("too few for a helper"), "{said}");
}

#[tokio::test]
async fn a_review_sees_the_request_and_the_difference_and_the_worse_verdict_counts() {
    let bench = bench().await;
    let script = vec![edit(), review(), verdict("pass", 2), verify(), finish()];
    let (solution, server) = bench.run(script).await;
    check_finished(&solution);
    let (ok, said) = output(&bench, "review");
    assert!(ok && said.starts_with("Verdict: needs_fix (stated was pass;"), "{said}");
    let asked = server.requests()[2].last().to_owned();
    for words in ["The last word is not counted", "⟦hidden html⟧", "+echo y"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
}

#[tokio::test]
async fn a_review_without_a_form_is_asked_for_once_more_and_then_needs_a_fix() {
    let bench = bench().await;
    let wrong = Reply::call("conclude", json!({"verdict": "fine"}));
    let script = vec![edit(), review(), wrong, Reply::say("It is fine."), verify(), finish()];
    let (solution, server) = bench.run(script).await;
    check_finished(&solution);
    assert!(server.requests()[3].last().contains("unknown variant"));
    let (_, said) = output(&bench, "review");
    assert!(said.starts_with("Verdict: needs_fix ("), "{said}");
}

#[tokio::test]
async fn where_it_is_asked_for_only_a_passed_review_lets_the_agent_finish() {
    let mut bench = bench().await;
    bench.setting.review_before_finish = true;
    let again = |at: u32| {
        Reply::call(
            "edit_file",
            json!({"path": "a.sh", "old_text": "y", "new_text": format!("y{at}")}),
        )
    };
    let script = vec![
        edit(),
        verify(),
        finish(),
        review(),
        verdict("needs_fix", 0),
        finish(),
        again(1),
        verify(),
        review(),
        verdict("pass", 0),
        finish(),
    ];
    let (solution, server) = bench.run(script).await;
    check_finished(&solution);
    let requests = server.requests();
    for at in [3, 6] {
        assert!(
            requests[at].last().contains("only after a `review`"),
            "{at}: {}",
            requests[at].last()
        );
    }
    assert_eq!(requests.len(), 11);
}

#[tokio::test]
async fn a_review_of_nothing_is_refused_and_insisting_ends_as_stuck() {
    let bench = bench().await;
    let (solution, _) = bench.run(vec![review(), review(), review()]).await;
    check_stuck(&solution, "the same call");
    assert!(output(&bench, "review").1.contains("no change to review"));
    assert!(!matches!(solution.stop, Stop::Cancelled));
}
