//! The script that turns a workspace into a bundle, inside the sandbox. Called by the backends.
//! Never uses the workspace's `.git`, nor any configuration that the sandbox could write.

use std::path::{Path, PathBuf};

use super::snapshot::{LITTER, TAKE};
use super::{ExecOutput, SandboxError};
use crate::ids::CommitSha;
use crate::text::{bytes_in_words, cap_middle};

/// Name of the bundle in the folder `out`, with the one ref `refs/heads/change`.
pub(super) const BUNDLE: &str = "change.bundle";

/// The import takes no more either.
pub(super) const MAX_BUNDLE_BYTES: u64 = 200 * 1024 * 1024;

/// Printed when the tree is the base's.
const UNCHANGED: &str = "forgehand: nothing changed";

/// After [`TAKE`]; `$5` is the folder `out`.
const SCRIPT: &str = r#"
if [ "$tree" = "$base_tree" ]; then
  echo 'forgehand: nothing changed'
  exit 0
fi
commit=$(git commit-tree -p "$base" -m 'Change made in a sandbox' "$tree")
git update-ref refs/heads/change "$commit"
# What a killed export left, its lock included, must not stop this one.
rm -rf "$5/change.bundle" "$5/change.bundle.lock"
git bundle create --quiet "$5/change.bundle" refs/heads/change "^$base"
"#;

/// What runs. `base_git` and `out` are the paths as the sandbox sees them.
pub(super) fn argv(base_git: &Path, out: &Path, base: &CommitSha) -> Vec<String> {
    let [base_git, out] = [base_git, out].map(|path| path.display().to_string());
    let script = format!("{TAKE}{SCRIPT}");
    let (base, litter) = (base.to_string(), LITTER.join("\n"));
    [
        "/bin/sh", "-c", &script, "export", &base_git, &base, &litter, "own", &out,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Whether the script came to its end and made a bundle.
pub(super) fn has_bundle(output: &ExecOutput) -> bool {
    output.code() == Some(0) && output.output.lines().all(|line| line != UNCHANGED)
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
