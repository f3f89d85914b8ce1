//! Every phrase in both languages, one snapshot a file, so that none lacks its translation and each
//! can be read as people read it. A phrase that is not listed here fails a test by name.

use super::Language;

mod answers;
mod outcomes;
mod work;

/// One phrase, in both languages.
struct Said {
    name: &'static str,
    english: String,
    chinese: String,
}

/// What phrases are: text, or a few texts.
trait InWords {
    fn in_words(self) -> String;
}

impl InWords for String {
    fn in_words(self) -> String {
        self
    }
}

impl InWords for &str {
    fn in_words(self) -> String {
        self.to_owned()
    }
}

impl<const N: usize> InWords for [&str; N] {
    fn in_words(self) -> String {
        self.join(" | ")
    }
}

impl InWords for super::pull::Headings {
    fn in_words(self) -> String {
        let Self {
            summary,
            changes,
            merge,
            verification,
            risks,
            not_done,
        } = self;
        [summary, changes, merge, verification, risks, not_done].in_words()
    }
}

/// The phrases of one file, by calls of its functions without their first argument.
macro_rules! phrases {
    ($($name:ident ( $($argument:expr),* $(,)? );)*) => {
        vec![$({
            let in_words = |language| InWords::in_words($name(language $(, $argument)*));
            Said {
                name: stringify!($name),
                english: in_words(Language::English),
                chinese: in_words(Language::Chinese),
            }
        }),*]
    };
}
use phrases;

fn all() -> Vec<(&'static str, Vec<Said>)> {
    let mut all = answers::all();
    all.extend(work::all());
    all.extend(outcomes::all());
    all
}

fn is_chinese(c: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&c)
}

#[test]
fn every_phrase_reads_well_in_both_languages() {
    for (file, phrases) in all() {
        let mut page = String::new();
        for Said { name, english, chinese } in phrases {
            page.push_str(&format!("{name}\n{english}\n{chinese}\n\n"));
        }
        insta::assert_snapshot!(file, page.trim_end());
    }
}

#[test]
fn no_phrase_lacks_its_translation() {
    for (file, phrases) in all() {
        for Said { name, english, chinese } in phrases {
            assert!(!english.contains(is_chinese), "{file}::{name}: {english}");
            let has_words = english.chars().filter(char::is_ascii_alphabetic).count() > 3;
            // GitHub's own keyword, sums, numbers and marks are the same everywhere.
            let is_same = matches!(
                (file, name),
                ("pull", "issue")
                    | ("limit", "of")
                    | ("check" | "policy", "list")
                    | ("money", "cost")
                    | ("status", "stop" | "stage_done" | "two")
            );
            let is_translated = chinese.contains(is_chinese) && chinese != english;
            assert!(is_translated || is_same || !has_words, "{file}::{name}: {chinese}");
        }
    }
}

#[test]
fn chinese_sentences_have_chinese_marks() {
    let narrow = regex::Regex::new(r"[\u{4e00}-\u{9fff}][,;:!?(]|[,;:!?)][\u{4e00}-\u{9fff}]").unwrap();
    for (file, phrases) in all() {
        for said in phrases {
            let wrong = narrow.find(&said.chinese).map(|found| found.as_str());
            assert_eq!(wrong, None, "{file}::{}: {}", said.name, said.chinese);
        }
    }
}

#[test]
fn every_phrase_of_every_file_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/phrase");
    let takes_language = regex::Regex::new(r"(?m)^pub fn (\w+)\(\s*language: Language").unwrap();
    let listed = all();
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || file == "tests" {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let phrases = listed
            .iter()
            .find(|(name, _)| *name == file)
            .map(|(_, phrases)| phrases);
        for found in takes_language.captures_iter(&source) {
            let is_listed = phrases.is_some_and(|phrases| phrases.iter().any(|said| said.name == &found[1]));
            if !is_listed {
                missing.push(format!("{file}::{}", &found[1]));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "add them to src/phrase/tests");
}
