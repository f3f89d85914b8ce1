//! The folders of a run as an archive that goes to a remote sandbox once. Called when such a sandbox
//! opens. Never follows a link: what is packed is what lies below the run's folders.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::sandbox::WORKSPACE;
use crate::sandbox::remote::USER;
use crate::sandbox::root::{BASE_GIT, HOME, OUT};
use crate::sandbox::spec::HostFolders;

/// Packs workspace, home and base repository under their names inside, owned by the commands' user
/// but for the base repository.
pub(super) fn pack(folders: &HostFolders, to: File) -> io::Result<File> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    for (folder, inside, owner) in [
        (&folders.workspace, WORKSPACE, USER),
        (&folders.home, HOME, USER),
        (&folders.base_git, BASE_GIT, 0),
    ] {
        add(&mut archive, folder, Path::new(inside.trim_start_matches('/')), owner)?;
    }
    let mut out = tar::Header::new_ustar();
    out.set_entry_type(tar::EntryType::Directory);
    set(&mut out, USER, 0o700, 0);
    archive.append_data(&mut out, OUT.trim_start_matches('/'), io::empty())?;
    archive.into_inner()
}

fn set(header: &mut tar::Header, owner: u32, mode: u32, bytes: u64) {
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mode(mode);
    header.set_size(bytes);
    header.set_mtime(0);
}

fn add(archive: &mut tar::Builder<File>, root: &Path, inside: &Path, owner: u32) -> io::Result<()> {
    let mut left = vec![(root.to_path_buf(), inside.to_path_buf())];
    while let Some((path, inside)) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        let mut header = tar::Header::new_gnu();
        // Permissions for the owner are the file's own; others may read what the daemon's user owns.
        let others = if owner == 0 { 0o055 } else { 0 };
        set(&mut header, owner, (found.mode() & 0o777) | others, 0);
        if let Ok(changed) = u64::try_from(found.mtime()) {
            header.set_mtime(changed);
        }
        if found.is_dir() {
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, &inside, io::empty())?;
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                left.push((entry.path(), inside.join(entry.file_name())));
            }
        } else if found.is_symlink() {
            header.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut header, &inside, fs::read_link(&path)?)?;
        } else if found.is_file() {
            header.set_size(found.len());
            archive.append_data(&mut header, &inside, File::open(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_packed_under_their_inner_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["workspace/src", "home", "base.git", "tmp"] {
            fs::create_dir_all(at(name)).expect("a folder");
        }
        fs::write(at("workspace/src/one.txt"), "one").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", at("workspace/link")).expect("a link");
        let folders = HostFolders {
            workspace: at("workspace"),
            home: at("home"),
            tmp: at("tmp"),
            base_git: at("base.git"),
            out: None,
            toolchains: Vec::new(),
        };
        let mut packed = pack(&folders, tempfile::tempfile().expect("a file")).expect("an archive");
        io::Seek::rewind(&mut packed).expect("its beginning");
        let mut archive = tar::Archive::new(packed);
        let mut names: Vec<_> = archive
            .entries()
            .expect("entries")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let owner = entry.header().uid().expect("an owner");
                format!("{} {owner} {}", entry.path().expect("a path").display(), entry.size())
            })
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "home/agent 10001 0",
                "run/forgehand/base.git 0 0",
                "run/forgehand/out 10001 0",
                "workspace 10001 0",
                "workspace/link 10001 0",
                "workspace/src 10001 0",
                "workspace/src/one.txt 10001 3",
            ]
        );
    }
}
