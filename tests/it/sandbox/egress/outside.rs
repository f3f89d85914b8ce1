//! What stands in for the outside: a resolver that answers from a table and remembers who was
//! asked for, a server that keeps every byte it gets, and the first message of TLS by hand.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forgehand::net::Resolve;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::addresses;

/// Answers by name; each answer but the last counts once.
pub struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub fn of(table: &[(&str, &[&str])]) -> Arc<Self> {
        let rows = table
            .iter()
            .map(|(host, ips)| ((*host).to_owned(), vec![addresses(ips)]));
        Arc::new(Self {
            answers: Mutex::new(rows.collect()),
            asked: Mutex::default(),
        })
    }

    /// What a name leads to after it was asked for once.
    pub fn later(&self, host: &str, ips: &[&str]) {
        let mut answers = self.answers.lock().unwrap();
        answers.entry(host.to_owned()).or_default().push(addresses(ips));
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        match answers.get_mut(host) {
            Some(known) if known.len() > 1 => Ok(known.remove(0)),
            Some(known) => Ok(known[0].clone()),
            None => Err(std::io::Error::other("no such name")),
        }
    }
}

/// What the server says once something came.
pub const REPLY: &str = "the server heard it";

/// A server that keeps what it gets, connection by connection.
pub struct Wire {
    port: u16,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    _stop: DropGuard,
}

impl Wire {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let received: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let stop = CancellationToken::new();
        let (stopped, kept) = (stop.clone(), received.clone());
        tokio::spawn(stopped.run_until_cancelled_owned(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut block = vec![0; 4096];
                // Each comes after the one before: the stories ask in order.
                let length = stream.read(&mut block).await.unwrap_or(0);
                kept.lock().unwrap().push(block[..length].to_vec());
                if length > 0 {
                    let _ = stream.write_all(REPLY.as_bytes()).await;
                }
            }
        }));
        Self {
            port,
            received,
            _stop: stop.drop_guard(),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn received(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }
}

/// A ClientHello that names a host, or none, and may say that its true name is hidden.
pub fn client_hello(host: Option<&str>, hides: bool) -> Vec<u8> {
    let sized = |width: usize, body: &[u8]| [&body.len().to_be_bytes()[8 - width..], body].concat();
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &sized(2, body)].concat();
    let mut extensions = extension(0x002b, &[2, 3, 4]);
    if let Some(host) = host {
        let entry = [&[0][..], &sized(2, host.as_bytes())].concat();
        extensions.extend(extension(0, &sized(2, &entry)));
    }
    if hides {
        extensions.extend(extension(0xfe0d, &[0; 50]));
    }
    let body = [
        &[3, 3][..],
        &[5; 32],
        &sized(1, &[]),
        &sized(2, &[0x13, 0x01]),
        &sized(1, &[0]),
        &sized(2, &extensions),
    ]
    .concat();
    let message = [&[1][..], &sized(3, &body)].concat();
    [&[22, 3, 1][..], &sized(2, &message)].concat()
}
