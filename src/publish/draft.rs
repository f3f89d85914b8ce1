//! Drafts of issues on their way to people: looked for among what exists, with labels that exist,
//! without secrets, stored under a number, and rendered for the status comment. Called by `worker`
//! before a run's end is planned.
//! Never creates an issue, and never says in public what a security finding is about.

use super::Publisher;
use crate::draft::{
    ALMOST_THE_SAME, Candidate, Draft, DraftState, IssueText, NewOffer, Offer, Proposal, WORTH_A_LOOK, proposals,
    queries, render, similarity,
};
use crate::github::RepoClient;
use crate::ids::DraftId;
use crate::job::{Job, JobError, LeasedJob};
use crate::phrase::draft as words;
use crate::tool::Drafting;

mod show;

use show::Shown;

/// Longest title of an issue.
const MAX_TITLE_CHARS: usize = 120;
/// Most results read of one search.
const MAX_FOUND: usize = 20;
/// Most candidates that people are shown for one draft.
const MAX_CANDIDATES: usize = 5;
/// Most labels of a repository that are read.
const MAX_REPO_LABELS: usize = 1_000;
/// Most earlier drafts of an issue that are looked at.
const MAX_EARLIER: u32 = 200;
/// Room for all bodies in a status comment, which has other things to say, too.
const MAX_SHOWN_CHARS: usize = 40_000;

/// What was found for one draft.
#[derive(Default)]
struct Looked {
    candidates: Vec<Candidate>,
    searches: usize,
    /// Why a search failed, if one did.
    problem: Option<String>,
}

/// Stores the drafts of a run and gives what the status comment says of them, safe to post. Empty
/// if there is nothing to say.
///
/// # Errors
/// Of the database. What GitHub does not tell is said in the text.
pub async fn offer_drafts(
    publisher: &Publisher,
    leased: &LeasedJob,
    client: &RepoClient,
    drafts: &[Draft],
    drafting: Drafting,
) -> Result<String, JobError> {
    let language = publisher.language;
    if drafts.is_empty() {
        return Ok(match drafting {
            Drafting::Asked => words::nothing_drafted(language).to_owned(),
            Drafting::Noticed => String::new(),
        });
    }
    let drafts: Vec<Draft> = drafts
        .iter()
        .map(|draft| draft.clone().cleaned(&|text| publisher.without_secrets(text)))
        .collect();
    let proposals = proposals(&drafts);
    let labels = match client.repo_labels(MAX_REPO_LABELS).await {
        Ok(labels) => Some(labels.into_iter().map(|label| label.name).collect::<Vec<_>>()),
        Err(error) => {
            tracing::info!(job.id = %leased.job.id, %error, "the labels were not read");
            None
        }
    };
    let mut looked = Vec::new();
    for proposal in &proposals {
        looked.push(match proposal.is_secret() {
            true => Looked::default(),
            false => look(publisher, client, &proposal.draft).await,
        });
    }
    let offers = offers(publisher, &leased.job, proposals, labels.as_deref());
    let (numbers, at) = store(publisher, leased, &offers).await?;
    tracing::debug!(job.id = %leased.job.id, count = offers.len(), %at, "drafts were offered");
    let shown: Vec<Shown<'_>> = numbers
        .iter()
        .zip(&offers)
        .zip(&looked)
        .map(|((number, offer), looked)| Shown {
            number: *number,
            offer,
            looked,
            labels: labels.as_deref(),
        })
        .collect();
    Ok(show::page(publisher, &shown, drafting))
}

/// What will be created, text by text.
fn offers(publisher: &Publisher, job: &Job, proposals: Vec<Proposal>, labels: Option<&[String]>) -> Vec<NewOffer> {
    let mut room = MAX_SHOWN_CHARS;
    proposals
        .into_iter()
        .map(|proposal| {
            let mut issue = text_of(publisher, job, &proposal.draft, labels);
            let parts = proposal.parts.iter();
            issue.parts = parts.map(|part| text_of(publisher, job, part, labels)).collect();
            let bodies = std::iter::once(&issue).chain(&issue.parts);
            let chars: usize = bodies.map(|text| text.body.chars().count()).sum();
            let is_shown = proposal.is_secret() || chars <= room;
            if is_shown && !proposal.is_secret() {
                room -= chars;
            }
            NewOffer {
                id: DraftId::new(publisher.clock.now()),
                hash: issue.hash(job.repo_id),
                is_shown,
                proposal,
                issue,
            }
        })
        .collect()
}

