//! `forgehand trust`: which local checkouts may instruct the agent with their AGENTS.md and skills.
//! Never trusts anything that was not named, and runs nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Usage, surroundings};
use crate::app::Surroundings;
use crate::app::trust::Trust;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is trusted is what a checkout commits: AGENTS.md, CLAUDE.md, .github/copilot-instructions.md, \
AGENTS.md in folders, `instructions` of .github/forgehand.toml, and skills in .agents/skills and \
.forgehand/skills. The nearest path above a checkout counts; without one the answer is never. Jobs \
of the service need no entry: the App's installation says it.")]
pub(super) struct Args {
    /// Folder that is meant, with all folders below it.
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    /// Never trust it, also where a folder above is trusted.
    #[arg(long, conflicts_with_all = ["forget", "list"])]
    never: bool,
    /// Take back what was said about it.
    #[arg(long, conflicts_with = "list")]
    forget: bool,
    /// Show what was said.
    #[arg(long)]
    list: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = file(&surroundings()?)?;
    let mut trust = Trust::load(&file)?;
    if args.list {
        if trust.all().next().is_none() {
            note!("no folder is trusted, and none never; `forgehand trust FOLDER` says so of a checkout");
        }
        for (path, is_trusted) in trust.all() {
            say!("{}  {}", if is_trusted { "trusted" } else { "never  " }, path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = match args.folder.canonicalize() {
        Ok(folder) => folder,
        // What is gone can still be forgotten.
        Err(_) if args.forget && args.folder.is_absolute() => args.folder.clone(),
        Err(error) => return Err(Usage(format!("{}: {error}", args.folder.display())).into()),
    };
    if args.forget {
        if !trust.forget(&folder) {
            return Err(Usage(format!("nothing was said about {}", folder.display())).into());
        }
    } else {
        trust.say(folder.clone(), !args.never);
    }
    trust.save(&file)?;
    let (is_trusted, because) = trust.of(&folder);
    let answer = if is_trusted { "is trusted" } else { "is not trusted" };
    match because.filter(|because| *because != folder) {
        Some(because) => say!("{} {answer}, as {}", folder.display(), because.display()),
        None => say!("{} {answer}", folder.display()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where it is written down.
pub(super) fn file(surroundings: &Surroundings) -> anyhow::Result<PathBuf> {
    let folder = surroundings
        .config_dir
        .as_ref()
        .context("neither HOME nor XDG_CONFIG_HOME names a folder, so it is not known where trust is written down")?;
    Ok(folder.join("trust.toml"))
}

/// Whether a checkout may instruct the agent.
pub(super) fn is_trusted(surroundings: &Surroundings, checkout: &Path) -> anyhow::Result<bool> {
    // Without a place to write it down nobody can have said yes.
    let Ok(file) = file(surroundings) else { return Ok(false) };
    let checkout = checkout.canonicalize().unwrap_or_else(|_| checkout.to_owned());
    Ok(Trust::load(&file)?.of(&checkout).0)
}
