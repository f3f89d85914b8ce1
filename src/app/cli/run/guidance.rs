//! The instructions of a local checkout, if its user trusts it. Called by `local`. Never loads a word
//! of one that nobody said yes to.

use super::in_words;
use super::own::Own;
use crate::agent::Guidance;
use crate::git::{LocalRepo, Remote};
use crate::run::{self, Ports};

/// The main rules, and what there is besides. They are those of the last commit of the checkout,
/// whatever a run begins from: what an agent committed does not instruct the next one.
pub(super) async fn load(
    ports: &Ports,
    repo: &LocalRepo,
    remote: &Remote,
    own: &Own,
) -> anyhow::Result<(String, Guidance)> {
    let (rules, mut guidance) = match own.is_trusted {
        false => (String::new(), run::untrusted_guidance(ports)),
        true => {
            let (mirror, at) = (&repo.git_dir, &repo.head);
            let failed = |error| anyhow::anyhow!(in_words(error));
            let rules = run::rules_of(ports, mirror, remote, at, &own.config).await;
            let guidance = run::guidance_of(ports, mirror, remote, at, &own.files).await;
            (rules.map_err(failed)?, guidance.map_err(failed)?)
        }
    };
    guidance.notes.extend(own.notes.iter().cloned());
    Ok((rules, guidance))
}
