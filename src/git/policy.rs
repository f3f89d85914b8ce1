//! What a sandbox's change may contain, as a pure judgement over `git diff-tree --raw -z`. Called
//! by `import`. fsck is no policy: it lets absolute links, odd modes and names that end in a
//! carriage return pass. Never stops at the first violation: people see all of them at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::TreePolicy;
use crate::phrase::Language;
use crate::phrase::policy::{self as words, Rule};
use crate::text;

/// Violations that are spelled out; the rest is counted.
const SHOWN: usize = 50;
/// Longest path, in bytes; the kernel takes no longer ones.
const MAX_PATH: usize = 4_000;
/// Longest target of a symbolic link, in bytes.
pub(super) const MAX_LINK: usize = 1_024;

/// Files that decide what runs with the repository's rights, who must review, or what this
/// program may do. Compared without case.
const FOR_PEOPLE: &[&str] = &[
    ".github/workflows/",
    ".github/actions/",
    ".github/codeowners",
    "docs/codeowners",
    "codeowners",
    crate::repo_config::REPO_CONFIG_PATH,
];

/// Files that make other people's git fetch from elsewhere. Compared without case, in any folder.
const REFUSED_NAMES: &[&str] = &[".gitmodules", ".lfsconfig"];

/// One record of `diff-tree --raw -z`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawChange {
    pub(super) old_mode: String,
    pub(super) new_mode: String,
    pub(super) new_id: String,
    pub(super) status: char,
    pub(super) path: Vec<u8>,
}

/// Parses the records; `None` when the text is not what git writes.
pub(super) fn parse_raw(output: &[u8]) -> Option<Vec<RawChange>> {
    let mut changes = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(meta) = fields.next() {
        if meta.is_empty() {
            continue;
        }
        let meta = std::str::from_utf8(meta).ok()?.strip_prefix(':')?;
        let mut meta = meta.split(' ').map(str::to_owned);
        let (old_mode, new_mode) = (meta.next()?, meta.next()?);
        let (_old_id, new_id) = (meta.next()?, meta.next()?);
        let status = meta.next()?.chars().next()?;
        let path = fields.next()?.to_vec();
        changes.push(RawChange {
            old_mode,
            new_mode,
            new_id,
            status,
            path,
        });
    }
    Some(changes)
}

/// What the judgement needs to know besides the records.
pub(super) struct Facts<'a> {
    /// Size of a new file or link by object id.
    pub(super) sizes: &'a HashMap<String, u64>,
    /// Targets of new links by object id.
    pub(super) links: &'a HashMap<String, Vec<u8>>,
    /// Every path of the new tree.
    pub(super) all_paths: &'a [Vec<u8>],
}

/// All violations, one line each; empty when the change is fine.
pub(super) fn judge(changes: &[RawChange], facts: &Facts<'_>, policy: &TreePolicy) -> Vec<String> {
    let mut problems = Vec::new();
    let language = policy.language;
    let protected = match compile(language, &policy.protected) {
        Ok(globs) => globs,
        Err(problem) => {
            problems.push(problem);
            GlobSet::empty()
        }
    };
    if changes.len() > policy.max_changes {
        problems.push(too_many(changes.len(), policy));
    }
    for change in changes {
        let path = shown_path(&change.path);
        let mut add = |broken: Rule| problems.push(words::of_file(language, &path, &broken));
        check_place(change, &protected, &mut add);
        if change.new_mode == "000000" {
            continue;
        }
        if let Some(broken) = path_problem(&change.path) {
            add(broken);
        }
        check_content(change, facts, policy, &mut add);
    }
    problems.extend(twins(language, changes, facts.all_paths));
    cap_list(language, problems)
}

/// Whether a change of this path could pass, given the globs that the repository protects.
pub fn may_change(path: &str, protected: &[String]) -> bool {
    let Ok(protected) = compile(Language::default(), protected) else {
        return false;
    };
    let change = RawChange {
        old_mode: "100644".to_owned(),
        new_mode: "100644".to_owned(),
        new_id: String::new(),
        status: 'M',
        path: path.as_bytes().to_vec(),
    };
    let mut passes = path_problem(path.as_bytes()).is_none();
    check_place(&change, &protected, &mut |_| passes = false);
    passes
}

/// The one violation of a change that is too long to look at.
pub(super) fn too_many(found: usize, policy: &TreePolicy) -> String {
    words::too_many(policy.language, found, policy.max_changes)
}

fn cap_list(language: Language, mut problems: Vec<String>) -> Vec<String> {
    if problems.len() > SHOWN {
        let more = problems.len() - SHOWN;
        problems.truncate(SHOWN);
        problems.push(words::more(language, more));
    }
    problems
}

/// A glob that cannot be read protects nothing, so it refuses everything instead.
fn compile(language: Language, patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let plain = pattern.trim_start_matches('/');
        // As in ignore files: a folder protects what is in it, a bare name protects every such file.
        let mut variants = vec![plain.to_owned()];
        if let Some(folder) = plain.strip_suffix('/') {
            variants = vec![format!("{folder}/**")];
        } else {
            variants.push(format!("{plain}/**"));
        }
        if !plain.trim_end_matches('/').contains('/') && !pattern.starts_with('/') {
            let deeper: Vec<String> = variants.iter().map(|variant| format!("**/{variant}")).collect();
            variants.extend(deeper);
        }
        for variant in variants {
            let glob = GlobBuilder::new(&variant)
                .literal_separator(true)
                .case_insensitive(true)
                .build()
                .map_err(|error| words::bad_pattern(language, &text::cap_chars(pattern, 100), &error.to_string()))?;
            set.add(glob);
        }
    }
    set.build()
        .map_err(|error| words::bad_patterns(language, &error.to_string()))
}

