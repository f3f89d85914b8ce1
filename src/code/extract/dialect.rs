//! What extraction has to know of each language besides its grammar: its query, what stands between
//! a name and its owner, names that are part of the language. Pure data. Never reads a tree.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::query::Compiled;
use super::{import, repair};
use crate::code::facts::Import;
use crate::language::{self, Language};

mod builtin;

/// A language as extraction sees it.
#[derive(Debug)]
pub struct Dialect {
    /// Its name in the table of languages.
    pub name: &'static str,
    /// Its query.
    query: &'static str,
    /// What stands between a name and what it belongs to.
    pub separators: &'static [&'static str],
    /// Whether a function may be defined apart from its type, with the type before its name.
    pub names_owners: bool,
    /// Which local names hide a function of the same name.
    pub hiding: Hiding,
    /// Makes a text of the same length that the grammar takes better.
    pub repair: Option<fn(&str) -> Option<String>>,
    /// Where a name may come from without being brought in.
    pub visibility: Visibility,
    /// Names that the language itself gives, sorted; a file that defines one means its own.
    pub builtins: &'static [&'static str],
    /// Reads a statement that brings in names.
    pub imports: fn(Node<'_>, &str, &mut Vec<Import>),
    compiled: OnceLock<Result<Compiled, String>>,
}

/// Which local names hide a function of the same name where that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hiding {
    /// None: functions and variables do not share names.
    Nothing,
    /// Parameters. A variable may be made by the function whose name it takes: `let size = size();`
    Parameters,
    /// All: in its own initial value a variable already hides the function.
    Locals,
}

/// Where names come from that a file neither defines nor brings in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// From nowhere: what is used is defined or brought in.
    Explicit,
    /// From other files of the same package, or from headers.
    Implicit,
}

impl Dialect {
    /// Its compiled query, or why there is none.
    pub fn compiled(&self) -> Result<&Compiled, &str> {
        let compiled = self.compiled.get_or_init(|| {
            let language = language::by_name(self.name).ok_or("no such language")?;
            let grammar = match self.name {
                // The table's grammar is for pieces of PHP; a file has text around them.
                "php" => tree_sitter_php::LANGUAGE_PHP.into(),
                _ => language.grammar(),
            };
            Compiled::of(&grammar, self.query)
        });
        compiled.as_ref().map_err(String::as_str)
    }
}

/// What extraction knows of a language, if it reads symbols of it.
pub fn of(language: &Language) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == language.name)
}

/// The language that a file is really written in, where its name leaves that open: a header may be
/// of C or of C++.
pub fn refine(language: &'static Language, text: &str) -> &'static Language {
    let is_cpp = language.name == "c" && CPP_MARKS.iter().any(|mark| text.contains(mark));
    if is_cpp {
        language::by_name("cpp").unwrap_or(language)
    } else {
        language
    }
}

/// What stands in every header of C++ that has anything of C++, and in none of C.
const CPP_MARKS: &[&str] = &[
    "\nnamespace ",
    "\ntemplate",
    "\nclass ",
    "public:",
    "private:",
    "std::",
    "constexpr ",
];

static DIALECTS: [Dialect; 16] = [
    Dialect {
        name: "bash",
        hiding: Hiding::Nothing,
        repair: None,
        query: include_str!("../queries/bash.scm"),
        separators: &[],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::BASH,
        imports: import::bash,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "c",
        hiding: Hiding::Locals,
        repair: None,
        query: include_str!("../queries/c.scm"),
        separators: &[".", "->"],
        names_owners: false,
        visibility: Visibility::Implicit,
        builtins: builtin::C,
        imports: import::c,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "c-sharp",
        hiding: Hiding::Locals,
        repair: None,
        query: include_str!("../queries/c-sharp.scm"),
        separators: &["."],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: &["base", "nameof", "this"],
        imports: import::c_sharp,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "cpp",
        hiding: Hiding::Locals,
        repair: None,
        query: concat!(include_str!("../queries/cpp.scm"), include_str!("../queries/c.scm")),
        separators: &[".", "->", "::"],
        names_owners: true,
        visibility: Visibility::Implicit,
        builtins: builtin::CPP,
        imports: import::c,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "go",
        hiding: Hiding::Parameters,
        repair: None,
        query: include_str!("../queries/go.scm"),
        separators: &["."],
        names_owners: false,
        visibility: Visibility::Implicit,
        builtins: builtin::GO,
        imports: import::go,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "java",
        hiding: Hiding::Nothing,
        repair: None,
        query: include_str!("../queries/java.scm"),
        separators: &[".", "::"],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: &[],
        imports: import::java,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "javascript",
        hiding: Hiding::Locals,
        repair: None,
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/javascript.scm"),
            include_str!("../queries/jsx.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        separators: &["."],
        names_owners: true,
        visibility: Visibility::Explicit,
        builtins: builtin::SCRIPT,
        imports: import::script,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "kotlin",
        hiding: Hiding::Parameters,
        repair: Some(repair::kotlin),
        query: include_str!("../queries/kotlin.scm"),
        separators: &[".", "::"],
        names_owners: true,
        visibility: Visibility::Explicit,
        builtins: builtin::KOTLIN,
        imports: import::kotlin,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "php",
        hiding: Hiding::Nothing,
        repair: None,
        query: include_str!("../queries/php.scm"),
        separators: &["->", "::", "\\"],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::PHP,
        imports: import::php,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "python",
        hiding: Hiding::Locals,
        repair: None,
        query: include_str!("../queries/python.scm"),
        separators: &["."],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::PYTHON,
        imports: import::python,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "ruby",
        hiding: Hiding::Nothing,
        repair: None,
        query: include_str!("../queries/ruby.scm"),
        separators: &[".", "::"],
        names_owners: true,
        visibility: Visibility::Explicit,
        builtins: builtin::RUBY,
        imports: import::ruby,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "rust",
        hiding: Hiding::Parameters,
        repair: None,
        query: include_str!("../queries/rust.scm"),
        separators: &[".", "::"],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::RUST,
        imports: import::rust,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "scala",
        hiding: Hiding::Parameters,
        repair: None,
        query: include_str!("../queries/scala.scm"),
        separators: &["."],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::SCALA,
        imports: import::scala,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "swift",
        hiding: Hiding::Parameters,
        repair: None,
        query: include_str!("../queries/swift.scm"),
        separators: &["."],
        names_owners: false,
        visibility: Visibility::Explicit,
        builtins: builtin::SWIFT,
        imports: import::swift,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "tsx",
        hiding: Hiding::Locals,
        repair: None,
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/typescript.scm"),
            include_str!("../queries/jsx.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        separators: &["."],
        names_owners: true,
        visibility: Visibility::Explicit,
        builtins: builtin::SCRIPT,
        imports: import::script,
        compiled: OnceLock::new(),
    },
    Dialect {
        name: "typescript",
        hiding: Hiding::Locals,
        repair: None,
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/typescript.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        separators: &["."],
        names_owners: true,
        visibility: Visibility::Explicit,
        builtins: builtin::SCRIPT,
        imports: import::script,
        compiled: OnceLock::new(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_fits_its_grammar_and_every_list_is_sorted() {
        for dialect in &DIALECTS {
            assert_eq!(dialect.compiled().err(), None, "{}", dialect.name);
            assert!(dialect.builtins.is_sorted(), "{}", dialect.name);
        }
    }
}
