//! The script that copies what set-up commands left, inside the sandbox: new files of the workspace and
//! the home folder. Called by `local`.
//! Never copies a workspace in which files of the repository differ from its commit, and never uses the
//! workspace's `.git`.

use std::path::{Path, PathBuf};

use super::{ExecOutput, SandboxError};
use crate::ids::CommitSha;
use crate::text::cap_middle;

/// Name of the copy in the folder `out`; `home` and `workspace` are in it.
const LEFT: &str = "left";

/// `$1` base.git, `$2` base commit, `$3` the folder `out`. Links stay links, and attributes, which could
/// mean something to a layered mount, stay behind.
const SCRIPT: &str = r#"
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
git init --quiet --bare --template= "$own/git"
export GIT_DIR="$own/git" GIT_WORK_TREE="$PWD" GIT_ALTERNATE_OBJECT_DIRECTORIES="$1/objects"
git config core.bare false
git config core.fsmonitor false
git config core.hooksPath /dev/null
git config core.autocrlf false
git read-tree "$2^{tree}"
git ls-files -z --stage | sed -zn 's/^160000 [^\t]*\t//p' | git update-index -z --skip-worktree --stdin
if ! git update-index -q --refresh >/dev/null; then
  echo 'forgehand: set-up changed files of the repository'
  exit 3
fi
rm -rf "$3/left"
mkdir -p "$3/left/home" "$3/left/workspace"
git ls-files -z --others --directory > "$own/new"
tar -cf - --null --files-from="$own/new" | tar -xf - -C "$3/left/workspace"
cd "$HOME"
tar -cf - --exclude=./.forgehand --exclude=./forgehand-change.bundle . | tar -xf - -C "$3/left/home"
"#;

/// What runs. `base_git` and `out` are the paths as the sandbox sees them.
pub(super) fn argv(base_git: &Path, out: &Path, base: &CommitSha) -> Vec<String> {
    let [base_git, out] = [base_git, out].map(|path| path.display().to_string());
    ["/bin/sh", "-c", SCRIPT, "left", &base_git, base.as_str(), &out]
        .map(str::to_owned)
        .to_vec()
}

/// The copy on this machine.
pub(super) fn found(output: &ExecOutput, out: &Path) -> Result<PathBuf, SandboxError> {
    if output.code() == Some(0) {
        return Ok(out.join(LEFT));
    }
    let said = cap_middle(output.output.trim(), 2000);
    Err(SandboxError::Broken(format!("what set-up left is not kept: {said}")))
}
