//! What no single key can say for itself: values that are impossible, or do not go together. Called
//! once everything is read. Never stops at the first problem.

use super::{
    BudgetConfig, Config, ConfigValue as _, EgressConfig, ModelConfig, ModelProvider, SandboxBackend, SandboxConfig,
};

impl Config {
    /// Adds what is wrong to the problems, each with its key.
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        for (key, secret) in [
            ("github.webhook_secret", &self.github.webhook_secret),
            ("github.webhook_secret_previous", &self.github.webhook_secret_previous),
        ] {
            if secret.as_ref().is_some_and(|secret| secret.len() < MIN_WEBHOOK_SECRET) {
                problems.push(format!("{key}: a webhook secret has at least {MIN_WEBHOOK_SECRET} characters; make one with `openssl rand -hex 32`"));
            }
        }
        self.check_queue(problems);
        for (key, time) in [
            ("github.call_timeout_seconds", self.github.call_timeout_seconds),
            ("model.timeout_seconds", self.model.timeout_seconds),
            ("model.idle_timeout_seconds", self.model.idle_timeout_seconds),
            ("sandbox.command_timeout_seconds", self.sandbox.command_timeout_seconds),
            ("egress.connection_seconds", self.egress.connection_seconds),
            ("web.timeout_seconds", self.web.timeout_seconds),
            ("queue.heartbeat_seconds", self.queue.heartbeat_seconds),
            ("queue.poll_seconds", self.queue.poll_seconds),
        ] {
            if time.is_zero() {
                problems.push(format!("{key}: more than 0 seconds"));
            }
        }
        self.check_content(problems);
        self.sandbox.check(problems);
        if self.model.provider == ModelProvider::OpenAi && self.model.base_url.is_none() {
            problems.push("model.base_url: the provider `openai` needs the address of a server".to_owned());
        }
        self.model.check(problems);
        if !self.github.command.starts_with('/')
            || self.github.command.len() < 2
            || self.github.command.contains(char::is_whitespace)
        {
            problems.push("github.command: one word that begins with '/', such as `/agent`".to_owned());
        }
        for (key, url) in [
            ("github.api_url", &self.github.api_url),
            ("github.web_url", &self.github.web_url),
        ] {
            match url::Url::parse(url) {
                Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {}
                _ => problems.push(format!("{key}: {url:?} is not an http or https address")),
            }
        }
        if !(0.0..=MAX_ANSWER_DAYS).contains(&self.queue.answer_days) {
            problems.push(format!("queue.answer_days: 0 (nobody is asked) to {MAX_ANSWER_DAYS}"));
        }
        for host in &self.web.hosts {
            if let Err(problem) = crate::permission::HostRule::parse(host) {
                problems.push(format!("web.hosts: {problem}"));
            }
        }
        for entry in &self.web.allow_private {
            if let Err(problem) = crate::permission::host_and_port(entry) {
                problems.push(format!("web.allow_private: {problem}"));
            }
        }
        self.egress.check(problems);
        if self.web.in_jobs && self.web.unsafe_allow_all {
            problems.push(
                "web.in_jobs: together with web.unsafe_allow_all, whoever writes an issue could have anything sent \
                 anywhere; list the hosts that jobs need in web.hosts"
                    .to_owned(),
            );
        }
        if let Err(found) = crate::permission::check(&self.permission) {
            problems.extend(found);
        }
        self.check_retrieval(problems);
        if self.agent.max_explore_turns == 0 {
            problems.push("agent.max_explore_turns: at least 1".to_owned());
        }
        self.budget.check(problems);
        self.ledger.check(problems);
        self.retention.check(problems);
        self.alert.check(problems);
        super::schedule::check(&self.schedule, problems);
        self.autotask.check(problems);
        self.workgraph.check(problems);
    }

    fn check_content(&self, problems: &mut Vec<String>) {
        for (key, most) in [
            ("github.max_content_per_minute", self.github.max_content_per_minute),
            ("github.max_content_per_hour", self.github.max_content_per_hour),
        ] {
            if most == 0 {
                problems.push(format!("{key}: at least 1, or nothing would ever be written"));
            }
        }
    }

    fn check_queue(&self, problems: &mut Vec<String>) {
        if self.queue.heartbeat_seconds * 2 > self.queue.lease_seconds.saturating_sub(self.queue.margin_seconds) {
            problems.push(
                "queue.heartbeat_seconds: two heartbeats must fit into lease_seconds less margin_seconds".to_owned(),
            );
        }
        if self.queue.workers == 0 {
            problems.push(
                "queue.workers: at least 1 (to receive without working, start `forgehand serve --roles receiver`)"
                    .to_owned(),
            );
        }
    }

    fn check_retrieval(&self, problems: &mut Vec<String>) {
        if self.retrieval.max_threads == 0 || self.retrieval.max_disk_mib == 0 {
            problems.push(
                "retrieval: max_threads and max_disk_mib are at least 1; enabled = false keeps no index".to_owned(),
            );
        }
    }
}

