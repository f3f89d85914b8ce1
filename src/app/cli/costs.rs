//! `forgehand costs`: what calls of models cost, from the ledger. Never shows a call of unknown price
//! as one that cost nothing.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use serde_json::json;

use super::progress::in_thousands;
use super::screen::paint::{columns, fit, one_line};
use super::screen::terminal_width;
use super::{Context, show};
use crate::clock::Clock;
use crate::ids::RepoName;
use crate::store::{CostFilter, CostRow, CostsBy};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand costs                           what each day cost
  forgehand costs --by issue --since 7d     the dearest issues and pull requests of the last 7 days
  forgehand costs --by job --repo octo/words --limit 5
  forgehand costs --by model --since 2026-01-01 --json

Days begin at 00:00 UTC. Calls whose price is unknown (`model.prices`) count tokens, no money, and no \
cap of money stops them; they stand in a column of their own.")]
pub(super) struct Args {
    /// What is summed up.
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,
    /// Only calls since then: so many days (7d), or a date (2026-01-31).
    #[arg(long, value_name = "DAYS|DATE", value_parser = parse_since)]
    since: Option<Since>,
    /// Only calls for this repository.
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<RepoName>,
    /// Most rows shown: the latest days, otherwise the dearest.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    Job,
    Issue,
    Repository,
    Day,
    Installation,
    Model,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// So many days, today being the last of them.
    Days(u64),
    Date(NaiveDate),
}

/// More days than anything was ever recorded for.
const MAX_DAYS: u64 = 100_000;

pub(super) fn parse_since(text: &str) -> Result<Since, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    match (days, text.parse()) {
        (Some(days @ 1..=MAX_DAYS), _) => Ok(Since::Days(days)),
        (None, Ok(date)) => Ok(Since::Date(date)),
        _ => Err("a number of days such as 7d, or a date such as 2026-01-31, is expected".to_owned()),
    }
}

