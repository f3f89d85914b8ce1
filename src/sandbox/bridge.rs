//! The inner end of the way out: a listener on the sandbox's own loopback whose connections go to
//! the proxy's socket. Called by the helper once the walls stand, so that it runs behind them.
//! Never looks at what passes: the proxy judges, on the other side of the wall.

use std::net::{Ipv4Addr, TcpListener};

use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::PROXY_PORT;
use super::root::EGRESS;
use super::spec::{Failure, Step};

/// Connections at once; the proxy has its own, lower limit.
const MAX_CONNECTIONS: usize = 1_024;

/// Binds the listener and serves it from a thread of this process, which ends with it.
pub(super) fn start() -> Result<(), Failure> {
    let failed = || "open the way to the proxy".to_owned();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)).step(failed)?;
    listener.set_nonblocking(true).step(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .step(failed)?;
    std::thread::Builder::new()
        .name("bridge".to_owned())
        .spawn(move || runtime.block_on(serve(listener)))
        .map(drop)
        .step(failed)
}

async fn serve(listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let mut passing = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if passing.len() < MAX_CONNECTIONS => {
                match accepted {
                    Ok((client, _)) => drop(passing.spawn(pass(client))),
                    // Out of descriptors: let some connections end first.
                    Err(_) => drop(passing.join_next().await),
                }
            }
            Some(_) = passing.join_next(), if !passing.is_empty() => {}
        }
    }
}

async fn pass(mut client: TcpStream) {
    if let Ok(mut proxy) = UnixStream::connect(EGRESS).await {
        // Either side may go at any time.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut proxy).await;
    }
}
