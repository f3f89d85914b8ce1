//! The ports of a run from the configuration, and the sandbox's section completed with what this
//! machine has. Never opens a database, and never shows a home folder itself to a sandbox.

use std::path::Path;
use std::sync::Arc;

use super::approvals::Approvals;
use super::{Surroundings, record};
use crate::agent::{People, Unattended};
use crate::clock::Clock;
use crate::config::{AgentConfig, Config, EgressConfig, PermissionMode, Problems, SandboxConfig, WebConfig};
use crate::egress::{Egress, detect_registries};
use crate::git::Git;
use crate::model::{self, Live, Model};
use crate::net::{self, Net, Reach};
use crate::permission::Policy;
use crate::retrieval::code_search::Indexes;
use crate::retrieval::index::Limits;
use crate::run::{Ports, Record};
use crate::sandbox::detect_toolchains;
use crate::secret::Redactor;
use crate::skill::{Shelf, load_folder};
use crate::tool::Web;

/// An address that no name server knows, by RFC 2606.
const NOWHERE: &str = "https://search.invalid/?q={query}";

/// What runs need; no database and no state folder is among it.
pub(super) fn open(
    config: &Config,
    surroundings: &Surroundings,
    clock: &Clock,
    redactor: &Redactor,
) -> anyhow::Result<Ports> {
    // A model that cannot be opened is a mistake in its section: nothing has been called yet.
    let model = model::open(&config.model, redactor).map_err(|error| Problems(vec![format!("{error:#}")]));
    let rest = parts(config, surroundings, redactor);
    match (model, rest) {
        (Ok(model), Ok(parts)) => assemble(model, parts, config, surroundings, clock, redactor),
        (Err(Problems(mut problems)), Err(Problems(more))) => {
            problems.extend(more);
            Err(Problems(problems).into())
        }
        (Err(problems), Ok(_)) | (Ok(_), Err(problems)) => Err(problems.into()),
    }
}

/// What is made from the configuration alone.
struct Parts {
    permission: Policy,
    web: Option<Arc<Web>>,
    egress: Egress,
    skills: Shelf,
}

/// Everything that is wrong comes at once.
fn parts(config: &Config, surroundings: &Surroundings, redactor: &Redactor) -> Result<Parts, Problems> {
    let web = match config.web.in_jobs {
        true => web(config, Reach::Listed, redactor).map(Some),
        false => Ok(None),
    };
    let egress = egress(&config.egress, surroundings);
    match (permission(config), web, egress, skills(&config.agent)) {
        (Ok(permission), Ok(web), Ok(egress), Ok(skills)) => Ok(Parts {
            // Whoever sits at a terminal is somebody to ask; a job of the service has nobody.
            permission: permission.unattended(),
            web,
            egress,
            skills,
        }),
        (permission, web, egress, skills) => {
            let all = [permission.err(), web.err(), egress.err(), skills.err()];
            Err(Problems(
                all.into_iter().flatten().flat_map(|Problems(found)| found).collect(),
            ))
        }
    }
}

/// The same with a model that is there already; the configured one is left alone.
pub(super) fn with_model(
    model: Arc<dyn Model>,
    config: &Config,
    surroundings: &Surroundings,
    clock: &Clock,
    redactor: &Redactor,
) -> anyhow::Result<Ports> {
    let parts = parts(config, surroundings, redactor)?;
    assemble(model, parts, config, surroundings, clock, redactor)
}

fn assemble(
    model: Arc<dyn Model>,
    parts: Parts,
    config: &Config,
    surroundings: &Surroundings,
    clock: &Clock,
    redactor: &Redactor,
) -> anyhow::Result<Ports> {
    let git = Git::find()?;
    Ok(Ports {
        git: git.clone(),
        model,
        permission: parts.permission,
        people: Arc::new(Unattended),
        live: Live::default(),
        memory: None,
        web: parts.web,
        desk: None,
        sandbox: sandbox(&config.sandbox, surroundings),
        egress: parts.egress,
        agent: config.agent.clone(),
        indexes: record::folder(config, surroundings)
            .filter(|_| config.retrieval.enabled)
            .and_then(|records| Some(indexes(config, surroundings, &git, records.parent()?))),
        trees: None,
        setups: None,
        workspace: config.workspace.clone(),
        retrieval: config.retrieval.clone(),
        skills: parts.skills,
        budget: config.budget.clone(),
        language: config.github.language.into(),
        clock: clock.clone(),
        redactor: redactor.clone(),
    })
}

