//! Where the agent stops: budgets, a full context, a stop from outside, and not getting on.

use std::path::Path;
use std::time::{Duration, Instant};

use forgehand::agent::Stop;
use forgehand::event::RunEvent;
use serde_json::json;

use super::{Bench, check_finished, check_stuck, finish};
use crate::model_server::{Reply, Said};

#[tokio::test]
async fn m01_calls_that_stay_wrong_end_the_run() {
    let bench = Bench::with(&[]).await;
    let wrong = |at: u32| Reply::raw_call("write_file", &format!("{{\"path\": \"{at}"));
    let (solution, _) = bench.run((0..4).map(wrong).collect()).await;
    check_stuck(&solution, "cannot be run");
}

#[tokio::test]
async fn m01_of_very_many_calls_only_the_first_are_run() {
    let bench = Bench::with(&[]).await;
    let calls = (0..500).map(|at| ("glob", json!({"pattern": format!("{at}")}).to_string()));
    let (solution, server) = bench.run(vec![Said::calls(calls).reply(), finish()]).await;
    check_finished(&solution);
    assert_eq!(bench.calls().len(), 32 + 1);
    assert!(server.requests()[1].last().contains("first 32 calls"));
}

#[tokio::test]
async fn m09_replies_without_words_or_calls_end_as_no_result() {
    let bench = Bench::with(&[]).await;
    let empty = || Said::text("").thinking("Hm.").reply();
    let refused = Said::text("").ending("content_filter").reply();
    let (solution, server) = bench.run(vec![empty(), refused, empty()]).await;
    check_stuck(&solution, "without calling a tool");
    assert_eq!(solution.last_words, "");
    assert!(server.requests()[2].last().contains("refused or filtered"));
}

#[tokio::test]
async fn l40_a_model_that_only_talks_is_asked_twice_and_then_stopped() {
    let bench = Bench::with(&[]).await;
    let (solution, server) = bench
        .run(vec![Reply::say("One."), Reply::say("Two."), Reply::say("Three.")])
        .await;
    check_stuck(&solution, "without calling a tool");
    assert_eq!(solution.last_words, "Three.");
    assert!(server.requests()[2].last().contains("called no tool"));
}

#[tokio::test]
async fn m04_e26_the_same_failing_call_gets_a_hint_and_then_ends_the_run() {
    let bench = Bench::with(&[("a.txt", "x\nx\n")]).await;
    let same = || Reply::call("edit_file", json!({"path": "a.txt", "old_text": "x", "new_text": "y"}));
    let (solution, server) = bench.run(vec![same(), same(), same()]).await;
    check_stuck(&solution, "the same call");
    let requests = server.requests();
    assert!(requests[1].last().contains("lines 1, 2") && !requests[1].last().contains("just before"));
    assert!(requests[2].last().contains("exactly this call just before"));
    assert_eq!(bench.read("a.txt"), "x\nx\n");
    assert!(bench.calls()[2].2.starts_with("not run"));
}

#[tokio::test]
async fn c11_finishing_in_the_last_turn_is_a_success() {
    let mut bench = Bench::with(&[]).await;
    bench.budget.max_turns = 2;
    let (solution, _) = bench
        .run(vec![Reply::call("glob", json!({"pattern": "*"})), finish()])
        .await;
    check_finished(&solution);
}

#[tokio::test]
async fn a_used_up_budget_warns_winds_down_and_keeps_the_work() {
    let mut bench = Bench::with(&[]).await;
    bench.budget.max_turns = 5;
    let write = |at: u32| Reply::call("write_file", json!({"path": format!("{at}.txt"), "content": "x\n"}));
    let (solution, server) = bench.run((0..5).map(write).collect()).await;
    assert!(
        matches!(&solution.stop, Stop::Budget(limit) if limit.contains("5 of 5")),
        "{solution:?}"
    );
    assert_eq!(bench.read("4.txt"), "x\n");
    let warned = bench
        .events()
        .into_iter()
        .filter(|event| matches!(event, RunEvent::BudgetWarned { .. }))
        .count();
    assert_eq!(warned, 1);
    let told = |at: usize| server.requests()[at].last().contains("3 replies left");
    assert_eq!([told(1), told(2), told(3)], [false, true, false]);
    assert!(server.requests()[4].last().contains("80 % of the replies"));
}

