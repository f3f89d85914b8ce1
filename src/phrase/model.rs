//! What people should know of how the replies of a model came about: servers that cut, refuse or do
//! not answer. Pure text.
//! Never holds what a model said.

use super::Language;

/// Something that people should know of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelNote {
    /// The server read less than it was sent and said nothing.
    CutSilently {
        /// The model.
        model: String,
        /// Tokens that it read.
        read: u64,
    },
    /// The server takes no tools; they are described in the text.
    ToolsInText {
        /// The model.
        model: String,
    },
    /// Another model answers.
    FellBack {
        /// The one that did not.
        from: String,
        /// Why.
        why: String,
        /// The one that does.
        to: String,
    },
}

/// In a sentence or two.
pub fn note(language: Language, note: &ModelNote) -> String {
    match note {
        ModelNote::CutSilently { model, read } => language.pick(
            format!(
                "The server read only {read} tokens of a far longer conversation: it seems to cut long ones silently, and \
                 the model may have forgotten its task. Give {model} a larger context window (Ollama: num_ctx), or set \
                 model.context_window to what it has."
            ),
            format!(
                "服务器只读取了 {read} 个 token，而对话远比这长：它似乎会悄悄截断长对话，模型可能已忘记任务。请为 {model} \
                 设置更大的上下文窗口（Ollama：num_ctx），或将 model.context_window 设为其实际大小。"
            ),
        ),
        ModelNote::ToolsInText { model } => language.pick(
            format!("The server takes no tools for {model}: from now on they are described to the model in the text."),
            format!("服务器不接受 {model} 的工具调用：此后改为在文本中向模型描述工具。"),
        ),
        ModelNote::FellBack { from, why, to } => language.pick(
            format!("{from} did not answer ({why}); {to} answers for the time being."),
            format!("{from} 没有响应（{why}）；暂由 {to} 代为回复。"),
        ),
    }
}

/// The model wrote no summary of what was said.
pub fn no_summary(language: Language, why: &str) -> String {
    language.pick(
        format!(
            "The model gave no summary of the oldest part of the conversation ({why}); a list of its calls takes its place."
        ),
        format!("模型没有为最早的对话生成摘要（{why}）；改用调用列表代替。"),
    )
}
