//! S12: whoever reaches the socket of a container engine is root on its machine. No command does, by
//! whatever name, and no file operation looks at it.

use std::net::TcpListener;

use super::backends::variable;
use super::*;

/// Ends well where something listens at the socket or port.
const CONNECT: &str = r#"perl -MIO::Socket::INET -MIO::Socket::UNIX -e '
    my $to = shift; my $s = $to =~ m{/} ? IO::Socket::UNIX->new($to)
        : IO::Socket::INET->new(PeerAddr => $to, Timeout => 2);
    print $s ? "CONNECTED" : "refused: $!"; exit($s ? 0 : 7)' "#;

/// Where engines listen, and where those of the tests do.
fn sockets() -> Vec<String> {
    let user = rustix::process::geteuid().as_raw();
    let mut sockets: Vec<String> = [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
    ]
    .map(str::to_owned)
    .into();
    sockets.push(format!("/run/user/{user}/docker.sock"));
    sockets.push(format!("/run/user/{user}/podman/podman.sock"));
    sockets.extend(
        ["FORGEHAND_TEST_DOCKER", "FORGEHAND_TEST_PODMAN"]
            .into_iter()
            .filter_map(variable),
    );
    sockets
}

#[test]
fn s12_no_engine_is_reached_from_inside() {
    // The port that engines without protection listen on; whoever has it already will do as well.
    let _unprotected = TcpListener::bind("0.0.0.0:2375").ok();
    on_each_as_each_user(async || {
        let run = Run::open().await;
        for socket in sockets() {
            let there = run.sh(&format!("test -e '{socket}' || test -L '{socket}'")).await;
            assert_eq!(there.code(), Some(1), "{socket}: {}", there.output);
            // A repository may hold a link to it.
            run.ok(&format!("ln -sfn '{socket}' engine.sock")).await;
            for path in [socket.as_str(), "./engine.sock"] {
                let output = run.sh(&format!("{CONNECT} '{path}'")).await;
                assert_eq!(output.code(), Some(7), "{path}: {}", output.output);
            }
            let reply = run
                .files(serde_json::json!({"op": "read", "path": "engine.sock", "max_bytes": 9}))
                .await;
            assert!(!matches!(reply, FileReply::Content { .. }), "{reply:?}");
        }
        for address in ["127.0.0.1:2375", "127.0.0.1:2376", "172.17.0.1:2375", "10.88.0.1:2375"] {
            let output = run.sh(&format!("{CONNECT} {address}")).await;
            assert_eq!(output.code(), Some(7), "{address}: {}", output.output);
        }
        assert_eq!(run.sh("env | grep -i -E 'docker|container_host'").await.code(), Some(1));
    });
}
