//! Short answers to commands, where nothing but the command itself decides them.
//! Never repeats words of a comment.

use super::Language;

/// A request for work on something that is closed.
pub fn closed(language: Language, is_pull: bool) -> String {
    let (english, chinese) = match is_pull {
        true => ("pull request", "拉取请求"),
        false => ("issue", "议题"),
    };
    language.pick(
        format!("This {english} is closed, so nothing was started. Reopen it and ask again."),
        format!("此{chinese}已关闭，因此没有开始任何工作。请重新打开后再提出请求。"),
    )
}

/// A verb that only makes sense on a pull request.
pub fn only_for_pulls(language: Language, verb: &str) -> String {
    language.pick(
        format!("`{verb}` is for pull requests; this is an issue, so nothing was started."),
        format!("`{verb}` 只能用于拉取请求；这是一个议题，因此没有开始任何工作。"),
    )
}

/// A verb that nobody knows; the word is shown where it is short and plain.
pub fn unknown_verb(language: Language, verb: Option<&str>) -> String {
    match verb {
        Some(verb) => language.pick(
            format!("I do not know the command `{verb}`."),
            format!("不认识命令 `{verb}`。"),
        ),
        None => language.pick("I do not know this command.".to_owned(), "不认识这个命令。".to_owned()),
    }
}

/// What a verb wants behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// What shall be different.
    Remarks,
    /// An answer.
    Words,
    /// A question.
    Question,
    /// Words, and nothing that looks like an option.
    NoOptions,
    /// `publish`, or nothing.
    PublishOrNothing,
    /// The number of a draft, or nothing.
    NumberOrNothing,
    /// Money.
    Sum,
}

/// A verb whose words are not right.
pub fn bad_argument(language: Language, verb: &str, expected: Expected) -> String {
    let expected = match expected {
        Expected::Remarks => language.pick("needs to know what to do differently", "需要说明哪里要改"),
        Expected::Words => language.pick("needs your words", "需要写明回答"),
        Expected::Question => language.pick("needs a question", "需要一个问题"),
        Expected::NoOptions => language.pick(
            "takes no options: write what you want in words",
            "不接受选项：请直接用文字说明",
        ),
        Expected::PublishOrNothing => {
            language.pick("may be followed by `publish` and nothing else", "后面只能跟 `publish`")
        }
        Expected::NumberOrNothing => language.pick(
            "may be followed by the number of a draft and nothing else",
            "后面只能跟一个草稿编号",
        ),
        Expected::Sum => language.pick(
            "needs a sum in US dollars, such as `$5` or `$2.50`",
            "需要一个美元金额，例如 `$5` 或 `$2.50`",
        ),
    };
    language.pick(format!("`{verb}` {expected}."), format!("`{verb}` {expected}。"))
}

/// What `stop` says of requests that waited for their turn; whether it stopped work, too.
pub fn taken_back(language: Language, waiting: usize, is_more: bool) -> String {
    let requests = if waiting == 1 {
        "request that was"
    } else {
        "requests that were"
    };
    let (english, chinese) = match is_more {
        true => (
            " The work that goes on says in its own comment where it ends.",
            "正在进行的工作会在其自己的评论中说明结束情况。",
        ),
        false => ("", ""),
    };
    language.pick(
        format!("Took back {waiting} {requests} waiting here.{english}"),
        format!("已撤回此处排队等待的 {waiting} 个请求。{chinese}"),
    )
}

