//! The guarded way out on the real sandbox: servers on loopback stand in for the outside, named in
//! `allow_private` as an operator would name servers of his own network. Each story looks at what
//! the command was told, at what the record says, and at who was reached.

mod carried;
mod escape;
mod outside;
mod registry;

use std::net::IpAddr;

use forgehand::config::EgressConfig;
use forgehand::egress::{Egress, Gate, Row, Verdict};
use forgehand::permission::HostRule;
use forgehand::sandbox::{Part, Started};

use super::backends::{Place, on_each_as_each_user_and_far_away};
use super::*;
use crate::net::site::{Answer, Site};
use outside::{Names, Wire, client_hello};

/// A sandbox with its way out.
struct Outgoing {
    folder: tempfile::TempDir,
    gate: Arc<Gate>,
    sandbox: Arc<dyn Sandbox>,
}

/// Hosts that are listed, and `HOST:PORT` that are meant although they are private.
fn egress(hosts: &[&str], private: &[String]) -> EgressConfig {
    EgressConfig {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        allow_private: private.to_vec(),
        ..EgressConfig::default()
    }
}

impl Outgoing {
    async fn open(config: &EgressConfig, names: &Arc<Names>) -> Self {
        Self::narrowed(config, names, None).await
    }

    async fn narrowed(config: &EgressConfig, names: &Arc<Names>, narrowed: Option<&[&str]>) -> Self {
        let folder = scratch();
        let folders = Run::folders(folder.path());
        for made in [&folders.workspace, &folders.base_git] {
            fs::create_dir(made).expect("a folder");
        }
        let egress = Egress::new(config)
            .expect("a right configuration")
            .with_resolver(names.clone());
        let own = narrowed.map(|hosts| hosts.iter().map(|host| HostRule::parse(host).unwrap()).collect());
        let gate = egress.open(folder.path(), own).expect("a socket").expect("a way out");
        let sandbox = sandbox::open_with(&super::config(), folders, 7, Some(gate.way_out()))
            .await
            .expect("the sandbox opens");
        let sandbox = gate.guard(sandbox);
        Self { folder, gate, sandbox }
    }

    async fn sh(&self, line: &str) -> String {
        let output = self.sandbox.exec(&Exec::shell(line), &CancellationToken::new()).await;
        output.expect("the sandbox works").output
    }

    /// Sends bytes to the proxy, as any program could, and shows what comes back.
    async fn send(&self, bytes: &[u8]) -> String {
        let exec = Exec {
            stdin: bytes.to_vec(),
            ..Exec::shell(SEND)
        };
        let output = self.sandbox.exec(&exec, &CancellationToken::new()).await;
        output.expect("the sandbox works").output
    }

    async fn get(&self, authority: &str, path: &str) -> String {
        self.send(request("GET", authority, path).as_bytes()).await
    }

    /// Opens a tunnel and begins TLS inside it.
    async fn tunnel(&self, authority: &str, first: &[u8]) -> String {
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        self.send(&[head.as_bytes(), first].concat()).await
    }

    fn blocked(&self) -> Vec<String> {
        let rows = self.gate.rows().into_iter();
        rows.filter(|row| matches!(row.verdict, Verdict::Blocked { .. }))
            .map(|row| row.host)
            .collect()
    }
}

/// The proxy as a file: what stands on standard input goes there, and the answer is shown.
const SEND: &str = "exec 3<>/dev/tcp/127.0.0.1/17128 && cat >&3 && timeout 20 cat <&3";

