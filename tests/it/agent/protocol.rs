//! Runs with models and servers that speak in odd ways: wrong calls of every kind, tools as text,
//! cut replies, prices and usage that are missing, answers that are none.

use forgehand::agent::{SolveError, Stop};
use forgehand::config::{ModelConfig, ModelProvider};
use forgehand::event::{RunEvent, Totals};
use forgehand::model::ModelError;
use serde_json::json;

use super::{Bench, check_finished, check_stuck, finish};
use crate::aimock::Aimock;
use crate::model_server::{ModelServer, Reply, Said};

fn config(server: &ModelServer) -> ModelConfig {
    ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(server.url().to_owned()),
        name: "test-model".to_owned(),
        ..ModelConfig::default()
    }
}

fn notes(bench: &Bench) -> Vec<String> {
    let notes = bench.events().into_iter().filter_map(|event| match event {
        RunEvent::Noted { text } => Some(text),
        _ => None,
    });
    notes.collect()
}

#[tokio::test]
async fn m01_wrong_arguments_of_every_kind_run_nothing_and_are_explained() {
    let mut bench = Bench::with(&[]).await;
    // Two megabytes of arguments are dear.
    (bench.budget.max_cost_usd, bench.budget.max_tokens) = (0.0, 100_000_000);
    let long = json!({"path": "long.txt", "content": "x".repeat(2 << 20)}).to_string();
    let wrong = [
        ("write_file", r#"{"path": "a.txt", "content": "x",}"#),
        ("write_file", r#"{"path": "b.txt", "content": NaN}"#),
        ("write_file", r#"["c.txt", "x"]"#),
        ("write_file", r#"{"path": {"a": 1}, "content": "x"}"#),
        ("", r#"{"path": "d.txt", "content": "x"}"#),
        ("write_file", long.as_str()),
    ];
    let calls: Vec<_> = wrong
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| json!({"id": format!("c{at}"), "function": {"name": name, "arguments": arguments}}))
        .collect();
    let whole =
        json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": calls}}]});
    let (solution, _) = bench.run(vec![Reply::json(&whole), finish()]).await;
    check_finished(&solution);
    let calls = bench.calls();
    assert!(
        calls[..6].iter().all(|(_, ok, output)| !ok && !output.is_empty()),
        "{calls:#?}"
    );
    assert!(
        calls[4].2.contains("there is no tool") && calls[5].2.contains("longer than"),
        "{calls:#?}"
    );
    let left: Vec<_> = std::fs::read_dir(bench.path(".")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn m05_the_cap_on_tokens_holds_without_any_word_of_usage() {
    let mut bench = Bench::with(&[]).await;
    bench.budget.max_tokens = 12_000;
    let look = |at: u32| {
        Said::calls([("glob", json!({"pattern": format!("{at}")}).to_string())])
            .usage(None)
            .reply()
    };
    let server = ModelServer::start((0..20).map(look)).await;
    let solution = bench.try_run(&server).await.unwrap();
    assert!(
        matches!(&solution.stop, Stop::Budget(limit) if limit.contains("tokens")),
        "{solution:?}"
    );
    assert!(server.requests().len() < 15, "{} calls", server.requests().len());
}

#[tokio::test]
async fn m10_an_answer_that_is_none_ends_the_run_with_its_words() {
    for (reply, words) in [
        (
            Reply::raw(200, "text/html", "<!doctype html><title>Welcome</title>"),
            "titled \"Welcome\"",
        ),
        (
            Reply::raw(200, "application/json", "{\"hello\": \"world\"}"),
            "model.base_url",
        ),
        (
            Reply::raw(200, "text/event-stream", format!("data: {}", "x".repeat(9 << 20))),
            "longer than",
        ),
    ] {
        let bench = Bench::with(&[]).await;
        let server = ModelServer::start([reply]).await;
        let error = bench.try_run(&server).await.unwrap_err();
        assert!(matches!(error, SolveError::Model(ModelError::Rejected(_))), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        server.assert_all_read();
    }
}

#[tokio::test]
async fn l35_a_failed_call_is_in_the_sum_of_the_run() {
    let bench = Bench::with(&[]).await;
    let begun = format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {"content": "word ".repeat(100)}}]})
    );
    let broken = format!("{begun}data: {{\"error\":{{\"message\":\"no credits\",\"code\":402}}}}\n\n");
    let server = ModelServer::start([Reply::raw(200, "text/event-stream", broken)]).await;
    let error = bench.try_run(&server).await.unwrap_err().to_string();
    assert!(error.contains("asks for payment"), "{error}");
    let events = bench.events();
    let totals = Totals::of(&events);
    assert!(totals.output_tokens > 100 && totals.cost_usd > 0.001, "{totals:?}");
    assert_eq!(totals.turns, 0);
}

#[tokio::test]
async fn a_cut_call_is_answered_as_one_and_the_limit_doubles() {
    let bench = Bench::with(&[]).await;
    let cut = || {
        Said::calls([("write_file", "{\"path\": \"a.txt\", \"content\": \"half".to_owned())])
            .ending("length")
            .reply()
    };
    let whole = Reply::call("write_file", json!({"path": "a.txt", "content": "whole\n"}));
    let (solution, server) = bench.run(vec![cut(), cut(), whole, finish(), finish()]).await;
    check_finished(&solution);
    assert_eq!(bench.read("a.txt"), "whole\n");
    let requests = server.requests();
    let limits: Vec<u64> = requests
        .iter()
        .map(|request| request.body["max_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(
        limits,
        [8_192, 16_384, 32_000, 32_000, 32_000],
        "doubled up to the ceiling"
    );
    let outputs: Vec<&str> = requests[1]
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert!(
        outputs[0].contains("8192 tokens cut this call of `write_file`"),
        "{outputs:?}"
    );
    let worked: Vec<bool> = bench.calls().iter().map(|(_, ok, _)| *ok).collect();
    assert_eq!(
        worked,
        [false, false, true, false, true],
        "the first `finish` is sent back"
    );
}

#[tokio::test]
async fn l11_a_whole_run_on_a_server_that_takes_no_tools() {
    let bench = Bench::with(&[("count.sh", "echo 1\n")]).await;
    let text = |call: &str| Reply::say(&format!("I go on.\n\n<tool_call>\n{call}\n</tool_call>"));
    let server = ModelServer::start([
        Reply::error(400, "this model does not support tools"),
        text("<function=read_file>\n<parameter=path>\ncount.sh\n</parameter>\n</function>"),
        text("<function=edit_file>\n<parameter=path>\ncount.sh\n</parameter>\n<parameter=old_text>\necho 1\n</parameter>\n\
              <parameter=new_text>\nif true; then\n  echo 2\nfi\n</parameter>\n</function>"),
        text("{\"name\": \"run_command\", \"arguments\": {\"command\": \"sh count.sh\"}}"),
        text("<function=finish>\n<parameter=status>\ndone\n</parameter>\n<parameter=title>\nCount\n</parameter>\n\
              <parameter=summary>\nIt counts.\n</parameter>\n</function>"),
        text("<function=finish>\n<parameter=status>\ndone\n</parameter>\n<parameter=title>\nCount\n</parameter>\n\
              <parameter=summary>\nIt counts.\n</parameter>\n</function>"),
    ])
    .await;
    let solution = bench.try_run(&server).await.unwrap();
    check_finished(&solution);
    assert_eq!(bench.read("count.sh"), "if true; then\n  echo 2\nfi\n");
    assert!(bench.calls()[2].2.ends_with('2'), "{:?}", bench.calls()[2]);
    assert!(notes(&bench).iter().any(|note| note.contains("takes no tools")));
    server.assert_all_read();
}

#[tokio::test]
async fn c02_people_are_told_that_the_server_cuts_silently() {
    let long = "a line of a long file, for the window to be full\n".repeat(1_000);
    let bench = Bench::with(&[("long.txt", &long)]).await;
    let read = Said::calls([("read_file", json!({"path": "long.txt"}).to_string())]).usage(Some((3_000, 20)));
    let done = json!({"status": "done", "title": "Done", "summary": "It is done."}).to_string();
    let done = Said::calls([("finish", done)]).usage(Some((4_010, 40)));
    let (solution, _) = bench.run(vec![read.reply(), done.reply()]).await;
    check_finished(&solution);
    assert!(
        notes(&bench).iter().any(|note| note.contains("num_ctx")),
        "{:?}",
        notes(&bench)
    );
}

#[tokio::test]
async fn c10_an_unknown_price_is_said_and_tokens_are_counted() {
    let bench = Bench::with(&[]).await;
    let server = ModelServer::start([finish()]).await;
    let model = forgehand::model::open(&config(&server), bench.recorder.redactor()).unwrap();
    let solution = bench.run_with(model.as_ref()).await.unwrap();
    check_finished(&solution);
    assert!(
        notes(&bench)
            .iter()
            .any(|note| note.contains("price of test-model is not configured"))
    );
    let totals = Totals::of(&bench.events());
    assert!(totals.price_unknown && totals.input_tokens > 0 && totals.cost_usd == 0.0);
}

#[tokio::test]
async fn the_log_says_which_model_replied() {
    let bench = Bench::with(&[]).await;
    let first = ModelServer::start([Reply::error(429, "slow down").header("retry-after", "3600")]).await;
    let second = ModelServer::start([finish()]).await;
    let config = ModelConfig {
        fallback_base_url: Some(second.url().to_owned()),
        fallback_name: Some("other-model".to_owned()),
        ..config(&first)
    };
    let model = forgehand::model::open(&config, bench.recorder.redactor()).unwrap();
    check_finished(&bench.run_with(model.as_ref()).await.unwrap());
    let replied = bench.events().into_iter().find_map(|event| match event {
        RunEvent::ModelReplied { model, .. } => Some(model),
        _ => None,
    });
    assert_eq!(replied.as_deref(), Some("other-model"));
    assert!(
        notes(&bench)
            .iter()
            .any(|note| note.contains("other-model answers for the time being"))
    );
}

#[tokio::test]
async fn m09_a_model_that_refuses_everything_ends_without_a_result() {
    let bench = Bench::with(&[]).await;
    let refused = || Said::text("I cannot help with that.").ending("refusal").reply();
    let (solution, _) = bench.run(vec![refused(), refused(), refused()]).await;
    check_stuck(&solution, "without calling a tool");
}

#[tokio::test]
async fn a_whole_run_on_a_server_that_nobody_here_wrote() {
    let server = Aimock::start();
    let bench = Bench::with(&[
        ("count.sh", "echo $(( $(wc -w) - 1 ))\n"),
        ("test.sh", "test $(echo a b | sh count.sh) = 2\n"),
    ])
    .await;
    let config = ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(server.url().to_owned()),
        name: "gpt-4o".to_owned(),
        ..ModelConfig::default()
    };
    let model = forgehand::model::open(&config, bench.recorder.redactor()).unwrap();
    check_finished(&bench.run_with(model.as_ref()).await.unwrap());
    assert_eq!(bench.read("count.sh"), "echo $(( $(wc -w) ))\n");
    let calls: Vec<(String, bool)> = bench.calls().into_iter().map(|(tool, ok, _)| (tool, ok)).collect();
    let names: Vec<&str> = calls.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(
        names[..4],
        ["read_file", "run_command", "edit_file", "run_command"],
        "{calls:?}"
    );
    let totals = Totals::of(&bench.events());
    assert!(totals.input_tokens > 0 && totals.output_tokens > 0);
}
