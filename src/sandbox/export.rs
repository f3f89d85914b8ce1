//! The script that turns a workspace into a bundle, inside the sandbox. Called by `local`.
//! Never uses the workspace's `.git`, nor any configuration that the sandbox could write.

use std::path::{Path, PathBuf};

use super::{ExecOutput, SandboxError};
use crate::ids::CommitSha;
use crate::text::{bytes_in_words, cap_middle};

/// Name of the bundle in the folder `out`, with the one ref `refs/heads/change`.
const BUNDLE: &str = "change.bundle";

/// The import takes no more either.
const MAX_BUNDLE_BYTES: u64 = 200 * 1024 * 1024;

/// Printed when the tree is the base's.
const UNCHANGED: &str = "forgehand: nothing changed";

/// Litter of builds and tests. What the base tracks is exported all the same.
const LITTER: &[&str] = &[
    "target/",
    "node_modules/",
    "__pycache__/",
    "*.pyc",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".tox/",
    ".venv/",
    "venv/",
    ".gradle/",
    ".DS_Store",
    ".forgehand-*",
];

/// `$1` base.git, `$2` out, `$3` base commit, `$4` litter.
const SCRIPT: &str = r#"
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0
work=$PWD
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
git init --quiet --bare --template= "$own/git"
export GIT_DIR="$own/git" GIT_WORK_TREE="$work"
git config core.bare false
git config core.fsmonitor false
git config core.hooksPath /dev/null
git config core.autocrlf false
git config core.excludesFile /dev/null
git config core.attributesFile /dev/null
git config advice.addEmbeddedRepo false
git config gc.auto 0
mkdir -p "$own/git/info" "$own/git/objects/info"
printf '%s\n' "$1/objects" > "$own/git/objects/info/alternates"
printf '%s\n' "$4" > "$own/git/info/exclude"
git read-tree "$3"
# A folder with a repository of its own would become a link to a commit that nobody has.
find . -mindepth 2 -name .git -prune -print | sed 's,[][*?\\],\\&,g; s,^\.,,; s,\.git$,,' >> "$own/git/info/exclude"
# Submodules are not checked out, which is no change.
git ls-files -z --stage | sed -zn 's/^160000 [^\t]*\t//p' | git update-index -z --skip-worktree --stdin
# What is as it was is found by reading it. `add` alone would store every file again, because it
# cannot mark the read-only pack of the base as fresh.
git update-index -q --refresh || :
git add --all -- .
tree=$(git write-tree)
if [ "$tree" = "$(git rev-parse "$3^{tree}")" ]; then
  echo 'forgehand: nothing changed'
  exit 0
fi
commit=$(git commit-tree -p "$3" -m 'Change made in a sandbox' "$tree")
git update-ref refs/heads/change "$commit"
# What a killed export left, its lock included, must not stop this one.
rm -rf "$2/change.bundle" "$2/change.bundle.lock"
git bundle create --quiet "$2/change.bundle" refs/heads/change "^$3"
"#;

/// What runs. `base_git` and `out` are the paths as the sandbox sees them.
pub(super) fn argv(base_git: &Path, out: &Path, base: &CommitSha) -> Vec<String> {
    let parts = ["/bin/sh", "-c", SCRIPT, "export"].map(str::to_owned).into_iter();
    let paths = [base_git, out].map(|path| path.display().to_string());
    parts
        .chain(paths)
        .chain([base.to_string(), LITTER.join("\n")])
        .collect()
}

/// The bundle on this machine, if there is one and it is what it should be.
pub(super) fn found(output: &ExecOutput, out: &Path) -> Result<Option<PathBuf>, SandboxError> {
    if output.code() != Some(0) {
        let said = cap_middle(output.output.trim(), 2000);
        return Err(SandboxError::Broken(format!(
            "the export ended with {:?}: {said}",
            output.exit
        )));
    }
    if output.output.lines().any(|line| line == UNCHANGED) {
        return Ok(None);
    }
    let bundle = out.join(BUNDLE);
    let found = std::fs::symlink_metadata(&bundle)
        .map_err(|error| SandboxError::Broken(format!("the export left no bundle: {error}")))?;
    if !found.is_file() || std::os::unix::fs::MetadataExt::nlink(&found) != 1 {
        return Err(SandboxError::Broken(
            "the exported bundle is not a plain file".to_owned(),
        ));
    }
    if found.len() > MAX_BUNDLE_BYTES {
        let (size, most) = (bytes_in_words(found.len()), bytes_in_words(MAX_BUNDLE_BYTES));
        return Err(SandboxError::Broken(format!(
            "the change has {size}; at most {most} can be exported"
        )));
    }
    Ok(Some(bundle))
}
