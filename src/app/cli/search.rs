//! `forgehand search`: the places of a local repository that some words are about, by its index and its
//! history. Never writes into the repository.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;

use super::bar::Show;
use super::indexed;
use super::{Context, Usage, show};
use crate::model::tokens_of;
use crate::retrieval::query::Query;
use crate::retrieval::rank::{Chronicle, Ranker, Sources};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand search . \"retry after header is ignored when it is a date\"
  forgehand search . \"Parser.parse panics on empty input\" --json

The words may be a whole issue: quoted logs and headings of templates count less than what the author wrote. \
Files are ranked by words, names, definitions, paths, history and age; tests only when tests are asked about.")]
pub(super) struct Args {
    /// Checkout or bare repository.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What is looked for.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Most tokens of the answer.
    #[arg(long, value_name = "NUMBER", default_value_t = 1500)]
    max_tokens: usize,
    /// Print the result as JSON, with the score by source.
    #[arg(long)]
    json: bool,
}

/// Files that are ranked before the answer is cut.
const MAX_RANKED: usize = 200;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let words = args.words.join(" ");
    if words.trim().is_empty() {
        bail!(Usage("give words to look for".to_owned()));
    }
    let tell = if args.json { Show::Nothing } else { Show::Progress };
    let indexed = indexed::open(context, &args.dir, tell).await?;
    let past = indexed.indexes.past(&indexed.git_dir, &indexed.head).await;
    let answer = tokio::task::block_in_place(|| {
        let past = past.and_then(|history| {
            let past = Chronicle::new(history, &indexed.view, &indexed.head);
            past.ok_or_else(|| "the commit is not in it".to_owned())
        });
        let ranker = Ranker::new(Arc::clone(&indexed.view), past);
        let query = Query::parse(&words);
        let ranking = ranker.rank(&query, Sources::All, MAX_RANKED);
        ranker.places(&query, &ranking, args.max_tokens, &tokens_of)
    });
    if args.json {
        show::json(&answer)?;
    } else {
        answer.places.iter().for_each(|place| say!("{place}"));
        answer.notes.iter().for_each(|line| note!("{line}"));
    }
    Ok(match answer.places.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
