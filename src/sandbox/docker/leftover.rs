//! Containers that a killed service could not remove. Usually they end by themselves, because their
//! first process loses its connection; this finds the ones that did not. Called when a sandbox opens,
//! now and then by the service, and for `forgehand recover`.
//! Never touches a container without our label, nor one whose service is alive.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::container::remove;
use super::engine::Engine;

/// Says which process a container belongs to.
pub(super) const OWNER_LABEL: &str = "forgehand.owner";

/// Longest wait of a run for the removal of what others left: it takes a part of a second.
const MOMENT: Duration = Duration::from_secs(5);

/// Our process: boot of the machine, process namespace, number, start.
pub(super) fn own_label() -> String {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    };
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let process = std::process::id();
    let started = started(process).unwrap_or_default();
    format!(
        "{}/{}/{process}/{started}",
        read("/proc/sys/kernel/random/boot_id"),
        namespace.display()
    )
}

/// Removes what dead services left. Best effort: the run at hand does not depend on it, and waits for
/// no container that the engine itself does not get rid of.
pub(super) async fn sweep_for_a_moment(engine: &Engine) {
    let sweep = async {
        for id in found(engine).await {
            remove(&engine.docker, &id).await;
        }
    };
    if tokio::time::timeout(MOMENT, sweep).await.is_err() {
        tracing::warn!(
            "the container engine does not get rid of what a dead service left; the run begins all the same"
        );
    }
}

/// The containers that dead services left, by id.
pub(super) async fn found(engine: &Engine) -> Vec<String> {
    let filters = HashMap::from([("label".to_owned(), vec![OWNER_LABEL.to_owned()])]);
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let Ok(found) = engine.docker.list_containers(Some(options)).await else {
        return Vec::new();
    };
    // Where /proc hides the processes of others, a service that is alive would look dead.
    if started(1).is_none() {
        return Vec::new();
    }
    let own = own_label();
    let is_left = |container: &ContainerSummary| {
        let runs = container.state == Some(ContainerSummaryStateEnum::RUNNING);
        is_leftover(&owner(container), &own, runs, started)
    };
    found
        .into_iter()
        .filter(is_left)
        .filter_map(|container| container.id)
        .collect()
}

fn owner(container: &ContainerSummary) -> String {
    let labels = container.labels.as_ref();
    labels
        .and_then(|labels| labels.get(OWNER_LABEL))
        .cloned()
        .unwrap_or_default()
}

/// Whether the process of a label is gone. Of processes that we cannot see only what does not run is
/// taken for a leftover, after another boot: a running container ends by itself after a day.
fn is_leftover(label: &str, own: &str, runs: bool, started: impl Fn(u32) -> Option<String>) -> bool {
    let parts = |label: &str| label.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (theirs, ours) = (parts(label), parts(own));
    let ([boot, namespace, process, start], [own_boot, own_namespace, ..]) = (theirs.as_slice(), ours.as_slice())
    else {
        return false;
    };
    if boot != own_boot {
        return !runs;
    }
    let Ok(process) = process.parse() else { return false };
    namespace == own_namespace && started(process).as_ref() != Some(start)
}

/// When a process started, in ticks since the boot; nothing when it is gone.
fn started(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold anything, also brackets and blanks; nineteen fields lie between.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, runs: bool, expected: bool) {
        let alive = |process| (process == 7).then(|| "100".to_owned());
        assert_eq!(
            is_leftover(label, "boot/pid:[1]/7/100", runs, alive),
            expected,
            "{label}"
        );
    }

    #[test]
    fn only_containers_of_dead_services_are_leftovers() {
        check("boot/pid:[1]/7/100", true, false);
        check("boot/pid:[1]/7/99", true, true);
        check("boot/pid:[1]/8/50", true, true);
        check("boot/pid:[2]/8/50", true, false);
        check("boot/pid:[2]/8/50", false, false);
        check("other/pid:[1]/8/50", true, false);
        check("other/pid:[1]/8/50", false, true);
        for broken in ["", "x", "boot/pid:[1]/x/1", "boot/pid:[1]/7", "a/b/c/d/e"] {
            check(broken, false, false);
        }
        let own = own_label();
        assert!(!is_leftover(&own, &own, true, started), "{own}");
    }
}
