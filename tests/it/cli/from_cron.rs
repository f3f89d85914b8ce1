//! `forgehand run` as cron starts it: by a real daemon, with next to nothing in its environment.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::checkout::{Checkout, fix};

/// cron begins its work when a minute begins, and the run takes some seconds.
const A_MINUTE_AND_A_RUN: Duration = Duration::from_secs(150);

/// Time between two looks for the result.
const LOOK: Duration = Duration::from_millis(200);

/// A daemon that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The name of whoever runs the tests, which the crontab must have as its own.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_crontab_gets_a_branch_a_result_and_an_exit_code() {
    let missing = "a cron daemon needs busybox and root; tests/run has both";
    if !rustix::process::getuid().is_root() || !std::path::Path::new("/bin/busybox").exists() {
        assert!(std::env::var_os("FORGEHAND_TEST_ALL").is_none(), "{missing}");
        eprintln!("left out: {missing}");
        return;
    }
    let checkout = Checkout::new();
    let script = checkout.script(&fix());
    let state = checkout.user.path("state").display().to_string();
    let folder = |name: &str| checkout.user.path(name).display().to_string();
    // The path of the program is a whole one, as in deploy/crontab.example; nothing else is set.
    let line = format!(
        "* * * * * mkdir {begun} && {{ env >{environment}; {program} run --unattended --repo {repo} --set {script} \
         --set server.state_dir={state} --task 'Add, do not subtract' --json >{result} 2>{log}; \
         echo $? >{code}.new; mv {code}.new {code}; }}\n",
        begun = folder("begun"),
        environment = folder("environment"),
        program = env!("CARGO_BIN_EXE_forgehand"),
        repo = checkout.root().display(),
        result = folder("result.json"),
        log = folder("log"),
        code = folder("code"),
    );
    checkout.user.write(&format!("crontabs/{}", user()), &line);
    let daemon = Command::new("/bin/busybox")
        .args(["crond", "-f", "-c", &folder("crontabs"), "-L", &folder("cron.log")])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let daemon = Daemon(daemon.unwrap());
    let read = |name: &str| std::fs::read_to_string(checkout.user.path(name)).unwrap_or_default();
    let logs = || format!("{}\n{}\n{}", read("cron.log"), read("environment"), read("log"));
    let deadline = Instant::now() + A_MINUTE_AND_A_RUN;
    while !checkout.user.path("code").exists() {
        assert!(Instant::now() < deadline, "cron had no result: {}", logs());
        std::thread::sleep(LOOK);
    }
    drop(daemon);
    assert_eq!(read("code").trim(), "0", "{}", logs());
    let environment = read("environment");
    assert!(
        !environment.contains("CARGO") && !environment.contains("TMPDIR"),
        "{environment}"
    );
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!(
        (&result["outcome"], &result["exit_code"]),
        (&"done".into(), &0.into()),
        "{result}"
    );
    assert_eq!(checkout.other_branches(), ["agent/add-do-not-subtract"]);
}
