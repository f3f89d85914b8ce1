//! `forgehand doctor --model`: the answers of the configured server to small questions, as a table
//! or as JSON. Never asks before it has said what that may cost.

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::app::cli::{Usage, show};
use crate::config::{Config, ModelProvider};
use crate::model::probe::{self, Shown, Standing};
use crate::secret::Redactor;

pub(super) async fn run(config: &Config, max_context_tokens: u64, json: bool) -> anyhow::Result<ExitCode> {
    if config.model.provider == ModelProvider::Stub {
        let words =
            "no model is set up. Set model.provider = \"openai\", model.base_url, model.name and model.api_key_file";
        return Err(Usage(words.to_owned()).into());
    }
    let redactor = Redactor::default();
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let mut reports = Vec::new();
    let mut fails = 0;
    for probe in probe::probes(&config.model, max_context_tokens, &redactor)? {
        note!("{}", probe.announcement());
        if !json {
            say!("{}", probe.name());
        }
        let mut see = |shown: &Shown| {
            if !json {
                print(shown);
            }
        };
        let probe = probe.run(&CancellationToken::new(), &mut see).await;
        if !json {
            say!("  {}", probe.spent());
        }
        fails += probe
            .shown()
            .iter()
            .filter(|shown| shown.standing == Standing::Fails)
            .count();
        reports.push(serde_json::json!({"model": probe.name(), "findings": probe.shown(), "spent": probe.spent()}));
    }
    if json {
        show::json(&serde_json::json!({"ok": fails == 0, "models": reports}))?;
    } else {
        match fails {
            0 => say!("\nthis can be worked with"),
            1 => say!("\none thing has to be mended"),
            many => say!("\n{many} things have to be mended"),
        }
    }
    Ok(if fails == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(shown: &Shown) {
    let mark = match shown.standing {
        Standing::Works => "ok",
        Standing::Limited => "hint",
        Standing::Fails => "FAIL",
    };
    say!("  {mark:4}  {:14}  {}", shown.what, shown.detail);
    if let Some(fix) = &shown.fix {
        say!("        {:14}  → {fix}", "");
    }
}
