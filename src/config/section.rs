//! The macro that declares a section once and derives its struct, its parser and its description.
//! Never knows what a key means.

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file with this path.
    File(std::path::PathBuf),
    /// The environment variable with this name.
    Environment(String),
    /// A command-line flag.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// A section as people read about it.
#[derive(Debug, Clone)]
pub struct SectionInfo {
    /// Name in brackets.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its keys in order.
    pub keys: Vec<KeyInfo>,
}

/// A key as people read about it.
#[derive(Debug, Clone)]
pub struct KeyInfo {
    /// Name within the section.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Kind of value in words.
    pub kind: &'static str,
    /// Default as TOML; empty when the key is unset by default.
    pub default: &'static str,
    /// Whether a twin `NAME_file` may name a file that holds the value.
    pub secret: bool,
}

macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident $section:literal {
            $( $(#[doc = $doc:literal])* $key:ident : $kind:ty = $default:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $key: $kind, )*
        }

        impl $name {
            pub(super) fn info() -> SectionInfo {
                SectionInfo {
                    name: $section,
                    about: concat!($($about),*).trim_ascii(),
                    keys: vec![ $( KeyInfo {
                        name: stringify!($key),
                        about: concat!($($doc),*).trim_ascii(),
                        kind: <$kind as ConfigValue>::KIND,
                        default: $default,
                        secret: <$kind as ConfigValue>::SECRET,
                    } ),* ],
                }
            }

            fn read(reader: &mut load::Reader) -> Self {
                Self { $( $key: reader.key($section, stringify!($key), $default), )* }
            }

            fn shown(&self) -> Vec<(String, String)> {
                vec![ $( (format!("{}.{}", $section, stringify!($key)), self.$key.show()), )* ]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::read(&mut load::Reader::default())
            }
        }
    };
}
pub(super) use section;
