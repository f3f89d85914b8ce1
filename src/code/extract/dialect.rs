//! What extraction has to know of each language besides its grammar: its query, what stands between
//! a name and its owner, names that are part of the language. Pure data. Never reads a tree.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::import;
use super::query::Compiled;
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
    /// What its grammar can read.
    pub alphabet: Alphabet,
    /// Where a name may come from without being brought in.
    pub visibility: Visibility,
    /// Names that the language itself gives, sorted; a file that defines one means its own.
    pub builtins: &'static [&'static str],
    /// Reads a statement that brings in names.
    pub imports: fn(Node<'_>, &str, &mut Vec<Import>),
}

/// A language of which nothing is special but its query and its imports.
const PLAIN: Dialect = Dialect {
    name: "",
    query: "",
    separators: &["."],
    names_owners: false,
    hiding: Hiding::Nothing,
    alphabet: Alphabet::Unicode,
    visibility: Visibility::Explicit,
    builtins: &[],
    imports: |_, _, _| (),
};

/// The compiled queries, in the order of the table.
static COMPILED: [OnceLock<Result<Compiled, String>>; DIALECTS.len()] = [const { OnceLock::new() }; DIALECTS.len()];

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

/// Which characters a grammar can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// All.
    Unicode,
    /// ASCII: its scanner looks up others behind the end of a table of C, and may die of it.
    Ascii,
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
    pub fn compiled(&self) -> Result<&'static Compiled, &'static str> {
        let at = DIALECTS.iter().position(|dialect| dialect.name == self.name);
        let compiled = COMPILED[at.ok_or("no such dialect")?].get_or_init(|| {
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

/// JavaScript and what is made of it.
const SCRIPT: Dialect = Dialect {
    names_owners: true,
    hiding: Hiding::Locals,
    builtins: builtin::SCRIPT,
    imports: import::script,
    ..PLAIN
};

static DIALECTS: [Dialect; 16] = [
    Dialect {
        name: "bash",
        alphabet: Alphabet::Ascii,
        query: include_str!("../queries/bash.scm"),
        separators: &[],
        builtins: builtin::BASH,
        imports: import::bash,
        ..PLAIN
    },
    Dialect {
        name: "c",
        hiding: Hiding::Locals,
        query: include_str!("../queries/c.scm"),
        separators: &[".", "->"],
        visibility: Visibility::Implicit,
        builtins: builtin::C,
        imports: import::c,
        ..PLAIN
    },
    Dialect {
        name: "c-sharp",
        hiding: Hiding::Locals,
        query: include_str!("../queries/c-sharp.scm"),
        builtins: &["base", "nameof", "this"],
        imports: import::c_sharp,
        ..PLAIN
    },
    Dialect {
        name: "cpp",
        hiding: Hiding::Locals,
        query: concat!(include_str!("../queries/cpp.scm"), include_str!("../queries/c.scm")),
        separators: &[".", "->", "::"],
        names_owners: true,
        visibility: Visibility::Implicit,
        builtins: builtin::CPP,
        imports: import::c,
        ..PLAIN
    },
    Dialect {
        name: "go",
        hiding: Hiding::Parameters,
        query: include_str!("../queries/go.scm"),
        visibility: Visibility::Implicit,
        builtins: builtin::GO,
        imports: import::go,
        ..PLAIN
    },
    Dialect {
        name: "java",
        query: include_str!("../queries/java.scm"),
        separators: &[".", "::"],
        imports: import::java,
        ..PLAIN
    },
    Dialect {
        name: "javascript",
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/javascript.scm"),
            include_str!("../queries/jsx.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        ..SCRIPT
    },
    Dialect {
        name: "kotlin",
        hiding: Hiding::Parameters,
        query: include_str!("../queries/kotlin.scm"),
        separators: &[".", "::"],
        names_owners: true,
        builtins: builtin::KOTLIN,
        imports: import::kotlin,
        ..PLAIN
    },
    Dialect {
        name: "php",
        query: include_str!("../queries/php.scm"),
        separators: &["->", "::", "\\"],
        builtins: builtin::PHP,
        imports: import::php,
        ..PLAIN
    },
    Dialect {
        name: "python",
        hiding: Hiding::Locals,
        query: include_str!("../queries/python.scm"),
        builtins: builtin::PYTHON,
        imports: import::python,
        ..PLAIN
    },
    Dialect {
        name: "ruby",
        query: include_str!("../queries/ruby.scm"),
        separators: &[".", "::"],
        names_owners: true,
        builtins: builtin::RUBY,
        imports: import::ruby,
        ..PLAIN
    },
    Dialect {
        name: "rust",
        hiding: Hiding::Parameters,
        query: include_str!("../queries/rust.scm"),
        separators: &[".", "::"],
        builtins: builtin::RUST,
        imports: import::rust,
        ..PLAIN
    },
    Dialect {
        name: "scala",
        hiding: Hiding::Parameters,
        query: include_str!("../queries/scala.scm"),
        builtins: builtin::SCALA,
        imports: import::scala,
        ..PLAIN
    },
    Dialect {
        name: "swift",
        hiding: Hiding::Parameters,
        query: include_str!("../queries/swift.scm"),
        builtins: builtin::SWIFT,
        imports: import::swift,
        ..PLAIN
    },
    Dialect {
        name: "tsx",
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/typescript.scm"),
            include_str!("../queries/jsx.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        ..SCRIPT
    },
    Dialect {
        name: "typescript",
        query: concat!(
            include_str!("../queries/script.scm"),
            include_str!("../queries/typescript.scm"),
            include_str!("../queries/script-rest.scm")
        ),
        ..SCRIPT
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
