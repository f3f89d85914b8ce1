//! The program's words around drafts of issues: headings of sections, what a comment says of a
//! draft and its likely duplicates, and the answers to `create`.
//! Never holds what a draft itself says.

use super::Language;

/// Headings of an issue, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// How things are today.
    Context,
    /// The state to reach.
    Goal,
    /// Where it was seen.
    Environment,
    /// The steps that show it.
    Reproduction,
    /// What was seen.
    Observed,
    /// What should be.
    Expected,
    /// Where each observation was made.
    Evidence,
    /// What nobody has seen yet.
    Hypotheses,
    /// Who suffers.
    Impact,
    /// How badly, of a security finding.
    Severity,
    /// What belongs to it.
    Scope,
    /// What does not.
    NonGoals,
    /// When it is done.
    Acceptance,
    /// How that is checked.
    Validation,
    /// What it waits for and what can go wrong.
    Risks,
}

/// A heading.
pub fn heading(language: Language, section: Section) -> &'static str {
    let (english, chinese) = match section {
        Section::Context => ("Context", "背景"),
        Section::Goal => ("Goal", "目标"),
        Section::Environment => ("Environment", "环境"),
        Section::Reproduction => ("Steps to reproduce", "复现步骤"),
        Section::Observed => ("Observed", "观察到的现象"),
        Section::Expected => ("Expected", "期望的结果"),
        Section::Evidence => ("Evidence", "证据"),
        Section::Hypotheses => ("Hypotheses (not verified)", "假设（未经验证）"),
        Section::Impact => ("Impact", "影响"),
        Section::Severity => ("Severity", "严重程度"),
        Section::Scope => ("Scope", "范围"),
        Section::NonGoals => ("Not part of it", "不包括"),
        Section::Acceptance => ("Acceptance criteria", "验收标准"),
        Section::Validation => ("Validation", "验证方式"),
        Section::Risks => ("Dependencies and risks", "依赖与风险"),
    };
    language.pick(english, chinese)
}

/// Under an issue: where its draft comes from.
pub fn origin(language: Language, source: &str) -> String {
    language.pick(
        format!("<sub>Drafted by Forgehand on {source}, created after a maintainer confirmed it.</sub>"),
        format!("<sub>由 Forgehand 在 {source} 起草，经维护者确认后创建。</sub>"),
    )
}

/// Above the drafts of a run that was asked for drafts.
pub fn drafts(language: Language, count: usize) -> String {
    language.pick(
        match count {
            1 => "#### A draft of an issue".to_owned(),
            _ => format!("#### {count} drafts of issues"),
        },
        format!("#### {count} 份议题草稿"),
    )
}

/// Above what a run noticed and left alone.
pub fn noticed(language: Language, count: usize) -> String {
    language.pick(
        match count {
            1 => "#### Noticed and left alone: a draft of an issue".to_owned(),
            _ => format!("#### Noticed and left alone: {count} drafts of issues"),
        },
        format!("#### 发现但未改动：{count} 份议题草稿"),
    )
}

/// A run that was to write drafts and wrote none.
pub fn nothing_drafted(language: Language) -> &'static str {
    language.pick(
        "The run ended without a complete draft, so there is nothing to create.",
        "运行结束时没有符合规范的草稿，因此没有可创建的内容。",
    )
}

/// The line of a draft: its number, its kind and its title.
pub fn title(language: Language, number: u32, kind: &str, title: &str) -> String {
    language.pick(
        format!("Draft {number} · {kind} · {title}"),
        format!("草稿 {number} · {kind} · {title}"),
    )
}

/// The line of an epic's part.
pub fn part(language: Language, title: &str) -> String {
    language.pick(format!("Sub-issue: {title}"), format!("子议题：{title}"))
}

/// What the labels of a draft will be, and which were dropped.
pub fn labels(language: Language, kept: &[String], dropped: &[String]) -> String {
    let listed = |labels: &[String]| labels.join(language.pick(", ", "、"));
    let mut line = match kept {
        [] => language.pick("Labels: none.".to_owned(), "标签：无。".to_owned()),
        kept => language.pick(
            format!("Labels: {}.", listed(kept)),
            format!("标签：{}。", listed(kept)),
        ),
    };
    if !dropped.is_empty() {
        line.push_str(&language.pick(
            format!(
                " Left out, because the repository does not have them: {}.",
                listed(dropped)
            ),
            format!("仓库中不存在，已略去：{}。", listed(dropped)),
        ));
    }
    line
}

