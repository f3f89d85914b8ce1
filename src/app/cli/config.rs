//! `forgehand config`: a commented file to begin with, the values in force with their origin, and
//! the table of all keys. Never prints a secret.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Context, show};
use crate::config::{Config, KeyInfo, sections};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write a file with every key, its meaning and its default, commented out.
    Init {
        /// The file to write.
        #[arg(default_value = "forgehand.toml")]
        file: PathBuf,
        /// Replace a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Show the values in force and where each comes from.
    Show {
        /// Print the result as JSON.
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
        Action::Table => say!("{}", table().trim_end()),
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
    say!(
        "wrote {}; every line is a comment: uncomment what you change",
        file.display()
    );
    Ok(())
}

fn effective(context: &Context, json: bool) -> anyhow::Result<()> {
    let config = crate::config::load(&context.sources()?)?;
    if json {
        return show::json(&rows(&config));
    }
    for (key, value, origin) in config.effective() {
        say!("{key} = {value}   ({origin})");
    }
    Ok(())
}

/// The values in force for scripts.
pub(super) fn rows(config: &Config) -> Vec<serde_json::Value> {
    let values = config.effective().into_iter();
    values
        .map(|(key, value, origin)| serde_json::json!({"key": key, "value": value, "origin": origin.to_string()}))
        .collect()
}

/// The file that `config init` writes.
fn commented() -> String {
    let mut text = "# Forgehand. Every key is optional; the lines show the defaults.\n# Each key can be set by the environment too: FORGEHAND_SECTION__KEY.\n# A secret is written KEY, or KEY_file with the path of a file (mode 0600) that holds it.\n".to_owned();
    for section in sections() {
        let _ = match section.is_list {
            // Not begun, it is not there: one without its keys would be wrong.
            true => write!(text, "\n# {}\n# [[{}]]\n", section.about, section.name),
            false => write!(text, "\n# {}\n[{}]\n", section.about, section.name),
        };
        for key in section.keys {
            let _ = writeln!(text, "# {}\n# {}", key.about, line(&key));
        }
    }
    text
}

/// A key with its default, or with the kind of value that it takes.
fn line(key: &KeyInfo) -> String {
    match (key.default, key.secret) {
        ("", true) => format!("{}_file = \"PATH\"   # not set", key.name),
        ("", false) if key.kind.contains("number") || key.kind == "seconds" => {
            format!("{} = 0   # not set; {}", key.name, key.kind)
        }
        ("", false) => format!("{} = \"…\"   # not set; {}", key.name, key.kind),
        (default, _) => format!("{} = {default}", key.name),
    }
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
            let mark = if section.is_list { "[]" } else { "" };
            let _ = writeln!(
                text,
                "| `{}{mark}.{}`{twin} | {default} | {} |",
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
    fn every_line_that_is_uncommented_is_toml() {
        let is_key = |line: &&str| line.starts_with('[') || line.split_whitespace().nth(1) == Some("=");
        let lines = commented();
        let lines = lines.lines().map(|line| line.trim_start_matches("# "));
        let lines: Vec<&str> = lines.filter(is_key).collect();
        let table: toml::Table = lines.join("\n").parse().unwrap();
        let count = |section: &toml::Value| match section {
            toml::Value::Array(items) => items.iter().map(|item| item.as_table().unwrap().len()).sum(),
            section => section.as_table().unwrap().len(),
        };
        let keys = |table: &toml::Table| table.values().map(count).sum::<usize>();
        let known: usize = sections().iter().map(|section| section.keys.len()).sum();
        assert_eq!(keys(&table), known);
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
