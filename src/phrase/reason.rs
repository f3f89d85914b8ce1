//! Why work was not begun, did not come to its end or was not published. Reasons begin small and
//! end without a stop: a sentence is made around them. Pure text.
//! Never holds what a model said, but quoted.

use super::Language;

/// The agent cannot go on without a person, and nobody can be asked.
pub fn needs_input(language: Language) -> &'static str {
    language.pick(
        "it needs the answer of a person before it can go on",
        "需要有人答复才能继续",
    )
}

/// A write that arrived twice, and what was taken away of it.
pub fn arrived_twice(language: Language, kind: &str, removed: &str) -> String {
    let kind = kind.replace('_', " ");
    language.pick(
        format!("a {kind} had reached GitHub twice; the later one ({removed}) was taken back"),
        format!("{kind} 在 GitHub 上出现了两次；较晚的一个（{removed}）已撤回"),
    )
}

/// What is left of a review that arrived twice.
pub fn sent_twice(language: Language) -> &'static str {
    language.pick(
        "This review was sent twice; the one before it counts.",
        "此评审被发送了两次；以前一份为准。",
    )
}

/// What the agent said last.
pub fn last_words(language: Language, why: &str, words: &str) -> String {
    language.pick(
        format!("{why}. Its last words: {words}"),
        format!("{why}。代理最后的话：{words}"),
    )
}

/// Files that only a person may change, and what to do.
pub fn against_rules(language: Language, broken: &str) -> String {
    language.pick(
        format!(
            "the change breaks rules that only a person may break ({broken}). Nothing of it was kept. Make the change to these \
             files yourself, or ask again for the rest without them"
        ),
        format!(
            "改动违反了只有人才能违反的规则（{broken}）。没有保留任何内容。请自行修改这些文件，或另行要求处理其余部分"
        ),
    )
}

/// Nothing differs although the agent says it is done.
pub fn no_difference(language: Language, summary: &str) -> String {
    language.pick(
        format!("No file differs from the base. The agent's summary: {summary}"),
        format!("没有文件与基准不同。代理的总结：{summary}"),
    )
}

/// It ended early, and there is nothing to keep.
pub fn before_any_change(language: Language, why: &str) -> String {
    language.pick(
        format!("{why}, before anything had changed"),
        format!("{why}，此前没有任何改动"),
    )
}

/// A limit was reached, and there is nothing to keep.
pub fn nothing_changed_by_then(language: Language, limit: &str) -> String {
    language.pick(
        format!("{limit}, and nothing had changed by then"),
        format!("{limit}，到那时没有任何改动"),
    )
}

/// Checks that the change breaks.
pub fn broken_checks(language: Language, checks: &str) -> String {
    language.pick(
        format!("checks that passed before fail with the change: {checks}"),
        format!("原本通过的检查在改动后失败：{checks}"),
    )
}

/// The command that alone decides does not pass; with the end of its output where there is any.
pub fn not_accepted(language: Language, command: &str, output: &str) -> String {
    let why = language.pick(
        format!("the acceptance command {command} does not pass"),
        format!("验收命令 {command} 未通过"),
    );
    match output {
        "" => why,
        output => format!(
            "{why}{}\n\n```\n{}\n```",
            language.pick(":", "："),
            output.replace("```", "'''")
        ),
    }
}

/// The push failed, without a word of why.
pub fn push_failed(language: Language) -> &'static str {
    language.pick("the push failed", "推送失败")
}

/// The push failed.
pub fn not_pushed(language: Language, why: &str) -> String {
    language.pick(
        format!("the change could not be pushed: {why}"),
        format!("无法推送改动：{why}"),
    )
}

/// Others pushed to the branch.
pub fn pushed_meanwhile(language: Language, branch: &str) -> String {
    language.pick(
        format!("somebody pushed to `{branch}` meanwhile"),
        format!("期间有人向 `{branch}` 推送了提交"),
    )
}

/// The work is on another branch than wanted.
pub fn put_beside(language: Language, why: &str) -> String {
    language.pick(
        format!("{why}; the change was put beside it and nothing was overwritten"),
        format!("{why}；改动放在另一分支，没有覆盖任何内容"),
    )
}

/// The branch is there, the pull request is not.
pub fn no_pull(language: Language, why: &str) -> String {
    language.pick(
        format!("the branch is pushed, but the pull request could not be opened: {why}"),
        format!("分支已推送，但无法打开拉取请求：{why}"),
    )
}

