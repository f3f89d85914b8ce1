//! Which hosts commands may reach: the service's list, narrowed by the repository's. Called by the
//! proxy with canonical hosts. Never widened by a repository, and an empty list allows nothing.

use super::refusal::Refusal;
use crate::permission::HostRule;

/// The rules of one run.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) hosts: Vec<HostRule>,
    /// Every public host.
    pub(super) is_open: bool,
    /// The repository's list, where it has one.
    pub(super) narrowed: Option<Vec<HostRule>>,
}

impl Policy {
    /// Whether a host may be reached.
    pub(super) fn permit(&self, host: &str) -> Result<(), Refusal> {
        if !(self.is_open || covers(&self.hosts, host)) {
            return Err(Refusal::NotListed { host: host.to_owned() });
        }
        self.permit_narrowed(host)
    }

    /// Whether the repository wants it reached, whatever the service says.
    pub(super) fn permit_narrowed(&self, host: &str) -> Result<(), Refusal> {
        match &self.narrowed {
            Some(own) if !covers(own, host) => Err(Refusal::Narrowed { host: host.to_owned() }),
            _ => Ok(()),
        }
    }
}

fn covers(rules: &[HostRule], host: &str) -> bool {
    rules.iter().any(|rule| rule.covers(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[&str]) -> Vec<HostRule> {
        list.iter().map(|rule| HostRule::parse(rule).unwrap()).collect()
    }

    #[track_caller]
    fn check(hosts: &[&str], narrowed: Option<&[&str]>, host: &str, allowed: bool) {
        let policy = Policy {
            hosts: rules(hosts),
            is_open: false,
            narrowed: narrowed.map(rules),
        };
        assert_eq!(policy.permit(host).is_ok(), allowed, "{hosts:?} {narrowed:?} {host}");
    }

    #[test]
    fn n02_an_empty_list_allows_nothing() {
        check(&[], None, "docs.rs", false);
        check(&[], Some(&["docs.rs"]), "docs.rs", false);
        check(&["docs.rs"], Some(&[]), "docs.rs", false);
    }

    #[test]
    fn a_repository_narrows_and_never_widens() {
        let ours: &[&str] = &["docs.rs", "*.python.org"];
        check(ours, None, "docs.rs", true);
        check(ours, None, "a.python.org", true);
        check(ours, Some(&["docs.rs"]), "docs.rs", true);
        check(ours, Some(&["docs.rs"]), "a.python.org", false);
        check(ours, Some(&["a.python.org"]), "a.python.org", true);
        check(ours, Some(&["*.python.org"]), "b.python.org", true);
        check(ours, Some(&["evil.com"]), "evil.com", false);
    }

    #[test]
    fn n03_labels_are_matched_whole() {
        let ours: &[&str] = &["github.com", "*.example.org"];
        for host in [
            "evilgithub.com",
            "github.com.evil.com",
            "api.github.com",
            "example.org",
            "evilexample.org",
            "xn--gthub-n4a.com",
        ] {
            check(ours, None, host, false);
        }
        check(ours, None, "a.b.example.org", true);
    }
}
