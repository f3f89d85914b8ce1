//! How far a run may go: the server's limits, which a repository can lower for itself. Pure.
//! Never lifts a limit that the server sets.

use std::time::Duration;

use crate::agent;
use crate::config::BudgetConfig;
use crate::repo_config::RepoConfig;

/// Limits of this run: the server's, lowered by the repository's own.
pub(super) fn budget(server: &BudgetConfig, repo: &RepoConfig) -> agent::Budget {
    let minutes = repo
        .max_minutes
        .map_or(server.max_minutes, |own| own.min(server.max_minutes));
    let server_cost = server.max_cost_usd;
    // Nothing is no limit: the repository may lower the server's limit, not take it off.
    let max_cost_usd = match repo.max_cost_usd {
        Some(own) if own > 0.0 && (server_cost == 0.0 || own < server_cost) => own,
        _ => server_cost,
    };
    agent::Budget {
        max_turns: server.max_turns,
        max_tokens: server.max_tokens,
        max_cost_usd,
        max_time: Duration::from_secs(minutes.saturating_mul(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_lowers_limits_and_never_lifts_them() {
        let server = BudgetConfig::default();
        let unlimited = BudgetConfig {
            max_cost_usd: 0.0,
            ..server.clone()
        };
        for (server, own, expected) in [
            (&server, None, 5.0),
            (&server, Some(2.0), 2.0),
            (&server, Some(50.0), 5.0),
            (&server, Some(0.0), 5.0),
            (&unlimited, Some(2.0), 2.0),
            (&unlimited, Some(0.0), 0.0),
        ] {
            let repo = RepoConfig {
                max_cost_usd: own,
                max_minutes: Some(u64::MAX),
                ..RepoConfig::default()
            };
            let limits = budget(server, &repo);
            assert_eq!(limits.max_cost_usd, expected, "{own:?}");
            assert_eq!(limits.max_time, Duration::from_secs(3_600));
        }
    }
}
