//! Files that stand in for those of a container's /etc: they name the container's user, and nothing
//! of this machine, whose name servers an engine would copy. Called when a sandbox opens.
//! Never writable from inside.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::sandbox::root::HOME;

/// Their names.
pub(super) const NAMES: &[&str] = &["passwd", "group", "hosts", "hostname", "resolv.conf"];

/// Writes them into a fresh folder that others may read.
pub(super) fn write(folder: &Path, user: (u32, u32)) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir(folder)?,
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for name in NAMES {
        let path = folder.join(name);
        fs::write(&path, content(name, user))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn content(name: &str, (user, group): (u32, u32)) -> String {
    let root = |line: &str| if user == 0 { String::new() } else { line.to_owned() };
    match name {
        "passwd" => format!(
            "{}agent:x:{user}:{group}:agent:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
            root("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n")
        ),
        "group" => format!("{}agent:x:{group}:\nnogroup:x:65534:\n", root("root:x:0:\n")),
        "hosts" => "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned(),
        "hostname" => "sandbox\n".to_owned(),
        _ => String::new(),
    }
}
