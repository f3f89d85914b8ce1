//! `forgehand run` as a person sees it at a terminal, and as a pipe gets it.

use serde_json::{Value, json};

use super::checkout::{Checkout, call, edit, finish};
use super::ended;
use super::terminal::Terminal;

/// A run with words, a plan, an edit, commands that pass and fail, and hostile output.
fn story() -> Value {
    let evil = "printf '\\033]0;evil\\007\\033[2Jone\\n'; seq 9; exit 3";
    json!([
        {
            "say": "First I look at what is there, so that I know how the numbers are put together \
                    and \u{1b}[31mwhere\u{1b}[0m the test is.",
            "calls": [
                {"tool": "read_file", "arguments": {"path": "add.sh"}},
                {"tool": "grep", "arguments": {"pattern": "add"}},
                {"tool": "plan", "arguments": {"steps": [{"step": "Mend the sum"}, {"step": "Run the test"}]}},
            ]
        },
        edit(),
        call("run_command", json!({"command": evil})),
        call("run_command", json!({"command": "sh test.sh"})),
        finish("done", "The operator was the wrong one."),
    ])
}

fn start(checkout: &Checkout, columns: u16, more: &[&str], environment: &[(&str, &str)]) -> Terminal {
    let script = checkout.script(&story());
    let mut command = checkout.user.forgehand();
    command.args(["run", "--set", &script]).args(more);
    command.args(["Add,", "do", "not", "subtract"]);
    command.envs(environment.iter().copied());
    Terminal::start(command, columns)
}

#[track_caller]
fn assert_in_order(screen: &str, lines: &[&str]) {
    let mut rest = screen;
    for line in lines {
        let Some((_, after)) = rest.split_once(line) else {
            panic!("{line:?} does not come next in:\n{rest}\nof\n{screen}");
        };
        rest = after;
    }
}

#[test]
fn u05_a_run_at_a_terminal_is_told_as_it_goes_on() {
    for columns in [80, 120] {
        let checkout = Checkout::new();
        let (code, screen, bytes) = start(&checkout, columns, &[], &[]).end();
        assert_eq!(code, Some(0), "{screen}");
        assert_in_order(
            &screen,
            &[
                "on main at ",
                "stub (scripted, no model)",
                "before  ✗ sh test.sh  exit 1",
                "(scripted) First I look at what is there",
                "⟦U+001B⟧[31mwhere⟦U+001B⟧[0m the test is.",
                "✓ read_file add.sh  1 line",
                "✓ grep add  1 match in 1 file",
                "Plan  0 of 2 done",
                "○ Mend the sum",
                "✓ edit_file add.sh:1  +1 −1",
                "      - $1 - $2\n      + $1 + $2\n",
                "✗ $ printf",
                "exit 3, 10 lines",
                "│ 5\n",
                "│ 9\n",
                "✓ $ sh test.sh  exit 0",
                "after   ✓ sh test.sh  exit 0",
                "-echo $(($1 - $2))\n+echo $(($1 + $2))",
                "check         before    after\nsh test.sh  ✗ exit 1  ✓ exit 0",
                "Add instead of subtracting\n\nThe operator was the wrong one.",
                "1 file, +1 −1 · 5 turns · ",
                "The change is on the branch agent/add-do-not-subtract\n",
                "see it      git diff ",
                "try it      git switch agent/add-do-not-subtract",
                "take it     git merge agent/add-do-not-subtract",
                "discard it  git branch -D agent/add-do-not-subtract",
            ],
        );
        // The line at the bottom is gone, and it was there.
        assert!(!screen.contains("tokens ·"), "{screen}");
        assert!(String::from_utf8_lossy(&bytes).contains("turn 1/60 · "));
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(columns), "{widest} columns:\n{screen}");
        assert!(bytes.windows(5).any(|code| code == b"\x1b[32m"), "it is coloured");
        checkout.user.assert_tidy();
    }
}

#[test]
fn without_colour_nothing_is_coloured() {
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let checkout = Checkout::new();
        let (code, screen, bytes) = start(&checkout, 80, &["--stat"], &[environment]).end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains(" M add.sh  +1 −1\n"), "{screen}");
        assert!(!bytes.ends_with(b"m"), "no colour");
        let codes = bytes.split(|byte| *byte == 0x1b).skip(1);
        let colours = codes.filter(|code| code.iter().find(|byte| byte.is_ascii_alphabetic()) == Some(&b'm'));
        assert_eq!(colours.count(), 0);
        if environment.0 == "TERM" {
            assert!(!bytes.contains(&0x1b), "a dumb terminal gets lines only");
        }
    }
}

#[test]
fn in_a_pipe_there_are_plain_lines_and_no_codes() {
    let checkout = Checkout::new();
    let ended = checkout.task(&story(), &["--no-diff"]);
    ended
        .assert_code(0)
        .assert_err("… Work on the change\n")
        .assert_err("\n  (scripted) First I look at what is there, so that I know how the numbers are put together and")
        .assert_err("\n  ✓ edit_file add.sh:1  +1 −1")
        .assert_err("\n      - $1 - $2\n      + $1 + $2\n");
    for text in [&ended.out, &ended.err] {
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{text}");
    }
    assert!(!ended.out.contains("diff --git"), "{}", ended.out);
    let quiet = checkout.task(&story(), &["--quiet", "--branch", "quiet"]);
    quiet.assert_code(0).assert_out("diff --git").assert_out("branch quiet");
    assert_eq!(quiet.err, "");
}

