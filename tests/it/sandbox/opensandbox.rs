//! Sandboxes of a real OpenSandbox server: what of them is particular, how they end, and what is
//! refused. The server's daemon and its sidecar are stood in for by `tests/opensandbox`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use forgehand::config::{OpenSandboxMode, SandboxBackend};
use forgehand::sandbox::{Part, SnapshotRequest, Started};
use forgehand::secret::Secret;
use serde_json::Value;

use super::backends::{far_away, variable};
use super::export::Checkout;
use super::*;

/// Asks the server itself.
async fn ask(method: reqwest::Method, path: &str) -> Value {
    let server = variable("FORGEHAND_TEST_OPENSANDBOX").expect("a server");
    let key = variable("FORGEHAND_TEST_OPENSANDBOX_KEY").expect("its key");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.request(method, format!("{server}/v1/{path}"));
    let answer = request.header("OPEN-SANDBOX-API-KEY", key).send().await;
    answer.expect("an answer").json().await.unwrap_or_default()
}

fn marker_file(run: &Run) -> PathBuf {
    run.folder.path().join("opensandbox-id")
}

fn id_of(run: &Run) -> String {
    fs::read_to_string(marker_file(run)).expect("the sandbox's id")
}

async fn state_of(id: &str) -> String {
    let found = ask(reqwest::Method::GET, &format!("sandboxes/{id}")).await;
    found["status"]["state"].as_str().unwrap_or("gone").to_owned()
}

