//! The repository's pull request template, filled: what we say stands under its own headings where
//! they ask for it, the rest follows below. Boxes of checklists stay empty, whatever the template
//! has: nobody checked them. Pure.
//! Never keeps an instruction to authors, and never posts a template's text unsanitised.

use std::sync::LazyLock;

use regex::Regex;

use crate::text;

/// Most characters of a template that are used.
const MAX_TEMPLATE_CHARS: usize = 6_000;
/// Most characters of one heading.
const MAX_HEADING_CHARS: usize = 120;

/// What a part of the body tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The line that names the issue.
    Issue,
    /// What was done and why.
    Summary,
    /// The files.
    Changes,
    /// The checks.
    Verification,
    /// What to look at.
    Risks,
    /// What is left.
    NotDone,
}

/// One part of the body.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// What it tells.
    pub(super) kind: Kind,
    /// Its heading, where the template has none; a part without one stands at the top.
    pub(super) heading: &'static str,
    /// Its text; safe already.
    pub(super) content: String,
}

/// A heading of a template, whose words are its first group: `# x`, `**x**` alone in a line.
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^ {0,3}(?:(#{1,6})[ \t]+(.*?)[ \t]*#*|(?:\*\*|__)([^*_]+)(?:\*\*|__):?)[ \t]*$")
        .expect("the pattern is valid")
});

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)<!--.*?(?:-->|\z)").expect("the pattern is valid"));

static FENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^ {0,3}(`{3,}|~{3,})").expect("the pattern is valid"));

static BOX: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\s*(?:[-*+]|\d{1,9}[.)])\s+)\[[^\]]?\](\s.*)$").expect("the pattern is valid"));

/// A line that waits for the number of an issue.
static ISSUE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^[\s>*_-]*(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b[:*_ ]*(?:\(?(?:#|<|\[|issue|gh-)\S*.{0,30})?$",
    )
    .expect("the pattern is valid")
});

/// What headings ask for, by their words; what stands first counts.
const ASKS: [(Kind, &[&str]); 6] = [
    (
        Kind::NotDone,
        &[
            "not done",
            "todo",
            "to do",
            "follow",
            "out of scope",
            "limitation",
            "open point",
            "未完成",
            "后续",
        ],
    ),
    (
        Kind::Risks,
        &[
            "risk",
            "impact",
            "breaking",
            "side effect",
            "rollback",
            "concern",
            "风险",
            "影响",
        ],
    ),
    (
        Kind::Verification,
        &["test", "verif", "validat", "how to check", "qa", "测试", "验证"],
    ),
    (
        Kind::Issue,
        &[
            "issue", "ticket", "fixes", "closes", "resolves", "related", "linked", "议题", "关联",
        ],
    ),
    (
        Kind::Summary,
        &[
            "summary",
            "description",
            "overview",
            "what does",
            "what is",
            "why",
            "purpose",
            "motivation",
            "context",
            "about",
            "摘要",
            "描述",
            "概述",
            "说明",
            "背景",
        ],
    ),
    (Kind::Changes, &["change", "what", "files", "改动", "变更", "修改"]),
];

/// What stands under one heading.
struct Block {
    /// Marks of the heading; nothing above the first one.
    level: usize,
    heading: String,
    lines: Vec<String>,
}

/// The template with the parts in it. `safe` is applied to all of its own text; `empty` stands where
/// a heading asks for something that nobody knows.
pub(super) fn fill(template: &str, parts: &[Part], empty: &str, safe: &dyn Fn(&str) -> String) -> String {
    let template = text::cap_chars(template, MAX_TEMPLATE_CHARS);
    let blocks = blocks(&without_comments(&template));
    let mut left: Vec<&Part> = parts.iter().collect();
    let has_heading = blocks.iter().any(|block| block.level > 0);
    let mut filled = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let kind = asked_for(&block.heading).filter(|_| block.level > 0);
        let part = kind.and_then(|kind| take(&mut left, kind));
        let own = own_text(block, part.is_some(), safe);
        if block.level == 0 {
            push(&mut filled, &own);
            continue;
        }
        let heading = safe(&text::cap_chars(&block.heading, MAX_HEADING_CHARS)).replace('\n', " ");
        push(&mut filled, &format!("{} {heading}", "#".repeat(block.level)));
        let mut is_empty = own.is_empty();
        if let Some(part) = part {
            push(&mut filled, part.content.trim());
            is_empty = false;
        }
        push(&mut filled, &own);
        let has_parts = blocks.get(at + 1).is_some_and(|next| next.level > block.level);
        if is_empty && !has_parts {
            push(&mut filled, empty);
        }
    }
    let mut body = String::new();
    if let Some(issue) = take(&mut left, Kind::Issue) {
        push(&mut body, issue.content.trim());
    }
    if has_heading {
        push(&mut body, &filled);
    }
    for part in left {
        push(&mut body, &format!("## {}\n\n{}", part.heading, part.content.trim()));
    }
    if !has_heading {
        // A text without headings asks for nothing: it stands below what we have to say.
        push(&mut body, &filled);
    }
    body.push('\n');
    body
}

/// The body without any template.
pub(super) fn plain(parts: &[Part]) -> String {
    fill("", parts, "", &str::to_owned)
}

fn push(body: &mut String, text: &str) {
    let text = text.trim_matches('\n');
    if text.trim().is_empty() {
        return;
    }
    if !body.is_empty() {
        body.push_str("\n\n");
    }
    body.push_str(text);
}

fn take<'a>(left: &mut Vec<&'a Part>, kind: Kind) -> Option<&'a Part> {
    let at = left.iter().position(|part| part.kind == kind)?;
    Some(left.remove(at))
}

/// Instructions to authors go; one that is not closed hides the rest, as on GitHub.
fn without_comments(template: &str) -> String {
    COMMENT.replace_all(template, "").into_owned()
}

fn blocks(template: &str) -> Vec<Block> {
    let mut blocks = vec![Block {
        level: 0,
        heading: String::new(),
        lines: Vec::new(),
    }];
    let mut fence: Option<String> = None;
    for line in template.lines() {
        let mark = FENCE.captures(line).map(|found| found[1].to_owned());
        match (&fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if mark.starts_with(open.as_str()) => fence = None,
            _ => {}
        }
        let heading = HEADING.captures(line).filter(|_| fence.is_none());
        if let Some(found) = heading {
            let level = found.get(1).map_or(4, |marks| marks.as_str().len());
            let words = found.get(2).or(found.get(3)).map_or("", |words| words.as_str());
            blocks.push(Block {
                level,
                heading: words.trim().to_owned(),
                lines: Vec::new(),
            });
        } else if let Some(block) = blocks.last_mut() {
            block.lines.push(line.to_owned());
        }
    }
    blocks
}

/// What a heading asks for.
fn asked_for(heading: &str) -> Option<Kind> {
    let lower = heading.to_lowercase();
    if lower.contains("checklist") || lower.contains("清单") {
        return None;
    }
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let has = |word: &&str| match word.is_ascii() && !word.contains(' ') {
        true => words.iter().any(|other| other.starts_with(word)),
        false => lower.contains(word),
    };
    ASKS.iter()
        .find(|(_, asked)| asked.iter().any(&has))
        .map(|(kind, _)| *kind)
}

/// The template's own text of a block. Where we have something to say, only its checklists stay: the
/// rest is what authors are to replace.
fn own_text(block: &Block, is_filled: bool, safe: &dyn Fn(&str) -> String) -> String {
    let mut kept = Vec::new();
    let mut is_code = false;
    for line in &block.lines {
        let is_fence = FENCE.is_match(line);
        is_code ^= is_fence;
        if is_code || is_fence {
            if !is_filled {
                kept.push(line.clone());
            }
            continue;
        }
        match BOX.captures(line) {
            Some(found) => kept.push(format!("{}[ ]{}", &found[1], &found[2])),
            None if is_filled || ISSUE_LINE.is_match(line) && !line.trim().is_empty() => {}
            None => kept.push(line.clone()),
        }
    }
    safe(kept.join("\n").trim()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        [
            (Kind::Issue, "", "Fixes #7"),
            (Kind::Summary, "Summary", "It counts."),
            (Kind::Changes, "Changes", "- `a.rs`"),
            (Kind::Verification, "Verification", "| t |"),
            (Kind::Risks, "Risks", "None."),
            (Kind::NotDone, "Not done", "Nothing."),
        ]
        .into_iter()
        .map(|(kind, heading, content)| Part {
            kind,
            heading,
            content: content.to_owned(),
        })
        .collect()
    }

    fn filled(template: &str) -> String {
        let safe = |text: &str| text::neutralise_markdown(text, "/agent");
        fill(template, &parts(), "*Not filled in.*", &safe)
    }

    #[test]
    fn without_a_template_the_sections_follow_each_other() {
        assert_eq!(
            plain(&parts()),
            "Fixes #7\n\n## Summary\n\nIt counts.\n\n## Changes\n\n- `a.rs`\n\n## Verification\n\n| t |\n\n\
             ## Risks\n\nNone.\n\n## Not done\n\nNothing.\n"
        );
    }

    #[test]
    fn sections_stand_under_the_templates_headings() {
        let body = filled(
            "<!-- Thanks!\nRead CONTRIBUTING. -->\n## Description\n\nPlease describe.\n\nFixes # (issue)\n\n\
             ## How has this been tested?\n\n- [x] Test A\n\n# Checklist:\n\n- [X] I ran it\n* [ ] Docs\n\n## Screenshots\n<!-- here -->\n",
        );
        assert_eq!(
            body,
            "Fixes #7\n\n## Description\n\nIt counts.\n\n## How has this been tested?\n\n| t |\n\n- [ ] Test A\n\n\
             # Checklist:\n\n- [ ] I ran it\n* [ ] Docs\n\n## Screenshots\n\n*Not filled in.*\n\n\
             ## Changes\n\n- `a.rs`\n\n## Risks\n\nNone.\n\n## Not done\n\nNothing.\n"
        );
    }

    #[test]
    fn the_issue_stands_where_it_is_asked_for() {
        let body = filled("### Related issue\nCloses #\n\n**What changed**\n\n...\n");
        assert!(
            body.starts_with("### Related issue\n\nFixes #7\n\n#### What changed\n\n- `a.rs`\n\n## Summary"),
            "{body}"
        );
    }

    #[test]
    fn headings_ask_for_what_their_words_say() {
        let table = [
            ("Description", Some(Kind::Summary)),
            ("📝 Summary", Some(Kind::Summary)),
            ("What does this PR do?", Some(Kind::Summary)),
            ("Proposed changes", Some(Kind::Changes)),
            ("What changed", Some(Kind::Changes)),
            ("How Has This Been Tested?", Some(Kind::Verification)),
            ("Test plan", Some(Kind::Verification)),
            ("Breaking changes", Some(Kind::Risks)),
            ("Risks and rollback", Some(Kind::Risks)),
            ("Linked issues", Some(Kind::Issue)),
            ("Out of scope", Some(Kind::NotDone)),
            ("Checklist", None),
            ("Test checklist", None),
            ("Screenshots", None),
            ("Latest news", None),
            ("测试", Some(Kind::Verification)),
        ];
        for (heading, kind) in table {
            assert_eq!(asked_for(heading), kind, "{heading}");
        }
    }

    #[test]
    fn hostile_templates_do_nothing() {
        let body = filled(
            "## Notes\n@everyone see ![x](https://evil.example/x.png) and <img src=x>\nFixes #99\n/agent fix\n```\n# no heading\n",
        );
        assert!(body.contains("no heading") && body.contains("## Changes"), "{body}");
        for bad in ["\n@everyone", "](https://evil", "<img", "#99", "\n/agent"] {
            assert!(!body.contains(bad), "{bad}: {body}");
        }
        let long = filled(&format!("## Notes\n{}", "x ".repeat(100_000)));
        assert!(
            long.chars().count() < 2 * MAX_TEMPLATE_CHARS,
            "{}",
            long.chars().count()
        );
        let hidden = filled("## A\n<!-- never closed\n## Description\n");
        assert!(
            hidden.starts_with("Fixes #7\n\n## A\n\n*Not filled in.*\n\n## Summary"),
            "{hidden}"
        );
    }

    #[test]
    fn a_template_without_headings_stands_below() {
        let body = filled("Thank you.\n\n- [x] I read the rules\n");
        assert!(
            body.starts_with("Fixes #7\n\n## Summary") && body.ends_with("Thank you.\n\n- [ ] I read the rules\n"),
            "{body}"
        );
    }
}
