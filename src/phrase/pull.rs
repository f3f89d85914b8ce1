//! Pull requests: headings, the verification table, where a change comes from. Pure text.
//! Never says that something was tested: it is given what was.

use super::Language;

/// Title of a change whose agent found no words that can stand in one.
pub fn untitled(language: Language) -> &'static str {
    language.pick("Change made by the agent", "代理所做的改动")
}

/// The headings of the sections.
#[derive(Debug, Clone, Copy)]
pub struct Headings {
    /// What was done and why.
    pub summary: &'static str,
    /// The files.
    pub changes: &'static str,
    /// The files that differ from a plain merge.
    pub merge: &'static str,
    /// The checks.
    pub verification: &'static str,
    /// What to look at.
    pub risks: &'static str,
    /// What is left.
    pub not_done: &'static str,
}

/// The headings in a language.
pub fn headings(language: Language) -> Headings {
    language.pick(
        Headings {
            summary: "Summary",
            changes: "Changes",
            merge: "Changed in the merge",
            verification: "Verification",
            risks: "Risks",
            not_done: "Not done",
        },
        Headings {
            summary: "摘要",
            changes: "改动",
            merge: "合并中的改动",
            verification: "验证",
            risks: "风险",
            not_done: "未完成",
        },
    )
}

/// Commands that were still running when the work ended.
pub fn cut_off(language: Language, commands: &[String]) -> String {
    let list: Vec<String> = commands
        .iter()
        .map(|line| format!("`{}`", line.replace('`', "'")))
        .collect();
    language.pick(
        format!(
            "Still running when the agent finished, and ended unfinished: {}",
            list.join(", ")
        ),
        format!("代理结束时仍在运行、被中止而未完成：{}", list.join("、")),
    )
}

/// The line that names the issue: GitHub closes it only from pull requests to the default branch,
/// and only with its own English word.
pub fn issue(language: Language, number: &str, closes: bool) -> String {
    match closes {
        true => format!("Fixes #{number}"),
        false => language.pick(format!("For #{number}"), format!("针对 #{number}")),
    }
}

/// A schedule of the operator asked for it.
pub fn by_schedule(language: Language, schedule: &str, at: &str) -> String {
    language.pick(
        format!("Planned by the schedule {schedule}, for {at}."),
        format!("由计划任务 {schedule} 安排，时间 {at}。"),
    )
}

/// A work graph of the operator asked for it.
pub fn by_milestone(language: Language, milestone: &str, graph: &str) -> String {
    language.pick(
        format!("Milestone {milestone} of the work graph {graph}."),
        format!("工作图 {graph} 的里程碑 {milestone}。"),
    )
}

/// The operator asked for it.
pub fn by_task(language: Language, task: &str) -> String {
    language.pick(
        format!("Planned by the operator: {task}."),
        format!("由运维人员安排：{task}。"),
    )
}

/// Nothing is left to do.
pub fn nothing_left(language: Language) -> &'static str {
    language.pick("Nothing that the agent knows of.", "据代理所知没有。")
}

/// Nothing to look at.
pub fn no_risks(language: Language) -> &'static str {
    language.pick("None that the agent or the program noticed.", "代理和程序均未发现。")
}

/// What stands under a heading of the repository's template that nobody filled.
pub fn not_filled(language: Language) -> &'static str {
    language.pick("*Not filled in.*", "*未填写。*")
}

/// What became of a file, from git's letter.
pub fn file(language: Language, status: char, path: &str, size: &str) -> String {
    let (english, chinese) = match status {
        'A' => ("added", "新增"),
        'D' => ("deleted", "删除"),
        _ => ("changed", "修改"),
    };
    language.pick(
        format!("- {path} {english} ({size})"),
        format!("- {path} {chinese}（{size}）"),
    )
}

/// The size of a file that has no lines.
pub fn binary(language: Language) -> &'static str {
    language.pick("binary", "二进制")
}

