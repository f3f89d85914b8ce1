//! Skills: named instructions that the agent loads when it needs them. They come from this
//! program, from the administrator's folder, or from a trusted repository at its pinned commit.
//! Plain data. Never decides who is trusted, and never offers a skill that is switched off.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::text;

mod folder;
mod front;

pub use folder::load_folder;

/// Largest file of a skill, in bytes.
pub const MAX_SKILL_BYTES: u64 = 32 * 1024;
/// Name of the file in a skill's folder.
pub const SKILL_FILE: &str = "SKILL.md";
/// Folders of a repository that hold skills, each in a folder of its own.
pub const SKILL_FOLDERS: [&str; 2] = [".agents/skills", ".forgehand/skills"];
/// Most skills of one source.
pub const MAX_SKILLS: usize = 50;

/// Longest name and most characters of a description: it stands in every prompt.
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 200;
/// Most triggers, and most characters of one.
const MAX_TRIGGERS: usize = 20;
const MAX_TRIGGER_CHARS: usize = 60;

/// Who wrote a skill, weakest first: of two with one name the stronger counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// It comes with this program.
    Shipped,
    /// It stands in a trusted repository.
    Repository,
    /// It stands in the administrator's folder.
    Administrator,
}

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its name, which is also its folder's.
    pub name: String,
    /// What it is for, one line.
    pub description: String,
    /// Words of a request that it fits.
    pub triggers: Vec<String>,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// The instructions.
    pub body: String,
    /// Who wrote it.
    pub source: Source,
}

impl Skill {
    /// Reads a skill from the text of its file. `folder` is the name of the folder it stands in.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(folder: &str, text: &str, source: Source) -> Result<Self, String> {
        if !is_name(folder) {
            return Err(format!(
                "the skill {:?} has no valid name: lower-case letters, digits and hyphens, at most {MAX_NAME_CHARS}",
                text::cap_chars(folder, 80)
            ));
        }
        if text.len() as u64 > MAX_SKILL_BYTES {
            let most = text::bytes_in_words(MAX_SKILL_BYTES);
            return Err(format!("the skill {folder} is longer than {most}"));
        }
        let (front, body) = front::split(text).map_err(|problem| format!("the skill {folder}: {problem}"))?;
        let named = front.one("name").unwrap_or(folder);
        if named != folder {
            return Err(format!(
                "the skill {folder} calls itself {:?}; its name and its folder's are the same",
                text::cap_chars(named, 80)
            ));
        }
        let description = one_line(front.one("description").unwrap_or_default(), MAX_DESCRIPTION_CHARS);
        if description.is_empty() {
            return Err(format!("the skill {folder} has no description"));
        }
        let is_true = |key: &str| front.one(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let triggers = front.all("triggers").into_iter().take(MAX_TRIGGERS);
        Ok(Self {
            name: folder.to_owned(),
            description,
            triggers: triggers
                .map(|trigger| one_line(trigger, MAX_TRIGGER_CHARS))
                .filter(|trigger| !trigger.is_empty())
                .collect(),
            is_disabled: is_true("disabled") || is_true("disable-model-invocation"),
            body: text::reveal(body.trim()),
            source,
        })
    }

    /// Whether one of its triggers stands in a text, as whole words.
    pub fn fits(&self, text: &str) -> bool {
        let words = format!(" {} ", words(text));
        self.triggers
            .iter()
            .any(|trigger| words.contains(&format!(" {} ", self::words(trigger))))
    }
}

/// Lower-case words with one space between them.
fn words(text: &str) -> String {
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]+").expect("the pattern is valid"));
    let lower = text.to_lowercase();
    let words: Vec<&str> = WORD.find_iter(&lower).map(|found| found.as_str()).collect();
    words.join(" ")
}

fn one_line(text: &str, max_chars: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    text::cap_chars(&text::reveal(&words.join(" ")), max_chars)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty()
        && name.len() <= MAX_NAME_CHARS
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// The skills of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shelf {
    skills: BTreeMap<String, Skill>,
    disabled: Vec<String>,
}

impl Shelf {
    /// The skills that come with this program.
    ///
    /// # Panics
    /// When one of them does not parse, which a test rules out.
    pub fn shipped() -> Self {
        let mut shelf = Self::default();
        for (name, text) in [
            ("issue-writer", include_str!("../skills/issue-writer/SKILL.md")),
            ("reproduce-a-bug", include_str!("../skills/reproduce-a-bug/SKILL.md")),
            ("review-a-diff", include_str!("../skills/review-a-diff/SKILL.md")),
            (
                "write-a-regression-test",
                include_str!("../skills/write-a-regression-test/SKILL.md"),
            ),
        ] {
            shelf.add(Skill::parse(name, text, Source::Shipped).expect("shipped skills parse"));
        }
        shelf
    }