#[test]
fn a_long_diff_is_cut_at_a_terminal_with_a_way_to_see_it() {
    let checkout = Checkout::new();
    let content = (1..=300).map(|line| format!("line {line}\n")).collect::<String>();
    let script = checkout.script(&json!([
        call("write_file", json!({"path": "long.txt", "content": content})),
        finish("done", "Long."),
    ]));
    let mut command = checkout.user.forgehand();
    command.args(["run", "--set", &script, "--no-checks", "-q", "Write a long file"]);
    let (code, screen, _) = Terminal::start(command, 80).end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("+line 190\n") && !screen.contains("+line 250"),
        "{screen}"
    );
    assert!(screen.contains("more lines; all of them: git diff "), "{screen}");
    // Elsewhere it is whole.
    let script = checkout.script(&json!([
        call("write_file", json!({"path": "long.txt", "content": content})),
        finish("done", "Long."),
    ]));
    let mut command = checkout.user.forgehand();
    command.args(["run", "--set", &script, "--no-checks", "Write a long file"]);
    ended(command.output().unwrap())
        .assert_code(0)
        .assert_out("+line 300\n");
}

#[test]
fn what_is_not_committed_is_counted() {
    let checkout = Checkout::new();
    checkout.write(".gitattributes", "*.sh filter=evil\n");
    checkout.commit("Filter");
    // Whatever the configuration of the checkout names is not run.
    let trap = checkout.user.path("trapped");
    let evil = format!("sh -c 'touch {}; cat'", trap.display());
    for key in ["filter.evil.clean", "filter.evil.process", "core.fsmonitor"] {
        checkout.git(&["config", key, &evil]);
    }
    checkout.write("add.sh", "echo changed\n");
    checkout.write("new.txt", "new\n");
    checkout.write("more/a.txt", "new\n");
    let _ = std::fs::remove_file(&trap);
    checkout
        .task(&story(), &[])
        .assert_code(0)
        .assert_err("what you have not committed (1 changed file, 2 untracked files) is left out");
    assert!(!trap.exists(), "a filter was run");
}

/// A run that has to ask before it counts.
fn asking(checkout: &Checkout, turns: &Value, more: &[&str]) -> Terminal {
    let script = checkout.script(turns);
    let mut command = checkout.user.forgehand();
    command.args(["run", "--set", &script, "--set", "permission.ask=run_command:seq"]);
    command.args(more).arg("Add, do not subtract");
    Terminal::start(command, 100)
}

#[test]
fn a_person_at_the_terminal_is_asked_and_answers() {
    let checkout = Checkout::new();
    let sh = |line: &str| call("run_command", json!({"command": line}));
    let turns = json!([
        sh("seq 20"),
        edit(),
        sh("seq 20"),
        sh("seq 30"),
        finish("done", "The operator was the wrong one."),
    ]);
    let terminal = asking(&checkout, &turns, &[]);
    let screen = terminal.until("yes [a]lways in this repository >");
    assert!(screen.contains("? May this run\n"), "{screen}");
    assert!(
        screen.contains("seq 20") && !screen.contains("tokens ·"),
        "the spinner steps aside:\n{screen}"
    );
    terminal.press("r\r");
    // The same call needs no second question in this run; another one does.
    let screen = terminal
        .until("(rule: run_command:seq 30)\n  [y]es, [n]o, yes for this [r]un, yes [a]lways in this repository >");
    assert_eq!(screen.matches("? May this run").count(), 2, "{screen}");
    terminal.press("that is not needed\r");
    let (code, screen, _) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_in_order(
        &screen,
        &[
            "? May this run",
            "✓ $ seq 20  exit 0",
            "✓ edit_file add.sh:1",
            "✓ $ seq 20  exit 0",
            "? May this run",
            "✗ $ seq 30",
            "│ not run: ",
            "The change is on the branch",
        ],
    );
    checkout.user.assert_tidy();
}

#[test]
fn without_a_person_to_ask_nothing_is_permitted_unless_it_was_before() {
    let turns = json!([
        call("run_command", json!({"command": "seq 20"})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let checkout = Checkout::new();
    for (more, shown) in [
        (&["--unattended"][..], "✗ $ seq 20"),
        (&["--yes"], "✓ $ seq 20  exit 0, 20 lines"),
        (&["--allow", "run_command:seq 20"], "✓ $ seq 20  exit 0, 20 lines"),
    ] {
        let (code, screen, _) = asking(&checkout, &turns, more).end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(
            screen.contains(shown) && !screen.contains("? May"),
            "{more:?}:\n{screen}"
        );
    }
    // Nobody sits at a pipe.
    let piped = checkout.task(&turns, &["--set", "permission.ask=run_command:seq"]);
    piped.assert_code(0).assert_err("✗ $ seq 20");
}

#[test]
fn ctrl_c_is_an_answer_too() {
    let checkout = Checkout::new();
    let turns = json!([
        edit(),
        call("run_command", json!({"command": "seq 20"})),
        finish("done", "never said"),
    ]);
    let terminal = asking(&checkout, &turns, &[]);
    terminal.until("yes [a]lways in this repository >");
    terminal.press("y\u{3}");
    let (code, screen, _) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!screen.contains("✓ $ seq 20"), "{screen}");
    assert_eq!(checkout.other_branches(), ["agent/add-do-not-subtract"]);
    checkout.user.assert_tidy();
}
