//! What is said of a measurement: its figures in a line, and why there are none.
//! Never rounds to more than a tenth of a per cent.

use super::Language;

/// Figures of one kind of place, in per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Cases with all right places among the first 1, 5 and 10.
    pub acc: [f64; 3],
    /// Mean reciprocal rank.
    pub mrr: f64,
}

/// Figures of a suite: cases that were asked, those left out, and what came of files and functions.
pub fn summary(language: Language, asked: usize, skipped: usize, files: Figures, functions: Option<Figures>) -> String {
    let of = |figures: Figures| {
        let Figures {
            acc: [one, five, ten],
            mrr,
        } = figures;
        format!("Acc@1/5/10 {one:.1}/{five:.1}/{ten:.1}, MRR {mrr:.1}")
    };
    let cases = language.pick(
        format!("{asked} {}", if asked == 1 { "case" } else { "cases" }),
        format!("{asked} 个用例"),
    );
    let left_out = match skipped {
        0 => String::new(),
        many => language.pick(format!(" ({many} left out)"), format!("（略过 {many} 个）")),
    };
    let files = language.pick(format!("files {}", of(files)), format!("文件 {}", of(files)));
    let functions = functions
        .map(|figures| {
            language.pick(
                format!("; functions {}", of(figures)),
                format!("；函数 {}", of(figures)),
            )
        })
        .unwrap_or_default();
    let colon = language.pick(": ", "：");
    format!("{cases}{left_out}{colon}{files}{functions}")
}

/// The figures are below what was demanded.
pub fn below(language: Language, mrr: f64, min_mrr: u32, summary: &str) -> String {
    language.pick(
        format!("The MRR of files is {mrr:.1}; at least {min_mrr} is demanded. {summary}"),
        format!("文件的 MRR 为 {mrr:.1}，要求至少 {min_mrr}。{summary}"),
    )
}

/// The file with the cases is not there.
pub fn no_suite(language: Language, path: &str, branch: &str) -> String {
    language.pick(
        format!("There is no file {path} on the branch {branch}."),
        format!("分支 {branch} 上没有文件 {path}。"),
    )
}

/// The file with the cases cannot be read as such.
pub fn bad_suite(language: Language, path: &str, problem: &str) -> String {
    language.pick(
        format!("{path} cannot be read as cases: {problem}"),
        format!("无法将 {path} 读作用例：{problem}"),
    )
}

/// Not one case could be asked.
pub fn nothing_asked(language: Language, cases: usize, first: &str) -> String {
    language.pick(
        format!("Not one of {cases} cases could be asked; the first because: {first}"),
        format!("{cases} 个用例都无法运行；第一个的原因：{first}"),
    )
}

/// A case is about another repository.
pub fn elsewhere(language: Language, repository: &str) -> String {
    language.pick(
        format!("it is about {repository}, which is not measured here"),
        format!("它针对 {repository}，不在此处测量"),
    )
}

/// Nothing is indexed on this machine.
pub fn switched_off(language: Language) -> &'static str {
    language.pick(
        "Retrieval is switched off (`retrieval.enabled`), so it cannot be measured.",
        "检索已关闭（`retrieval.enabled`），无法测量。",
    )
}

/// It took too long.
pub fn too_long(language: Language, hours: u64) -> String {
    language.pick(
        format!("The suite takes longer than {hours} hours."),
        format!("该用例集运行超过 {hours} 小时。"),
    )
}
