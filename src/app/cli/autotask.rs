//! `forgehand autotask`: switch queues of issues on and off, show them, look now. Works beside the
//! service and without one. Never works on an issue by itself: it inserts jobs for workers.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::{Context, Usage, show};
use crate::app::App;
use crate::audit::OPERATOR;
use crate::clock::Clock;
use crate::config::Config;
use crate::git::Git;
use crate::ids::{JobId, RepoName};
use crate::store::{AutotaskSwitch, QueueKey, Store};
use crate::unattended::autotask::{Autotask, Looked, When, repositories};

mod remote;
mod status;

/// Time between two looks at jobs that are waited for.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand autotask on                              begin to look for issues
  forgehand autotask status                          the query, what it selects, what became of each issue
  forgehand autotask once --repository octo/words    look now, and say what was begun and what waits
  forgehand autotask off                             look no more; work that goes on is not stopped

Which issues: `autotask.label`, `autotask.milestone` and `autotask.query` together. Which repositories: those \
of --repository, else `autotask.repositories`, else the one that the remote of this folder's checkout names.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Look for issues, whatever the configuration says; who and when is kept.
    On(Which),
    /// Look for none, whatever the configuration says. Work that goes on is not stopped.
    Off(Which),
    /// Show the query in force, what it selects, when it is looked again, and what became of issues.
    Status(Which),
    /// Look once, now, and insert jobs for what may begin.
    Once(Once),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Repository; may be repeated.
    #[arg(long = "repository", value_name = "OWNER/NAME")]
    repositories: Vec<RepoName>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Once {
    #[command(flatten)]
    which: Which,
    /// Wait until the jobs that were inserted are over. Some worker has to run.
    #[arg(long)]
    wait: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    if !config.autotask.selects() {
        let what = "autotask.label, autotask.milestone or autotask.query";
        return Err(Usage(format!(
            "no issues are selected: set {what} first, in the configuration of the service"
        ))
        .into());
    }
    let which = match &args.action {
        Action::On(which) | Action::Off(which) | Action::Status(which) => which,
        Action::Once(once) => &once.which,
    };
    let targets = targets(&config, &which.repositories).await?;
    let app = App::build(config, super::surroundings()?).await?;
    let done = act(&app, &args.action, &targets).await;
    app.store().close().await;
    done
}

async fn act(app: &App, action: &Action, targets: &[RepoName]) -> anyhow::Result<ExitCode> {
    match action {
        Action::On(which) => switch(app, targets, true, which.json).await,
        Action::Off(which) => switch(app, targets, false, which.json).await,
        Action::Status(which) => status::run(app, targets, which.json).await,
        Action::Once(once) => look(app, targets, once).await,
    }
}

/// The repositories that are meant.
async fn targets(config: &Config, named: &[RepoName]) -> anyhow::Result<Vec<RepoName>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let listed = config.autotask.repository_names();
    if !listed.is_empty() {
        return Ok(listed);
    }
    let how = "name a repository with --repository OWNER/NAME, or list some in autotask.repositories";
    let here = std::env::current_dir().context("find the current folder")?;
    let remotes = match Git::find()?.remotes(&here).await {
        Ok(remotes) => remotes,
        Err(error) => return Err(Usage(format!("{how}; this folder names none: {error}")).into()),
    };
    let origin = remotes.iter().find(|(name, _)| name == "origin");
    let address = match (origin, remotes.as_slice()) {
        (Some((_, address)), _) => address,
        (None, [(_, address)]) => address,
        (None, []) => return Err(Usage(format!("{how}; this checkout has no remote")).into()),
        (None, _) => {
            return Err(Usage(format!("{how}; this checkout has several remotes and none is `origin`")).into());
        }
    };
    match remote::repository_of(address, &config.github.web_url) {
        Ok(name) => Ok(vec![name]),
        Err(why) => Err(Usage(format!("{how}; {why}")).into()),
    }
}

