//! `forgehand milestones`: the work graph of a checkout or of a repository of the service, for the
//! person who decides on it. Never works on a milestone: that is `forgehand run --workgraph`, or the
//! service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::{Context, Usage, show};
use crate::milestone::{GraphFile, Holder, MAX_FILE_BYTES, MilestoneId, NewMilestone, Standing};
use crate::text;
use crate::workgraph::{Over, WorkGraph, WorkGraphError};

mod place;
mod table;

pub(in crate::app::cli) use place::{graph_of, limits_of, open, store_of};
pub(in crate::app::cli) use table::{as_json, print};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand milestones add \"Parse the header\" --accept \"sh test/header.sh\"
  forgehand milestones add \"Parse the body\" --after parse-the-header
  forgehand milestones                             the whole graph
  forgehand run --workgraph                        works on it
  forgehand milestones export graph.json           for another machine

A milestone with an acceptance command is done when the program's own run of that command passes on \
a fresh checkout of the change, and not because a model says so. The graph of a checkout is kept in \
server.state_dir where that is set, otherwise below $XDG_STATE_HOME or ~/.local/state.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    place: place::Where,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the whole graph.
    List,
    /// Add a milestone at the end.
    Add(AddArgs),
    /// Say that you are at a milestone yourself, so that no run begins it.
    Start {
        /// The milestone's name.
        id: MilestoneId,
    },
    /// Say that a milestone is done.
    Done {
        /// The milestone's name.
        id: MilestoneId,
    },
    /// Say that a milestone has to be worked on (again); its fix attempts begin anew.
    NeedsFix {
        /// The milestone's name.
        id: MilestoneId,
        /// What is wrong with it, for whoever works on it.
        #[arg(long, value_name = "TEXT")]
        because: String,
    },
    /// Show the milestone whose turn it is.
    Next,
    /// Remove milestones that nobody is at and nothing depends on.
    Remove {
        /// Names of milestones, removed in this order.
        #[arg(required_unless_present = "all")]
        ids: Vec<MilestoneId>,
        /// The whole graph.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Write the graph to a file.
    Export {
        /// The file; without one, or with -, to standard output.
        file: Option<PathBuf>,
    },
    /// Read a graph from a file, as a proposal.
    Import {
        /// The file, or - for standard input.
        file: PathBuf,
        /// In place of the milestones that are there.
        #[arg(long)]
        replace: bool,
        /// Approved at once.
        #[arg(long)]
        approve: bool,
    },
    /// Let a proposed graph be worked on.
    Approve,
    /// Close the breaker, and give what was given up its fix attempts back.
    Reset,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// What it is, in one line.
    title: String,
    /// Its name: lowercase letters, digits and hyphens [default: words of the title].
    #[arg(long, value_name = "NAME")]
    id: Option<MilestoneId>,
    /// What has to be done, for whoever works on it.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// The command that alone decides whether it is done.
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    accept: Option<String>,
    /// A milestone that has to be done before; may be repeated.
    #[arg(long, value_name = "NAME")]
    after: Vec<MilestoneId>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let graph = open(context, &args.place).await?;
    let done = act(&graph, args.action.unwrap_or(Action::List), args.json).await;
    done.map(|()| ExitCode::SUCCESS).map_err(in_words)
}

/// What the rules forbid, whoever asked can mend.
fn in_words(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<WorkGraphError>() {
        Some(WorkGraphError::Refused(_) | WorkGraphError::Missing(_)) => Usage(error.to_string()).into(),
        _ => error,
    }
}