impl EgressConfig {
    fn check(&self, problems: &mut Vec<String>) {
        for host in &self.hosts {
            if let Err(problem) = crate::permission::HostRule::parse(host) {
                problems.push(format!("egress.hosts: {problem}"));
            }
        }
        for entry in &self.allow_private {
            if let Err(problem) = crate::permission::host_and_port(entry) {
                problems.push(format!("egress.allow_private: {problem}"));
            }
        }
        if self.max_connections == 0 || self.max_connections > MAX_CONNECTIONS {
            problems.push(format!("egress.max_connections: a number from 1 to {MAX_CONNECTIONS}"));
        }
        if self.max_rate_kib == 0 {
            problems.push("egress.max_rate_kib: at least 1".to_owned());
        }
    }
}

/// Every connection has a file descriptor on each side.
const MAX_CONNECTIONS: u32 = 1_000;

/// Servers take no shorter lives; a longer one outlives whoever could end it.
const LEAST_LIFE_SECONDS: u64 = 60;
const MOST_LIFE_SECONDS: u64 = 24 * 3600;

/// Whoever has not answered within a year will not.
const MAX_ANSWER_DAYS: f64 = 365.0;

impl SandboxConfig {
    fn check(&self, problems: &mut Vec<String>) {
        if self.backend != SandboxBackend::Local && self.image.is_none() {
            let backend = self.backend.show();
            problems.push(format!(
                "sandbox.image: the backend `{backend}` needs an image, by digest"
            ));
        }
        if self.backend == SandboxBackend::OpenSandbox {
            self.check_server(problems);
        }
        let named = self.image.iter().map(|image| ("sandbox.image", image));
        for (key, image) in named.chain(self.images.iter().map(|image| ("sandbox.images", image))) {
            if let Err(problem) = super::check_image_name(image, self.image_by_tag) {
                problems.push(format!("{key}: {problem}"));
            }
        }
        if !(0.01..=1024.0).contains(&self.cpus) {
            problems.push("sandbox.cpus: 0.01 to 1024".to_owned());
        }
    }
}

impl SandboxConfig {
    fn check_server(&self, problems: &mut Vec<String>) {
        let Some(address) = &self.opensandbox_url else {
            return problems.push("sandbox.opensandbox_url: the backend `opensandbox` needs a server".to_owned());
        };
        let is_near = |host: &str| host == "localhost" || host.starts_with("127.") || host == "[::1]";
        match url::Url::parse(address) {
            Ok(url) if url.scheme() == "https" && url.has_host() => {}
            // Files of repositories and the key would go over the network as they are.
            Ok(url) if url.scheme() == "http" && url.host_str().is_some_and(is_near) => {}
            _ => problems.push(format!(
                "sandbox.opensandbox_url: {address:?} is no https:// address (http:// is for this machine alone)"
            )),
        }
        let life = self.opensandbox_life_seconds.as_secs();
        if !(LEAST_LIFE_SECONDS..=MOST_LIFE_SECONDS).contains(&life) {
            problems.push(format!(
                "sandbox.opensandbox_life_seconds: {LEAST_LIFE_SECONDS} to {MOST_LIFE_SECONDS}"
            ));
        }
    }
}

impl BudgetConfig {
    fn check(&self, problems: &mut Vec<String>) {
        for (key, sum) in [
            ("max_cost_usd", self.max_cost_usd),
            ("max_issue_usd", self.max_issue_usd),
            ("max_repository_day_usd", self.max_repository_day_usd),
            ("max_installation_day_usd", self.max_installation_day_usd),
            ("max_day_usd", self.max_day_usd),
            ("max_comment_usd", self.max_comment_usd),
        ] {
            if sum < 0.0 || !sum.is_finite() {
                let nothing = match key {
                    "max_comment_usd" => "comments may set no cap",
                    _ => "no cap by money",
                };
                problems.push(format!("budget.{key}: a sum of money, 0 or more (0 = {nothing})"));
            }
        }
    }
}

impl ModelConfig {
    fn check(&self, problems: &mut Vec<String>) {
        if self.context_window.is_some_and(|window| window < MIN_CONTEXT_WINDOW) {
            problems.push(format!(
                "model.context_window: at least {MIN_CONTEXT_WINDOW} tokens; the agent needs some 16000 to be of use"
            ));
        }
        if self.max_output_tokens == 0 {
            problems.push("model.max_output_tokens: at least 1".to_owned());
        }
        if self.temperature.is_some_and(|degree| !(0.0..=2.0).contains(&degree)) {
            problems.push("model.temperature: a number from 0 to 2".to_owned());
        }
        if self.fallback_api_key.is_some() && self.fallback_base_url.is_none() {
            problems.push(
                "model.fallback_api_key: is for the server of model.fallback_base_url, which is not set".to_owned(),
            );
        }
    }
}

/// No model that is served has less; rules, tools and a short task take about 7,000 tokens by our
/// cautious count, so that even a larger window may turn out too small for the agent.
const MIN_CONTEXT_WINDOW: u64 = 4_096;

/// Shorter webhook secrets can be guessed.
const MIN_WEBHOOK_SECRET: usize = 16;
