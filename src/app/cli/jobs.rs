//! `forgehand jobs`: list, show with events, answer, cancel, retry. Never edits rows by itself; every
//! change is a transition of the store.

use std::process::ExitCode;

use anyhow::bail;

use super::{Context, show};
use crate::audit::OPERATOR;
use crate::ids::JobId;
use crate::job::{Job, JobState};
use crate::question::Reply;
use crate::retention::{missing, where_is};
use crate::secret::random_hex;
use crate::store::{AnswerResult, CancelResult, JobFilter, Store};
use crate::text;

/// Longest answer; a person writes less.
const MAX_ANSWER_BYTES: usize = 32 * 1024;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List jobs, newest first.
    List {
        /// Only jobs in this state; may be repeated.
        #[arg(long = "state", value_name = "STATE", value_parser = parse_state)]
        states: Vec<JobState>,
        /// Most jobs shown.
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: u32,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one job with its events and effects; `forgehand show` is for reading.
    Show {
        /// The job's id, as `jobs list` shows it.
        id: JobId,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Answer what a waiting job asks, as the operator of this machine.
    Answer {
        /// The job's id, as `jobs list` shows it.
        id: JobId,
        /// The answer; with several questions, lines that begin with their numbers.
        text: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stop a job; its worker ends it within seconds and keeps the work on a branch.
    Cancel {
        /// The job's id, as `jobs list` shows it.
        id: JobId,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Queue a job once more that failed or was stopped.
    Retry {
        /// The job's id, as `jobs list` shows it.
        id: JobId,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

fn parse_state(text: &str) -> Result<JobState, String> {
    text.parse().map_err(|_| {
        let words: Vec<&str> = JobState::ALL.iter().map(|state| state.as_str()).collect();
        format!("one of {}", words.join(", "))
    })
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let done = act(app.store(), args.action).await;
    app.store().close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn act(store: &Store, action: Action) -> anyhow::Result<()> {
    let mut tx = store.begin().await?;
    tx.act_as(OPERATOR);
    match action {
        Action::List { states, limit, json } => {
            let jobs = tx
                .jobs(&JobFilter {
                    states,
                    limit,
                    ..JobFilter::default()
                })
                .await?;
            if json {
                show::json(&jobs)?;
            } else if jobs.is_empty() {
                say!("no jobs");
            } else {
                jobs.iter().for_each(print_line);
            }
        }
        Action::Show { id, json } => show_one(&mut tx, &id, json).await?,
        Action::Answer { id, text, json } => {
            let reply = Reply {
                by: "the operator".to_owned(),
                words: text::cap(&text, MAX_ANSWER_BYTES),
                at: crate::clock::Clock::System.now(),
            };
            let source = format!("command line {}", random_hex::<8>());
            let result = tx.answer_job(&id, &source, &reply).await?;
            tx.commit().await?;
            match result {
                AnswerResult::Taken => {}
                AnswerResult::NothingAsked => {
                    bail_if_moved(store, &id).await?;
                    bail!("job {id} asks nothing, or there is no such job")
                }
                AnswerResult::TooMany => bail!("the question of job {id} has too many answers already"),
            }
            store.ring();
            tell(&id, "answered", "goes on with the answer", json)?;
        }
        Action::Cancel { id, json } => {
            let result = tx
                .cancel_job(&id, "stopped at the command line", crate::clock::Clock::System.now())
                .await?;
            tx.commit().await?;
            let (word, sentence) = match result {
                CancelResult::Cancelled => ("cancelled", "is cancelled"),
                CancelResult::Requested => ("requested", "was asked to stop; its worker does so within seconds"),
                CancelResult::TooLate => {
                    bail_if_moved(store, &id).await?;
                    bail!("job {id} is over already, or there is no such job")
                }
            };
            tell(&id, word, sentence, json)?;
        }
        Action::Retry { id, json } => {
            let queued = tx.requeue_job(&id, crate::clock::Clock::System.now()).await?;
            tx.commit().await?;
            if !queued {
                bail_if_moved(store, &id).await?;
                bail!("job {id} cannot be queued again: it is not over, or another job does the same");
            }
            store.ring();
            tell(&id, "queued", "is queued again", json)?;
        }
    }
    Ok(())
}

/// What became of a job: a word for scripts, a sentence for people.
fn tell(id: &JobId, word: &str, sentence: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return show::json(&serde_json::json!({"job": id, "result": word}));
    }
    say!("job {id} {sentence}");
    Ok(())
}

fn print_line(job: &Job) {
    let reason = job
        .reason
        .as_deref()
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default();
    say!(
        "{}  {:10}  {:8}  {}  {}  {}",
        job.id,
        job.state,
        job.kind,
        show::time(job.created_at),
        format_args!("{} {}", job.repo, job.subject),
        text::cap_chars(reason, 60)
    );
}

/// A job that left the database is no mystery.
async fn bail_if_moved(store: &Store, id: &JobId) -> anyhow::Result<()> {
    match where_is(&mut store.begin().await?, id).await? {
        Some(moved) => bail!("{moved}; it can be read there and not be begun again: ask for the work anew"),
        None => Ok(()),
    }
}

async fn show_one(tx: &mut crate::store::Tx, id: &JobId, json: bool) -> anyhow::Result<()> {
    let Some(job) = tx.job(id).await? else {
        bail!(missing(tx, id).await?);
    };
    let events = tx.events(id, 0, 10_000).await?;
    let effects = tx.effects(id).await?;
    let asked = tx.last_question(id).await?.filter(|_| job.state == JobState::Waiting);
    if json {
        return show::json(&serde_json::json!({"job": job, "asked": asked, "events": events, "effects": effects}));
    }
    print_line(&job);
    say!(
        "asked by {} · attempt {} of {} · fence {}",
        job.request.actor.login,
        job.attempt,
        job.max_attempts,
        job.fence
    );
    if let Some(outcome) = &job.outcome {
        say!("outcome: {}", serde_json::to_string(outcome)?);
    }
    if let Some(asked) = &asked {
        say!("waits until {} for an answer to", show::time(asked.answer_by));
        for (at, line) in asked.question.lines().iter().enumerate() {
            say!("{:5}. {}", at + 1, text::plain_output(&text::cap_chars(line, 500)));
        }
    }
    say!("\nevents");
    for event in events {
        let body = serde_json::to_string(&event.body)?;
        say!(
            "{:5}  {}  {}",
            event.seq,
            show::time(event.at),
            text::cap_chars(&text::plain_output(&body), 200)
        );
    }
    say!("\neffects");
    for effect in effects {
        let remote = effect
            .remote_id
            .as_deref()
            .or(effect.problem.as_deref())
            .unwrap_or_default();
        say!(
            "{:5}  {:10}  {:15}  tries {}  {}",
            effect.seq,
            effect.state,
            effect.body.kind(),
            effect.tries,
            text::cap_chars(remote, 120)
        );
    }
    Ok(())
}
