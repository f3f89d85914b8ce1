//! Commands in the background of a run: waiting for them is work, leaving them behind is not.

use super::*;

#[tokio::test]
async fn x23_waiting_is_not_being_stuck_and_finish_names_what_still_runs() {
    let bench = Bench::with(&[]).await;
    let wait = || Reply::call("command_output", json!({"id": 1}));
    let (solution, _) = bench
        .run(vec![
            Reply::call("bash", json!({"command": "sleep 300", "run_in_background": true})),
            wait(),
            wait(),
            wait(),
            wait(),
            finish(),
            finish(),
        ])
        .await;
    check_finished(&solution);
    let calls = bench.calls();
    let refused: Vec<&String> = calls
        .iter()
        .filter(|(_, ok, _)| !ok)
        .map(|(_, _, output)| output)
        .collect();
    assert!(
        refused.len() == 1 && refused[0].contains("1 (`sleep 300`)"),
        "{refused:?}"
    );
}

/// C4, C5: what a command writes is capped on its way to the model, however it ends.
#[tokio::test]
async fn c04_c05_no_output_fills_the_conversation() {
    let bench = Bench::with(&[]).await;
    let line = "ln -s . loop; yes | head -c 50M; sleep 60";
    let (solution, server) = bench
        .run(vec![
            Reply::call("run_command", json!({"command": line, "timeout_seconds": 2})),
            finish(),
        ])
        .await;
    check_finished(&solution);
    let requests = server.requests();
    let shown = requests[1].last();
    assert!(
        shown.len() < 20_000 && shown.contains("killed: timeout after 2 s"),
        "{}",
        shown.len()
    );
    assert!(shown.contains("/tmp/out.txt"), "it says how to see the rest");
}
