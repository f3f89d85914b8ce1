//! Which checkouts on this machine may instruct the agent: a file of paths with never, once or
//! always, of which the nearest one above a checkout counts. Called by `run` and `trust` of the
//! command line. Never says yes to a path that nobody named.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// What stands at the head of the file.
const HEAD: &str = "# Checkouts whose AGENTS.md, instructions, skills and lists `forgehand run` obeys:\n\
                    # never, once (the next run alone) or always.\n\
                    # The nearest path above a checkout counts; without one the answer is never.\n";

/// What was said about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub enum Decision {
    /// Also where a folder above is trusted.
    Never,
    /// The next run alone.
    Once,
    /// From now on.
    Always,
}

/// A decision as files have it; older ones say yes or no.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    YesOrNo(bool),
    Word(Word),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Never,
    Once,
    Always,
}

impl From<Written> for Decision {
    fn from(written: Written) -> Self {
        match written {
            Written::YesOrNo(true) | Written::Word(Word::Always) => Decision::Always,
            Written::YesOrNo(false) | Written::Word(Word::Never) => Decision::Never,
            Written::Word(Word::Once) => Decision::Once,
        }
    }
}

impl Decision {
    /// Whether it is a yes.
    pub fn is_yes(self) -> bool {
        self != Decision::Never
    }

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Decision::Never => "never",
            Decision::Once => "once",
            Decision::Always => "always",
        }
    }
}

/// What was said about paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    paths: BTreeMap<PathBuf, Decision>,
}

impl Trust {
    /// Reads the file; one that does not exist says nothing.
    ///
    /// # Errors
    /// When it cannot be read or understood, or others could have written it: then nobody knows
    /// what it forbids.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let shown = || format!("read {}", file.display());
        let mut open = match File::open(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.with_context(shown)?,
        };
        let about = open.metadata().with_context(shown)?;
        is_ones_own(file, &about)?;
        if about.len() > MAX_BYTES {
            anyhow::bail!("{} is too long", file.display());
        }
        let mut text = String::new();
        std::io::Read::read_to_string(&mut open, &mut text).with_context(shown)?;
        let paths: BTreeMap<PathBuf, Decision> = toml::from_str(&text).with_context(shown)?;
        if let Some(path) = paths.keys().find(|path| !path.is_absolute()) {
            anyhow::bail!("{}: {:?} is not an absolute path", file.display(), path);
        }
        let is_winding = |path: &&PathBuf| path.components().any(|part| part == Component::ParentDir);
        if let Some(path) = paths.keys().find(is_winding) {
            anyhow::bail!("{}: {:?} goes up by `..`; write where it leads", file.display(), path);
        }
        Ok(Self { paths })
    }

    /// Changes the file: nobody else does meanwhile.
    ///
    /// # Errors
    /// When the folder or the file cannot be written, or [`Trust::load`] fails.
    pub fn change<T>(file: &Path, change: impl FnOnce(&mut Self) -> T) -> anyhow::Result<T> {
        let folder = file.parent().context("the trust file has no folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let lock = folder.join("trust.lock");
        let held = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .and_then(|held| held.lock().map(|()| held));
        let _held = held.with_context(|| format!("lock {}", lock.display()))?;
        let mut trust = Self::load(file)?;
        let before = trust.clone();
        let result = change(&mut trust);
        if trust != before {
            trust.save(file)?;
        }
        Ok(result)
    }

    /// Writes the file, through another one beside it that is readable by its owner alone.
    fn save(&self, file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().context("the trust file has no folder")?;
        let mut lines = HEAD.to_owned();
        for (path, decision) in &self.paths {
            let path = path
                .to_str()
                .context("a path that is not UTF-8 cannot be written down")?;
            let (path, word) = (toml::Value::String(path.to_owned()), decision.word());
            lines.push_str(&format!("{path} = \"{word}\"\n"));
        }
        let mut beside = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut beside, lines.as_bytes())?;
        beside
            .persist(file)
            .with_context(|| format!("write {}", file.display()))?;
        Ok(())
    }

    /// What was said about a checkout, and the path that says so. The checkout is where it really
    /// is: neither links nor `..` lead to what was said about another folder.
    pub fn of(&self, checkout: &Path) -> Option<(Decision, &Path)> {
        let said = checkout.ancestors().find_map(|path| self.paths.get_key_value(path));
        said.map(|(path, decision)| (*decision, path.as_path()))
    }

    /// Says something about a path.
    pub fn say(&mut self, path: PathBuf, decision: Decision) {
        self.paths.insert(path, decision);
    }

    /// Takes back what was said about a path; whether anything was.
    pub fn forget(&mut self, path: &Path) -> bool {
        self.paths.remove(path).is_some()
    }

    /// What was said about a checkout; a `once` is used up by it.
    fn take(&mut self, checkout: &Path) -> Option<Decision> {
        let (decision, path) = self.of(checkout).map(|(decision, path)| (decision, path.to_owned()))?;
        if decision == Decision::Once {
            self.paths.remove(&path);
        }
        Some(decision)
    }

    /// All paths with what was said.
    pub fn all(&self) -> impl Iterator<Item = (&Path, Decision)> {
        self.paths.iter().map(|(path, decision)| (path.as_path(), *decision))
    }
}

