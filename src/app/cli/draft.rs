//! `forgehand draft`: drafts of issues for a local checkout, without GitHub. Reads, and changes
//! nothing. What it does is a run; only its words are its own.
//! Never creates an issue.

use std::path::PathBuf;
use std::process::ExitCode;

use super::run::{self, ModelArgs};
use super::{Context, Usage};
use crate::text;

/// Longest file of notes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the checkout at its last commit and prints each draft as Markdown: what was observed with its \
evidence, what is expected, what is only a hypothesis, and how the issue is accepted. Nothing is \
created anywhere; the checkout is not changed.

Examples:
  forgehand draft \"The parser drops the last line of files without a line break\"
  forgehand draft --file notes.md --repo ../parser
  forgehand draft --json \"Reading large files is slow\" | jq -r '.drafts[].title'

Exit codes: as `forgehand run`; 2 also when nothing was drafted.")]
pub(super) struct Args {
    /// What the drafts are about, in words. `-` reads it from standard input; without any words, what is
    /// worth an issue is looked for.
    #[arg(value_name = "TEXT", conflicts_with = "file")]
    words: Vec<String>,
    /// The same from a file, such as notes of a meeting or a log.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A folder of the checkout to read; its last commit counts.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    repo: PathBuf,
    /// Write what happens to this file, for `forgehand show`.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// Print the drafts as one JSON document.
    #[arg(long)]
    json: bool,
    /// Show only the drafts, and not how they come about.
    #[arg(long, short)]
    quiet: bool,
}

/// What a person asks for who says nothing else.
const WHATEVER: &str = "Find what is worth an issue in this repository: defects that you can point at, promises of the \
                        documents that the code does not keep, missing tests of important paths. At most five drafts, the \
                        most important first.";

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let text = match (&args.file, args.words.is_empty()) {
        (Some(file), _) => read(file)?,
        (None, true) => WHATEVER.to_owned(),
        (None, false) => args.words.join(" "),
    };
    let args = run::Drafts {
        text,
        repo: args.repo,
        log: args.log,
        model: args.model,
        json: args.json,
        quiet: args.quiet,
    };
    run::run(context, args.into()).await
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| Usage(format!("--file {}: {error}", file.display()));
    let mut bytes = Vec::new();
    let open = std::fs::File::open(file).map_err(failed)?;
    open.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let most = text::bytes_in_words(MAX_FILE_BYTES);
        return Err(Usage(format!("--file {}: it is longer than {most}", file.display())).into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
