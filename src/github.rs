//! GitHub's REST API as an App uses it: who we are, tokens narrowed to one repository, issues,
//! comments, pull requests. Called by `run`, `publish` and `app`. Hand-written on `reqwest`
//! rather than octocrab, because effects need to know whether a request was sent, must never be
//! repeated behind our back, and because closed enums and strict structs turn GitHub's additions
//! into errors. Never retries a write, never decides whether something may be written.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, bail};

use crate::clock::Clock;
use crate::config::GitHubConfig;
use crate::ids::{AppId, InstallationId, RepoId, RepoName};
use crate::right::Right;
use crate::secret::{Redactor, Secret};

mod advisories;
mod auth;
mod check_writes;
mod checks;
mod client;
mod deliveries;
mod error;
mod files;
mod gate;
mod graphql;
mod issues;
mod locate;
mod page;
mod payload;
mod pulls;
mod queue;
mod reviews;
mod rollup;
mod search;
mod since;
mod skew;
mod threads;

use auth::{AppKey, TokenCache, TokenScope};
use client::{Api, Call, Need, WriteTurns};
use deliveries::LoggedPage;

pub use advisories::{Advisory, Severity};
pub use check_writes::{Annotation, AnnotationLevel, CheckReport, Conclusion, NewCheckRun, Progress};
pub use checks::{Annotated, CheckOutput, CheckRun, CombinedStatus, CommitStatus};
pub(crate) use client::http_client;
pub use client::turn_patience;
pub use deliveries::LoggedDelivery;
pub use error::GitHubError;
pub use files::{ChangeKind, PullFile, PullFiles};
pub use gate::{Admission, Cost, Gate, Left, Pool, RateLimit};
pub use issues::NewIssue;
pub use locate::Located;
pub use payload::{
    Access, Account, App, AppCredentials, AppRef, Collaborator, Comment, Issue, Label, Milestone, NewPull, NodeId,
    Permission, Pull, PullEnd, PullRepo, Repository, ReviewComment,
};
pub use queue::{BodyEdit, BodyEdits, IssueEvent, IssuePage, OpenIssues, Selected};
pub use reviews::{NewReview, NewReviewComment, Review, Side};
pub use rollup::{Check, CheckSource, CheckState, Rollup, Verdict};
pub use search::FoundIssue;
pub use since::{Changes, RepoEvent, Said};
pub use skew::{ClockState, Skew};
pub use threads::{ReviewThread, ThreadComment};

/// The App's view of GitHub. Cheap to clone; tokens are cached inside.
#[derive(Clone)]
pub struct GitHub {
    shared: Arc<Shared>,
    gate: Option<Arc<dyn Gate>>,
    right: Right,
}

struct Shared {
    api: Api,
    web_url: String,
    key: AppKey,
    tokens: TokenCache,
    turns: WriteTurns,
    /// The first page of the log of webhook calls, as it was last sent.
    newest_deliveries: Mutex<Option<LoggedPage>>,
    redactor: Redactor,
}

/// One repository through one installation.
#[derive(Clone)]
pub struct RepoClient {
    shared: Arc<Shared>,
    name: RepoName,
    scope: TokenScope,
    gate: Option<Arc<dyn Gate>>,
    right: Right,
}

impl GitHub {
    /// Reads the key and prepares the connection; no call is made.
    pub fn new(config: &GitHubConfig, clock: Clock, redactor: Redactor) -> anyhow::Result<Self> {
        let Some(app_id) = config.app_id else {
            bail!("github.app_id is not set: it stands on the App's settings page");
        };
        let Some(pem) = &config.private_key else {
            bail!("github.private_key is not set: create one on the App's settings page and name its file");
        };
        redactor.add(pem);
        let key = AppKey::from_pem(AppId(app_id), pem).context("github.private_key")?;
        let web_url = url::Url::parse(&config.web_url).context("github.web_url")?;
        let shared = Shared {
            api: Api::new(config, clock, redactor.clone())?,
            web_url: web_url.as_str().trim_end_matches('/').to_owned(),
            key,
            tokens: TokenCache::default(),
            turns: WriteTurns::new(config.write_interval_seconds, config.call_timeout_seconds),
            newest_deliveries: Mutex::default(),
            redactor,
        };
        Ok(Self {
            shared: Arc::new(shared),
            gate: None,
            right: Right::default(),
        })
    }

    /// The same, whose calls for repositories pass a gate that keeps count for several processes.
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// The same, whose clients for repositories and all that they ask are bound to a right.
    #[must_use]
    pub fn only_while(mut self, right: &Right) -> Self {
        self.right = self.right.and(right);
        self
    }

    /// How far our clock is from GitHub's, by its answers to this client.
    pub fn skew(&self) -> Skew {
        self.shared.api.skew.clone()
    }

    /// `GET /app`.
    pub async fn app(&self) -> Result<App, GitHubError> {
        let call = Call::get(&["app"]);
        self.as_app(&call).await?.json(&call)
    }

