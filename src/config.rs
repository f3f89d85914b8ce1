//! The configuration: `forgehand.toml` ← environment `FORGEHAND_SECTION__KEY` ← flags. Each
//! section is declared once with its keys, defaults and explanations; parsing, `config init`,
//! `doctor` and the README's table are all made from that one declaration.
//! Never does anything with a value: each port takes its own section and judges it there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::schedule::Schedule;
use crate::secret::Secret;

mod autotask;
mod check;
mod choice;
mod image;
mod load;
mod retention;
mod schedule;
mod secret_file;
mod section;
mod unattended;
mod value;

pub use choice::{
    AlertOn, EditFormatChoice, LanguageChoice, LogFormat, ModelProvider, OldRunc, OpenSandboxMode, PermissionMode,
    ReplayChoice, SandboxBackend, SetupFailure, ToolCallChoice,
};
pub use image::check_image_name;
pub use load::{ConfigSources, Problems, load};
pub use retention::RetentionConfig;
pub use schedule::ScheduleConfig;
pub use secret_file::repository_around;
use section::section;
pub use section::{KeyInfo, Origin, SectionInfo};
pub use unattended::{AlertConfig, AutotaskConfig, LedgerConfig, WorkgraphConfig};
pub use value::{ConfigValue, PriceTable};

section! {
    /// Where the service keeps its files and listens.
    pub struct ServerConfig "server" {
        /// Folder of everything the service keeps: SQLite file, mirrors, workspaces, credentials.
        state_dir: PathBuf = "\".forgehand\"",
        /// Address of the webhook receiver, health and metrics.
        listen: SocketAddr = "\"127.0.0.1:8080\"",
        /// Address under which GitHub and people reach `listen`, for links and the App manifest.
        public_url: Option<String> = "",
        /// Largest time a graceful stop may take before running work is handed back, in seconds.
        drain_seconds: Duration = "30",
    }
}

section! {
    /// The database.
    pub struct DatabaseConfig "database" {
        /// `sqlite:PATH` or `postgres://…`; without it, `forgehand.sqlite` in the state folder.
        url: Option<Secret> = "",
        /// Most connections to PostgreSQL; SQLite has one.
        max_connections: u32 = "10",
    }
}

section! {
    /// The GitHub App and how it is called.
    pub struct GitHubConfig "github" {
        /// REST address; for GitHub Enterprise `https://HOST/api/v3`.
        api_url: String = "\"https://api.github.com\"",
        /// Web address, which is also where git pushes to.
        web_url: String = "\"https://github.com\"",
        /// The App's id, shown on its settings page.
        app_id: Option<u64> = "",
        /// The App's private key (PEM).
        private_key: Option<Secret> = "",
        /// Secret that signs webhooks; at least 16 characters.
        webhook_secret: Option<Secret> = "",
        /// A second accepted secret, while the first is being rotated.
        webhook_secret_previous: Option<Secret> = "",
        /// Label that starts work on an issue, matched without case.
        label: String = "\"agent\"",
        /// Word that begins a command in a comment, matched without case.
        command: String = "\"/agent\"",
        /// Language of what the program itself writes on GitHub: `en` or `zh`.
        language: LanguageChoice = "\"en\"",
        /// Whether a security finding may become a private advisory, on the word of a person who may; the
        /// App needs the permission `Repository security advisories: write`.
        security_advisories: bool = "false",
        /// Numeric App ids of other bots whose commands are obeyed.
        allowed_apps: Vec<u64> = "[]",
        /// Longest time one API call may take, in seconds.
        call_timeout_seconds: Duration = "30",
        /// Longest time until a created object shows in GitHub's lists, in seconds.
        list_lag_seconds: Duration = "15",
        /// Least time between two writes of one installation, in seconds.
        write_interval_seconds: Duration = "1",
        /// Most comments, issues, pull requests and the like that one installation gets in any minute;
        /// GitHub's own limit is 80.
        max_content_per_minute: u32 = "60",
        /// The same for any hour; GitHub's own limit is 500.
        max_content_per_hour: u32 = "400",
        /// Calls of GitHub's hourly limit that are not used up: work waits for the next hour before.
        reserved_calls: u32 = "100",
        /// Time between looks into GitHub's log of webhook calls, where missed ones are found, in
        /// seconds; 0 looks never. Without it 300, or 15 while `server.public_url` is not set.
        poll_seconds: Option<Duration> = "",
        /// Time between looks at the repositories themselves, where labels, comments and closed issues
        /// are found that neither a webhook nor the log told of, in seconds; 0 looks never.
        reconcile_seconds: Duration = "300",
    }
}

