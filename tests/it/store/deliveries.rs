//! Deliveries are kept once, repositories as last heard.

use super::*;
use crate::databases::each;
use forgehand::store::{DeliveryRow, Inserted, RepoRow};

fn delivery(guid: &str, semantic_key: &str, received_at: DateTime<Utc>) -> DeliveryRow {
    DeliveryRow {
        guid: guid.to_owned(),
        semantic_key: semantic_key.to_owned(),
        event: "issues".to_owned(),
        action: "labeled".to_owned(),
        repo_id: Some(RepoId(7)),
        body_sha256: "ab".repeat(32),
        body: r#"{"z":1,"a":"é \u0000"}"#.to_owned(),
        received_at,
        outcome: "queued a job".to_owned(),
    }
}

#[tokio::test]
async fn a_delivery_comes_back_byte_for_byte() {
    each(async |store| {
        let sent = delivery("g1", "k1", now());
        let inserted = with(&store, async |tx| tx.insert_delivery(&sent).await).await.unwrap();
        assert_eq!(inserted, Inserted::New);
        let kept = with(&store, async |tx| tx.delivery("g1").await).await.unwrap();
        assert_eq!(kept, Some(sent));
        assert_eq!(with(&store, async |tx| tx.delivery("g2").await).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_same_guid_or_the_same_meaning_is_a_duplicate() {
    each(async |store| {
        for (guid, key, expected) in [
            ("g1", "k1", Inserted::New),
            ("g1", "k1", Inserted::Duplicate),
            ("g1", "k2", Inserted::Duplicate),
            ("g2", "k1", Inserted::Duplicate),
            ("g2", "k2", Inserted::New),
        ] {
            let sent = delivery(guid, key, now());
            let inserted = with(&store, async |tx| tx.insert_delivery(&sent).await).await.unwrap();
            assert_eq!(inserted, expected, "{guid} {key}");
        }
    })
    .await;
}

#[tokio::test]
async fn ten_copies_at_once_make_one_delivery_and_one_job() {
    each(async |store| {
        let copies: Vec<_> = (0..10)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    with(&store, async |tx| {
                        let at = now();
                        let inserted = tx.insert_delivery(&delivery("g1", "k1", at)).await?;
                        if inserted == Inserted::New {
                            tx.insert_job(&fix(1), at).await?;
                        }
                        Ok(inserted)
                    })
                    .await
                    .unwrap()
                })
            })
            .collect();
        let mut new = 0;
        for copy in copies {
            new += usize::from(copy.await.unwrap() == Inserted::New);
        }
        assert_eq!(new, 1);
        let counts = with(&store, async |tx| tx.job_counts().await).await.unwrap();
        assert_eq!(counts, [(JobState::Queued, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_crash_before_the_commit_leaves_neither_delivery_nor_job() {
    each(async |store| {
        let mut tx = store.begin().await.unwrap();
        tx.insert_delivery(&delivery("g1", "k1", now())).await.unwrap();
        let id = tx.insert_job(&fix(1), now()).await.unwrap().unwrap();
        drop(tx);
        assert_eq!(with(&store, async |tx| tx.delivery("g1").await).await.unwrap(), None);
        assert_eq!(with(&store, async |tx| tx.job(&id).await).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn j5_old_deliveries_are_removed_in_portions_oldest_first() {
    each(async |store| {
        for (guid, age) in [("old", 300), ("older", 400), ("oldest", 500), ("new", 10)] {
            let sent = delivery(guid, guid, in_seconds(-age));
            with(&store, async |tx| tx.insert_delivery(&sent).await).await.unwrap();
        }
        let delete = async || {
            with(&store, async |tx| tx.delete_deliveries(in_seconds(-100), 2).await)
                .await
                .unwrap()
        };
        assert_eq!(delete().await, 2);
        let kept = with(&store, async |tx| tx.delivery("old").await).await.unwrap();
        assert_eq!(kept.unwrap().guid, "old");
        assert_eq!(delete().await, 1);
        assert_eq!(delete().await, 0);
        assert!(
            with(&store, async |tx| tx.delivery("new").await)
                .await
                .unwrap()
                .is_some()
        );
    })
    .await;
}

#[tokio::test]
async fn a_repositorys_label_is_what_its_file_said_last() {
    each(async |store| {
        let load = async |id| with(&store, async |tx| tx.repo_label(id).await).await.unwrap();
        assert_eq!(load(RepoId(7)).await, None);
        for label in [Some("robot"), Some("bot"), None, Some("robot")] {
            with(&store, async |tx| tx.set_repo_label(RepoId(7), label).await)
                .await
                .unwrap();
            assert_eq!(load(RepoId(7)).await.as_deref(), label);
        }
        assert_eq!(load(RepoId(8)).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_what_github_said_last() {
    each(async |store| {
        let mut repo = RepoRow {
            id: RepoId(7),
            name: "octo/widgets".parse().unwrap(),
            installation: InstallationId(99),
            active: true,
        };
        let other = RepoRow {
            id: RepoId(8),
            installation: InstallationId(100),
            ..repo.clone()
        };
        for known in [&repo, &other] {
            with(&store, async |tx| tx.upsert_repo(known).await).await.unwrap();
        }
        let with_label = async |id| with(&store, async |tx| tx.repo_with_label(id).await).await.unwrap();
        assert_eq!(with_label(RepoId(8)).await, Some((other.clone(), None)));
        assert_eq!(with_label(RepoId(9)).await, None);
        with(&store, async |tx| tx.set_repo_label(RepoId(8), Some("bot")).await)
            .await
            .unwrap();
        assert_eq!(
            with_label(RepoId(8)).await,
            Some((other.clone(), Some("bot".to_owned())))
        );
        repo.name = "octo/gadgets".parse().unwrap();
        with(&store, async |tx| tx.upsert_repo(&repo).await).await.unwrap();
        let load = async |id| with(&store, async |tx| tx.repo(id).await).await.unwrap();
        assert_eq!(load(RepoId(7)).await, Some(repo.clone()));

        let suspend = async |active| {
            with(&store, async |tx| {
                tx.set_installation_active(InstallationId(99), active).await
            })
            .await
            .unwrap();
        };
        suspend(false).await;
        assert!(!load(RepoId(7)).await.unwrap().active);
        assert_eq!(load(RepoId(8)).await, Some(other));
        suspend(true).await;
        assert_eq!(load(RepoId(7)).await, Some(repo));
        assert_eq!(load(RepoId(9)).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_name_leads_to_the_active_repository_that_was_heard_of_last() {
    each(async |store| {
        let row = |id, name: &str, active| RepoRow {
            id: RepoId(id),
            name: name.parse().unwrap(),
            installation: InstallationId(99),
            active,
        };
        for known in [
            row(7, "octo/widgets", true),
            row(8, "Octo/Widgets", true),
            row(9, "octo/widgets", false),
        ] {
            with(&store, async |tx| tx.upsert_repo(&known).await).await.unwrap();
        }
        let find = async |name: &str| {
            let name = name.parse().unwrap();
            with(&store, async |tx| tx.repo_by_name(&name).await).await.unwrap()
        };
        assert_eq!(find("OCTO/widgets").await, Some(row(8, "Octo/Widgets", true)));
        assert_eq!(find("octo/gadgets").await, None);
    })
    .await;
}

#[tokio::test]
async fn meanings_are_found_by_their_range() {
    each(async |store| {
        for (guid, key) in [
            ("g1", "a:1:000005"),
            ("g2", "a:1:000007"),
            ("g3", "a:1:000009"),
            ("g4", "a:2:000007"),
        ] {
            let sent = delivery(guid, key, now());
            with(&store, async |tx| tx.insert_delivery(&sent).await).await.unwrap();
        }
        let all = async |ranges: &[(&str, &str)], limit| {
            with(&store, async |tx| tx.semantic_keys(ranges, limit).await)
                .await
                .unwrap()
        };
        let found = async |first, last, limit| all(&[(first, last)], limit).await;
        assert_eq!(
            found("a:1:000006", "a:1:999999", 10).await,
            ["a:1:000007", "a:1:000009"]
        );
        assert_eq!(found("a:1:000006", "a:1:999999", 1).await, ["a:1:000007"]);
        assert_eq!(found("a:1:000005", "a:1:000005", 1).await, ["a:1:000005"]);
        assert!(found("a:1:000010", "a:1:999999", 10).await.is_empty());
        let later = ("a:1:000006", "a:1:999999");
        let five = ("a:1:000005", "a:1:000005");
        let two = ("a:2:000000", "a:2:999999");
        assert_eq!(
            all(&[later, five, ("b", "c"), two], 1).await,
            ["a:1:000007", "a:1:000005", "a:2:000007"],
            "the limit is that of each range, and there may be any number of them"
        );
        assert!(all(&[], 10).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_label_is_known_to_be_gone_since_a_second() {
    each(async |store| {
        let removed = now();
        let issue = IssueNumber(3);
        let of = |number, label: &str, at: DateTime<Utc>| {
            let prefix = forgehand::store::label_key("unlabeled", RepoId(7), IssueNumber(number), label);
            format!("{prefix}{:012}", at.timestamp())
        };
        for (guid, key) in [
            ("g1", of(3, "Agent", removed)),
            ("g2", of(31, "agent", removed + TimeDelta::hours(1))),
            ("g3", of(3, "agent: plan", removed + TimeDelta::hours(1))),
        ] {
            let sent = delivery(guid, &key, now());
            with(&store, async |tx| tx.insert_delivery(&sent).await).await.unwrap();
        }
        let gone = async |since| {
            with(&store, async |tx| {
                tx.was_unlabelled(RepoId(7), issue, "agent", since).await
            })
            .await
            .unwrap()
        };
        assert!(gone(removed - TimeDelta::seconds(1)).await);
        assert!(!gone(removed).await, "in the same second it may have been before");
        assert!(!gone(removed + TimeDelta::seconds(1)).await);
    })
    .await;
}
