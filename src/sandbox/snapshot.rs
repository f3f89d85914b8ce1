//! The scripts that look at the state of a workspace, keep it and bring it back, inside the sandbox.
//! Called by `local` and `export`. Never uses the workspace's `.git`, nor any configuration that the
//! sandbox could write.

use std::path::Path;

use super::SnapshotRequest;

/// Most states that are kept; the oldest goes first.
pub(super) const MAX_KEPT: usize = 20;

/// Litter of builds and tests. What the base tracks is seen all the same.
pub(super) const LITTER: &[&str] = &[
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

/// Leaves the state of the workspace as `$tree`, and that of the base as `$base_tree`, in a git
/// folder of its own. `$1` base.git, `$2` base commit or nothing for the branch `base`, `$3` litter,
/// `$4` where objects are kept: `own` or `state`.
pub(super) const TAKE: &str = r#"
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0
export GIT_LITERAL_PATHSPECS=1
work=$PWD
state=$HOME/.forgehand/checkpoints
base=${2:-$(git --git-dir="$1" rev-parse -q --verify refs/heads/base 2>/dev/null || git --git-dir="$1" for-each-ref --count=1 --format='%(objectname)' refs/heads/ 2>/dev/null || :)}
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
git config core.quotePath false
git config advice.addEmbeddedRepo false
git config gc.auto 0
mkdir -p "$own/git/info" "$own/git/objects/info"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$1/objects"
if [ "$4" = state ]; then
  mkdir -p "$state/objects/info" "$state/objects/pack"
  export GIT_OBJECT_DIRECTORY="$state/objects"
elif [ -d "$state/objects" ]; then
  export GIT_ALTERNATE_OBJECT_DIRECTORIES="$1/objects:$state/objects"
fi
printf '%s\n' "$3" > "$own/git/info/exclude"
if [ -n "$base" ]; then
  base_tree=$(git rev-parse "$base^{tree}")
  git read-tree "$base_tree"
else
  base_tree=
fi
# A folder with a repository of its own would become a link to a commit that nobody has.
find . -mindepth 2 -name .git -prune -print | sed 's,[][*?\\],\\&,g; s,^\.,,; s,\.git$,,' >> "$own/git/info/exclude"
# Submodules are not checked out, which is no change.
git ls-files -z --stage | sed -zn 's/^160000 [^\t]*\t//p' | git update-index -z --skip-worktree --stdin
# What is as it was is found by reading it. `add` alone would store every file again, because it
# cannot mark the read-only pack of the base as fresh.
git update-index -q --refresh || :
git add --all -- .
tree=$(git write-tree)
"#;

/// `$5` kept state or nothing for the base, `$6` path or nothing.
const DIFF: &str = r#"
if [ -n "$5" ]; then
  from=$(sed -n "s/^$5	\([0-9a-f]*\)	.*/\1/p" "$state/list" 2>/dev/null || :)
  [ -n "$from" ] || { echo "forgehand: no checkpoint $5"; exit 3; }
else
  from=$base_tree
  [ -n "$from" ] || { echo 'forgehand: no base'; exit 4; }
fi
set -- --no-ext-diff --no-textconv --no-color --find-renames "$from" "$tree" ${6:+-- "$6"}
git diff --stat=160,120 "$@"
echo
git diff "$@"
"#;

/// Adds `$tree` to the list; `$5` its name, `$6` how many are kept.
const KEEP: &str = r#"
keep() {
  last=$(tail -n 1 "$state/list" 2>/dev/null | cut -f 1)
  number=$((${last:-0} + 1))
  printf '%s\t%s\t%s\n' "$number" "$tree" "$1" >> "$state/list"
  tail -n "$2" "$state/list" > "$own/list"
  cat "$own/list" > "$state/list"
}
"#;

/// `$5` kept state, 0 for the base; `$6` how many are kept. What is there is kept before.
const RESTORE: &str = r#"
if [ "$5" = 0 ]; then
  target=$base_tree
  [ -n "$target" ] || { echo 'forgehand: no base'; exit 4; }
else
  target=$(sed -n "s/^$5	\([0-9a-f]*\)	.*/\1/p" "$state/list" 2>/dev/null || :)
  [ -n "$target" ] || { echo "forgehand: no checkpoint $5"; exit 3; }
fi
keep "before going back to $5" "$6"
git read-tree -m -u "$tree" "$target"
echo "forgehand: kept $number"
git diff --stat=160,120 --no-ext-diff --no-textconv --no-color "$tree" "$target"
"#;

/// What runs for a request. `base_git` is the path as the sandbox sees it.
pub(super) fn argv(base_git: &Path, request: &SnapshotRequest) -> Vec<String> {
    let (script, objects, arguments) = match request {
        SnapshotRequest::Diff { since, path } => {
            let since = since.map(|number| number.to_string()).unwrap_or_default();
            (format!("{TAKE}{DIFF}"), "own", [since, path.clone()])
        }
        SnapshotRequest::Keep { name } => (
            format!("{TAKE}{KEEP}keep \"$5\" \"$6\"\necho \"forgehand: kept $number\"\n"),
            "state",
            [one_line(name), MAX_KEPT.to_string()],
        ),
        SnapshotRequest::Restore { number } => (
            format!("{TAKE}{KEEP}{RESTORE}"),
            "state",
            [number.to_string(), MAX_KEPT.to_string()],
        ),
    };
    let base_git = base_git.display().to_string();
    let litter = LITTER.join("\n");
    let before = ["/bin/sh", "-c", &script, "snapshot", &base_git, "", &litter, objects].map(str::to_owned);
    before.into_iter().chain(arguments).collect()
}

/// The list has one line for each state.
fn one_line(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    crate::text::cap_chars(&words.join(" "), 100)
}
