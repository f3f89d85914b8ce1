//! Replies in review threads, and how many of each kind there are. Never the reason: that is the agent's.

use serde::{Deserialize, Serialize};

use super::Language;

/// What a reply tells the reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A commit on the branch does what was asked.
    Fixed,
    /// It should not be done.
    Disputed,
    /// It is right, but not for now.
    Deferred,
    /// It is called right as it is: the run changed nothing.
    Unchanged,
    /// The run ended without a word on it.
    Unanswered,
}

/// The program's own part of a reply, which the agent's reason follows.
pub fn lead(language: Language, said: Said) -> &'static str {
    match said {
        Said::Fixed => language.pick("**Fixed.**", "**已修复。**"),
        Said::Disputed => language.pick("**Not changed, because:**", "**未作改动，理由如下：**"),
        Said::Deferred => language.pick("**Deferred:**", "**暂缓处理：**"),
        Said::Unchanged => language.pick("**Nothing was changed for this:**", "**此处没有改动：**"),
        Said::Unanswered => language.pick(
            "The run ended without an answer to this thread, so nothing is claimed about it.",
            "处理此讨论的运行结束时没有给出答复，因此这里不作任何结论。",
        ),
    }
}

/// The same for a fix that stands in a commit of the branch.
pub fn fixed_in(language: Language, sha: &str) -> String {
    language.pick(format!("**Fixed in {sha}.**"), format!("**已在 {sha} 中修复。**"))
}

/// The same for a change that did not get to the pull request's branch.
pub fn elsewhere(language: Language) -> &'static str {
    language.pick(
        "**A change for this was made, but it is not on the branch of this pull request.** The job's comment says where it is.",
        "**已为此作出改动，但它不在此拉取请求的分支上。** 任务评论说明了它在何处。",
    )
}

/// How many threads got which answer, for the status comment: fixed on the branch, changed
/// elsewhere, and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Fixed by a commit on the branch.
    pub fixed: usize,
    /// Changed, but not on the branch.
    pub elsewhere: usize,
    /// Disputed.
    pub disputed: usize,
    /// Deferred.
    pub deferred: usize,
    /// Called right as they are.
    pub unchanged: usize,
    /// Without a verdict, or without a reply.
    pub unanswered: usize,
}

/// The line about threads in the last words of the status comment.
pub fn tally(language: Language, tally: &Tally) -> String {
    let all = [
        (tally.fixed, "fixed", "已修复"),
        (tally.elsewhere, "changed elsewhere", "改动在别处"),
        (tally.disputed, "disputed", "有异议"),
        (tally.deferred, "deferred", "暂缓"),
        (tally.unchanged, "unchanged", "无需改动"),
        (tally.unanswered, "not answered", "未答复"),
    ];
    let some = all.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = some
        .map(|(count, english, chinese)| language.pick(format!("{count} {english}"), format!("{chinese} {count}")))
        .collect();
    language.pick(
        format!("**Review threads:** {}.", parts.join(", ")),
        format!("**审查讨论：** {}。", parts.join("，")),
    )
}

/// More threads than one run answers.
pub fn too_many(language: Language, taken: usize, left: usize) -> String {
    language.pick(
        format!("The oldest {taken} unresolved review threads are worked on; {left} more wait for another request."),
        format!("本次处理最早的 {taken} 个未解决讨论；其余 {left} 个等待下一次请求。"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_counted() {
        let some = Tally {
            fixed: 3,
            deferred: 1,
            ..Tally::default()
        };
        assert_eq!(
            tally(Language::English, &some),
            "**Review threads:** 3 fixed, 1 deferred."
        );
        assert_eq!(tally(Language::Chinese, &some), "**审查讨论：** 已修复 3，暂缓 1。");
    }
}
