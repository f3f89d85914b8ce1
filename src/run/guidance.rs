//! What a trusted repository says to the agent beside its main rules: skills, and `AGENTS.md` in
//! folders, from one pinned commit of the default branch. Called by `gather` and by local runs.
//! Never reads a work tree or a pull request's head, and never fails a run over a broken skill.

use std::collections::BTreeMap;
use std::path::Path;

use super::Ports;
use crate::agent::Guidance;
use crate::git::{GitError, Remote};
use crate::ids::CommitSha;
use crate::job::JobError;
use crate::phrase::run as words;
use crate::skill::{MAX_SKILL_BYTES, MAX_SKILLS, SKILL_FILE, SKILL_FOLDERS, Skill, Source};
use crate::text;

/// Name of the rules of a folder.
const FOLDER_RULES: &str = "AGENTS.md";
/// Most folders whose rules are read, and most bytes of one.
const MAX_FOLDERS: usize = 32;
const MAX_RULES_BYTES: u64 = 32 * 1024;
/// Most characters of a note.
const MAX_NOTE_CHARS: usize = 300;

/// The guidance of a trusted repository, on top of what the administrator and this program offer.
///
/// # Errors
/// When git cannot read the commit.
pub async fn guidance_of(
    ports: &Ports,
    mirror: &Path,
    remote: &Remote,
    at: &CommitSha,
    files: &[String],
) -> Result<Guidance, JobError> {
    let mut guidance = untrusted_guidance(ports);
    let read = async |path: &str, max_bytes: u64| {
        let bytes = ports.git.read_file(mirror, remote, at, path, max_bytes).await;
        text_of(bytes)
    };
    let mut note = |text: String| guidance.notes.push(text::cap_chars(&text, MAX_NOTE_CHARS));
    let mut skills = Vec::new();
    let found: Vec<(&str, &str)> = files
        .iter()
        .filter_map(|path| Some((skill_of(path)?, path.as_str())))
        .collect();
    if found.len() > MAX_SKILLS {
        note(words::many_skills(ports.language, found.len(), MAX_SKILLS));
    }
    for (name, path) in found.into_iter().take(MAX_SKILLS) {
        let parsed = match read(path, MAX_SKILL_BYTES).await? {
            Ok(Some(text)) => Skill::parse(name, &text, Source::Repository),
            // A link that leads out of the tree.
            Ok(None) => Err(words::no_file(ports.language).to_owned()),
            Err(problem) => Err(problem),
        };
        match parsed {
            Ok(skill) => skills.push(skill),
            Err(problem) => note(words::not_used(ports.language, path, &problem)),
        }
    }
    let mut folder_rules = BTreeMap::new();
    for (folder, path) in files.iter().filter_map(|path| folder_of(path)).take(MAX_FOLDERS) {
        match read(path, MAX_RULES_BYTES).await? {
            Ok(Some(text)) if !text.trim().is_empty() => drop(folder_rules.insert(folder.to_owned(), text)),
            Ok(_) => {}
            Err(problem) => note(words::not_used(ports.language, path, &problem)),
        }
    }
    guidance.folder_rules = folder_rules;
    skills.into_iter().for_each(|skill| guidance.skills.add(skill));
    Ok(guidance)
}

/// A file's text, nothing where there is no file, or why it is left out: it is too long.
pub(super) fn text_of(bytes: Result<Option<Vec<u8>>, GitError>) -> Result<Result<Option<String>, String>, JobError> {
    match bytes {
        Ok(bytes) => Ok(Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))),
        Err(GitError::Failed(problem)) if problem.contains("is larger than") => Ok(Err(problem)),
        Err(error) => Err(error.into()),
    }
}

/// The guidance of a repository that is not trusted: only the administrator's and this program's.
pub fn untrusted_guidance(ports: &Ports) -> Guidance {
    Guidance {
        skills: ports.skills.clone(),
        ..Guidance::default()
    }
}

/// The skill's name, for a path such as `.agents/skills/NAME/SKILL.md`.
fn skill_of(path: &str) -> Option<&str> {
    let inside = SKILL_FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))?;
    let (name, file) = inside.strip_prefix('/')?.split_once('/')?;
    (file == SKILL_FILE).then_some(name)
}

/// The folder and the path, for the rules of a folder below the root.
fn folder_of(path: &str) -> Option<(&str, &str)> {
    let folder = path.strip_suffix(FOLDER_RULES)?.strip_suffix('/')?;
    (!folder.is_empty()).then_some((folder, path))
}

/// Whether a repository has instructions for agents, by its paths.
pub fn has_instructions<'a>(files: impl IntoIterator<Item = &'a String>) -> bool {
    files.into_iter().any(|path| {
        super::gather::RULE_FILES.contains(&path.as_str()) || skill_of(path).is_some() || folder_of(path).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_places_hold_skills_and_rules() {
        for (path, skill, folder) in [
            (".agents/skills/a/SKILL.md", Some("a"), None),
            (".forgehand/skills/b/SKILL.md", Some("b"), None),
            (".agents/skills/a/b/SKILL.md", None, None),
            (".agents/skills/SKILL.md", None, None),
            ("x/.agents/skills/a/SKILL.md", None, None),
            (".agents/skillsX/a/SKILL.md", None, None),
            ("AGENTS.md", None, None),
            ("src/AGENTS.md", None, Some("src")),
            ("src/a/AGENTS.md", None, Some("src/a")),
            ("src/MYAGENTS.md", None, None),
        ] {
            assert_eq!(skill_of(path), skill, "{path}");
            assert_eq!(folder_of(path).map(|(folder, _)| folder), folder, "{path}");
            let known = skill.is_some() || folder.is_some() || path == "AGENTS.md";
            assert_eq!(has_instructions([&path.to_owned()]), known, "{path}");
        }
    }
}
