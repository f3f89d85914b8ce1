//! One checkout, and all that the runs on it share: configuration, ports, screen, the folder for
//! temporary files. Made once by the commands; each run is begun by [`Site::work`]. Never knows what
//! the work is about.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::args::{Args, Asking, EventsTo, Presence};
use super::events::{End, Events};
use super::interrupt::{self, SharedPlace};
use super::local::{Done, Local, Order};
use super::own::Own;
use super::scratch::{self, Scratch};
use super::{people, somebody_answers};
use crate::app::cli::progress::Limits;
use crate::app::cli::screen::{self, Screen, paint};
use crate::app::cli::{Usage, surroundings};
use crate::app::{ports, record};
use crate::clock::Clock;
use crate::config::{Config, Problems};
use crate::event::Event;
use crate::git::{Git, GitError, LocalRepo, Signature, Uncommitted};
use crate::ids::{JobId, RunId};
use crate::recorder::Recorder;
use crate::run::{Place, Ports};
use crate::secret::Redactor;
use crate::workspace::remove_all;

/// What a run is begun with.
pub(super) struct Given {
    /// The configuration, if it is right.
    pub(super) config: Option<Config>,
    /// What is wrong with it.
    pub(super) problems: Vec<String>,
    pub(super) events: Arc<Events>,
    pub(super) redactor: Redactor,
}

/// What one run has for itself.
pub(super) struct Begun {
    pub(super) run: RunId,
    pub(super) place: Place,
    pub(super) ports: Ports,
    pub(super) recorder: Recorder,
}

/// A checkout that is worked on.
pub(super) struct Site {
    pub(super) config: Config,
    pub(super) ports: Ports,
    pub(super) repo: LocalRepo,
    /// What it says of itself, and whether that is obeyed.
    own: Own,
    /// Cancelled by a signal.
    pub(super) stop: CancellationToken,
    place: SharedPlace,
    scratch: Scratch,
    screen: Option<Screen>,
    events: Arc<Events>,
}

impl Site {
    /// Opens everything that can be wrong before any work.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration, the trust file and the checkout's own files
    /// at once; or what else is missing, in words.
    pub(super) async fn open(given: Given, args: &Args) -> anyhow::Result<Self> {
        let Given {
            config,
            mut problems,
            events,
            redactor,
        } = given;
        let (stop, place) = (CancellationToken::new(), SharedPlace::default());
        interrupt::listen(stop.clone(), place.clone(), events.clone())?;
        let git = Git::find()?;
        let repo = match open_repo(&git, &args.repo).await {
            Ok(repo) => repo,
            Err(error) => return Err(without_repo(error, config.as_ref(), problems, &redactor)),
        };
        let mut own = Own::read(&git, &repo, args, &stop, &mut problems).await?;
        let opened = match config {
            Some(mut config) => {
                own.narrow(&mut config, &mut problems);
                let opened = open_ports(&config, &own, &repo, args, &redactor);
                heed(opened, &mut problems)?.map(|ports| (config, ports))
            }
            None => None,
        };
        let (config, mut ports) = match opened {
            Some(opened) if problems.is_empty() => opened,
            _ => return Err(Problems(problems).into()),
        };
        somebody_answers(&config)?;
        let look = args.look();
        if look.is_some() {
            introduce(&ports, &repo).await;
        } else if args.events() != EventsTo::Errors {
            // With a screen, and in the events, they are part of the run.
            own.notes.iter().for_each(|text| note!("forgehand: {text}"));
        }
        let limits = Limits {
            max_turns: config.budget.max_turns,
        };
        let screen = look.map(|look| Screen::start(look, limits, redactor.clone()));
        ports.people = people::find(args, screen.as_ref(), &stop);
        if let Some(screen) = &screen {
            ports.live = screen.live();
        }
        let scratch = Scratch::make(&config)?;
        own.begin(&repo)?;
        Ok(Self {
            config,
            ports,
            repo,
            own,
            stop,
            place,
            scratch,
            screen,
            events,
        })
    }

    /// Does one task from its checkout to the branch it leaves.
    ///
    /// # Errors
    /// What is wrong with the checkout, before there is any work. What a run fails of is in [`Done`].
    pub(super) async fn work(&self, order: &Order) -> anyhow::Result<Done> {
        let begun = self.begin(order).await?;
        let done = Box::pin(self.local(order, &begun).work()).await;
        self.over(&begun);
        done
    }

    /// What one run has for itself. Whoever begins one ends it with [`Site::over`].
    pub(super) async fn begin(&self, order: &Order) -> anyhow::Result<Begun> {
        let run = RunId::new(Clock::System.now());
        let place = Place {
            state_dir: self.scratch.folder().to_owned(),
            job: JobId::new(Clock::System.now()),
        };
        let mut ports = self.ports.clone();
        ports.memory = match scratch::memory(&self.config, &self.scratch, &self.repo, &order.task, &ports).await {
            Ok(memory) => Some(memory),
            Err(error) => {
                note!("forgehand: this run has no memory: {error:#}");
                None
            }
        };
        self.place.set(Some(place.clone()));
        let recorder = self.recorder(&run)?;
        self.events
            .begin(&run, recorder.job(), &self.repo, &order.base, Clock::System.now());
        Ok(Begun {
            run,
            place,
            ports,
            recorder,
        })
    }

