//! Why a run that does not get on was ended or told to get on, for people; the model is told in
//! words of its own by `agent`. Reasons begin small and end without a stop. Pure text.
//! Never says that the model is to blame for what a server does.

use super::Language;
use crate::text;

/// Why a run that does not get on ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// The same call, and it failed each time.
    FailingCall {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// The same call in a row.
    SameCall {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// The same few calls in turn.
    Rounds {
        /// The tools, in order.
        tools: Vec<String>,
        /// How many rounds.
        times: usize,
    },
    /// Only calls that cannot be run.
    WrongCalls {
        /// Turns in a row.
        turns: u32,
    },
    /// Edits of one file that do not work.
    FailedEdits {
        /// The file.
        path: String,
        /// How often in a row.
        times: u32,
    },
    /// Nothing was done but looking.
    OnlyLooked {
        /// Turns in a row.
        turns: u32,
    },
    /// No call of a tool at all.
    NoCalls {
        /// Replies in a row.
        replies: u32,
    },
    /// The conversation does not fit, not even shortened.
    TooLong {
        /// What the server says.
        said: String,
    },
}

/// Longest name of a tool or file that is shown, in characters.
const MAX_NAME_CHARS: usize = 160;

fn code(name: &str) -> String {
    text::code_span(&text::cap_chars(name, MAX_NAME_CHARS))
}

/// The reason.
pub fn why(language: Language, stuck: &Stuck) -> String {
    match stuck {
        Stuck::FailingCall { tool, times } => language.pick(
            format!(
                "the model made the same call of {} {times} times, and it failed each time",
                code(tool)
            ),
            format!("模型以相同方式调用 {} 共 {times} 次，每次都失败", code(tool)),
        ),
        Stuck::SameCall { tool, times } => language.pick(
            format!("the model made the same call of {} {times} times in a row", code(tool)),
            format!("模型连续 {times} 次以相同方式调用 {}", code(tool)),
        ),
        Stuck::Rounds { tools, times } => {
            let named: Vec<String> = tools.iter().map(|tool| code(tool)).collect();
            language.pick(
                format!(
                    "the model made the same calls of {} in turn, {times} times over",
                    named.join(" and ")
                ),
                format!("模型轮流重复相同的调用（{}），共 {times} 轮", named.join("、")),
            )
        }
        Stuck::WrongCalls { turns } => language.pick(
            format!("the model made only calls that cannot be run, {turns} times in a row"),
            format!("模型连续 {turns} 次只作出无法执行的调用"),
        ),
        Stuck::FailedEdits { path, times } => language.pick(
            format!("{times} edits of {} failed one after another", code(path)),
            format!("对 {} 的修改连续失败 {times} 次", code(path)),
        ),
        Stuck::OnlyLooked { turns } => language.pick(
            format!("the model only looked around for {turns} turns, without an edit or a run"),
            format!("模型连续 {turns} 轮只是查看，没有修改或运行任何内容"),
        ),
        Stuck::NoCalls { replies } => language.pick(
            format!(
                "the model answered {replies} times in a row without calling a tool; if it never does, the server or a \
                 proxy before it may not support tool calls"
            ),
            format!("模型连续 {replies} 次回复都没有调用工具；若始终如此，服务器或其代理可能不支持工具调用"),
        ),
        Stuck::TooLong { said } => language.pick(
            format!("the conversation does not fit the model's context window: {said}"),
            format!("对话超出模型的上下文窗口：{said}"),
        ),
    }
}

/// A note that the model was told to get on; `ends_after` turns the run ends.
pub fn idle(language: Language, turns: u32, ends_after: u32) -> String {
    language.pick(
        format!(
            "The agent looked around for {turns} turns without an edit or a run, and was told to get on. After \
             {ends_after} the run ends."
        ),
        format!(
            "代理已连续 {turns} 轮只是查看，没有修改或运行任何内容；已提醒它推进。满 {ends_after} 轮时运行将结束。"
        ),
    )
}

/// What the plan of a run that ended leaves open; `more` steps are not named.
pub fn open_steps(language: Language, why: &str, steps: &[&str], more: usize) -> String {
    let named = steps.join(language.pick("; ", "；"));
    let rest = match more {
        0 => String::new(),
        1 => language.pick("; and 1 more step", "；以及另外 1 步").to_owned(),
        more => language.pick(format!("; and {more} more steps"), format!("；以及另外 {more} 步")),
    };
    language.pick(
        format!("{why}; of its plan is left: {named}{rest}"),
        format!("{why}；计划中尚未完成：{named}{rest}"),
    )
}
