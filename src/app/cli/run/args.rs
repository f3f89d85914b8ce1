//! The words of `forgehand run`, and what they mean for the configuration. Never reads a file.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use super::super::Context;
use super::super::screen::{Look, Reasoning};
use super::ending;
use super::workgraph::GraphArgs;
use crate::ids::BranchName;
use crate::tool::Mode;

#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(in crate::app::cli) struct Args {
    /// What is to be done, in words. `-` reads it from standard input.
    #[arg(value_name = "TASK", conflicts_with = "task")]
    words: Vec<String>,
    /// The same as an option.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    task: Option<String>,
    /// A folder of the checkout to work on; its last commit is the base.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    pub(super) repo: PathBuf,
    /// Name of the branch to leave; it gets a suffix if it exists [default: agent/ and words of the
    /// task].
    #[arg(long, value_name = "NAME")]
    pub(super) branch: Option<BranchName>,
    /// A command that has to pass, instead of those found; may be repeated.
    #[arg(long = "check", value_name = "COMMAND", conflicts_with = "no_checks")]
    checks: Vec<String>,
    /// Verify nothing.
    #[arg(long)]
    no_checks: bool,
    /// Propose a plan first, and change nothing before it is approved. Where nobody can be asked, the
    /// plan is the result.
    #[arg(long, conflicts_with = "ask")]
    plan: bool,
    /// Answer a question about the repository: read, and change nothing.
    #[arg(long, conflicts_with_all = ["checks", "no_checks", "branch"])]
    ask: bool,
    /// A tool call that needs no asking, such as `run_command:cargo test` or `web_fetch:docs.rs`; may
    /// be repeated (`permission.allow`).
    #[arg(long, value_name = "RULE")]
    pub(super) allow: Vec<String>,
    /// Ask nobody: what needs a person's permission is not done.
    #[arg(long, conflicts_with = "yes")]
    unattended: bool,
    /// Say yes to whatever the run would ask permission for.
    #[arg(long, short = 'y')]
    yes: bool,
    /// Append what happens to this file as lines of JSON that can be followed; `-` is standard error,
    /// which then holds nothing else.
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
    /// The same into a file that begins anew, for `forgehand show`.
    #[arg(long, value_name = "FILE", conflicts_with = "events")]
    log: Option<PathBuf>,
    /// Whether the checkout may instruct the agent in this run, whatever `forgehand trust` says.
    #[arg(long, value_name = "WHETHER", value_enum)]
    pub(super) trust: Option<TrustArg>,
    /// Drafts of issues are what it is for; `forgehand draft` says so.
    #[arg(skip)]
    drafts: bool,
    #[command(flatten)]
    pub(super) graph: GraphArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    shown: ShownArgs,
}

fn after_help() -> String {
    format!(
        "The checks of the project run before and after the change, in the sandbox. The work is done in a \
         temporary folder (in server.state_dir where that is set); the checkout gets one new branch and \
         nothing else. Ctrl-C stops the run and keeps its work; work of a run that did not get through is \
         left on the branch, too. Without a terminal nobody is asked: what needs a person's permission is denied, \
         questions are refused at once, and SIGINT, SIGTERM and SIGHUP end the run as done for now.\n\nExit codes:\n{}",
        ending::table()
    )
}

