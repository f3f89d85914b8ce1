//! The folders of a sandbox on this machine, before anything runs in it: made, owned by the
//! sandbox's user, and free of traps. Called by `local`.
//! Never follows a link and never gives away a file that has another name elsewhere.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use super::SandboxFolders;
use super::overlay::uppers_of;
use super::spec::HostFolders;

/// Folders that would show the machine instead of a compiler.
const NOT_TOOLCHAINS: &[&str] = &[
    "/",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lost+found",
    "/media",
    "/mnt",
    "/proc",
    "/root",
    "/run",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/workspace",
];

/// Makes what is missing and returns the canonical paths. `uid`: who owns them, when the service
/// runs as root.
pub(super) fn prepare(
    folders: &SandboxFolders,
    toolchains: &[String],
    uid: Option<u32>,
) -> Result<(HostFolders, PathBuf), String> {
    let tmp = folders.home.with_file_name("tmp");
    let uppers = uppers_of(folders);
    for folder in [&folders.workspace, &folders.home, &folders.out, &tmp]
        .into_iter()
        .chain(&uppers)
    {
        let failed = |error: io::Error| format!("prepare the folder {}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        if let Some(uid) = uid {
            give_tree(folder, uid).map_err(failed)?;
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    if uid.is_some() {
        let failed = |error| format!("make {} readable: {error}", folders.base_git.display());
        make_readable(&folders.base_git).map_err(failed)?;
    }
    let canonical = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("find the folder {}: {error}", path.display()))
    };
    let host = HostFolders {
        workspace: canonical(&folders.workspace)?,
        home: canonical(&folders.home)?,
        tmp: canonical(&tmp)?,
        base_git: canonical(&folders.base_git)?,
        out: None,
        toolchains: toolchains
            .iter()
            .map(|path| toolchain(path, &folders.workspace))
            .collect::<Result<_, _>>()?,
    };
    Ok((host, canonical(&folders.out)?))
}

fn toolchain(path: &str, workspace: &Path) -> Result<PathBuf, String> {
    let explain = |problem: &str| format!("sandbox.toolchains: {path}: {problem}");
    let found = Path::new(path)
        .canonicalize()
        .map_err(|error| explain(&error.to_string()))?;
    if !found.is_dir() {
        return Err(explain("not a folder"));
    }
    if NOT_TOOLCHAINS.iter().any(|forbidden| found == Path::new(forbidden)) || workspace.starts_with(&found) {
        return Err(explain(
            "this would show more of the machine than a compiler; name the compiler's own folder",
        ));
    }
    Ok(found)
}

/// Gives a tree to `uid`. Nothing runs in the sandbox yet, so that nothing changes under the walk.
fn give_tree(root: &Path, uid: u32) -> io::Result<()> {
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
        if found.uid() != uid {
            if found.is_file() && found.nlink() > 1 {
                // Its other name may be a mirror's object or a file of the machine.
                break_hard_link(&path)?;
            }
            lchown(&path, Some(uid), Some(uid))?;
            if found.mode() & 0o6000 != 0 && !found.is_symlink() {
                fs::set_permissions(&path, fs::Permissions::from_mode(found.mode() & 0o777))?;
            }
        }
    }
    Ok(())
}

fn break_hard_link(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let copy = tempfile::Builder::new().prefix(".forgehand-").tempfile_in(folder)?;
    fs::copy(path, copy.path())?;
    copy.persist(path)?;
    Ok(())
}

/// A service with a strict mask makes files that the sandbox's user could not read.
fn make_readable(root: &Path) -> io::Result<()> {
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        if found.is_symlink() {
            continue;
        }
        let wanted = if found.is_dir() { 0o055 } else { 0o044 };
        if found.mode() & wanted != wanted {
            fs::set_permissions(&path, fs::Permissions::from_mode(found.mode() & 0o7777 | wanted))?;
        }
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}

pub(super) fn detect_toolchains(home: &Path, rustup_home: Option<&Path>) -> Vec<PathBuf> {
    let rustup = rustup_home.map_or_else(|| home.join(".rustup"), Path::to_path_buf);
    let mut installed: Vec<PathBuf> = fs::read_dir(rustup.join("toolchains"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/rustc").is_file())
        .collect();
    installed.sort();
    let settings = fs::read_to_string(rustup.join("settings.toml")).unwrap_or_default();
    let settings: toml::Table = settings.parse().unwrap_or_default();
    let default = settings
        .get("default_toolchain")
        .and_then(toml::Value::as_str)
        .unwrap_or_default();
    // A default may be named without the machine's triple.
    let by_name = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !default.is_empty() && (name == default || name.starts_with(&format!("{default}-")))
    };
    let only = if installed.len() == 1 { installed.first() } else { None };
    let chosen = installed.iter().find(by_name).or(only);
    chosen.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(installed: &[&str], settings: &str, expected: Option<&str>) {
        let home = tempfile::tempdir().expect("a folder");
        let toolchains = home.path().join(".rustup/toolchains");
        for name in installed {
            fs::create_dir_all(toolchains.join(name).join("bin")).expect("a folder");
            fs::write(toolchains.join(name).join("bin/rustc"), "").expect("a file");
        }
        fs::create_dir_all(home.path().join(".rustup")).expect("a folder");
        fs::write(home.path().join(".rustup/settings.toml"), settings).expect("a file");
        let found = detect_toolchains(home.path(), None);
        let names: Vec<_> = found
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy())
            .collect();
        assert_eq!(names, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_default_or_only_toolchain_is_found() {
        check(&[], "", None);
        check(&["1.90-x86"], "", Some("1.90-x86"));
        check(
            &["1.90-x86", "stable-x86"],
            "default_toolchain = \"stable-x86\"",
            Some("stable-x86"),
        );
        check(
            &["1.90-x86", "stable-x86"],
            "default_toolchain = \"stable\"",
            Some("stable-x86"),
        );
        check(&["1.90-x86", "stable-x86"], "not toml", None);
    }
}
