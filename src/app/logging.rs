//! Logs and metrics of the process. Logs go to standard error, so that standard output stays for
//! results. Never decides what is logged.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error. A second call changes nothing.
pub(super) fn start(config: &LogConfig) {
    start_to(config, std::io::stderr);
}

/// Starts logging to a place that shows lines of others, too.
pub(super) fn start_to<W>(config: &LogConfig, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&config.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_ansi(false)
        .with_writer(writer);
    let started = match config.format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    drop(started);
}

/// The recorder behind `/metrics`, installed once for the process.
pub(super) fn metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new().build_recorder();
            let handle = recorder.handle();
            drop(metrics::set_global_recorder(recorder));
            handle
        })
        .clone()
}