async fn refused(config: SandboxConfig) -> (String, String) {
    match Run::open_with(config, 7).await.map(drop) {
        Err(SandboxError::Unavailable { problem, remedy }) => (problem, remedy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_remote_sandbox_says_what_it_is_and_ends_with_its_run() {
    far_away(async || {
        let run = Run::open().await;
        let description = run.sandbox.description().to_string();
        for layer in [
            "opensandbox (OpenSandbox at http://127.0.0.1",
            "no network, by the server's policy (dns+nft)",
            "image forgehand-test:python",
            "an ordinary user without capabilities",
            "landlock",
            "seccomp",
        ] {
            assert!(description.contains(layer), "{layer} in {description}");
        }
        let output = run.sh("echo hello; echo oops >&2; id -u; whoami; pwd; exit 3").await;
        assert_eq!(output.exit, Exit::Code(3), "{}", output.output);
        assert_eq!(output.output, "hello\noops\n10001\nagent\n/workspace\n");
        assert_eq!(run.sh("kill -9 $$").await.exit, Exit::Signal(9));
        for line in ["touch /x", "touch /run/forgehand/tasks/9", "unshare -U true"] {
            assert_ne!(run.sh(line).await.exit, Exit::Code(0), "{line}");
        }
        let key = variable("FORGEHAND_TEST_OPENSANDBOX_KEY").expect("the key");
        let look = "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'";
        assert!(!run.sh(look).await.output.contains(&key), "the key is in the sandbox");
        let id = id_of(&run);
        assert_eq!(state_of(&id).await, "Running");
        run.sandbox.close().await;
        assert_eq!(state_of(&id).await, "gone");
        assert!(!marker_file(&run).exists());
    });
}

#[test]
fn s15_endless_output_from_far_away_is_cut_and_counted() {
    far_away(async || {
        let run = Run::open().await;
        let line = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last";
        let output = run.sh(line).await;
        assert_eq!(output.exit, Exit::Code(0), "{} bytes", output.output.len());
        assert!(output.output.starts_with("first\n") && output.output.ends_with("last\n"));
        assert_eq!(output.output_bytes, 50_000_000 + 12);
        assert!(output.output.len() < 1_200_000, "{} bytes", output.output.len());
        run.sandbox.close().await;
    });
}

#[test]
fn s11_commands_far_away_end_when_they_are_told_to() {
    far_away(async || {
        let run = Run::open().await;
        let marker = format!("73001.{}", std::process::id());
        let line = format!("trap '' TERM; (setsid nohup sleep {marker} &) ; sleep {marker}");
        let exec = Exec::shell(&line);
        let cancel = CancellationToken::new();
        let (output, started) = tokio::join!(run.sandbox.exec(&exec, &cancel), async {
            limits::soon_async(|| alive(&marker)).await;
            cancel.cancel();
            Instant::now()
        });
        assert_eq!(output.expect("a cancelled command").exit, Exit::Cancelled);
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        assert!(!alive(&marker));

        let forever = CancellationToken::new();
        tokio::select! {
            _ = run.sandbox.exec(&exec, &forever) => panic!("it does not end by itself"),
            () = limits::soon_async(|| alive(&marker)) => {}
        }
        limits::soon_async(|| !alive(&marker)).await;

        let Started::Running(id) = run.sandbox.start(&exec, &forever).await.expect("a start") else {
            panic!("too many")
        };
        limits::soon_async(|| alive(&marker)).await;
        run.sandbox.stop(id).await.expect("its end");
        assert!(!alive(&marker));
        let quick = Exec::shell("echo done; exit 7");
        let Started::Running(id) = run.sandbox.start(&quick, &forever).await.expect("a start") else {
            panic!("too many")
        };
        let wait = Duration::from_secs(20);
        let ended = run.sandbox.output(id, Part::All, wait, &forever).await.expect("it");
        assert_eq!((ended.exit, ended.output.as_str()), (Some(Exit::Code(7)), "done\n"));
        run.sandbox.close().await;
    });
}

#[test]
fn states_are_kept_and_changes_come_back_from_far_away() {
    far_away(async || {
        let checkout = Checkout::open().await;
        let run = &checkout.run;
        assert_eq!(run.ok("cat src/one.txt").await, "one\n");
        run.ok("echo first > src/one.txt").await;
        let name = "a name".to_owned();
        let keep = SnapshotRequest::Keep { name };
        let kept = run.sandbox.snapshot(&keep, &CancellationToken::new()).await;
        let kept = kept.expect("a look");
        assert_eq!((kept.code(), kept.output.trim()), (Some(0), "forgehand: kept 1"));
        run.ok("echo second > src/one.txt; echo new > new.txt").await;
        assert_eq!(checkout.exported().await, "100644 A\tnew.txt\n100644 M\tsrc/one.txt\n");
        run.sandbox.close().await;
    });
}

/// A run that was interrupted goes on in the sandbox that it had; one that was kept is paused.
#[test]
fn a_later_attempt_finds_the_sandbox_of_the_earlier_one() {
    far_away(async || {
        let mut config = config();
        config.opensandbox_keep = true;
        let first = Run::open_with(config.clone(), 7).await.expect("a sandbox");
        first.ok("echo work > kept.txt").await;
        let id = id_of(&first);
        first.sandbox.close().await;
        assert_eq!(state_of(&id).await, "Paused");
        config.opensandbox_keep = false;
        let folders = Run::folders(first.folder.path());
        let again = sandbox::open(&config, folders.clone(), 7).await;
        let run = Run {
            folder: first.folder,
            sandbox: again.expect("the same sandbox"),
        };
        assert_eq!(id_of(&run), id);
        assert_eq!(run.ok("cat kept.txt").await, "work\n");
        // The server ends it behind our back: nothing goes on as if its files were still there.
        ask(reqwest::Method::DELETE, &format!("sandboxes/{id}")).await;
        assert_eq!(state_of(&id).await, "gone");
        let lost = sandbox::open(&config, folders.clone(), 7).await.map(drop);
        let lost = lost.expect_err("its files are gone");
        assert!(lost.to_string().contains("is gone"), "{lost}");
        assert!(!folders.home.exists(), "the run folder is no longer whole");
    });
}

#[test]
fn a_weaker_network_a_wrong_key_and_a_missing_image_are_refused() {
    far_away(async || {
        let mut lax = config();
        lax.opensandbox_url = variable("FORGEHAND_TEST_OPENSANDBOX_LAX");
        let (problem, remedy) = refused(lax.clone()).await;
        assert!(
            problem.contains("more open than was asked for") && problem.contains("\"dns\""),
            "{problem}"
        );
        assert!(remedy.contains("dns+nft"), "{remedy}");
        lax.opensandbox_mode = OpenSandboxMode::Dns;
        let run = Run::open_with(lax, 7).await.expect("what was asked for");
        run.sandbox.close().await;

        let mut wrong = config();
        wrong.opensandbox_api_key = Some(Secret::new("not the key"));
        let (problem, remedy) = refused(wrong).await;
        assert!(problem.contains("401"), "{problem}");
        assert!(remedy.contains("opensandbox_api_key_file"), "{remedy}");

        let mut missing = config();
        missing.image = Some("forgehand-test:not-there".to_owned());
        let (problem, remedy) = refused(missing).await;
        assert!(problem.contains("not-there"), "{problem}");
        assert!(
            remedy.contains("does not mean that the node can pull the image"),
            "{remedy}"
        );
    });
}

fn far(url: String) -> SandboxConfig {
    SandboxConfig {
        backend: SandboxBackend::OpenSandbox,
        image: Some("forgehand-test:python".to_owned()),
        image_by_tag: true,
        opensandbox_url: Some(url),
        // Even who accepts commands on the bare machine does not get them by a missing server.
        unsafe_local: true,
        ..config()
    }
}

/// S18 for remote sandboxes.
#[tokio::test]
async fn s18_a_missing_server_and_a_strange_one_are_no_sandbox() {
    let (problem, remedy) = refused(far("http://127.0.0.1:1".to_owned())).await;
    assert!(problem.contains("http://127.0.0.1:1"), "{problem}");
    assert!(remedy.contains("opensandbox_url"), "{remedy}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("the stream")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n<html");
        }
    });
    let (problem, _) = refused(far(url)).await;
    assert!(problem.contains("makes no sandbox"), "{problem}");
}
