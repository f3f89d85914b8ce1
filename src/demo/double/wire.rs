//! Connections that can be torn, so that a client sees a reset where GitHub's load balancer or a
//! bad network would have caused one. Called by `server`. Never tears one by itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// When the system has no descriptors left, asking again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listening socket.
pub(super) struct Wire(TcpListener);

impl Wire {
    pub(super) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        Ok(Self(listener.context("listen on a loopback port")?))
    }

    pub(super) fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.0.local_addr()
    }
}

impl Listener for Wire {
    type Io = Line;
    type Addr = Shears;

    async fn accept(&mut self) -> (Line, Shears) {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let shears = Shears::default();
                    let line = Line {
                        stream,
                        shears: shears.clone(),
                    };
                    return (line, shears);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection to the GitHub double was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Shears> {
        Ok(Shears::default())
    }
}

/// Cuts the connection they belong to.
#[derive(Debug, Clone, Default)]
pub(super) struct Shears(Arc<AtomicBool>);

impl Shears {
    /// The next byte that would be written tears the connection.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Connected<IncomingStream<'_, Wire>> for Shears {
    fn connect_info(stream: IncomingStream<'_, Wire>) -> Self {
        stream.remote_addr().clone()
    }
}

/// One accepted connection.
pub(super) struct Line {
    stream: TcpStream,
    shears: Shears,
}

impl Line {
    fn whole(&self) -> io::Result<()> {
        if self.shears.0.load(Ordering::Acquire) {
            // Closing without lingering sends a reset instead of a polite end.
            let _ = self.stream.set_zero_linger();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
