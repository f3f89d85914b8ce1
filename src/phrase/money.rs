//! What people read of money: caps that are near or reached, what a comment may set, what the work
//! cost so far. Called by `ledger`, by the status comment and by the command that sets a cap.
//! Never rounds a cap away: sums are shown as `Usd` shows them.

use super::Language;
use crate::money::{Cap, Usd};

/// A cap with the sum that counts against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Whose cap.
    pub cap: Cap,
    /// The most that may be spent.
    pub most: Usd,
    /// What was spent, or is set aside for calls that are under way elsewhere.
    pub sum: Usd,
}

/// What can be done about a cap from a comment.
#[derive(Debug, Clone, Copy)]
pub struct Help<'a> {
    /// The word that commands begin with.
    pub command: &'a str,
    /// The largest cap that a comment may set; nothing: it may set none.
    pub most: Usd,
}

/// Whose cap, with its sum.
fn named(language: Language, cap: Cap, most: Usd) -> String {
    let (english, chinese) = match cap {
        Cap::Job => ("for one job", "单个任务"),
        Cap::Issue => ("for this issue", "此议题"),
        Cap::Pull => ("for this pull request", "此拉取请求"),
        Cap::RepositoryDay => ("a day for this repository", "此仓库每天"),
        Cap::InstallationDay => ("a day for this installation", "此安装每天"),
        Cap::ServiceDay => ("a day for the whole service", "整个服务每天"),
    };
    language.pick(
        format!("the cap of {most} {english}"),
        format!("{chinese}的费用上限 {most}"),
    )
}

/// A cap comes near.
pub fn near(language: Language, used: &Used) -> String {
    let named = named(language, used.cap, used.most);
    let percent = (used.sum.share_of(used.most) * 100.0).floor();
    language.pick(
        format!("{percent:.0} % of {named} is used ({}).", used.sum),
        format!("{named} 已用去 {percent:.0}%（{}）。", used.sum),
    )
}

/// A cap is reached: which, and what to do.
pub fn reached(language: Language, used: &Used, help: &Help<'_>) -> String {
    let named = named(language, used.cap, used.most);
    let what = language.pick(
        format!("{named} is reached ({} used)", used.sum),
        format!("已达到{named}（已用 {}）", used.sum),
    );
    let how = match used.cap {
        Cap::Job | Cap::Issue | Cap::Pull => raise(language, used, help),
        Cap::RepositoryDay | Cap::InstallationDay | Cap::ServiceDay => language
            .pick(
                "it begins anew at 00:00 UTC; until then, only the operator of this service can raise it",
                "该上限在 UTC 00:00 重新计算；在此之前只有本服务的运营者可以提高",
            )
            .to_owned(),
    };
    language.pick(format!("{what}; {how}"), format!("{what}；{how}"))
}

fn raise(language: Language, used: &Used, help: &Help<'_>) -> String {
    if help.most <= used.most || help.most <= used.sum {
        return language
            .pick(
                "only the operator of this service can raise it",
                "只有本服务的运营者可以提高",
            )
            .to_owned();
    }
    let Help { command, most } = help;
    language.pick(
        format!("a comment with `{command} budget $N` raises it (up to {most}), and the work can be asked for again"),
        format!("用评论 `{command} budget $N` 可以提高（最多 {most}），然后可以重新发起任务"),
    )
}

/// Money is not counted.
pub fn unpriced(language: Language, model: &str) -> String {
    language.pick(
        format!(
            "The price of {model} is unknown, so its money is not counted and no cap of money can stop it. Tokens, \
             replies and time are limited. The operator sets `model.prices`."
        ),
        format!("{model} 的价格未知，因此费用没有计入，费用上限也无法让它停止；token 数、回复数和时间仍受限制。请运营者设置 `model.prices`。"),
    )
}

/// Money is not counted in a run without caps of its own.
pub fn not_counted(language: Language, model: &str) -> String {
    language.pick(
        format!(
            "The price of {model} is not configured, so money is not counted; tokens, replies and time are limited."
        ),
        format!("没有配置 {model} 的价格，因此不计费用；token 数、回复数和时间仍受限制。"),
    )
}

/// What some work cost, as far as its price is known.
pub fn cost(language: Language, known: Usd, some_unknown: bool) -> String {
    match (some_unknown, known > Usd::ZERO) {
        (false, _) => known.to_string(),
        (true, false) => language.pick("price unknown", "价格未知").to_owned(),
        (true, true) => language.pick(
            format!("{known} and calls of unknown price"),
            format!("{known}，另有价格未知的调用"),
        ),
    }
}

