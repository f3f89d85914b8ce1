//! The drafts of a local run, for people as Markdown and for scripts. Never says that one was
//! created: there is no GitHub here.

use serde_json::{Value, json};

use super::super::screen::paint::clean;
use crate::draft::{Proposal, proposals, render};
use crate::phrase::Language;
use crate::run::Finished;

/// For people.
pub(super) fn print(finished: &Finished, language: Language) {
    for (at, proposal) in proposals(&finished.drafts).iter().enumerate() {
        if at > 0 {
            say!("\n---\n");
        }
        for draft in std::iter::once(&proposal.draft).chain(&proposal.parts) {
            let level = if draft.part_of.is_empty() { "#" } else { "##" };
            say!("{level} {}\n", clean(&draft.title));
            let labels = match draft.labels.as_slice() {
                [] => String::new(),
                labels => format!(" · {}", clean(&labels.join(", "))),
            };
            say!("*{}{labels}*\n", draft.kind);
            say!("{}", clean(&render(draft, language, &str::to_owned)));
        }
    }
}

/// For scripts: what the model gave, and the Markdown made of it.
pub(super) fn as_json(finished: &Finished, language: Language) -> Value {
    let with_text = |draft: &crate::draft::Draft| {
        let mut value = json!(draft);
        value["markdown"] = json!(render(draft, language, &str::to_owned));
        value
    };
    let whole = |proposal: &Proposal| {
        let mut value = with_text(&proposal.draft);
        value["parts"] = proposal.parts.iter().map(with_text).collect();
        value
    };
    proposals(&finished.drafts).iter().map(whole).collect()
}
