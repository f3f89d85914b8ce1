//! `forgehand trust`: which local checkouts may instruct the agent with their AGENTS.md and skills.
//! Never trusts anything that was not named, and runs nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Usage, surroundings};
use crate::app::Surroundings;
use crate::app::trust::{self, Decision, Trust};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is trusted is what a checkout commits: AGENTS.md, CLAUDE.md, .github/copilot-instructions.md, \
AGENTS.md in folders, `instructions` and `permission.allow` of .github/forgehand.toml, skills in \
.agents/skills and .forgehand/skills, and .forgehand.env. The nearest path above a checkout counts; \
without one the answer is never. A folder that is moved or renamed is another folder. Jobs of the \
service need no entry: the App's installation says it.")]
pub(super) struct Args {
    /// Folder that is meant, with all folders below it.
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    /// Never trust it, also where a folder above is trusted.
    #[arg(long, conflicts_with_all = ["once", "forget", "list"])]
    never: bool,
    /// Trust it for the next run alone.
    #[arg(long, conflicts_with_all = ["forget", "list"])]
    once: bool,
    /// Take back what was said about it.
    #[arg(long, conflicts_with = "list")]
    forget: bool,
    /// Show what was said.
    #[arg(long)]
    list: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = file(&surroundings()?)?;
    if args.list {
        let trust = Trust::load(&file)?;
        if trust.all().next().is_none() {
            note!("no folder is trusted, and none never; `forgehand trust FOLDER` says so of a checkout");
        }
        for (path, decision) in trust.all() {
            let word = match decision {
                Decision::Always => "trusted",
                Decision::Once => "once",
                Decision::Never => "never",
            };
            say!("{word:7}  {}", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = match args.folder.canonicalize() {
        Ok(folder) => folder,
        // What is gone can still be forgotten.
        Err(_) if args.forget && args.folder.is_absolute() => args.folder.clone(),
        Err(error) => return Err(Usage(format!("{}: {error}", args.folder.display())).into()),
    };
    let decision = match (args.never, args.once) {
        (true, _) => Decision::Never,
        (_, true) => Decision::Once,
        _ => Decision::Always,
    };
    let (was_said, said) = Trust::change(&file, |trust| {
        let was_said = if args.forget {
            trust.forget(&folder)
        } else {
            trust.say(folder.clone(), decision);
            true
        };
        let said = trust.of(&folder).map(|(decision, path)| (decision, path.to_owned()));
        (was_said, said)
    })?;
    if !was_said {
        return Err(Usage(format!("nothing was said about {}", folder.display())).into());
    }
    let answer = match &said {
        Some((Decision::Always, _)) => "is trusted",
        Some((Decision::Once, _)) => "is trusted for the next run",
        Some((Decision::Never, _)) | None => "is not trusted",
    };
    match said.filter(|(_, because)| *because != folder) {
        Some((_, because)) => say!("{} {answer}, as {}", folder.display(), because.display()),
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

/// What was said about a checkout; a `once` stays until a run begins.
pub(super) fn look(surroundings: &Surroundings, checkout: &Path) -> anyhow::Result<Option<Decision>> {
    match place(surroundings, checkout) {
        Some((file, checkout)) => Ok(Trust::load(&file)?.of(&checkout).map(|(decision, _)| decision)),
        None => Ok(None),
    }
}

/// The same for a run that begins now: a `once` is used up.
pub(super) fn take(surroundings: &Surroundings, checkout: &Path) -> anyhow::Result<Option<Decision>> {
    match place(surroundings, checkout) {
        Some((file, checkout)) => trust::take(&file, &checkout),
        None => Ok(None),
    }
}

/// Without a place to write it down nobody can have said yes, and nothing was said about a folder of
/// which it is not known where it is.
fn place(surroundings: &Surroundings, checkout: &Path) -> Option<(PathBuf, PathBuf)> {
    Some((file(surroundings).ok()?, checkout.canonicalize().ok()?))
}

/// Writes down what a person said about a checkout at a terminal.
pub(super) fn say(surroundings: &Surroundings, checkout: &Path, decision: Decision) -> anyhow::Result<()> {
    let checkout = checkout
        .canonicalize()
        .with_context(|| format!("find {}", checkout.display()))?;
    Trust::change(&file(surroundings)?, |trust| trust.say(checkout, decision))
}
