//! The status comment: headlines, how to answer, what happens without an answer.
//! Never shows what the log does not hold.

use super::Language;

/// The headline of questions that wait.
pub fn needs_you(language: Language) -> &'static str {
    language.pick("### 🙋 Needs you", "### 🙋 需要您")
}

/// The headline of a request that waits for its turn; so many others go before it.
pub fn queued(language: Language, command: &str, before: u64) -> String {
    let place = match before {
        0 => language.pick("It is next in line.".to_owned(), "下一个就是它。".to_owned()),
        1 => language.pick("1 request goes before it.".to_owned(), "前面还有 1 个请求。".to_owned()),
        more => language.pick(
            format!("{more} requests go before it."),
            format!("前面还有 {more} 个请求。"),
        ),
    };
    language.pick(
        format!(
            "### 🕓 Queued\n\n{place} It begins when a worker is free and nothing else is worked on here. `{command} stop` \
             takes it back."
        ),
        format!("### 🕓 排队中\n\n{place}有空闲的工作进程且此处没有其他工作时即会开始。用 `{command} stop` 可撤回。"),
    )
}

/// The headline before any work.
pub fn starting(language: Language) -> &'static str {
    language.pick("### ⏳ Starting", "### ⏳ 准备开始")
}

/// The headline while work goes on.
pub fn working(language: Language) -> &'static str {
    language.pick("### ⏳ Working on it", "### ⏳ 处理中")
}

/// The headline of a question that was answered.
pub fn answered(language: Language) -> &'static str {
    language.pick("### 💬 Answered", "### 💬 已回答")
}

/// The headline of a review.
pub fn reviewed(language: Language, verdict: &str, comments: u32) -> String {
    let (english, chinese) = match verdict {
        "pass" => ("nothing has to change", "没有必须修改之处"),
        "rebuild" => ("better to start over", "建议重新实现"),
        _ => ("needs a fix", "需要修改"),
    };
    language.pick(
        format!(
            "### 🔍 Reviewed: {english}\n\n{}",
            match comments {
                0 => "No comments on lines.".to_owned(),
                1 => "1 comment on a line.".to_owned(),
                many => format!("{many} comments on lines."),
            }
        ),
        format!(
            "### 🔍 已审查：{chinese}\n\n{}",
            match comments {
                0 => "没有行评论。".to_owned(),
                some => format!("{some} 条行评论。"),
            }
        ),
    )
}

/// How questions are answered.
pub fn how_to_answer(language: Language, command: &str, several: bool) -> String {
    match several {
        false => language.pick(
            format!("Answer with a comment that begins with `{command} answer` and your words."),
            format!("请发表以 `{command} answer` 开头的评论作答。"),
        ),
        true => language.pick(
            format!(
                "Answer with a comment that begins with `{command} answer`, and number your lines as the questions are."
            ),
            format!("请发表以 `{command} answer` 开头的评论，并按问题编号分行作答。"),
        ),
    }
}

/// Before something that needs a yes.
pub fn may_i(language: Language) -> &'static str {
    language.pick("May I go on with this?", "可以这样继续吗？")
}

/// Before what a yes would mean.
pub fn consequence(language: Language) -> &'static str {
    language.pick("What it means:", "后果：")
}

/// Before a call that needs a yes.
pub fn may_i_run(language: Language, key: &str) -> String {
    language.pick(format!("May I run this ({key})?"), format!("可以运行它吗（{key}）？"))
}

/// How to say yes or no.
pub fn yes_or_no(language: Language, command: &str) -> String {
    language.pick(
        format!("Say yes with `{command} approve`. To say no, or what to do instead, write `{command} answer` and your words."),
        format!("同意请用 `{command} approve`；否则用 `{command} answer` 说明不同意或应如何处理。"),
    )
}

/// What holds until there is an answer, and what happens without one.
pub fn until_then(language: Language, command: &str, by: &str) -> String {
    language.pick(
        format!(
            "`{command} stop` ends the work. Only what people with write access say counts.\n\n\
             Nothing runs until then. Without an answer by {by}, the work ends and what there is of it is kept on a branch."
        ),
        format!(
            "用 `{command} stop` 可结束工作。只有对此仓库有写权限的人的回复有效。\n\n\
             在此之前不会运行任何内容。若到 {by} 仍无回复，工作将结束，已有成果会保留在分支上。"
        ),
    )
}

/// The stages a person waits through, in order.
pub fn stages(language: Language) -> [&'static str; 7] {
    language.pick(
        [
            "Check permission",
            "Read the request",
            "Check out the repository",
            "Prepare and run the checks before",
            "Work on the change",
            "Run the checks after",
            "Publish",
        ],
        [
            "检查权限",
            "阅读请求",
            "检出仓库",
            "准备并运行改动前检查",
            "进行改动",
            "运行改动后检查",
            "发布",
        ],
    )
}

