//! From a name to addresses that may be connected to: resolved once, and refused if any of them is
//! of a private network that nobody named. Called by `net`'s own fetches and by the proxy of
//! sandboxes. Never hands out an address that it did not look at.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;

use super::vet::is_public;
use super::{Address, NetError};
use crate::permission::host_and_port;

/// Addresses of one host that are looked at; more is nobody's real answer.
const MAX_ADDRESSES: usize = 64;

/// Turns the name of a host into addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Every address of a host.
    ///
    /// # Errors
    /// When there are none, or nobody answers.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The resolver of this machine.
struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// How addresses are found and judged.
#[derive(Clone)]
pub struct Vetting {
    resolver: Arc<dyn Resolve>,
    /// Where addresses of a private network are meant.
    private: Vec<(String, u16)>,
    /// The configuration key that names them.
    key: &'static str,
}

impl Vetting {
    /// With the resolver of this machine. `private` are the `HOST:PORT` that stand under `key`.
    ///
    /// # Errors
    /// Every entry that is no `HOST:PORT`, with the key.
    pub fn new(key: &'static str, private: &[String]) -> Result<Self, Vec<String>> {
        let private = private.iter().map(|entry| host_and_port(entry));
        let private = private
            .collect::<Result<_, _>>()
            .map_err(|problem| vec![format!("{key}: {problem}")])?;
        Ok(Self {
            resolver: Arc::new(SystemResolver),
            private,
            key,
        })
    }

    /// With the resolver of this machine and nothing private that is meant.
    pub fn public_only() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            private: Vec::new(),
            key: "",
        }
    }

    /// The same with another resolver.
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// The addresses of a host with the port, all of them vetted.
    ///
    /// # Errors
    /// [`NetError::Refused`] for other ports than 80 and 443 and for private networks, unless they
    /// are meant; [`NetError::Failed`] when there is no answer.
    pub async fn addresses(&self, address: &Address) -> Result<Vec<SocketAddr>, NetError> {
        let (host, port) = (address.host(), address.port());
        let is_meant = self.private.iter().any(|(name, open)| name == host && *open == port);
        if !is_meant {
            address.check_public_name()?;
        }
        let found = match address.literal() {
            Some(ip) => vec![ip],
            None => self
                .resolver
                .resolve(host)
                .await
                .map_err(|error| NetError::Failed(format!("{host} cannot be resolved: {error}")))?,
        };
        if found.is_empty() || found.len() > MAX_ADDRESSES {
            return Err(NetError::Failed(format!("{host} has {} addresses", found.len())));
        }
        if let Some(ip) = found.iter().find(|ip| !is_public(**ip))
            && !is_meant
        {
            return Err(NetError::Refused(format!(
                "{host} leads to {ip}, which is no public address ({} names those that are meant)",
                self.key
            )));
        }
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}
