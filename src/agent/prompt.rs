//! What the model is told at the beginning: the rules of its work, and the brief with text of
//! strangers between delimiters that nobody outside this run can know. Called by `turn`. Never
//! passes on text that is longer, or looks like something else, than a person saw it.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::frame::{framed, neutral, show_hidden_html};
use crate::agent::{Brief, Budget, Setting};
use crate::model::ToolSpec;
use crate::text;
use crate::tool::Mode;

/// Most bytes of the request: issue and discussion.
const MAX_REQUEST_BYTES: usize = 20 * 1024;

/// Most bytes of a pull request with its difference.
const MAX_REVIEWED_BYTES: usize = 128 * 1024;

/// Most bytes of all review threads; each is short already.
const MAX_THREADS_BYTES: usize = 48 * 1024;

/// Most bytes of the words of the person who triggered the run.
const MAX_INSTRUCTIONS_BYTES: usize = 8 * 1024;

/// Most bytes of the repository's rules.
const MAX_RULES_BYTES: usize = 16 * 1024;

/// Most bytes of what happened before.
const MAX_NOTES_BYTES: usize = 8 * 1024;

/// Most bytes of a change that is shown for a review; the rest can be read.
const MAX_DIFF_BYTES: usize = 48 * 1024;

/// Most bytes of places that the request may be about, and of the map; both are cut by tokens before.
const MAX_PLACES_BYTES: usize = 16 * 1024;
const MAX_MAP_BYTES: usize = 64 * 1024;

/// Most paths listed for orientation.
const MAX_FILES: usize = 200;

/// Most checks and skills listed, most lines of the environment, and most characters of a title, a
/// path, a check or one of those lines.
const MAX_CHECKS: usize = 20;
const MAX_SKILLS: usize = 40;
const MAX_ENVIRONMENT_LINES: usize = 24;
const MAX_LINE_CHARS: usize = 300;

/// The prompts, read once. A name or value that is missing is an error and not empty.
static PROMPTS: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut prompts = Environment::new();
    prompts.set_undefined_behavior(UndefinedBehavior::Strict);
    prompts.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    prompts.set_syntax(syntax.expect("the usual marks are valid"));
    for (name, text) in [
        ("system", include_str!("prompts/system.md")),
        ("answer", include_str!("prompts/answer.md")),
        ("review_pull", include_str!("prompts/review_pull.md")),
        ("draft", include_str!("prompts/draft.md")),
        ("brief", include_str!("prompts/brief.md")),
        ("child", include_str!("prompts/child.md")),
        ("child_brief", include_str!("prompts/child_brief.md")),
        ("review", include_str!("prompts/review.md")),
        ("review_brief", include_str!("prompts/review_brief.md")),
    ] {
        prompts.add_template(name, text).expect("the prompts parse");
    }
    prompts
});

/// A prompt with its values. Values are never read as a prompt themselves.
fn render(name: &str, values: Value) -> String {
    let prompt = PROMPTS.get_template(name).expect("the prompt exists");
    prompt
        .render(values)
        .expect("the prompt renders, whatever its values are")
}

/// What a prompt is made from.
pub(super) struct Facts<'a> {
    /// What is asked.
    pub(super) brief: &'a Brief,
    /// Where.
    pub(super) setting: &'a Setting,
    /// Within which limits.
    pub(super) budget: Budget,
    /// With which tools.
    pub(super) tools: &'a [ToolSpec],
    /// Whether a plan has to be approved before anything is changed.
    pub(super) plan_first: bool,
}

/// The beginning of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The rules, the same for every run with the same tools, so that servers can keep them.
    pub(super) system: String,
    /// The brief.
    pub(super) brief: String,
    /// Whether text in the brief was hidden from people who read it on a web page.
    pub(super) had_hidden_text: bool,
}

/// The beginning of a run. `fence` is random for each run.
pub(super) fn main(facts: &Facts<'_>, fence: &str) -> Prompt {
    let brief = facts.brief;
    let request = show_hidden_html(&brief.request);
    let instructions = show_hidden_html(&brief.instructions);
    let shown = [brief.title.as_str(), &request, &instructions];
    let originals = [brief.request.as_str(), &brief.instructions];
    let tools: Vec<String> = facts.tools.iter().map(|tool| tool.name.clone()).collect();
    Prompt {
        system: render(system_of(brief.mode), context! { tools }),
        had_hidden_text: originals != [request.as_str(), &instructions]
            || shown.iter().any(|text| text.chars().any(is_deceptive))
            || brief.threads.iter().any(|thread| is_hiding(&thread.text)),
        brief: render_brief(facts, &instructions, fence),
    }
}

/// The rules of a kind of run.
fn system_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Change | Mode::Plan => "system",
        Mode::Answer => "answer",
        Mode::Review => "review_pull",
        Mode::Draft => "draft",
    }
}

