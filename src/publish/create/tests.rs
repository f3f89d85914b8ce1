//! Which draft a `create` means, and why one is not created.

use super::*;
use crate::draft::{Draft, IssueText, Proposal};
use crate::ids::{DraftId, RepoId, Subject};

fn offer(number: u32, state: DraftState) -> Offer {
    let at = DateTime::UNIX_EPOCH;
    let issue = IssueText {
        title: format!("draft {number}"),
        body: "body".to_owned(),
        labels: Vec::new(),
        parts: Vec::new(),
    };
    let draft: Draft = serde_json::from_value(serde_json::json!({"kind": "bug", "title": "x"})).unwrap();
    Offer {
        id: DraftId::new(at),
        job: JobId::new(at),
        repo_id: RepoId(7),
        repo: "octo/widgets".parse().unwrap(),
        subject: Subject::Issue(IssueNumber(1)),
        number,
        proposal: Proposal {
            draft,
            parts: Vec::new(),
        },
        hash: issue.hash(RepoId(7)),
        issue,
        is_shown: true,
        state,
        offered_at: at,
        confirmed_by: None,
        confirmed_at: None,
        confirmed_job: None,
        created_as: (state == DraftState::Created).then(|| "9".to_owned()),
    }
}

#[track_caller]
fn check(offers: &[Offer], number: Option<u32>, expected: Result<u32, Answer>) {
    let chosen = choose(offers, number, DateTime::UNIX_EPOCH, false);
    assert_eq!(chosen.map(|offer| offer.number), expected);
}

#[test]
fn a_bare_create_means_the_only_draft() {
    use DraftState::{Created, Offered, Withdrawn};
    check(&[], None, Err(Answer::NoDraft));
    check(&[offer(1, Offered)], None, Ok(1));
    check(&[offer(2, Offered), offer(1, Withdrawn)], None, Ok(2));
    check(
        &[offer(2, Offered), offer(1, Offered)],
        None,
        Err(Answer::WhichOne { numbers: vec![1, 2] }),
    );
    check(&[offer(2, Created)], None, Err(Answer::Exists { number: 2, issue: 9 }));
    check(&[offer(2, Withdrawn)], None, Err(Answer::NoDraft));
    let mut younger = offer(3, Offered);
    younger.offered_at += chrono::TimeDelta::seconds(2);
    check(&[younger.clone()], None, Err(Answer::Younger { number: 3 }));
    check(&[younger], Some(3), Ok(3));
}

#[test]
fn a_number_means_one_text() {
    use DraftState::{Created, Offered, Withdrawn};
    let all = [offer(4, Offered), offer(3, Created), offer(2, Withdrawn)];
    check(&all, Some(4), Ok(4));
    check(&all, Some(3), Err(Answer::Exists { number: 3, issue: 9 }));
    check(&all, Some(2), Err(Answer::Withdrawn { number: 2 }));
    check(&all, Some(1), Err(Answer::NoSuch { number: 1 }));
}

#[test]
fn what_was_not_shown_or_is_not_whole_is_not_created() {
    let mut unseen = offer(1, DraftState::Offered);
    unseen.is_shown = false;
    check(&[unseen], Some(1), Err(Answer::NotShown { number: 1 }));
    let mut changed = offer(1, DraftState::Offered);
    changed.issue.labels.push("urgent".to_owned());
    check(&[changed], Some(1), Err(Answer::Changed { number: 1 }));
    let mut elsewhere = offer(1, DraftState::Offered);
    elsewhere.repo_id = RepoId(8);
    check(&[elsewhere], Some(1), Err(Answer::Changed { number: 1 }));
}

#[test]
fn a_security_finding_needs_advisories() {
    let mut secret = offer(1, DraftState::Offered);
    secret.proposal.draft.kind = crate::draft::Kind::Security;
    let id = secret.id.to_string();
    check(&[secret.clone()], Some(1), Err(Answer::NoAdvisories { id }));
    let offers = [secret];
    assert!(choose(&offers, Some(1), DateTime::UNIX_EPOCH, true).is_ok());
}
