//! The rows of one job as they go into a file: every column of every table that belongs to it, as JSON.
//! Called by `retention`. Never leaves a column out: a test compares these with the schema.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::row::row;
use super::{StoreError, Tx};
use crate::ids::JobId;
use crate::job::word_enum;

word_enum! {
    /// The tables that a job's rows are in. Rows that refer to others come after them.
    JobTable, "table of a job" {
        /// The job itself.
        Jobs = "jobs",
        /// Its log.
        JobEvents = "job_events",
        /// What it wrote to GitHub.
        Effects = "effects",
        /// What it needed to be resumed, and its result.
        Checkpoints = "checkpoints",
        /// What was said.
        Conversation = "conversation",
        /// What it asked.
        Questions = "questions",
        /// What people answered.
        Answers = "answers",
        /// What people said meanwhile.
        Instructions = "instructions",
        /// What its calls cost.
        Ledger = "ledger",
        /// What is set aside for it.
        Reservations = "reservations",
        /// What it was warned of.
        CapWarnings = "cap_warnings",
        /// Drafts that it offered.
        Drafts = "drafts",
        /// The fire of a schedule that began it.
        ScheduleFires = "schedule_fires",
    }
}

/// Declares a struct of a table's columns and how its rows of one job are read.
macro_rules! table {
    ($name:ident, $table:literal by $key:literal, $order:literal, { $($field:ident: $type:ty,)* }) => {
        row! {
            #[derive(Serialize)]
            $name { $($field: $type,)* }
        }

        impl $name {
            const QUERY: &'static str = concat!(
                "SELECT ", table!(@columns $($field)*), " FROM ", $table, " WHERE ", $key, " = $1 ORDER BY ", $order,
                " LIMIT $2 OFFSET $3"
            );
        }
    };
    (@columns $first:ident $($more:ident)*) => {
        concat!(stringify!($first) $(, ", ", stringify!($more))*)
    };
}

table!(JobRow, "jobs" by "id", "id", {
    id: String,
    repo_id: i64,
    repo: String,
    installation_id: i64,
    kind: String,
    subject: String,
    lane: String,
    dedupe_key: Option<String>,
    state: String,
    priority: i64,
    run_at: DateTime<Utc>,
    attempt: i64,
    max_attempts: i64,
    lost_leases: i64,
    round: i64,
    fence: i64,
    lease_token: Option<String>,
    lease_owner: Option<String>,
    lease_until: Option<DateTime<Utc>>,
    request: String,
    pins: String,
    outcome: Option<String>,
    reason: Option<String>,
    cancel_requested_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    unattended: bool,
    turn: i64,
});

table!(EventRow, "job_events" by "job_id", "seq", {
    job_id: String,
    seq: i64,
    at: DateTime<Utc>,
    fence: i64,
    kind: String,
    data: String,
});

table!(EffectRow, "effects" by "job_id", "seq", {
    id: String,
    job_id: String,
    seq: i64,
    kind: String,
    dedupe_key: String,
    body: String,
    state: String,
    fence: i64,
    sent_at: Option<DateTime<Utc>>,
    tries: i64,
    remote_id: Option<String>,
    problem: Option<String>,
    unclear: i64,
    repaired: Option<String>,
});

table!(CheckpointRow, "checkpoints" by "job_id", "kind", {
    job_id: String,
    kind: String,
    seq: i64,
    fence: i64,
    body: InBase64,
});

table!(ConversationRow, "conversation" by "job_id", "agent, seq", {
    job_id: String,
    agent: String,
    seq: i64,
    fence: i64,
    body: String,
});

table!(QuestionRow, "questions" by "job_id", "seq", {
    job_id: String,
    seq: i64,
    round: i64,
    question: String,
    base_sha: Option<String>,
    asked_at: DateTime<Utc>,
    answer_by: DateTime<Utc>,
    taken_at: Option<DateTime<Utc>>,
    expired_at: Option<DateTime<Utc>>,
    reminded_at: Option<DateTime<Utc>>,
});

table!(AnswerRow, "answers" by "job_id", "source", {
    job_id: String,
    source: String,
    question: i64,
    by_login: String,
    words: String,
    at: DateTime<Utc>,
});