fn text_of(publisher: &Publisher, job: &Job, draft: &Draft, labels: Option<&[String]>) -> IssueText {
    let language = publisher.language;
    let source = job
        .subject
        .number()
        .map_or_else(|| job.subject.to_string(), |number| format!("#{number}"));
    let body = render(draft, language, &|text| publisher.safe(text));
    let body = match draft.kind.is_secret() {
        true => body,
        false => format!("{body}\n\n{}", words::origin(language, &source)),
    };
    IssueText {
        title: publisher.plain(&draft.title, MAX_TITLE_CHARS),
        body,
        labels: kept_labels(draft, labels),
        parts: Vec::new(),
    }
}

/// Labels that exist, as the repository spells them.
fn kept_labels(draft: &Draft, known: Option<&[String]>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for label in &draft.labels {
        let known = known
            .unwrap_or_default()
            .iter()
            .find(|other| other.eq_ignore_ascii_case(label));
        if let Some(known) = known.filter(|known| !kept.contains(known)) {
            kept.push(known.clone());
        }
    }
    kept
}

/// Labels that were asked for and do not exist.
fn dropped_labels(draft: &Draft, known: Option<&[String]>) -> Vec<String> {
    let known = known.unwrap_or_default();
    let is_known = |label: &&String| known.iter().any(|other| other.eq_ignore_ascii_case(label));
    draft.labels.iter().filter(|label| !is_known(label)).cloned().collect()
}

/// Looks for issues and pull requests that may be about the same.
async fn look(publisher: &Publisher, client: &RepoClient, draft: &Draft) -> Looked {
    let body = render(draft, publisher.language, &str::to_owned);
    let mut looked = Looked::default();
    for query in queries(draft) {
        let found = match client.search_issues(&query, MAX_FOUND).await {
            Ok(found) => found,
            Err(error) => {
                looked.problem = Some(error.to_string());
                continue;
            }
        };
        looked.searches += 1;
        for issue in found {
            let score = similarity((&draft.title, &body), (&issue.title, &issue.body));
            let is_new = looked.candidates.iter().all(|other| other.number != issue.number.0);
            if is_new && score >= WORTH_A_LOOK {
                looked.candidates.push(Candidate {
                    number: issue.number.0,
                    title: issue.title,
                    is_pull: issue.is_pull,
                    is_open: issue.state == "open",
                    score,
                    query: query.clone(),
                });
            }
        }
    }
    // The most alike first; of those that are equally alike the open ones, then the younger.
    looked.candidates.sort_by_key(|candidate| {
        (
            u8::MAX - candidate.score,
            !candidate.is_open,
            u64::MAX - candidate.number,
        )
    });
    looked.candidates.truncate(MAX_CANDIDATES);
    looked
}

/// Stores offers; earlier ones of the same place that are almost the same are withdrawn.
async fn store(
    publisher: &Publisher,
    leased: &LeasedJob,
    offers: &[NewOffer],
) -> Result<(Vec<u32>, chrono::DateTime<chrono::Utc>), JobError> {
    let (job, lease, now) = (&leased.job, &leased.lease, publisher.clock.now());
    let mut tx = publisher.store.begin().await?;
    let earlier = tx.drafts_of(job.repo_id, &job.subject, MAX_EARLIER).await?;
    let replaced: Vec<DraftId> = earlier
        .iter()
        .filter(|old| old.state == DraftState::Offered && offers.iter().any(|new| replaces(new, old)))
        .map(|old| old.id.clone())
        .collect();
    tx.withdraw_drafts(lease, &replaced).await?;
    let numbers = tx.offer_drafts(lease, job, offers, now).await?;
    tx.commit().await?;
    Ok((numbers, now))
}

fn replaces(new: &NewOffer, old: &Offer) -> bool {
    let (one, other) = (&new.issue, &old.issue);
    new.proposal.is_secret() == old.proposal.is_secret()
        && similarity((&one.title, &one.body), (&other.title, &other.body)) >= ALMOST_THE_SAME
}
