//! A review of a pull request.
//! Never praises, and never approves.

use super::Language;

/// The verdict as a headline.
pub fn verdict(language: Language, verdict: &str) -> &'static str {
    match verdict {
        "pass" => language.pick("### Nothing has to change", "### 没有必须修改之处"),
        "rebuild" => language.pick("### Better to start over", "### 建议重新实现"),
        _ => language.pick("### This needs a fix", "### 需要修改"),
    }
}

/// How bad a finding is.
pub fn severity(language: Language, severity: &str) -> &'static str {
    match severity {
        "critical" => language.pick("Critical", "严重"),
        "major" => language.pick("Major", "重要"),
        _ => language.pick("Minor", "轻微"),
    }
}

/// Before findings on lines that the change does not touch.
pub fn outside(language: Language) -> &'static str {
    language.pick("Outside the changed lines", "改动范围之外")
}

/// Findings that stand in an earlier review.
pub fn said_before(language: Language, findings: usize) -> String {
    language.pick(
        match findings {
            1 => "One more finding stands in an earlier review and is not repeated.".to_owned(),
            many => format!("{many} more findings stand in an earlier review and are not repeated."),
        },
        format!("另有 {findings} 条已在之前的审查中提出，不再重复。"),
    )
}

/// Before the ratings.
pub fn drift(language: Language) -> &'static str {
    language.pick("Drift", "偏离程度")
}

/// The pull request got other commits while it was read.
pub fn head_moved(language: Language, read: &str, now: &str) -> String {
    language.pick(
        format!(
            "the branch moved from {read} to {now} while it was reviewed (head_moved), so nothing was posted; ask again"
        ),
        format!("审查期间分支从 {read} 移动到了 {now}（head_moved），因此没有发表任何内容；请重新请求"),
    )
}
