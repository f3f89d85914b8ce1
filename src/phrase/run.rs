//! Notes of a run that people read in the status comment: what happened on the way. Pure text.
//! Never a verdict.

use super::Language;

/// The checks failed and the agent goes on.
pub fn checks_failed(language: Language) -> &'static str {
    language.pick(
        "The checks of the change failed; the agent is shown the result.",
        "改动未通过检查；结果已交给代理。",
    )
}

/// The change is not allowed and the agent goes on.
pub fn breaks_rules(language: Language, broken: &str) -> String {
    language.pick(
        format!("The change breaks rules and goes back to the agent: {broken}"),
        format!("改动违反规则，退回给代理：{broken}"),
    )
}

/// The request hides something from whoever reads it on the page.
pub fn hidden_text(language: Language) -> &'static str {
    language.pick(
        "The request holds text that its web page does not show; the model sees it marked as hidden.",
        "请求中含有网页上不显示的文字；模型会看到它被标为隐藏内容。",
    )
}

/// An approval that could not be kept for later runs.
pub fn this_run_only(language: Language, why: &str) -> String {
    language.pick(
        format!("The approval counts for this run only: {why}."),
        format!("此批准仅对本次运行有效：{why}。"),
    )
}

/// An earlier attempt is of no use.
pub fn begins_anew(language: Language) -> &'static str {
    language.pick(
        "An earlier attempt's work is not on this machine or does not fit any more; this one starts anew, with what is left of the limits.",
        "先前尝试的成果不在此机器上或已不适用；本次在剩余限额内重新开始。",
    )
}

/// The database is older than what GitHub shows.
pub fn ended_before(language: Language) -> &'static str {
    language.pick(
        "This ended already: its last words stand on GitHub. The database was put back from a backup that is older than they are.",
        "此任务早已结束：GitHub 上有它的最终说明。数据库是从更早的备份恢复的。",
    )
}

/// Keys of the repository's file that do nothing.
pub fn no_effect(language: Language, file: &str, keys: &str) -> String {
    language.pick(
        format!("`{file}`: without effect in this version: {keys}."),
        format!("`{file}`：{keys} 在此版本中不起作用。"),
    )
}

/// Of a dev container's file, the image is used.
pub fn image_alone(language: Language, file: &str, keys: &str) -> String {
    language.pick(
        format!("`{file}`: its image alone is used; without effect: {keys}."),
        format!("`{file}`：仅使用其中的镜像；以下各项不起作用：{keys}。"),
    )
}

/// Several dev containers, and nobody said which.
pub fn several_dev_containers(language: Language, names: &str, choice: &str) -> String {
    language.pick(
        format!(
            "There are several dev containers ({names}) and none is chosen, so that the image of none is used. \
             `{choice}` in `.github/forgehand.toml` chooses one."
        ),
        format!(
            "存在多个开发容器（{names}）且未指定其一，因此不使用其中任何镜像。在 `.github/forgehand.toml` 中写入 \
             `{choice}` 即可指定。"
        ),
    )
}

/// The chosen dev container is not there.
pub fn no_dev_container(language: Language, path: &str) -> String {
    language.pick(
        format!("`devcontainer` in `.github/forgehand.toml` chooses a dev container that is not there: `{path}`."),
        format!("`.github/forgehand.toml` 中的 `devcontainer` 所指定的开发容器不存在：`{path}`。"),
    )
}

/// The repository's file cannot be read.
pub fn nothing_used(language: Language, problem: &str) -> String {
    language.pick(
        format!("{problem}. Nothing of that file is used."),
        format!("{problem}。该文件的内容均未使用。"),
    )
}

/// A command that formats the change failed.
pub fn format_failed(language: Language, command: &str, how: &str) -> String {
    language.pick(
        format!("The format command {command} failed ({how}); what it changed until then is part of the change."),
        format!("格式化命令 {command} 失败（{how}）；此前它所做的修改已计入改动。"),
    )
}

/// More skills than are offered.
pub fn many_skills(language: Language, found: usize, most: usize) -> String {
    language.pick(
        format!("The repository has {found} skills; the first {most} are offered."),
        format!("仓库有 {found} 个技能；只提供前 {most} 个。"),
    )
}

/// A path that leads somewhere else.
pub fn no_file(language: Language) -> &'static str {
    language.pick("it is no file of the repository", "它不是仓库中的文件")
}

/// A file for agents that is left out.
pub fn not_used(language: Language, path: &str, problem: &str) -> String {
    language.pick(
        format!("{path} is not used: {problem}"),
        format!("未使用 {path}：{problem}"),
    )
}
