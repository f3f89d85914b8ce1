//! Numbers 44 to 46 of the escape corpus: through the proxy to where it does not lead. Bare they run
//! against a proxy that lets everything through, so that each is shown to notice when it gets out.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;
use crate::sandbox::escape::{CORPUS, Ends, Verdict, bare, program, verdict};

/// Host, and the greeting for another one, as the attempts are told them.
fn told(number: u8, proxy: u16, port: u16) -> Vec<String> {
    let hello = client_hello(Some("evil.example"), false);
    vec![
        number.to_string(),
        format!("proxy={proxy}"),
        "host=allowed.example".to_owned(),
        format!("port={port}"),
        format!("hello={}", hex::encode(hello)),
    ]
}

#[test]
fn n03_n07_the_proxy_leads_nowhere_else() {
    on_each_as_each_user_and_far_away(async || {
        let wire = Wire::start().await;
        let authority = format!("allowed.example:{}", wire.port());
        let names = Names::of(&[("allowed.example", &["127.0.0.1"])]);
        let run = Outgoing::open(&egress(&["allowed.example"], std::slice::from_ref(&authority)), &names).await;
        let put = Exec {
            stdin: fs::read(program()).expect("the program"),
            ..Exec::shell("cat > escape && chmod +x escape")
        };
        let put = run.sandbox.exec(&put, &CancellationToken::new()).await;
        assert_eq!(put.expect("the sandbox works").exit, Exit::Code(0));
        for attempt in CORPUS.iter().filter(|attempt| attempt.needs_proxy()) {
            let argv = [
                vec!["./escape".to_owned()],
                told(attempt.number, forgehand::sandbox::PROXY_PORT, wire.port()),
            ];
            let exec = Exec {
                program: forgehand::sandbox::Program::Argv(argv.concat()),
                ..Exec::shell("")
            };
            let output = run
                .sandbox
                .exec(&exec, &CancellationToken::new())
                .await
                .expect("the sandbox works");
            let Ends::Blocked(allowed) = attempt.ends else {
                panic!("{attempt:?}")
            };
            match verdict(attempt.number, &output.output) {
                Some(Verdict::Blocked(reasons)) => {
                    let stated = reasons.iter().all(|reason| allowed.contains(&reason.as_str()));
                    assert!(stated, "{}: {reasons:?}", attempt.number);
                }
                other => panic!("{}: {other:?}: {}", attempt.number, output.output),
            }
        }
        let sent = wire.received();
        assert!(sent.iter().all(Vec::is_empty), "{sent:?}");
    });
}

#[test]
fn an_open_proxy_would_lead_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut block = [0; 4096];
            while client.read(&mut block).is_ok_and(|length| length > 0) {
                if client.write_all(b"HTTP/1.1 200 whatever you want\r\n\r\n").is_err() {
                    break;
                }
            }
        }
    });
    for attempt in CORPUS.iter().filter(|attempt| attempt.needs_proxy()) {
        let verdict = bare(attempt, &told(attempt.number, port, 443));
        assert!(
            matches!(verdict, Some(Verdict::Escaped(_))),
            "{}: {verdict:?}",
            attempt.number
        );
    }
}
