//! What a status comment says of drafts: each with what is almost the same first, its text, its
//! labels, what else may be the same, and how it is created. Called by the offering.
//! Never shows a security finding, nor its title, its labels or its hash.

use std::fmt::Write as _;

use super::{Looked, dropped_labels};
use crate::draft::{ALMOST_THE_SAME, Candidate, IssueText, NewOffer, short_hash};
use crate::phrase::draft as words;
use crate::publish::Publisher;
use crate::text;
use crate::tool::Drafting;

/// Most characters of a candidate's title.
const MAX_CANDIDATE_CHARS: usize = 120;
/// Most characters of why a search failed.
const MAX_PROBLEM_CHARS: usize = 200;

/// One offer to be shown.
pub(super) struct Shown<'a> {
    pub(super) number: u32,
    pub(super) offer: &'a NewOffer,
    pub(super) looked: &'a Looked,
    /// Those of the repository, if they could be read.
    pub(super) labels: Option<&'a [String]>,
}

/// All of them; collapsed when there are several.
pub(super) fn page(publisher: &Publisher, shown: &[Shown<'_>], drafting: Drafting) -> String {
    let language = publisher.language;
    let heading = match drafting {
        Drafting::Asked => words::drafts(language, shown.len()),
        Drafting::Noticed => words::noticed(language, shown.len()),
    };
    let mut out = format!("{heading}\n");
    let is_alone = shown.len() == 1;
    for shown in shown {
        let body = match shown.offer.proposal.is_secret() {
            true => secret(publisher, shown),
            false => open(publisher, shown),
        };
        let title = title(publisher, shown);
        let _ = match (is_alone, shown.offer.proposal.is_secret()) {
            (_, true) => write!(out, "\n{}\n", body.trim()),
            (true, false) => write!(out, "\n**{}**\n\n{}\n", publisher.safe(&title), body.trim()),
            (false, false) => {
                let title = in_html(&title);
                write!(
                    out,
                    "\n<details><summary>{title}</summary>\n\n{}\n\n</details>\n",
                    body.trim()
                )
            }
        };
    }
    out.trim_end().to_owned()
}

fn title(publisher: &Publisher, shown: &Shown<'_>) -> String {
    let kind = shown.offer.proposal.draft.kind.as_str();
    words::title(publisher.language, shown.number, kind, &shown.offer.issue.title)
}

/// Inside an element nothing is Markdown.
fn in_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('@', "&#64;")
}

fn secret(publisher: &Publisher, shown: &Shown<'_>) -> String {
    let language = publisher.language;
    let mut out = words::kept_for_maintainers(language, shown.offer.id.as_str());
    if publisher.security_advisories {
        let _ = write!(
            out,
            " {}",
            words::how_to_advise(language, &publisher.command, shown.number)
        );
    }
    out
}

fn open(publisher: &Publisher, shown: &Shown<'_>) -> String {
    let (language, offer) = (publisher.language, shown.offer);
    let mut out = String::new();
    let best = shown.looked.candidates.first();
    if let Some(best) = best.filter(|best| best.score >= ALMOST_THE_SAME) {
        let _ = writeln!(out, "{}\n", words::almost_the_same(language, best.number, best.score));
    }
    if let Some(problem) = &shown.looked.problem {
        let problem = publisher.safe_within(problem, MAX_PROBLEM_CHARS).replace('\n', " ");
        let _ = writeln!(out, "{}\n", words::not_searched(language, &problem));
    }
    if offer.is_shown {
        quoted(&mut out, &offer.issue);
        for part in &offer.issue.parts {
            let title = publisher.safe(&words::part(language, &part.title));
            let _ = writeln!(out, "**{title}**\n");
            quoted(&mut out, part);
        }
    } else {
        let _ = writeln!(out, "{}\n", words::too_long_to_show(language));
    }
    let _ = writeln!(out, "{}\n", labels(publisher, shown));
    candidates(&mut out, publisher, shown.looked);
    if offer.is_shown {
        let hash = short_hash(&offer.hash);
        let _ = writeln!(
            out,
            "{}",
            words::how_to_create(language, &publisher.command, shown.number, hash)
        );
    }
    out
}

/// The body, set apart from what the program says about it.
fn quoted(out: &mut String, issue: &IssueText) {
    for line in issue.body.lines() {
        let _ = writeln!(out, "{}", format!("> {line}").trim_end());
    }
    out.push('\n');
}

fn labels(publisher: &Publisher, shown: &Shown<'_>) -> String {
    let language = publisher.language;
    let drafts = || std::iter::once(&shown.offer.proposal.draft).chain(&shown.offer.proposal.parts);
    if shown.labels.is_none() {
        return match drafts().all(|draft| draft.labels.is_empty()) {
            true => words::labels(language, &[], &[]),
            false => words::labels_unknown(language).to_owned(),
        };
    }
    let as_code = |labels: Vec<String>| {
        let mut codes: Vec<String> = labels
            .iter()
            .map(|label| publisher.safe(&text::code_span(&text::cap_chars(label, 60))))
            .collect();
        codes.sort();
        codes.dedup();
        codes
    };
    let texts = std::iter::once(&shown.offer.issue).chain(&shown.offer.issue.parts);
    let kept = texts.flat_map(|text| text.labels.clone()).collect();
    let dropped = drafts().flat_map(|draft| dropped_labels(draft, shown.labels)).collect();
    words::labels(language, &as_code(kept), &as_code(dropped))
}

fn candidates(out: &mut String, publisher: &Publisher, looked: &Looked) {
    let language = publisher.language;
    if looked.candidates.is_empty() {
        if looked.searches > 0 {
            let _ = writeln!(out, "{}\n", words::no_candidates(language, looked.searches));
        }
        return;
    }
    let _ = writeln!(out, "{}\n", words::candidates(language));
    for candidate in &looked.candidates {
        let Candidate {
            number,
            title,
            is_pull,
            is_open,
            score,
            query,
        } = candidate;
        let title = publisher.safe_within(title, MAX_CANDIDATE_CHARS).replace('\n', " ");
        let state = words::state(language, *is_pull, *is_open);
        let why = words::found_by(language, *score, &publisher.safe(&text::code_span(query)));
        let _ = writeln!(out, "- #{number} {title} ({state}): {why}");
    }
    out.push('\n');
}