table!(InstructionRow, "instructions" by "job_id", "seq", {
    job_id: String,
    seq: i64,
    source: String,
    by_login: String,
    words: String,
    at: DateTime<Utc>,
    taken_at: Option<DateTime<Utc>>,
});

table!(LedgerRow, "ledger" by "job_id", "seq", {
    job_id: String,
    seq: i64,
    at: DateTime<Utc>,
    day: String,
    repo_id: i64,
    repo: String,
    installation_id: i64,
    subject: String,
    model: String,
    input_tokens: i64,
    output_tokens: i64,
    micro_usd: Option<i64>,
});

table!(ReservationRow, "reservations" by "job_id", "job_id", {
    job_id: String,
    fence: i64,
    day: String,
    repo_id: i64,
    installation_id: i64,
    subject: String,
    micro_usd: i64,
});

table!(CapWarningRow, "cap_warnings" by "job_id", "cap, micro_usd", {
    job_id: String,
    cap: String,
    micro_usd: i64,
});

table!(DraftRow, "drafts" by "job_id", "id", {
    id: String,
    job_id: String,
    repo_id: i64,
    repo: String,
    subject: String,
    number: i64,
    kind: String,
    hash: String,
    proposal: String,
    issue: String,
    is_shown: bool,
    state: String,
    offered_at: DateTime<Utc>,
    confirmed_by: Option<String>,
    confirmed_at: Option<DateTime<Utc>>,
    confirmed_job: Option<String>,
    created_as: Option<String>,
});

table!(FireRow, "schedule_fires" by "job_id", "name, fire_at", {
    name: String,
    fire_at: DateTime<Utc>,
    job_id: Option<String>,
    outcome: String,
    at: DateTime<Utc>,
});

/// Bytes, which JSON has no word for.
pub(super) struct InBase64(Vec<u8>);

impl Serialize for InBase64 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<Db: sqlx::Database> sqlx::Type<Db> for InBase64
where
    Vec<u8>: sqlx::Type<Db>,
{
    fn type_info() -> Db::TypeInfo {
        <Vec<u8> as sqlx::Type<Db>>::type_info()
    }

    fn compatible(found: &Db::TypeInfo) -> bool {
        <Vec<u8> as sqlx::Type<Db>>::compatible(found)
    }
}

impl<'r, Db: sqlx::Database> sqlx::Decode<'r, Db> for InBase64
where
    Vec<u8>: sqlx::Decode<'r, Db>,
{
    fn decode(value: <Db as sqlx::Database>::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        <Vec<u8> as sqlx::Decode<'r, Db>>::decode(value).map(InBase64)
    }
}

/// Reads rows of one kind as JSON.
macro_rules! read {
    ($tx:expr, $name:ident, $job:expr, $page:expr) => {{
        let rows: Vec<$name> = on_db!(
            $tx,
            sqlx::query_as($name::QUERY)
                .bind($job.as_str())
                .bind(i64::from($page.1))
                .bind(i64::from($page.0)),
            fetch_all
        )?;
        rows.iter()
            .map(|row| serde_json::to_value(row).map_err(|error| StoreError::Corrupt(error.to_string())))
            .collect()
    }};
}

impl Tx {
    /// Rows of a job in one of its tables, in order: after so many, and at most so many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn rows_of_job(
        &mut self,
        table: JobTable,
        job: &JobId,
        page: (u32, u32),
    ) -> Result<Vec<Value>, StoreError> {
        match table {
            JobTable::Jobs => read!(self, JobRow, job, page),
            JobTable::JobEvents => read!(self, EventRow, job, page),
            JobTable::Effects => read!(self, EffectRow, job, page),
            JobTable::Checkpoints => read!(self, CheckpointRow, job, page),
            JobTable::Conversation => read!(self, ConversationRow, job, page),
            JobTable::Questions => read!(self, QuestionRow, job, page),
            JobTable::Answers => read!(self, AnswerRow, job, page),
            JobTable::Instructions => read!(self, InstructionRow, job, page),
            JobTable::Ledger => read!(self, LedgerRow, job, page),
            JobTable::Reservations => read!(self, ReservationRow, job, page),
            JobTable::CapWarnings => read!(self, CapWarningRow, job, page),
            JobTable::Drafts => read!(self, DraftRow, job, page),
            JobTable::ScheduleFires => read!(self, FireRow, job, page),
        }
    }
}