/// Shorthands for keys of the configuration.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model and limits")]
pub(in crate::app::cli) struct ModelArgs {
    /// Name of the model, as its server knows it (`model.name`).
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Address of an OpenAI-compatible server (`model.base_url`, and `model.provider=openai`).
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Most replies of the model (`budget.max_turns`).
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Most money in US dollars (`budget.max_cost_usd`).
    #[arg(long, value_name = "DOLLARS")]
    max_cost: Option<f64>,
    /// Most time of the model and its tools (`budget.max_minutes`).
    #[arg(long, value_name = "NUMBER")]
    max_minutes: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is shown")]
struct ShownArgs {
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
    /// Show only the result, and not how it comes about.
    #[arg(long, short)]
    quiet: bool,
    /// Show what the model thinks, where its server tells.
    #[arg(long)]
    show_reasoning: bool,
    /// Show the changed files instead of the diff.
    #[arg(long, conflicts_with = "no_diff")]
    stat: bool,
    /// Show no diff.
    #[arg(long)]
    no_diff: bool,
}

/// What `forgehand draft` was asked.
pub(in crate::app::cli) struct Drafts {
    pub(in crate::app::cli) text: String,
    pub(in crate::app::cli) repo: PathBuf,
    pub(in crate::app::cli) log: Option<PathBuf>,
    pub(in crate::app::cli) model: ModelArgs,
    pub(in crate::app::cli) json: bool,
    pub(in crate::app::cli) quiet: bool,
}

impl From<Drafts> for Args {
    fn from(asked: Drafts) -> Self {
        Self {
            words: Vec::new(),
            task: Some(asked.text),
            repo: asked.repo,
            branch: None,
            checks: Vec::new(),
            no_checks: true,
            plan: false,
            ask: false,
            allow: Vec::new(),
            unattended: true,
            yes: false,
            events: None,
            log: asked.log,
            trust: None,
            drafts: true,
            graph: GraphArgs::default(),
            model: asked.model,
            shown: ShownArgs {
                json: asked.json,
                quiet: asked.quiet,
                show_reasoning: false,
                stat: false,
                no_diff: true,
            },
        }
    }
}

/// What is said about the checkout for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TrustArg {
    // As comments for readers of the code: the help of every option would get longer by them.
    // Its instructions, skills and lists are not loaded.
    Never,
    // They are loaded in this run alone.
    Once,
}

/// Whether somebody is there to see the run and to stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Attended,
    Unattended,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventsTo {
    Nowhere,
    Errors,
    Append(PathBuf),
    Anew(PathBuf),
}

/// Which commands verify the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checks {
    /// Those of the repository's own file, or those found.
    Found,
    /// Exactly these.
    Given(Vec<String>),
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Whoever sits at the terminal, if there is one.
    AtTerminal,
    /// Nobody, and nothing is done that needs permission.
    Nobody,
    /// Nobody, and everything is permitted.
    AlwaysYes,
}

/// How the result is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Json,
    Text(Diff),
}

/// What is shown of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diff {
    Whole,
    Files,
    Nothing,
}

impl Args {
    /// What the run is for.
    pub(super) fn mode(&self) -> Mode {
        if self.drafts {
            return Mode::Draft;
        }
        match (self.plan, self.ask) {
            (_, true) => Mode::Answer,
            (true, false) => Mode::Plan,
            (false, false) => Mode::Change,
        }
    }

    /// The task as it was given, if it was.
    pub(super) fn task(&self) -> Option<String> {
        match self.words.as_slice() {
            [] => self.task.clone(),
            words => Some(words.join(" ")),
        }
    }

    pub(super) fn checks(&self) -> Checks {
        match self.checks.as_slice() {
            [] if self.no_checks => Checks::Given(Vec::new()),
            [] => Checks::Found,
            given => Checks::Given(given.to_vec()),
        }
    }

    pub(super) fn asking(&self) -> Asking {
        match (self.yes, self.unattended) {
            (true, _) => Asking::AlwaysYes,
            (_, true) => Asking::Nobody,
            _ => Asking::AtTerminal,
        }
    }

    /// Somebody is there at a terminal, unless they say that nobody is.
    pub(super) fn presence(&self) -> Presence {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        // Who asks for drafts or a plan waits for them, though nothing is asked meanwhile.
        match is_terminal && (!self.unattended || self.drafts) {
            true => Presence::Attended,
            false => Presence::Unattended,
        }
    }

    pub(super) fn events(&self) -> EventsTo {
        match (&self.events, &self.log) {
            (Some(file), _) if file.as_os_str() == "-" => EventsTo::Errors,
            (Some(file), _) => EventsTo::Append(file.clone()),
            (_, Some(file)) => EventsTo::Anew(file.clone()),
            (None, None) => EventsTo::Nowhere,
        }
    }