/// Invisible characters that have no honest use in an issue; joiners and variation selectors stand
/// in ordinary emoji.
fn is_deceptive(c: char) -> bool {
    text::is_invisible(c) && !matches!(c, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

fn is_hiding(text: &str) -> bool {
    show_hidden_html(text) != text || text.chars().any(is_deceptive)
}

fn render_brief(facts: &Facts<'_>, instructions: &str, fence: &str) -> String {
    let (brief, setting, budget) = (facts.brief, facts.setting, &facts.budget);
    let capped = |text: &str, max_bytes: usize| neutral(&text::cap(text.trim(), max_bytes), fence);
    let all_framed = |text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            framed(text, fence)
        }
    };
    let environment = listed(&setting.environment, MAX_ENVIRONMENT_LINES);
    let notes = text::cap_middle(&brief.notes.join("\n"), MAX_NOTES_BYTES);
    render(
        "brief",
        context! {
            fence,
            plan_first => facts.plan_first,
            changes_code => brief.mode.changes_code(),
            repo => brief.repo.as_str(),
            request => request_of(brief, fence),
            threads => all_framed(&threads_of(brief)),
            instructions => capped(instructions, MAX_INSTRUCTIONS_BYTES),
            rules => capped(&brief.rules, MAX_RULES_BYTES),
            skills => skills(facts, fence),
            checks => checks(&brief.checks, fence),
            more_checks => brief.checks.len().saturating_sub(MAX_CHECKS),
            network => setting.network,
            turns => budget.max_turns,
            tokens => budget.max_tokens,
            time => text::duration_in_words(budget.max_time),
            money => money(budget.max_cost_usd),
            environment => all_framed(&environment),
            notes => all_framed(&notes),
            places => all_framed(&text::cap(&brief.places, MAX_PLACES_BYTES)),
            map => all_framed(&text::cap(&brief.map, MAX_MAP_BYTES)),
            files => match brief.map.is_empty() {
                true => all_framed(&listed(&brief.files, MAX_FILES)),
                false => String::new(),
            },
        },
    )
}

fn request_of(brief: &Brief, fence: &str) -> String {
    let title = text::cap_chars(brief.title.trim(), MAX_LINE_CHARS);
    let request = show_hidden_html(&brief.request);
    // A task on the command line has its first line for a title.
    let rest = request.trim().strip_prefix(title.as_str());
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('\n'));
    let rest = rest.unwrap_or(&request).trim();
    let most = match brief.mode {
        Mode::Review => MAX_REVIEWED_BYTES,
        Mode::Change | Mode::Plan | Mode::Answer | Mode::Draft => MAX_REQUEST_BYTES,
    };
    let request = format!("{title}\n\n{}", text::cap(rest, most));
    framed(request.trim_end(), fence)
}

fn threads_of(brief: &Brief) -> String {
    let texts: Vec<String> = brief
        .threads
        .iter()
        .map(|thread| show_hidden_html(thread.text.trim_end()))
        .collect();
    text::cap(&texts.join("\n\n"), MAX_THREADS_BYTES)
}

fn money(limit: f64) -> String {
    if limit > 0.0 {
        format!("${limit:.2}")
    } else {
        String::new()
    }
}

fn skills(facts: &Facts<'_>, fence: &str) -> Vec<Value> {
    if !facts.tools.iter().any(|tool| tool.name == "skill") {
        return Vec::new();
    }
    let brief = facts.brief;
    let request = [&brief.title, &brief.request, &brief.instructions].map(|text| text::cap(text, MAX_REQUEST_BYTES));
    let request = request.join("\n");
    let offered = facts.setting.guidance.skills.offered().take(MAX_SKILLS);
    offered
        .map(|skill| {
            context! {
                name => &skill.name,
                description => neutral(&skill.description, fence),
                fits => skill.fits(&request),
            }
        })
        .collect()
}

fn checks(checks: &[String], fence: &str) -> Vec<String> {
    let shown = checks.iter().take(MAX_CHECKS).map(|check| {
        let check = neutral(&text::cap_chars(&one_line(check), MAX_LINE_CHARS), fence);
        let ticks = if check.contains('`') { "``" } else { "`" };
        format!("{ticks}{check}{ticks}")
    });
    shown.collect()
}

fn one_line(text: &str) -> String {
    text.replace('\n', "⟦U+000A⟧")
}

/// Short lines, and how many were left out.
fn listed(lines: &[String], max: usize) -> String {
    let mut shown: Vec<String> = lines
        .iter()
        .take(max)
        .map(|line| text::cap_chars(&one_line(line), MAX_LINE_CHARS))
        .collect();
    if lines.len() > max {
        shown.push(format!("[… {} more]", lines.len() - max));
    }
    shown.join("\n")
}

/// The beginning of a child that answers a question: its rules and its brief.
pub(super) fn child(brief: &Brief, question: &str, fence: &str) -> (String, String) {
    let question = neutral(&text::cap(question.trim(), MAX_INSTRUCTIONS_BYTES), fence);
    let values = context! { fence, repo => brief.repo.as_str(), question };
    (render("child", context! {}), render("child_brief", values))
}

/// The beginning of a child that reviews the change.
pub(super) fn review(brief: &Brief, focus: &str, diff: &str, fence: &str) -> (String, String) {
    let mut request = request_of(brief, fence);
    if !brief.threads.is_empty() {
        request = format!("{request}\n\n{}", framed(&threads_of(brief), fence));
    }
    let values = context! {
        fence,
        repo => brief.repo.as_str(),
        request,
        focus => neutral(&text::cap(focus.trim(), MAX_INSTRUCTIONS_BYTES), fence),
        rules => neutral(&text::cap(brief.rules.trim(), MAX_RULES_BYTES), fence),
        diff => framed(&text::cap_middle(diff.trim_end(), MAX_DIFF_BYTES), fence),
    };
    (render("review", context! {}), render("review_brief", values))
}

#[cfg(test)]
mod tests;
