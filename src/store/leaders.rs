//! Table `leaders`: which process runs the loops that need only one. Called by `queue`.
//! Never lets two hold a name at the same time by the database's clock.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::row::micros;
use super::{StoreError, Tx};

impl Tx {
    /// Takes a name or keeps it, for so long; gives the number of the holder's term, which grows with
    /// each change of holders. `None` while somebody else holds it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lead(&mut self, name: &str, holder: &str, term: Duration) -> Result<Option<i64>, StoreError> {
        let now = self.db_now().await?;
        let until: DateTime<Utc> = micros(now + TimeDelta::from_std(term).unwrap_or_default());
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "INSERT INTO leaders (name, holder, fence, until)
                 VALUES ($1, $2, 1, $3)
                 ON CONFLICT (name) DO UPDATE
                 SET fence = leaders.fence + CASE WHEN leaders.holder = excluded.holder THEN 0 ELSE 1 END,
                     holder = excluded.holder,
                     until = excluded.until
                 WHERE leaders.holder = excluded.holder
                    OR leaders.until <= $4
                 RETURNING fence"
            )
            .bind(name)
            .bind(holder)
            .bind(until)
            .bind(now),
            fetch_optional
        )?)
    }

    /// Lets a name go, so that another process need not wait for the end of the term.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn resign(&mut self, name: &str, holder: &str) -> Result<(), StoreError> {
        let now = self.db_now().await?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE leaders
                 SET until = $3
                 WHERE name = $1
                   AND holder = $2"
            )
            .bind(name)
            .bind(holder)
            .bind(now),
            execute
        )?;
        Ok(())
    }
}
