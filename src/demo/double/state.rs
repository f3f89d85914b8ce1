//! The whole world behind one lock: look-ups, fresh ids, time. Called by every file of the
//! double. Never held across an await, never knows HTTP.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anyhow::{Context as _, ensure};
use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::Clock;
use crate::secret::Secret;

use super::access::{Installation, PublicKey, Token};
use super::fault::{Hold, Rule};
use super::hooks::{Delivery, Hook, Outgoing};
use super::ledger::Recorded;
use super::noun::{Account, Repo};
use super::server::Late;

/// The App that everything is about.
#[derive(Debug)]
pub(super) struct App {
    pub(super) id: u64,
    pub(super) slug: &'static str,
    pub(super) name: &'static str,
    pub(super) key: PublicKey,
    /// Account id of its bot.
    pub(super) bot: u64,
    /// Account id of its owner.
    pub(super) owner: u64,
    pub(super) created_at: DateTime<Utc>,
}

/// What the manifest flow hands out once.
pub(super) struct ManifestCredentials {
    pub(super) pem: Secret,
    pub(super) webhook_secret: Secret,
    pub(super) client_secret: Secret,
}

/// GitHub's primary rate limit, which starts anew every hour.
pub(super) struct RateWindow {
    pub(super) used: u64,
    pub(super) reset: DateTime<Utc>,
}

impl RateWindow {
    /// Requests an hour.
    pub(super) const LIMIT: u64 = 5_000;

    fn new(now: DateTime<Utc>) -> Self {
        Self {
            used: 0,
            reset: now + TimeDelta::hours(1),
        }
    }

    /// Counts a request and says how many are left; `None` when there was none left.
    pub(super) fn count(&mut self, now: DateTime<Utc>) -> Option<u64> {
        if now >= self.reset {
            *self = Self::new(now);
        }
        self.used += 1;
        Self::LIMIT.checked_sub(self.used)
    }
}

/// The world.
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) origin: String,
    pub(super) app: App,
    pub(super) installation: Installation,
    pub(super) accounts: BTreeMap<u64, Account>,
    pub(super) repos: BTreeMap<u64, Repo>,
    /// Former full names of renamed repositories, in lowercase.
    pub(super) moved: HashMap<String, u64>,
    pub(super) tokens: HashMap<String, Token>,
    /// Codes of the manifest flow that were not exchanged yet.
    pub(super) manifest_codes: Vec<(String, ManifestCredentials)>,
    pub(super) rate: RateWindow,
    pub(super) requests: VecDeque<Recorded>,
    pub(super) unknown_routes: Vec<String>,
    pub(super) faults: Vec<Rule>,
    pub(super) holds: Vec<Hold>,
    /// Requests that arrive later than they were sent.
    pub(super) late: Vec<Late>,
    pub(super) hook: Option<Hook>,
    pub(super) deliveries: VecDeque<Delivery>,
    /// Deliveries that are too old for the log.
    pub(super) expired: Vec<Delivery>,
    /// Deliveries that wait for the lock to be released.
    pub(super) outgoing: Vec<Outgoing>,
    next_id: u64,
}

impl State {
    pub(super) fn new(clock: Clock, key: PublicKey, origin: String) -> Self {
        let now = clock.now();
        let app = App {
            id: 1_000_001,
            slug: "forgehand",
            name: "Forgehand",
            key,
            bot: 0,
            owner: 0,
            created_at: now,
        };
        let mut state = Self {
            clock,
            origin,
            app,
            installation: Installation::new(50_000_001),
            accounts: BTreeMap::new(),
            repos: BTreeMap::new(),
            moved: HashMap::new(),
            tokens: HashMap::new(),
            manifest_codes: Vec::new(),
            rate: RateWindow::new(now),
            requests: VecDeque::new(),
            unknown_routes: Vec::new(),
            faults: Vec::new(),
            holds: Vec::new(),
            late: Vec::new(),
            hook: None,
            deliveries: VecDeque::new(),
            expired: Vec::new(),
            outgoing: Vec::new(),
            next_id: 2_000_000_000,
        };
        state.app.owner = state.add_account("octo", "Organization", None);
        state.app.bot = state.add_account("forgehand[bot]", "Bot", Some(state.app.id));
        state.installation.account = state.app.owner;
        state
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Ids grow with time, as GitHub's do.
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The id of an account, which is made when nobody has the login yet.
    pub(super) fn add_account(&mut self, login: &str, kind: &'static str, app: Option<u64>) -> u64 {
        if let Some(account) = self.account_named(login) {
            return account.id;
        }
        let id = self.fresh_id();
        let account = Account {
            id,
            login: login.to_owned(),
            kind,
            app,
        };
        self.accounts.insert(id, account);
        id
    }

    pub(super) fn account_named(&self, login: &str) -> Option<&Account> {
        self.accounts
            .values()
            .find(|account| account.login.eq_ignore_ascii_case(login))
    }

    /// The id of somebody who acts.
    pub(super) fn actor(&self, login: &str) -> anyhow::Result<u64> {
        let account = self.account_named(login);
        Ok(account
            .with_context(|| format!("nobody is called {login}; add the account first"))?
            .id)
    }

    pub(super) fn bot(&self) -> &Account {
        &self.accounts[&self.app.bot]
    }

    pub(super) fn repo_named(&self, full_name: &str) -> anyhow::Result<&Repo> {
        let found = self.find_repo(full_name).and_then(|id| self.repos.get(&id));
        found.with_context(|| format!("there is no repository {full_name}"))
    }

    pub(super) fn repo_named_mut(&mut self, full_name: &str) -> anyhow::Result<&mut Repo> {
        let found = self.find_repo(full_name).and_then(|id| self.repos.get_mut(&id));
        found.with_context(|| format!("there is no repository {full_name}"))
    }

    pub(super) fn find_repo(&self, full_name: &str) -> Option<u64> {
        let found = self
            .repos
            .values()
            .find(|repo| repo.full_name().eq_ignore_ascii_case(full_name));
        found.map(|repo| repo.id)
    }

    /// The next free number of issues and pull requests, which share one series.
    pub(super) fn next_number(&self, repo: u64) -> u64 {
        let last = self.repos.get(&repo).and_then(|repo| repo.issues.keys().next_back());
        last.map_or(1, |last| last + 1)
    }

    pub(super) fn add_repo(&mut self, repo: Repo) -> anyhow::Result<u64> {
        ensure!(
            self.find_repo(&repo.full_name()).is_none(),
            "there is a repository {} already",
            repo.full_name()
        );
        let id = repo.id;
        self.add_account(&repo.owner, "Organization", None);
        self.installation.repositories.insert(id);
        self.repos.insert(id, repo);
        Ok(id)
    }
}
