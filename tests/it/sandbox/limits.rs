//! How commands are stopped, and that nothing of them stays.

use std::process::Stdio;

use super::*;

/// Children that try to outlive their parent in every way that a shell knows.
fn clingy(marker: &str) -> String {
    format!(
        "trap '' TERM; (setsid nohup sleep {marker} >/dev/null 2>&1 &) ; (sleep {marker} &) ; \
         setsid sh -c \"trap '' TERM HUP; sleep {marker} & wait\" & sleep {marker}"
    )
}

/// An argument of sleep that no other process has.
fn marker(number: u32) -> String {
    format!("{number}.{}", std::process::id())
}

#[test]
fn s11_a_timeout_ends_everything() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let marker = marker(71001);
        let exec = Exec {
            timeout: Some(Duration::from_millis(700)),
            ..Exec::shell(clingy(&marker))
        };
        let output = run.exec(exec).await;
        assert_eq!(output.exit, Exit::Limit("timeout after 0.7 s".to_owned()));
        assert!(output.took < Duration::from_secs(5), "{:?}", output.took);
        assert!(!alive(&marker));
    });
}

#[test]
fn a_command_may_tidy_up_after_its_timeout() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        let line = "trap 'echo tidy; exit 9' TERM; echo started; sleep 60 & wait";
        let output = run
            .exec(Exec {
                timeout: Some(Duration::from_secs(3)),
                ..Exec::shell(line)
            })
            .await;
        assert_eq!(output.exit, Exit::Limit("timeout after 3 s".to_owned()));
        assert_eq!(output.output, "started\ntidy\n");
    });
}

/// X4, X22: what stays in the background holds neither the call nor the machine.
#[test]
fn background_children_do_not_hold_the_call() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let marker = marker(71002);
        let output = run
            .sh(&format!("sleep {marker} & setsid nohup sleep {marker} & echo done"))
            .await;
        assert_eq!((output.exit, output.output.as_str()), (Exit::Code(0), "done\n"));
        assert!(output.took < Duration::from_secs(3), "{:?}", output.took);
        assert!(!alive(&marker));
    });
}

#[test]
fn cancelling_closing_and_forgetting_end_everything() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let marker = marker(71003);
        let exec = Exec::shell(clingy(&marker));

        let cancel = CancellationToken::new();
        let (output, started) = tokio::join!(run.sandbox.exec(&exec, &cancel), async {
            soon_async(|| alive(&marker)).await;
            cancel.cancel();
            Instant::now()
        });
        assert_eq!(output.expect("a cancelled command").exit, Exit::Cancelled);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(!alive(&marker));

        let forever = CancellationToken::new();
        tokio::select! {
            _ = run.sandbox.exec(&exec, &forever) => panic!("it does not end by itself"),
            () = soon_async(|| alive(&marker)) => {}
        }
        soon("the end of a forgotten command", || !alive(&marker));

        let (output, ()) = tokio::join!(run.sandbox.exec(&exec, &forever), async {
            soon_async(|| alive(&marker)).await;
            run.sandbox.close().await;
            assert!(!alive(&marker));
        });
        assert_eq!(output.expect("a closed command").exit, Exit::Cancelled);
    });
}

pub async fn soon_async(happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(10), "it did not happen in 10 s");
        tokio::task::yield_now().await;
    }
}

/// Passes by itself; the next test starts it as a process of its own and kills that.
#[test]
fn a_long_command_ends_at_its_timeout() {
    on_each(async || {
        let run = Run::open().await;
        let exec = Exec {
            timeout: Some(Duration::from_secs(3)),
            ..Exec::shell(clingy(&marker(71004)))
        };
        assert_eq!(run.exec(exec).await.exit, Exit::Limit("timeout after 3 s".to_owned()));
    });
}

#[test]
fn nothing_outlives_a_killed_service() {
    for backend in backends::all() {
        nothing_outlives_a_killed_service_on(&backend);
    }
}

