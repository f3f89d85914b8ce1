//! One GitHub in this process: REST, Apps and tokens, webhooks, and real git over smart HTTP, on
//! a loopback port. `forgehand demo` shows the service with it and tests are written on it, so it
//! must refuse what GitHub refuses; a route it lacks answers 501 and is remembered.
//! Never reachable from another machine, never used beside a real GitHub.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::GitHubConfig;
use crate::ids::{InstallationId, RepoId};
use crate::secret::{Secret, random_hex};

mod access;
mod advisories;
mod answer;
mod bare;
mod changes;
mod check_view;
mod checks;
mod diff;
mod fault;
mod git_http;
mod graphql;
mod hooks;
mod issues;
mod ledger;
mod noun;
mod people;
mod pulls;
mod queue;
mod refs;
mod reviews;
mod routes;
mod search;
mod seed;
mod server;
mod shape;
mod state;
mod view;
mod wire;

pub use advisories::Advisory;
pub use checks::{CheckRun, ForeignCheck};
pub use diff::DiffSide;
pub use fault::{Fault, HeldAnswer};
pub use graphql::Thread;
pub use hooks::{Delivery, DeliveryState};
pub use ledger::Recorded;
pub use noun::{Comment, Edit, Issue, Pull, Reaction, Review, ReviewComment};
pub use people::{InlineComment, NewPullByPerson};
pub use reviews::PartOfReview;
pub use seed::RepositorySeed;

use bare::GitPrograms;
use state::State;

/// A person of the double's world waits this long for a webhook's answer, as GitHub does.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// A running GitHub. Cheap to clone; it stops when the last clone is dropped.
#[derive(Clone)]
pub struct GitHubDouble {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// `http://127.0.0.1:PORT`.
    origin: String,
    private_key: Secret,
    webhook_secret: Secret,
    git: GitPrograms,
    folder: tempfile::TempDir,
    http: reqwest::Client,
    /// Webhook calls on their way.
    in_flight: watch::Sender<usize>,
    /// Held while the refs of a repository are read and taken over.
    refs_turn: tokio::sync::Mutex<()>,
    runtime: tokio::runtime::Handle,
    stop: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl GitHubDouble {
    /// Starts an empty GitHub with one App, installed once.
    pub async fn start(clock: Clock) -> anyhow::Result<Self> {
        let key = access::AppKeyPair::generate()?;
        let listener = wire::Wire::open().await?;
        let origin = format!("http://{}", listener.address()?);
        let stop = CancellationToken::new();
        let inner = Inner {
            state: Mutex::new(State::new(clock, key.public, origin.clone())),
            origin,
            private_key: key.private_pem,
            webhook_secret: Secret::new(random_hex::<20>()),
            git: GitPrograms::find().await?,
            folder: bare::folder()?,
            http: crate::github::http_client(WEBHOOK_TIMEOUT).context("prepare the webhook sender")?,
            in_flight: watch::Sender::new(0),
            refs_turn: tokio::sync::Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
            stop: stop.clone(),
        };
        let double = Self { inner: Arc::new(inner) };
        let weak = double.downgrade();
        tokio::spawn(server::serve(listener, weak, stop));
        Ok(double)
    }

    /// Fills in addresses, the App's id, its key and the webhook secret.
    pub fn configure(&self, config: &mut GitHubConfig) {
        config.api_url = self.api_url();
        config.web_url = self.web_url();
        config.app_id = Some(self.lock().app.id);
        config.private_key = Some(self.inner.private_key.clone());
        config.webhook_secret = Some(self.inner.webhook_secret.clone());
    }

    /// REST address; with a path, as GitHub Enterprise has it.
    pub fn api_url(&self) -> String {
        format!("{}/api/v3", self.inner.origin)
    }

    /// Web and git address.
    pub fn web_url(&self) -> String {
        self.inner.origin.clone()
    }

    /// The App's private key, PEM.
    pub fn private_key(&self) -> Secret {
        self.inner.private_key.clone()
    }

    /// The secret that signs webhooks unless [`GitHubDouble::hooks`] names another.
    pub fn webhook_secret(&self) -> Secret {
        self.inner.webhook_secret.clone()
    }

    /// The App's bot, `<slug>[bot]`.
    pub fn bot_login(&self) -> String {
        self.lock().bot().login.clone()
    }

    /// The one installation that new repositories belong to.
    pub fn installation(&self) -> InstallationId {
        InstallationId(self.lock().installation.id)
    }

    /// A repository's id.
    pub fn repo_id(&self, repo: &str) -> anyhow::Result<RepoId> {
        Ok(RepoId(self.lock().repo_named(repo)?.id))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes the world, then sends the webhooks that the change caused.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let outcome = change(&mut state);
        let outgoing = std::mem::take(&mut state.outgoing);
        drop(state);
        for delivery in outgoing {
            self.deliver(delivery);
        }
        outcome
    }

    fn downgrade(&self) -> WeakDouble {
        WeakDouble(Arc::downgrade(&self.inner))
    }
}

/// What background tasks hold, so that they do not keep the double alive.
#[derive(Clone)]
struct WeakDouble(Weak<Inner>);

impl WeakDouble {
    fn upgrade(&self) -> Option<GitHubDouble> {
        self.0.upgrade().map(|inner| GitHubDouble { inner })
    }
}
