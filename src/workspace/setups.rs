//! What set-up commands left, in the state folder: `setups/<repository>/<key>`, where the key is made
//! from everything that set-up depends on. A later run with the same key begins with it, one with
//! another begins with the home folder alone, where package managers keep what they fetched. Called by
//! `run`. Never takes anything from a run that the caller does not vouch for, and never gives one
//! repository's to another.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::folder::{Kind, RunFolder, absolute};
use super::stock::{Stock, size_of};
use crate::config::WorkspaceConfig;
use crate::git::{Tree, copy_tree};
use crate::ids::RepoId;

/// One set-up may have this part of the room.
const MOST_OF_ALL: u64 = 4;

/// Files that say what a set-up installs, by name. Those of folders count, too.
const MANIFESTS: &[&str] = &[
    ".bundle/config",
    ".cargo/config.toml",
    ".npmrc",
    ".nvmrc",
    ".node-version",
    ".pnpmfile.cjs",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "Directory.Packages.props",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "composer.json",
    "composer.lock",
    "conanfile.py",
    "conanfile.txt",
    "cpanfile",
    "deno.lock",
    "environment.yml",
    "flake.lock",
    "flake.nix",
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    "gradle-wrapper.properties",
    "gradle.lockfile",
    "gradle.properties",
    "libs.versions.toml",
    "maven-wrapper.properties",
    "mix.exs",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "packages.lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pubspec.lock",
    "pubspec.yaml",
    "pyproject.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "settings.gradle",
    "settings.gradle.kts",
    "setup.cfg",
    "setup.py",
    "stack.yaml",
    "stack.yaml.lock",
    "uv.lock",
    "vcpkg.json",
    "yarn.lock",
];

/// Everything that a set-up depends on, as a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupKey(String);

impl SetupKey {
    /// From the commands, the files of the commit, and what the machine or the image brings.
    pub fn new(commands: &[String], files: &Tree, tools: &str) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(tools.as_bytes());
        for command in commands {
            add(command.as_bytes());
        }
        add(b"");
        for entry in files.entries.iter().filter(|entry| is_manifest(&entry.path, commands)) {
            add(entry.path.as_bytes());
            add(&entry.id.0);
        }
        Self(hex::encode(&hash.finalize()[..20]))
    }
}

/// Whether set-up may read a file: one of the known names, lists of requirements, or one that a command
/// names, such as a script.
fn is_manifest(path: &str, commands: &[String]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_known = MANIFESTS
        .iter()
        .any(|known| *known == name || (known.contains('/') && path.ends_with(known)));
    let is_requirements = name.contains("requirements") && [".txt", ".in"].iter().any(|ending| name.ends_with(ending));
    is_known || is_requirements || commands.iter().any(|command| command.contains(path))
}

/// What the machine brings to set-up commands, in words of a cache's key: the system, and each program of
/// a package manager or compiler with its size and time.
pub fn tools_of_this_machine(toolchains: &[String]) -> String {
    const PROGRAMS: &[&str] = &[
        "bun", "bundle", "cargo", "cmake", "composer", "dotnet", "gcc", "go", "gradle", "java", "make", "mix", "mvn",
        "node", "npm", "php", "pip3", "pnpm", "poetry", "python3", "ruby", "rustc", "uv", "yarn",
    ];
    let mut words = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let own = toolchains.iter().map(|toolchain| Path::new(toolchain).join("bin"));
    for folder in own.chain(["/usr/local/bin".into(), "/usr/bin".into()]) {
        for program in PROGRAMS {
            let path = folder.join(program);
            let (Ok(real), Ok(found)) = (path.canonicalize(), fs::metadata(&path)) else {
                continue;
            };
            words.push_str(&format!("{}\t{}\t{}\n", real.display(), found.len(), found.mtime()));
        }
    }
    words
}

/// How much of a set-up a run begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// With all of it: nothing has to run.
    Whole,
    /// With what an earlier one fetched.
    Warm,
    /// With nothing.
    Cold,
}

/// What set-ups of all repositories left, or of one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Setups {
    stock: Stock,
    max_bytes: u64,
}

impl Setups {
    /// Those below a state folder; `None` when the configuration keeps none.
    pub fn new(state_dir: &Path, config: &WorkspaceConfig) -> Option<Self> {
        /// Bytes are the bound that matters.
        const MAX_KEPT: usize = 1_000;
        let root = absolute(state_dir).ok()?.join("setups");
        let max_bytes = config.setup_mib.saturating_mul(1 << 20);
        (max_bytes > 0).then(|| Self {
            stock: Stock::new(root, max_bytes, MAX_KEPT),
            max_bytes,
        })
    }

    /// Those of one repository.
    #[must_use]
    pub fn of(&self, repo: RepoId) -> Self {
        Self {
            stock: self.stock.of(repo.to_string()),
            ..self.clone()
        }
    }

