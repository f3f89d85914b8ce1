//! Why a change of a file may not be published. Pure text.
//! Never says that the change is wrong: a person may make it.

use super::Language;

/// Files that run with the repository's rights or decide who must review.
pub fn for_people(language: Language) -> &'static str {
    language.pick(
        "a person has to make this change: it decides what runs with the repository's rights",
        "须由人来修改：它决定以仓库权限运行的内容",
    )
}

/// Files that make git fetch.
pub fn fetches(language: Language) -> &'static str {
    language.pick(
        "this file makes git fetch from elsewhere; a person has to change it",
        "此文件会使 git 从别处获取内容；须由人来修改",
    )
}

/// Other repositories inside this one.
pub fn submodule(language: Language) -> &'static str {
    language.pick(
        "submodules are not added, changed or removed by the agent",
        "代理不得添加、修改或移除子模块",
    )
}

/// What the repository's file protects.
pub fn protected(language: Language) -> &'static str {
    language.pick(
        "the repository protects this path (`protected_paths`)",
        "仓库保护此路径（`protected_paths`）",
    )
}