fn request(method: &str, authority: &str, path: &str) -> String {
    format!("{method} http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
}

#[test]
fn n01_n08_n09_only_the_proxy_is_there() {
    on_each_as_each_user_and_far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let private = format!("allowed.example:{}", site.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], std::slice::from_ref(&private)), &names).await;
        let shown = run.get(&private, "/page").await;
        assert!(
            shown.starts_with("HTTP/1.1 200") && shown.contains("outside"),
            "{shown}"
        );
        // The server's own address, around the proxy and with the proxy forgotten.
        for line in [
            format!("exec 3<>/dev/tcp/127.0.0.1/{}", site.port()),
            "exec 3<>/dev/tcp/192.0.2.1/80".to_owned(),
            "exec 3<>/dev/udp/192.0.2.1/443 && echo x >&3".to_owned(),
            "getent hosts secret.x.evil.example".to_owned(),
            "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; getent hosts allowed.example".to_owned(),
        ] {
            // There the network is the server's, and the stood-in sidecar enforces nothing: that nothing
            // lies behind it shows only to those who wait for an answer.
            if backends::place() == Place::OpenSandbox && line.contains("/dev/udp/") {
                continue;
            }
            let output = run.sandbox.exec(&Exec::shell(&line), &CancellationToken::new()).await;
            let output = output.expect("the sandbox works");
            assert_ne!(output.exit, Exit::Code(0), "{line}: {}", output.output);
        }
        assert_eq!(site.hits(), 1);
        assert_eq!(
            names.asked(),
            ["allowed.example"],
            "no name was looked up but an allowed one"
        );
    });
}

#[test]
fn n01_without_a_way_out_nothing_listens() {
    on_each_as_each_user_and_far_away(async || {
        let run = Run::open().await;
        assert_ne!(run.sh("exec 3<>/dev/tcp/127.0.0.1/17128").await.exit, Exit::Code(0));
        assert_eq!(
            run.ok("echo \"[$http_proxy$HTTPS_PROXY]\"; ls /run/forgehand").await,
            match backends::place() {
                Place::Local => "[]\nbase.git\n",
                Place::Docker | Place::Podman => "[]\nbase.git\nhelper\n",
                Place::OpenSandbox => "[]\nbase.git\nhelper\nout\ntasks\n",
            }
        );
    });
}

#[tokio::test]
async fn n02_an_empty_list_opens_nothing() {
    let folder = scratch();
    let names = Names::of(&[]);
    let closed = Egress::new(&EgressConfig::default())
        .unwrap()
        .with_resolver(names.clone());
    assert!(closed.is_closed() && closed.in_words().contains("closed"));
    assert!(closed.open(folder.path(), None).unwrap().is_none());
    let listed = Egress::new(&egress(&["docs.rs"], &[])).unwrap().with_resolver(names);
    assert!(
        listed.open(folder.path(), Some(Vec::new())).unwrap().is_none(),
        "the repository wants none"
    );
    assert!(Egress::new(&egress(&["*"], &[])).is_err_and(|problems| problems[0].contains("unsafe_allow_all")));
}

#[test]
fn n03_only_the_canonical_host_passes() {
    on_each_and_far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let port = site.port();
        let names = Names::of(&[("github.example", &["127.0.0.1"])]);
        let config = egress(&["github.example"], &[format!("github.example:{port}")]);
        let run = Outgoing::open(&config, &names).await;
        let shown = run.get(&format!("GitHub.EXAMPLE:{port}"), "/").await;
        assert!(shown.contains("outside"), "{shown}");
        for host in [
            "evil.com\0.github.example",
            "evil.com%00.github.example",
            "evil.com%2egithub.example",
            "github.example.",
            "evilgithub.example",
            "github.example.evil.com",
            "user@github.example",
            "github.example@evil.com",
            "xn--gthub-n4a.example",
            &"a.".repeat(130),
        ] {
            for bytes in [
                format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"),
                request("GET", &format!("{host}:{port}"), "/"),
            ] {
                let shown = run.send(bytes.as_bytes()).await;
                assert!(shown.starts_with("HTTP/1.1 4"), "{host:?}: {shown}");
            }
        }
        let injected =
            format!("GET http://github.example:{port}/ HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n");
        let shown = run.send(injected.as_bytes()).await;
        assert!(shown.starts_with("HTTP/1.1 403"), "{shown}");
        assert_eq!(site.hits(), 1);
        assert_eq!(names.asked(), ["github.example"], "what is matched is what is resolved");
        assert_eq!(site.requests()[0].host, format!("github.example:{port}"));
    });
}

