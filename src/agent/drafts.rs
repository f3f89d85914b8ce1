//! Drafts of issues that the model gives on its way: few, each title once, parts only of an epic
//! that was given before. They are kept with the conversation and handed over at the end.
//! Never shows them to anybody.

use super::progress::Progress;
use crate::draft::{Draft, same_title};
use crate::store::StoreError;
use crate::text;
use crate::tool::Drafting;

impl Progress<'_> {
    /// Keeps a draft; what the model is told, or why it is not kept.
    pub(super) fn keep_draft(
        &mut self,
        draft: Draft,
        drafting: Drafting,
    ) -> Result<Result<String, String>, StoreError> {
        let draft: Draft = self.task.recorder.cleaned(&draft)?;
        if let Some(problem) = self.misplaced(&draft) {
            return Ok(Err(problem));
        }
        let title = text::cap_chars(&draft.title, 100);
        let earlier = self
            .drafts
            .iter_mut()
            .find(|other| same_title(&other.title, &draft.title));
        if let Some(earlier) = earlier {
            *earlier = draft;
            return Ok(Ok(format!("The draft {title:?} is kept in place of the earlier one.")));
        }
        let most = drafting.most();
        if self.drafts.len() >= most {
            return Ok(Err(format!(
                "Not kept: {most} drafts are the most of one run. Give one with the title of an earlier one to replace it."
            )));
        }
        self.drafts.push(draft);
        Ok(Ok(format!("The draft {title:?} is kept; people decide about it.")))
    }

    /// Why a part has no place.
    fn misplaced(&self, draft: &Draft) -> Option<String> {
        if draft.part_of.is_empty() {
            return None;
        }
        let whole = self
            .drafts
            .iter()
            .find(|other| same_title(&other.title, &draft.part_of));
        match whole {
            None => Some(format!(
                "Not kept: there is no draft {:?} yet. Draft the epic first, then its parts.",
                text::cap_chars(&draft.part_of, 100)
            )),
            Some(whole) if same_title(&whole.title, &draft.title) => {
                Some("Not kept: a draft is no part of itself.".to_owned())
            }
            Some(whole) if !whole.part_of.is_empty() => {
                Some("Not kept: a part has no parts of its own. Name the epic in part_of.".to_owned())
            }
            Some(whole) if whole.kind.is_secret() => {
                Some("Not kept: a security finding has no public parts.".to_owned())
            }
            Some(_) => None,
        }
    }
}
