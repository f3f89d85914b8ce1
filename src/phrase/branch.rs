//! What is said about branches that other people use, too: pushes meanwhile, merges of the base, and
//! forks. Reasons begin small and end without a stop: a sentence is made around them. Pure text.
//! Never says that something was pushed.

use super::Language;
use crate::text;

/// Most files named in one sentence.
const MAX_NAMED: usize = 10;
/// Most characters of one name.
const MAX_NAME_CHARS: usize = 160;

fn code(name: &str) -> String {
    text::code_span(&text::cap_chars(name, MAX_NAME_CHARS))
}

fn named(language: Language, files: &[String]) -> String {
    let shown: Vec<String> = files.iter().take(MAX_NAMED).map(|file| code(file)).collect();
    let list = shown.join(language.pick(", ", "、"));
    match files.len().saturating_sub(MAX_NAMED) {
        0 => list,
        more => language.pick(
            format!("{list} and {more} more"),
            format!("{list} 等另外 {more} 个文件"),
        ),
    }
}

/// The branch moved while the work went on.
pub fn moved(language: Language, branch: &str) -> String {
    let branch = code(branch);
    language.pick(
        format!(
            "Somebody pushed to {branch} meanwhile; the change is carried over to the new commits and checked again."
        ),
        format!("期间有人向 {branch} 推送了提交；改动会移到新提交之上并重新检查。"),
    )
}

/// The change stands on the new commits without a conflict.
pub fn carried(language: Language, from: &str, to: &str) -> String {
    language.pick(
        format!("The change was made on {from} and carried over to {to} without conflicts."),
        format!("改动原本基于 {from}，现已移到 {to} 之上，没有冲突。"),
    )
}

/// The change conflicts with what was pushed, and the agent is asked to settle it.
pub fn conflicts(language: Language, files: &[String]) -> String {
    let files = named(language, files);
    language.pick(
        format!("What was pushed conflicts with the change in {files}; the agent is asked to settle it."),
        format!("推送的提交与改动在 {files} 中冲突；由代理来解决。"),
    )
}

/// The conflicts of a push meanwhile were settled.
pub fn settled(language: Language, files: &[String]) -> String {
    let files = named(language, files);
    language.pick(
        format!("Conflicts with what was pushed meanwhile were settled by the agent in {files}."),
        format!("代理已在 {files} 中解决了与期间推送的提交的冲突。"),
    )
}

/// Why finished work did not get onto its branch: that moved, and the two conflict.
pub fn beside_conflict(language: Language, branch: &str, files: &[String]) -> String {
    let (branch, files) = (code(branch), named(language, files));
    language.pick(
        format!(
            "somebody pushed to {branch} meanwhile, and those commits conflict with this change in {files}; nothing was \
             overwritten"
        ),
        format!("期间有人向 {branch} 推送了提交，与本改动在 {files} 中冲突；没有覆盖任何内容"),
    )
}

/// Why nothing is pushed: everything of the change is on the branch already.
pub fn there_already(language: Language, branch: &str) -> String {
    let branch = code(branch);
    language.pick(
        format!("what was pushed to {branch} meanwhile has this change already"),
        format!("期间推送到 {branch} 的提交已包含本改动"),
    )
}

/// A `rebase` that finds nothing to merge.
pub fn up_to_date(language: Language, branch: &str, base: &str) -> String {
    let (branch, base) = (code(branch), code(base));
    language.pick(
        format!("{branch} is up to date: it has every commit of {base}"),
        format!("{branch} 已是最新：包含 {base} 的所有提交"),
    )
}

/// A `rebase` of a branch without commits of its own.
pub fn nothing_own(language: Language, branch: &str, base: &str) -> String {
    let (branch, base) = (code(branch), code(base));
    language.pick(
        format!("every commit of {branch} is in {base} already, so there is nothing to bring up to date"),
        format!("{branch} 的所有提交都已在 {base} 中，无需更新"),
    )
}

/// A merge that only people can make.
pub fn only_people(language: Language, base: &str, files: &[String]) -> String {
    let (base, files) = (code(base), named(language, files));
    language.pick(
        format!(
            "{base} conflicts with this branch in {files}, where an agent may not or cannot choose (binary files, links, \
             submodules, files that a person has to change, or too many); nothing was pushed"
        ),
        format!("{base} 与本分支在 {files} 中冲突，代理不能或不可决定（二进制文件、链接、子模块、须由人修改的文件，或数量过多）；没有推送任何内容"),
    )
}

/// A merge whose conflicts the agent did not settle.
pub fn not_settled(language: Language, base: &str, files: &[String], why: &str) -> String {
    let (base, files) = (code(base), named(language, files));
    language.pick(
        format!("{base} conflicts with this branch in {files}, and the conflicts were not settled: {why}; nothing was pushed"),
        format!("{base} 与本分支在 {files} 中冲突，且未能解决：{why}；没有推送任何内容"),
    )
}

/// The title of a merge of the base.
pub fn merge_title(base: &str, branch: &str) -> String {
    // Read by git and by people of every language: as git itself writes it.
    format!("Merge branch '{base}' into {branch}")
}

