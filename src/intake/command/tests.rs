//! Tables of comments and the command each holds, if any.

use std::time::{Duration, Instant};

use super::*;

#[track_caller]
fn check(comment: &str, expected: Option<Command>) {
    assert_eq!(Command::parse(comment, "/agent"), expected.map(Ok), "{comment:?}");
}

#[track_caller]
fn check_problem(comment: &str, expected: &str) {
    match Command::parse(comment, "/agent") {
        Some(Err(problem)) => assert_eq!(problem.in_words(Language::English), expected, "{comment:?}"),
        other => panic!("{comment:?} gave {other:?}"),
    }
}

fn fix(instructions: &str) -> Option<Command> {
    Some(Command::Fix {
        instructions: instructions.to_owned(),
    })
}

#[test]
fn c02_w2_t2_commands_need_the_token_at_line_start() {
    check("/agent stop", Some(Command::Stop));
    check("/AGENT Stop", Some(Command::Stop));
    check("  /agent stop.", Some(Command::Stop));
    check("Hello,\n/agent stop", Some(Command::Stop));
    check("Hello,\r\n\r\n/agent\tstop\r\n", Some(Command::Stop));
    check("1. one\n2. two\n\n/agent stop", Some(Command::Stop));
    check("- one\n/agent stop", Some(Command::Stop));
    check("/agent stop\n---\nand a rule", Some(Command::Stop));
    check("> quoted\n\n/agent stop", Some(Command::Stop));
    check("<br>\n\n/agent stop", Some(Command::Stop));
    check("please /agent stop", None);
    check("please do /agent fix", None);
    check("see https://forge.example/agent stop", None);
    check("https://forge.example/agent\nmore", None);
    check("/agents stop", None);
    check("/agent-stop", None);
    check("/agent/stop", None);
    check("a@/agent stop", None);
    check("//agent stop", None);
    check("\\/agent stop", None);
    check("&#47;agent stop", None);
    check("", None);
}

#[test]
fn c01_quoted_text_commands_nothing() {
    for comment in [
        "```\n/agent fix\n```",
        "~~~text\n/agent fix\n~~~",
        "```\n/agent fix",
        "    /agent fix",
        "`/agent fix`",
        "text `code\n/agent fix` more",
        "> /agent fix",
        "> quoted\n/agent fix",
        "> > deep\n> /agent fix",
        "> [!NOTE]\n> /agent fix",
        "<!-- /agent fix -->",
        "<!--\n/agent fix\n-->",
        "text <!--\n/agent fix\n--> text",
        "<pre>\n/agent fix\n\n/agent fix\n</pre>",
        "<details>\n\n/agent fix\n\n</details>",
        "<blockquote>\n\n/agent fix\n\n</blockquote>",
        "<div>\n/agent fix\n</div>",
        "[x](https://example.com \"\n/agent fix\n\")",
        "[link\n/agent fix](https://example.com)",
        "![alt\n/agent fix](https://example.com/x.png)",
        "[ref]: https://example.com \"title\n/agent fix\"\n",
        "text[^1]\n\n[^1]: note\n\n    /agent fix",
        "/agent fix | b\n--- | ---\n1 | 2",
        "| a | b |\n|---|---|\n/agent fix | x",
        "# /agent fix",
        "- /agent fix",
        "1. /agent fix",
        "- [ ] /agent fix",
        "**/agent fix**",
    ] {
        check(comment, None);
    }
}

#[test]
fn c03_lookalikes_command_nothing() {
    for comment in [
        "/\u{430}gent fix",
        "/a\u{200b}gent fix",
        "\u{200b}/agent fix",
        "/agent\u{200b} fix",
        "\u{feff}/agent fix",
        "\u{ff0f}agent fix",
        "\u{2215}agent fix",
        "/\u{e0061}agent fix",
        "\u{202e}/agent fix",
        "/agent\u{301} fix",
    ] {
        check(comment, None);
    }
}

