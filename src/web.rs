//! The doors that HTTP comes in by: the webhook receiver, health and metrics, the set-up page.
//! `app` builds a [`WebState`], and [`serve`] answers until it is told to stop.
//! Never starts work except by making a delivery durable, and never parses what is not signed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::routing::{get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

use crate::clock::Clock;
use crate::github::Skew;
use crate::intake::Rules;
use crate::secret::Secret;
use crate::store::Store;

mod body;
mod health;
mod listener;
mod receiver;
mod setup;

pub use setup::{Setup, stored_app};

/// No route needs longer; the receiver's own limits are tighter.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(30);

/// What the routes need.
pub struct WebState {
    /// Where deliveries go.
    pub store: Store,
    /// What triage goes by.
    pub rules: Rules,
    /// Accepted webhook secrets: the current one and, during a rotation, the one before.
    pub webhook_secrets: Vec<Secret>,
    /// When deliveries arrive.
    pub clock: Clock,
    /// What `/metrics` shows; without it there is no such page.
    pub metrics: Option<PrometheusHandle>,
    /// Cancelled when the process begins to stop: it is not ready from then on.
    pub draining: CancellationToken,
    /// How far our clock is from GitHub's; without an App there is nothing to compare with.
    pub skew: Option<Skew>,
    /// The set-up page, for a service that has no App yet.
    pub setup: Option<Setup>,
}

/// All routes, each behind a timeout, a guard against panics and strict headers.
pub fn router(state: WebState) -> Router {
    let with_setup = state.setup.is_some();
    let with_metrics = state.metrics.is_some();
    let mut router = Router::new()
        .route("/webhook", post(receiver::receive))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz));
    if with_metrics {
        router = router.route("/metrics", get(health::metrics));
    }
    if with_setup {
        router = router
            .route("/setup", get(setup::page))
            .route("/setup/callback", get(setup::callback));
    }
    let headers = [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        (
            "content-security-policy",
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ];
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        router = router.layer(SetResponseHeaderLayer::if_not_present(
            name,
            HeaderValue::from_static(value),
        ));
    }
    router
        .layer(CatchPanicLayer::new())
        .layer(TimeoutLayer::with_status_code(
            StatusCode::SERVICE_UNAVAILABLE,
            ROUTE_TIMEOUT,
        ))
        .with_state(Arc::new(state))
}

/// Answers on `listener` until `shutdown` is cancelled, then finishes the requests under way.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> anyhow::Result<()> {
    let service = router.into_make_service_with_connect_info::<listener::Peer>();
    axum::serve(listener::Bounded::new(listener), service)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
        .context("serve HTTP")
}