section! {
    /// The language model.
    pub struct ModelConfig "model" {
        /// `openai` for any OpenAI-compatible server, `stub` for scripted answers without a model.
        provider: ModelProvider = "\"stub\"",
        /// Address of the server, with or without `/v1`.
        base_url: Option<String> = "",
        /// Key sent as a bearer token.
        api_key: Option<Secret> = "",
        /// Model name as the server knows it.
        name: String = "\"gpt-5\"",
        /// Most tokens of one reply; doubled as far as the model allows when replies are cut.
        max_output_tokens: u32 = "8192",
        /// Most tokens of request and reply together; without it, known from the model's name.
        context_window: Option<u64> = "",
        /// `native`, `text` for a server that takes no tools, or `auto`: by the model's name, and
        /// text once the server refuses them.
        tool_calls: ToolCallChoice = "\"auto\"",
        /// How files are changed: `replace`, `patch`, or `auto` by the model's name.
        edit_format: EditFormatChoice = "\"auto\"",
        /// Sent only when set, to models that take one.
        temperature: Option<f64> = "",
        /// Such as `low` or `high`; sent only when set.
        reasoning_effort: Option<String> = "",
        /// How earlier reasoning is sent back: `never`, `reasoning_content`, `reasoning`,
        /// `think_tags`, or `auto` by the model's name.
        replay_reasoning: ReplayChoice = "\"auto\"",
        /// Longest time of one call, in seconds.
        timeout_seconds: Duration = "600",
        /// Longest silence within a stream, in seconds.
        idle_timeout_seconds: Duration = "120",
        /// Price of a million input tokens in US dollars; without it, cost is counted in tokens only.
        input_usd_per_million: Option<f64> = "",
        /// Price of a million output tokens in US dollars.
        output_usd_per_million: Option<f64> = "",
        /// Prices by patterns of model names, in US dollars for a million tokens: input, output
        /// and, if cached input has its own, that. Such as `{ "gpt-5*" = [1.25, 10.0, 0.125] }`.
        prices: PriceTable = "{}",
        /// Model that answers while the first does not; without it, the same name.
        fallback_name: Option<String> = "",
        /// Address of the server of the fallback; without it, the same server and key.
        fallback_base_url: Option<String> = "",
        /// Key for `fallback_base_url`.
        fallback_api_key: Option<Secret> = "",
        /// How long the fallback answers before the first is tried again, in seconds.
        fallback_seconds: Duration = "300",
        /// File with the stub's script; without it, the stub looks for a built-in script by repository.
        stub_script: Option<PathBuf> = "",
    }
}