/// Where the indexes of code are kept: below a state folder.
pub(super) fn indexes(config: &Config, surroundings: &Surroundings, git: &Git, state_dir: &Path) -> Indexes {
    let retrieval = &config.retrieval;
    let limits = Limits {
        max_bytes: retrieval.max_disk_mib.saturating_mul(1 << 20),
        max_threads: retrieval.max_threads as usize,
        ..Limits::default()
    };
    Indexes::new(state_dir, &surroundings.program, git, limits)
}

/// The same ports for a run that a person began on a checkout: what the rules ask about reaches
/// whoever can be asked, and approvals for the checkout are kept where a state folder is set.
pub(super) fn for_person(mut ports: Ports, config: &Config, checkout: &Path) -> anyhow::Result<Ports> {
    ports.permission = ports.permission.attended();
    ports.web = Some(web(config, Reach::Permitted, &ports.redactor)?);
    if config.origins.contains_key("server.state_dir") {
        let kept = Approvals::load(&config.server.state_dir, checkout)?;
        ports.permission = ports.permission.for_repository(Arc::new(kept));
    }
    Ok(ports)
}

/// The same ports for running a recorded run again: the people answer from the record, and the
/// tools of the web are there if they were, but reach nothing.
pub(super) fn for_replay(
    mut ports: Ports,
    config: &Config,
    record: &Record,
    people: Arc<dyn People>,
) -> anyhow::Result<Ports> {
    ports.permission = ports.permission.attended();
    ports.people = people;
    ports.egress = Egress::closed();
    let nowhere = WebConfig {
        hosts: Vec::new(),
        unsafe_allow_all: false,
        allow_private: Vec::new(),
        search_url: config.web.search_url.as_ref().map(|_| NOWHERE.to_owned()),
        github_token: None,
        ..config.web.clone()
    };
    let config = Config {
        web: nowhere,
        ..config.clone()
    };
    ports.web = match record.web {
        true => Some(web(&config, Reach::Listed, &ports.redactor)?),
        false => None,
    };
    Ok(ports)
}

/// The rules of permission, with the listed hosts among them.
fn permission(config: &Config) -> Result<Policy, Problems> {
    let hosts = net::host_rules("web.hosts", &config.web.hosts).map_err(Problems)?;
    let mut rules = config.permission.clone();
    if config.web.unsafe_allow_all {
        rules.web = PermissionMode::Allow;
    }
    Policy::new(&rules, &hosts).map_err(Problems)
}

fn web(config: &Config, reach: Reach, redactor: &Redactor) -> Result<Arc<Web>, Problems> {
    let net = Net::new(&config.web).map_err(Problems)?;
    Ok(Arc::new(Web::new(
        net,
        reach,
        &config.web,
        &config.github.api_url,
        redactor,
    )))
}

/// The skills of this program and of the administrator. A broken one of the administrator's is a
/// mistake in the configuration.
fn skills(config: &AgentConfig) -> Result<Shelf, Problems> {
    let mut shelf = Shelf::shipped();
    if let Some(folder) = &config.skills_dir {
        let own = load_folder(folder).map_err(|problems| {
            Problems(
                problems
                    .iter()
                    .map(|problem| format!("agent.skills_dir: {problem}"))
                    .collect(),
            )
        })?;
        own.into_iter().for_each(|skill| shelf.add(skill));
    }
    shelf.disable(&config.disabled_skills);
    Ok(shelf)
}

/// The way out of sandboxes, with the registries that package managers are set up for where the
/// operator wants them.
pub(super) fn egress(config: &EgressConfig, surroundings: &Surroundings) -> Result<Egress, Problems> {
    let mut config = config.clone();
    if config.detect_registries {
        let home = surroundings.home.as_deref().unwrap_or(Path::new("/nonexistent"));
        let found = detect_registries(home, Path::new("/"));
        config.registries.extend(found);
    }
    Egress::new(&config).map_err(Problems)
}

