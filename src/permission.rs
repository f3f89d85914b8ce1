//! What a tool call may do without asking: rules `allow`, `ask` and `deny` over permission keys
//! such as `run_command:git status` or `web_fetch:docs.rs`. Pure; the agent asks before each call.
//! Never a security boundary: that is the sandbox. This is for people's comfort, and for the web.
//!
//! # Keys, for whoever writes a tool
//!
//! A key is the tool's name and what the call is about, as [`crate::tool::Tool::permission_key`]
//! returns it: [`key::of_command`] for a shell line, [`key::of_paths`] for files, [`key::of_host`]
//! for an address of the web, and the bare name for everything else. The rules know a tool by its
//! line in the table of `permission/rule.rs`; one that stands not there can have no rules.
//!
//! # Which rule counts
//!
//! The longest one that matches; of equally long ones `deny` beats `ask` and `ask` beats `allow`;
//! without any, the default of the tool's group. A line of the shell that is more than one plain
//! command is matched by `allow` only as a whole, and by `ask` and `deny` in each of its parts.
//!
//! # What a repository may say
//!
//! Its own file has a list, too. It always may ask and deny more. It may allow what would be asked,
//! as far as the operator's `permission.repository` covers the call and fixes more of it than the
//! operator's rule that asks. It never lifts a `deny`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{PermissionConfig, PermissionMode};

mod command;
mod flags;
mod forbidden;
mod host;
pub mod key;
mod rule;
mod shell;
#[cfg(test)]
mod tests;

pub use command::{CommandKey, command_key};
pub use host::{HostRule, host_and_port};
pub use rule::is_known_tool;

use rule::{Call, Rules, Verdict};

/// What the rules say of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// A person has to say yes; nobody there means no.
    Ask,
    /// Never, with the reason for the model.
    Deny(String),
}

/// How far an approval of a person reaches. It covers the key that was shown and nothing wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The rest of the run.
    Run,
    /// Every run in this repository.
    Repository,
}

/// Where approvals for one repository are kept between runs.
pub trait Kept: Send + Sync {
    /// The keys approved so far.
    fn keys(&self) -> BTreeSet<String>;

    /// Keeps one more.
    ///
    /// # Errors
    /// Why it cannot be kept, in words.
    fn keep(&self, key: &str) -> Result<(), String>;
}

/// Whether a question reaches anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attendance {
    Attended,
    Unattended,
}

/// The rules, and what people approved in one run. Clones share the approvals;
/// [`Policy::for_run`] begins without any.
#[derive(Clone)]
pub struct Policy {
    rules: Arc<Rules>,
    /// Those of the repository's own file.
    repository: Option<Arc<Rules>>,
    attendance: Attendance,
    granted: Arc<Mutex<BTreeSet<String>>>,
    kept: Option<Arc<dyn Kept>>,
}

impl Default for Policy {
    /// The rules of an empty configuration, with people to ask.
    fn default() -> Self {
        Self::of(Rules::default())
    }
}

impl Policy {
    /// The rules of a configuration. `hosts` are those of `web.hosts`, where the tools of the web
    /// may go without asking.
    ///
    /// # Errors
    /// Every malformed rule, with its key.
    pub fn new(config: &PermissionConfig, hosts: &[HostRule]) -> Result<Self, Vec<String>> {
        Ok(Self::of(Rules::parse(config)?.with_hosts(hosts)))
    }

