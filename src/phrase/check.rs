//! Failed checks on our own pull requests, and the check run of our own. What the model is told
//! stays English. Pure text. Never claims that a check passed.

use std::fmt::Write as _;

use super::Language;

/// What our own check run is called.
pub const NAME: &str = "Forgehand";

/// What the agent is asked to do about failed checks.
pub const REPAIR: &str = "Checks fail on the head of this pull request, whose change is yours. They are shown below with \
                          what they say. Find out why, and repair the cause on the same branch; do not switch checks off \
                          and do not weaken tests. If the cause is not in this change, change nothing and say so.";

/// Somebody pushed to the branch that is worked on.
pub fn head_moved(language: Language, who: &str, sha: &str) -> String {
    language.pick(
        format!("{who} pushed {sha} to this pull request while it is worked on. Nothing of that is overwritten."),
        format!("处理期间 {who} 向此拉取请求推送了 {sha}。这些提交不会被覆盖。"),
    )
}

/// How to have it tried again.
pub fn again(language: Language, command: &str) -> String {
    language.pick(
        format!("To have it tried again, write `{command} fix`."),
        format!("如需再试，请写 `{command} fix`。"),
    )
}

/// The checks fail without the change, too. `names` are code already.
pub fn base_fails(language: Language, names: &str, base: &str) -> String {
    language.pick(
        format!(
            "{names} failed here, and on the base ({base}) as well. That is not this change, so nothing was repaired."
        ),
        format!("{names} 在此处失败，在基础提交（{base}）上同样失败。原因不在本次改动，因此没有修复。"),
    )
}

/// Nobody knows whether the checks pass without the change.
pub fn base_unknown(language: Language, names: &str, base: &str, command: &str) -> String {
    language.pick(
        format!(
            "{names} failed here. On the base ({base}) there is no result to compare with, so it is not known whether \
             this change is the cause, and nothing was repaired. `{command} fix` has it looked into all the same."
        ),
        format!(
            "{names} 在此处失败。基础提交（{base}）上没有可比较的结果，无法判断是否由本次改动引起，因此没有修复。\
             如仍需处理，请写 `{command} fix`。"
        ),
    )
}

/// Why nothing is repaired now, where nothing is said on the pull request: for whoever asks where
/// the work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nobody wants it any more.
    Closed,
    /// There are other commits by now.
    HeadMoved,
    /// Somebody had them run again.
    PassedMeanwhile,
    /// The same commit failed and passed.
    Flaky,
    /// Nothing says that one fails.
    NoneFails,
    /// Some took too long, and none failed.
    NotOver,
    /// They are waited for.
    UnderWay,
    /// One failed, and the others are waited for.
    OthersUnderWay,
    /// Those of the base are waited for.
    BaseUnderWay,
    /// They were asked to run once more.
    RunAgain,
}

/// As a reason.
pub fn why(language: Language, why: Why) -> &'static str {
    match why {
        Why::Closed => language.pick("the pull request is closed", "拉取请求已关闭"),
        Why::HeadMoved => language.pick(
            "the checks are of a commit that is not the head any more (head_moved)",
            "这些检查属于已不是最新的提交（head_moved）",
        ),
        Why::PassedMeanwhile => language.pick("the checks have passed meanwhile", "检查现已通过"),
        Why::Flaky => language.pick(
            "the checks failed and passed on the same commit (flaky)",
            "同一提交上的检查先失败后通过（不稳定）",
        ),
        Why::NoneFails => language.pick("no check is known to fail any more", "已没有已知失败的检查"),
        Why::NotOver => language.pick("no check fails; some are not over", "没有检查失败，部分尚未结束"),
        Why::UnderWay => language.pick("checks are still under way", "检查仍在进行"),
        Why::OthersUnderWay => language.pick("other checks are still under way", "其他检查仍在进行"),
        Why::BaseUnderWay => language.pick("the checks of the base are still under way", "基础提交的检查仍在进行"),
        Why::RunAgain => language.pick("failed checks run again", "失败的检查正在重新运行"),
    }
}