fn nothing_outlives_a_killed_service_on(backend: &str) {
    let mut service = std::process::Command::new("/proc/self/exe")
        .args(["--exact", "sandbox::limits::a_long_command_ends_at_its_timeout"])
        .env("FORGEHAND_TEST_BACKEND", backend)
        .stdout(Stdio::null())
        .spawn()
        .expect("this test program again");
    let marker = format!("71004.{}", service.id());
    soon("the start of the command", || alive(&marker));
    service.kill().expect("kill -9");
    service.wait().expect("its end");
    soon("the end of the command", || !alive(&marker));
    for entry in fs::read_dir(scratch_place())
        .expect("the place of scratch folders")
        .flatten()
    {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&scratch_prefix(service.id()))
        {
            fs::remove_dir_all(entry.path()).expect("what the killed service left");
        }
    }
}

#[test]
fn a_fork_bomb_is_stopped() {
    on_each_as_each_user(async || {
        let mut config = config();
        config.max_processes = 100;
        let run = Run::open_with(config, 7).await.expect("the sandbox opens");
        let output = run.sh("bomb() { bomb | bomb & }; bomb; sleep 30").await;
        assert_eq!(
            output.exit,
            Exit::Limit("more than 100 processes and threads".to_owned()),
            "{}",
            output.output
        );
        assert!(output.took < Duration::from_secs(15), "{:?}", output.took);
    });
}

#[test]
fn a_memory_hog_is_stopped() {
    on_each_as_each_user(async || {
        let mut config = config();
        config.memory_mib = 128;
        let run = Run::open_with(config, 7).await.expect("the sandbox opens");
        let shared =
            "perl -e '$x = \"x\" x 40_000_000; for (1..4) { fork or sleep(9), exit } sleep 1; print \"shared\\n\"'";
        assert_eq!(run.ok(shared).await, "shared\n", "pages that forks share count once");
        let output = run
            .sh("perl -e '$x .= \"x\" x 1_000_000 for 1..20_000; sleep 30'")
            .await;
        assert_eq!(
            output.exit,
            Exit::Limit("memory over 128 MiB".to_owned()),
            "{}",
            output.output
        );
    });
}

#[test]
fn a_full_disk_is_stopped() {
    on_each_as_each_user(async || {
        let mut config = config();
        config.disk_mib = 24;
        let run = Run::open_with(config, 7).await.expect("the sandbox opens");
        let output = run
            .sh("for f in a b c ~/d /tmp/e; do head -c 8M /dev/zero > $f; done; sleep 30")
            .await;
        assert_eq!(
            output.exit,
            Exit::Limit("disk over 24 MiB".to_owned()),
            "{}",
            output.output
        );
        let output = run.sh("head -c 4M /dev/zero > more; sleep 30").await;
        assert_eq!(
            output.exit,
            Exit::Limit("disk over 24 MiB".to_owned()),
            "whoever finds too much there may not add to it: {}",
            output.output
        );
        // However long it takes until it begins to make room, within reason.
        run.ok("sleep 1; rm a b c ~/d more").await;
        let output = run.sh("head -c 100M /dev/zero > big; echo ended $?").await;
        assert!(
            output.output.contains("ended 153") || output.exit != Exit::Code(0),
            "{output:?}"
        );
        assert_eq!(
            fs::metadata(run.workspace().join("big")).expect("the file").len(),
            24 << 20
        );
    });
}

/// C5, S15: however much comes, little is kept, and both ends of it.
#[test]
fn s15_endless_output_is_cut_in_the_middle() {
    on_each(async || {
        let mut config = config();
        config.output_kib = 16;
        let run = Run::open_with(config, 7).await.expect("the sandbox opens");
        let output = run.sh("echo first; yes | head -c 500M; echo; echo last").await;
        assert_eq!(output.exit, Exit::Code(0));
        assert_eq!(output.output_bytes, 6 + 500 * 1024 * 1024 + 1 + 5);
        assert!(output.output.starts_with("first\ny\n") && output.output.ends_with("y\n\nlast\n"));
        assert!(
            output.output.contains("bytes left out") && output.output.len() < 17 * 1024,
            "{}",
            output.output.len()
        );
        let output = run
            .exec(Exec {
                timeout: Some(Duration::from_secs(1)),
                ..Exec::shell("yes long line")
            })
            .await;
        assert_eq!(output.exit, Exit::Limit("timeout after 1 s".to_owned()));
        assert!(output.output.len() < 17 * 1024, "{}", output.output.len());
    });
}
