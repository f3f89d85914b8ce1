//! Groups of languages that see each other's names, and the rules by which a name is looked for in
//! each. Pure. Never reads a file.

use crate::language::Language;

/// Languages whose files can use each other's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Rust,
    Python,
    /// JavaScript and TypeScript.
    Script,
    Go,
    /// Java, Kotlin and Scala.
    Jvm,
    /// C and C++.
    C,
    CSharp,
    Php,
    Ruby,
    Swift,
    Bash,
    /// Everything else: names alone.
    Other,
}

impl Family {
    pub(super) fn of(language: Option<&'static Language>) -> Self {
        match language.map_or("", |language| language.name) {
            "rust" => Self::Rust,
            "python" => Self::Python,
            "javascript" | "typescript" | "tsx" => Self::Script,
            "go" => Self::Go,
            "java" | "kotlin" | "scala" => Self::Jvm,
            "c" | "cpp" => Self::C,
            "c-sharp" => Self::CSharp,
            "php" => Self::Php,
            "ruby" => Self::Ruby,
            "swift" => Self::Swift,
            "bash" => Self::Bash,
            _ => Self::Other,
        }
    }

    /// Whether a method is called without a receiver from inside its type.
    pub(super) fn calls_methods_bare(self) -> bool {
        matches!(
            self,
            Self::Jvm | Self::C | Self::CSharp | Self::Ruby | Self::Swift | Self::Other
        )
    }

    /// Whether a name that stands alone has to be declared or imported where it is used, so that a
    /// name found in neither place is not one of the repository's.
    pub(super) fn is_strict(self) -> bool {
        match self {
            Self::Rust | Self::Python | Self::Script | Self::Go | Self::Jvm => true,
            Self::C | Self::CSharp | Self::Php | Self::Ruby | Self::Swift | Self::Bash | Self::Other => false,
        }
    }

    /// Whether functions of one scope may share a name and differ in what they take.
    pub(super) fn overloads(self) -> bool {
        match self {
            Self::Jvm | Self::C | Self::CSharp | Self::Swift | Self::Other => true,
            Self::Rust | Self::Python | Self::Script | Self::Go | Self::Php | Self::Ruby | Self::Bash => false,
        }
    }

    /// Whether the files of a folder see each other's names without an import.
    pub(super) fn shares_folder(self) -> bool {
        matches!(self, Self::Go | Self::Jvm)
    }

    /// Whether this word before a name means the type around it.
    pub(super) fn is_own(self, receiver: &str) -> bool {
        matches!(receiver, "self" | "this" | "Self" | "cls" | "$this" | "static" | "@")
    }

    /// Whether this word before a name means what the type around it extends.
    pub(super) fn is_above(self, receiver: &str) -> bool {
        match self {
            Self::Rust => false,
            Self::Php => receiver == "parent",
            Self::CSharp => receiver == "base",
            Self::Python
            | Self::Script
            | Self::Go
            | Self::Jvm
            | Self::C
            | Self::Ruby
            | Self::Swift
            | Self::Bash
            | Self::Other => receiver == "super",
        }
    }
}