#[test]
fn w26_words_after_the_verb_are_instructions() {
    check("/agent fix", fix(""));
    check("/agent fix: the parser", fix("the parser"));
    check(
        "Thanks!\n\n/agent fix only `lexer.rs`\r\nDon't touch \"x\"; $(id)\r\n\r\n```rust\nfn a() {}\n```\n",
        fix("only `lexer.rs`\nDon't touch \"x\"; $(id)\n\n```rust\nfn a() {}\n```"),
    );
    check("/agent fix\n\nonly the lexer", fix("only the lexer"));
    check("/agent fix the --verbose flag", fix("the --verbose flag"));
    check(
        "/agent ask why?\nReally.",
        Some(Command::Ask {
            question: "why?\nReally.".to_owned(),
        }),
    );
    check(
        "/agent plan",
        Some(Command::Plan {
            instructions: String::new(),
        }),
    );
    check(
        "/agent answer 1. yes\n2. no",
        Some(Command::Answer {
            words: "1. yes\n2. no".to_owned(),
        }),
    );
    check(
        "/agent approve but small",
        Some(Command::Approve {
            remarks: "but small".to_owned(),
        }),
    );
    check(
        "/agent revise smaller",
        Some(Command::Revise {
            remarks: "smaller".to_owned(),
        }),
    );
    check(
        "/agent review",
        Some(Command::Review {
            instructions: String::new(),
        }),
    );
    check(
        "/agent rebase",
        Some(Command::Rebase {
            instructions: String::new(),
        }),
    );
    check("/agent draft x", Some(Command::Draft { text: "x".to_owned() }));
    check("/agent create", Some(Command::Create { number: None }));
    check("/agent create 2", Some(Command::Create { number: Some(2) }));
    check(
        "/agent create #12\nThank you.",
        Some(Command::Create { number: Some(12) }),
    );
    check("/agent retry", Some(Command::Retry(Retry::Everything)));
    check("/agent retry Publish", Some(Command::Retry(Retry::Publish)));
    check("/agent status?", Some(Command::Status));
    check("/agent stop please, it is wrong", Some(Command::Stop));
    check("/agent help", Some(Command::Help));
    check("/agent", Some(Command::Help));
    check("/agent budget $5", Some(Command::Budget { usd_cents: 500 }));
    check("/agent budget 2.5", Some(Command::Budget { usd_cents: 250 }));
    check("/agent budget $0.05", Some(Command::Budget { usd_cents: 5 }));
}

#[test]
fn only_the_first_command_counts() {
    check("/agent status\n/agent stop", Some(Command::Status));
    check("`/agent stop`\n/agent status", Some(Command::Status));
}

#[test]
fn c05_bad_arguments_get_a_short_answer() {
    check_problem("/agent dance", "I do not know the command `dance`.");
    check_problem("/agent <b>x</b>", "I do not know this command.");
    check_problem("/agent @everyone", "I do not know this command.");
    check_problem("/agent f\u{200b}ix", "I do not know this command.");
    let options = "`fix` takes no options: write what you want in words.";
    check_problem("/agent fix --branch \"x; touch CANARY\"", options);
    check_problem("/agent fix --model $(id)", options);
    check_problem("/agent fix --repo ../other", options);
    check_problem("/agent fix --budget -1", options);
    let sum = "`budget` needs a sum in US dollars, such as `$5` or `$2.50`.";
    for wrong in [
        "",
        "-1",
        "1e309",
        "NaN",
        "inf",
        "0",
        "$",
        "5.",
        ".5",
        "1.234",
        "+1",
        "１",
        "99999999999999999999",
    ] {
        check_problem(&format!("/agent budget {wrong}"), sum);
    }
    check_problem(
        "/agent retry everything",
        "`retry` may be followed by `publish` and nothing else.",
    );
    for wrong in ["0", "-1", "two", "1 2", "1234567", "１", "everything"] {
        check_problem(
            &format!("/agent create {wrong}"),
            "`create` may be followed by the number of a draft and nothing else.",
        );
    }
    check_problem("/agent ask", "`ask` needs a question.");
    check_problem("/agent revise  ", "`revise` needs to know what to do differently.");
}

#[test]
fn c04_hostile_comments_take_no_time() {
    let thousands = "/agent status now \n".repeat(3_300);
    let nearly = "/agent\u{200b} x\n".repeat(5_000);
    for comment in [
        thousands,
        nearly,
        "a <b> ".repeat(10_000) + "\n/agent fix",
        "&".repeat(60_000) + "\n/agent fix",
        "*a ".repeat(20_000) + "\n/agent fix",
        "<!-- ".repeat(12_000) + "\n/agent fix",
        "[a](".repeat(15_000) + "\n/agent fix",
        "![".repeat(30_000) + "\n/agent fix",
        "[^1]: ".repeat(10_000) + "\n/agent fix",
        "~~a ".repeat(15_000) + "\n/agent fix",
        "> ".repeat(30_000) + "/agent fix",
        "[".repeat(60_000) + "\n/agent fix",
        "*_".repeat(30_000) + "\n/agent fix",
        "<".repeat(60_000) + "\n/agent fix",
        "`".repeat(60_000) + "\n/agent fix",
        "- ".repeat(30_000) + "/agent fix",
        "|a".repeat(20_000) + "\n/agent fix",
        "x".repeat(10_000_000) + "\n/agent fix",
    ] {
        let start = Instant::now();
        let _ = Command::parse(&comment, "/agent");
        let took = start.elapsed();
        assert!(
            took < Duration::from_millis(500),
            "{took:?} for {:?}",
            comment.chars().take(20).collect::<String>()
        );
    }
    let five_thousand = "/agent fix a\n".repeat(5_000);
    let start = Instant::now();
    assert!(matches!(
        Command::parse(&five_thousand, "/agent"),
        Some(Ok(Command::Fix { .. }))
    ));
    assert!(start.elapsed() < Duration::from_millis(50));
}