section! {
    /// Where commands of repositories and models run.
    pub struct SandboxConfig "sandbox" {
        /// `local`: namespaces, Landlock and seccomp on this machine. `docker`: containers of Docker or
        /// podman, rootless ones too. `opensandbox`: sandboxes that an OpenSandbox server makes elsewhere.
        backend: SandboxBackend = "\"local\"",
        /// Run without isolation when the kernel refuses it. Dangerous; shown everywhere.
        unsafe_local: bool = "false",
        /// Folders with compilers and interpreters outside /usr, shown read-only in the sandbox.
        toolchains: Vec<String> = "[]",
        /// Memory of all processes of one command, in MiB.
        memory_mib: u64 = "4096",
        /// Processes and threads of one command.
        max_processes: u64 = "512",
        /// Disk of one workspace with its home and temporary files, in MiB. A command that writes more is
        /// stopped; a later one that finds more there may make room for ten seconds, as long as it adds
        /// nothing. Past twice as much nothing runs any more.
        disk_mib: u64 = "8192",
        /// Longest time of one command, in seconds.
        command_timeout_seconds: Duration = "600",
        /// Most output kept of one command (head and tail), in KiB.
        output_kib: u64 = "1024",
        /// First of the 65,536 user ids that runs get when the service runs as root.
        uid_base: u32 = "2000000",
        /// Program whose `sandbox-helper` command builds the sandbox; without it, this program.
        helper: Option<PathBuf> = "",
        /// Image of the containers, by digest (`NAME@sha256:…`) or by its own id (`sha256:…`). It must
        /// be at the engine already.
        image: Option<String> = "",
        /// Images that a repository may choose instead, in its own file or by its dev container, written
        /// as it writes them.
        images: Vec<String> = "[]",
        /// Whether images may be named by tags, which can come to mean something else.
        image_by_tag: bool = "false",
        /// Processors of one container, and of one local command where control groups hold limits.
        cpus: f64 = "2.0",
        /// The engine's Unix socket; without it, the first of Docker's and podman's usual ones.
        docker_socket: Option<PathBuf> = "",
        /// Runtime of the containers as the engine knows it, such as `runsc` or `kata`; without it, the
        /// engine's default.
        docker_runtime: Option<String> = "",
        /// What an engine's runc older than 1.2.8 or 1.3.3, from which commands can escape, means: `warn`,
        /// since a distribution may have mended it under its old number, or `refuse`.
        docker_old_runc: OldRunc = "\"warn\"",
        /// Address of the OpenSandbox server, such as `https://sandboxes.example`.
        opensandbox_url: Option<String> = "",
        /// The server's API key.
        opensandbox_api_key: Option<Secret> = "",
        /// How the server must enforce that a sandbox has no network: `dns+nft`, `dns`, or `unverified`
        /// where nothing is asked for. Read back from each sandbox; a weaker one is refused.
        opensandbox_mode: OpenSandboxMode = "\"dns+nft\"",
        /// How long a sandbox lives when nobody renews it, in seconds; it is renewed while in use.
        opensandbox_life_seconds: Duration = "1800",
        /// Whether a sandbox is paused when its run ends, to be looked at, and not ended.
        opensandbox_keep: bool = "false",
    }
}

section! {
    /// What commands in sandboxes may reach, through one proxy a run. Without hosts and registries:
    /// nothing. A repository's own file can narrow the list.
    pub struct EgressConfig "egress" {
        /// Hosts that commands may reach on ports 80 and 443: `docs.rs`, or `*.python.org` for
        /// everything below. Whatever a command can read, it can send to them.
        hosts: Vec<String> = "[]",
        /// Every public host is as if it were listed. Dangerous: whoever writes an issue can have the
        /// repository sent anywhere.
        unsafe_allow_all: bool = "false",
        /// Package registries that are only read from, each as `KIND ADDRESS`, with `cargo`, `npm`,
        /// `pip`, `go` or `apt` as its kind; files that lie elsewhere have further addresses behind it.
        registries: Vec<String> = "[]",
        /// Take registries from the package managers' own settings on this machine, too.
        detect_registries: bool = "false",
        /// `HOST:PORT` of servers in a private network that are meant, and of other ports. Dangerous:
        /// commands of strangers talk to them.
        allow_private: Vec<String> = "[]",
        /// Most that one run may send, in KiB.
        max_upload_kib: u64 = "1024",
        /// Most that one run may receive, in MiB.
        max_download_mib: u64 = "2048",
        /// Connections of one run at the same time.
        max_connections: u32 = "64",
        /// Most bytes in a second, in KiB.
        max_rate_kib: u64 = "10240",
        /// Longest life of one connection, in seconds.
        connection_seconds: Duration = "600",
    }
}