/// What was said about a checkout, for a run that begins: of several runs, a `once` counts for one.
///
/// # Errors
/// As [`Trust::load`], and when a `once` cannot be crossed out.
pub fn take(file: &Path, checkout: &Path) -> anyhow::Result<Option<Decision>> {
    match Trust::load(file)?.of(checkout) {
        Some((Decision::Once, _)) => Trust::change(file, |trust| trust.take(checkout)),
        said => Ok(said.map(|(decision, _)| decision)),
    }
}

/// Whoever can write the file says what programs of this user obey.
fn is_ones_own(file: &Path, about: &Metadata) -> anyhow::Result<()> {
    let (own, root) = (rustix::process::geteuid().as_raw(), 0);
    let mend = |path: &Path, how: &str| format!("; mend it with `{how} {}`", path.display());
    let check = |path: &Path, about: &Metadata, writable: u32, by: &str, rights: &str| {
        if ![own, root].contains(&about.uid()) {
            anyhow::bail!("{} belongs to another user and is not believed", path.display());
        }
        if about.mode() & writable != 0 {
            let how = mend(path, &format!("chmod {rights}"));
            anyhow::bail!("{} can be written by {by} and is not believed{how}", path.display());
        }
        Ok(())
    };
    check(file, about, 0o022, "others", "go-w")?;
    // Whoever can write the folder can put another file in its place.
    let folder = file.parent().context("the trust file has no folder")?;
    let about = std::fs::metadata(folder).with_context(|| format!("look at {}", folder.display()))?;
    check(folder, &about, 0o002, "everybody", "o-w")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn trust() -> Trust {
        let mut trust = Trust::default();
        trust.say("/home/me/code".into(), Decision::Always);
        trust.say("/home/me/code/strange".into(), Decision::Never);
        trust.say("/home/me/code/strange/mine".into(), Decision::Once);
        trust
    }

    #[track_caller]
    fn check(checkout: &str, expected: Option<Decision>) {
        let trust = trust();
        let said = trust.of(Path::new(checkout)).map(|(decision, _)| decision);
        assert_eq!(said, expected, "{checkout}");
    }

    #[test]
    fn the_nearest_path_above_counts_and_without_one_nothing_was_said() {
        check("/home/me/code", Some(Decision::Always));
        check("/home/me/code/a/b", Some(Decision::Always));
        check("/home/me/code/strange", Some(Decision::Never));
        check("/home/me/code/strange/x", Some(Decision::Never));
        check("/home/me/code/strange/mine/x", Some(Decision::Once));
        check("/home/me/codes", None);
        check("/home/me", None);
        check("/", None);
    }

    #[test]
    fn it_is_written_and_read_again_and_older_files_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/trust.toml");
        assert_eq!(Trust::load(&file).unwrap(), Trust::default());
        Trust::change(&file, |trust| {
            trust.say("/a \"b\"/c".into(), Decision::Always);
            trust.say("/d".into(), Decision::Never);
        })
        .unwrap();
        let trust = Trust::load(&file).unwrap();
        assert_eq!(trust.of(Path::new("/a \"b\"/c/d")).unwrap().0, Decision::Always);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let forget = |trust: &mut Trust| trust.forget(Path::new("/d"));
        assert!(Trust::change(&file, forget).unwrap() && !Trust::change(&file, forget).unwrap());
        assert_eq!(Trust::load(&file).unwrap().all().count(), 1);
        std::fs::write(&file, "\"/a\" = true\n\"/b\" = false\n\"/c\" = \"once\"\n").unwrap();
        let all: Vec<Decision> = Trust::load(&file).unwrap().all().map(|(_, said)| said).collect();
        assert_eq!(all, [Decision::Always, Decision::Never, Decision::Once]);
    }

    #[test]
    fn once_is_used_up_by_one_of_many() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trust.toml");
        Trust::change(&file, |trust| trust.say("/a".into(), Decision::Once)).unwrap();
        let file = &file;
        let yes = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(move || take(file, Path::new("/a/b")).unwrap()))
                .collect();
            takers
                .into_iter()
                .filter_map(|taker| taker.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(yes, [Decision::Once]);
        assert_eq!(Trust::load(file).unwrap(), Trust::default());
    }

    #[test]
    fn a_file_that_is_not_understood_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trust.toml");
        for text in [
            "\"a\" = true",
            "\"/a\" = \"yes\"",
            "\"/a\" = 1",
            "not toml [",
            "\"/a/../b\" = true",
        ] {
            std::fs::write(&file, text).unwrap();
            assert!(Trust::load(&file).is_err(), "{text}");
        }
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trust.toml");
        std::fs::write(&file, "\"/a\" = true\n").unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o666, 0o664, 0o622] {
            set(&file, mode);
            let refused = Trust::load(&file).unwrap_err().to_string();
            assert!(
                refused.contains("can be written by others") && refused.contains("chmod go-w"),
                "{refused}"
            );
        }
        set(&file, 0o644);
        set(folder.path(), 0o777);
        let refused = Trust::load(&file).unwrap_err().to_string();
        assert!(refused.contains("everybody"), "{refused}");
        set(folder.path(), 0o755);
        assert!(Trust::load(&file).is_ok());
        // Only root can give files away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
            let refused = Trust::load(&file).unwrap_err().to_string();
            assert!(refused.contains("another user"), "{refused}");
        }
    }
}
