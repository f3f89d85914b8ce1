//! `forgehand serve` and `forgehand worker`. Never returns before the work in hand was handed back.

use std::process::ExitCode;

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::app::{ServiceRole, stop_on_signal};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What this process does, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "receiver,worker,scheduler")]
    roles: Vec<ServiceRole>,
}

#[derive(Debug, clap::Args)]
pub(super) struct WorkerArgs {}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    start(context, &args.roles).await
}

pub(super) async fn run_worker(context: &Context, _args: WorkerArgs) -> anyhow::Result<ExitCode> {
    start(context, &[ServiceRole::Worker, ServiceRole::Scheduler]).await
}

async fn start(context: &Context, roles: &[ServiceRole]) -> anyhow::Result<ExitCode> {
    // From the first moment: a signal that comes while the database is opened ends it as gracefully.
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let app = context.app().await?.stopped_by(stop);
    if app.config().sandbox.unsafe_local {
        tracing::warn!("sandbox.unsafe_local is set: commands may run WITHOUT isolation on this machine");
    }
    let has_receiver = roles.contains(&ServiceRole::Receiver);
    if has_receiver && app.config().github.webhook_secret.is_none() && app.config().github.app_id.is_some() {
        bail!("github.webhook_secret is not set: webhooks could not be checked. Set it to the App's webhook secret");
    }
    // The first line of standard output tells scripts that it works, and where it listens.
    app.serve(roles, |address| match address {
        Some(address) => say!("listening on http://{address}"),
        None => say!("ready"),
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}
