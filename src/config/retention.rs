//! The section of what is kept, and for how long. Never knows what is done with what is old.

use super::section::section;

section! {
    /// How long things are kept. Days count from the end of a job, or from when a row was written.
    pub struct RetentionConfig "retention" {
        /// How long jobs that are over stay in the database with all that belongs to them, in days; then
        /// each goes into a file of the state folder. 0: for ever.
        runs_days: u32 = "90",
        /// How long webhook calls that arrived stay in the database, in days; by them a second arrival is
        /// known.
        deliveries_days: u32 = "14",
        /// How long sums of what archived jobs cost stay in the database, in days. 0: for ever.
        costs_days: u32 = "1095",
        /// How long rows of the audit stay in the database, in days; then they go into files of the state
        /// folder. 0: for ever.
        audit_days: u32 = "365",
        /// How long these files are kept, and those of `ledger.keep_days`, in days. 0: for ever.
        archive_days: u32 = "1095",
        /// Most of the disk for files of jobs, in MiB; the oldest go first. 0: no cap.
        archive_mib: u64 = "10240",
        /// How long the mirror of a repository stays that nothing was done in, in days. 0: for ever.
        mirror_days: u32 = "30",
    }
}

/// Last words of jobs that ended unsaid are looked for this long, and must find the job.
const LEAST_RUNS_DAYS: u32 = 8;
/// GitHub sends webhook calls again for three days.
const LEAST_DELIVERIES_DAYS: u32 = 4;
/// A number of days that no date overflows with.
const MOST_DAYS: u32 = 36_500;

impl RetentionConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        if (1..LEAST_RUNS_DAYS).contains(&self.runs_days) {
            problems.push(format!(
                "retention.runs_days: at least {LEAST_RUNS_DAYS}, or 0 for ever: what is said after the end of a job \
                 needs it"
            ));
        }
        if self.deliveries_days < LEAST_DELIVERIES_DAYS {
            problems.push(format!(
                "retention.deliveries_days: at least {LEAST_DELIVERIES_DAYS}: GitHub sends again what is younger"
            ));
        }
        for (key, days) in [
            ("runs_days", self.runs_days),
            ("deliveries_days", self.deliveries_days),
            ("costs_days", self.costs_days),
            ("audit_days", self.audit_days),
            ("archive_days", self.archive_days),
            ("mirror_days", self.mirror_days),
        ] {
            if days > MOST_DAYS {
                problems.push(format!("retention.{key}: at most {MOST_DAYS}"));
            }
        }
    }
}
