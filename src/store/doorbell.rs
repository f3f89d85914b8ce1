//! The doorbell: a hint that jobs may have become ready. On PostgreSQL a task listens for NOTIFY
//! and rings in this process; on SQLite only this process rings. Called by `Store`.
//! Never the truth: whoever waits also looks by itself after a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::answered;

/// The channel on PostgreSQL.
const CHANNEL: &str = "forgehand_jobs";

/// Pause before the listener connects again, so that a server that is down is not hammered.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

/// After a silence of this length the listener asks whether it is still heard.
const SILENCE: Duration = Duration::from_secs(30);

/// Shared by all clones of a store.
#[derive(Clone, Default)]
pub(super) struct Bell {
    notify: Arc<Notify>,
    /// Begun with the first wait, so that a short command does not open a connection for it.
    listener: Arc<OnceLock<AbortOnDropHandle<()>>>,
    /// The way to other processes, on PostgreSQL.
    others: Option<Arc<Others>>,
}

/// How other processes hear of it. Not within the transaction that has something to tell: the server
/// lets transactions with a NOTIFY commit one after another, each with its sync of the disk.
struct Others {
    pool: PgPool,
    /// Somebody is about to ring.
    due: AtomicBool,
    ringing: TaskTracker,
}

impl Bell {
    /// One that other processes of the same database hear.
    pub(super) fn heard_by_others(pool: PgPool) -> Self {
        let others = Others {
            pool,
            due: AtomicBool::new(false),
            ringing: TaskTracker::new(),
        };
        Self {
            others: Some(Arc::new(others)),
            ..Self::default()
        }
    }

    /// Wakes everybody of this process who waits; when nobody does, the next wait returns at once.
    pub(super) fn ring(&self) {
        self.notify.notify_waiters();
        self.notify.notify_one();
    }

    /// The same, and soon in other processes. After the commit.
    pub(super) fn ring_everywhere(&self) {
        self.ring();
        let Some(others) = &self.others else { return };
        // Whoever is about to ring does so for this commit, too.
        if others.due.swap(true, Ordering::SeqCst) {
            return;
        }
        let bell = Arc::clone(others);
        others.ringing.spawn(async move {
            let connection = bell.pool.acquire().await;
            bell.due.store(false, Ordering::SeqCst);
            // What fails here is found by looking.
            if let Ok(mut connection) = connection {
                let notify = sqlx::query("SELECT PG_NOTIFY($1, '')")
                    .bind(CHANNEL)
                    .execute(&mut *connection);
                if let Err(error) = answered(notify).await {
                    tracing::debug!(%error, "nobody else was told of it");
                }
            }
        });
    }

    /// Returns at the bell or after `at_most`.
    pub(super) async fn wait(&self, at_most: Duration) {
        // Only the time limit is an error here, and it is an answer too.
        let _ = tokio::time::timeout(at_most, self.notify.notified()).await;
    }

    /// Makes sure that somebody listens on PostgreSQL, on a connection of its own.
    pub(super) fn listen(&self, options: &PgConnectOptions) {
        self.listener.get_or_init(|| {
            let bell = self.notify.clone();
            let options = options.clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    if let Err(error) = listen_until_broken(options.clone(), &bell).await {
                        tracing::debug!(%error, "the doorbell's connection broke");
                    }
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                }
            }))
        });
    }

    /// Stops listening, after others were told what there was to tell.
    pub(super) async fn close(&self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
        if let Some(others) = &self.others {
            others.ringing.close();
            others.ringing.wait().await;
        }
    }
}

async fn listen_until_broken(options: PgConnectOptions, bell: &Notify) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    // Whoever rang while nobody listened was not heard.
    bell.notify_waiters();
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            // `None` means that the connection was lost and is there again: look as well.
            Ok(heard) => drop(heard?),
            // Who only listens never learns that the other end is gone.
            Err(_) => {
                answered(listener.listen(CHANNEL)).await?;
                continue;
            }
        }
        bell.notify_waiters();
        bell.notify_one();
    }
}