section! {
    /// What tool calls may do without asking. The sandbox is the boundary; this is for comfort, and
    /// for the web. Rules are written `TOOL:SUBJECT`; the longest that matches counts.
    pub struct PermissionConfig "permission" {
        /// Calls that go on without asking, such as `run_command:cargo test` or `web_fetch:docs.rs`.
        allow: Vec<String> = "[]",
        /// Calls that a person is asked about; where nobody can be asked, they are denied.
        ask: Vec<String> = "[]",
        /// Calls that are never made, such as `write_file:migrations/**` or `run_command:curl`.
        deny: Vec<String> = "[]",
        /// Calls that a trusted repository's own file may allow by itself, in its `[permission]`, where a
        /// person would be asked. It can always ask and deny more, and never lift a `deny`.
        repository: Vec<String> = "[]",
        /// What holds without a rule for tools that work in the sandbox: `allow`, `ask` or `deny`.
        sandboxed: PermissionMode = "\"allow\"",
        /// What holds without a rule for tools of the web, outside `web.hosts`.
        web: PermissionMode = "\"ask\"",
    }
}

section! {
    /// The tools of the web. Without hosts, and without a search server, there are none.
    pub struct WebConfig "web" {
        /// Hosts that pages may be fetched from without asking: `docs.rs`, or `*.python.org` for
        /// everything below. Runs that a person began on a checkout may ask for others.
        hosts: Vec<String> = "[]",
        /// Every public host is as if it were listed. Dangerous: a page can make the model send out
        /// what it has read.
        unsafe_allow_all: bool = "false",
        /// Jobs from GitHub get the tools, too, for the listed hosts alone. Whoever can write into an
        /// issue can then make the model send what it has read to these hosts.
        in_jobs: bool = "false",
        /// `HOST:PORT` of servers in a private network that are meant, such as a search server.
        allow_private: Vec<String> = "[]",
        /// Search server: the address of a SearXNG (its JSON format has to be switched on), or any
        /// address with `{query}` in it that answers with a JSON list of results.
        search_url: Option<String> = "",
        /// Token for searching on GitHub, with no rights beyond reading what is public. Never the
        /// App's.
        github_token: Option<Secret> = "",
        /// Longest time of one fetch with its redirects, in seconds.
        timeout_seconds: Duration = "20",
        /// Most of a page that is read, after decompression, in KiB.
        max_page_kib: u64 = "1024",
    }
}

section! {
    /// How the agent works.
    pub struct AgentConfig "agent" {
        /// Folder with skills of the administrator, each as `NAME/SKILL.md`.
        skills_dir: Option<PathBuf> = "",
        /// Names of skills that are switched off, whoever wrote them.
        disabled_skills: Vec<String> = "[]",
        /// Let the agent finish only after a `review` of its last state passed.
        review_before_finish: bool = "false",
        /// Turns without an edit or a run after which the agent is told to get on; it stops after twice as many.
        max_explore_turns: u32 = "15",
        /// Let runs write notes that the runs of all repositories read. A note is written by a model
        /// that reads text of strangers: one poisoned repository could mislead the others.
        global_memory: bool = "false",
    }
}

section! {
    /// The index of the code: symbols, references, words and history of each repository.
    pub struct RetrievalConfig "retrieval" {
        /// Keep an index of each repository, for the agent's first look and for `search_code`.
        enabled: bool = "true",
        /// Most of one repository's index on the disk, in MiB; older commits are forgotten first. All indexes
        /// together have at most eight times as much.
        max_disk_mib: u64 = "2048",
        /// Most threads that make an index.
        max_threads: u32 = "2",
        /// How long a run waits for an index that is not ready before it begins without, in seconds.
        wait_seconds: Duration = "5",
        /// Most tokens of the map of the repository in an agent's first prompt. 0: no map.
        map_tokens: u32 = "1500",
    }
}

section! {
    /// What is prepared for the next runs of a repository: checkouts, and what set-up commands left.
    pub struct WorkspaceConfig "workspace" {
        /// Most of the disk that prepared trees have together, in MiB; the one used longest ago goes
        /// first. 0: none are kept, and each run checks its files out.
        prepared_mib: u64 = "8192",
        /// Most prepared trees of all repositories together. 0: none.
        prepared_trees: u32 = "40",
        /// Most of the disk for what set-up commands left, in MiB, so that they run once for each
        /// lockfile: one may have a quarter, those used longest ago go first. 0: they run each time.
        setup_mib: u64 = "8192",
        /// When a set-up command fails: `stop` the run, go on `read_only` and answer instead of
        /// changing anything, or `go_on` and let the agent mend it. Without it, `stop` where the
        /// repository's own file names the commands, and `go_on` where they were guessed.
        setup_failure: Option<SetupFailure> = "",
    }
}