impl Since {
    pub(super) fn time(self, now: DateTime<Utc>) -> DateTime<Utc> {
        let date = match self {
            Since::Date(date) => date,
            Since::Days(days) => now
                .date_naive()
                .checked_sub_days(Days::new(days - 1))
                .unwrap_or_default(),
        };
        date.and_time(NaiveTime::MIN).and_utc()
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let filter = CostFilter {
        since: args.since.map(|since| since.time(Clock::System.now())),
        repo: args.repo,
        limit: args.limit,
    };
    let by = match args.by {
        By::Job => CostsBy::Job,
        By::Issue => CostsBy::Issue,
        By::Repository => CostsBy::Repository,
        By::Day => CostsBy::Day,
        By::Installation => CostsBy::Installation,
        By::Model => CostsBy::Model,
    };
    let all = CostFilter {
        limit: 1,
        ..filter.clone()
    };
    let read = async {
        let mut tx = app.store().begin().await?;
        let rows = tx.costs(by, &filter).await?;
        Ok::<_, crate::store::StoreError>((rows, tx.costs(CostsBy::Nothing, &all).await?))
    };
    let read = read.await;
    app.store().close().await;
    let (rows, total) = read?;
    if args.json {
        show::json(&json!({"since": filter.since, "rows": rows, "total": total.first()}))?;
    } else if rows.is_empty() {
        say!("no calls of a model");
    } else {
        let width = terminal_width().filter(|_| std::io::stdout().is_terminal());
        let total = total.first().cloned();
        table(args.by, &rows, total.as_ref(), width)
            .iter()
            .for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Least width of the first column.
const MIN_NAME: usize = 16;

/// The rows as lines: names to the left and as wide as they are, or as the terminal lets them be;
/// numbers to the right. What has no known price is only there where there is some.
fn table(by: By, rows: &[CostRow], total: Option<&CostRow>, width: Option<usize>) -> Vec<String> {
    let title = match by {
        By::Job => "job",
        By::Issue => "issue or pull request",
        By::Repository => "repository",
        By::Day => "day (UTC)",
        By::Installation => "installation",
        By::Model => "model",
    };
    let some_unpriced = total.is_some_and(|total| total.unpriced_calls > 0);
    let mut head = [title, "calls", "tokens in", "out", "cost"].map(str::to_owned).to_vec();
    if some_unpriced {
        head.push("price unknown".to_owned());
    }
    let mut lines = vec![head];
    let named = rows.iter().map(|row| (one_line(&row.name), row));
    let summed = total.map(|total| ("all".to_owned(), total));
    lines.extend(named.chain(summed).map(|(name, row)| cells(name, row, some_unpriced)));
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().map(|line| columns(&line[at])).max().unwrap_or(0))
        .collect();
    let numbers: usize = widths[1..].iter().map(|width| width + 2).sum();
    let name = match width {
        Some(width) => widths[0].min(width.saturating_sub(numbers).max(MIN_NAME)),
        None => widths[0],
    };
    lines
        .iter()
        .map(|line| {
            let first = fit(&line[0], name);
            let pad = " ".repeat(name.saturating_sub(columns(&first)));
            let rest = line[1..].iter().zip(&widths[1..]);
            let rest: String = rest.map(|(cell, width)| format!("  {cell:>width$}")).collect();
            format!("{first}{pad}{rest}").trim_end().to_owned()
        })
        .collect()
}

fn cells(name: String, row: &CostRow, some_unpriced: bool) -> Vec<String> {
    let count = |number: i64| in_thousands(u64::try_from(number).unwrap_or(0));
    let cost = match row.calls > 0 && row.unpriced_calls == row.calls {
        true => "unknown".to_owned(),
        false => row.micro_usd.to_string(),
    };
    let mut cells = vec![
        name,
        row.calls.to_string(),
        count(row.input_tokens),
        count(row.output_tokens),
        cost,
    ];
    if some_unpriced {
        cells.push(match row.unpriced_calls {
            0 => String::new(),
            1 => format!("1 call, {} tokens", count(row.unpriced_tokens)),
            calls => format!("{calls} calls, {} tokens", count(row.unpriced_tokens)),
        });
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Usd;

    fn row(name: &str, calls: i64, micros: i64, unpriced_calls: i64) -> CostRow {
        CostRow {
            name: name.to_owned(),
            calls,
            input_tokens: calls * 7_000,
            output_tokens: calls * 90,
            micro_usd: Usd::from_micros(micros),
            unpriced_calls,
            unpriced_tokens: unpriced_calls * 7_090,
        }
    }

    #[test]
    fn a_table_stands_in_columns_whatever_the_width() {
        let rows = [
            row("octo/words issue/12", 14, 1_234_567, 0),
            row("octo/a-repository-with-a-very-long-name pull/7", 3, 400, 1),
            row("octo/free issue/1", 2, 0, 2),
        ];
        let total = row("all", 19, 1_234_967, 3);
        insta::assert_snapshot!(table(By::Issue, &rows, Some(&total), None).join("\n"), @"
        issue or pull request                           calls  tokens in   out     cost          price unknown
        octo/words issue/12                                14      98.0k  1.3k    $1.23
        octo/a-repository-with-a-very-long-name pull/7      3      21.0k   270  $0.0004    1 call, 7.1k tokens
        octo/free issue/1                                   2      14.0k   180  unknown  2 calls, 14.2k tokens
        all                                                19     133.0k  1.7k    $1.23  3 calls, 21.3k tokens
        ");
        let narrow = table(By::Issue, &rows, Some(&total), Some(80));
        insta::assert_snapshot!(narrow.join("\n"), @"
        issue or pull request     calls  tokens in   out     cost          price unknown
        octo/words issue/12          14      98.0k  1.3k    $1.23
        octo/a-repository-with-…      3      21.0k   270  $0.0004    1 call, 7.1k tokens
        octo/free issue/1             2      14.0k   180  unknown  2 calls, 14.2k tokens
        all                          19     133.0k  1.7k    $1.23  3 calls, 21.3k tokens
        ");
        assert!(narrow.iter().all(|line| columns(line) <= 80), "{narrow:#?}");
        let priced = table(By::Day, &rows[..1], Some(&rows[0]), Some(80)).join("\n");
        assert!(!priced.contains("unknown"), "{priced}");
    }

    #[test]
    fn since_is_a_number_of_days_or_a_date() {
        let now: DateTime<Utc> = "2026-03-02T10:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("1d", "2026-03-02T00:00:00Z"),
            ("7d", "2026-02-24T00:00:00Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z"),
        ] {
            let since = parse_since(text).unwrap().time(now);
            assert_eq!(since, expected.parse::<DateTime<Utc>>().unwrap(), "{text}");
        }
        for text in ["", "d", "0d", "7", "-1d", "100001d", "2026-02-30", "yesterday"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
