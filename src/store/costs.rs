//! Sums over the table `ledger`, by whatever people want to see them. Called by the command line.
//! Never counts a call of unknown price as one that cost nothing.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::row::row;
use super::{StoreError, Tx};
use crate::ids::RepoName;
use crate::money::Usd;

/// By what calls are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostsBy {
    /// All in one row.
    Nothing,
    /// The job.
    Job,
    /// The issue or pull request.
    Issue,
    /// The repository.
    Repository,
    /// The day, UTC.
    Day,
    /// The installation.
    Installation,
    /// The model.
    Model,
}

/// Which calls are summed up.
#[derive(Debug, Clone, Default)]
pub struct CostFilter {
    /// Only those since then.
    pub since: Option<DateTime<Utc>>,
    /// Only those of this repository, by the name that it has now.
    pub repo: Option<RepoName>,
    /// Most rows: the latest days, otherwise the dearest.
    pub limit: u32,
}

/// What calls of a kind cost together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CostRow {
    /// What they have in common.
    pub name: String,
    /// Calls.
    pub calls: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// Money of the calls whose price is known, in millionths of a US dollar.
    pub micro_usd: Usd,
    /// Calls whose price is unknown.
    pub unpriced_calls: i64,
    /// Tokens of these.
    pub unpriced_tokens: i64,
}

row! {
    Sums {
        name: String,
        calls: i64,
        input_tokens: i64,
        output_tokens: i64,
        micro_usd: i64,
        unpriced_calls: i64,
        unpriced_tokens: i64,
    }
}

/// The sums for each value of an expression.
macro_rules! sums {
    ($name:literal, $group:literal, $order:literal) => {
        concat!(
            "SELECT ",
            $name,
            " AS name,
                 CAST(COALESCE(SUM(calls), 0) AS BIGINT) AS calls,
                 CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens,
                 CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens,
                 CAST(COALESCE(SUM(micro_usd), 0) AS BIGINT) AS micro_usd,
                 CAST(COALESCE(SUM(unpriced_calls), 0) AS BIGINT) AS unpriced_calls,
                 CAST(COALESCE(SUM(unpriced_tokens), 0) AS BIGINT) AS unpriced_tokens
             FROM (
                 SELECT job_id, day, repo_id, repo, installation_id, subject, model, 1 AS calls, input_tokens,
                        output_tokens, micro_usd,
                        CASE WHEN micro_usd IS NULL THEN 1 ELSE 0 END AS unpriced_calls,
                        CASE WHEN micro_usd IS NULL THEN input_tokens + output_tokens ELSE 0 END AS unpriced_tokens
                 FROM ledger
                 WHERE at >= $1
                 UNION ALL
                 SELECT 'archived' AS job_id, day, repo_id, repo, installation_id, subject, model, calls, input_tokens,
                        output_tokens, micro_usd, unpriced_calls, unpriced_tokens
                 FROM ledger_days
                 WHERE day >= $4
             ) AS ledger
             LEFT JOIN repositories ON repositories.id = ledger.repo_id
             WHERE ($2 = '' OR LOWER(COALESCE(repositories.name, ledger.repo)) = $2)
             ",
            $group,
            " ORDER BY ",
            $order,
            " LIMIT $3"
        )
    };
}

const IN_ALL: &str = sums!("'all'", "", "calls");
const BY_JOB: &str = sums!(
    "CASE WHEN job_id = 'archived' THEN 'archived jobs'
          ELSE job_id || ' ' || MAX(COALESCE(repositories.name, ledger.repo)) || ' ' || MAX(subject) END",
    "GROUP BY job_id",
    "micro_usd DESC, calls DESC, name DESC"
);
const BY_ISSUE: &str = sums!(
    "MAX(COALESCE(repositories.name, ledger.repo)) || ' ' || subject",
    "GROUP BY repo_id, subject",
    "micro_usd DESC, calls DESC, name"
);
const BY_REPOSITORY: &str = sums!(
    "MAX(COALESCE(repositories.name, ledger.repo))",
    "GROUP BY repo_id",
    "micro_usd DESC, calls DESC, name"
);
const BY_DAY: &str = sums!("day", "GROUP BY day", "name DESC");
const BY_INSTALLATION: &str = sums!(
    "CAST(ledger.installation_id AS TEXT)",
    "GROUP BY ledger.installation_id",
    "micro_usd DESC, calls DESC, name"
);
const BY_MODEL: &str = sums!("model", "GROUP BY model", "micro_usd DESC, calls DESC, name");

impl Tx {
    /// What calls cost, summed up.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn costs(&mut self, by: CostsBy, filter: &CostFilter) -> Result<Vec<CostRow>, StoreError> {
        let query = match by {
            CostsBy::Nothing => IN_ALL,
            CostsBy::Job => BY_JOB,
            CostsBy::Issue => BY_ISSUE,
            CostsBy::Repository => BY_REPOSITORY,
            CostsBy::Day => BY_DAY,
            CostsBy::Installation => BY_INSTALLATION,
            CostsBy::Model => BY_MODEL,
        };
        let since = filter.since.unwrap_or(DateTime::UNIX_EPOCH);
        let repo = filter.repo.as_ref().map(|repo| repo.as_str().to_lowercase());
        let sums: Vec<Sums> = on_db!(
            self,
            sqlx::query_as(query)
                .bind(since)
                .bind(repo.as_deref().unwrap_or_default())
                .bind(i64::from(filter.limit))
                .bind(since.format("%Y-%m-%d").to_string()),
            fetch_all
        )?;
        Ok(sums.into_iter().map(CostRow::from).collect())
    }
}

impl From<Sums> for CostRow {
    fn from(sums: Sums) -> Self {
        Self {
            name: sums.name,
            calls: sums.calls,
            input_tokens: sums.input_tokens,
            output_tokens: sums.output_tokens,
            micro_usd: Usd::from_micros(sums.micro_usd),
            unpriced_calls: sums.unpriced_calls,
            unpriced_tokens: sums.unpriced_tokens,
        }
    }
}
