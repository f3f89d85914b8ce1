//! Reads the body of a request that nobody vouches for yet: bounded in bytes and time, hashed
//! while it streams, and put into a file when it is large, so that strangers cannot fill the
//! memory. Called by the receiver. Never looks into what it reads.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::secret::Secret;

/// GitHub sends no larger payloads.
pub(super) const MAX_BODY_BYTES: u64 = 25 * 1024 * 1024;

/// More of a body goes into a file. Nearly all deliveries are smaller.
const MAX_MEMORY_BYTES: usize = 64 * 1024;

/// GitHub gives up on a delivery after ten seconds; so does a sender that trickles.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// More than `MAX_BODY_BYTES`.
    TooLarge,
    /// It took longer than `READ_TIMEOUT`.
    TooSlow,
    /// The connection broke.
    Broken,
    /// No temporary file could be written or read.
    NoSpace(std::io::Error),
}

/// A whole body whose sender is not known yet.
pub(super) struct Unverified {
    content: Content,
    length: u64,
    macs: Vec<Hmac<Sha256>>,
}

enum Content {
    Memory(Vec<u8>),
    File(File),
}

impl Unverified {
    /// Reads a body to its end.
    pub(super) async fn read(body: Body, secrets: &[Secret]) -> Result<Self, BodyError> {
        match tokio::time::timeout(READ_TIMEOUT, Self::read_all(body, secrets)).await {
            Ok(result) => result,
            Err(_) => Err(BodyError::TooSlow),
        }
    }

    async fn read_all(body: Body, secrets: &[Secret]) -> Result<Self, BodyError> {
        let mac = |secret: &Secret| Hmac::new_from_slice(secret.expose().as_bytes()).ok();
        let macs = secrets.iter().filter_map(mac).collect();
        let mut read = Self {
            content: Content::Memory(Vec::new()),
            length: 0,
            macs,
        };
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| BodyError::Broken)?;
            read.length += chunk.len() as u64;
            if read.length > MAX_BODY_BYTES {
                return Err(BodyError::TooLarge);
            }
            for mac in &mut read.macs {
                mac.update(&chunk);
            }
            read.keep(&chunk).await.map_err(BodyError::NoSpace)?;
        }
        Ok(read)
    }

    async fn keep(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        if let Content::Memory(bytes) = &mut self.content {
            if bytes.len() + chunk.len() <= MAX_MEMORY_BYTES {
                bytes.extend_from_slice(chunk);
                return Ok(());
            }
            let file = tokio::task::spawn_blocking(tempfile::tempfile)
                .await
                .map_err(std::io::Error::other)??;
            let mut file = File::from_std(file);
            file.write_all(bytes).await?;
            self.content = Content::File(file);
        }
        match &mut self.content {
            Content::File(file) => file.write_all(chunk).await,
            Content::Memory(_) => Ok(()),
        }
    }

    /// Whether it is large and lies in a file.
    pub(super) fn is_large(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    /// The bytes, if one of the secrets signed them. Each comparison takes constant time.
    pub(super) async fn verified(self, signature: &[u8; 32]) -> Result<Option<Vec<u8>>, BodyError> {
        let mut signed = false;
        for mac in self.macs {
            signed |= mac.verify_slice(signature).is_ok();
        }
        if !signed {
            return Ok(None);
        }
        match self.content {
            Content::Memory(bytes) => Ok(Some(bytes)),
            Content::File(file) => load(file, self.length).await.map(Some).map_err(BodyError::NoSpace),
        }
    }
}

async fn load(mut file: File, length: u64) -> std::io::Result<Vec<u8>> {
    file.flush().await?;
    file.rewind().await?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(length).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
