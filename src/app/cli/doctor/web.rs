//! `[web]` tried: whether the search server answers in a form that is understood. Never sends
//! more than one harmless question, and says nothing where nothing is configured.

use super::{Finding, Status};
use crate::config::{Config, Problems};
use crate::net::{Net, Reach};
use crate::secret::Redactor;
use crate::tool::Web;

/// What there is to say of the web, if it is configured.
pub(super) async fn check(config: &Config) -> Option<Finding> {
    let web = &config.web;
    if web.hosts.is_empty() && web.search_url.is_none() && !web.unsafe_allow_all {
        return None;
    }
    let tried = async {
        let net = Net::new(web).map_err(Problems)?;
        let tools = Web::new(net, Reach::Permitted, web, &config.github.api_url, &Redactor::default());
        let search = match &web.search_url {
            Some(url) => format!("; {url} answers with {} results", tools.try_search("forgehand").await?),
            None => String::new(),
        };
        let hosts = match (web.unsafe_allow_all, web.hosts.as_slice()) {
            (true, _) => "EVERY public host without asking".to_owned(),
            (false, []) => "no hosts without asking".to_owned(),
            (false, hosts) => hosts.join(", "),
        };
        let jobs = if web.in_jobs { "; also in jobs from GitHub" } else { "" };
        anyhow::Ok(format!("{hosts}{search}{jobs}"))
    };
    Some(match tried.await {
        Ok(detail) if web.unsafe_allow_all => Finding::new("web", Status::Hint, detail),
        tried => Finding::of("web", tried),
    })
}
