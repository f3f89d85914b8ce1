//! CONNECT: a connection to a vetted address, whose first message must be a ClientHello that names
//! the same host. Called by the proxy. Never passes on a byte before that name was read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::authority::Authority;
use super::hello::{self, Peek};
use super::refusal::Refusal;
use super::serve::{Body, Place, Refused, Shared, bounded, whole};

/// Longest time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time until a client has said which host it means.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence in a tunnel.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Read at a time.
const BLOCK: usize = 16 * 1024;

/// Opens a tunnel; what is inside is judged once it comes.
pub(super) async fn open(
    shared: &Arc<Shared>,
    mut request: Request<Incoming>,
    place: Place,
) -> Result<Response<Body>, Refused> {
    let asked = request
        .uri()
        .authority()
        .map_or("", |authority| authority.as_str())
        .to_owned();
    let refused = |refusal| Refused {
        host: asked.clone(),
        refusal,
    };
    let authority = judge(shared, &request, &asked).map_err(refused)?;
    let addresses = shared.addresses(&authority).await.map_err(refused)?;
    let server = connect(&authority, &addresses).await.map_err(refused)?;
    let upgraded = hyper::upgrade::on(&mut request);
    let tunnel = {
        let shared = shared.clone();
        async move {
            let _place = place;
            let Ok(client) = upgraded.await else { return };
            if let Err(refusal) = relay(&shared, &authority, client, server).await {
                shared.log.blocked(&asked, &refusal);
            }
        }
    };
    shared.tasks.spawn(bounded(shared.clone(), tunnel));
    Ok(Response::new(whole("")))
}

/// What can be said before anything is looked up.
fn judge(shared: &Shared, request: &Request<Incoming>, asked: &str) -> Result<Authority, Refusal> {
    let authority = Authority::parse(asked).map_err(Refusal::Malformed)?;
    for host in request.headers().get_all(HOST) {
        let named = host
            .to_str()
            .ok()
            .map(|host| Authority::with_usual_port(host, authority.port()));
        if named != Some(Ok(authority.clone())) {
            return Err(Refusal::OtherName(format!(
                "the header `Host` names another host than {}",
                authority.host()
            )));
        }
    }
    shared.meter.request()?;
    shared.meter.sent(asked.len())?;
    match shared.policy.permit(authority.host()) {
        Err(Refusal::NotListed { host }) if shared.registries.has_host(&host) => Err(Refusal::Tunnel { host }),
        permitted => permitted.map(|()| authority),
    }
}

/// A connection to one of the vetted addresses, and to no other.
async fn connect(authority: &Authority, addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    let connecting = TcpStream::connect(addresses);
    let why = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    Err(Refusal::Unreachable(format!(
        "{} cannot be reached: {why}",
        authority.host()
    )))
}

/// Checks the name, then passes bytes both ways until either side ends.
async fn relay(shared: &Shared, authority: &Authority, client: Upgraded, server: TcpStream) -> Result<(), Refusal> {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_server, mut to_server) = server.into_split();
    let Some(first) = greeting(authority, &mut from_client).await? else {
        return Ok(());
    };
    shared
        .log
        .reached(&format!("{}:{}", authority.host(), authority.port()));
    shared.meter.sent(first.len())?;
    if to_server.write_all(&first).await.is_err() {
        return Ok(());
    }
    let up = pump(shared, &mut from_client, &mut to_server, Way::Up);
    let down = pump(shared, &mut from_server, &mut to_client, Way::Down);
    tokio::try_join!(up, down).map(drop)
}

/// The client's first bytes, once they name the host; nothing when it went away.
async fn greeting(authority: &Authority, client: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, Refusal> {
    let mut bytes = Vec::new();
    let read = async {
        loop {
            match hello::peek(&bytes) {
                Peek::Name(name) => return Some(Ok(name)),
                Peek::Refused(why) => return Some(Err(why)),
                Peek::More => {}
            }
            let mut block = [0; 4096];
            let room = block.len().min(hello::MAX_BYTES - bytes.len());
            match client.read(&mut block[..room]).await {
                Ok(length @ 1..) => bytes.extend_from_slice(&block[..length]),
                _ => return None,
            }
        }
    };
    let host = authority.host();
    let named = match tokio::time::timeout(HELLO_TIMEOUT, read).await {
        Ok(Some(Ok(name))) => name,
        Ok(Some(Err(why))) => {
            return Err(Refusal::OtherName(format!("the connection to {host} was cut: {why}")));
        }
        Ok(None) => return Ok(None),
        Err(_) => {
            return Err(Refusal::OtherName(format!(
                "the connection to {host} was cut: it did not begin with TLS in time"
            )));
        }
    };
    // TLS has no names for IP addresses.
    let is_same = match &named {
        Some(name) => name == host,
        None => authority.is_literal(),
    };
    match is_same {
        true => Ok(Some(bytes)),
        false => Err(Refusal::OtherName(format!(
            "the connection to {host} was cut: inside it names {}",
            named.as_deref().unwrap_or("no host")
        ))),
    }
}

#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// Passes bytes on until one side ends or is silent for long.
async fn pump(
    shared: &Shared,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    way: Way,
) -> Result<(), Refusal> {
    let mut block = vec![0; BLOCK];
    loop {
        let read = tokio::time::timeout(IDLE_TIMEOUT, from.read(&mut block)).await;
        let Ok(Ok(length @ 1..)) = read else { break };
        match way {
            Way::Up => shared.meter.sent(length)?,
            Way::Down => shared.meter.received(length)?,
        }
        if to.write_all(&block[..length]).await.is_err() {
            break;
        }
        shared.meter.pace(length).await;
    }
    let _ = to.shutdown().await;
    Ok(())
}
