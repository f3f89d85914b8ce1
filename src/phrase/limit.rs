//! Limits of one run that are near or reached, for people and for the model. Pure text.
//! Never a limit of money over several runs: those are in `money`.

use super::Language;

fn named(language: Language, of: &str) -> &str {
    let chinese = match of {
        "replies" => "回复次数",
        "tokens" => " token 数",
        "time" => "时间",
        "money" => "费用",
        other => other,
    };
    language.pick(of, chinese)
}

/// So much of so much.
pub fn of(language: Language, used: &str, most: &str) -> String {
    language.pick(format!("{used} of {most}"), format!("{used} / {most}"))
}

/// A limit that is reached.
pub fn reached(language: Language, of: &str, used: &str) -> String {
    let of = named(language, of);
    language.pick(
        format!("the limit of {of} is reached ({used})"),
        format!("已达到{of}上限（{used}）"),
    )
}

/// A limit that comes near.
pub fn near(language: Language, percent: f64, of: &str, used: &str) -> String {
    let verb = if matches!(of, "replies" | "tokens") {
        "are"
    } else {
        "is"
    };
    let of = named(language, of);
    language.pick(
        format!("{percent:.0} % of the {of} {verb} used ({used})"),
        format!("{}已用 {percent:.0}%（{used}）", of.trim_start()),
    )
}
