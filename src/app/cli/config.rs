//! `forgehand config`: a commented file to begin with, the values in force with their origin, and
//! the table of all keys. Never prints a secret.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Context, show};
use crate::config::{KeyInfo, sections};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write a file with every key, its meaning and its default, commented out.
    Init {
        /// Where to.
        #[arg(default_value = "forgehand.toml")]
        file: PathBuf,
        /// Replace a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Show the values in force and where each comes from.
    Show {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print all keys as a Markdown table.
    Table,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Init { file, force } => init(&file, force)?,
        Action::Show { json } => effective(context, json)?,
        Action::Table => print!("{}", table()),
    }
    Ok(ExitCode::SUCCESS)
}

fn init(file: &std::path::Path, force: bool) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut out = options
        .open(file)
        .with_context(|| format!("write {} (use --force to replace a file)", file.display()))?;
    out.write_all(commented().as_bytes())?;
    println!(
        "wrote {}; every line is a comment: uncomment what you change",
        file.display()
    );
    Ok(())
}

fn effective(context: &Context, json: bool) -> anyhow::Result<()> {
    let config = crate::config::load(&context.sources()?)?;
    let values = config.effective();
    if json {
        let rows: Vec<_> = values
            .iter()
            .map(|(key, value, origin)| serde_json::json!({"key": key, "value": value, "origin": origin.to_string()}))
            .collect();
        return show::json(&rows);
    }
    for (key, value, origin) in values {
        println!("{key} = {value}   ({origin})");
    }
    Ok(())
}

/// The file that `config init` writes.
fn commented() -> String {
    let mut text = "# Forgehand. Every key is optional; lines show the defaults.\n# Each key can be set by the environment too: FORGEHAND_SECTION__KEY.\n# A secret has a twin KEY_file with the path of a file (mode 0600) that holds it.\n".to_owned();
    for section in sections() {
        let _ = write!(text, "\n# {}\n[{}]\n", section.about, section.name);
        for key in section.keys {
            let value = if key.default.is_empty() {
                unset_example(&key)
            } else {
                key.default.to_owned()
            };
            let _ = write!(text, "# {}\n# {} = {value}\n", key.about, key.name);
        }
    }
    text
}

fn unset_example(key: &KeyInfo) -> String {
    format!("…   ({}; not set)", key.kind)
}

/// All keys as a Markdown table, which the README shows.
pub fn table() -> String {
    let mut text = "| key | default | meaning |\n|---|---|---|\n".to_owned();
    for section in sections() {
        for key in section.keys {
            let default = if key.default.is_empty() {
                "–".to_owned()
            } else {
                format!("`{}`", key.default.replace('|', "\\|"))
            };
            let twin = if key.secret { " (or `_file`)" } else { "" };
            let _ = writeln!(
                text,
                "| `{}.{}`{twin} | {default} | {} |",
                section.name,
                key.name,
                key.about.replace('|', "\\|")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_file_is_toml_and_changes_nothing() {
        let table: toml::Table = commented().parse().unwrap();
        assert!(table.values().all(|section| section.as_table().unwrap().is_empty()));
    }

    #[test]
    fn the_readme_shows_the_table_of_keys() {
        let readme = include_str!("../../../README.md");
        assert!(
            readme.contains(table().trim()),
            "README.md does not show the output of `forgehand config table`"
        );
    }
}
