//! Answers to commands that steer work: instructions on the way, and work that is begun again.
//! Never promises what the run may not do.

use super::Language;

/// An instruction that the job at work has.
pub fn passed_on(language: Language) -> &'static str {
    language.pick(
        "Passed on to the work that is going on here; it will be taken into account with the next step.",
        "已转达给正在进行的工作，将在下一步中考虑。",
    )
}

/// Nothing was done here yet that could be repeated.
pub fn nothing_to_retry(language: Language) -> &'static str {
    language.pick(
        "Nothing was done here yet that could be repeated.",
        "此处还没有可以重试的工作。",
    )
}

/// The work is not over.
pub fn still_going_on(language: Language) -> &'static str {
    language.pick(
        "The work here is not over yet, so nothing was begun again.",
        "此处的工作尚未结束，因此没有重新开始。",
    )
}

/// The work went well, so a repeat would do it twice.
pub fn went_well(language: Language, command: &str) -> String {
    language.pick(
        format!("The last work here went well, so there is nothing to repeat. `{command} fix` begins another."),
        format!("此处最近一次工作已顺利完成，无需重试。用 `{command} fix` 开始新的工作。"),
    )
}

/// There is no stored work that waits to be published.
pub fn nothing_to_publish(language: Language, command: &str) -> String {
    language.pick(
        format!(
            "No finished work of the last job here waits to be published. `{command} retry` runs the whole job again."
        ),
        format!("最近一次工作没有等待发布的成果。用 `{command} retry` 重新运行整个工作。"),
    )
}