async fn act(graph: &WorkGraph, action: Action, as_json: bool) -> anyhow::Result<()> {
    let tell = |value: serde_json::Value, sentence: String| match as_json {
        true => show::json(&value),
        false => {
            say!("{sentence}");
            Ok(())
        }
    };
    match action {
        Action::List => list(graph, as_json).await,
        Action::Next => next(graph, as_json).await,
        Action::Add(asked) => {
            let new = NewMilestone {
                id: asked.id,
                title: asked.title,
                description: asked.description,
                acceptance: asked.accept,
                depends_on: asked.after,
            };
            let ids = graph.add(vec![new]).await?;
            tell(json!({"added": ids}), format!("added {}", names(&ids)))
        }
        Action::Start { id } => {
            graph.start(&id, &Holder::Person).await?;
            tell(
                json!({"started": id}),
                format!("{id} is yours until you say `done` or `needs-fix`"),
            )
        }
        Action::Done { id } => {
            graph.set_done(&id).await?;
            tell(json!({"done": id}), format!("{id} is done"))
        }
        Action::NeedsFix { id, because } => {
            graph.set_needs_fix(&id, &because).await?;
            tell(json!({"needs_fix": id}), format!("{id} needs a fix"))
        }
        Action::Remove { all: true, .. } => {
            let count = graph.remove_all().await?;
            tell(
                json!({"removed": count}),
                format!("removed the graph with {count} milestones"),
            )
        }
        Action::Remove { ids, .. } => {
            for id in &ids {
                graph.remove(id).await?;
            }
            tell(json!({"removed": ids}), format!("removed {}", names(&ids)))
        }
        Action::Export { file } => export(graph, file.as_deref()).await,
        Action::Import { file, replace, approve } => {
            let over = if replace { Over::Everything } else { Over::Nothing };
            let standing = if approve {
                Standing::Approved
            } else {
                Standing::Proposed
            };
            let count = import(graph, &file, over, standing).await?;
            let sentence = format!("{count} milestones are {standing}");
            tell(json!({"imported": count, "standing": standing}), sentence)
        }
        Action::Approve => match graph.approve().await? {
            true => tell(
                json!({"approved": true}),
                "approved; `forgehand run --workgraph` works on it".to_owned(),
            ),
            false => tell(json!({"approved": false}), "it was approved already".to_owned()),
        },
        Action::Reset => {
            let ids = graph.reset().await?;
            let again = match ids.as_slice() {
                [] => String::new(),
                ids => format!("; {} can be tried again", names(ids)),
            };
            tell(json!({"again": ids}), format!("the breaker is closed{again}"))
        }
    }
}

fn names(ids: &[MilestoneId]) -> String {
    let names: Vec<&str> = ids.iter().map(MilestoneId::as_str).collect();
    names.join(", ")
}

async fn list(graph: &WorkGraph, as_json: bool) -> anyhow::Result<()> {
    let Some(found) = graph.load().await? else {
        if as_json {
            return show::json(&json!({"graph": graph.key().name, "outlook": "empty", "milestones": []}));
        }
        say!("no milestones; `forgehand goal \"…\"` plans some, `forgehand milestones add` adds one");
        return Ok(());
    };
    if as_json {
        return show::json(&table::as_json(&found, graph.limits()));
    }
    table::print(&found, graph.limits());
    Ok(())
}

async fn next(graph: &WorkGraph, as_json: bool) -> anyhow::Result<()> {
    let found = graph.existing().await?;
    let next = found.next(graph.limits());
    if as_json {
        let next = next.map(|milestone| table::milestone_as_json(&found, milestone, graph.limits()));
        return show::json(&json!({ "next": next }));
    }
    let Some(milestone) = next else {
        say!("nothing is ready; `forgehand milestones` says why");
        return Ok(());
    };
    let clean = super::screen::paint::clean;
    say!("{}  {}", milestone.id, clean(&milestone.title));
    for text in [Some(&milestone.description), milestone.problem.as_ref()]
        .into_iter()
        .flatten()
    {
        if !text.is_empty() {
            say!("\n{}", clean(text));
        }
    }
    if let Some(command) = &milestone.acceptance {
        say!("\naccepted by: {}", clean(command));
    }
    Ok(())
}

async fn export(graph: &WorkGraph, file: Option<&Path>) -> anyhow::Result<()> {
    use anyhow::Context as _;
    let text = serde_json::to_string_pretty(&GraphFile::of(&graph.existing().await?))?;
    match file.filter(|file| *file != Path::new("-")) {
        None => say!("{text}"),
        Some(file) => {
            std::fs::write(file, text + "\n").with_context(|| format!("write {}", file.display()))?;
            note!("written to {}", file.display());
        }
    }
    Ok(())
}

async fn import(graph: &WorkGraph, file: &Path, over: Over, standing: Standing) -> anyhow::Result<usize> {
    let read = GraphFile::parse(&read(file)?).map_err(|error| Usage(format!("{}: {error}", file.display())))?;
    Ok(graph.import(read, standing, over).await?)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| Usage(format!("{}: {error}", file.display()));
    let input: Box<dyn std::io::Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(file).map_err(failed)?),
    };
    let mut bytes = Vec::new();
    input.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let most = text::bytes_in_words(MAX_FILE_BYTES);
        return Err(Usage(format!("{}: it is longer than {most}", file.display())).into());
    }
    Ok(bytes)
}
