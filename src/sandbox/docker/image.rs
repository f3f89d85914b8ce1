//! Which image a container is made from: named by digest, chosen by the operator, or by a repository
//! from the operator's list. Called by `docker`. Never fetches an image: that is the operator's.

use bollard::errors::Error;

use super::engine::{Engine, words};
use crate::config::{SandboxBackend, SandboxConfig};
use crate::sandbox::SandboxError;

/// Longest name; registries take no longer ones.
const MAX_NAME_BYTES: usize = 400;

/// Most folders that an image may declare as volumes.
const MAX_VOLUMES: usize = 16;

/// An image at the engine.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// The engine's own id of exactly this content.
    pub(super) id: String,
    /// What its environment says.
    pub(super) environment: Vec<(String, String)>,
    /// Folders that would become writable volumes.
    pub(super) volumes: Vec<String>,
}

/// The configuration with the image that a repository asks for, if the operator listed that.
pub(crate) fn chosen(config: &SandboxConfig, asked: Option<&str>) -> SandboxConfig {
    let mut config = config.clone();
    if let Some(image) = asked.filter(|image| may_choose(&config, image)) {
        config.image = Some(image.to_owned());
    }
    config
}

/// Whether a repository's wish for this image has an effect here.
pub(crate) fn may_choose(config: &SandboxConfig, image: &str) -> bool {
    config.backend == SandboxBackend::Docker && config.images.iter().any(|listed| listed == image)
}

/// Whether a name can be used: it must say by digest what it means, unless tags are allowed.
pub(crate) fn check_name(name: &str, tags_allowed: bool) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(plain) || name.contains("..") {
        return Err(format!("{name:?} is not the name of an image"));
    }
    let digest = name.rsplit_once('@').map_or(name, |(_, digest)| digest);
    let is_digest = digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')));
    match is_digest || (tags_allowed && !name.contains('@')) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} does not say by digest which image is meant: write NAME@sha256:…, or the image's id sha256:…, or \
             set image_by_tag = true"
        )),
    }
}

/// The configured image, which must be there.
pub(super) async fn find(engine: &Engine, config: &SandboxConfig) -> Result<Image, SandboxError> {
    let Some(name) = &config.image else {
        return Err(SandboxError::Unavailable {
            problem: "no image is configured for the Docker sandbox".to_owned(),
            remedy: "Set sandbox.image to an image by digest, such as docker.io/library/rust@sha256:…".to_owned(),
        });
    };
    check_name(name, config.image_by_tag).map_err(|problem| SandboxError::Unavailable {
        problem,
        remedy: "Change sandbox.image".to_owned(),
    })?;
    let inspected = engine.docker.inspect_image(name).await.map_err(|error| match error {
        Error::DockerResponseServerError { status_code: 404, .. } => SandboxError::Unavailable {
            problem: format!("{} does not have the image {name}", engine.name),
            remedy: format!("Fetch it with `docker pull {name}`, or change sandbox.image"),
        },
        error => SandboxError::Broken(format!("look for the image {name}: {}", words(&error))),
    })?;
    let id = inspected.id.unwrap_or_default();
    // Podman leaves out the kind of digest.
    let id = if id.contains(':') { id } else { format!("sha256:{id}") };
    check_name(&id, false).map_err(SandboxError::Broken)?;
    let config = inspected.config.unwrap_or_default();
    let volumes = config.volumes.unwrap_or_default();
    if volumes.len() > MAX_VOLUMES {
        return Err(SandboxError::Unavailable {
            problem: format!("the image {name} declares {} volumes", volumes.len()),
            remedy: format!("Use an image with at most {MAX_VOLUMES}"),
        });
    }
    let environment = config.env.unwrap_or_default();
    let pairs = environment.iter().filter_map(|pair| pair.split_once('='));
    Ok(Image {
        id,
        environment: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        volumes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(name: &str, by_digest: bool, by_tag: bool) {
        let found = [check_name(name, false).is_ok(), check_name(name, true).is_ok()];
        assert_eq!(found, [by_digest, by_tag], "{name}");
    }

    #[test]
    fn x10_images_are_named_by_digest() {
        check(DIGEST, true, true);
        check(&format!("docker.io/library/rust@{DIGEST}"), true, true);
        check(&format!("localhost:5000/rust:1.95@{DIGEST}"), true, true);
        check("rust:1.95", false, true);
        check("rust", false, true);
        check("rust@sha256:0123", false, false);
        check(&format!("rust@{}", DIGEST.to_uppercase()), false, false);
        check("", false, false);
        check("../../containers/json", false, false);
        check("rust?x=1", false, false);
        check("rust#", false, false);
        check(&"a".repeat(500), false, false);
    }

    #[test]
    fn x08_a_repository_chooses_only_what_is_listed() {
        let mut config = SandboxConfig::default();
        config.images = vec!["a".to_owned()];
        assert_eq!(
            chosen(&config, Some("a")).image,
            None,
            "the local sandbox has no images"
        );
        config.backend = SandboxBackend::Docker;
        config.image = Some("default".to_owned());
        for (asked, expected) in [
            (None, "default"),
            (Some("a"), "a"),
            (Some("b"), "default"),
            (Some(""), "default"),
        ] {
            assert_eq!(chosen(&config, asked).image.as_deref(), Some(expected), "{asked:?}");
        }
    }
}
