//! The way out of a sandbox elsewhere, whose connections are carried over the server's own stream: much
//! passes at once, what is lost is opened again, and whoever speaks out of turn in there ends the run.
//! The server's daemon is stood in for by `tests/opensandbox`; its processes run on this machine, where
//! root can get at them as an attacker would who owns the sandbox.

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::DropGuard;

use super::*;
use crate::sandbox::backends::far_away;

/// The carrier in the sandbox of this run, if there is one: commands leave a name there.
async fn carrier(run: &Outgoing) -> Option<Pid> {
    let unique = run
        .folder
        .path()
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let mark = format!("mark-{unique}");
    run.sh(&format!("touch '{mark}'")).await;
    let is_ours = |pid: &i32| {
        let root = PathBuf::from(format!("/proc/{pid}"));
        let command = fs::read(root.join("cmdline")).unwrap_or_default();
        let is_carrier = command.split(|byte| *byte == 0).any(|word| word == b"carry");
        is_carrier && root.join("root/workspace").join(&mark).exists()
    };
    let found = fs::read_dir("/proc").expect("processes").flatten();
    let mut pids = found.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(is_ours).and_then(Pid::from_raw)
}

/// Whether this process may look into others. Elsewhere the story is not told, and that is said.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root gets at the processes of the stood-in server");
    }
    is_root
}

async fn outgoing(port: u16) -> (Outgoing, String) {
    let authority = format!("allowed.example:{port}");
    let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
    let egress = egress(&["allowed.example"], std::slice::from_ref(&authority));
    (Outgoing::open(&egress, &names).await, authority)
}

/// A server that takes `SENT` bytes of a kind before it answers with `LARGE` of another.
async fn patient_server() -> (u16, DropGuard) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let stop = CancellationToken::new();
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut block, mut taken) = (vec![0; 64 * 1024], 0);
                while taken < SENT {
                    let length = stream.read(&mut block).await.unwrap_or(0);
                    assert_ne!(length, 0, "{taken} bytes came");
                    taken += block[..length].iter().filter(|byte| **byte == b'~').count();
                }
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\nconnection: close\r\n\r\n");
                let answer = [head.as_bytes(), &vec![b'x'; LARGE]].concat();
                stream.write_all(&answer).await.expect("it is taken");
            });
        }
    }));
    (port, stop.drop_guard())
}

/// More than a window of what goes out.
const SENT: usize = 100_000;

/// More than a window of what comes in.
const LARGE: usize = 3 * 1024 * 1024;

#[test]
fn n11_much_passes_in_both_directions_at_once() {
    far_away(async || {
        let (port, _stop) = patient_server().await;
        let (run, authority) = outgoing(port).await;
        let head = format!(
            "POST http://{authority}/ HTTP/1.1\\r\\nHost: {authority}\\r\\nConnection: close\\r\\nContent-Length: \
             {SENT}\\r\\n\\r\\n"
        );
        let line = format!(
            "for number in 1 2 3 4 5 6 7 8; do (exec 3<>/dev/tcp/127.0.0.1/17128; (printf '{head}'; head -c {SENT} \
             /dev/zero | tr '\\0' '~') >&3; cat <&3 | tr -dc x | wc -c) & done; wait"
        );
        let began = Instant::now();
        let shown = run.sh(&line).await;
        eprintln!("{} bytes came in {:?}", 8 * LARGE, began.elapsed());
        let counts: Vec<usize> = shown.lines().filter_map(|line| line.trim().parse().ok()).collect();
        // There may be one in the head of an answer.
        let is_whole = |count: &usize| count.abs_diff(LARGE) < 10;
        assert!(counts.len() == 8 && counts.iter().all(is_whole), "{shown}");
        let totals = run.gate.totals();
        assert!(
            totals.sent_bytes > 8 * SENT as u64 && totals.received_bytes >= 8 * LARGE as u64,
            "{totals:?}"
        );
        run.sandbox.close().await;
    });
}

#[test]
fn the_carrier_has_a_user_of_its_own_that_commands_cannot_reach() {
    far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let (run, authority) = outgoing(site.port()).await;
        let description = run.sandbox.description().to_string();
        for layer in [
            "no network, by the server's policy (dns+nft)",
            "way out through the proxy alone",
        ] {
            assert!(description.contains(layer), "{layer} in {description}");
        }
        let shown = run
            .sh(
                "for at in /proc/[0-9]*; do tr '\\0' ' ' < $at/cmdline 2>/dev/null | grep -q ' carry ' && kill -9 \
                 ${at#/proc/} && echo killed; done; ls /run/forgehand/way/* && echo seen; echo x > \
                 /run/forgehand/way/x && echo written; true",
            )
            .await;
        for word in ["killed", "seen", "written"] {
            assert!(!shown.lines().any(|line| line == word), "{shown}");
        }
        // A command that is swept away with all that it started leaves the way out alone.
        let slow = Exec {
            timeout: Some(Duration::from_secs(2)),
            ..Exec::shell("setsid sleep 100 & sleep 100")
        };
        let ended = run
            .sandbox
            .exec(&slow, &CancellationToken::new())
            .await
            .expect("its end");
        assert!(matches!(ended.exit, Exit::Limit(_)), "{ended:?}");
        assert!(run.get(&authority, "/").await.contains("outside"));
        run.sandbox.close().await;
    });
}

#[test]
fn a_way_out_that_is_lost_is_opened_again_for_the_next_command() {
    if !is_root() {
        return;
    }
    far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let (run, authority) = outgoing(site.port()).await;
        let first = carrier(&run).await.expect("a carrier");
        kill_process(first, Signal::KILL).expect("root may");
        let shown = run.get(&authority, "/").await;
        assert!(shown.contains("outside"), "{shown}");
        assert_ne!(carrier(&run).await.expect("another"), first);
        run.sandbox.close().await;
    });
}

#[test]
fn whoever_speaks_out_of_turn_in_the_sandbox_ends_the_run() {
    if !is_root() {
        return;
    }
    far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        for (line, expected) in [
            // Bytes of a connection that never began, a frame of no kind, and no frame at all.
            (
                format!("c{}", BASE64_STANDARD.encode(b"D\x63\0\0\0\x01\0\0\0x")),
                "never began",
            ),
            (format!("c{}", BASE64_STANDARD.encode([0xff; 20])), "makes no sense"),
            ("c%%%".to_owned(), "no base64"),
        ] {
            let (run, authority) = outgoing(site.port()).await;
            let carrier = carrier(&run).await.expect("a carrier");
            let stream = format!("/proc/{}/fd/1", carrier.as_raw_nonzero());
            let mut stream = fs::OpenOptions::new().write(true).open(stream).expect("its stream");
            writeln!(stream, "words that are no frame are only words").expect("it takes them");
            assert!(run.get(&authority, "/").await.contains("outside"));
            writeln!(stream, "{line}").expect("it takes them");
            let cancel = CancellationToken::new();
            let refused = loop {
                match run.sandbox.exec(&Exec::shell("true"), &cancel).await {
                    Ok(_) => {}
                    Err(error) => break error.to_string(),
                }
            };
            assert!(
                refused.contains("broke the rules of its stream") && refused.contains(expected),
                "{refused}"
            );
            let still = run.sandbox.exec(&Exec::shell("true"), &cancel).await;
            assert!(still.is_err(), "it stays ended");
            run.sandbox.close().await;
        }
    });
}