    /// The run itself.
    pub(super) fn local<'a>(&'a self, order: &'a Order, begun: &'a Begun) -> Local<'a> {
        Local {
            ports: &begun.ports,
            repo: &self.repo,
            own: &self.own,
            order,
            run: &begun.run,
            place: &begun.place,
            recorder: &begun.recorder,
            stop: &self.stop,
        }
    }

    /// The run is over: nothing of it stays but its record.
    pub(super) fn over(&self, begun: &Begun) {
        screen::end_active();
        // Also what an interrupted checkout left, which is no run folder yet.
        if let Err(error) = remove_all(&begun.place.state_dir, &begun.place.job) {
            note!("forgehand: {error:#}");
        }
        self.place.set(None);
    }

    /// Says how one of several runs ended, to those who follow the events.
    pub(super) fn told_end(&self, end: &End<'_>) {
        self.events.end(end, Clock::System.now());
    }

    /// Who signs commits of this checkout's runs.
    pub(super) fn signature(&self) -> Signature {
        Signature::of_program(self.ports.clock.now())
    }

    /// Tells the screen and the log, and keeps a record of the run where one can be kept.
    fn recorder(&self, run: &RunId) -> anyhow::Result<Recorder> {
        let recorder = Recorder::in_memory(Clock::System, self.ports.redactor.clone());
        let (screen, events) = (self.screen.clone(), self.events.clone());
        Ok(
            recorded(recorder, &self.config, run)?.with_listener(Arc::new(move |event: &Event| {
                if let Some(screen) = &screen {
                    screen.tell(event);
                }
                events.write(event);
            })),
        )
    }
}

/// The ports of runs on this checkout.
fn open_ports(config: &Config, own: &Own, repo: &LocalRepo, args: &Args, redactor: &Redactor) -> anyhow::Result<Ports> {
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let ports = ports::open(config, &surroundings()?, &Clock::System, redactor)?;
    let mut ports = ports::for_person(ports, config, &repo.root)?;
    if args.presence() == Presence::Unattended && args.asking() != Asking::AlwaysYes {
        ports.permission = ports.permission.unattended();
        let list = own.config.permission.as_rules();
        let with_list = ports.permission.clone().with_list_of(&list).map_err(Problems)?;
        if with_list.allows_nothing() {
            return Err(Problems(vec![NOTHING_ALLOWED.to_owned()]).into());
        }
    }
    Ok(ports)
}

/// Also where there is no checkout, what is wrong with the configuration is told.
fn without_repo(
    error: anyhow::Error,
    config: Option<&Config>,
    mut problems: Vec<String>,
    redactor: &Redactor,
) -> anyhow::Error {
    let open = |config: &Config| ports::open(config, &surroundings()?, &Clock::System, redactor);
    let opened = config.map(open);
    if let Some(Err(wrong)) = opened.map(|opened| heed(opened, &mut problems)) {
        return wrong;
    }
    if problems.is_empty() {
        return error;
    }
    problems.push(format!("{error:#}"));
    Problems(problems).into()
}

/// Otherwise the run would end at its first call.
const NOTHING_ALLOWED: &str = "permission.sandboxed: every call would be asked about or denied, and nobody is there to \
                               ask in this run; list what needs no asking in permission.allow (or --allow RULE), or \
                               say --yes";

/// Problems are collected, everything else ends it.
fn heed<T>(result: anyhow::Result<T>, problems: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    match result.map_err(anyhow::Error::downcast::<Problems>) {
        Ok(value) => Ok(Some(value)),
        Err(Ok(Problems(found))) => {
            problems.extend(found);
            Ok(None)
        }
        Err(Err(error)) => Err(error),
    }
}

/// Where the run begins, with which model, and what it leaves out.
async fn introduce(ports: &Ports, repo: &LocalRepo) {
    let branch = repo
        .branch
        .as_ref()
        .map(|branch| format!(" on {branch}"))
        .unwrap_or_default();
    note!(
        "{}{branch} at {} · {}",
        paint::clean(&repo.root.display().to_string()),
        repo.head.short(),
        paint::one_line(ports.model.name())
    );
    match ports.git.uncommitted(repo).await {
        Ok(found) if found == Uncommitted::default() => {}
        Ok(Uncommitted { changed, unknown }) => {
            let counted = |count: usize, what: &str| match count {
                0 => None,
                1 => Some(format!("1 {what} file")),
                _ => Some(format!("{count} {what} files")),
            };
            let parts = [counted(changed, "changed"), counted(unknown, "untracked")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            note!(
                "The run starts from the last commit: what you have not committed ({}) is left out.",
                parts.join(", ")
            );
        }
        Err(error) => {
            tracing::debug!(%error, "what is not committed was not counted");
            note!("The run starts from the last commit; what is not committed is left out.");
        }
    }
}

/// The recorder with a record of the run, where one can be kept.
fn recorded(recorder: Recorder, config: &Config, run: &RunId) -> anyhow::Result<Recorder> {
    let Some(folder) = record::folder(config, &surroundings()?) else {
        return Ok(recorder);
    };
    match record::begin(&folder, run) {
        Ok(tape) => Ok(recorder.with_tape(tape)),
        Err(error) => {
            note!("forgehand: this run is not recorded: {error:#}");
            Ok(recorder)
        }
    }
}

async fn open_repo(git: &Git, folder: &Path) -> anyhow::Result<LocalRepo> {
    match git.open_local(folder).await {
        // Whoever named the folder can name another one.
        Err(error @ GitError::NotFound(_)) => Err(Usage(format!("--repo {}: {error}", folder.display())).into()),
        other => other.with_context(|| format!("open {}", folder.display())),
    }
}
