//! The web and the rules of permission in `forgehand run` and `forgehand doctor`.

use serde_json::json;

use super::checkout::{Checkout, call, edit, finish, fix};
use super::{User, ended};
use crate::net::site::{Answer, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_fetches_from_listed_hosts_and_nobody_answers_for_others() {
    let site = Site::start(|_| Answer::html("<h1>Use plus</h1>")).await;
    let checkout = Checkout::new();
    let script = json!([
        call("web_fetch", json!({"url": site.url("/how")})),
        call("web_fetch", json!({"url": "https://evil.example/"})),
        call("run_command", json!({"command": "true && touch CANARY"})),
        edit(),
        finish("done", "As the page says."),
    ]);
    let private = format!("web.allow_private={}", site.authority());
    let more = [
        "--set",
        "web.hosts=127.0.0.1",
        "--set",
        &private,
        "--set",
        "permission.ask=run_command:touch",
    ];
    let ended = tokio::task::block_in_place(|| checkout.task(&script, &more));
    ended.assert_code(0).assert_out("+echo $(($1 + $2))");
    assert!(!ended.out.contains("CANARY"), "{}", ended.out);
    assert!(ended.err.contains("✗ web_fetch https://evil.example/"), "{}", ended.err);
    let requests = site.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("GET", "/how")
    );
}

#[test]
fn s4_a_rule_that_is_not_understood_ends_the_program_before_anything_is_done() {
    let checkout = Checkout::new();
    for (setting, words) in [
        ("permission.allow=run_command", "permission.allow: \"run_command\""),
        ("permission.allow=Bash(gh:*)", "names no tool"),
        (
            "web.hosts=*",
            "web.hosts: `*` is every host; spell that out as unsafe_allow_all = true",
        ),
    ] {
        let ended = checkout.task(&fix(), &["--set", setting]);
        ended.assert_code(78).assert_err(words);
    }
    assert!(checkout.other_branches().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_asks_the_search_server_one_question() {
    let site = Site::start(|path| match path {
        "/good/search" => Answer::json(&json!({"results": [{"title": "a", "url": "https://a.example"}]})),
        _ => Answer::html("<p>a page for people").with_status(403),
    })
    .await;
    let user = User::new();
    let doctor = |path: &str| {
        let mut command = user.forgehand();
        command.args(["doctor", "--set", &format!("web.allow_private={}", site.authority())]);
        command.args(["--set", &format!("web.search_url={}", site.url(path))]);
        tokio::task::block_in_place(|| ended(command.output().unwrap()))
    };
    let good = doctor("/good");
    assert!(good.out.contains("/good answers with 1 results"), "{}", good.out);
    let bad = doctor("/bad");
    bad.assert_code(1).assert_out("its JSON format may be switched off");
    assert_eq!(site.hits(), 2);
}
