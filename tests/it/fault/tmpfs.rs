//! A small file system that a story can fill, and make room in again. Called by the stories of full
//! disks. Never stays mounted behind its story.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// What it is full of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    Bytes,
    Inodes,
}

/// A mounted file system.
pub struct Tmpfs {
    path: PathBuf,
}

impl Tmpfs {
    /// Mounts one of some megabytes and some hundred files in a folder. `None` where this is not
    /// allowed, which is a failure where everything has to be there.
    pub fn mount(path: &Path) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let options = c"size=24m,nr_inodes=3000,mode=0700";
        match mount(
            "tmpfs",
            path,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(options),
        ) {
            Ok(()) => Some(Self { path: path.to_owned() }),
            Err(error) => {
                eprintln!("NOT TRIED: a full disk needs the right to mount one ({error}); run as root");
                assert!(
                    std::env::var_os("FORGEHAND_TEST_ALL").is_none(),
                    "a file system cannot be mounted"
                );
                None
            }
        }
    }

    /// Leaves no room.
    pub fn fill(&self, what: Full) {
        let filler = self.filler();
        std::fs::create_dir_all(&filler).unwrap();
        let full = match what {
            Full::Bytes => {
                let mut file = std::fs::File::create(filler.join("bytes")).unwrap();
                // Whole blocks first, then what is left of the last one.
                let blocks = std::iter::repeat_with(|| file.write_all(&[1; 64 * 1024])).find(Result::is_err);
                std::iter::repeat_with(|| file.write_all(&[1]))
                    .find(Result::is_err)
                    .and(blocks)
            }
            Full::Inodes => (0..)
                .map(|at| std::fs::File::create(filler.join(format!("{at}"))).map(drop))
                .find(Result::is_err),
        };
        let error = full.unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }

    /// There is room again.
    pub fn free(&self) {
        std::fs::remove_dir_all(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