#[test]
fn n04_private_addresses_are_refused_by_name_and_by_number() {
    on_each_and_far_away(async || {
        let site = Site::start(|_| Answer::text("secret")).await;
        let port = site.port();
        let names = Names::of(&[
            ("inside.example", &["127.0.0.1"]),
            ("metadata.example", &["169.254.169.254"]),
            ("half.example", &["93.184.216.34", "10.0.0.1"]),
            ("mapped.example", &["::ffff:127.0.0.1"]),
            ("ula.example", &["fd00::1"]),
            ("cgnat.example", &["100.64.0.1"]),
        ]);
        let config = EgressConfig {
            unsafe_allow_all: true,
            ..egress(&[], &["127.0.0.1:1".to_owned()])
        };
        let run = Outgoing::open(&config, &names).await;
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "017700000001",
            "[::1]",
            "[::ffff:169.254.169.254]",
            "169.254.169.254",
            "metadata.google.internal",
            "localhost",
            "10.0.0.1",
            "100.64.0.1",
            "[fd00::1]",
            "0.0.0.0",
            "inside.example",
            "metadata.example",
            "half.example",
            "mapped.example",
            "ula.example",
            "cgnat.example",
        ] {
            for authority in [format!("{host}:{port}"), format!("{host}:80")] {
                let shown = run.get(&authority, "/").await;
                assert!(shown.starts_with("HTTP/1.1 4"), "{authority}: {shown}");
            }
        }
        assert_eq!(site.hits(), 0);
        let shown = run.get("inside.example", "/").await;
        assert!(
            shown.contains("127.0.0.1, which is no public address")
                && shown.contains("egress.allow_private = [..., \"inside.example:80\"] in forgehand.toml"),
            "{shown}"
        );
    });
}

#[test]
fn n05_the_connection_goes_to_the_address_that_was_vetted() {
    on_each_and_far_away(async || {
        let inside = Site::start(|_| Answer::text("inside")).await;
        let port = inside.port();
        let meant = Site::start_at("127.0.0.2", port, |_| Answer::text("meant")).await;
        let names = Names::of(&[("rebind.example", &["127.0.0.2"])]);
        names.later("rebind.example", &["127.0.0.1"]);
        let private = format!("rebind.example:{port}");
        let run = Outgoing::open(&egress(&["rebind.example"], std::slice::from_ref(&private)), &names).await;
        let shown = run.get(&private, "/").await;
        assert!(shown.contains("meant"), "{shown}");
        assert_eq!((meant.hits(), inside.hits()), (1, 0));
        assert_eq!(names.asked(), ["rebind.example"], "one look-up for one connection");
    });
}

#[test]
fn n06_a_redirect_is_the_clients_to_follow_and_judged_again() {
    on_each_and_far_away(async || {
        let site = Site::start(|path| match path {
            "/away" => Answer::redirect("http://169.254.169.254/latest/meta-data/"),
            _ => Answer::text("page"),
        })
        .await;
        let private = format!("site.example:{}", site.port());
        let names = Names::of(&[("site.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["site.example"], std::slice::from_ref(&private)), &names).await;
        let shown = run.get(&private, "/away").await;
        assert!(
            shown.starts_with("HTTP/1.1 302") && shown.contains("location: http://169.254.169.254/"),
            "{shown}"
        );
        let shown = run.get("169.254.169.254", "/latest/meta-data/").await;
        assert!(
            shown.starts_with("HTTP/1.1 403") && shown.contains("egress.hosts"),
            "{shown}"
        );
        let file = run
            .send(b"GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await;
        assert!(file.starts_with("HTTP/1.1 4"), "{file}");
        assert_eq!(site.hits(), 1);
    });
}

#[test]
fn n07_a_tunnel_must_name_the_host_it_goes_to() {
    on_each_as_each_user_and_far_away(async || {
        let wire = Wire::start().await;
        let authority = format!("allowed.example:{}", wire.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], std::slice::from_ref(&authority)), &names).await;
        let good = client_hello(Some("allowed.example"), false);
        let shown = run.tunnel(&authority, &good).await;
        assert!(
            shown.starts_with("HTTP/1.1 200") && shown.contains(outside::REPLY),
            "{shown}"
        );
        assert_eq!(wire.received(), [good], "every byte, and only those");
        for (what, first) in [
            ("another name", client_hello(Some("evil.example"), false)),
            ("a name below", client_hello(Some("x.allowed.example"), false)),
            ("no name", client_hello(None, false)),
            ("a hidden name", client_hello(Some("allowed.example"), true)),
            ("no TLS", b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec()),
            ("SSH", b"SSH-2.0-OpenSSH_9\r\n".to_vec()),
        ] {
            let shown = run.tunnel(&authority, &first).await;
            assert!(!shown.contains(outside::REPLY), "{what}: {shown}");
            assert!(shown.contains("[network: allowed.example:"), "{what}: {shown}");
        }
        let sent = wire.received();
        assert!(
            sent[1..].iter().all(Vec::is_empty),
            "a byte passed that should not have: {sent:?}"
        );
    });
}

#[test]
fn n07_other_ports_and_other_hosts_in_the_head_are_refused() {
    on_each_and_far_away(async || {
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], &[]), &names).await;
        for port in [22, 25, 8080] {
            let shown = run.tunnel(&format!("allowed.example:{port}"), b"").await;
            assert!(
                shown.starts_with("HTTP/1.1 403") && shown.contains("is not 80 or 443"),
                "{shown}"
            );
        }
        let shown = run
            .send(b"CONNECT allowed.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")
            .await;
        assert!(shown.starts_with("HTTP/1.1 403"), "{shown}");
        let shown = run
            .send(b"GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n")
            .await;
        assert!(
            shown.starts_with("HTTP/1.1 400") && shown.contains("this is a proxy"),
            "{shown}"
        );
        assert!(names.asked().is_empty());
    });
}

