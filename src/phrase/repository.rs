//! What is wrong with a repository's own file, `.github/forgehand.toml`, or with that of its dev
//! container. A sentence without its stop. Pure text.
//! Never repeats more of the file than a key.

use super::Language;

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is no such TOML.
    Syntax {
        /// From 1.
        line: usize,
        /// The parser's words, in one line.
        said: String,
    },
    /// `max_cost_usd` is no sum.
    NotMoney,
    /// `label` is no name; the most bytes of one.
    NotALabel {
        /// Bytes.
        most: usize,
    },
    /// `egress` is no list of hosts.
    NotHosts {
        /// Which entry, and what it should be.
        said: String,
    },
    /// `permission` holds what is no rule.
    NotRules {
        /// Key and rule, and what is wrong.
        said: String,
    },
    /// The file of a dev container is none.
    NotADevContainer,
    /// `devcontainer` is no name of a folder.
    NotAFolder,
    /// A list of commands is none.
    NotCommands {
        /// The key.
        key: &'static str,
        /// Most commands.
        most: usize,
        /// Most bytes of one.
        most_bytes: usize,
    },
}

/// The problem with file, line and key.
pub fn problem(language: Language, file: &str, problem: &Problem) -> String {
    match problem {
        Problem::Syntax { line, said } => language.pick(
            format!("`{file}` line {line}: {said}"),
            format!("`{file}` 第 {line} 行：{said}"),
        ),
        Problem::NotMoney => language.pick(
            format!("`{file}`: max_cost_usd is a sum of money, 0 or more"),
            format!("`{file}`：max_cost_usd 应为不小于 0 的金额"),
        ),
        Problem::NotALabel { most } => language.pick(
            format!("`{file}`: label is a name of at most {most} bytes"),
            format!("`{file}`：label 应为不超过 {most} 字节的名称"),
        ),
        Problem::NotHosts { said } => {
            language.pick(format!("`{file}`: egress: {said}"), format!("`{file}`：egress：{said}"))
        }
        Problem::NotRules { said } => language.pick(format!("`{file}`: {said}"), format!("`{file}`：{said}")),
        Problem::NotADevContainer => language.pick(
            format!("`{file}` is no object in which `image` is a name"),
            format!("`{file}` 应为对象，且其中的 `image` 应为名称"),
        ),
        Problem::NotAFolder => language.pick(
            format!("`{file}`: devcontainer is the name of a folder below `.devcontainer`"),
            format!("`{file}`：devcontainer 应为 `.devcontainer` 下某个文件夹的名称"),
        ),
        Problem::NotCommands { key, most, most_bytes } => language.pick(
            format!(
                "`{file}`: {key} is a list of at most {most} commands, none of them empty or over {most_bytes} bytes"
            ),
            format!("`{file}`：{key} 应为至多 {most} 条命令的列表，每条均不得为空或超过 {most_bytes} 字节"),
        ),
    }
}
