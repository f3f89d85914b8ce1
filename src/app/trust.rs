//! Which checkouts on this machine may instruct the agent: a file of paths with yes or no, of which
//! the nearest one above a checkout counts. Called by `run` and `trust` of the command line. Never
//! says yes to a path that nobody named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// What stands at the head of the file.
const HEAD: &str = "# Checkouts whose AGENTS.md, instructions and skills `forgehand run` obeys.\n\
                    # The nearest path above a checkout counts; without one the answer is no.\n";

/// What was said about paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    paths: BTreeMap<PathBuf, bool>,
}

impl Trust {
    /// Reads the file; one that does not exist says nothing.
    ///
    /// # Errors
    /// When it cannot be read or understood: then nobody knows what it forbids.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let shown = || format!("read {}", file.display());
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(shown),
            Ok(found) if found.len() > MAX_BYTES => anyhow::bail!("{} is too long", file.display()),
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(file).with_context(shown)?;
        let paths: BTreeMap<PathBuf, bool> = toml::from_str(&text).with_context(shown)?;
        if let Some(path) = paths.keys().find(|path| !path.is_absolute()) {
            anyhow::bail!("{}: {:?} is not an absolute path", file.display(), path);
        }
        Ok(Self { paths })
    }

    /// Writes the file, through another one beside it.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().context("the trust file has no folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let mut lines = HEAD.to_owned();
        for (path, is_trusted) in &self.paths {
            let path = path
                .to_str()
                .context("a path that is not UTF-8 cannot be written down")?;
            lines.push_str(&format!("{} = {is_trusted}\n", toml::Value::String(path.to_owned())));
        }
        let mut beside = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut beside, lines.as_bytes())?;
        beside
            .persist(file)
            .with_context(|| format!("write {}", file.display()))?;
        Ok(())
    }

    /// Whether a checkout is trusted, and the path that says so.
    pub fn of(&self, checkout: &Path) -> (bool, Option<&Path>) {
        let said = checkout.ancestors().find_map(|path| self.paths.get_key_value(path));
        said.map_or((false, None), |(path, is_trusted)| (*is_trusted, Some(path)))
    }

    /// Says yes or no to a path.
    pub fn say(&mut self, path: PathBuf, is_trusted: bool) {
        self.paths.insert(path, is_trusted);
    }

    /// Takes back what was said about a path; whether anything was.
    pub fn forget(&mut self, path: &Path) -> bool {
        self.paths.remove(path).is_some()
    }

    /// All paths with what was said.
    pub fn all(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths
            .iter()
            .map(|(path, is_trusted)| (path.as_path(), *is_trusted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(checkout: &str, expected: bool) {
        let mut trust = Trust::default();
        trust.say("/home/me/code".into(), true);
        trust.say("/home/me/code/strange".into(), false);
        trust.say("/home/me/code/strange/mine".into(), true);
        assert_eq!(trust.of(Path::new(checkout)).0, expected, "{checkout}");
    }

    #[test]
    fn the_nearest_path_above_counts_and_the_default_is_never() {
        check("/home/me/code", true);
        check("/home/me/code/a/b", true);
        check("/home/me/code/strange", false);
        check("/home/me/code/strange/x", false);
        check("/home/me/code/strange/mine/x", true);
        check("/home/me/codes", false);
        check("/home/me", false);
        check("/", false);
    }

    #[test]
    fn it_is_written_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/trust.toml");
        assert_eq!(Trust::load(&file).unwrap(), Trust::default());
        let mut trust = Trust::default();
        trust.say("/a \"b\"/c".into(), true);
        trust.say("/d".into(), false);
        trust.save(&file).unwrap();
        assert_eq!(Trust::load(&file).unwrap(), trust);
        assert!(trust.forget(Path::new("/d")) && !trust.forget(Path::new("/d")));
        trust.save(&file).unwrap();
        assert_eq!(Trust::load(&file).unwrap().all().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_understood_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trust.toml");
        for text in ["\"a\" = true", "\"/a\" = \"yes\"", "not toml ["] {
            std::fs::write(&file, text).unwrap();
            assert!(Trust::load(&file).is_err(), "{text}");
        }
    }
}
