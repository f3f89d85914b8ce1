//! Which repository the remote of a checkout is, read strictly: the host must be the configured one,
//! letter by letter, and the path must be `owner/name`. Never guesses from a word within an address.

use url::Url;

use crate::ids::RepoName;

/// Longest address that is read.
const MAX_ADDRESS: usize = 2_000;

/// The repository of a remote's address on the host of `web_url` (`github.web_url`). W23, G22, G25.
///
/// # Errors
/// In words, with what is wrong about the address. Passwords in it are not repeated.
pub(super) fn repository_of(address: &str, web_url: &str) -> Result<RepoName, String> {
    let ours = Url::parse(web_url).map_err(|_| format!("github.web_url {web_url:?} is not an address"))?;
    let host = ours.host_str().unwrap_or_default().to_lowercase();
    if address.len() > MAX_ADDRESS {
        return Err("the remote's address is too long".to_owned());
    }
    let parsed = match Url::parse(address) {
        Ok(url) if url.has_host() => from_url(&url, &ours)?,
        // `user@host:owner/name`; a path of this machine has a slash before any colon.
        _ => from_scp(address)?,
    };
    if parsed.host != host {
        return Err(format!("the remote is on {}, not on {host}", parsed.host));
    }
    let path = parsed.path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    path.parse()
        .map_err(|_| format!("the remote's path {path:?} is not owner/name"))
}

struct Parsed {
    host: String,
    path: String,
}

fn from_url(url: &Url, ours: &Url) -> Result<Parsed, String> {
    let host = url.host_str().unwrap_or_default().to_lowercase();
    let is_web = matches!(url.scheme(), "https" | "http");
    if !is_web && !matches!(url.scheme(), "ssh" | "git+ssh" | "git") {
        return Err(format!("the remote is no address of a host: {}:", url.scheme()));
    }
    // Another port is another server; SSH and git have ports of their own.
    if is_web && url.port_or_known_default() != ours.port_or_known_default() {
        let port = url.port_or_known_default().unwrap_or_default();
        return Err(format!(
            "the remote is on port {port} of {host}, which is another server"
        ));
    }
    // Query and fragment are no part of the path.
    Ok(Parsed {
        host,
        path: url.path().to_owned(),
    })
}

fn from_scp(address: &str) -> Result<Parsed, String> {
    let no_address = || "the remote is a path of this machine, not an address of a host".to_owned();
    let (before, path) = address.split_once(':').ok_or_else(no_address)?;
    if before.is_empty()
        || before.contains('/')
        || before.starts_with('.')
        || path.starts_with('/') && path.contains("//")
    {
        return Err(no_address());
    }
    let host = before.rsplit('@').next().unwrap_or_default();
    let is_host = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    if !is_host {
        return Err(no_address());
    }
    Ok(Parsed {
        host: host.to_lowercase(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: &str) {
        check_on(address, "https://github.com", expected);
    }

    #[track_caller]
    fn check_on(address: &str, web_url: &str, expected: &str) {
        let found = repository_of(address, web_url).map_or_else(|why| why, |name| name.to_string());
        match expected.contains(' ') {
            true => assert!(found.contains(expected), "{address}: {found}"),
            false => assert_eq!(found, expected, "{address}"),
        }
    }

    #[test]
    fn w23_addresses_are_brought_to_owner_and_name() {
        for address in [
            "https://github.com/octo/words",
            "https://github.com/octo/words.git",
            "https://github.com/octo/words/",
            "https://github.com/octo/words.git?ref=main",
            "https://github.com/octo/words#readme",
            "https://mona:secret@github.com/octo/words.git",
            "https://GitHub.com/octo/words",
            "https://github.com:443/octo/words",
            "git@github.com:octo/words.git",
            "github.com:octo/words",
            "ssh://git@github.com/octo/words.git",
            "ssh://git@github.com:22/octo/words.git",
            "git://github.com/octo/words.git",
        ] {
            check(address, "octo/words");
        }
    }

    #[test]
    fn g22_only_the_configured_host_counts() {
        check(
            "https://github.com.evil.io/octo/words",
            "is on github.com.evil.io, not on github.com",
        );
        check(
            "https://github.com@evil.io/octo/words",
            "is on evil.io, not on github.com",
        );
        check("https://notgithub.com/octo/words", "not on github.com");
        check("git@github.com.evil.io:octo/words.git", "not on github.com");
        check("git@evil.io:github.com/octo/words.git", "not on github.com");
        check("https://github.com:8443/octo/words", "another server");
        check_on("https://git.corp/octo/words", "https://git.corp", "octo/words");
        check_on("https://github.com/octo/words", "https://git.corp", "not on git.corp");
        check_on(
            "http://127.0.0.1:8123/octo/words.git",
            "http://127.0.0.1:8123",
            "octo/words",
        );
    }

    #[test]
    fn g25_a_path_with_github_in_it_is_no_address() {
        for address in [
            "/home/mona/github.com/octo/words",
            "../github.com/octo/words",
            "./github:octo/words",
            "github",
            "file:///srv/github.com/octo/words",
            "",
        ] {
            let found = repository_of(address, "https://github.com");
            assert!(found.is_err(), "{address}: {found:?}");
        }
        check("https://github.com/octo", "is not owner/name");
        check("https://github.com/octo/words/tree/main", "is not owner/name");
        check("ext::sh -c evil", "is on ext, not on github.com");
    }
}
