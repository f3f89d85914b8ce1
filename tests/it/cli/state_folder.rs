//! Folders with fixed names that somebody else laid down beforehand, and who may look into those that
//! the program makes, whatever the mask of the process is.

use std::fs::Permissions;
use std::io::BufReader;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use serde_json::json;

use super::checkout::{Checkout, call, edit, finish};
use super::interrupted::{interrupt, read_until};
use super::snapshot;

/// Somebody else.
const NOBODY: u32 = 65_534;

/// A link that another user laid, which only root can do in a test.
fn lay(target: &Path, link: &Path) {
    symlink(target, link).unwrap();
    lchown(link, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED links of another user: only root can lay them");
    }
    is_root
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

/// Commands that make a state folder.
#[track_caller]
fn refused(checkout: &Checkout, state: &Path, words: &[&str]) {
    let set = format!("server.state_dir={}", state.display());
    let script = checkout.script(&json!([finish("done", "never said")]));
    for command in [&["index"][..], &["run", "--set", &script, "--task", "x"], &["serve"]] {
        let ended = checkout.user.run(&[command, &["--set", &set]].concat());
        assert_ne!(ended.code, Some(0), "{command:?}: {}", ended.out);
        for word in words {
            ended.assert_err(word);
        }
    }
}

#[test]
fn r09_a_state_folder_that_another_user_laid_as_a_link_is_refused() {
    if !is_root() {
        return;
    }
    let checkout = Checkout::new();
    let user = &checkout.user;
    let own = user.path("precious");
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    let remedy = "set server.state_dir to a folder of the service's own";
    // The folder itself, one above it, and one behind a link of our own.
    let (link, behind) = (user.path("state"), user.path("behind"));
    lay(&own, &link);
    symlink(&link, &behind).unwrap();
    for state in [&link, &link.join("below"), &behind] {
        refused(&checkout, state, &[&link.display().to_string(), "user 65534", remedy]);
    }
    assert!(snapshot(&own).is_empty(), "nothing was put where the link leads");
    // A service's own link is how folders are put on other disks.
    let moved = user.path("moved");
    symlink(&own, &moved).unwrap();
    let set = format!("server.state_dir={}", moved.display());
    user.run(&["index", "--set", &set]).assert_code(0);
    assert!(own.join("index").is_dir());
}

#[test]
fn r09_what_another_user_laid_in_the_state_folder_is_refused() {
    if !is_root() {
        return;
    }
    let checkout = Checkout::new();
    let user = &checkout.user;
    let precious = user.path("precious");
    std::fs::create_dir(&precious).unwrap();
    for name in [
        "mirrors",
        "runs",
        "publish",
        "index",
        "trees",
        "setups",
        "records",
        "archive",
        "ledger",
        "approvals",
        "credentials",
        "instance",
        "forgehand.sqlite",
    ] {
        let state = user.path(&format!("state-{name}"));
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
        lay(&precious, &state.join(name));
        refused(&checkout, &state, &[name, "in the state folder belongs to user 65534"]);
        // Nor a link of our own to what is theirs.
        std::fs::remove_file(state.join(name)).unwrap();
        let theirs = user.path(&format!("theirs-{name}"));
        std::fs::create_dir(&theirs).unwrap();
        lchown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        symlink(&theirs, state.join(name)).unwrap();
        refused(&checkout, &state, &[name, "in the state folder belongs to user 65534"]);
        assert!(snapshot(&theirs).is_empty());
    }
    assert!(snapshot(&precious).is_empty());
    assert_eq!(mode(&precious), 0o755, "not even the mode was changed");
}

#[test]
fn r09_folders_are_closed_whatever_the_mask_is() {
    let checkout = Checkout::new();
    let user = &checkout.user;
    let state = user.path("state");
    // An older version left them so.
    for open in ["mirrors", "runs", "records"] {
        std::fs::create_dir_all(state.join(open)).unwrap();
        std::fs::set_permissions(state.join(open), Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    let script = checkout.script(&json!([edit(), finish("done", "It adds.")]));
    let set = format!("server.state_dir={}", state.display());
    let run = ["run", "--set", &script, "--set", &set, "--task", "Add"];
    let jobs = ["jobs", "list", "--set", &set];
    let index = ["index", "--set", &set];
    for arguments in [&run[..], &jobs, &index] {
        let mut command = user.command("sh", &user.work());
        let program = env!("CARGO_BIN_EXE_forgehand");
        command.args(["-c", "umask 0; exec \"$@\"", "sh", program]);
        super::ended(command.args(arguments).output().unwrap()).assert_code(0);
    }
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        seen.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    for name in ["forgehand.sqlite", "index", "mirrors", "records", "runs"] {
        assert!(seen.iter().any(|found| found == name), "{name} in {seen:?}");
    }
}

#[test]
fn r09_a_temporary_folder_of_a_run_is_closed() {
    let checkout = Checkout::new();
    let user = &checkout.user;
    let script = checkout.script(&json!([
        edit(),
        call("run_command", json!({"command": "sleep 300"})),
        finish("done", "never said"),
    ]));
    let mut command = user.command("sh", &user.work());
    let program = env!("CARGO_BIN_EXE_forgehand");
    command.args(["-c", "umask 0; exec \"$@\"", "sh", program]);
    command.args(["run", "--set", &script, "--task", "Add, do not subtract"]);
    let mut child = command.process_group(0).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "edit_file");
    let mut folders = 0;
    for entry in std::fs::read_dir(user.tmp.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o700, "{}", path.display());
        folders += 1;
    }
    assert!(folders > 0, "there is none");
    interrupt(&child);
    super::ended(child.wait_with_output().unwrap());
    user.assert_tidy();
}
