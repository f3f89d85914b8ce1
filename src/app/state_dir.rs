//! The state folder: private to the service, and free of anything that another user put there before.
//! Called before anything is read from it or written to it. Never follows a link of another user, and
//! never removes what it does not know.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::closed;

/// Folders that this program makes in it. An older version, or a wide mask, may have left them open.
const PARTS: [&str; 10] = [
    "approvals",
    "archive",
    "index",
    "ledger",
    "mirrors",
    "publish",
    "records",
    "runs",
    "setups",
    "trees",
];

/// Most links on the way to it; the kernel follows no more.
const MAX_LINKS: usize = 40;

/// Makes the state folder, private to the service, and returns its absolute path.
pub(super) fn prepare(path: &Path) -> anyhow::Result<PathBuf> {
    refuse_links_of_others(path)?;
    if !path.exists() {
        closed::make_folder(path).with_context(|| format!("make the folder {}", path.display()))?;
    }
    let path = path
        .canonicalize()
        .with_context(|| format!("find the folder {}", path.display()))?;
    let about = fs::metadata(&path)?;
    if !about.is_dir() {
        bail!("{} is not a folder; set server.state_dir to one", path.display());
    }
    if about.uid() != own() {
        bail!(
            "{} belongs to another user; the service needs a state folder of its own",
            path.display()
        );
    }
    if about.permissions().mode() & 0o022 != 0 {
        bail!("other users can write into {}; run `chmod 700` on it", path.display());
    }
    refuse_entries_of_others(&path)?;
    for part in PARTS {
        close(&path.join(part))?;
    }
    Ok(path)
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Root can do everything anyway, and lays links for services.
fn is_of_another(about: &Metadata) -> bool {
    about.uid() != own() && about.uid() != 0
}

/// A folder with a fixed name in a shared place may be a link that somebody laid there beforehand.
fn refuse_links_of_others(path: &Path) -> anyhow::Result<()> {
    let found = |path: &Path| format!("find the folder {}", path.display());
    let mut way = std::path::absolute(path).with_context(|| found(path))?;
    for _ in 0..MAX_LINKS {
        let mut steps: Vec<&Path> = way.ancestors().collect();
        steps.reverse();
        let about = |step: &&Path| Some((step.to_path_buf(), fs::symlink_metadata(step).ok()?));
        let mut known = steps.iter().filter_map(about);
        let Some((link, about)) = known.find(|(_, about)| about.is_symlink()) else {
            return Ok(());
        };
        if is_of_another(&about) {
            bail!(
                "{} is a link that user {} made, so that the state folder would lie where they want it; remove it, or \
                 set server.state_dir to a folder of the service's own",
                link.display(),
                about.uid()
            );
        }
        let rest = way.strip_prefix(&link).unwrap_or(Path::new("")).to_owned();
        let target = fs::read_link(&link).with_context(|| found(&link))?;
        way = link.parent().unwrap_or(Path::new("/")).join(target);
        if !rest.as_os_str().is_empty() {
            way.push(rest);
        }
    }
    bail!("{} leads through too many links", path.display())
}

/// Others cannot write into the folder now. They could before its mode was mended.
fn refuse_entries_of_others(folder: &Path) -> anyhow::Result<()> {
    let listed = || format!("look into the folder {}", folder.display());
    for entry in fs::read_dir(folder).with_context(listed)? {
        let path = entry.with_context(listed)?.path();
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue; // gone meanwhile
        };
        // Where a link leads may be somebody else's, too.
        let target = fs::metadata(&path).ok().filter(|_| about.is_symlink());
        if let Some(theirs) = [Some(about), target].into_iter().flatten().find(is_of_another) {
            bail!(
                "{} in the state folder belongs to user {}, who may have laid it there for us; look at it, and move it \
                 away, or `chown` it when it is the service's",
                path.display(),
                theirs.uid()
            );
        }
    }
    Ok(())
}

/// Code and conversations of others stand in it.
fn close(part: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(part) {
        Ok(about) if about.is_dir() && about.uid() == own() && about.mode() & 0o077 != 0 => {
            fs::set_permissions(part, fs::Permissions::from_mode(closed::MODE))
                .with_context(|| format!("close the folder {} to other users", part.display()))
        }
        _ => Ok(()),
    }
}
