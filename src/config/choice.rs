//! Keys whose value is one of a few words. Called by the sections that have them. Never knows what follows
//! from a word.

use super::value::{ConfigValue, choice};
use crate::phrase::Language;

choice! {
    /// What a set-up command that fails means.
    pub enum SetupFailure {
        /// The end of the run.
        Stop = "stop",
        /// A run that only reads.
        ReadOnly = "read_only",
        /// Something that the agent is told.
        GoOn = "go_on",
    }
}

choice! {
    /// Which unattended runs the webhook is told of.
    pub enum AlertOn {
        /// Those that somebody has to look at.
        Failure = "failure",
        /// All.
        Always = "always",
    }
}

choice! {
    /// Which kind of model answers.
    pub enum ModelProvider {
        /// An OpenAI-compatible server.
        OpenAi = "openai",
        /// Scripted answers.
        Stub = "stub",
    }
}

choice! {
    /// The language of what the program writes on GitHub.
    pub enum LanguageChoice {
        /// English.
        En = "en",
        /// Simplified Chinese.
        Zh = "zh",
    }
}

impl From<LanguageChoice> for Language {
    fn from(choice: LanguageChoice) -> Self {
        match choice {
            LanguageChoice::En => Language::English,
            LanguageChoice::Zh => Language::Chinese,
        }
    }
}

choice! {
    /// How tools are offered to a model.
    pub enum ToolCallChoice {
        /// By the model's name, and as the server turns out to take them.
        Auto = "auto",
        /// As tools of the API.
        Native = "native",
        /// In the text.
        Text = "text",
    }
}

choice! {
    /// How a model is told to change files.
    pub enum EditFormatChoice {
        /// By the model's name.
        Auto = "auto",
        /// Pieces of text and what replaces them.
        Replace = "replace",
        /// Patches.
        Patch = "patch",
    }
}

choice! {
    /// How the reasoning of earlier replies is sent back.
    pub enum ReplayChoice {
        /// By the model's name.
        Auto = "auto",
        /// Not at all.
        Never = "never",
        /// In the field `reasoning_content`.
        ReasoningContent = "reasoning_content",
        /// In the field `reasoning`.
        Reasoning = "reasoning",
        /// Before the content, between `<think>` tags.
        ThinkTags = "think_tags",
    }
}

choice! {
    /// Which sandbox runs commands.
    pub enum SandboxBackend {
        /// Namespaces on this machine.
        Local = "local",
        /// Containers of Docker or podman.
        Docker = "docker",
        /// Sandboxes of an OpenSandbox server.
        OpenSandbox = "opensandbox",
    }
}

choice! {
    /// What an engine's runc without the fixes for known escapes means.
    pub enum OldRunc {
        /// It is said, and used.
        Warn = "warn",
        /// No sandbox is opened.
        Refuse = "refuse",
    }
}

choice! {
    /// How an OpenSandbox server must enforce that a sandbox has no network.
    pub enum OpenSandboxMode {
        /// By names and by a packet filter.
        DnsNft = "dns+nft",
        /// By names alone: addresses are reached.
        Dns = "dns",
        /// Nothing is asked for.
        Unverified = "unverified",
    }
}

choice! {
    /// What a rule of permission says.
    pub enum PermissionMode {
        /// Go on.
        Allow = "allow",
        /// Ask a person.
        Ask = "ask",
        /// Never.
        Deny = "deny",
    }
}

choice! {
    /// How log lines look.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