/// What a `rebase` did, above its sections.
pub fn merged(language: Language, base: &str, branch: &str, commits: usize, files: &[String]) -> String {
    let (base, branch) = (code(base), code(branch));
    let how = match files.is_empty() {
        true => language.pick("No file conflicted.".to_owned(), "没有文件冲突。".to_owned()),
        false => {
            let files = named(language, files);
            language.pick(
                format!("Conflicts were settled by the agent in {files}; please look at them."),
                format!("代理解决了 {files} 中的冲突，请检查。"),
            )
        }
    };
    let commits = match commits {
        1 => language.pick("1 commit".to_owned(), "1 个提交".to_owned()),
        more => language.pick(format!("{more} commits"), format!("{more} 个提交")),
    };
    language.pick(
        format!("Merged {commits} of {base} into {branch} with a merge commit; no commit was rewritten. {how}"),
        format!("已用合并提交将 {base} 的 {commits}合并到 {branch}；没有改写任何提交。{how}"),
    )
}

/// Why a fork gets no push: it is gone.
pub fn fork_deleted(language: Language) -> String {
    language
        .pick(
            "The fork that this pull request comes from was deleted, so there is no branch to push to. The change is below as a patch.",
            "此拉取请求所来自的 fork 已被删除，没有可推送的分支。改动以补丁形式附在下方。",
        )
        .to_owned()
}

/// Why a fork gets no push: its author does not want it.
pub fn fork_forbids(language: Language, fork: &str) -> String {
    let fork = code(fork);
    language.pick(
        format!(
            "The branch is in the fork {fork}, whose author does not allow edits by maintainers, so nothing was pushed. The \
             change is below as a patch."
        ),
        format!("该分支位于 fork {fork}，其作者不允许维护者编辑，因此没有推送。改动以补丁形式附在下方。"),
    )
}

/// Why a fork gets no push: this App has no right there.
pub fn fork_without_app(language: Language, fork: &str) -> String {
    let fork = code(fork);
    language.pick(
        format!(
            "The branch is in the fork {fork}, where this App is not installed with the right to write, so nothing was \
             pushed. The change is below as a patch."
        ),
        format!("该分支位于 fork {fork}，此 App 未安装在那里或没有写入权限，因此没有推送。改动以补丁形式附在下方。"),
    )
}

/// Why work that its fork did not take is shown as a patch.
pub fn fork_not_here(language: Language, fork: Option<&str>) -> String {
    let fork = code(fork.unwrap_or("ghost"));
    language.pick(
        format!(
            "The commits of the fork {fork} are not put on a branch of this repository, because its workflows would run \
             them with this repository's rights. The change is below as a patch."
        ),
        format!("fork {fork} 的提交不会放到本仓库的分支上，否则工作流会以本仓库的权限运行它们。改动以补丁形式附在下方。"),
    )
}

/// Why a `rebase` on a fork is not done.
pub fn fork_merge(language: Language, why: &str) -> String {
    let why = why
        .trim_end_matches(" The change is below as a patch.")
        .trim_end_matches("改动以补丁形式附在下方。")
        .trim_end_matches(['.', '。']);
    language.pick(
        format!("{why}; a merge cannot be handed over as a patch, so its author has to merge the base"),
        format!("{why}；合并无法以补丁形式交付，需由作者自行合并目标分支"),
    )
}

/// The title of a patch.
pub fn patch_title(language: Language) -> &'static str {
    language.pick("The change as a patch", "改动的补丁")
}

/// How a patch is used.
pub fn patch_how(language: Language, base: &str) -> String {
    language.pick(
        format!("Save the block as a file and run `git am FILE` on the branch, which is at {base} for this patch."),
        format!("将上面的内容保存为文件，在该分支（此补丁基于 {base}）上运行 `git am 文件`。"),
    )
}

/// A patch that lies on a branch.
pub fn patch_on_branch(language: Language, branch: &str, path: &str, base: &str) -> String {
    let (branch, path) = (code(branch), code(path));
    language.pick(
        format!(
            "The patch does not fit into a comment. It is the file {path} on the branch {branch} of this repository, and \
             applies with `git am` to {base}."
        ),
        format!("补丁无法放入评论。它是本仓库分支 {branch} 上的文件 {path}，可用 `git am` 应用到 {base}。"),
    )
}

/// A patch that is larger than anything that is kept.
pub fn patch_too_large(language: Language) -> String {
    language
        .pick("The patch is too large to be handed over.", "补丁太大，无法交付。")
        .to_owned()
}

/// A patch that may not be shown.
pub fn patch_has_secret(language: Language) -> String {
    language
        .pick(
            "The patch is not shown: it holds something that looks like a secret.",
            "补丁未显示：其中包含疑似密钥的内容。",
        )
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_are_counted() {
        let files: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
        let words = conflicts(Language::English, &files);
        assert!(words.contains("f9") && !words.contains("f10"), "{words}");
        assert!(words.contains("and 2 more"), "{words}");
    }

    #[test]
    fn a_name_stays_in_its_code() {
        let words = moved(Language::Chinese, "a`b @mona");
        assert!(words.contains(" ``a`b @mona`` "), "{words}");
    }
}
