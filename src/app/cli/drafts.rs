//! `forgehand drafts`: the drafts of issues that runs of the service offered, for its operator, who
//! may read security findings, too. Never creates or changes one.

use std::process::ExitCode;

use anyhow::Context as _;

use super::screen::paint::clean;
use super::{Context, show};
use crate::draft::{Offer, short_hash};
use crate::ids::DraftId;
use crate::text;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand drafts                 the latest drafts
  forgehand drafts show 01J8…      one of them, as the issue would read
  forgehand drafts list --json     all about them, for scripts

A comment `/agent create NUMBER` on the issue or pull request where a draft was offered creates it.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List drafts, newest first.
    List {
        /// Most drafts shown.
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: u32,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one draft as the issue would read, also a security finding.
    Show {
        /// The draft's id, as `drafts list` shows it.
        id: DraftId,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let action = args.action.unwrap_or(Action::List {
        limit: 20,
        json: args.json,
    });
    let done = act(app.store(), action, args.json).await;
    app.store().close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn act(store: &crate::store::Store, action: Action, as_json: bool) -> anyhow::Result<()> {
    let mut tx = store.begin().await?;
    match action {
        Action::List { limit, json } => {
            let drafts = tx.drafts(limit).await?;
            if json || as_json {
                return show::json(&drafts);
            }
            if drafts.is_empty() {
                say!("no drafts");
            }
            drafts.iter().for_each(print_line);
        }
        Action::Show { id, json } => {
            let draft = tx
                .draft(&id)
                .await?
                .with_context(|| format!("there is no draft {id}"))?;
            if json || as_json {
                return show::json(&draft);
            }
            print_whole(&draft);
        }
    }
    Ok(())
}

fn print_line(draft: &Offer) {
    // A list stands on screens that others see, too.
    let title = match draft.proposal.is_secret() {
        true => "(security finding: see `forgehand drafts show`)".to_owned(),
        false => text::cap_chars(&clean(&draft.issue.title), 70),
    };
    say!(
        "{}  {:9}  {:8}  {}  {} draft {}  {title}",
        draft.id,
        draft.state,
        draft.proposal.draft.kind,
        show::time(draft.offered_at),
        format_args!("{} {}", draft.repo, draft.subject),
        draft.number,
    );
}

fn print_whole(draft: &Offer) {
    say!("# {}\n", clean(&draft.issue.title));
    say!("{}", clean(&draft.issue.body));
    for part in &draft.issue.parts {
        say!("\n# {}\n\n{}", clean(&part.title), clean(&part.body));
    }
    let labels = match draft.issue.labels.as_slice() {
        [] => "none".to_owned(),
        labels => clean(&labels.join(", ")),
    };
    say!();
    say!(
        "{} · {} · draft {} of {} {} · labels: {labels}",
        draft.proposal.draft.kind,
        draft.state,
        draft.number,
        draft.repo,
        draft.subject
    );
    say!(
        "hash {} · job {} · offered {}",
        short_hash(&draft.hash),
        draft.job,
        show::time(draft.offered_at)
    );
    if !draft.proposal.draft.severity.is_empty() {
        say!("severity {}", clean(&draft.proposal.draft.severity));
    }
    if let (Some(by), Some(at)) = (&draft.confirmed_by, draft.confirmed_at) {
        let what = draft.created_as.as_deref().unwrap_or("nothing yet");
        say!(
            "confirmed by {} at {} · created {}",
            clean(by),
            show::time(at),
            clean(what)
        );
    }
}