/// How much of the cap of an issue or pull request is used.
pub fn used_of(language: Language, used: &Used) -> String {
    let Used { cap, most, sum } = used;
    let is_pull = *cap == Cap::Pull;
    language.pick(
        format!(
            "{sum} of {most} for this {}",
            if is_pull { "pull request" } else { "issue" }
        ),
        format!("{}共 {sum} / {most}", if is_pull { "此拉取请求" } else { "此议题" }),
    )
}

/// The answer to a command that set a cap: what it was, what it is, what is spent.
pub fn set(language: Language, now: &Used, before: Option<Usd>) -> String {
    let named = match now.cap {
        Cap::Pull => language.pick("this pull request", "此拉取请求"),
        _ => language.pick("this issue", "此议题"),
    };
    let before = match before {
        Some(before) => language.pick(format!("it was {before}"), format!("之前是 {before}")),
        None => language.pick("there was none", "之前没有上限").to_owned(),
    };
    let rest = if now.sum >= now.most {
        language.pick(
            " That is reached already: no further call of the model is made.",
            "该上限已经达到：不会再调用模型。",
        )
    } else {
        ""
    };
    language.pick(
        format!(
            "The work on {named} may cost {} in all now; {before}. Spent so far: {}.{rest}",
            now.most, now.sum
        ),
        format!(
            "现在{named}的全部工作最多可花费 {}；{before}。目前已花费：{}。{rest}",
            now.most, now.sum
        ),
    )
}

/// The answer to a command that wanted too much.
pub fn too_much(language: Language, asked: Usd, most: Usd) -> String {
    if most <= Usd::ZERO {
        return language
            .pick(
                "Comments may not set caps on this service; its operator does. Nothing was changed.",
                "本服务不允许通过评论设置费用上限；请联系运营者。没有作任何更改。",
            )
            .to_owned();
    }
    language.pick(
        format!(
            "{asked} is more than a comment may set here: the limit is {most}. Nothing was changed; the operator of this \
             service can set more."
        ),
        format!("{asked} 超过了评论可以设置的上限 {most}。没有作任何更改；本服务的运营者可以设置更高的金额。"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: Help<'static> = Help {
        command: "/agent",
        most: Usd::ZERO,
    };

    fn used(cap: Cap, most: u64, sum: u64) -> Used {
        Used {
            cap,
            most: Usd::from_cents(most),
            sum: Usd::from_cents(sum),
        }
    }

    #[test]
    fn a_cap_is_named_with_its_sums_in_each_language() {
        let issue = used(Cap::Issue, 2_000, 1_799);
        assert_eq!(
            near(Language::English, &issue),
            "89 % of the cap of $20.00 for this issue is used ($17.99)."
        );
        assert!(near(Language::Chinese, &issue).contains("此议题的费用上限 $20.00"));
        assert_eq!(used_of(Language::English, &issue), "$17.99 of $20.00 for this issue");
    }

    #[test]
    fn what_to_do_depends_on_the_cap_and_on_what_a_comment_may() {
        let of = |used: &Used, cents| {
            let help = Help {
                most: Usd::from_cents(cents),
                ..HELP
            };
            reached(Language::English, used, &help)
        };
        let job = used(Cap::Job, 500, 503);
        assert_eq!(
            of(&job, 5_000),
            "the cap of $5.00 for one job is reached ($5.03 used); a comment with `/agent budget $N` raises it (up to \
             $50.00), and the work can be asked for again"
        );
        for cents in [0, 300, 500, 503] {
            assert!(of(&job, cents).ends_with("only the operator of this service can raise it"));
        }
        assert!(of(&used(Cap::RepositoryDay, 1, 2), 5_000).contains("begins anew at 00:00 UTC"));
    }

    #[test]
    fn an_unknown_price_is_never_shown_as_a_sum() {
        let say = |cents, unknown| cost(Language::English, Usd::from_cents(cents), unknown);
        assert_eq!(say(0, true), "price unknown");
        assert_eq!(say(5, true), "$0.05 and calls of unknown price");
        assert_eq!(say(5, false), "$0.05");
    }

    #[test]
    fn a_cap_that_is_set_says_what_was_before() {
        let now = used(Cap::Pull, 1_000, 250);
        assert_eq!(
            set(Language::English, &now, Some(Usd::from_cents(500))),
            "The work on this pull request may cost $10.00 in all now; it was $5.00. Spent so far: $2.50."
        );
        let reached = set(Language::English, &used(Cap::Issue, 100, 250), None);
        assert!(reached.contains("there was none") && reached.contains("reached already"));
        assert!(too_much(Language::English, Usd::from_cents(99), Usd::ZERO).contains("operator"));
    }
}
