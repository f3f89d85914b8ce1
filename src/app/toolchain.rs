//! Compilers that stand outside /usr and are shown to sandboxes read-only. Never shows a home
//! folder itself.

use std::path::Path;

use crate::config::SandboxConfig;
use crate::sandbox;

/// Adds what is found for the user to what was configured.
pub(super) fn add(config: &mut SandboxConfig, home: Option<&Path>, rustup_home: Option<&Path>) {
    // Without a home folder there may still be a RUSTUP_HOME.
    let home = home.unwrap_or(Path::new("/nonexistent"));
    for folder in sandbox::detect_toolchains(home, rustup_home) {
        let folder = folder.display().to_string();
        if !config.toolchains.contains(&folder) {
            config.toolchains.push(folder);
        }
    }
}
