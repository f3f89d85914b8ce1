//! Addresses of model servers as people write them, and the ones that are called. Called by
//! `endpoint`. Never sends anything.

use url::Url;

/// The address of chat completions for a base address with or without `/v1`, a slash at its end,
/// or the full path. `key` is the configuration key it stands under.
pub(super) fn completions(key: &str, base: &str) -> anyhow::Result<Url> {
    let mut url = Url::parse(base.trim()).map_err(|error| anyhow::anyhow!("{key}: {base:?}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        anyhow::bail!("{key}: {base:?} is not an http or https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        anyhow::bail!("{key}: leave user and password out and set the key of its own");
    }
    let path = url.path().trim_end_matches('/');
    let path = path
        .strip_suffix("/chat/completions")
        .unwrap_or(path)
        .trim_end_matches('/');
    let has_version = path.split('/').any(|segment| {
        segment
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let version = if has_version { "" } else { "/v1" };
    let path = format!("{path}{version}/chat/completions");
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// The address of the list of models beside an address of chat completions.
pub(super) fn models(completions: &Url) -> Url {
    let mut url = completions.clone();
    let path = url.path().trim_end_matches("/chat/completions").to_owned();
    url.set_path(&format!("{path}/models"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, expected: &str) {
        assert_eq!(
            completions("model.base_url", base).unwrap().as_str(),
            expected,
            "{base}"
        );
    }

    #[test]
    fn l29_base_addresses_of_every_style_work() {
        let local = "http://host:8000/v1/chat/completions";
        check("http://host:8000", local);
        check("http://host:8000/", local);
        check("http://host:8000/v1", local);
        check("http://host:8000/v1/", local);
        check("http://host:8000/v1/chat/completions", local);
        check(
            "https://openrouter.ai/api",
            "https://openrouter.ai/api/v1/chat/completions",
        );
        check(
            "https://x.test/v1beta/openai/",
            "https://x.test/v1beta/openai/chat/completions",
        );
        check(
            "https://x.test/v1?api-version=2",
            "https://x.test/v1/chat/completions?api-version=2",
        );
        assert_eq!(
            models(&completions("k", "http://host/v1?a=b").unwrap()).as_str(),
            "http://host/v1/models?a=b"
        );
    }

    #[test]
    fn addresses_that_cannot_be_meant_are_refused() {
        for base in ["", "host:8000", "ftp://host", "https://user:pw@host"] {
            assert!(
                completions("model.base_url", base)
                    .unwrap_err()
                    .to_string()
                    .contains("model.base_url"),
                "{base}"
            );
        }
    }
}