/// The labels of the repository could not be read.
pub fn labels_unknown(language: Language) -> &'static str {
    language.pick(
        "The repository's labels could not be read, so the issue will have none.",
        "无法读取仓库的标签，因此议题将不带标签。",
    )
}

/// Above a draft whose best candidate is almost the same.
pub fn almost_the_same(language: Language, number: u64, score: u8) -> String {
    language.pick(
        format!("⚠️ **#{number} is almost the same ({score} %).** Look at it before you create this one."),
        format!("⚠️ **#{number} 几乎相同（{score} %）。** 创建之前请先查看。"),
    )
}

/// Above the list of candidates.
pub fn candidates(language: Language) -> &'static str {
    language.pick("Possibly the same:", "可能重复：")
}

/// Nothing like it was found.
pub fn no_candidates(language: Language, searches: usize) -> String {
    language.pick(
        format!("Nothing like it was found in {searches} searches of issues and pull requests."),
        format!("在议题和拉取请求中搜索了 {searches} 次，没有发现类似内容。"),
    )
}

/// What a candidate is.
pub fn state(language: Language, is_pull: bool, is_open: bool) -> &'static str {
    match (is_pull, is_open) {
        (false, true) => language.pick("open issue", "开放的议题"),
        (false, false) => language.pick("closed issue", "已关闭的议题"),
        (true, true) => language.pick("open pull request", "开放的拉取请求"),
        (true, false) => language.pick("closed pull request", "已关闭的拉取请求"),
    }
}

/// Why a candidate is one.
pub fn found_by(language: Language, score: u8, query: &str) -> String {
    language.pick(
        format!("{score} % alike, found by {query}"),
        format!("相似度 {score} %，搜索词 {query}"),
    )
}

/// The search did not work.
pub fn not_searched(language: Language, why: &str) -> String {
    language.pick(
        format!("⚠️ **Not fully checked for duplicates**: the search failed ({why}). Search before you create it."),
        format!("⚠️ **未能完整检查重复**：搜索失败（{why}）。创建之前请自行搜索。"),
    )
}

/// How a draft becomes an issue.
pub fn how_to_create(language: Language, command: &str, number: u32, hash: &str) -> String {
    language.pick(
        format!(
            "To create exactly this (`{hash}`), write `{command} create {number}`. People with write access may. \
             Editing this comment changes nothing."
        ),
        format!(
            "若要原样创建（`{hash}`），请评论 `{command} create {number}`，需要写权限。编辑本评论不会改变草稿内容。"
        ),
    )
}

/// What the public hears of a security finding.
pub fn kept_for_maintainers(language: Language, id: &str) -> String {
    language.pick(
        format!(
            "🔒 A security finding was written down and is not shown here. It is kept for the maintainers: the operator \
             of this service reads it with `forgehand drafts show {id}`."
        ),
        format!(
            "🔒 记录了一项安全问题，内容不在此公开，仅供维护者查看：服务的管理员可运行 `forgehand drafts show {id}`。"
        ),
    )
}

/// How a security finding becomes a private advisory.
pub fn how_to_advise(language: Language, command: &str, number: u32) -> String {
    language.pick(
        format!("`{command} create {number}` makes it a private security advisory of this repository."),
        format!("评论 `{command} create {number}` 可将其创建为本仓库的私有安全公告。"),
    )
}

/// Drafts that did not fit into the comment.
pub fn too_long_to_show(language: Language) -> &'static str {
    language.pick(
        "Too long for this comment; `forgehand drafts show` has the whole text, and it can only be created after a shorter \
         draft was asked for.",
        "内容过长，无法在此显示；完整内容见 `forgehand drafts show`。请重新生成较短的草稿后再创建。",
    )
}

/// The answers to `create`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is none here.
    NoDraft,
    /// There are several.
    WhichOne {
        /// Their numbers.
        numbers: Vec<u32>,
    },
    /// None has this number.
    NoSuch {
        /// The number.
        number: u32,
    },
    /// It was written after the command.
    Younger {
        /// Its number.
        number: u32,
    },
    /// A later one took its place.
    Withdrawn {
        /// Its number.
        number: u32,
    },
    /// It is an issue already.
    Exists {
        /// Its number.
        number: u32,
        /// The issue's number.
        issue: u64,
    },
    /// It is an advisory already.
    AdvisoryExists {
        /// Its number.
        number: u32,
    },
    /// Somebody else's command is at it.
    InHand {
        /// Its number.
        number: u32,
    },
    /// The stored text does not have its hash.
    Changed {
        /// Its number.
        number: u32,
    },
    /// It was not shown as a whole, so nobody can have confirmed it.
    NotShown {
        /// Its number.
        number: u32,
    },
    /// Advisories are switched off.
    NoAdvisories {
        /// The id for the operator.
        id: String,
    },
}

