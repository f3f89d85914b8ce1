//! Why a change of a file may not be published: the rules for trees, in words. Pure text.
//! Never says that the change is wrong: a person may make it.

use super::Language;
use crate::text;

/// A rule that a changed file breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Files that run with the repository's rights or decide who must review.
    ForPeople,
    /// Files that make git fetch.
    Fetches,
    /// Other repositories inside this one.
    Submodule,
    /// What the repository's file protects.
    Protected,
    /// A symbolic link whose target is longer than so many bytes.
    LinkTooLong(usize),
    /// A mode that files do not have.
    Mode(String),
    /// More bytes than allowed.
    TooLarge {
        /// Found.
        bytes: u64,
        /// Allowed.
        most: u64,
    },
    /// The content did not come with the change.
    NoContent,
    /// A name in no known writing.
    NotUtf8,
    /// A path longer than so many bytes.
    PathTooLong(usize),
    /// A name with something that does not show.
    Invisible(char),
    /// `.`, `..` or nothing as a part of a path.
    NotPlain,
    /// A name that is `.git` somewhere.
    DotGit,
    /// A link to something in no known writing.
    LinkNotUtf8,
    /// A link that is absolute or odd.
    LinkNotPlain,
    /// A link that goes up behind a name.
    LinkUpLate,
    /// A link out of the repository.
    LinkLeaves,
    /// A link into the repository's own data.
    LinkIntoGit,
}

/// What stands behind the name of the file.
pub fn rule(language: Language, rule: &Rule) -> String {
    let pick = |english: &str, chinese: &str| language.pick(english, chinese).to_owned();
    match rule {
        Rule::ForPeople => pick(
            "a person has to make this change, because it decides what runs with the repository's rights",
            "须由人来修改，因为它决定以仓库权限运行的内容",
        ),
        Rule::Fetches => pick(
            "this file makes git fetch from elsewhere; a person has to change it",
            "此文件会使 git 从别处获取内容；须由人来修改",
        ),
        Rule::Submodule => pick(
            "submodules are not added, changed or removed by the agent",
            "代理不得添加、修改或移除子模块",
        ),
        Rule::Protected => pick(
            "the repository protects this path (`protected_paths`)",
            "仓库保护此路径（`protected_paths`）",
        ),
        Rule::LinkTooLong(most) => language.pick(
            format!("a symbolic link's target has at most {most} bytes"),
            format!("符号链接的目标最多 {most} 字节"),
        ),
        Rule::Mode(mode) => language.pick(
            format!("mode {mode} is not allowed; files are 100644 or 100755"),
            format!("不允许模式 {mode}；文件只能是 100644 或 100755"),
        ),
        Rule::TooLarge { bytes, most } => {
            let (bytes, most) = (text::bytes_in_words(*bytes), text::bytes_in_words(*most));
            language.pick(
                format!("{bytes} are more than the {most} allowed"),
                format!("{bytes}，超过允许的 {most}"),
            )
        }
        Rule::NoContent => pick("its content is missing", "缺少内容"),
        Rule::NotUtf8 => pick("the name is not UTF-8", "文件名不是 UTF-8"),
        Rule::PathTooLong(most) => language.pick(
            format!("the path has over {most} bytes"),
            format!("路径超过 {most} 字节"),
        ),
        Rule::Invisible(c) => {
            let code = format!("U+{:04X}", u32::from(*c));
            language.pick(
                format!("the name has the invisible character {code}"),
                format!("文件名含有不可见字符 {code}"),
            )
        }
        Rule::NotPlain => pick("the path is not plain", "路径不规范"),
        Rule::DotGit => pick(
            "the name stands for `.git` on some file systems",
            "在某些文件系统上，此名称等同于 `.git`",
        ),
        Rule::LinkNotUtf8 => pick("the link's target is not UTF-8", "链接目标不是 UTF-8"),
        Rule::LinkNotPlain => pick(
            "a symbolic link must be relative and plain",
            "符号链接必须是相对且规范的路径",
        ),
        Rule::LinkUpLate => pick(
            "a symbolic link may use `..` only at the front",
            "符号链接只能在开头使用 `..`",
        ),
        Rule::LinkLeaves => pick("the symbolic link leaves the repository", "符号链接指向仓库之外"),
        Rule::LinkIntoGit => pick("the symbolic link points into `.git`", "符号链接指向 `.git` 内部"),
    }
}

/// A file and the rule that it breaks.
pub fn of_file(language: Language, path: &str, broken: &Rule) -> String {
    let words = rule(language, broken);
    language.pick(format!("`{path}`: {words}"), format!("`{path}`：{words}"))
}

/// Broken rules as one sentence.
pub fn list(language: Language, broken: &[String]) -> String {
    broken.join(language.pick("; ", "；"))
}

/// More changed paths than are looked at.
pub fn too_many(language: Language, found: usize, most: usize) -> String {
    language.pick(
        format!("{found} changed paths are more than the {most} allowed"),
        format!("改动了 {found} 个路径，超过允许的 {most} 个"),
    )
}

/// More files in the tree than can be compared.
pub fn tree_too_large(language: Language) -> &'static str {
    language.pick(
        "the tree has too many files to be checked",
        "目录树中的文件过多，无法检查",
    )
}

/// A change larger than is taken.
pub fn change_too_large(language: Language, most: u64) -> String {
    let most = text::bytes_in_words(most);
    language.pick(format!("the change is larger than {most}"), format!("改动超过 {most}"))
}

/// Broken rules that are not spelled out.
pub fn more(language: Language, more: usize) -> String {
    language.pick(format!("and {more} more"), format!("以及另外 {more} 项"))
}

/// Names that some file systems cannot tell apart. They are code already.
pub fn twins(language: Language, names: &[String]) -> String {
    let named = names.join(language.pick(" and ", " 与 "));
    language.pick(
        format!("{named} differ only in case or in how accents are encoded"),
        format!("{named} 仅在大小写或重音编码上不同"),
    )
}

/// A protected path that is no pattern.
pub fn bad_pattern(language: Language, pattern: &str, why: &str) -> String {
    language.pick(
        format!("the protected path `{pattern}` cannot be read: {why}"),
        format!("无法解析受保护路径 `{pattern}`：{why}"),
    )
}

/// Protected paths that are no patterns together.
pub fn bad_patterns(language: Language, why: &str) -> String {
    language.pick(
        format!("the protected paths cannot be read: {why}"),
        format!("无法解析受保护路径：{why}"),
    )
}