/// It was tried often enough.
pub fn enough(language: Language, names: &str, rounds: usize) -> String {
    language.pick(
        format!("{names} still failed after {rounds} repairs. A person has to look at this now."),
        format!("经过 {rounds} 次修复后，{names} 仍然失败。现在需要人工查看。"),
    )
}

/// Some checks did not come to their end in time.
pub fn went_on(language: Language, names: &str) -> String {
    language.pick(
        format!("No longer waited for: {names}. What follows goes by the checks that are over."),
        format!("不再等待：{names}。以下依据已完成的检查进行。"),
    )
}

/// A part of the checks could not be read.
pub fn unread(language: Language, parts: &str) -> String {
    language.pick(
        format!("Not everything that is said about this commit could be read: {parts}."),
        format!("关于此提交的部分信息无法读取：{parts}。"),
    )
}

/// Names as a list, each code already, at most ten.
pub fn list(language: Language, names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = names.iter().take(SHOWN).cloned().collect();
    let mut out = shown.join(language.pick(", ", "、"));
    if let Some(more) = names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = match language {
            Language::English => write!(out, " and {more} more"),
            Language::Chinese => write!(out, " 等另外 {more} 项"),
        };
    }
    out
}

/// Title of our check while work goes on.
pub fn working(language: Language) -> &'static str {
    language.pick("At work on this pull request", "正在处理此拉取请求")
}

/// Summary of it.
pub fn working_summary(language: Language, job: &str) -> String {
    language.pick(
        format!("The status comment tells how far it is. Job {job}."),
        format!("进度见状态评论。任务 {job}。"),
    )
}

/// How our check ended, as its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every command passed on the pushed commit.
    Verified,
    /// A commit was pushed, but not every command passed, or none was there.
    NotVerified,
    /// The work went on in another commit.
    WentOn,
    /// Commands that passed before failed with the change.
    Regressed,
    /// Somebody stopped it.
    Stopped,
    /// It did not work out.
    GaveUp,
    /// There was nothing to do.
    Nothing,
    /// It was not allowed.
    Refused,
}

/// The title of a settled check.
pub fn ended(language: Language, ended: Ended) -> &'static str {
    match ended {
        Ended::Verified => language.pick("Verified", "已验证"),
        Ended::NotVerified => language.pick("Pushed, not verified", "已推送，未验证"),
        Ended::WentOn => language.pick("The work went on in a newer commit", "工作在更新的提交中继续"),
        Ended::Regressed => language.pick("Checks that passed before fail", "原先通过的检查现在失败"),
        Ended::Stopped => language.pick("Stopped", "已停止"),
        Ended::GaveUp => language.pick("It did not work out", "未能完成"),
        Ended::Nothing => language.pick("Nothing to do", "无需处理"),
        Ended::Refused => language.pick("Not done", "未处理"),
    }
}

/// The head of the table of commands.
pub fn table_head(language: Language) -> &'static str {
    language.pick(
        "| command | before | after |\n|---|---|---|\n",
        "| 命令 | 改动前 | 改动后 |\n|---|---|---|\n",
    )
}

/// What stands in the table for a command.
pub fn cell(language: Language, exit_code: Option<Option<i32>>) -> String {
    match exit_code {
        None => language.pick("not run", "未运行").to_owned(),
        Some(Some(0)) => language.pick("✅ exit 0", "✅ 退出码 0").to_owned(),
        Some(Some(code)) => language.pick(format!("❌ exit {code}"), format!("❌ 退出码 {code}")),
        Some(None) => language.pick("❌ killed", "❌ 被终止").to_owned(),
    }
}

/// No command was run.
pub fn nothing_run(language: Language) -> &'static str {
    language.pick("No command of the repository was run.", "没有运行仓库的任何命令。")
}

/// Which job it was.
pub fn of_job(language: Language, job: &str) -> String {
    language.pick(format!("Job {job}."), format!("任务 {job}。"))
}