section! {
    /// Limits of one run, which a repository's own file can lower, and caps of money for all runs
    /// together. Only calls whose price is known count against those.
    pub struct BudgetConfig "budget" {
        /// Most model replies.
        max_turns: u32 = "60",
        /// Most tokens, input and output together.
        max_tokens: u64 = "2000000",
        /// Most money in US dollars for one job, where the model's price is known. 0: no cap.
        max_cost_usd: f64 = "5.0",
        /// Most money in US dollars for all jobs of one issue or pull request together, unless
        /// somebody sets another sum there with `budget $N`, which also takes the place of the cap of
        /// a job. 0: no cap.
        max_issue_usd: f64 = "20.0",
        /// Most money in US dollars for all jobs in one repository on one day (UTC). 0: no cap.
        max_repository_day_usd: f64 = "50.0",
        /// Most money in US dollars for all jobs of one installation on one day (UTC). 0: no cap.
        max_installation_day_usd: f64 = "100.0",
        /// Most money in US dollars for all jobs of the service on one day (UTC). 0: no cap.
        max_day_usd: f64 = "200.0",
        /// The largest sum in US dollars that a comment may set with `budget $N`: whoever may write to
        /// a repository does not pay for the model. 0: comments may set none.
        max_comment_usd: f64 = "50.0",
        /// Most time, in minutes.
        max_minutes: u64 = "60",
    }
}

section! {
    /// The job queue. The defaults are proven together; tests scale them down.
    pub struct QueueConfig "queue" {
        /// Jobs that one process works on at once.
        workers: u32 = "2",
        /// Jobs that all processes together work on at once; 0 is no limit.
        max_jobs: u32 = "0",
        /// Jobs of one installation that are worked on at once; 0 is no limit.
        max_jobs_per_installation: u32 = "0",
        /// Jobs of one repository that are worked on at once; 0 is no limit.
        max_jobs_per_repository: u32 = "0",
        /// How long a claim lasts without a heartbeat, in seconds.
        lease_seconds: Duration = "60",
        /// Time between heartbeats, in seconds.
        heartbeat_seconds: Duration = "10",
        /// How long before the end of its lease a silent worker stops itself, in seconds.
        margin_seconds: Duration = "15",
        /// Time between looks into the queue, in seconds.
        poll_seconds: Duration = "2",
        /// Attempts before a job is given up.
        max_attempts: u32 = "5",
        /// First pause before another attempt, in seconds; it doubles up to 15 minutes.
        retry_seconds: Duration = "10",
        /// How long a job that asked people something waits for the answer, in days; 0 asks nobody.
        answer_days: f64 = "7",
    }
}

section! {
    /// The log.
    pub struct LogConfig "log" {
        /// `text` or `json`.
        format: LogFormat = "\"text\"",
        /// Filter such as `info` or `forgehand=debug,sqlx=warn`.
        filter: String = "\"info\"",
    }
}

/// The whole configuration. Only `app` holds it; each port is given its own section.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`
    pub server: ServerConfig,
    /// `[database]`
    pub database: DatabaseConfig,
    /// `[github]`
    pub github: GitHubConfig,
    /// `[model]`
    pub model: ModelConfig,
    /// `[sandbox]`
    pub sandbox: SandboxConfig,
    /// `[egress]`
    pub egress: EgressConfig,
    /// `[permission]`
    pub permission: PermissionConfig,
    /// `[web]`
    pub web: WebConfig,
    /// `[agent]`
    pub agent: AgentConfig,
    /// `[retrieval]`
    pub retrieval: RetrievalConfig,
    /// `[workspace]`
    pub workspace: WorkspaceConfig,
    /// `[budget]`
    pub budget: BudgetConfig,
    /// `[queue]`
    pub queue: QueueConfig,
    /// `[ledger]`
    pub ledger: LedgerConfig,
    /// `[retention]`
    pub retention: RetentionConfig,
    /// `[alert]`
    pub alert: AlertConfig,
    /// `[autotask]`
    pub autotask: AutotaskConfig,
    /// `[workgraph]`
    pub workgraph: WorkgraphConfig,
    /// `[log]`
    pub log: LogConfig,
    /// `[[schedule]]`, in order.
    pub schedule: Vec<ScheduleConfig>,
    /// Where each value came from, by dotted key.
    pub origins: BTreeMap<String, Origin>,
}

