//! A repository's dev container, `.devcontainer/devcontainer.json`, or one of several in folders below
//! `.devcontainer`: the image that it names is a wish,
//! as `image` in the repository's own file is. Called when a run is gathered and its own file names none.
//! Never acts on anything else that stands there: no mounts, arguments, privileges, builds or commands.

use jsonc_parser::{JsonValue, ParseOptions, parse_to_value};

use crate::config::SandboxConfig;
use crate::phrase::repository::Problem;
use crate::phrase::{Language, repository, run as words};

/// Where the file may stand; the first that is there counts.
pub const DEV_CONTAINER_PATHS: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// Where several stand, each in a folder of its own.
pub const DEV_CONTAINERS: &str = ".devcontainer";

/// Most files below that folder; in one with more, none is looked for.
pub const MAX_DEV_CONTAINER_FILES: usize = 10_000;

/// Longest name of a dev container.
const MAX_NAME_BYTES: usize = 100;

/// Names that are shown of many.
const MAX_NAMED: usize = 5;

/// Largest file that is read, in bytes.
pub const MAX_DEV_CONTAINER_BYTES: u64 = 64 * 1024;

/// Which of several dev containers is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// There is none.
    None,
    /// The file of the only one.
    Only(String),
    /// These, by name. Nobody knows which.
    OneOf(Vec<String>),
}

impl Choice {
    /// Among the files below [`DEV_CONTAINERS`].
    pub fn among(files: &[String]) -> Self {
        let name = |path: &String| {
            let (folder, file) = path.strip_prefix(DEV_CONTAINERS)?.strip_prefix('/')?.split_once('/')?;
            (file == "devcontainer.json" && is_name(folder)).then(|| folder.to_owned())
        };
        let mut names: Vec<_> = files.iter().filter_map(name).collect();
        names.sort();
        match names.as_slice() {
            [] => Self::None,
            [only] => Self::Only(path_of(only)),
            _ => Self::OneOf(names),
        }
    }
}

/// The file of the dev container with this name.
pub fn path_of(name: &str) -> String {
    format!("{DEV_CONTAINERS}/{name}/devcontainer.json")
}

/// Whether a folder with this name can be chosen: it stands in a path and in what people read.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.starts_with('.') && name.chars().all(is_plain)
}

/// What people are told where several are there: how one is chosen.
pub fn choose(language: Language, names: &[String]) -> String {
    let mut shown: Vec<_> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    if names.len() > MAX_NAMED {
        shown.push("…".to_owned());
    }
    let first = names.first().map(String::as_str).unwrap_or_default();
    words::several_dev_containers(language, &shown.join(", "), &format!("devcontainer = \"{first}\""))
}

/// Keys that change a container or what runs in it. Where one stands, people are told that it does nothing.
const WITHOUT_EFFECT: [&str; 23] = [
    "build",
    "capAdd",
    "containerEnv",
    "containerUser",
    "context",
    "dockerComposeFile",
    "dockerFile",
    "features",
    "init",
    "initializeCommand",
    "mounts",
    "onCreateCommand",
    "postAttachCommand",
    "postCreateCommand",
    "postStartCommand",
    "privileged",
    "remoteEnv",
    "remoteUser",
    "runArgs",
    "securityOpt",
    "updateContentCommand",
    "workspaceFolder",
    "workspaceMount",
];

/// What of the file counts, and what does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevContainer {
    image: Option<String>,
    without_effect: Vec<&'static str>,
}

impl DevContainer {
    /// Reads the file's text: JSON with comments and commas at the end of lists.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let json_with_comments = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        // Some editors begin a file with a mark of its encoding.
        let text = text.trim_start_matches('\u{feff}');
        let found = parse_to_value(text, &json_with_comments).map_err(|error| Problem::Syntax {
            line: error.line_display(),
            said: error.kind().to_string(),
        })?;
        let Some(JsonValue::Object(keys)) = found else {
            return Err(Problem::NotADevContainer);
        };
        let image = match keys.get("image") {
            None => None,
            Some(JsonValue::String(image)) => Some(image.to_string()),
            Some(_) => return Err(Problem::NotADevContainer),
        };
        let stands = |key: &&str| keys.get(key).is_some();
        Ok(Self {
            image,
            without_effect: WITHOUT_EFFECT.into_iter().filter(stands).collect(),
        })
    }

    /// The image, where the operator lets a repository choose it.
    pub fn image(&self, sandbox: &SandboxConfig) -> Option<&str> {
        self.image.as_deref().filter(|image| sandbox.lets_choose(image))
    }

    /// What people should know of the file at this path: what stands there and has no effect.
    pub fn note(&self, language: Language, path: &str, sandbox: &SandboxConfig) -> Option<String> {
        let is_refused = self.image.is_some() && self.image(sandbox).is_none();
        let mut keys = self.without_effect.clone();
        if is_refused {
            keys.insert(0, "image");
        }
        match (keys.is_empty(), self.image(sandbox)) {
            (true, _) => None,
            (false, Some(_)) => Some(words::image_alone(language, path, &keys.join(", "))),
            (false, None) => Some(words::no_effect(language, path, &keys.join(", "))),
        }
    }
}

/// Why nothing of the file at this path is used, for people.
pub fn in_words(language: Language, path: &str, problem: &Problem) -> String {
    words::nothing_used(language, &repository::problem(language, path, problem))
}

#[cfg(test)]
mod tests;