#[tokio::test]
async fn l35_a_reply_that_cannot_be_used_is_paid_for() {
    let mut bench = Bench::with(&[]).await;
    bench.budget.max_cost_usd = 0.001;
    let broken = |at: u32| {
        Said::calls([("glob", format!("{{broken {at}"))])
            .usage(Some((400, 10)))
            .reply()
    };
    let (solution, _) = bench.run(vec![broken(1), broken(2)]).await;
    assert!(
        matches!(&solution.stop, Stop::Budget(limit) if limit.contains("money")),
        "{solution:?}"
    );
}

#[tokio::test]
async fn the_model_is_told_when_its_reply_was_cut() {
    let bench = Bench::with(&[]).await;
    let calls = [
        ("write_file", json!({"path": "a.txt", "content": "a\n"}).to_string()),
        ("write_file", r#"{"path": "b.txt", "content": "b"#.to_owned()),
    ];
    let cut = Said::calls(calls).ending("length").reply();
    let (solution, server) = bench
        .run(vec![cut, Said::text("I will").ending("length").reply(), finish()])
        .await;
    check_finished(&solution);
    assert!(bench.path("a.txt").exists() && !bench.path("b.txt").exists());
    assert!(server.requests()[1].last().contains("cut off by the output limit"));
    assert!(server.requests()[2].last().contains("cut off by the output limit"));
}

#[tokio::test]
async fn c1_a_conversation_that_is_too_long_is_shortened_once() {
    let long: String = (0..800).map(|line| format!("line {line} of a long file\n")).collect();
    let bench = Bench::with(&[("long.txt", &long)]).await;
    let read = |at: u32| Reply::call("read_file", json!({"path": "long.txt", "offset": at}));
    let overflow = || {
        Reply::error(
            400,
            "request (138229 tokens) exceeds the available context size (133376 tokens)",
        )
    };
    let mut script: Vec<Reply> = (1..9).map(read).collect();
    script.extend([overflow(), finish()]);
    let (solution, server) = bench.run(script).await;
    check_finished(&solution);
    let sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|request| request.body.to_string().len())
        .collect();
    assert!(sizes[9] + 30_000 < sizes[8], "{sizes:?}");

    let bench = Bench::with(&[]).await;
    let (solution, _) = bench.run(vec![overflow()]).await;
    check_stuck(&solution, "context window");
}

/// Waits until a file is there, which a command under way makes.
async fn appears(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{} did not appear",
            path.display()
        );
        tokio::task::yield_now().await;
    }
}

fn long_command() -> Reply {
    Reply::call(
        "run_command",
        json!({"command": "touch begun; sleep 100", "timeout_seconds": 90}),
    )
}

#[tokio::test]
async fn a_stop_ends_a_running_command() {
    let bench = Bench::with(&[]).await;
    let begun = bench.path("begun");
    let stop = async {
        appears(&begun).await;
        bench.cancel.cancel();
        Instant::now()
    };
    let ((solution, _), stopped_at) = tokio::join!(bench.run(vec![long_command()]), stop);
    assert_eq!(solution.stop, Stop::Cancelled);
    assert!(stopped_at.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_time_limit_ends_a_running_command_and_keeps_the_work() {
    let mut bench = Bench::with(&[]).await;
    bench.budget.max_time = Duration::from_secs(3);
    let (solution, _) = bench.run(vec![long_command()]).await;
    assert!(
        matches!(&solution.stop, Stop::Budget(limit) if limit.contains("time")),
        "{solution:?}"
    );
    assert!(bench.path("begun").exists());
}
