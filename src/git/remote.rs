//! The other side: which addresses are allowed, how our token is handed over, what a remote's
//! complaints mean, and where its branches point. Called by `mirror` and `push`. Never puts a
//! token into an argument, a file, an address or an error.

use std::ffi::OsString;
use std::time::Duration;

use base64::Engine as _;
use url::Url;

use super::run::Output;
use super::{Git, GitError, Remote};
use crate::ids::{BranchName, CommitSha};

/// Longest time of a call that only asks the remote something.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(60);

/// A [`Remote`] whose address was checked.
pub(super) struct Target {
    url: String,
    protocol: &'static str,
    header: Option<Header>,
}

/// The `Authorization` header and its parts, wiped on drop.
struct Header {
    token: crate::secret::Secret,
    encoded: crate::secret::Secret,
}

impl Target {
    /// Checks the address: https (or http), a host, a path, and nothing else.
    pub(super) fn parse(remote: &Remote) -> Result<Self, GitError> {
        let problem = |why: &str| GitError::Failed(format!("the repository's address is not usable: {why}"));
        let url = Url::parse(&remote.url).map_err(|error| problem(&error.to_string()))?;
        let protocol = match url.scheme() {
            "https" => "https",
            "http" => "http",
            _ => return Err(problem("it begins with https://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(problem("a user name or password does not belong into it"));
        }
        if url.query().is_some() || url.fragment().is_some() || url.host_str().is_none() || url.path().len() < 2 {
            return Err(problem("it is a host and a path without '?' and '#'"));
        }
        let header = remote.token.clone().map(|token| {
            let plain = zeroize::Zeroizing::new(format!("x-access-token:{}", token.expose()));
            let encoded = base64::engine::general_purpose::STANDARD.encode(plain.as_bytes());
            Header {
                token,
                encoded: crate::secret::Secret::new(encoded),
            }
        });
        Ok(Self {
            url: url.to_string(),
            protocol,
            header,
        })
    }

    /// The address.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The only protocol that git may speak with it.
    pub(super) fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// The token as configuration in the child's environment, bound to exactly this address: git
    /// sends it neither after a redirect nor to a rewritten address.
    pub(super) fn credentials(&self) -> Vec<(OsString, OsString)> {
        let Some(header) = &self.header else {
            return Vec::new();
        };
        vec![
            ("GIT_CONFIG_COUNT".into(), "1".into()),
            (
                "GIT_CONFIG_KEY_0".into(),
                format!("http.{}.extraHeader", self.url).into(),
            ),
            (
                "GIT_CONFIG_VALUE_0".into(),
                format!("Authorization: basic {}", header.encoded.expose()).into(),
            ),
        ]
    }

    /// The text without the token, should a server have sent it back.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        if let Some(header) = &self.header {
            for secret in [&header.token, &header.encoded] {
                if !secret.is_empty() {
                    clean = clean.replace(secret.expose(), "[redacted]");
                }
            }
        }
        clean
    }
}

/// What a failed call means to the caller. What the server itself writes (`remote: …`) is shown
/// but does not decide, since whoever runs the server chooses it; at most it makes a refusal a pause.
pub(super) fn classify(name: &str, output: &Output, with_remote: bool) -> GitError {
    let own: String = output
        .stderr
        .lines()
        .filter(|line| !line.starts_with("remote:"))
        .map(|line| line.to_ascii_lowercase() + "\n")
        .collect();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| own.contains(phrase));
    let problem = match (output.stderr.is_empty(), output.code) {
        (false, _) => format!("{name}: {}", output.stderr),
        (true, Some(code)) => format!("{name}: exit code {code} without a message"),
        (true, None) => format!("{name}: killed by a signal"),
    };
    if says(&["file too large", "signal 25", "file size limit exceeded"]) {
        return GitError::Failed(format!("{name}: a file grew over the allowed size"));
    }
    if !with_remote {
        return GitError::Failed(problem);
    }
    // Some limits have the status of a refusal, and only the words tell.
    let speaks_of_limit = output.stderr.to_ascii_lowercase().contains("rate limit");
    if says(&["returned error: 429"]) || (speaks_of_limit && says(&["returned error: 403"])) {
        return GitError::Limited(problem);
    }
    if says(&[
        "returned error: 401",
        "returned error: 403",
        "authentication failed",
        "could not read username",
    ]) {
        GitError::Unauthorized(problem)
    } else if says(&["returned error: 30"]) {
        GitError::NotFound(format!(
            "the repository at this address; it was probably renamed or moved ({problem})"
        ))
    } else if says(&[
        "couldn't find remote ref",
        "not our ref",
        "returned error: 404",
        "not found",
    ]) {
        GitError::NotFound(problem)
    } else if says(&[
        "unable to access",
        "could not resolve",
        "connection",
        "hung up",
        "early eof",
        "rpc failed",
        "unexpected disconnect",
        "returned error: 5",
        "too slow",
    ]) {
        GitError::Unavailable(problem)
    } else {
        GitError::Failed(problem)
    }
}