/// The sandbox's section with this program as its helper, and with the compilers of the user that
/// stand outside /usr, shown read-only.
pub(super) fn sandbox(config: &SandboxConfig, surroundings: &Surroundings) -> SandboxConfig {
    let mut config = config.clone();
    // Without a home folder there may still be a RUSTUP_HOME.
    let home = surroundings.home.as_deref().unwrap_or(Path::new("/nonexistent"));
    for folder in detect_toolchains(home, surroundings.rustup_home.as_deref()) {
        let folder = folder.display().to_string();
        if !config.toolchains.contains(&folder) {
            config.toolchains.push(folder);
        }
    }
    config.helper.get_or_insert_with(|| surroundings.program.clone());
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigSources, load};
    use crate::permission::Decision;

    fn configured(flags: &[(&str, &str)]) -> (Config, Ports) {
        let flags = flags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let sources = ConfigSources {
            flags: flags.collect(),
            ..ConfigSources::default()
        };
        let config = load(&sources).unwrap();
        let surroundings = Surroundings {
            config_dir: None,
            program: "/bin/true".into(),
            home: None,
            rustup_home: None,
            state_home: None,
        };
        let ports = open(&config, &surroundings, &Clock::System, &Redactor::default()).unwrap();
        (config, ports)
    }

    fn tools(ports: &Ports) -> Vec<String> {
        let tools = ports.web.iter().flat_map(Web::tools);
        tools.map(|tool| tool.spec().name).collect()
    }

    #[test]
    fn n12_the_web_is_for_runs_of_people_and_for_jobs_only_where_it_says_so() {
        let (config, jobs) = configured(&[]);
        assert!(tools(&jobs).is_empty());
        let checkout = Path::new("/nowhere");
        assert!(
            tools(&for_person(jobs, &config, checkout).unwrap()).is_empty(),
            "no hosts, no tools"
        );

        let hosts = ("web.hosts", "docs.rs");
        let search = ("web.search_url", "https://searx.example");
        let (config, jobs) = configured(&[hosts, search]);
        assert!(tools(&jobs).is_empty(), "jobs have no network");
        assert!(matches!(
            jobs.permission.decide("web_fetch:evil.example"),
            Decision::Deny(_)
        ));
        let person = for_person(jobs, &config, checkout).unwrap();
        assert_eq!(
            tools(&person),
            ["web_fetch", "reverse_api", "search_web", "search_github"]
        );
        assert_eq!(person.permission.decide("web_fetch:docs.rs"), Decision::Allow);
        assert_eq!(person.permission.decide("web_fetch:evil.example"), Decision::Ask);

        let (_, jobs) = configured(&[hosts, search, ("web.in_jobs", "true")]);
        assert_eq!(
            tools(&jobs),
            ["web_fetch", "reverse_api"],
            "the other hosts are not listed"
        );
        assert_eq!(jobs.permission.decide("web_fetch:docs.rs"), Decision::Allow);
        assert!(matches!(
            jobs.permission.decide("web_fetch:evil.example"),
            Decision::Deny(_)
        ));
        let (_, jobs) = configured(&[("web.hosts", "searx.example"), search, ("web.in_jobs", "true")]);
        assert_eq!(tools(&jobs), ["web_fetch", "reverse_api", "search_web"]);
    }

    #[test]
    fn a_wrong_rule_or_host_is_a_mistake_in_the_configuration() {
        for (key, value, words) in [
            ("permission.allow", "run_command", "permission.allow: "),
            ("permission.deny", "Bash(gh:*)", "permission.deny: "),
            ("web.hosts", "*", "web.hosts: "),
            ("web.allow_private", "searx", "web.allow_private: "),
            ("web.timeout_seconds", "0", "web.timeout_seconds: "),
        ] {
            let sources = ConfigSources {
                flags: vec![(key.to_owned(), value.to_owned())],
                ..ConfigSources::default()
            };
            let loaded = load(&sources).map_err(|problems| problems.to_string());
            let problems = loaded.err().unwrap_or_default();
            assert!(problems.contains(words), "{key}={value}: {problems}");
        }
        let both = ConfigSources {
            flags: vec![
                ("web.in_jobs".to_owned(), "true".to_owned()),
                ("web.unsafe_allow_all".to_owned(), "true".to_owned()),
            ],
            ..ConfigSources::default()
        };
        assert!(load(&both).unwrap_err().to_string().contains("web.in_jobs: "));
    }
}