/// Before the steps that the agent wrote down.
pub fn agents_plan(language: Language) -> &'static str {
    language.pick("The agent's plan:", "代理的计划：")
}

/// How to have it done once more.
pub fn again(language: Language, label: Option<&str>) -> String {
    match label {
        Some(label) => language.pick(
            format!("To try again, put the label `{label}` on again."),
            format!("如需重试，请再次添加标签 `{label}`。"),
        ),
        None => language.pick(
            "To try again, repeat the command.".to_owned(),
            "如需重试，请重复该命令。".to_owned(),
        ),
    }
}

/// Where unfinished work is.
pub fn kept(language: Language, branch: &str) -> String {
    language.pick(
        format!("The unfinished work is on the branch `{branch}`. "),
        format!("未完成的工作在分支 `{branch}` 上。"),
    )
}

/// A pull request was opened.
pub fn opened(language: Language, pull: &str, branch: &str, sha: &str) -> String {
    language.pick(
        format!("### ✅ Done: #{pull}\n\nThe change is on `{branch}` ({sha}) and waits for review in #{pull}."),
        format!("### ✅ 已完成：#{pull}\n\n改动在 `{branch}` 上（{sha}），在 #{pull} 中等待审查。"),
    )
}

/// Commits were pushed.
pub fn pushed(language: Language, branch: &str, sha: &str) -> String {
    language.pick(
        format!("### ✅ Done\n\nPushed {sha} to `{branch}`."),
        format!("### ✅ 已完成\n\n已将 {sha} 推送到 `{branch}`。"),
    )
}

/// The headline where all is well as it is.
pub fn no_change(language: Language) -> &'static str {
    language.pick("### ☑️ No change needed", "### ☑️ 无需改动")
}

/// The headline of a refusal.
pub fn not_done(language: Language) -> &'static str {
    language.pick("### 🚫 Not done", "### 🚫 未处理")
}

/// Before the reason of a refusal.
pub fn not_worked_on(language: Language) -> &'static str {
    language.pick("This was not worked on: ", "没有处理此请求：")
}

/// The headline of a failure.
pub fn failed(language: Language) -> &'static str {
    language.pick("### ❌ It did not work out", "### ❌ 未能完成")
}

/// Before the reason why work ended early.
pub fn because(language: Language) -> &'static str {
    language.pick("Reason: ", "原因：")
}

/// The headline of work that somebody stopped.
pub fn stopped(language: Language) -> &'static str {
    language.pick("### ⏹️ Stopped", "### ⏹️ 已停止")
}

/// The end of a sentence, before another one.
pub fn stop(language: Language) -> &'static str {
    language.pick(". ", "。")
}

/// Turns and tokens.
pub fn tokens(language: Language, turns: u32, input: u64, output: u64) -> String {
    let word = if turns == 1 { "turn" } else { "turns" };
    language.pick(
        format!("{turns} {word} · {input} tokens in, {output} out"),
        format!("{turns} 轮 · 输入 {input}、输出 {output} 个 token"),
    )
}

/// A stage that is over, with the time that it took.
pub fn stage_done(language: Language, stage: &str, took: &str) -> String {
    language.pick(format!("{stage} ({took})"), format!("{stage}（{took}）"))
}

/// Two sentences.
pub fn two(language: Language, first: &str, second: &str) -> String {
    language.pick(format!("{first} {second}"), format!("{first}{second}"))
}

/// Which attempt it is.
pub fn attempt(language: Language, number: usize) -> String {
    language.pick(format!("attempt {number}"), format!("第 {number} 次尝试"))
}

/// Which job it is.
pub fn job(language: Language, id: &str) -> String {
    language.pick(format!("job {id}"), format!("任务 {id}"))
}

/// A model without a name.
pub fn the_model(language: Language) -> &'static str {
    language.pick("the model", "该模型")
}

/// The one reminder of a question that waits. The person is the one who asked for the work, so the
/// mention is meant.
pub fn reminder(language: Language, login: &str, command: &str, by: &str) -> String {
    language.pick(
        format!(
            "@{login}, the work here waits for an answer: see \"Needs you\" above. Without one by {by} it ends, and what \
             there is of it stays on a branch. `{command} stop` ends it now."
        ),
        format!(
            "@{login}，此处的工作在等待回复：请见上方的“需要您”。若到 {by} 仍无回复，工作将结束，已有成果保留在分支上。\
             用 `{command} stop` 可立即结束。"
        ),
    )
}

/// Hosts that commands did not get to, and the line that would allow the last of them.
pub fn blocked(language: Language, hosts: &str, more: usize, allow: &str) -> String {
    let others = match more {
        0 => String::new(),
        more => language.pick(format!(" and {more} more"), format!(" 等另外 {more} 个")),
    };
    language.pick(
        format!("Commands were kept from {hosts}{others}. To allow: {allow}"),
        format!("命令无法访问 {hosts}{others}。如需放行：{allow}"),
    )
}