    fn of(rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            repository: None,
            attendance: Attendance::Attended,
            granted: Arc::default(),
            kept: None,
        }
    }

    /// The same rules where nobody can be asked: what would be asked is denied.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.attendance = Attendance::Unattended;
        self
    }

    /// The same rules with people to ask.
    #[must_use]
    pub fn attended(mut self) -> Self {
        self.attendance = Attendance::Attended;
        self
    }

    /// The same rules with what people approved for a repository before.
    #[must_use]
    pub fn for_repository(mut self, kept: Arc<dyn Kept>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// The same rules with the list of a repository's own file, of which `allow` counts only as far
    /// as the operator lets it.
    ///
    /// # Errors
    /// Every malformed rule, with its key.
    pub fn with_list_of(mut self, list: &PermissionConfig) -> Result<Self, Vec<String>> {
        self.repository = Some(Arc::new(Rules::parse(list)?.of_repository()));
        Ok(self)
    }

    /// The same rules for another run, without the approvals of this one.
    #[must_use]
    pub fn for_run(&self) -> Self {
        Self {
            granted: Arc::default(),
            ..self.clone()
        }
    }

    /// What the rules say of a call with this key. An approval turns a question into a yes; it
    /// never lifts a `deny`, and nothing lifts the short list of what is never done.
    pub fn decide(&self, key: &str) -> Decision {
        let call = Call::read(key);
        if let Some(why) = forbidden::reason(&call) {
            return Decision::Deny(why);
        }
        let verdict = self.judge(&call);
        match verdict.mode {
            PermissionMode::Allow => Decision::Allow,
            PermissionMode::Deny => Decision::Deny(format!("{} denies it", verdict.by)),
            PermissionMode::Ask if self.is_granted(key) => Decision::Allow,
            PermissionMode::Ask => match self.attendance {
                Attendance::Attended => Decision::Ask,
                Attendance::Unattended => Decision::Deny(format!(
                    "{} wants a person's permission for `{}`, and nobody can be asked in this run; do without it",
                    verdict.by,
                    crate::text::cap_chars(&crate::text::reveal(key), 200)
                )),
            },
        }
    }

    /// What the operator and the repository say together.
    fn judge(&self, call: &Call) -> Verdict {
        let own = self.rules.judge(call);
        let listed = self.repository.as_ref().and_then(|rules| rules.listed(call));
        match (own.mode, listed) {
            (PermissionMode::Deny, _) | (_, None) => own,
            (_, Some(listed)) if listed.mode == PermissionMode::Deny => listed,
            (PermissionMode::Allow, Some(listed)) if listed.mode == PermissionMode::Ask => listed,
            (PermissionMode::Ask, Some(listed))
                if listed.mode == PermissionMode::Allow && self.rules.may_lift(call, &own) =>
            {
                listed
            }
            _ => own,
        }
    }

    /// Whether no call of a tool that works in the sandbox can go on without asking.
    pub fn allows_nothing(&self) -> bool {
        let is_kept = self.kept.as_ref().is_some_and(|kept| !kept.keys().is_empty());
        let is_lifted = self.repository.as_ref().is_some_and(|list| self.rules.lifts(list));
        !is_kept && !is_lifted && self.rules.allow_nothing()
    }

    /// The line of configuration that would allow a call which is asked about or denied; nothing
    /// where no further rule can, since one that is there or the program itself forbids it.
    pub fn allowing(&self, key: &str) -> Option<String> {
        let call = Call::read(key);
        let is_narrowed = |rules: &Arc<Rules>| {
            rules
                .listed(&call)
                .is_some_and(|listed| listed.mode != PermissionMode::Allow)
        };
        if forbidden::reason(&call).is_some() || self.repository.as_ref().is_some_and(is_narrowed) {
            return None;
        }
        let rules = self.rules.allowing(&call)?;
        Some(format!("permission.allow = {rules:?}"))
    }

    fn is_granted(&self, key: &str) -> bool {
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.contains(key) || self.kept.as_ref().is_some_and(|kept| kept.keys().contains(key))
    }

    /// Keeps a person's approval of exactly this key.
    ///
    /// # Errors
    /// Why an approval for the repository counts for this run only.
    pub fn grant(&self, key: &str, scope: Scope) -> Result<(), String> {
        self.granted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned());
        match (scope, &self.kept) {
            (Scope::Run, _) => Ok(()),
            (Scope::Repository, Some(kept)) => kept.keep(key),
            (Scope::Repository, None) => {
                Err("approvals for a repository are kept only where server.state_dir is set".to_owned())
            }
        }
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("rules", &self.rules)
            .field("attendance", &self.attendance)
            .finish_non_exhaustive()
    }
}

/// Checks the rules of a configuration without using them.
///
/// # Errors
/// Every malformed rule, with its key.
pub fn check(config: &PermissionConfig) -> Result<(), Vec<String>> {
    Rules::parse(config).map(|_| ())
}