/// Every section with its keys, in the order of the file.
pub fn sections() -> Vec<SectionInfo> {
    vec![
        ServerConfig::info(),
        DatabaseConfig::info(),
        GitHubConfig::info(),
        ModelConfig::info(),
        SandboxConfig::info(),
        EgressConfig::info(),
        PermissionConfig::info(),
        WebConfig::info(),
        AgentConfig::info(),
        RetrievalConfig::info(),
        WorkspaceConfig::info(),
        BudgetConfig::info(),
        QueueConfig::info(),
        LedgerConfig::info(),
        RetentionConfig::info(),
        AlertConfig::info(),
        AutotaskConfig::info(),
        WorkgraphConfig::info(),
        LogConfig::info(),
        ScheduleConfig::info().list(),
    ]
}

impl Config {
    /// The values in force as (dotted key, value, origin), secrets shown as `***`.
    pub fn effective(&self) -> Vec<(String, String, Origin)> {
        let shown = [
            self.server.shown(),
            self.database.shown(),
            self.github.shown(),
            self.model.shown(),
            self.sandbox.shown(),
            self.egress.shown(),
            self.permission.shown(),
            self.web.shown(),
            self.agent.shown(),
            self.retrieval.shown(),
            self.workspace.shown(),
            self.budget.shown(),
            self.queue.shown(),
            self.ledger.shown(),
            self.retention.shown(),
            self.alert.shown(),
            self.autotask.shown(),
            self.workgraph.shown(),
            self.log.shown(),
        ];
        let schedules = self.schedule.iter().enumerate();
        let schedules = schedules.map(|(at, schedule)| schedule.shown_as(&load::item(ScheduleConfig::SECTION, at)));
        shown
            .into_iter()
            .chain(schedules)
            .flatten()
            .map(|(key, value)| {
                let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
                (key, value, origin)
            })
            .collect()
    }

    /// SHA-256 of the values in force, in hex, with `***` in place of secrets.
    pub fn fingerprint(&self) -> String {
        use sha2::Digest as _;
        let lines = self
            .effective()
            .into_iter()
            .map(|(key, value, _)| format!("{key} = {value}\n"));
        hex::encode(sha2::Sha256::digest(lines.collect::<String>()))
    }

    /// Every secret that is set, for the redactor. The database's password is one by itself, as
    /// it is written and as it is meant.
    pub fn secrets(&self) -> Vec<Secret> {
        let github = &self.github;
        let mut secrets: Vec<Secret> = [
            &self.database.url,
            &github.private_key,
            &github.webhook_secret,
            &github.webhook_secret_previous,
            &self.model.api_key,
            &self.model.fallback_api_key,
            &self.web.github_token,
            &self.alert.url,
            &self.alert.secret,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
        let address = self
            .database
            .url
            .as_ref()
            .and_then(|url| url::Url::parse(url.expose()).ok());
        if let Some(written) = address.as_ref().and_then(url::Url::password) {
            let pair = format!("p={}", written.replace('+', "%2B"));
            let meant = url::form_urlencoded::parse(pair.as_bytes()).next();
            secrets.push(Secret::new(written));
            secrets.extend(meant.map(|(_, meant)| Secret::new(meant)));
        }
        secrets
    }

    /// The schedules of the file.
    pub fn schedules(&self) -> Vec<Schedule> {
        // One that cannot be read would have been a problem of the configuration.
        self.schedule
            .iter()
            .filter_map(|schedule| schedule.schedule().ok())
            .collect()
    }

    /// The database address, with the default filled in.
    pub fn database_url(&self) -> Secret {
        match &self.database.url {
            Some(url) => url.clone(),
            None => Secret::new(format!(
                "sqlite:{}",
                self.server.state_dir.join("forgehand.sqlite").display()
            )),
        }
    }
}
