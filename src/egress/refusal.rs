//! Why something may not go out, in words for the model and for people, with the one line of
//! configuration that would let it. Called by every part of the proxy. Never a mere "no".

use hyper::StatusCode;

/// Why a request ends at the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It can be read in two ways, or not at all.
    Malformed(String),
    /// No rule of the service names the host.
    NotListed { host: String },
    /// The repository's own list leaves the host out.
    Narrowed { host: String },
    /// Where the name leads, or its port, is not what may be connected to.
    Private { host: String, port: u16, why: String },
    /// The host has no address, or does not answer.
    Unreachable(String),
    /// What is inside the connection names another host, or none.
    OtherName(String),
    /// Not what may be asked of this host.
    Method(String),
    /// A registry is asked for something else than packages.
    Path(String),
    /// A registry is reached by http through the proxy, which speaks TLS itself.
    Tunnel { host: String },
    /// A cap of the run is used up.
    Spent(String),
}

impl Refusal {
    /// One sentence without a full stop.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Malformed(why) => format!("the request is not one that can be passed on: {why}"),
            Self::NotListed { host } => format!("no entry of `egress.hosts` covers {host}"),
            Self::Narrowed { host } => format!("the repository's own list of hosts leaves {host} out"),
            Self::Private { why, .. } | Self::Unreachable(why) | Self::OtherName(why) => why.clone(),
            Self::Method(why) | Self::Path(why) | Self::Spent(why) => why.clone(),
            Self::Tunnel { host } => {
                format!("{host} is a registry: it is asked as http://{host}/ through the proxy, which speaks TLS to it")
            }
        }
    }

    /// The line that would let it through, and the file it belongs to. What is listed already is not
    /// shown: it may name servers of a private network, and comments are public.
    pub(super) fn remedy(&self) -> Option<String> {
        match self {
            // Nobody should be talked into opening a number, least of all one of a private network.
            Self::NotListed { host } if is_number(host) => None,
            Self::NotListed { host } => Some(format!("egress.hosts = [..., \"{host}\"] in forgehand.toml")),
            Self::Narrowed { host } => Some(format!("egress = [..., \"{host}\"] in .github/forgehand.toml")),
            Self::Private { host, port, .. } => Some(format!(
                "egress.allow_private = [..., \"{host}:{port}\"] in forgehand.toml"
            )),
            Self::Malformed(_)
            | Self::Unreachable(_)
            | Self::OtherName(_)
            | Self::Method(_)
            | Self::Path(_)
            | Self::Tunnel { .. }
            | Self::Spent(_) => None,
        }
    }

    /// How the proxy answers.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Spent(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NotListed { .. }
            | Self::Narrowed { .. }
            | Self::Private { .. }
            | Self::OtherName(_)
            | Self::Path(_)
            | Self::Tunnel { .. } => StatusCode::FORBIDDEN,
        }
    }

    /// Whether policy says no, as opposed to a server that is down.
    pub(super) fn is_policy(&self) -> bool {
        !matches!(self, Self::Unreachable(_))
    }
}

fn is_number(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_offered_for_names_alone() {
        let remedy = |host: &str| Refusal::NotListed { host: host.to_owned() }.remedy();
        assert_eq!(
            remedy("docs.rs").as_deref(),
            Some("egress.hosts = [..., \"docs.rs\"] in forgehand.toml")
        );
        assert_eq!(remedy("169.254.169.254"), None);
        assert_eq!(remedy("[fd00::1]"), None);
        assert_eq!(Refusal::Unreachable("gone".to_owned()).remedy(), None);
    }
}
