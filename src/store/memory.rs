//! Tables `notes` and `causes`: what runs keep for later ones, by scope. Called by `memory`.
//! Never mixes scopes: what is kept for one repository is not found from another.

use chrono::{DateTime, Utc};

use super::row::{count, from_json, micros, parse, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::note::{Cause, Note};

row! {
    StoredNote {
        key: String,
        value: String,
        written_by: String,
        written_at: DateTime<Utc>,
    }
}

row! {
    StoredCause {
        node: i64,
        parent: Option<i64>,
        hypothesis: String,
        status: String,
        evidence: String,
        written_at: DateTime<Utc>,
    }
}

impl Tx {
    /// Writes a note, over an older one with its key. False: the scope has `most` others.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn write_note(&mut self, scope: &str, note: &Note, most: u32) -> Result<bool, StoreError> {
        let written = on_db!(
            self,
            sqlx::query(
                "INSERT INTO notes (scope, key, value, written_by, written_at)
                 SELECT $1, $2, $3, $4, $5
                 WHERE (
                     SELECT COUNT(*)
                     FROM notes
                     WHERE scope = $1
                       AND key <> $2
                 ) < $6
                 ON CONFLICT (scope, key) DO UPDATE
                 SET value = excluded.value,
                     written_by = excluded.written_by,
                     written_at = excluded.written_at"
            )
            .bind(without_nul(scope))
            .bind(without_nul(&note.key))
            .bind(without_nul(&note.value))
            .bind(without_nul(&note.by))
            .bind(micros(note.at))
            .bind(i64::from(most)),
            execute
        )?;
        Ok(written == 1)
    }

    /// The notes of a scope, the latest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn notes(&mut self, scope: &str, limit: u32) -> Result<Vec<Note>, StoreError> {
        let stored: Vec<StoredNote> = on_db!(
            self,
            sqlx::query_as(
                "SELECT key, value, written_by, written_at
                 FROM notes
                 WHERE scope = $1
                 ORDER BY written_at DESC, key
                 LIMIT $2"
            )
            .bind(without_nul(scope))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        Ok(stored
            .into_iter()
            .map(|stored| Note {
                key: stored.key,
                value: stored.value,
                by: stored.written_by,
                at: stored.written_at,
            })
            .collect())
    }

    /// Forgets a note. False: there was none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_note(&mut self, scope: &str, key: &str) -> Result<bool, StoreError> {
        let forgotten = on_db!(
            self,
            sqlx::query(
                "DELETE FROM notes
                 WHERE scope = $1
                   AND key = $2"
            )
            .bind(without_nul(scope))
            .bind(without_nul(key)),
            execute
        )?;
        Ok(forgotten == 1)
    }

    /// The hypotheses of a tree, by number.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn causes(&mut self, scope: &str, tree: &str) -> Result<Vec<Cause>, StoreError> {
        let stored: Vec<StoredCause> = on_db!(
            self,
            sqlx::query_as(
                "SELECT node, parent, hypothesis, status, evidence, written_at
                 FROM causes
                 WHERE scope = $1
                   AND tree = $2
                 ORDER BY node"
            )
            .bind(without_nul(scope))
            .bind(without_nul(tree)),
            fetch_all
        )?;
        stored.into_iter().map(Cause::try_from).collect()
    }

    /// Writes a hypothesis of a tree, over an older state of it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn write_cause(&mut self, scope: &str, tree: &str, cause: &Cause) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO causes (scope, tree, node, parent, hypothesis, status, evidence, written_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (scope, tree, node) DO UPDATE
                 SET status = excluded.status,
                     evidence = excluded.evidence,
                     written_at = excluded.written_at"
            )
            .bind(without_nul(scope))
            .bind(without_nul(tree))
            .bind(i64::from(cause.node))
            .bind(cause.parent.map(i64::from))
            .bind(without_nul(&cause.hypothesis))
            .bind(cause.status.as_str())
            .bind(to_json("causes.evidence", &cause.evidence)?)
            .bind(micros(cause.at)),
            execute
        )?;
        Ok(())
    }

    /// The trees of a scope with how many hypotheses each has, the latest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cause_trees(&mut self, scope: &str) -> Result<Vec<(String, u32)>, StoreError> {
        let trees: Vec<(String, i64)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT tree, COUNT(*)
                 FROM causes
                 WHERE scope = $1
                 GROUP BY tree
                 ORDER BY MAX(written_at) DESC, tree"
            )
            .bind(without_nul(scope)),
            fetch_all
        )?;
        trees
            .into_iter()
            .map(|(tree, nodes)| Ok((tree, count("causes", nodes)?)))
            .collect()
    }

    /// Forgets a tree; returns how many hypotheses it had.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_causes(&mut self, scope: &str, tree: &str) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM causes
                 WHERE scope = $1
                   AND tree = $2"
            )
            .bind(without_nul(scope))
            .bind(without_nul(tree)),
            execute
        )?)
    }
}

impl TryFrom<StoredCause> for Cause {
    type Error = StoreError;

    fn try_from(stored: StoredCause) -> Result<Self, StoreError> {
        Ok(Self {
            node: count("causes.node", stored.node)?,
            parent: stored.parent.map(|parent| count("causes.parent", parent)).transpose()?,
            hypothesis: stored.hypothesis,
            status: parse("causes.status", &stored.status)?,
            evidence: from_json("causes.evidence", &stored.evidence)?,
            at: stored.written_at,
        })
    }
}
