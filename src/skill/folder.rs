//! The administrator's folder of skills on this machine. Called when the program starts. Never
//! follows a link, and never reads a file that is no plain file or too long.

use std::io::Read as _;
use std::path::Path;

use super::{MAX_SKILL_BYTES, MAX_SKILLS, SKILL_FILE, Skill, Source};

/// The skills of a folder, each in a folder of its own. All problems at once.
///
/// # Errors
/// Which skills cannot be used and why, or that the folder cannot be read.
pub fn load_folder(folder: &Path) -> Result<Vec<Skill>, Vec<String>> {
    let unreadable = |error: std::io::Error| vec![format!("{}: {error}", folder.display())];
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name());
        if names.len() > MAX_SKILLS * 4 {
            return Err(vec![format!("{}: there are too many entries in it", folder.display())]);
        }
    }
    names.sort();
    let (mut skills, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        match load(folder, &name.to_string_lossy()) {
            Ok(Some(skill)) => skills.push(skill),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if skills.len() > MAX_SKILLS {
        problems.push(format!("{}: more than {MAX_SKILLS} skills", folder.display()));
    }
    if problems.is_empty() { Ok(skills) } else { Err(problems) }
}

/// One skill, or nothing where an entry is no folder with a skill in it.
fn load(folder: &Path, name: &str) -> Result<Option<Skill>, String> {
    let own = folder.join(name);
    let path = own.join(SKILL_FILE);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    for (path, should_be) in [(&own, "a folder"), (&path, "a plain file")] {
        let Ok(found) = std::fs::symlink_metadata(path) else {
            return Ok(None);
        };
        let is_right = if should_be == "a folder" {
            found.is_dir()
        } else {
            found.is_file()
        };
        if found.is_symlink() || (!is_right && path.ends_with(SKILL_FILE)) {
            return Err(format!("{} is not {should_be}; links are not followed", path.display()));
        }
        if !is_right {
            return Ok(None);
        }
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&path).map_err(failed)?;
    file.take(MAX_SKILL_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    Skill::parse(name, &String::from_utf8_lossy(&bytes), Source::Administrator).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join(SKILL_FILE), text).unwrap();
    }

    #[test]
    fn x09_links_and_long_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let good = "---\nname: good\ndescription: d\n---\nx";
        write(folder.path(), "good", good);
        std::fs::write(folder.path().join("README.md"), "no skill").unwrap();
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        assert_eq!(load_folder(folder.path()).unwrap().len(), 1);

        write(
            folder.path(),
            "long",
            &format!("---\nname: long\ndescription: d\n---\n{}", "x".repeat(10 << 20)),
        );
        std::os::unix::fs::symlink(folder.path().join("good"), folder.path().join("linked")).unwrap();
        std::fs::create_dir(folder.path().join("file")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("file").join(SKILL_FILE)).unwrap();
        let problems = load_folder(folder.path()).unwrap_err().join("\n");
        for words in [
            "file/SKILL.md is not a plain file",
            "linked is not a folder",
            "the skill long is longer",
        ] {
            assert!(problems.contains(words), "{problems}");
        }
        assert!(load_folder(&folder.path().join("missing")).is_err());
    }
}
