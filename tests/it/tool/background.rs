//! Commands in the background: seen, stopped, and never left behind.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn alive(marker: &str) -> bool {
    let has_marker = |entry: std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
    };
    std::fs::read_dir("/proc").expect("/proc").flatten().any(has_marker)
}

fn marker(number: u32) -> String {
    format!("{number}.{}", std::process::id())
}

async fn soon(what: &str, happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(15), "{what} did not happen");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_command_goes_on_while_others_run() {
    let desk = Desk::empty().await;
    let said = desk
        .call(
            "start_command",
            json!({"command": "echo begun; until test -e go; do sleep 0.05; done; echo done; exit 3"}),
        )
        .await;
    assert!(
        said.starts_with("[command 1 runs since") && said.ends_with("\nbegun"),
        "{said}"
    );
    let said = desk.call("command_output", json!({"id": 1})).await;
    assert!(said.ends_with("[no new output]"), "{said}");
    desk.sh("touch go").await;
    let said = desk.call("command_output", json!({"id": 1, "wait_seconds": 20})).await;
    assert!(
        said.starts_with("[command 1 ended: exit code 3") && said.ends_with("\ndone"),
        "{said}"
    );
    let said = desk.call("BashOutput", json!({"bash_id": 1, "all": true})).await;
    assert!(said.ends_with("begun\ndone"), "{said}");
    check_words(
        &desk.refused("command_output", json!({"id": 9})).await,
        &["no command 9", "no command runs"],
    );
}

#[tokio::test]
async fn x04_x22_stopping_ends_everything_it_started() {
    let desk = Desk::empty().await;
    let marker = marker(72001);
    let line = format!("trap '' TERM; setsid sleep {marker} & sleep {marker} & echo up; wait");
    desk.call("start_command", json!({ "command": line })).await;
    soon("the start", || alive(&marker)).await;
    let said = desk.call("stop_command", json!({"id": 1})).await;
    assert!(said.starts_with("[command 1 ended: stopped"), "{said}");
    assert!(!alive(&marker));
}

#[tokio::test]
async fn at_most_four_run_and_their_output_is_bounded() {
    let desk = Desk::empty().await;
    for _ in 0..4 {
        desk.call("start_command", json!({"command": "yes $(seq 1 100)"})).await;
    }
    let said = desk.refused("start_command", json!({"command": "true"})).await;
    check_words(&said, &["4 commands run already", "3 (`yes $(seq 1 100)`)"]);
    let said = desk.call("command_output", json!({"id": 2})).await;
    assert!(said.len() < 20_000, "{}", said.len());
    check_words(&said, &["left out", "of output"]);
    desk.call("stop_command", json!({"id": 2})).await;
    desk.call("start_command", json!({"command": "true"})).await;
    desk.sandbox.close().await;
    assert!(desk.sandbox.running().is_empty());
}

#[tokio::test]
async fn a_cancelled_run_and_a_closed_or_forgotten_sandbox_leave_nothing() {
    for (number, ending) in [(72011, "cancel"), (72012, "close"), (72013, "forget")] {
        let desk = Desk::empty().await;
        let marker = marker(number);
        desk.call(
            "start_command",
            json!({"command": format!("sleep {marker} & sleep {marker}")}),
        )
        .await;
        soon("the start", || alive(&marker)).await;
        let Desk {
            sandbox,
            cancel,
            folder,
            ..
        } = desk;
        match ending {
            "cancel" => cancel.cancel(),
            "close" => sandbox.close().await,
            _ => drop(sandbox),
        }
        soon(ending, || !alive(&marker)).await;
        drop(folder);
    }
}

#[tokio::test]
async fn x23_finish_names_what_still_runs_once() {
    let desk = Desk::empty().await;
    let marker = marker(72021);
    desk.call(
        "bash",
        json!({"command": format!("sleep {marker}"), "run_in_background": true}),
    )
    .await;
    soon("the start", || alive(&marker)).await;
    let finish = json!({"status": "done", "title": "Mend it", "summary": "It is mended."});
    let said = desk.refused("finish", finish.clone()).await;
    check_words(&said, &["not finished", "1 (`sleep 72021."]);
    let finished = desk.output("finish", finish).await;
    let Ok(ToolOutput::Finish(forgehand::tool::Finish::Done { unfinished, .. })) = finished else {
        panic!("it insists, so it is finished: {finished:?}");
    };
    assert_eq!(unfinished, [format!("sleep {marker}")], "and it is said what was not");
    assert!(!alive(&marker), "what still ran is ended");
}

/// A server and whoever asks it in one line, as the description says.
#[tokio::test]
async fn a_server_is_reached_within_one_command() {
    let desk = Desk::empty().await;
    desk.write("index.html", "hello\n");
    let line = "(python3 -m http.server 8000 >/dev/null 2>&1 & for i in $(seq 50); do curl -sf localhost:8000/index.html && break; sleep 0.1; done)";
    let said = desk.sh(line).await;
    assert!(said.ends_with("\nhello"), "{said}");
    desk.call("start_command", json!({"command": "python3 -m http.server 8001"}))
        .await;
    let said = desk.sh("curl -s -m 2 localhost:8001 || echo unreachable").await;
    assert!(said.ends_with("unreachable"), "{said}");
}