    pub(super) fn output(&self) -> Output {
        let shown = &self.shown;
        match (shown.json, shown.stat, shown.no_diff) {
            (true, ..) => Output::Json,
            (_, true, _) => Output::Text(Diff::Files),
            (_, _, true) => Output::Text(Diff::Nothing),
            _ => Output::Text(Diff::Whole),
        }
    }

    /// How the run is shown while it goes on; nothing for whoever wants to see the result only.
    pub(super) fn look(&self) -> Option<Look> {
        let mut look = Look::of_errors();
        if self.shown.show_reasoning {
            look.reasoning = Reasoning::Shown;
        }
        (!self.shown.quiet && self.events() != EventsTo::Errors).then_some(look)
    }

    /// The same surroundings with the keys that shorthands set; they are stronger than `--set`.
    pub(super) fn context(&self, context: &Context) -> Context {
        let model = &self.model;
        let base_url = model.base_url.as_ref();
        let keys = [
            ("model.provider", base_url.map(|_| "openai".to_owned())),
            ("model.base_url", base_url.cloned()),
            ("model.name", model.model.clone()),
            ("budget.max_turns", model.max_turns.map(|most| most.to_string())),
            ("budget.max_cost_usd", model.max_cost.map(|most| most.to_string())),
            ("budget.max_minutes", model.max_minutes.map(|most| most.to_string())),
        ];
        let mut set = context.set.clone();
        set.extend(
            keys.into_iter()
                .filter_map(|(key, value)| Some(format!("{key}={}", value?))),
        );
        Context {
            file: context.file.clone(),
            set,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Line::try_parse_from(["run"].into_iter().chain(line.split(' ')))
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    #[test]
    fn the_task_is_words_or_an_option() {
        assert_eq!(parse("Mend the sum").task().as_deref(), Some("Mend the sum"));
        assert_eq!(parse("-").task().as_deref(), Some("-"));
        assert_eq!(parse("--task Mend --stat").task().as_deref(), Some("Mend"));
        assert_eq!(parse("--stat").task(), None);
        assert!(Line::try_parse_from(["run", "Mend", "--task", "it"]).is_err());
    }

    #[test]
    fn shorthands_are_keys_of_the_configuration() {
        let context = Context {
            file: None,
            set: vec!["model.name=a".to_owned()],
        };
        let set = |line: &str| parse(line).context(&context).set;
        assert_eq!(set("x"), ["model.name=a"]);
        assert_eq!(
            set("x --model b --base-url http://h/v1?a=b --max-cost 0.5 --max-turns 7 --max-minutes 3"),
            [
                "model.name=a",
                "model.provider=openai",
                "model.base_url=http://h/v1?a=b",
                "model.name=b",
                "budget.max_turns=7",
                "budget.max_cost_usd=0.5",
                "budget.max_minutes=3"
            ]
        );
    }

    #[test]
    fn checks_and_output_are_chosen_by_one_option_each() {
        assert_eq!(parse("x").checks(), Checks::Found);
        assert_eq!(parse("x --no-checks").checks(), Checks::Given(Vec::new()));
        let given = Checks::Given(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(parse("x --check a --check b").checks(), given);
        assert_eq!(parse("x").output(), Output::Text(Diff::Whole));
        assert_eq!(parse("x --stat").output(), Output::Text(Diff::Files));
        assert_eq!(parse("x --no-diff --json").output(), Output::Json);
        assert_eq!(parse("x --unattended").asking(), Asking::Nobody);
        assert_eq!(parse("x -y -q").asking(), Asking::AlwaysYes);
        assert_eq!(parse("x --events -").events(), EventsTo::Errors);
        assert_eq!(parse("x --events f").events(), EventsTo::Append("f".into()));
        assert_eq!(parse("x --log f").events(), EventsTo::Anew("f".into()));
        assert!(parse("x").look().is_some() && parse("x --events -").look().is_none());
    }
}
