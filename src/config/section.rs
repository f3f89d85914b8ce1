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
    /// Whether it may stand several times: `[[NAME]]`, in the file only.
    pub is_list: bool,
    /// Its keys in order.
    pub keys: Vec<KeyInfo>,
}

impl SectionInfo {
    /// The section as one that may stand several times.
    pub(super) fn list(self) -> Self {
        Self { is_list: true, ..self }
    }
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
            /// Name in brackets.
            pub(in crate::config) const SECTION: &'static str = $section;

            pub(in crate::config) fn info() -> $crate::config::SectionInfo {
                $crate::config::SectionInfo {
                    name: Self::SECTION,
                    about: concat!($($about),*).trim_ascii(),
                    is_list: false,
                    keys: vec![ $( $crate::config::KeyInfo {
                        name: stringify!($key),
                        about: concat!($($doc),*).trim_ascii(),
                        kind: <$kind as $crate::config::ConfigValue>::KIND,
                        default: $default,
                        secret: <$kind as $crate::config::ConfigValue>::SECRET,
                    } ),* ],
                }
            }

            pub(in crate::config) fn read(reader: &mut $crate::config::load::Reader) -> Self {
                Self::read_as(reader, Self::SECTION)
            }

            /// As [`Self::read`], under the name of an item of a list.
            pub(in crate::config) fn read_as(reader: &mut $crate::config::load::Reader, section: &str) -> Self {
                Self { $( $key: reader.key(section, stringify!($key), $default), )* }
            }

            #[allow(dead_code, reason = "items of a list are shown under other names")]
            pub(in crate::config) fn shown(&self) -> Vec<(String, String)> {
                self.shown_as(Self::SECTION)
            }

            pub(in crate::config) fn shown_as(&self, section: &str) -> Vec<(String, String)> {
                vec![ $( (format!("{section}.{}", stringify!($key)), $crate::config::ConfigValue::show(&self.$key)), )* ]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::read(&mut $crate::config::load::Reader::default())
            }
        }
    };
}
pub(super) use section;