/// Files that are not named.
pub fn more_files(language: Language, more: usize) -> String {
    let files = if more == 1 { "file" } else { "files" };
    language.pick(
        format!("- and {more} more {files}"),
        format!("- 以及另外 {more} 个文件"),
    )
}

/// Remarks that are not shown.
pub fn more_remarks(language: Language, more: usize) -> String {
    let remarks = if more == 1 { "remark" } else { "remarks" };
    language.pick(
        format!("and {more} more {remarks} like these"),
        format!("以及另外 {more} 条类似说明"),
    )
}

/// No command verifies the repository.
pub fn no_checks(language: Language) -> &'static str {
    language.pick(
        "No check was found in the repository, so nothing was verified. Set `test` in `.github/forgehand.toml`.",
        "仓库中没有找到检查命令，因此未作验证。请在 `.github/forgehand.toml` 中设置 `test`。",
    )
}

/// The head of the table of commands.
pub fn table(language: Language) -> &'static str {
    language.pick(
        "| command | before | after |\n|---|---|---|\n",
        "| 命令 | 改动前 | 改动后 |\n|---|---|---|\n",
    )
}

/// What the table shows.
pub fn about_table(language: Language) -> &'static str {
    language.pick(
        "Exit codes as the program saw them: before on the base commit, after on a fresh checkout of this change.",
        "退出码由程序实测：改动前为基准提交，改动后为本改动的全新检出。",
    )
}

/// A command that did not run.
pub fn not_run(language: Language) -> &'static str {
    language.pick("not run", "未运行")
}

/// A command that ended with a code.
pub fn exit(language: Language, code: i32, took: &str) -> String {
    let mark = if code == 0 { "✅" } else { "❌" };
    language.pick(
        format!("{mark} exit {code} ({took})"),
        format!("{mark} 退出码 {code}（{took}）"),
    )
}

/// A command without a code.
pub fn no_exit_code(language: Language) -> &'static str {
    language.pick("no exit code", "无退出码")
}

/// A check that the change repairs.
pub fn repaired(language: Language, command: &str) -> String {
    language.pick(
        format!("{command} failed before this change and passes with it."),
        format!("{command} 在改动前失败，改动后通过。"),
    )
}

/// A model that has no name.
pub fn unnamed_model(language: Language) -> &'static str {
    language.pick("an unnamed model", "未命名的模型")
}

/// What the footer tells.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The App.
    pub app: &'a str,
    /// The model.
    pub model: &'a str,
    /// Who asked.
    pub asker: &'a str,
    /// Turns, tokens and money.
    pub spent: &'a str,
    /// From the request to now.
    pub took: &'a str,
    /// The commit it stands on.
    pub base: &'a str,
    /// The job.
    pub job: &'a str,
}

/// Who wrote the change, for whom, and what it cost.
pub fn origin(language: Language, of: &Origin<'_>) -> String {
    let Origin {
        app,
        model,
        asker,
        spent,
        took,
        base,
        job,
    } = of;
    language.pick(
        format!("Written by an AI agent: {app} with {model}, for {asker} · {spent} · {took} · base {base} · job {job}"),
        format!("由 AI 代理编写：{app}，模型 {model}，应 {asker} 要求 · {spent} · {took} · 基准 {base} · 任务 {job}"),
    )
}

/// Turns and tokens.
pub fn tokens(language: Language, turns: u32, input: u64, output: u64) -> String {
    let word = if turns == 1 { "turn" } else { "turns" };
    language.pick(
        format!("{turns} {word}, {input} tokens in, {output} out"),
        format!("{turns} 轮，输入 {input}、输出 {output} 个 token"),
    )
}

/// The text of the issue changed while the work went on.
pub fn edited(language: Language, number: &str, asked_at: &str) -> String {
    language.pick(
        format!(
            "The title or description of #{number} was edited while this was worked on. The change answers the text of \
             {asked_at}."
        ),
        format!("处理期间 #{number} 的标题或描述被编辑过。本改动针对 {asked_at} 时的内容。"),
    )
}