#[test]
fn n10_odd_methods_and_smuggled_requests_do_not_pass() {
    on_each_and_far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let authority = format!("allowed.example:{}", site.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], std::slice::from_ref(&authority)), &names).await;
        for method in ["TRACE", "PROPFIND", "X"] {
            let shown = run.send(request(method, &authority, "/").as_bytes()).await;
            assert!(shown.starts_with("HTTP/1.1 405"), "{method}: {shown}");
        }
        // Two lengths: one end would see one request, the other two.
        let smuggled = format!(
            "POST http://{authority}/a HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n0\r\n\r\nGET http://{authority}/smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        );
        run.send(smuggled.as_bytes()).await;
        let posted = format!(
            "POST http://{authority}/b HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 3\r\nProxy-Authorization: Basic eA==\r\n\
         Connection: close\r\n\r\nabcEXTRA"
        );
        let shown = run.send(posted.as_bytes()).await;
        assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
        let seen = site.requests();
        assert!(seen.iter().all(|seen| seen.path != "/smuggled"), "{seen:?}");
        assert!(
            seen.iter().any(|seen| seen.method == "POST" && seen.path == "/b"),
            "{seen:?}"
        );
    });
}

#[test]
fn n11_caps_are_for_the_whole_run() {
    on_each_and_far_away(async || {
        let site = Site::start(|path| match path {
            "/endless" => Answer::endless("x"),
            _ => Answer::text("page"),
        })
        .await;
        let authority = format!("allowed.example:{}", site.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let config = EgressConfig {
            max_upload_kib: 4,
            max_download_mib: 1,
            ..egress(&["allowed.example"], std::slice::from_ref(&authority))
        };
        let run = Outgoing::open(&config, &names).await;
        let shown = run.get(&authority, "/endless").await;
        assert!(
            shown.contains("this run may receive 1.0 MiB"),
            "{}",
            &shown[shown.len() - 400..]
        );
        assert!(shown.len() < 1_200_000, "{} bytes came", shown.len());
        let large = format!(
            "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n{}",
            "x".repeat(100_000)
        );
        let shown = run.send(large.as_bytes()).await;
        assert!(shown.contains("this run may send 4.0 KiB"), "{shown}");
        let shown = run.get(&authority, "/").await;
        assert!(shown.starts_with("HTTP/1.1 429"), "nothing comes back: {shown}");
        assert!(run.gate.totals().sent_bytes <= 4 * 1024);
    });
}

#[test]
fn n11_more_connections_than_may_be_are_let_go() {
    on_each_and_far_away(async || {
        let names = Names::of(&[]);
        let config = EgressConfig {
            max_connections: 2,
            ..egress(&["allowed.example"], &[])
        };
        let run = Outgoing::open(&config, &names).await;
        // Whichever of them comes last is let go.
        let line = "exec 3<>/dev/tcp/127.0.0.1/17128 4<>/dev/tcp/127.0.0.1/17128 5<>/dev/tcp/127.0.0.1/17128\n\
                for one in 3 4 5; do timeout 20 cat <&$one & done; wait -n; echo ended $?; kill $(jobs -p)";
        let shown = run.sh(line).await;
        assert!(
            shown.contains("ended 0") && shown.contains("as many connections are open"),
            "{shown}"
        );
    });
}

#[test]
fn a_blocked_host_is_told_with_the_line_that_would_allow_it() {
    on_each_as_each_user_and_far_away(async || {
        let names = Names::of(&[]);
        let run = Outgoing::open(&egress(&["docs.example"], &[]), &names).await;
        let shown = run.tunnel("evil.example:443", b"").await;
        let told = "[network: evil.example:443 was blocked: no entry of `egress.hosts` covers evil.example. Only an \
                    administrator can allow it, with egress.hosts = [..., \"evil.example\"] in forgehand.toml;";
        assert!(shown.starts_with("HTTP/1.1 403") && shown.contains(told), "{shown}");
        assert_eq!(run.sh("true").await, "", "what was told is not told again");
        assert_eq!(run.blocked(), ["evil.example:443"]);
        let line =
            format!("printf 'CONNECT later.example:443 HTTP/1.1\\r\\nHost: later.example:443\\r\\n\\r\\n' | ({SEND})");
        let cancel = CancellationToken::new();
        let Ok(Started::Running(id)) = run.sandbox.start(&Exec::shell(line), &cancel).await else {
            panic!("it starts")
        };
        let output = run
            .sandbox
            .output(id, Part::All, Duration::from_secs(20), &cancel)
            .await;
        let shown = output.expect("it is known").output;
        assert!(shown.contains("[network: later.example:443 was blocked"), "{shown}");
    });
}

#[test]
fn a_repository_narrows_the_list() {
    on_each_and_far_away(async || {
        let site = Site::start(|_| Answer::text("outside")).await;
        let port = site.port();
        let names = Names::of(&[("a.example", &["127.0.0.1"]), ("b.example", &["127.0.0.1"])]);
        let private = [format!("a.example:{port}"), format!("b.example:{port}")];
        let config = egress(&["a.example", "b.example"], &private);
        let run = Outgoing::narrowed(&config, &names, Some(&["b.example", "evil.example"])).await;
        assert!(run.get(&private[1], "/").await.contains("outside"));
        let shown = run.get(&private[0], "/").await;
        assert!(
            shown.contains("egress = [..., \"a.example\"] in .github/forgehand.toml"),
            "{shown}"
        );
        let shown = run.get("evil.example", "/").await;
        assert!(
            shown.contains("no entry of `egress.hosts` covers evil.example"),
            "{shown}"
        );
        assert_eq!(site.hits(), 1);
    });
}

#[test]
fn the_way_out_ends_with_the_run() {
    on_each_and_far_away(async || {
        let site = Site::start(|_| Answer::silent()).await;
        let authority = format!("allowed.example:{}", site.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], std::slice::from_ref(&authority)), &names).await;
        let socket = run.gate.way_out().socket.clone();
        assert!(socket.starts_with(run.folder.path()) && !socket.starts_with(run.folder.path().join("workspace")));
        let asking = run.get(&authority, "/");
        let closing = async {
            while site.hits() == 0 {
                tokio::task::yield_now().await;
            }
            run.gate.close().await;
        };
        tokio::join!(asking, closing);
        let reached = run.gate.rows();
        assert!(reached.iter().all(|Row { host, .. }| *host == authority), "{reached:?}");
        let shown = run.get(&authority, "/").await;
        assert!(!shown.contains("HTTP"), "nobody answers any more: {shown}");
        run.sandbox.close().await;
        let Outgoing {
            folder: _folder,
            gate,
            sandbox,
        } = run;
        drop(sandbox);
        drop(gate);
        assert!(!socket.exists());
    });
}

#[tokio::test]
async fn a_long_path_of_the_run_is_no_obstacle() {
    let folder = scratch();
    let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    let egress = Egress::new(&egress(&["docs.example"], &[])).unwrap();
    for _ in 0..2 {
        // What a process that was killed left is no obstacle either.
        let gate = egress.open(&deep, None).unwrap().expect("a way out");
        assert!(gate.way_out().socket.exists());
        std::mem::forget(gate);
    }
}

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|ip| ip.parse().expect("an address")).collect()
}
