//! What makes package managers in a sandbox ask a registry through the proxy: variables, and for
//! cargo a file above the workspace. Called when a run's way out is opened. Never a file in a folder
//! that a sandbox can write.

use super::{Kind, Registry};
use crate::sandbox::WayOut;

/// Cargo reads this for every folder; what a repository or a home says comes before it.
const CARGO_CONFIG: &str = "/.cargo/config.toml";

/// Adds what is needed for these registries; of two of a kind the first counts.
pub(in crate::egress) fn add_to(way_out: &mut WayOut, registries: &[Registry]) {
    let first = |kind| registries.iter().find(|registry| registry.kind == kind);
    let mut set = |name: &str, value: String| way_out.environment.push((name.to_owned(), value));
    if let Some(npm) = first(Kind::Npm) {
        set("npm_config_registry", format!("{}/", npm.index.inner()));
        // Lock files name the registry that wrote them.
        set("npm_config_replace_registry_host", "always".to_owned());
        for quiet in ["npm_config_audit", "npm_config_fund", "npm_config_update_notifier"] {
            set(quiet, "false".to_owned());
        }
    }
    if let Some(pip) = first(Kind::Pip) {
        let mut hosts: Vec<&str> = pip.bases().map(|base| base.authority().host()).collect();
        hosts.dedup();
        set("PIP_INDEX_URL", format!("{}/", pip.index.inner()));
        set("PIP_TRUSTED_HOST", hosts.join(" "));
        set("PIP_DISABLE_PIP_VERSION_CHECK", "1".to_owned());
        set("UV_DEFAULT_INDEX", format!("{}/", pip.index.inner()));
        set("UV_INSECURE_HOST", hosts.join(" "));
    }
    if let Some(go) = first(Kind::Go) {
        set("GOPROXY", go.index.inner());
    }
    if let Some(cargo) = first(Kind::Cargo) {
        let text = format!(
            "[source.crates-io]\nreplace-with = \"proxy\"\n\n[source.proxy]\nregistry = \"sparse+{}/\"\n",
            cargo.index.inner()
        );
        way_out.files.push((CARGO_CONFIG.into(), text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_manager_is_pointed_at_the_proxy() {
        let registries: Vec<Registry> = [
            "cargo sparse+https://index.example/",
            "npm https://npm.example/",
            "npm https://second.example/",
            "pip https://pypi.example/simple/ https://files.example/packages/",
            "go https://goproxy.example",
        ]
        .map(|text| Registry::parse(text).unwrap())
        .into();
        let mut way_out = WayOut::through_proxy("/x".into());
        add_to(&mut way_out, &registries);
        let variable = |name: &str| {
            let found = way_out.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(variable("npm_config_registry"), Some("http://npm.example/"));
        assert_eq!(variable("PIP_INDEX_URL"), Some("http://pypi.example/simple/"));
        assert_eq!(variable("PIP_TRUSTED_HOST"), Some("pypi.example files.example"));
        assert_eq!(variable("GOPROXY"), Some("http://goproxy.example"));
        let (path, text) = &way_out.files[0];
        assert_eq!(path.to_str(), Some(CARGO_CONFIG));
        let config: toml::Table = text.parse().unwrap();
        assert_eq!(
            config["source"]["proxy"]["registry"].as_str(),
            Some("sparse+http://index.example/")
        );
    }
}