/// Nobody works on the job any more and nobody said why.
pub fn given_up(language: Language) -> &'static str {
    language.pick("the job was given up", "任务已被放弃")
}

/// After so many attempts.
pub fn attempts(language: Language, reason: &str, attempts: u32) -> String {
    language.pick(
        format!("{reason} ({attempts} attempts)"),
        format!("{reason}（尝试了 {attempts} 次）"),
    )
}

/// Somebody stopped it, and it is not known who.
pub fn stopped(language: Language) -> &'static str {
    language.pick("it was stopped", "已停止")
}

/// Somebody stopped it.
pub fn asked_to_stop(language: Language, who: &str) -> String {
    language.pick(format!("{who} asked to stop"), format!("{who} 要求停止"))
}

/// What happened on GitHub that ends work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The label is off.
    Unlabelled,
    /// The issue is not in the queue any more that its work came from.
    LeftQueue,
    /// The issue is closed.
    IssueClosed,
    /// The issue is gone.
    IssueDeleted,
    /// The issue is in another repository.
    IssueMoved,
    /// The pull request is closed or merged.
    PullClosed,
    /// The comment with the command is gone.
    CommentDeleted,
    /// The repository is gone.
    RepositoryDeleted,
    /// The repository belongs to somebody else.
    RepositoryMoved,
    /// The App may not see this repository any more.
    TakenOff,
    /// The App is gone.
    Uninstalled,
    /// The App may do nothing for now.
    Suspended,
}

/// As the reason why work ended.
pub fn happened(language: Language, happened: Happened) -> &'static str {
    match happened {
        Happened::Unlabelled => language.pick("the label was removed", "标签已被移除"),
        Happened::LeftQueue => language.pick("the issue left its queue", "议题已离开队列"),
        Happened::IssueClosed => language.pick("the issue was closed", "议题已关闭"),
        Happened::IssueDeleted => language.pick("the issue was deleted", "议题已删除"),
        Happened::IssueMoved => language.pick("the issue was moved to another repository", "议题已移至另一个仓库"),
        Happened::PullClosed => language.pick("the pull request was closed", "拉取请求已关闭"),
        Happened::CommentDeleted => {
            language.pick("the comment that asked for it was deleted", "提出请求的评论已被删除")
        }
        Happened::RepositoryDeleted => language.pick("the repository was deleted", "仓库已删除"),
        Happened::RepositoryMoved => language.pick("the repository has another owner now", "仓库已归其他所有者"),
        Happened::TakenOff => language.pick("the App was taken off the repository", "App 已从此仓库移除"),
        Happened::Uninstalled => language.pick("the App was uninstalled", "App 已被卸载"),
        Happened::Suspended => language.pick("the App was suspended", "App 已被暂停"),
    }
}

/// The service ends for now, and the job goes on later.
pub fn service_stopped(language: Language) -> &'static str {
    language.pick("the service was stopped", "服务已停止")
}

/// Somebody lost the right, or the App did.
pub fn permission(language: Language, why: &str) -> String {
    language.pick(format!("permission: {why}"), format!("权限：{why}"))
}

/// Nobody answered in time.
pub fn no_answer(language: Language, by: &str) -> String {
    language.pick(
        format!("nobody answered the question by {by}"),
        format!("到 {by} 仍无人回答问题"),
    )
}

/// The issue or pull request is closed.
pub fn closed(language: Language, number: &str) -> String {
    language.pick(format!("#{number} was closed"), format!("#{number} 已关闭"))
}

/// A pull request that takes no commits.
pub fn pull_over(language: Language, number: &str, merged: bool) -> String {
    let (english, chinese) = if merged {
        ("merged", "已合并")
    } else {
        ("closed", "已关闭")
    };
    language.pick(
        format!("pull request #{number} is {english}; commits on its branch would go nowhere"),
        format!("拉取请求 #{number} {chinese}；向其分支提交没有意义"),
    )
}

/// A pull request that was merged or closed before the push.
pub fn pull_over_meanwhile(language: Language, number: &str, merged: bool) -> String {
    let (english, chinese) = if merged {
        ("merged", "合并")
    } else {
        ("closed", "关闭")
    };
    language.pick(
        format!("pull request #{number} was {english} meanwhile"),
        format!("拉取请求 #{number} 期间已被{chinese}"),
    )
}

/// The label is gone.
pub fn unlabelled(language: Language, label: &str) -> String {
    language.pick(
        format!("the label `{label}` was removed"),
        format!("标签 `{label}` 已被移除"),
    )
}

