//! `forgehand doctor --sandbox`: the layers of a real sandbox, each tried from inside, as a table with
//! a remedy for each that is weaker than it could be. Never guesses from the configuration alone.

use std::process::ExitCode;

use super::{show, surroundings};
use crate::app::ports;
use crate::closed;
use crate::config::Config;
use crate::sandbox::{self, Layer, LayerState, SandboxError};

/// What was found.
struct Found {
    backend: String,
    layers: Vec<Layer>,
}

pub(super) async fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let found = look(config).await?;
    let is_whole = found.layers.iter().all(|layer| layer.state != LayerState::Missing);
    if json {
        show::json(&serde_json::json!({"ok": is_whole, "backend": found.backend, "layers": found.layers}))?;
    } else {
        print(&found);
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(config: &Config) -> anyhow::Result<Found> {
    let values = config.effective().into_iter();
    let backend = values
        .filter(|(key, _, _)| *key == "sandbox.backend")
        .map(|(_, value, _)| value.to_string());
    let backend: String = backend.collect();
    let surroundings = surroundings()?;
    let egress = ports::egress(&config.egress, &surroundings)?;
    let config = ports::sandbox(&config.sandbox, &surroundings);
    let scratch = closed::temporary("forgehand-doctor-")?;
    let gate = egress.open(scratch.path(), None)?;
    let way_out = gate.as_ref().map(|gate| gate.way_out());
    let examined = sandbox::examine(&config, &scratch.path().join("run"), way_out).await;
    if let Some(gate) = gate {
        gate.close().await;
    }
    let (backend, mut layers) = match examined {
        Ok((description, layers)) => (description.backend, layers),
        Err(SandboxError::Unavailable { problem, remedy }) => {
            (backend, vec![Layer::missing("sandbox", problem, remedy)])
        }
        Err(error) => return Err(error.into()),
    };
    if egress.is_dangerous() {
        let remedy = "List the hosts that are needed in egress.hosts instead";
        layers.push(Layer::weaker("hosts that may be reached", egress.in_words(), remedy));
    }
    Ok(Found { backend, layers })
}

fn print(found: &Found) {
    say!("the sandbox `{}`, tried from inside\n", found.backend);
    let wide = found.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0);
    for layer in &found.layers {
        let state = match layer.state {
            LayerState::InForce => "in force",
            LayerState::Weaker => "weaker",
            LayerState::Missing => "MISSING",
        };
        say!("{:wide$}  {state:8}  {}", layer.name, layer.detail);
        if let Some(remedy) = &layer.remedy {
            say!("{:wide$}            → {remedy}", "");
        }
    }
    let count = |state| found.layers.iter().filter(|layer| layer.state == state).count();
    match (count(LayerState::Missing), count(LayerState::Weaker)) {
        (0, 0) => say!("\nevery layer is in force"),
        (0, weaker) => say!("\nno layer is missing; {weaker} could be stronger"),
        (missing, _) => say!("\n{missing} missing: do not run strangers' code here before that is mended"),
    }
}
