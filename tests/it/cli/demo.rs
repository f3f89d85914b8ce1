//! `forgehand demo` from the first line to the last, in a network of its own in which nothing but
//! loopback exists.

use std::io::{BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::interrupted::{interrupt, read_until};
use super::{User, ended};

/// The demonstration for a user with the toolchain of whoever runs the tests.
fn demo(user: &User, arguments: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_forgehand");
    let mut command = if rustix::process::getuid().is_root() {
        let mut command = user.command("unshare", &user.work());
        let script = "ip link set lo up && exec \"$0\" \"$@\"";
        command.args(["--net", "--", "sh", "-c", script, program]);
        command
    } else {
        // Only root can make a network without a user namespace around it, in which the sandbox
        // would not be the same.
        user.forgehand()
    };
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    if let Some(rustup) = rustup.or(home.map(|home| home.join(".rustup"))) {
        command.env("RUSTUP_HOME", rustup);
    }
    command.arg("demo").args(arguments);
    command
}

#[test]
fn the_whole_way_is_told() {
    let user = User::new();
    let ended = ended(demo(&user, &[]).output().unwrap());
    ended.assert_code(0);
    let mut rest = ended.out.as_str();
    for line in [
        "From a label to a pull request, on this machine alone",
        "Model     none: scripted answers",
        "▶ mona opens issue #1: Words on a new line are not counted",
        "▶ mona puts the label `agent` on it",
        "━━ Draft pull request #2 ━",
        "Fixes #1",
        "  cargo test  ❌ exit 101 ",
        "  ✅ exit 0 ",
        "+    text.split_whitespace().count()",
        "━━ Comment by forgehand[bot] on #1 ━",
        "✅ Done: #2",
        "━━ Where the time went ━",
        "  Read the request ",
        "  Check out the repository ",
        "  Prepare and run the checks before ",
        "  Work on the change ",
        "  Run the checks after ",
        "  Publish ",
        "  From the webhook to the end ",
        "▶ mona comments on #2: /agent fix Please also count the last line",
        "━━ Comment by forgehand[bot] on #2 ━",
        "✅ Done",
        "━━ Commits on agent/1-words-on-a-new-line-are-not-counted, newest first ━",
        "  Count a last line without a line break\n  Count words that are separated by line breaks\n  Count words and lines\n",
    ] {
        let Some((_, after)) = rest.split_once(line) else {
            panic!("{line:?} does not come next in:\n{rest}");
        };
        rest = after;
    }
    assert!(!ended.out.contains("\n\n\n"), "doubled blank lines:\n{}", ended.out);
    for noise in ["WARN", "ERROR", "panicked", "Debug"] {
        assert!(!ended.err.contains(noise), "{noise} in:\n{}", ended.err);
    }
    ended
        .assert_err("… Check out the repository")
        .assert_err("  before  ✗ cargo test  exit 101")
        .assert_err("  after   ✓ cargo test  exit 0");
    user.assert_tidy();
}

#[test]
fn it_keeps_running_until_ctrl_c() {
    let user = User::new();
    let mut child = demo(&user, &["--serve"]).process_group(0).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).map(|_| text)
    });
    let said = read_until(&mut out, "show ID");
    assert!(said.contains("/healthz") && said.contains("jobs list"), "{said}");
    interrupt(&child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", errors.join().unwrap().unwrap());
    user.assert_tidy();
}

#[test]
fn a_sandbox_without_a_compiler_is_said_first() {
    let user = User::new();
    // A user without a toolchain; where /usr has one, there is nothing to complain of.
    let has_cargo = ["/usr/bin/cargo", "/usr/local/bin/cargo"]
        .iter()
        .any(|path| PathBuf::from(path).exists());
    let mut command = user.forgehand();
    let ended = ended(command.arg("demo").env("HOME", "").output().unwrap());
    if has_cargo {
        ended.assert_code(0);
    } else {
        ended
            .assert_code(1)
            .assert_err("the sandbox does not find cargo")
            .assert_err("FORGEHAND_SANDBOX__TOOLCHAINS");
        assert!(ended.out.is_empty(), "{}", ended.out);
    }
    user.assert_tidy();
}

#[test]
fn a_model_that_does_not_answer_is_said_first() {
    let user = User::new();
    let mut command = demo(&user, &[]);
    let output = command
        .env("FORGEHAND_MODEL__BASE_URL", "http://127.0.0.1:9/v1")
        .output();
    let ended = ended(output.unwrap());
    ended
        .assert_code(1)
        .assert_err("the model gpt-5 at http://127.0.0.1:9/v1 does not answer")
        .assert_err("FORGEHAND_MODEL__BASE_URL");
    user.assert_tidy();
}
