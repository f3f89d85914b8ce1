//! An address of the web in its one canonical form: what is matched, resolved and connected to is
//! the same string. Called by `net`. Never mends an address: what could be read in two ways is
//! refused.

use std::net::IpAddr;

use url::{Host, Url};

use super::NetError;

/// Longest address.
const MAX_URL_BYTES: usize = 2_000;

/// Longest name of a host in DNS.
const MAX_HOST_BYTES: usize = 253;

/// A vetted form of an http or https address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    host: String,
}

fn refused<T>(words: impl Into<String>) -> Result<T, NetError> {
    Err(NetError::Refused(words.into()))
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let text = text.trim_matches(' ');
        if text.len() > MAX_URL_BYTES {
            return refused(format!("the address is longer than {MAX_URL_BYTES} bytes"));
        }
        // The parser would drop some of these and turn others into something else.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return refused("the address holds white space, control characters or a backslash");
        }
        let lower = text.to_ascii_lowercase();
        let Some(rest) = ["https://", "http://"]
            .iter()
            .find_map(|scheme| lower.strip_prefix(scheme))
        else {
            return refused("an address begins with https:// or http://");
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() || authority.contains(['@', '%', '*']) {
            return refused("there is no host, or it holds a user name, an escape or a `*`");
        }
        let mut url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return refused(format!("this is no address: {error}")),
        };
        url.set_fragment(None);
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(ip @ (Host::Ipv4(_) | Host::Ipv6(_))) => {
                let written = authority.strip_suffix(&port_suffix(&url)).unwrap_or(authority);
                if written != ip.to_string() {
                    return refused(format!("the IP address is written in an odd way; {ip} is meant"));
                }
                ip.to_string()
            }
            None => return refused("the address has no host"),
        };
        if host.len() > MAX_HOST_BYTES || host.ends_with('.') || host.split('.').any(|label| label.len() > 63) {
            return refused("the host is no name of DNS");
        }
        Ok(Self { url, host })
    }

    /// The address itself.
    pub fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn into_url(self) -> Url {
        self.url
    }

    /// The host in its canonical form.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, given or usual.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(443)
    }

    /// The IP address that stands for the host.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
            Host::Domain(_) => None,
        }
    }

    /// Refuses ports that are not the web's, and names that are never public.
    pub(super) fn check_public_name(&self) -> Result<(), NetError> {
        if !matches!(self.port(), 80 | 443) {
            return refused(format!("port {} is not 80 or 443", self.port()));
        }
        let private = [
            "localhost",
            "local",
            "internal",
            "intranet",
            "lan",
            "home.arpa",
            "onion",
        ];
        let is_private = |suffix: &str| {
            self.host
                .strip_suffix(suffix)
                .is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
        };
        if self.literal().is_none() && (!self.host.contains('.') || private.into_iter().any(is_private)) {
            return refused(format!("{} is a name of a private network", self.host));
        }
        Ok(())
    }

    /// Where a redirect from here leads.
    pub(super) fn redirected(&self, location: &str) -> Result<Self, NetError> {
        if location
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == '\\')
            || location.is_empty()
        {
            return refused(format!("{} redirects to what is no address", self.url));
        }
        let Ok(joined) = self.url.join(location) else {
            return refused(format!("{} redirects to what is no address", self.url));
        };
        // Of an absolute address the text itself is read, since joining mends what it may not.
        let is_absolute = Url::parse(location).is_ok();
        let next = Self::parse(if is_absolute { location } else { joined.as_str() });
        let next = match next {
            Ok(next) => next,
            Err(error) => return refused(format!("{} redirects somewhere else ({error})", self.url)),
        };
        if self.url.scheme() == "https" && next.url.scheme() != "https" {
            return refused(format!("{} redirects from https to http", self.url));
        }
        Ok(next)
    }
}

fn port_suffix(url: &Url) -> String {
    match url.port_or_known_default() {
        Some(port) => format!(":{port}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, u16)>) {
        let read = Address::parse(text);
        let read = read.as_ref().ok().map(|address| (address.host(), address.port()));
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn n03_only_one_way_to_write_a_host_is_read() {
        check("https://github.com/a?b#c", Some(("github.com", 443)));
        check("http://GITHUB.COM", Some(("github.com", 80)));
        check("https://bücher.example/", Some(("xn--bcher-kva.example", 443)));
        check("https://github.com:443/x@y", Some(("github.com", 443)));
        for text in [
            "https://evil.com\0.github.com/",
            "https://evil.com\r\n.github.com/",
            "https://github.com/\r\nHost: x",
            "https://evil.com%00.github.com/",
            "https://evil.com%2egithub.com/",
            "https://github.com./",
            "https://github.com:443@evil/",
            "https://user:pw@github.com/",
            "https://github.com\\@evil.com/",
            "https://git hub.com/",
            "https://git\thub.com/",
            "https:///github.com",
            "https:github.com",
            "//github.com",
            "ftp://github.com",
            "file:///etc/passwd",
            "data:text/plain,x",
            "javascript:1",
            "https://",
            "https://:443/",
            "https://github.com:99999/",
            "",
        ] {
            check(text, None);
        }
        check(&format!("https://{}.com/", "a".repeat(64)), None);
        check(&format!("https://{}com/", "a.".repeat(130)), None);
        check(&format!("https://github.com/{}", "a".repeat(2_000)), None);
    }

    #[test]
    fn n04_odd_spellings_of_ip_addresses_are_refused() {
        check("http://127.0.0.1/", Some(("127.0.0.1", 80)));
        check("http://[::1]/", Some(("[::1]", 80)));
        check("http://127.0.0.1:80/", Some(("127.0.0.1", 80)));
        for text in [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.1/",
            "http://127.0.0.01/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://１２７.0.0.1/",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn names_and_ports_of_private_networks_are_no_public_ones() {
        for text in [
            "http://localhost/",
            "http://a.localhost/",
            "http://metadata.google.internal/",
            "http://printer/",
            "http://nas.local/",
            "http://github.com:22/",
            "http://github.com:8080/",
        ] {
            assert!(Address::parse(text).unwrap().check_public_name().is_err(), "{text}");
        }
        assert!(
            Address::parse("http://notlocalhost.com:443/")
                .unwrap()
                .check_public_name()
                .is_ok()
        );
    }

    #[test]
    fn n06_a_redirect_is_read_as_strictly() {
        let from = Address::parse("https://docs.rs/a/b").unwrap();
        let to = |location: &str| from.redirected(location).ok().map(|next| next.url.to_string());
        assert_eq!(to("c").as_deref(), Some("https://docs.rs/a/c"));
        assert_eq!(to("/c?d").as_deref(), Some("https://docs.rs/c?d"));
        assert_eq!(to("https://crates.io/").as_deref(), Some("https://crates.io/"));
        assert_eq!(to("//crates.io/x").as_deref(), Some("https://crates.io/x"));
        for location in [
            "http://docs.rs/",
            "file:///etc/passwd",
            "javascript:1",
            "https://u@docs.rs/",
            "https://2130706433/",
            "/a\r\nb",
            "",
        ] {
            assert_eq!(to(location), None, "{location:?}");
        }
    }
}