/// Rules about where a change is, deletions included.
fn check_place(change: &RawChange, protected: &GlobSet, add: &mut impl FnMut(Rule)) {
    let lossy = String::from_utf8_lossy(&change.path);
    let lower = lossy.to_lowercase();
    if FOR_PEOPLE
        .iter()
        .any(|place| lower == *place || (place.ends_with('/') && lower.starts_with(place)))
    {
        add(Rule::ForPeople);
    }
    let name = lower.rsplit('/').next().unwrap_or_default();
    if REFUSED_NAMES.contains(&name) {
        add(Rule::Fetches);
    }
    if change.old_mode == "160000" || change.new_mode == "160000" {
        add(Rule::Submodule);
    }
    if protected.is_match(lossy.as_ref()) {
        add(Rule::Protected);
    }
}

/// Rules about new content: mode, link target, size.
fn check_content(change: &RawChange, facts: &Facts<'_>, policy: &TreePolicy, add: &mut impl FnMut(Rule)) {
    match change.new_mode.as_str() {
        "100644" | "100755" | "160000" => {}
        "120000" => match facts.links.get(&change.new_id) {
            Some(target) => {
                if let Some(broken) = link_problem(&change.path, target) {
                    add(broken);
                }
            }
            None => add(Rule::LinkTooLong(MAX_LINK)),
        },
        mode => add(Rule::Mode(mode.to_owned())),
    }
    match facts.sizes.get(&change.new_id) {
        Some(size) if *size > policy.max_file_bytes => add(Rule::TooLarge {
            bytes: *size,
            most: policy.max_file_bytes,
        }),
        None if change.new_mode != "160000" => add(Rule::NoContent),
        _ => {}
    }
}

/// Why a path may not be written, if so.
fn path_problem(path: &[u8]) -> Option<Rule> {
    let Ok(path) = std::str::from_utf8(path) else {
        return Some(Rule::NotUtf8);
    };
    if path.len() > MAX_PATH {
        return Some(Rule::PathTooLong(MAX_PATH));
    }
    if let Some(c) = path.chars().find(|c| c.is_control() || text::is_invisible(*c)) {
        return Some(Rule::Invisible(c));
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return Some(Rule::NotPlain);
        }
        if is_dot_git(part) {
            return Some(Rule::DotGit);
        }
    }
    None
}

/// Whether some file system reads this name as `.git`: other case, trailing dots and spaces, a
/// stream name, a backslash, or the short form `git~1`.
fn is_dot_git(part: &str) -> bool {
    let lower: String = part.to_lowercase().nfkc().filter(|c| !text::is_invisible(*c)).collect();
    lower.split(['\\', ':']).any(|piece| {
        let piece = piece.trim_end_matches(['.', ' ']);
        let short = piece.strip_prefix("git~");
        piece == ".git" || short.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Why a link may not point there, if so. `..` is only allowed at the front, where it walks up
/// real folders; after a name it would walk up from wherever that name leads.
fn link_problem(path: &[u8], target: &[u8]) -> Option<Rule> {
    let Ok(target) = std::str::from_utf8(target) else {
        return Some(Rule::LinkNotUtf8);
    };
    if target.is_empty() || target.starts_with('/') || target.chars().any(|c| c.is_control() || c == '\\') {
        return Some(Rule::LinkNotPlain);
    }
    let mut up = path.iter().filter(|byte| **byte == b'/').count();
    let mut named = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if named => return Some(Rule::LinkUpLate),
            ".." if up == 0 => return Some(Rule::LinkLeaves),
            ".." => up -= 1,
            part if is_dot_git(part) => return Some(Rule::LinkIntoGit),
            _ => named = true,
        }
    }
    None
}

/// New names that some file system cannot tell from another name of the tree. Twins that were
/// there before are left alone.
fn twins(language: Language, changes: &[RawChange], all_paths: &[Vec<u8>]) -> Vec<String> {
    let added: HashSet<&[u8]> = changes
        .iter()
        .filter(|change| change.status == 'A')
        .map(|change| change.path.as_slice())
        .collect();
    let mut spellings: HashMap<String, BTreeMap<&str, Origin>> = HashMap::new();
    for prefix in added
        .iter()
        .filter_map(|path| std::str::from_utf8(path).ok())
        .flat_map(prefixes)
    {
        spellings.entry(fold(prefix)).or_default();
    }
    if spellings.is_empty() {
        return Vec::new();
    }
    for path in all_paths {
        let origin = if added.contains(path.as_slice()) {
            Origin::New
        } else {
            Origin::Old
        };
        let Ok(path) = std::str::from_utf8(path) else {
            continue;
        };
        for prefix in prefixes(path) {
            if let Some(group) = spellings.get_mut(&fold(prefix)) {
                let known = group.entry(prefix).or_insert(origin);
                *known = (*known).max(origin);
            }
        }
    }
    let mut problems: Vec<String> = spellings
        .values()
        .filter(|group| group.len() > 1 && group.values().any(|origin| *origin == Origin::New))
        .map(|group| {
            let names: Vec<String> = group
                .keys()
                .map(|name| format!("`{}`", shown_path(name.as_bytes())))
                .collect();
            words::twins(language, &names)
        })
        .collect();
    problems.sort();
    problems
}

/// Whether a name was in the tree before; what is both is old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    New,
    Old,
}

/// The path and all folders above it.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

fn fold(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    path.nfc().collect::<String>().to_lowercase().nfc().collect()
}

/// A path for people and models: bytes that are not UTF-8 and characters that do not show are
/// written out, and nothing is longer than the longest path.
pub(super) fn shown_path(path: &[u8]) -> String {
    let mut shown = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || text::is_invisible(c) {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests;