    /// Adds a skill; of two with one name the one of the stronger source stays.
    pub fn add(&mut self, skill: Skill) {
        let stronger = self
            .skills
            .get(&skill.name)
            .is_some_and(|other| other.source > skill.source);
        if !stronger {
            self.skills.insert(skill.name.clone(), skill);
        }
    }

    /// Switches skills off by name, whoever wrote them.
    pub fn disable(&mut self, names: &[String]) {
        self.disabled.extend(names.iter().cloned());
    }

    /// The skills that may be loaded, by name.
    pub fn offered(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values().filter(|skill| !self.is_off(skill))
    }

    /// A skill by its name.
    ///
    /// # Errors
    /// Why it cannot be loaded, and what can be.
    pub fn load(&self, name: &str) -> Result<&Skill, String> {
        let name = name.trim();
        let offered = || {
            let names: Vec<&str> = self.offered().map(|skill| skill.name.as_str()).collect();
            names.join(", ")
        };
        match self.skills.get(name) {
            Some(skill) if self.is_off(skill) => {
                Err(format!("the skill {name} is switched off; there are {}", offered()))
            }
            Some(skill) => Ok(skill),
            None => Err(format!(
                "there is no skill {:?}; there are {}",
                text::cap_chars(name, 80),
                offered()
            )),
        }
    }

    fn is_off(&self, skill: &Skill) -> bool {
        skill.is_disabled || self.disabled.contains(&skill.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, source: Source) -> Skill {
        let text = format!(
            "---\nname: {name}\ndescription: What {source:?} wrote.\ntriggers: [git, merge conflict]\n---\nDo it.\n"
        );
        Skill::parse(name, &text, source).unwrap()
    }

    #[test]
    fn j10_triggers_match_whole_words() {
        let skill = skill("git", Source::Shipped);
        for (text, fits) in [
            ("a digital clock", false),
            ("Use Git, please", true),
            ("legitimate", false),
            ("there is a merge\nconflict", true),
            ("merge conflicts", false),
            ("`git`", true),
            ("", false),
        ] {
            assert_eq!(skill.fits(text), fits, "{text}");
        }
    }

    #[test]
    fn j11_what_is_switched_off_is_neither_offered_nor_loaded() {
        let mut shelf = Shelf::shipped();
        shelf.add(skill("git", Source::Repository));
        let off = "---\nname: off\ndescription: d\ndisabled: true\n---\nx";
        shelf.add(Skill::parse("off", off, Source::Administrator).unwrap());
        shelf.disable(&["git".to_owned()]);
        let offered: Vec<&str> = shelf.offered().map(|skill| skill.name.as_str()).collect();
        assert_eq!(
            offered,
            [
                "issue-writer",
                "reproduce-a-bug",
                "review-a-diff",
                "write-a-regression-test"
            ]
        );
        for name in ["git", "off"] {
            assert!(shelf.load(name).unwrap_err().contains("switched off"), "{name}");
        }
        assert!(shelf.load("nothing").unwrap_err().contains("reproduce-a-bug"));
    }

    #[test]
    fn the_stronger_source_counts_in_any_order() {
        use Source::{Administrator, Repository, Shipped};
        for order in [
            [Shipped, Repository, Administrator],
            [Administrator, Repository, Shipped],
        ] {
            let mut shelf = Shelf::default();
            for source in order {
                shelf.add(skill("git", source));
            }
            assert_eq!(shelf.load("git").unwrap().source, Administrator);
        }
    }

    #[test]
    fn x09_broken_and_hostile_skills_are_refused() {
        let good = "---\nname: a\ndescription: d\n---\nx";
        let long = format!("---\nname: a\ndescription: d\n---\n{}", "x".repeat(10 << 20));
        for (folder, text, words) in [
            ("../x", good, "no valid name"),
            ("a/b", good, "no valid name"),
            ("..", good, "no valid name"),
            ("A", good, "no valid name"),
            ("", good, "no valid name"),
            ("b", good, "calls itself"),
            ("a", long.as_str(), "longer than"),
            ("a", "no front matter", "does not begin with"),
            ("a", "---\nname: a\n", "does not end"),
            ("a", "---\nname: a\n---\nx", "no description"),
        ] {
            let problem = Skill::parse(folder, text, Source::Repository).unwrap_err();
            assert!(problem.contains(words) && problem.len() < 300, "{problem}");
        }
    }

    #[test]
    fn shipped_skills_are_short_and_explain_themselves() {
        for skill in Shelf::shipped().offered() {
            assert!(skill.body.len() < 4_000 && !skill.triggers.is_empty(), "{}", skill.name);
        }
    }
}
