//! Text from the web. An address is parsed once, its host is resolved once, every resolved address
//! is vetted and the connection goes to a vetted one and nowhere else; each redirect is vetted
//! again. Called by the tools of the web. A page is only ever asked for with GET.
//! Never follows a redirect to a host that nobody allowed, and never uses a proxy of the environment
//! for a page.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{StatusCode, header};
use url::Url;

use crate::config::WebConfig;
use crate::permission::HostRule;
use crate::secret::Secret;

mod address;
mod body;
mod hook;
mod vet;
mod vetting;

pub use address::Address;
pub use hook::{Hook, HookError, signature};
pub use vet::is_public;
pub use vetting::{Resolve, Vetting};

/// Redirects of one fetch.
const MAX_REDIRECTS: usize = 5;

/// Longest time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address or where it leads is not allowed; nothing was sent there.
    #[error("refused: {0}")]
    Refused(String),
    /// It may be fetched and could not.
    #[error("{0}")]
    Failed(String),
}

/// Where a fetch may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Hosts of `web.hosts` only.
    Listed,
    /// The host of the address, which was permitted, and hosts of `web.hosts`.
    Permitted,
}

/// What is fetched.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a> {
    /// From where.
    pub address: &'a Address,
    /// Where it may lead.
    pub reach: Reach,
    /// The media types that are of use.
    pub accept: &'a str,
    /// A token for this host. With one, no redirect is followed.
    pub bearer: Option<&'a Secret>,
}

/// Text that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it was in the end.
    pub url: Url,
    /// The status.
    pub status: u16,
    /// The media type without parameters, in lower case; empty when the server named none.
    pub media_type: String,
    /// The text.
    pub text: String,
    /// Whether the text goes on.
    pub is_cut: bool,
}

/// The web as it may be reached.
#[derive(Clone)]
pub struct Net {
    vetting: Vetting,
    hosts: Vec<HostRule>,
    is_open: bool,
    timeout: Duration,
    max_bytes: usize,
}

impl Net {
    /// With the resolver of this machine.
    ///
    /// # Errors
    /// Every wrong value of `[web]`, with its key.
    pub fn new(config: &WebConfig) -> Result<Self, Vec<String>> {
        Self::vetted_by(config, Vetting::new("web.allow_private", &config.allow_private)?)
    }

    /// With another resolver, for machines that have their own way to names.
    ///
    /// # Errors
    /// As [`Net::new`].
    pub fn with_resolver(config: &WebConfig, resolver: Arc<dyn Resolve>) -> Result<Self, Vec<String>> {
        let vetting = Vetting::new("web.allow_private", &config.allow_private)?;
        Self::vetted_by(config, vetting.with_resolver(resolver))
    }

    fn vetted_by(config: &WebConfig, vetting: Vetting) -> Result<Self, Vec<String>> {
        Ok(Self {
            vetting,
            hosts: host_rules("web.hosts", &config.hosts)?,
            is_open: config.unsafe_allow_all,
            timeout: config.timeout_seconds,
            max_bytes: usize::try_from(config.max_page_kib.saturating_mul(1024)).unwrap_or(usize::MAX),
        })
    }

    /// Whether a host is one that needs no permission.
    pub fn lists(&self, host: &str) -> bool {
        self.is_open || self.hosts.iter().any(|rule| rule.covers(host))
    }

    /// Fetches text, within the time limit of the configuration.
    ///
    /// # Errors
    /// [`NetError`].
    pub async fn get(&self, get: Get<'_>) -> Result<Page, NetError> {
        match tokio::time::timeout(self.timeout, self.follow(get)).await {
            Ok(result) => result,
            Err(_) => Err(NetError::Failed(format!(
                "{} did not answer within {}",
                get.address.host(),
                crate::text::duration_in_words(self.timeout)
            ))),
        }
    }

    async fn follow(&self, get: Get<'_>) -> Result<Page, NetError> {
        let mut address = get.address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let is_first = address.host() == get.address.host();
            if !(self.lists(address.host()) || (is_first && get.reach == Reach::Permitted)) {
                let words = if is_first {
                    format!("{} is not among the hosts that this run may reach", address.host())
                } else {
                    format!(
                        "it redirects to another host, {}; if that is what you want, fetch it by its own address",
                        address.url()
                    )
                };
                return Err(NetError::Refused(words));
            }
            let response = self.send(&address, get).await?;
            match redirect(&response) {
                None => return self.read(address, response).await,
                Some(_) if get.bearer.is_some() => {
                    return Err(NetError::Failed(format!(
                        "{} redirects, which is not followed",
                        address.url()
                    )));
                }
                Some(to) => address = address.redirected(&to)?,
            }
        }
        Err(NetError::Failed(format!(
            "{} redirects more than {MAX_REDIRECTS} times",
            get.address.url()
        )))
    }

    /// One request, on a connection to an address that was vetted just before.
    async fn send(&self, address: &Address, get: Get<'_>) -> Result<reqwest::Response, NetError> {
        let vetted = self.vetting.addresses(address).await?;
        let failed = |error: reqwest::Error| {
            NetError::Failed(format!("{} cannot be reached: {}", address.host(), in_words(&error)))
        };
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .https_only(address.url().scheme() == "https")
            .resolve_to_addrs(address.host(), &vetted)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(self.timeout)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("forgehand/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(failed)?;
        let mut request = client.get(address.url().clone()).header(header::ACCEPT, get.accept);
        if let Some(token) = get.bearer {
            request = request.bearer_auth(token.expose());
        }
        request.send().await.map_err(failed)
    }

    async fn read(&self, address: Address, response: reqwest::Response) -> Result<Page, NetError> {
        let status = response.status().as_u16();
        let body = body::read(response, self.max_bytes).await?;
        Ok(Page {
            url: address.into_url(),
            status,
            media_type: body.media_type,
            text: body.text,
            is_cut: body.is_cut,
        })
    }
}

/// The rules of a list of hosts, which stands under `key`.
///
/// # Errors
/// Every host that is none, with the key.
pub fn host_rules(key: &str, hosts: &[String]) -> Result<Vec<HostRule>, Vec<String>> {
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for host in hosts {
        match HostRule::parse(host) {
            Ok(rule) => rules.push(rule),
            Err(problem) => problems.push(format!("{key}: {problem}")),
        }
    }
    if problems.is_empty() { Ok(rules) } else { Err(problems) }
}

/// Where a redirect leads.
fn redirect(response: &reqwest::Response) -> Option<String> {
    let follows = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let to = response.headers().get(header::LOCATION).filter(|_| follows)?;
    Some(to.to_str().unwrap_or_default().to_owned())
}

/// An error with its innermost cause, without the address.
fn in_words(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    crate::text::cap_chars(&cause.to_string(), 200)
}
