//! The sections of work that nobody waits for. Never knows who reads them.

use std::time::Duration;

use super::choice::AlertOn;
use super::section::section;
use crate::secret::Secret;

section! {
    /// The account of runs that nobody waits for.
    pub struct LedgerConfig "ledger" {
        /// How long records of unattended runs stay in the database, in days; older ones are moved into
        /// files of the state folder.
        keep_days: u32 = "365",
    }
}

section! {
    /// A webhook that is told of unattended runs.
    pub struct AlertConfig "alert" {
        /// Its address, such as an incoming webhook of a chat; it gets JSON with the text as `text` and
        /// `content`. Without it nobody is told.
        url: Option<Secret> = "",
        /// What messages are signed with, so that the receiver can tell who sent them.
        secret: Option<Secret> = "",
        /// `failure`: runs that somebody has to look at. `always`: every one.
        on: AlertOn = "\"failure\"",
        /// Longest time of one try, in seconds.
        timeout_seconds: Duration = "10",
    }
}

section! {
    /// Issues that are looked for and worked on by themselves, also where no webhook arrives. The
    /// queue of a repository is what label, milestone and query all select.
    pub struct AutotaskConfig "autotask" {
        /// Look for issues; `forgehand autotask on` and `off` override it for a repository.
        enabled: bool = "false",
        /// Repositories as `owner/name`.
        repositories: Vec<String> = "[]",
        /// Only issues with this label. Whoever put it on last asks for the work, and has to be
        /// allowed to; it is taken off when the work is over.
        label: Option<String> = "",
        /// Only issues of the milestone with this title. Whoever put them there asks for the work.
        milestone: Option<String> = "",
        /// Only issues that GitHub's search finds with these words, such as `no:assignee -label:blocked`.
        /// Without a label or a milestone, an issue's author asks for the work.
        query: Option<String> = "",
        /// Time between two looks into a repository, in seconds.
        every_seconds: Duration = "60",
        /// Most open pull requests of ours in a repository; above it, issues wait. 0: no cap.
        max_open_pulls: u32 = "5",
        /// Most money in US dollars for the issues of the queue of one repository on one day (UTC);
        /// above it, none is begun. Only calls whose price is known count. 0: no cap.
        max_day_usd: f64 = "10.0",
        /// Most issues of the queue of one repository that are at work at once.
        max_active: u32 = "2",
    }
}

section! {
    /// Work graphs: milestones of a goal, worked on one after another.
    pub struct WorkgraphConfig "workgraph" {
        /// Most further tries of a milestone after its first one failed; then it is given up.
        max_fix_attempts: u32 = "3",
        /// Milestones given up in a row after which nothing is tried any more, until a person says
        /// `forgehand milestones reset`.
        breaker_failures: u32 = "3",
        /// Most tries of one `forgehand run --workgraph`, of one milestone or several.
        max_per_call: u32 = "10",
        /// Time between looks for milestones that are ready in approved graphs of repositories of the
        /// service, in seconds; 0 looks never.
        advance_seconds: Duration = "0",
    }
}

/// Longest time that a message may take: others wait behind it.
const MAX_ALERT_TIMEOUT: Duration = Duration::from_secs(120);

impl AlertConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        let address = self.url.as_ref().map(|url| url::Url::parse(url.expose()));
        if let Some(address) = address {
            // The address is a secret, so it is not repeated.
            match address {
                Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {}
                _ => problems.push("alert.url: an http or https address is expected".to_owned()),
            }
        } else if self.secret.is_some() {
            problems.push("alert.secret: nothing is signed without alert.url".to_owned());
        }
        if self.timeout_seconds.is_zero() || self.timeout_seconds > MAX_ALERT_TIMEOUT {
            let most = MAX_ALERT_TIMEOUT.as_secs();
            problems.push(format!("alert.timeout_seconds: more than 0 and at most {most} seconds"));
        }
    }
}

impl LedgerConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        if self.keep_days == 0 {
            problems.push("ledger.keep_days: at least 1".to_owned());
        }
    }
}

impl WorkgraphConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        if self.breaker_failures == 0 || self.max_per_call == 0 {
            problems.push("workgraph: breaker_failures and max_per_call are at least 1".to_owned());
        }
    }
}