    /// Lets a fresh run folder that is filled already begin with what is there. Blocks.
    ///
    /// # Errors
    /// Of this machine's disk.
    pub fn begin(&self, run: &RunFolder, key: &SetupKey) -> Result<Begun> {
        let exact = self.stock.folder(&key.0);
        let (begun, kind, folder) = if self.stock.keep(run, Kind::Setup, &exact)? {
            (Begun::Whole, Kind::Setup, exact)
        } else {
            let kept = match self.stock.complete()?.first() {
                Some(latest) => self
                    .stock
                    .keep(run, Kind::Warm, &latest.folder)?
                    .then(|| latest.folder.clone()),
                None => None,
            };
            match kept {
                Some(folder) => (Begun::Warm, Kind::Warm, folder),
                None => return Ok(Begun::Cold),
            }
        };
        // A workspace that lies on a tree lies on this, too.
        if run.lies_on(Kind::Tree).is_none() {
            let copy = |part: &str, to: PathBuf| {
                let from = folder.join(part);
                copy_tree(&from, &to).with_context(|| format!("copy {} to {}", from.display(), to.display()))
            };
            copy(HOME, run.home())?;
            if begun == Begun::Whole {
                copy(WORKSPACE, run.workspace())?;
                run.mark_set_up()?;
            }
            run.leave(kind)?;
        }
        Ok(begun)
    }

    /// Keeps what a set-up left, which lies in a folder that is taken away. Only what a trusted run on
    /// the default branch left, before anybody worked there, may come here. Blocks.
    ///
    /// # Errors
    /// When it is too large, and of this machine's disk.
    pub fn keep(&self, key: &SetupKey, left: &Path) -> Result<()> {
        for part in [HOME, WORKSPACE] {
            let part = left.join(part);
            let found = fs::symlink_metadata(&part).with_context(|| format!("find {}", part.display()))?;
            anyhow::ensure!(found.is_dir(), "{} is no folder", part.display());
        }
        let bytes = size_of(left)?;
        anyhow::ensure!(
            bytes <= self.max_bytes / MOST_OF_ALL,
            "what set-up left is {}, and at most a quarter of workspace.setup_mib is kept",
            crate::text::bytes_in_words(bytes)
        );
        let Some(making) = self.stock.begin(&key.0)? else {
            return Ok(());
        };
        take_over(left).with_context(|| format!("take over {}", left.display()))?;
        fs::rename(left, &making.place).with_context(|| format!("move {}", left.display()))?;
        making.finish()?;
        self.stock.make_room()
    }

    /// Removes what is over the bounds, and what a process that died left. Blocks.
    ///
    /// # Errors
    /// Of this machine's disk.
    pub fn tidy(&self) -> Result<()> {
        self.stock.root()?;
        self.stock.tidy()
    }
}

/// Parts of what a set-up left.
pub(super) const HOME: &str = "home";
pub(super) const WORKSPACE: &str = "workspace";

/// Makes everything ours: the next run has another user. Nothing runs there any more, and no link is
/// followed.
fn take_over(root: &Path) -> std::io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        if found.uid() != user {
            lchown(&path, Some(user), Some(group))?;
        }
        let mode = found.mode() & 0o7777;
        let wanted = mode & 0o777 | if found.is_dir() { 0o700 } else { 0 };
        if !found.is_symlink() && wanted != mode {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted))?;
        }
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{BlobId, Entry, EntryKind};

    fn key(commands: &[&str], files: &[(&str, u8)], tools: &str) -> SetupKey {
        let entries = files.iter().map(|(path, content)| Entry {
            path: (*path).to_owned(),
            kind: EntryKind::File,
            id: BlobId([*content; 20]),
        });
        let tree = Tree {
            entries: entries.collect(),
            ..Tree::default()
        };
        let commands: Vec<String> = commands.iter().map(|command| (*command).to_owned()).collect();
        SetupKey::new(&commands, &tree, tools)
    }

    #[test]
    fn the_key_changes_with_what_set_up_depends_on_and_with_nothing_else() {
        let usual = key(
            &["npm ci", "sh bin/prepare"],
            &[("package-lock.json", 1), ("a.js", 1), ("bin/prepare", 1)],
            "node 22",
        );
        let same = |commands: &[&str], files: &[(&str, u8)], tools: &str| key(commands, files, tools) == usual;
        let commands = ["npm ci", "sh bin/prepare"];
        let files = [("package-lock.json", 1), ("a.js", 2), ("bin/prepare", 1)];
        assert!(same(&commands, &files, "node 22"), "other files do not matter");
        assert!(!same(&commands, &files, "node 24"));
        assert!(!same(&["npm ci"], &files, "node 22"));
        assert!(!same(
            &commands,
            &[("package-lock.json", 2), ("a.js", 1), ("bin/prepare", 1)],
            "node 22"
        ));
        assert!(!same(
            &commands,
            &[("package-lock.json", 1), ("bin/prepare", 2)],
            "node 22"
        ));
        assert!(!same(
            &commands,
            &[("sub/package-lock.json", 1), ("bin/prepare", 1)],
            "node 22"
        ));
        for (path, expected) in [
            ("web/package.json", true),
            ("requirements-dev.txt", true),
            ("docs/requirements.in", true),
            (".cargo/config.toml", true),
            ("src/config.toml", false),
            ("README.md", false),
        ] {
            assert_eq!(is_manifest(path, &[]), expected, "{path}");
        }
    }
}