    /// `GET /repos/{owner}/{repo}/installation`.
    pub async fn installation_of(&self, repo: &RepoName) -> Result<InstallationId, GitHubError> {
        #[derive(serde::Deserialize)]
        struct Installation {
            id: InstallationId,
        }
        let call = Call::get(&["repos", repo.owner(), repo.name(), "installation"]);
        let installation: Installation = self.as_app(&call).await?.json(&call)?;
        Ok(installation.id)
    }

    /// A client for one repository. Tokens are minted when first used, for this repository id and
    /// this access only, and renewed ten minutes before they end.
    pub fn repo(&self, installation: InstallationId, id: RepoId, name: RepoName, access: Access) -> RepoClient {
        RepoClient {
            shared: Arc::clone(&self.shared),
            name,
            scope: TokenScope {
                installation,
                repo: id,
                access,
                need: Need::Usual,
            },
            gate: self.gate.clone(),
            right: self.right.clone(),
        }
    }

    /// `POST /app-manifests/{code}/conversions`; needs no credentials.
    pub async fn convert_manifest(config: &GitHubConfig, code: &str) -> Result<AppCredentials, GitHubError> {
        let api = Api::new(config, Clock::System, Redactor::default()).map_err(|error| GitHubError::Unreachable {
            detail: format!("{error:#}"),
        })?;
        let call = Call::post(&["app-manifests", code, "conversions"], serde_json::json!({}));
        api.send(&call, None).await?.json(&call)
    }
}

impl RepoClient {
    /// The same client, whose calls are sent only while `check` says yes, reads and those for tokens
    /// too. It is asked when a call's turn has come, right before it is sent: waiting for the turn
    /// takes a while.
    #[must_use]
    pub fn only_while(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.right = self.right.and(&Right::new(check));
        self
    }

    /// `owner/name` as the caller knows it.
    pub fn name(&self) -> &RepoName {
        &self.name
    }

    /// The same client under the repository's present name: people rename repositories while work
    /// goes on, and neither a write nor git follows to the new name. Where the name leads to no
    /// repository or to another one, the client stays as it is, for the caller to find out.
    pub async fn under_present_name(&self) -> Result<Self, GitHubError> {
        match self.repository().await {
            Ok(repository) if repository.id == self.scope.repo => Ok(Self {
                name: repository.full_name,
                ..self.clone()
            }),
            Ok(_) | Err(GitHubError::NotFound { .. }) => Ok(self.clone()),
            Err(error) => Err(error),
        }
    }

    /// The token for git, minted or cached; at least ten minutes of its life are left.
    pub async fn git_token(&self) -> Result<Secret, GitHubError> {
        self.token(self.scope).await
    }

    /// A new token for git after the remote refused `refused`. The refused one is forgotten.
    pub async fn git_token_after(&self, refused: &Secret) -> Result<Secret, GitHubError> {
        self.shared.tokens.forget(self.scope, refused).await;
        self.token(self.scope).await
    }

    /// Waits for the turn of a push, which git sends: a write, but none that GitHub counts as content.
    /// The turn is over when git begins, and the next write keeps its distance from there; a large push
    /// takes minutes.
    pub async fn turn_to_push(&self) -> Result<(), GitHubError> {
        self.turn(Pool::Git, Cost::Write).await.map(drop)
    }

    /// Git met a limit of this repository's installation, in these words. It does not say until when.
    pub async fn limited_at_git(&self, problem: &str) -> GitHubError {
        tracing::warn!(repo = %self.name, problem, "git met a limit");
        let error = GitHubError::RateLimited {
            until: self.shared.api.clock.now() + error::LEAST_SECONDARY_WAIT,
            limit: RateLimit::Unnamed,
        };
        self.limited(Pool::Git, error).await
    }

    /// Ends the cached tokens at GitHub (`DELETE /installation/token`), so that nothing that may
    /// have seen one can use it any longer. The next call mints a new one.
    pub async fn revoke_token(&self) -> Result<(), GitHubError> {
        let mut outcome = Ok(());
        for need in Need::ALL {
            let scope = TokenScope { need, ..self.scope };
            let Some(token) = self.shared.tokens.take(scope).await else {
                continue;
            };
            let call = Call::delete(&["installation", "token"]);
            match self.shared.api.send(&call, Some(&token)).await {
                Ok(_) | Err(GitHubError::Unauthorized { .. }) => {} // it had ended already
                Err(error) => outcome = Err(error),                 // the others are ended all the same
            }
        }
        outcome
    }

    /// Address of the repository for git, `https://HOST/owner/name.git`.
    pub fn git_url(&self) -> String {
        // GitHub shows names without the suffix, people configure them with it.
        let name = self.name.name();
        let name = name.strip_suffix(".git").unwrap_or(name);
        format!("{}/{}/{name}.git", self.shared.web_url, self.name.owner())
    }
}
