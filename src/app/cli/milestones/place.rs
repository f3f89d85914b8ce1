//! Where a work graph is: of which repository, and in which database. Called by every command that
//! has to do with one. Never makes a graph; a database is made where a checkout has none yet.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::app::cli::{Context, Usage, surroundings};
use crate::app::{record, state_dir};
use crate::clock::Clock;
use crate::closed;
use crate::config::{Config, WorkgraphConfig};
use crate::git::{Git, GitError, LocalRepo};
use crate::ids::RepoName;
use crate::milestone::{GraphKey, GraphName, Limits};
use crate::secret::Secret;
use crate::store::Store;
use crate::workgraph::WorkGraph;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which graph")]
pub(in crate::app::cli) struct Where {
    /// A folder of the checkout that the graph is of.
    #[arg(long, global = true, default_value = ".", value_name = "FOLDER")]
    repo: PathBuf,
    /// A repository of the service instead, in its database.
    #[arg(long, global = true, value_name = "OWNER/NAME", conflicts_with = "repo")]
    repository: Option<RepoName>,
    /// Name of the graph; a repository may have several.
    #[arg(long, global = true, default_value = "main", value_name = "NAME")]
    graph: GraphName,
}

/// The graph that was named, which need not exist.
pub(in crate::app::cli) async fn open(context: &Context, place: &Where) -> anyhow::Result<WorkGraph> {
    if let Some(name) = &place.repository {
        let app = context.existing_app().await?;
        let found = app.store().begin().await?.repo_by_name(name).await?;
        let Some(repo) = found else {
            return Err(Usage(format!(
                "--repository {name}: the service has heard of no such repository; is the App installed there?"
            ))
            .into());
        };
        let repository = format!("repository/{}", repo.id);
        let limits = limits_of(&app.config().workgraph);
        return Ok(graph(app.store().clone(), repository, &place.graph, limits));
    }
    let config = context.config()?;
    let repo = checkout(&Git::find()?, &place.repo).await?;
    let store = store_of(&config).await?;
    Ok(graph(
        store,
        repository_of(&repo),
        &place.graph,
        limits_of(&config.workgraph),
    ))
}

/// A graph of a checkout in a database that is open already.
pub(in crate::app::cli) fn graph_of(store: &Store, repo: &LocalRepo, name: &GraphName, config: &Config) -> WorkGraph {
    graph(store.clone(), repository_of(repo), name, limits_of(&config.workgraph))
}

fn graph(store: Store, repository: String, name: &GraphName, limits: Limits) -> WorkGraph {
    let key = GraphKey {
        repository,
        name: name.clone(),
    };
    WorkGraph::new(store, Clock::System, key, limits)
}

/// A checkout by a name that no other has on this machine, as its memory is kept.
fn repository_of(repo: &LocalRepo) -> String {
    format!("local/{}", repo.root.display())
}

pub(in crate::app::cli) fn limits_of(config: &WorkgraphConfig) -> Limits {
    config.into()
}

async fn checkout(git: &Git, folder: &Path) -> anyhow::Result<LocalRepo> {
    match git.open_local(folder).await {
        // Whoever named the folder can name another one.
        Err(error @ GitError::NotFound(_)) => Err(Usage(format!("--repo {}: {error}", folder.display())).into()),
        other => other.with_context(|| format!("open {}", folder.display())),
    }
}

/// The database of local checkouts: the configured one, otherwise one where programs keep what they
/// remember for their user.
pub(in crate::app::cli) async fn store_of(config: &Config) -> anyhow::Result<Store> {
    let is_configured = ["server.state_dir", "database.url"]
        .iter()
        .any(|key| config.origins.contains_key(*key));
    let url = match is_configured {
        true => {
            let mut config = config.clone();
            config.server.state_dir = state_dir::prepare(&config.server.state_dir)?;
            config.database_url()
        }
        false => {
            let records = record::folder(config, &surroundings()?);
            let folder = records.as_deref().and_then(Path::parent).context(
                "there is no place for work graphs: set HOME or XDG_STATE_HOME, or name a folder with --set \
                 server.state_dir=FOLDER",
            )?;
            closed::make_folder(folder).with_context(|| format!("make the folder {}", folder.display()))?;
            Secret::new(format!("sqlite:{}", folder.join("forgehand.sqlite").display()))
        }
    };
    let store = Store::open(&url, 4).await.context("open the database")?;
    store.migrate().await.context("bring the database up to date")?;
    Ok(store)
}
