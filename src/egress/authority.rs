//! `HOST:PORT` as a client of the proxy asks for it, read once: the canonical string that comes out
//! is what is matched, resolved, connected to and compared with names inside the connection.
//! Never mends what could be read in two ways.

use crate::net::{Address, NetError};

/// A name of DNS has 253 bytes at most; brackets, a colon and a port come to it.
const MAX_BYTES: usize = 262;

/// A host in its canonical form with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    address: Address,
}

impl Authority {
    /// Reads `HOST:PORT`, as in a request line of CONNECT.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = split(text)?;
        let port = port.ok_or("there is no port")?;
        Self::of(host, port)
    }

    /// Reads `HOST` or `HOST:PORT`, as in an address of http or in a header `Host`.
    pub(super) fn with_usual_port(text: &str, usual: u16) -> Result<Self, String> {
        let (host, port) = split(text)?;
        Self::of(host, port.unwrap_or(usual))
    }

    fn of(host: &str, port: u16) -> Result<Self, String> {
        // The scheme only gives the reader something to read; https brings no port of its own here.
        match Address::parse(&format!("https://{host}:{port}/")) {
            Ok(address) if address.port() == port && is_canonical(&address) => Ok(Self { address }),
            Ok(_) => Err("the host is no name of DNS".to_owned()),
            Err(NetError::Refused(why) | NetError::Failed(why)) => Err(why),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn host(&self) -> &str {
        self.address.host()
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Whether an IP address stands for the host, for which TLS has no name.
    pub(super) fn is_literal(&self) -> bool {
        self.address.literal().is_some()
    }
}

/// An IP address, or labels of letters, digits, hyphens and underscores, none of them empty: what
/// resolvers, certificates and headers all read the same.
fn is_canonical(address: &Address) -> bool {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let is_label = |label: &str| !label.is_empty() && label.chars().all(usual);
    address.literal().is_some() || address.host().split('.').all(is_label)
}

/// Host and port, of which nothing but the characters was looked at.
fn split(text: &str) -> Result<(&str, Option<u16>), String> {
    if text.len() > MAX_BYTES {
        return Err("the host is too long".to_owned());
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || "/\\?#@%*<>\"'`{}|^,;".contains(c);
    if text.is_empty() || text.chars().any(odd) {
        return Err("the host is empty or holds a character that no host has".to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']').ok_or("a bracket is not closed")?;
            let (host, port) = text.split_at(end + 2);
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err("something follows the bracket".to_owned()),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let Some(port) = port else { return Ok((host, None)) };
    match port.parse::<u16>() {
        // The number written in the one usual way: no sign, no zeros before it.
        Ok(number) if number > 0 && number.to_string() == port => Ok((host, Some(number))),
        _ => Err("the port is no number from 1 to 65535".to_owned()),
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, u16)>) {
        let read = Authority::parse(text);
        let read = read.as_ref().ok().map(|authority| (authority.host(), authority.port()));
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn n03_one_spelling_of_a_host_is_read() {
        check("github.com:443", Some(("github.com", 443)));
        check("GITHUB.COM:443", Some(("github.com", 443)));
        check("bücher.example:443", Some(("xn--bcher-kva.example", 443)));
        check("xn--bcher-kva.example:443", Some(("xn--bcher-kva.example", 443)));
        check("github.com:80", Some(("github.com", 80)));
        check("127.0.0.1:8080", Some(("127.0.0.1", 8080)));
        check("[::1]:443", Some(("[::1]", 443)));
        for text in [
            "evil.com\0.github.com:443",
            "github.com\r\n:443",
            "github.com:443\r\nHost: evil",
            "evil.com%00.github.com:443",
            "evil.com%2egithub.com:443",
            "github.com.:443",
            "github.com:443@evil.com",
            "user@github.com:443",
            "github.com",
            "github.com:",
            "github.com:0",
            "github.com:+443",
            "github.com:0443",
            "github.com:65536",
            "github.com:443:443",
            "github.com:443/",
            "github.com:443?x",
            "github.com:443#x",
            "github.com\\evil.com:443",
            "git hub.com:443",
            "*.github.com:443",
            "github..com:443",
            "~.com:443",
            "a$b.com:443",
            ".github.com:443",
            ":443",
            "",
        ] {
            check(text, None);
        }
        check(&format!("{}.com:443", "a".repeat(64)), None);
        check(&format!("{}com:443", "a.".repeat(126)), None);
    }

    #[test]
    fn n04_odd_spellings_of_ip_addresses_are_refused() {
        for text in [
            "2130706433:80",
            "0x7f.1:80",
            "0x7f000001:80",
            "017700000001:80",
            "127.1:80",
            "127.0.0.01:80",
            "[::ffff:127.0.0.1]:80",
            "[0:0:0:0:0:0:0:1]:80",
            "[::1%25lo]:80",
            "[::1:80",
            "[::1]80",
            "::1:80",
            "１２７.0.0.1:80",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_usual_port_stands_in_for_none() {
        let read = |text| Authority::with_usual_port(text, 80).map(|read| (read.host().to_owned(), read.port()));
        assert_eq!(read("docs.rs"), Ok(("docs.rs".to_owned(), 80)));
        assert_eq!(read("docs.rs:81"), Ok(("docs.rs".to_owned(), 81)));
        assert_eq!(read("[::1]"), Ok(("[::1]".to_owned(), 80)));
        assert!(read("docs.rs:").is_err() && read("docs.rs/x").is_err());
    }

    /// Whatever is read is canonical: reading it again gives the same, and it holds nothing that a
    /// header or a resolver could read differently.
    #[test]
    fn n03_what_is_read_is_read_the_same_again() {
        /// Another seed explores other texts; a failure prints it.
        const SEED: [u8; 32] = *b"forgehand reads an authority 001";
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
        let mut runner = TestRunner::new_with_rng(Config::with_cases(4_000), rng);
        let pieces = prop_oneof![
            r"[a-zA-Z0-9.:@%\[\]\-_/\\?#*]{0,30}",
            "[a-z0-9-]{1,12}(\\.[a-z0-9-]{1,8}){0,3}:[0-9]{1,5}",
            any::<String>(),
            "\\PC{0,12}\\.com:443",
        ];
        let result = runner.run(&pieces, |text| {
            if let Ok(read) = Authority::parse(&text) {
                let written = format!("{}:{}", read.host(), read.port());
                let again = Authority::parse(&written);
                prop_assert_eq!(again.as_ref(), Ok(&read));
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._[]:".contains(c);
                prop_assert!(read.host().chars().all(plain), "{}", read.host());
                prop_assert!(read.host().len() <= 253 && !read.host().ends_with('.'));
            }
            Ok(())
        });
        assert!(
            result.is_ok(),
            "seed {:?}: {}",
            std::str::from_utf8(&SEED),
            result.unwrap_err()
        );
    }
}
