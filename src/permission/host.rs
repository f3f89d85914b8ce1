//! Rules about hosts: an exact name or `*.suffix` on a label boundary. Used by the rules of
//! permission and by the network. Never matches a part of a label, and never a bare `*`.

use url::Host;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRule {
    /// This host and no other.
    Exact(String),
    /// Every host below this domain, and not the domain itself.
    Below(String),
}

impl HostRule {
    /// Reads `docs.rs` or `*.rust-lang.org`. Names are brought into the form in which they are
    /// resolved: lowercase A-labels.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, is_suffix) = match text.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (text, false),
        };
        if name == "*" || text == "*" {
            return Err("`*` is every host; spell that out as unsafe_allow_all = true".to_owned());
        }
        let plain = |c: char| c.is_alphanumeric() || "-._:[]".contains(c);
        if name.is_empty() || name.ends_with('.') || name.starts_with('.') || !name.chars().all(plain) {
            return Err(format!("{text:?} is no host; write `docs.rs` or `*.rust-lang.org`"));
        }
        let host = Host::parse(name).map_err(|error| format!("{text:?} is no host: {error}"))?;
        match (host, is_suffix) {
            (Host::Domain(domain), true) if !domain.contains('.') => {
                Err(format!("{text:?} is a whole top-level domain; name a domain below it"))
            }
            (Host::Domain(domain), true) => Ok(Self::Below(domain)),
            (_, true) => Err(format!("{text:?}: an IP address has nothing below it")),
            (host, false) => Ok(Self::Exact(host.to_string())),
        }
    }

    /// Whether the rule covers a host, which is in its canonical form already.
    pub fn covers(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|labels| labels.len() > 1 && labels.ends_with('.')),
        }
    }

    /// Length of what is fixed in the rule.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Exact(name) | Self::Below(name) => name.len(),
        }
    }
}

/// Reads `search.intranet:8080`, the host in its canonical form.
///
/// # Errors
/// What is wrong with it, in words.
pub fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text:?} is not HOST:PORT, such as `search.intranet:8080`");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    match HostRule::parse(host) {
        Ok(HostRule::Exact(host)) => Ok((host, port)),
        Ok(HostRule::Below(_)) | Err(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, host: &str, covered: bool) {
        assert_eq!(HostRule::parse(rule).unwrap().covers(host), covered, "{rule} {host}");
    }

    #[test]
    fn n03_only_whole_labels_match() {
        check("github.com", "github.com", true);
        check("GitHub.COM", "github.com", true);
        check("github.com", "evilgithub.com", false);
        check("github.com", "github.com.evil.com", false);
        check("github.com", "api.github.com", false);
        check("*.github.com", "api.github.com", true);
        check("*.github.com", "a.b.github.com", true);
        check("*.github.com", "github.com", false);
        check("*.github.com", "evilgithub.com", false);
        check("*.github.com", ".github.com", false);
        check("bücher.example", "xn--bcher-kva.example", true);
        check("[::1]", "[::1]", true);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "*",
            "*.",
            "*.*",
            "*.com",
            "",
            "a b",
            "git*hub.com",
            "github.com.",
            "http://a.b",
            "a/b",
            "u@a.b",
            "a%00.b",
            "*.127.0.0.1",
            ".a.b",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn private_servers_are_named_with_their_port() {
        for (text, host, port) in [
            ("127.0.0.1:8080", "127.0.0.1", 8080),
            ("Search.intranet:80", "search.intranet", 80),
            ("[::1]:81", "[::1]", 81),
        ] {
            assert_eq!(host_and_port(text), Ok((host.to_owned(), port)));
        }
        for text in [
            "127.0.0.1",
            "x:",
            "x:99999",
            "http://x:80",
            "x:80/y",
            "*:80",
            "*.a.b:80",
            "u@x:80",
            ":80",
        ] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }
}
