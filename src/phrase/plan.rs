//! A plan that waits for approval, and one that nobody could be asked about.
//! Never says that silence is consent.

use super::Language;

/// The headline of a plan that waits.
pub fn needs_approval(language: Language) -> &'static str {
    language.pick("### 🙋 Needs you: a plan to approve", "### 🙋 需要您：请批准计划")
}

/// Titles of the parts of a plan: steps, files, tests, risks.
pub fn parts(language: Language) -> [&'static str; 4] {
    language.pick(
        ["Steps", "Files", "Tests", "Risks and open points"],
        ["步骤", "文件", "测试", "风险与未定事项"],
    )
}

/// How to answer.
pub fn how(language: Language, command: &str) -> String {
    language.pick(
        format!(
            "Go on with `{command} approve`, with remarks if you like. To change it, write `{command} revise` and what shall be \
             different."
        ),
        format!("用 `{command} approve` 批准（可附意见）；用 `{command} revise` 加上意见要求修改。"),
    )
}

/// What follows a plan where nobody is waited for.
pub fn begin_it(language: Language, command: &str) -> String {
    language.pick(
        format!("Nothing was changed. `{command} fix` starts the work."),
        format!("未改动任何内容。用 `{command} fix` 开始工作。"),
    )
}
