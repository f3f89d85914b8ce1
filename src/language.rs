//! Programming languages by name and by file: extensions, comments, grammar. Used by the search in
//! syntax trees and by retrieval. Pure data. Never reads a file, and never parses without a limit:
//! the caller says when a parse has to end.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

mod table;

/// A language.
#[derive(Debug)]
pub struct Language {
    /// Its name: `c-sharp`.
    pub name: &'static str,
    /// Other names: `c#`, `cs`.
    pub aliases: &'static [&'static str],
    /// Extensions of its files, without the dot.
    pub extensions: &'static [&'static str],
    /// Names of its files that say nothing by their extension.
    pub file_names: &'static [&'static str],
    /// What begins a comment to the end of the line.
    pub line_comment: Option<&'static str>,
    /// What encloses a longer comment.
    pub block_comment: Option<(&'static str, &'static str)>,
    /// A character that the grammar takes in a name, for the `$` of patterns.
    pub placeholder: char,
    /// What a piece of code may need around it to be parsed, before and after, in the order in which
    /// it is tried. Nothing at all comes first when it is not listed.
    pub contexts: &'static [(&'static str, &'static str)],
    grammar: fn() -> tree_sitter::Language,
}

impl Language {
    /// Its grammar.
    pub fn grammar(&self) -> tree_sitter::Language {
        (self.grammar)()
    }

    /// The syntax tree of a text, or nothing when it is not ready at the deadline.
    pub fn parse(&self, text: &str, until: Instant) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.grammar()).ok()?;
        let mut go_on = |_: &ParseState| {
            if Instant::now() < until {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let bytes = text.as_bytes();
        parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut go_on)),
        )
    }
}

/// All languages, by name.
pub fn all() -> &'static [Language] {
    table::LANGUAGES
}

/// The language of this name or alias, however it is written.
pub fn by_name(name: &str) -> Option<&'static Language> {
    let name = name.trim().to_lowercase();
    all()
        .iter()
        .find(|language| language.name == name || language.aliases.contains(&name.as_str()))
}

/// The language of a file, by its name alone.
pub fn of_path(path: &str) -> Option<&'static Language> {
    let path = Path::new(path);
    let name = path.file_name()?.to_str()?;
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let by_name = all().iter().find(|language| language.file_names.contains(&name));
    by_name.or_else(|| {
        // `.C` is C++ by custom, everything else is written in either case.
        let folded = extension.to_lowercase();
        let has = |extension: &str| all().iter().find(|language| language.extensions.contains(&extension));
        has(extension).or_else(|| has(&folded))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(path: &str, name: Option<&str>) {
        assert_eq!(of_path(path).map(|language| language.name), name, "{path}");
    }

    #[test]
    fn files_are_known_by_their_names() {
        check("src/lib.rs", Some("rust"));
        check("a/b.test.TSX", Some("tsx"));
        check("x.mts", Some("typescript"));
        check("Gemfile", Some("ruby"));
        check("deep/.bashrc", Some("bash"));
        check("a.h", Some("c"));
        check("a.C", Some("cpp"));
        check("build.gradle.kts", Some("kotlin"));
        check("Cargo.lock", Some("toml"));
        check("README.md", None);
        check("noextension", None);
        check("", None);
    }

    #[test]
    fn names_are_taken_as_they_are_written() {
        for (name, expected) in [
            ("C#", "c-sharp"),
            ("Golang", "go"),
            (" py ", "python"),
            ("c++", "cpp"),
            ("yml", "yaml"),
        ] {
            assert_eq!(by_name(name).map(|language| language.name), Some(expected));
        }
        assert!(by_name("cobol").is_none());
    }

    #[test]
    fn every_language_parses_and_no_name_means_two() {
        let mut names = BTreeSet::new();
        let mut extensions = BTreeSet::new();
        for language in all() {
            let until = Instant::now() + Duration::from_secs(20);
            let tree = language.parse("", until).unwrap_or_else(|| panic!("{}", language.name));
            assert_eq!(tree.root_node().end_byte(), 0);
            for name in language.aliases.iter().chain([&language.name]) {
                assert!(names.insert(*name), "{name}");
                assert_eq!(*name, name.to_lowercase());
            }
            for extension in language.extensions.iter().chain(language.file_names) {
                assert!(extensions.insert(*extension), "{extension}");
            }
        }
        assert_eq!(
            names.len() - all().iter().map(|language| language.aliases.len()).sum::<usize>(),
            21
        );
    }

    #[test]
    fn r01_a_parse_ends_at_its_deadline() {
        let deep = "<".repeat(400_000);
        let started = Instant::now();
        let tree = by_name("tsx")
            .unwrap()
            .parse(&deep, started + Duration::from_millis(50));
        assert!(tree.is_none() || started.elapsed() < Duration::from_secs(1));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
