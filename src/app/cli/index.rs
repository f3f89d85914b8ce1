//! `forgehand index`: brings the index of a local repository up to its last commit. Never writes into
//! the repository.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::bar::Show;
use super::indexed;
use super::{Context, show};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The index stands in server.state_dir, or in the user's state folder where that is not set, one folder for \
each repository; removing it loses nothing but \
time. Files are parsed once ever: a later commit costs what it changed. Files that differ from the last \
commit are not written to the index; `search` and `graph` lay them over it.")]
pub(super) struct Args {
    /// Checkout or bare repository.
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let tell = if args.json { Show::Nothing } else { Show::Progress };
    let indexed = indexed::open(context, &args.dir, tell).await?;
    let (view, stats) = (&indexed.view, indexed.stats);
    if args.json {
        show::json(&json!({
            "commit": indexed.head,
            "files": view.len(),
            "edited": indexed.edits,
            "parsed": stats.parsed,
            "segments": stats.segments,
            "blobs": stats.blobs,
            "bytes": stats.bytes,
            "seconds": indexed.took.as_secs_f64(),
            "folder": indexed.folder,
            "notes": view.notes(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "{} files at {}, {} parsed just now, {:.1} MB in {:.1} s",
        view.len(),
        indexed.head.short(),
        stats.parsed,
        stats.bytes as f64 / 1e6,
        indexed.took.as_secs_f64()
    );
    if indexed.edits > 0 {
        say!("{} edited files on top", indexed.edits);
    }
    for line in view.notes() {
        note!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}