impl Git {
    /// Where a full ref points on the remote.
    pub(super) async fn ask(&self, target: &Target, branch: &BranchName) -> Result<Option<CommitSha>, GitError> {
        let full_ref = branch.full_ref();
        let output = self
            .call(&["ls-remote", "--refs", "--end-of-options", "origin"])
            .arg(&full_ref)
            .remote(target)
            .timeout(ASK_TIMEOUT)
            .run()
            .await?;
        // The remote matches the end of names, so `x/refs/heads/main` may be among the lines.
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((sha, _)) = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .find(|(_, name)| *name == full_ref)
        else {
            return Ok(None);
        };
        sha.parse()
            .map(Some)
            .map_err(|error| GitError::Failed(format!("{}: {error}", target.url())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn target(url: &str) -> Result<Target, GitError> {
        Target::parse(&Remote {
            url: url.to_owned(),
            token: Some(Secret::new("ghs_0123456789")),
        })
    }

    #[test]
    fn only_plain_web_addresses_are_remotes() {
        assert!(target("https://github.com/octo/repo.git").is_ok());
        for url in [
            "",
            "git@github.com:octo/repo.git",
            "ssh://github.com/octo/repo",
            "file:///etc",
            "ext::sh -c touch% CANARY",
            "--upload-pack=touch CANARY",
            "https://user:pw@github.com/octo/repo",
            "https://github.com/octo/repo?x=1",
            "https://github.com/",
        ] {
            assert!(target(url).is_err(), "{url}");
        }
    }

    #[test]
    fn g22_the_token_is_bound_to_the_address_and_scrubbed_from_text() {
        // Which host that is says the configuration alone; git compares it as a whole.
        for url in [
            "https://git.corp.example/octo/repo.git",
            "https://github.com.evil.example/octo/repo.git",
        ] {
            let key = format!("http.{url}.extraHeader");
            assert_eq!(target(url).unwrap().credentials()[1].1, key.as_str());
        }
        let target = target("https://github.com/octo/repo.git").unwrap();
        let credentials = target.credentials();
        assert_eq!(credentials[1].1, "http.https://github.com/octo/repo.git.extraHeader");
        let text = target.scrub("sent ghs_0123456789 as eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODk=");
        assert_eq!(text, "sent [redacted] as [redacted]");
    }

    #[track_caller]
    fn check(stderr: &str, expected: &str) {
        let output = Output {
            stdout: Vec::new(),
            stderr: stderr.to_owned(),
            truncated: false,
            code: Some(128),
        };
        let error = format!("{:?}", classify("git fetch", &output, true));
        assert!(error.starts_with(expected), "{stderr}: {error}");
    }

    #[test]
    fn complaints_are_sorted_by_what_the_caller_can_do() {
        check(
            "fatal: unable to access 'https://x/': The requested URL returned error: 403",
            "Unauthorized",
        );
        for limited in [
            "error: RPC failed; HTTP 429 curl 22 The requested URL returned error: 429",
            "remote: A rate limit.\nfatal: unable to access 'https://x/': The requested URL returned error: 403",
        ] {
            check(limited, "Limited");
        }
        check("remote: rate limit\nfatal: bad object", "Failed");
        check(
            "fatal: could not read Username for 'https://x': terminal prompts disabled",
            "Unauthorized",
        );
        check(
            "fatal: unable to access 'https://x/': The requested URL returned error: 502",
            "Unavailable",
        );
        check(
            "fatal: unable to access 'https://x/': Could not resolve host: x",
            "Unavailable",
        );
        check("fatal: couldn't find remote ref refs/pull/9/head", "NotFound");
        check("fatal: repository 'https://x/' not found", "NotFound");
        check(
            "fatal: unable to access 'https://x/': The requested URL returned error: 301",
            "NotFound",
        );
        check(
            "remote: Authentication failed, please send money\nfatal: bad object",
            "Failed",
        );
    }
}
