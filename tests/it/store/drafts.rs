//! Drafts of issues: numbers that are never given twice, one confirmation at a time, and one issue.

use super::*;
use crate::databases::each;
use forgehand::draft::{Draft, DraftState, IssueText, NewOffer, Offer, Proposal};
use forgehand::ids::DraftId;

fn draft(title: &str) -> Draft {
    serde_json::from_value(serde_json::json!({"kind": "bug", "title": title})).unwrap()
}

pub(super) fn offer(title: &str) -> NewOffer {
    let issue = IssueText {
        title: title.to_owned(),
        body: "NUL \u{0} here".to_owned(),
        labels: vec!["bug".to_owned()],
        parts: Vec::new(),
    };
    NewOffer {
        id: DraftId::new(now()),
        proposal: Proposal {
            draft: draft(title),
            parts: vec![draft("part")],
        },
        hash: issue.hash(RepoId(7)),
        issue,
        is_shown: true,
    }
}

async fn give(store: &Store, lease: &Lease, offers: &[NewOffer]) -> Vec<u32> {
    let job = load(store, &lease.job).await;
    with(store, async |tx| tx.offer_drafts(lease, &job, offers, now()).await)
        .await
        .unwrap()
}

async fn all(store: &Store, number: u64) -> Vec<Offer> {
    let subject = Subject::Issue(IssueNumber(number));
    with(store, async |tx| tx.drafts_of(RepoId(7), &subject, 10).await)
        .await
        .unwrap()
}

fn states(offers: &[Offer]) -> Vec<(u32, DraftState)> {
    offers.iter().map(|offer| (offer.number, offer.state)).collect()
}

#[tokio::test]
async fn numbers_belong_to_one_text_for_ever() {
    each(async |store| {
        use DraftState::{Offered, Withdrawn};
        let lease = leased(&store, &fix(1), LONG).await;
        let first = offer("one");
        assert_eq!(give(&store, &lease, &[first.clone(), offer("two")]).await, [1, 2]);
        let stored = all(&store, 1).await;
        assert_eq!(states(&stored), [(2, Offered), (1, Offered)]);
        assert_eq!((&stored[1].id, &stored[1].proposal), (&first.id, &first.proposal));
        assert_eq!((stored[1].is_shown, stored[1].job == lease.job), (true, true));
        assert!(stored[1].is_whole(), "what was stored is what its hash says");

        // Another attempt of the same job.
        assert_eq!(give(&store, &lease, &[offer("three")]).await, [3]);
        assert_eq!(
            states(&all(&store, 1).await),
            [(3, Offered), (2, Withdrawn), (1, Withdrawn)]
        );

        // Another issue begins at one.
        let other = leased(&store, &fix(2), LONG).await;
        assert_eq!(give(&store, &other, &[offer("four")]).await, [1]);
        let listed = with(&store, async |tx| tx.drafts(2).await).await.unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].subject, Subject::Issue(IssueNumber(2)));

        let ids = [all(&store, 2).await[0].id.clone()];
        let withdraw = async || {
            with(&store, async |tx| tx.withdraw_drafts(&other, &ids).await)
                .await
                .unwrap()
        };
        assert_eq!(withdraw().await, 1);
        assert_eq!(withdraw().await, 0);

        let lost = Lease {
            fence: 99,
            ..other.clone()
        };
        let job = load(&store, &other.job).await;
        check_lost(
            with(&store, async |tx| tx.offer_drafts(&lost, &job, &[], now()).await).await,
            &other,
        );
        check_lost(
            with(&store, async |tx| tx.withdraw_drafts(&lost, &ids).await).await,
            &other,
        );
    })
    .await;
}

#[tokio::test]
async fn one_confirmation_at_a_time_leads_to_one_issue() {
    each(async |store| {
        let run = leased(&store, &fix(1), LONG).await;
        let offered = offer("one");
        give(&store, &run, std::slice::from_ref(&offered)).await;
        let id = offered.id;
        let load_draft = async || with(&store, async |tx| tx.draft(&id).await).await.unwrap().unwrap();
        let confirm = async |lease: &Lease, by: &str| {
            with(&store, async |tx| tx.confirm_draft(lease, &id, by, now()).await).await
        };
        let create = |number| NewJob {
            kind: JobKind::Create,
            ..fix(number)
        };
        let one = leased(&store, &create(1), LONG).await;
        let two = leased(&store, &create(2), LONG).await;
        let note = async |lease: &Lease, number: &str| {
            with(&store, async |tx| tx.note_draft_created(lease, &id, number).await).await
        };
        assert!(note(&one, "5").await.is_err(), "nobody confirmed it");
        assert!(confirm(&one, "mona").await.unwrap());
        assert!(confirm(&one, "mona").await.unwrap(), "again after a crash");
        assert!(!confirm(&two, "ada").await.unwrap(), "the other one is at it");
        assert!(note(&two, "6").await.is_err());
        // A new attempt of the run does not take it back any more.
        give(&store, &run, &[]).await;
        let ids = [id.clone()];
        assert_eq!(
            with(&store, async |tx| tx.withdraw_drafts(&run, &ids).await)
                .await
                .unwrap(),
            0
        );

        with(&store, async |tx| tx.bury_job(&one, "GitHub is gone").await)
            .await
            .unwrap();
        assert!(confirm(&two, "ada").await.unwrap(), "the first one gave up");
        note(&two, "7").await.unwrap();
        note(&two, "8").await.unwrap();
        let stored = load_draft().await;
        assert_eq!(
            (stored.state, stored.created_as.as_deref()),
            (DraftState::Created, Some("7"))
        );
        assert_eq!(stored.confirmed_by.as_deref(), Some("ada"));
        assert_eq!(stored.confirmed_job, Some(two.job.clone()));
        assert!(stored.confirmed_at.is_some());
        assert!(!confirm(&two, "ada").await.unwrap(), "it exists");
        check_lost(confirm(&one, "mona").await, &one);
        check_lost(note(&one, "9").await, &one);
        let none = DraftId::new(now());
        assert_eq!(with(&store, async |tx| tx.draft(&none).await).await.unwrap(), None);
    })
    .await;
}
