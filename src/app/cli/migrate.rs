//! `forgehand migrate`: brings the schema up to date, which `serve` also does at its start. Moving
//! to another database is not built yet and says so. Never goes back to an older schema.

use std::process::ExitCode;

use anyhow::bail;

use super::Context;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Database to move from (not built yet).
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Database to move to (not built yet).
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    if args.from.is_some() || args.to.is_some() {
        bail!(
            "moving jobs between databases (--from, --to) is not built yet; without them, `forgehand migrate` brings the schema up to date"
        );
    }
    let app = context.app().await?;
    say!("the {} database is up to date", app.store().backend());
    app.store().close().await;
    Ok(ExitCode::SUCCESS)
}