/// The table of commands.
pub fn table(language: Language, command: &str, label: &str) -> String {
    let rows: [(&str, &str, &str); 15] = [
        (
            "fix [instructions]",
            "on an issue: a branch and a draft pull request; on a pull request: commits to its branch. While work is going on, the instructions reach it",
            "在议题上：新建分支和草稿拉取请求；在拉取请求上：向其分支提交。工作进行中时，说明会直接转达",
        ),
        (
            "rebase [instructions]",
            "on a pull request: merges the base into its branch and settles conflicts; nothing is rewritten",
            "在拉取请求上：将目标分支合并到其分支并解决冲突；不改写历史",
        ),
        (
            "plan [instructions]",
            "a plan to approve first; nothing is changed before",
            "先给出计划等待批准；批准前不改动任何内容",
        ),
        (
            "approve [remarks]",
            "go on with the plan, or yes to what the work here asked",
            "按计划继续，或同意此处提出的请求",
        ),
        ("revise REMARKS", "plan again, with these remarks", "按意见重新制定计划"),
        (
            "answer TEXT",
            "answers what the work here asked; with several questions, number the lines",
            "回答此处提出的问题；多个问题请按编号分行回答",
        ),
        (
            "ask QUESTION",
            "an answer in a comment; nothing is changed",
            "在评论中回答；不改动任何内容",
        ),
        (
            "review [instructions]",
            "one review of this pull request with comments on lines; nothing is changed",
            "审查此拉取请求并逐行评论；不改动任何内容",
        ),
        (
            "draft [text]",
            "drafts of issues; nothing is created",
            "起草议题；不会创建任何内容",
        ),
        (
            "create [number]",
            "creates the issue of a draft, exactly as it is shown",
            "按所示内容原样创建草稿对应的议题",
        ),
        (
            "retry",
            "runs the last work here again; `retry publish` repeats only its publishing",
            "重新运行此处最近一次工作；`retry publish` 只重新发布结果",
        ),
        ("stop", "stop the work here", "停止此处的工作"),
        (
            "budget $N",
            "what all work on this issue or pull request may cost",
            "设置此议题或拉取请求上全部工作的费用上限",
        ),
        ("status", "where the work stands", "查看工作进展"),
        ("help", "this table", "显示此表"),
    ];
    let mut lines = vec![
        language.pick("| command | effect |", "| 命令 | 作用 |").to_owned(),
        "|---|---|".to_owned(),
    ];
    for (words, english, chinese) in rows {
        lines.push(format!("| `{command} {words}` | {} |", language.pick(english, chinese)));
    }
    lines.push(String::new());
    lines.push(language.pick(
        format!(
            "The command stands at the beginning of a line. The label `{label}` on an issue does the same as `fix`."
        ),
        format!("命令须位于行首。给议题加上标签 `{label}` 与 `fix` 作用相同。"),
    ));
    lines.join("\n")
}

/// Nothing is there that could be stopped.
pub fn nothing_to_stop(language: Language) -> &'static str {
    language.pick("Nothing is running or queued here.", "此处没有正在运行或排队的任务。")
}

/// Nobody waits for an answer.
pub fn nothing_asked(language: Language) -> &'static str {
    language.pick(
        "Nothing here waits for an answer, so nothing was done with it.",
        "此处没有等待回答的问题，因此未作处理。",
    )
}

/// More answers than are read.
pub fn too_many_answers(language: Language) -> &'static str {
    language.pick(
        "That question has too many answers already; this one was not added.",
        "该问题的回答已过多；没有添加这一条。",
    )
}

/// Where a job stands; `before` counts those that come first, for one that waits.
pub fn stands(language: Language, job: &str, state: &str, before: Option<u64>, reason: Option<&str>) -> String {
    let state = match state {
        "queued" => language.pick("queued", "排队中"),
        "leased" => language.pick("at work", "运行中"),
        "waiting" => language.pick("waiting for an answer", "等待答复"),
        "publishing" => language.pick("publishing", "发布中"),
        "done" => language.pick("done", "已完成"),
        "cancelled" => language.pick("stopped", "已停止"),
        "dead" => language.pick("given up", "已放弃"),
        other => other,
    };
    let place = before.map_or_else(String::new, |before| match before {
        0 => language.pick(", next in line".to_owned(), "，即将开始".to_owned()),
        before => language.pick(format!(", {before} before it"), format!("，前面还有 {before} 个")),
    });
    let reason = reason.map_or_else(String::new, |reason| {
        language.pick(format!(" ({reason})"), format!("（{reason}）"))
    });
    language.pick(
        format!("- job {job} is **{state}**{place}{reason}"),
        format!("- 任务 {job}：**{state}**{place}{reason}"),
    )
}

/// Nothing was ever asked.
pub fn nothing_yet(language: Language, is_pull: bool) -> &'static str {
    match is_pull {
        true => language.pick(
            "Nothing was asked of me on this pull request yet.",
            "此拉取请求上还没有向我提出过请求。",
        ),
        false => language.pick(
            "Nothing was asked of me on this issue yet.",
            "此议题上还没有向我提出过请求。",
        ),
    }
}
