//! Table `deliveries`: each incoming webhook call once, by GitHub's GUID and by what it means.
//! Called by `intake` and by retention. Never updates a delivery.

use chrono::{DateTime, Utc};

use super::row::{micros, row, without_nul};
use super::{DeliveryRow, Inserted, StoreError, Tx};
use crate::ids::{IssueNumber, RepoId};

/// Far more often than a label is taken off an issue while one job works for it.
const MAX_REMOVALS: u32 = 1_000;

/// The beginning of the semantic key of a label's coming (`labeled`) or going (`unlabeled`); twelve digits
/// of its time in seconds follow.
pub fn label_key(action: &str, repo: RepoId, issue: IssueNumber, label: &str) -> String {
    let label = crate::text::cap_chars(&label.to_lowercase(), 100);
    format!("issues:{action}:{repo}:{issue}:{label}:")
}

row! {
    Stored {
        guid: String,
        semantic_key: String,
        event: String,
        action: String,
        repo_id: Option<i64>,
        body_sha256: String,
        body: String,
        received_at: DateTime<Utc>,
        outcome: String,
    }
}

impl Tx {
    /// Stores a delivery, unless its GUID or its meaning was seen before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn insert_delivery(&mut self, delivery: &DeliveryRow) -> Result<Inserted, StoreError> {
        let inserted = on_db!(
            self,
            sqlx::query(
                "INSERT INTO deliveries
                     (guid, semantic_key, event, action, repo_id, body_sha256, body, received_at, outcome)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                 ON CONFLICT DO NOTHING"
            )
            .bind(without_nul(&delivery.guid))
            .bind(without_nul(&delivery.semantic_key))
            .bind(without_nul(&delivery.event))
            .bind(without_nul(&delivery.action))
            .bind(delivery.repo_id.map(RepoId::as_i64))
            .bind(&delivery.body_sha256)
            .bind(without_nul(&delivery.body))
            .bind(micros(delivery.received_at))
            .bind(without_nul(&delivery.outcome)),
            execute
        )?;
        Ok(match inserted {
            0 => Inserted::Duplicate,
            _ => Inserted::New,
        })
    }

    /// One delivery.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delivery(&mut self, guid: &str) -> Result<Option<DeliveryRow>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT guid, semantic_key, event, action, repo_id, body_sha256, body, received_at, outcome
                 FROM deliveries
                 WHERE guid = $1"
            )
            .bind(without_nul(guid)),
            fetch_optional
        )?;
        Ok(stored.map(|stored| DeliveryRow {
            guid: stored.guid,
            semantic_key: stored.semantic_key,
            event: stored.event,
            action: stored.action,
            repo_id: stored.repo_id.map(RepoId::from_i64),
            body_sha256: stored.body_sha256,
            body: stored.body,
            received_at: stored.received_at,
            outcome: stored.outcome,
        }))
    }

    /// The meanings seen so far in ranges from the first to the last of each, both included, in the
    /// database's order of text, which may ignore punctuation: whoever looks for a prefix compares it
    /// again. At most `limit` of each range.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn semantic_keys(&mut self, ranges: &[(&str, &str)], limit: u32) -> Result<Vec<String>, StoreError> {
        // Nothing is above the first of these and below the second.
        const NONE: (&str, &str) = ("", "");
        let mut keys = Vec::new();
        for three in ranges.chunks(3) {
            let range = |place: usize| three.get(place).copied().unwrap_or(NONE);
            let bounds = [range(0), range(1), range(2)].map(|(first, last)| (without_nul(first), without_nul(last)));
            let found: Vec<String> = on_db!(
                self,
                sqlx::query_scalar(
                    "SELECT semantic_key FROM (
                         SELECT semantic_key
                         FROM deliveries
                         WHERE semantic_key >= $1
                           AND semantic_key <= $2
                         ORDER BY semantic_key
                         LIMIT $7
                     ) AS a
                     UNION ALL
                     SELECT semantic_key FROM (
                         SELECT semantic_key
                         FROM deliveries
                         WHERE semantic_key >= $3
                           AND semantic_key <= $4
                         ORDER BY semantic_key
                         LIMIT $7
                     ) AS b
                     UNION ALL
                     SELECT semantic_key FROM (
                         SELECT semantic_key
                         FROM deliveries
                         WHERE semantic_key >= $5
                           AND semantic_key <= $6
                         ORDER BY semantic_key
                         LIMIT $7
                     ) AS c"
                )
                .bind(&*bounds[0].0)
                .bind(&*bounds[0].1)
                .bind(&*bounds[1].0)
                .bind(&*bounds[1].1)
                .bind(&*bounds[2].0)
                .bind(&*bounds[2].1)
                .bind(i64::from(limit)),
                fetch_all
            )?;
            keys.extend(found);
        }
        Ok(keys)
    }

    /// Whether a label is known to have been taken off after a second: in the same one it may have been
    /// before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn was_unlabelled(
        &mut self,
        repo: RepoId,
        issue: IssueNumber,
        label: &str,
        since: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let prefix = label_key("unlabeled", repo, issue, label);
        let first = format!("{prefix}{:012}", since.timestamp() + 1);
        let last = format!("{prefix}{:012}", 999_999_999_999_i64);
        let keys = self.semantic_keys(&[(&first, &last)], MAX_REMOVALS).await?;
        Ok(keys.iter().any(|key| key.starts_with(&prefix) && *key >= first))
    }

    /// Removes the oldest deliveries received before `before`, at most `limit`; returns how many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_deliveries(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        let deleted = on_db!(
            self,
            sqlx::query(
                "DELETE FROM deliveries
                 WHERE guid IN (
                     SELECT guid
                     FROM deliveries
                     WHERE received_at < $1
                     ORDER BY received_at
                     LIMIT $2
                 )"
            )
            .bind(micros(before))
            .bind(i64::from(limit)),
            execute
        )?;
        Ok(deleted)
    }
}
