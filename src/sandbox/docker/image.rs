//! Which image a container is made from: named by digest, chosen by the operator, or by a repository
//! from the operator's list. Called by `docker`. Never fetches an image: that is the operator's.

use bollard::errors::Error;

use super::engine::{Engine, words};
use crate::config::{SandboxConfig, check_image_name};
use crate::sandbox::SandboxError;

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

/// The configured image, which must be there.
pub(super) async fn find(engine: &Engine, config: &SandboxConfig) -> Result<Image, SandboxError> {
    let Some(name) = &config.image else {
        return Err(SandboxError::Unavailable {
            problem: "no image is configured for the Docker sandbox".to_owned(),
            remedy: "Set sandbox.image to an image by digest, such as docker.io/library/rust@sha256:…".to_owned(),
        });
    };
    check_image_name(name, config.image_by_tag).map_err(|problem| SandboxError::Unavailable {
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
    check_image_name(&id, false).map_err(SandboxError::Broken)?;
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
