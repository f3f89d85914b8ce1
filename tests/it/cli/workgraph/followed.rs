//! What programs see that follow a call on a graph.

use super::*;

/// Whoever follows the events of a call finds each try with its end, and then the end of the call.
#[test]
fn each_try_ends_in_the_events() {
    let planned = Planned::new(&[("one", "false", &[]), ("two", "", &[])]);
    let file = planned.0.user.path("events.jsonl");
    let cases = json!([case("of a plan", boast())]);
    let more = [
        "--set",
        "workgraph.max_fix_attempts=0",
        "--events",
        file.to_str().unwrap(),
    ];
    check_end(&planned.work(&cases, &more), 2, "stuck");
    let lines = std::fs::read_to_string(&file).unwrap();
    let frames: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["events"].is_string())
        .collect();
    let told = frames
        .iter()
        .map(|frame| (frame["events"].as_str().unwrap(), frame["exit_code"].as_u64()));
    let expected = [
        ("begin", None),
        ("end", Some(2)),
        ("begin", None),
        ("end", Some(0)),
        ("begin", None),
        ("end", Some(2)),
    ];
    assert!(told.eq(expected), "{frames:#?}");
    assert_eq!(frames[0]["run"], frames[1]["run"]);
    assert_ne!(frames[0]["run"], frames[2]["run"]);
    assert!(frames[5]["run"].is_null(), "the call is no run");
}
