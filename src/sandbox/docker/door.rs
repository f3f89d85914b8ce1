//! The way out as containers of a run get it: the proxy's socket and the files that make programs use
//! it, each mounted read-only. The container's first process serves the inner end. Called when a
//! sandbox opens. Never gives a container a network: what it reaches, it reaches through the socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::sandbox::WayOut;
use crate::sandbox::root::EGRESS;

/// What leads out, ready to be mounted.
#[derive(Debug, Clone)]
pub(super) struct Door {
    /// The proxy's socket.
    pub(super) socket: PathBuf,
    /// Files of ours and their paths inside.
    pub(super) files: Vec<(PathBuf, String)>,
    /// As a helper inside is told of it.
    pub(super) inner: WayOut,
}

impl Door {
    /// Lays the files down in a fresh folder that others may read.
    pub(super) fn prepare(way_out: &WayOut, folder: &Path) -> std::io::Result<Self> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(folder)?,
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        let socket = way_out.socket.canonicalize()?;
        let mut files = Vec::new();
        for (number, (inside, content)) in way_out.files.iter().enumerate() {
            let path = folder.join(number.to_string());
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
            files.push((path.canonicalize()?, inside.display().to_string()));
        }
        let inner = WayOut {
            socket: EGRESS.into(),
            environment: way_out.environment.clone(),
            // They are there already.
            files: Vec::new(),
        };
        Ok(Self { socket, files, inner })
    }
}