/// What was asked for is not known any more.
pub fn unknown_text(language: Language) -> &'static str {
    language.pick(
        "it is not known what the text was when this was asked for; ask again",
        "无法得知提出请求时的内容；请重新请求",
    )
}

/// The text is not what it was.
pub fn edited(language: Language) -> &'static str {
    language.pick(
        "the title or description was edited after this was asked for (content_changed); read it again, then ask again",
        "提出请求后标题或描述被编辑过（content_changed）；请重新阅读后再请求",
    )
}

/// A command that prepares the checkout failed. `tail` is what it said last.
pub fn setup_failed(language: Language, command: &str, how: &str, tail: &str) -> String {
    let fence = crate::text::code_fence(tail);
    let said = format!("{fence}\n{tail}\n{fence}");
    language.pick(
        format!("the set-up command `{command}` failed ({how}). It said last:\n\n{said}\n\nMend it, or change `setup` in `.github/forgehand.toml`"),
        format!("准备命令 `{command}` 失败（{how}）。它最后的输出：\n\n{said}\n\n请修复它，或修改 `.github/forgehand.toml` 中的 `setup`"),
    )
}

/// The branch is not where it was.
pub fn head_moved(language: Language, from: &str, to: &str) -> String {
    language.pick(
        format!("the branch moved from {from} to {to} after this was asked for (head_moved); ask again"),
        format!("提出请求后分支从 {from} 变为 {to}（head_moved）；请重新请求"),
    )
}

/// There is no such branch.
pub fn no_branch(language: Language, branch: &str) -> String {
    language.pick(
        format!("the branch `{branch}` does not exist or has no commit yet"),
        format!("分支 `{branch}` 不存在或尚无提交"),
    )
}

/// There is no such repository.
pub fn no_repository(language: Language) -> &'static str {
    language.pick("the repository is not there any more", "仓库已不存在")
}

/// The name is of another repository.
pub fn other_repository(language: Language, name: &str) -> String {
    language.pick(
        format!("{name} is another repository now (repo_identity)"),
        format!("{name} 现在是另一个仓库（repo_identity）"),
    )
}

/// Nobody can write there.
pub fn archived(language: Language) -> &'static str {
    language.pick("the repository is archived", "仓库已归档")
}

/// A stranger.
pub fn no_role(language: Language, login: &str) -> String {
    language.pick(
        format!("{login} has no role in this repository"),
        format!("{login} 在此仓库中没有角色"),
    )
}

/// The name is of another person.
pub fn other_account(language: Language, login: &str) -> String {
    language.pick(
        format!("the login {login} belongs to another account now"),
        format!("登录名 {login} 现在属于另一个账户"),
    )
}

/// Somebody who may read.
pub fn role_too_low(language: Language, login: &str, role: &str) -> String {
    language.pick(
        format!("{login} has the role `{role}` here, and write, maintain or admin is needed"),
        format!("{login} 在此的角色为 `{role}`，需要 write、maintain 或 admin"),
    )
}

/// The polite answer to somebody without the right.
pub fn only_writers(language: Language) -> &'static str {
    language.pick(
        "Only people who may write to this repository can give me work. Please ask one of them.",
        "只有对此仓库有写权限的人可以分配工作给我。请向他们提出。",
    )
}

/// Checks that a merge breaks.
pub fn broken_by_merge(language: Language, checks: &str) -> String {
    language.pick(
        format!("checks that passed before fail with the merge: {checks}"),
        format!("原本通过的检查在合并后失败：{checks}"),
    )
}

/// Title of a commit that keeps what there is.
pub fn unfinished_work(language: Language, subject: &str) -> String {
    language.pick(
        format!("Unfinished work on {subject}"),
        format!("{subject} 的未完成工作"),
    )
}

/// Title of a commit that holds a patch.
pub fn a_patch(language: Language, subject: &str) -> String {
    language.pick(format!("A patch for {subject}"), format!("{subject} 的补丁"))
}

/// A change that must not leave this machine.
pub fn holds_a_secret(language: Language) -> &'static str {
    language.pick(
        "the change holds a secret of this service, so none of it was published",
        "改动中含有本服务的机密，因此没有发布任何内容",
    )
}

/// A review that GitHub did not take.
pub fn review_not_posted(language: Language) -> &'static str {
    language.pick("the review could not be posted", "审查未能发表")
}
