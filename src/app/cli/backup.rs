//! `forgehand backup`: a copy of the database while the service runs; where the database is
//! PostgreSQL, how PostgreSQL's own program makes one. Never brings the schema up to date: the
//! copy before an upgrade is of the database as it is.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::{Context, missing_database, show};
use crate::store::{Store, back_up};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The service may run meanwhile. Keep STATE_DIR/credentials, STATE_DIR/instance and the files that the \
configuration names (keys, secrets) with it; mirrors and workspaces are made again. To restore: stop the \
service, put the copy in the place of the database file, remove the files beside it that end in -wal and \
-shm, start the service. Work that was done after the copy is found on GitHub and not done again.")]
pub(super) struct Args {
    /// The new file; one that exists is not overwritten.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let url = config.database_url();
    let Some(database) = Store::file(&url)? else {
        bail!(
            "the database is PostgreSQL, which makes its own copies while the service runs:\n  {}\nIt asks for the \
             password, or finds it in PGPASSWORD or ~/.pgpass",
            pg_dump(url.expose(), &args.file)
        );
    };
    if let Some(file) = missing_database(&config)? {
        bail!(
            "there is no database at {}; if the service keeps its files elsewhere, name the folder with \
             --set server.state_dir=FOLDER",
            file.display()
        );
    }
    let made = back_up(&database, &args.file)
        .await
        .with_context(|| format!("back up {}", database.display()))?;
    if args.json {
        show::json(&json!({"file": args.file, "bytes": made.bytes, "schema": made.schema}))?;
    } else {
        say!(
            "{}: {:.1} MB, schema {}, checked. Keep {} with it",
            args.file.display(),
            made.bytes as f64 / 1e6,
            made.schema,
            config.server.state_dir.join("credentials").display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that copies a database of PostgreSQL, without the password of its address.
fn pg_dump(url: &str, file: &std::path::Path) -> String {
    let address = match url::Url::parse(url) {
        Ok(mut address) => {
            let _ = address.set_password(None);
            let kept: Vec<(String, String)> = address
                .query_pairs()
                .filter(|(name, _)| !name.contains("password"))
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect();
            address.set_query(None);
            if !kept.is_empty() {
                address.query_pairs_mut().extend_pairs(kept);
            }
            address.to_string()
        }
        Err(_) => "postgresql://USER@HOST/DATABASE".to_owned(),
    };
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    format!(
        "umask 077; pg_dump --format=custom --file={} {}",
        quoted(&file.to_string_lossy()),
        quoted(&address)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let command = pg_dump(url, std::path::Path::new("it's.dump"));
        let expected = format!("umask 077; pg_dump --format=custom --file='it'\\''s.dump' '{expected}'");
        assert_eq!(command, expected);
    }

    #[test]
    fn the_password_is_not_in_the_command() {
        check("postgres://mona:hunter2@db:5433/agent", "postgres://mona@db:5433/agent");
        check(
            "postgresql:///agent?host=/run/pg&user=mona&password=hunter2",
            "postgresql:///agent?host=%2Frun%2Fpg&user=mona",
        );
        check("postgres://mona:hunter2@db:no/agent", "postgresql://USER@HOST/DATABASE");
    }
}
