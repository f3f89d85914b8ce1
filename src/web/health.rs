//! For load balancers and monitoring: is the process alive, can it take work, what has it counted.
//! Never tells a stranger more than ready or not: reasons go to the log.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::WebState;
use crate::github::{ClockState, Skew};
use crate::store::StoreError;

/// A load balancer asks again soon; a database that needs longer is not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the database answers, has its tables, the clock is one that GitHub believes, and the
/// process is not stopping.
pub(super) async fn readyz(State(state): State<Arc<WebState>>) -> Response {
    if state.draining.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    if let Some(ClockState::Wrong(by)) = state.skew.as_ref().map(Skew::state) {
        tracing::warn!(
            seconds_ahead = by.num_seconds(),
            "not ready: this machine's clock is wrong"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, "the clock is wrong\n").into_response();
    }
    match tokio::time::timeout(READY_TIMEOUT, ask_database(&state)).await {
        Ok(Ok(())) => "ready\n".into_response(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the database is not ready\n").into_response()
        }
        Err(_) => {
            tracing::warn!("not ready: the database did not answer in {READY_TIMEOUT:?}");
            (StatusCode::SERVICE_UNAVAILABLE, "the database is not ready\n").into_response()
        }
    }
}

/// Also looks into a table, so that a database without its schema is not ready.
async fn ask_database(state: &WebState) -> Result<(), StoreError> {
    let mut tx = state.store.begin().await?;
    tx.db_now().await?;
    tx.delivery("").await.map(drop)
}

/// `GET /metrics`: Prometheus text.
pub(super) async fn metrics(State(state): State<Arc<WebState>>) -> Response {
    match &state.metrics {
        Some(handle) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
