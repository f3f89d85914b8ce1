//! The seam between this port and whoever keeps count for all processes of a service: what a call
//! costs, whether it may be sent, and what an answer said about limits. The port asks and tells; it
//! knows no database. (The other way, a budget taken by `publish` right before a call, would miss
//! what a call of ours really sends: an effect is none, one or several writes, each after reads, and
//! reads are limited too.) Called by `auth` and `graphql`. Never decides how much is allowed.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use reqwest::header::HeaderMap;

use crate::ids::InstallationId;

/// What a call costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Creates something that people are told of, which GitHub counts apart.
    Content,
}

/// Which of GitHub's counts a call falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pool {
    /// REST.
    Core,
    /// GraphQL.
    GraphQl,
    /// Searching, which has a small count of its own.
    Search,
    /// Pushing with git, which no hourly count has.
    Git,
}

impl Pool {
    /// GitHub's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Pool::Core => "core",
            Pool::GraphQl => "graphql",
            Pool::Search => "search",
            Pool::Git => "git",
        }
    }
}

/// Whether a call may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// After this long, at most a few seconds.
    After(Duration),
    /// Not before then.
    Held {
        /// When.
        until: DateTime<Utc>,
        /// Why, for people.
        why: String,
    },
}

/// How GitHub told of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// The hourly count is used up (`x-ratelimit-remaining: 0`): of this kind of call only.
    Spent,
    /// It asks to wait (`retry-after`), with everything.
    Asked,
    /// It says that there is a limit, and no more.
    Unnamed,
}

/// What an answer says about the hourly count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Which count.
    pub pool: Pool,
    /// Calls that are left.
    pub calls: u64,
    /// How long until it starts anew.
    pub anew_in: Duration,
}

impl Left {
    pub(super) fn read(pool: Pool, headers: &HeaderMap, now: DateTime<Utc>) -> Option<Self> {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
        let anew_at = DateTime::from_timestamp(number("x-ratelimit-reset")?, 0)?;
        Some(Self {
            pool,
            calls: u64::try_from(number("x-ratelimit-remaining")?).ok()?,
            anew_in: (anew_at - now)
                .clamp(TimeDelta::zero(), TimeDelta::hours(1))
                .to_std()
                .ok()?,
        })
    }
}

/// Whoever keeps count for an installation.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Asked right before a call. `Err`: the count cannot be asked, in words.
    async fn admit(&self, installation: InstallationId, pool: Pool, cost: Cost) -> Result<Admission, String>;

    /// GitHub told of a limit that ends after `wait`. Returns until when nothing should be sent.
    async fn limited(
        &self,
        installation: InstallationId,
        pool: Pool,
        limit: RateLimit,
        wait: Duration,
    ) -> Option<DateTime<Utc>>;

    /// An answer said how much of the hourly count is left.
    async fn seen(&self, installation: InstallationId, left: Left);
}
