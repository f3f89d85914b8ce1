//! The App's credentials as files: a folder for the service's user only, with the private key,
//! the webhook secret and a small configuration file that names both. All of them appear at
//! once or not at all. Never overwrites what is there.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::config::{ConfigSources, GitHubConfig, load};
use crate::github::AppCredentials;

/// The folder within the state folder.
const FOLDER: &str = "credentials";

/// The configuration file within the folder; it is written last.
const CONFIG: &str = "app.toml";

/// Whether anything is stored.
pub(super) fn exist(state_dir: &Path) -> bool {
    // A folder that cannot be looked at counts as one with credentials: better no set-up page
    // than a second App.
    state_dir.join(FOLDER).try_exists().unwrap_or(true)
}

/// Stores the credentials of a new App.
pub(super) fn store(state_dir: &Path, app: &AppCredentials) -> anyhow::Result<()> {
    fs::create_dir_all(state_dir).with_context(|| format!("create {}", state_dir.display()))?;
    let state_dir = state_dir
        .canonicalize()
        .with_context(|| format!("find {}", state_dir.display()))?;
    let folder = state_dir.join(FOLDER);
    if exist(&state_dir) {
        bail!("{} exists already", folder.display());
    }
    let new = tempfile::Builder::new()
        .prefix(".credentials-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&state_dir)
        .context("create a folder")?;
    write_private(&new.path().join("private-key.pem"), app.pem.expose())?;
    write_private(&new.path().join("webhook-secret"), app.webhook_secret.expose())?;
    write_private(&new.path().join(CONFIG), &config_text(&folder, app))?;
    File::open(new.path())
        .and_then(|folder| folder.sync_all())
        .context("write the folder to disk")?;
    fs::rename(new.path(), &folder).with_context(|| format!("rename the new folder to {}", folder.display()))?;
    // It is not under its temporary name any more, so there is nothing left to remove.
    let _ = new.keep();
    File::open(&state_dir)
        .and_then(|folder| folder.sync_all())
        .context("write the state folder to disk")
}

fn config_text(folder: &Path, app: &AppCredentials) -> String {
    let quoted = |name: &str| toml::Value::String(folder.join(name).display().to_string()).to_string();
    format!(
        "# The GitHub App {:?}, written by the set-up page.\n[github]\napp_id = {}\nprivate_key_file = {}\nwebhook_secret_file = {}\n",
        app.slug,
        app.id,
        quoted("private-key.pem"),
        quoted("webhook-secret"),
    )
}

fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("write {}", path.display()))
}

/// The App that the set-up page stored in a state folder, if it did: `app_id`, `private_key` and
/// `webhook_secret` are set, the rest is by default.
///
/// # Errors
/// When the files are damaged, incomplete, or readable by other users.
pub fn stored_app(state_dir: &Path) -> anyhow::Result<Option<GitHubConfig>> {
    let file: PathBuf = state_dir.join(FOLDER).join(CONFIG);
    if !file
        .try_exists()
        .with_context(|| format!("look for {}", file.display()))?
    {
        return Ok(None);
    }
    let sources = ConfigSources {
        file: Some(file.clone()),
        ..ConfigSources::default()
    };
    let config = load(&sources).with_context(|| format!("read {}", file.display()))?;
    Ok(Some(config.github))
}