/// The words of an answer to `create`.
pub fn answer(language: Language, command: &str, answer: &Answer) -> String {
    match answer {
        Answer::NoDraft => language.pick(
            format!("There is no draft here to create. `{command} draft` writes one."),
            format!("这里没有可创建的草稿。`{command} draft` 可以起草一份。"),
        ),
        Answer::WhichOne { numbers } => {
            let listed: Vec<String> = numbers
                .iter()
                .map(|number| format!("`{command} create {number}`"))
                .collect();
            let listed = listed.join(language.pick(", ", "、"));
            language.pick(
                format!("There are several drafts here. Say which one: {listed}."),
                format!("这里有多份草稿，请指明一份：{listed}。"),
            )
        }
        Answer::NoSuch { number } => language.pick(
            format!("There is no draft {number} here."),
            format!("这里没有草稿 {number}。"),
        ),
        Answer::Younger { number } => language.pick(
            format!(
                "Draft {number} was written after your command, so you cannot have meant it. Read it, then write \
                 `{command} create {number}`."
            ),
            format!("草稿 {number} 是在您的命令之后写成的。请先阅读，再评论 `{command} create {number}`。"),
        ),
        Answer::Withdrawn { number } => language.pick(
            format!(
                "Draft {number} was replaced by a later one, so it was not created. Read that one and say its number."
            ),
            format!("草稿 {number} 已被后来的草稿取代，因此没有创建。请阅读新的草稿并使用它的编号。"),
        ),
        Answer::Exists { number, issue } => language.pick(
            format!("Draft {number} exists already: #{issue}."),
            format!("草稿 {number} 已经创建：#{issue}。"),
        ),
        Answer::AdvisoryExists { number } => language.pick(
            format!("Draft {number} exists already, as a private advisory."),
            format!("草稿 {number} 已经创建为私有安全公告。"),
        ),
        Answer::InHand { number } => language.pick(
            format!("Draft {number} is being created already, on somebody else's word."),
            format!("草稿 {number} 正在根据他人的命令创建。"),
        ),
        Answer::Changed { number } => language.pick(
            format!("Draft {number} was not created: what is stored is not what was shown. Ask for a new draft."),
            format!("草稿 {number} 没有创建：存储的内容与展示的内容不一致。请重新起草。"),
        ),
        Answer::NotShown { number } => language.pick(
            format!("Draft {number} was too long to be shown, so it was not created. Ask for a shorter draft."),
            format!("草稿 {number} 过长，未能展示，因此没有创建。请重新生成较短的草稿。"),
        ),
        Answer::NoAdvisories { id } => kept_for_maintainers(language, id),
    }
}

/// What was created.
pub fn created(language: Language, issue: u64, url: &str, parts: &[u64]) -> String {
    let numbers: Vec<String> = parts.iter().map(|number| format!("#{number}")).collect();
    let numbers = numbers.join(language.pick(", ", "、"));
    match parts {
        [] => language.pick(format!("Created #{issue}: {url}"), format!("已创建 #{issue}：{url}")),
        _ => language.pick(
            format!("Created #{issue} with its sub-issues {numbers}: {url}"),
            format!("已创建 #{issue} 及其子议题 {numbers}：{url}"),
        ),
    }
}

/// An advisory was created; its address would say too much.
pub fn advised(language: Language) -> &'static str {
    language.pick(
        "Created a private security advisory; the maintainers find it under Security.",
        "已创建私有安全公告，维护者可在 Security 页面查看。",
    )
}

/// Something could not be created.
pub fn not_created(language: Language, why: &str) -> String {
    let why = why.trim_end_matches(['.', '。']);
    language.pick(format!("It was not created: {why}."), format!("没有创建：{why}。"))
}

/// A sub-issue could not be put under its epic.
pub fn not_linked(language: Language, number: u64) -> String {
    language.pick(
        format!("#{number} exists, but it could not be made a sub-issue."),
        format!("#{number} 已创建，但未能设为子议题。"),
    )
}