async fn switch(app: &App, targets: &[RepoName], is_on: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    let now = Clock::System.now();
    let mut tx = app.store().begin().await?;
    tx.act_as(OPERATOR);
    for repo in targets {
        let switch = AutotaskSwitch {
            repo: repo.clone(),
            is_on,
            by: operator(),
            at: now,
        };
        tx.switch_autotask(&switch).await?;
    }
    tx.commit().await?;
    let query = app.config().autotask.effective_query();
    if as_json {
        show::json(&json!({"on": is_on, "repositories": targets, "query": query, "at": now}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for repo in targets {
        match is_on {
            true => say!("{repo}: on; the service looks for `{query}` with its next look"),
            false => say!("{repo}: off; work that goes on is not stopped"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Who sits at the command line, for the record.
fn operator() -> String {
    format!("the operator (user {})", rustix::process::getuid().as_raw())
}

async fn look(app: &App, targets: &[RepoName], once: &Once) -> anyhow::Result<ExitCode> {
    let config = app.config();
    let github = app.github()?;
    let us = github.app().await.context("ask GitHub who we are")?;
    let rules = (&config.github, &config.queue);
    let autotask = Autotask::on_github(
        github,
        app.store().clone(),
        &config.autotask,
        rules,
        &us.slug,
        Clock::System,
    );
    let (mut all, mut is_well) = (Vec::new(), true);
    for repo in targets {
        let looked = autotask.look(repo, When::Now).await?;
        let Some(looked) = looked else {
            is_well = false;
            note!("{repo}: another process looks at it now; look again in a moment");
            continue;
        };
        is_well &= looked.problem.is_none();
        if !once.which.json {
            tell(autotask.query(), repo, &looked);
        }
        all.push((repo, looked));
    }
    let jobs: Vec<JobId> = all
        .iter()
        .flat_map(|(_, looked)| &looked.taken)
        .map(|(_, id)| id.clone())
        .collect();
    if once.wait && !jobs.is_empty() {
        note!("waiting for {} job(s)", jobs.len());
        wait(app.store(), &jobs).await?;
    }
    if once.which.json {
        let of = |(repo, looked): &(&RepoName, Looked)| json!({"repository": repo, "looked": looked});
        let repositories: Vec<_> = all.iter().map(of).collect();
        show::json(&json!({"query": autotask.query(), "repositories": repositories}))?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a look did, for people.
fn tell(query: &str, repo: &RepoName, looked: &Looked) {
    say!("{repo}: `{query}`: {}", looked.selection());
    for (number, job) in &looked.taken {
        say!("  #{number}  job {job}");
    }
    for (number, why) in &looked.held {
        say!("  #{number}  held: {}", plain(why));
    }
    for (number, why) in &looked.refused {
        say!("  #{number}  refused: {}", plain(why));
    }
    for number in &looked.stopped {
        say!("  #{number}  left the queue; its work is stopped");
    }
    if let Some(problem) = &looked.problem {
        let next = looked.next_at.map(show::time).unwrap_or_default();
        say!("  not read: {}; tried again after {next} UTC", plain(problem));
    }
}

/// Words from outside, in one line.
fn plain(words: &str) -> String {
    crate::text::plain_output(&crate::text::cap_chars(words, 300))
}

/// Waits until every job is over, and says how each ended.
async fn wait(store: &Store, jobs: &[JobId]) -> anyhow::Result<()> {
    let mut open = jobs.to_vec();
    while !open.is_empty() {
        tokio::time::sleep(LOOK).await;
        let mut still = Vec::new();
        for id in open {
            let job = store.begin().await?.job(&id).await?;
            match job {
                Some(job) if job.state.is_final() => {
                    let reason = job.reason.as_deref().unwrap_or_default();
                    note!(
                        "job {id} is over: {} {}",
                        job.state,
                        crate::text::cap_chars(reason, 200)
                    );
                }
                Some(_) => still.push(id),
                None => {}
            }
        }
        open = still;
    }
    Ok(())
}

/// The queue of a repository as rows know it, by the number that its name last had.
async fn key_of<'a>(store: &Store, source: &'a str, repo: &RepoName) -> anyhow::Result<Option<QueueKey<'a>>> {
    let known = store.begin().await?.repo_by_name(repo).await?;
    Ok(known.map(|known| QueueKey { source, repo: known.id }))
}

/// Whether the queue of a repository is on.
async fn is_on(store: &Store, config: &Config, repo: &RepoName) -> anyhow::Result<bool> {
    let on = repositories(store, &config.autotask).await?;
    Ok(on.iter().any(|name| name.as_str().eq_ignore_ascii_case(repo.as_str())))
}
