//! Whom commands reached and what was refused, as rows: each host once for each verdict, with what
//! happened since a moment. Called by the proxy, read by runs. Never grows beyond its bound, however
//! many names a command makes up.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::refusal::Refusal;
use crate::text::{cap_chars, reveal};

/// Different rows of one run.
const MAX_ROWS: usize = 100;

/// Longest text of a row.
const MAX_CHARS: usize = 300;

/// What happened to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was reached.
    Reached,
    /// It was not.
    Blocked {
        /// Why, in words.
        why: String,
        /// The configuration that would allow it.
        allow: Option<String>,
    },
}

/// A host with a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `HOST:PORT`, or what was written instead.
    pub host: String,
    /// What happened.
    pub verdict: Verdict,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    rows: Mutex<Rows>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Rows {
    /// With the moment of the last time.
    all: Vec<(Row, u64)>,
    /// How many were handed out for the record.
    recorded: usize,
    moment: u64,
    left_out: u64,
}

impl Log {
    pub(super) fn reached(&self, host: &str) {
        self.add(Row {
            host: host.to_owned(),
            verdict: Verdict::Reached,
        });
    }

    pub(super) fn blocked(&self, host: &str, refusal: &Refusal) {
        self.add(Row {
            host: cap_chars(&reveal(host), MAX_CHARS),
            verdict: Verdict::Blocked {
                why: cap_chars(&reveal(&refusal.words()), MAX_CHARS),
                allow: refusal.remedy(),
            },
        });
    }

    fn add(&self, row: Row) {
        let mut rows = self.lock();
        rows.moment += 1;
        let moment = rows.moment;
        if let Some((_, last)) = rows.all.iter_mut().find(|(known, _)| *known == row) {
            *last = moment;
            return;
        }
        if rows.all.len() >= MAX_ROWS {
            rows.left_out += 1;
            return;
        }
        rows.all.push((row, moment));
        drop(rows);
        self.bell.notify_one();
    }

    /// The present moment, for [`Log::blocked_since`].
    pub(super) fn moment(&self) -> u64 {
        self.lock().moment
    }

    /// What was blocked after a moment.
    pub(super) fn blocked_since(&self, moment: u64) -> Vec<Row> {
        let rows = self.lock();
        let late = rows
            .all
            .iter()
            .filter(|(row, last)| *last > moment && matches!(row.verdict, Verdict::Blocked { .. }));
        late.map(|(row, _)| row.clone()).collect()
    }

    /// Rows that were not handed out here before.
    pub(super) fn fresh(&self) -> Vec<Row> {
        let mut rows = self.lock();
        let fresh = rows.all[rows.recorded..].iter().map(|(row, _)| row.clone()).collect();
        rows.recorded = rows.all.len();
        fresh
    }

    /// Times that a new row found no room.
    pub(super) fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// Waits for a row that [`Log::fresh`] has not handed out.
    pub(super) async fn wait(&self) {
        self.bell.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisted(host: &str) -> Refusal {
        Refusal::NotListed { host: host.to_owned() }
    }

    #[test]
    fn a_row_comes_once_and_its_last_time_counts() {
        let log = Log::default();
        log.reached("docs.rs:443");
        log.blocked("evil.com:443", &unlisted("evil.com"));
        let then = log.moment();
        assert_eq!(log.fresh().len(), 2);
        log.reached("docs.rs:443");
        assert!(log.fresh().is_empty() && log.blocked_since(then).is_empty());
        log.blocked("evil.com:443", &unlisted("evil.com"));
        let again = log.blocked_since(then);
        assert_eq!(again.len(), 1);
        let Verdict::Blocked { allow, .. } = &again[0].verdict else {
            panic!("blocked")
        };
        assert_eq!(
            allow.as_deref(),
            Some("egress.hosts = [..., \"evil.com\"] in forgehand.toml")
        );
    }

    #[test]
    fn n11_names_without_end_are_bounded() {
        let log = Log::default();
        for number in 0..10_000 {
            let host = format!("{number}.evil.com\u{1b}[1m{}", "x".repeat(1_000));
            log.blocked(&host, &unlisted(&host));
        }
        let rows = log.fresh();
        assert_eq!((rows.len(), log.left_out()), (MAX_ROWS, 10_000 - MAX_ROWS as u64));
        assert!(
            rows.iter()
                .all(|row| row.host.chars().count() <= MAX_CHARS && !row.host.contains('\u{1b}'))
        );
    }
}
