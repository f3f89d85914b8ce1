//! Names of container images: by digest unless tags are allowed, chosen by the operator, or by a
//! repository from the operator's list. Called when the configuration is read and when a run opens.
//! Never knows whether an image exists.

use super::{SandboxBackend, SandboxConfig};

/// Longest name; registries take no longer ones.
const MAX_NAME_BYTES: usize = 400;

impl SandboxConfig {
    /// With the image that a repository asks for, if the operator listed that.
    pub fn with_image_of(&self, asked: Option<&str>) -> Self {
        let mut config = self.clone();
        if let Some(image) = asked.filter(|image| self.lets_choose(image)) {
            config.image = Some(image.to_owned());
        }
        config
    }

    /// Whether a repository's wish for this image has an effect here.
    pub fn lets_choose(&self, image: &str) -> bool {
        self.backend != SandboxBackend::Local && self.images.iter().any(|listed| listed == image)
    }
}

/// Whether a name can be used: it must say by digest what it means, unless tags are allowed.
///
/// # Errors
/// Why not, in a sentence.
pub fn check_image_name(name: &str, tags_allowed: bool) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(name: &str, by_digest: bool, by_tag: bool) {
        let found = [
            check_image_name(name, false).is_ok(),
            check_image_name(name, true).is_ok(),
        ];
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
        let mut config = SandboxConfig {
            images: vec!["a".to_owned()],
            ..SandboxConfig::default()
        };
        assert_eq!(
            config.with_image_of(Some("a")).image,
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
            assert_eq!(
                config.with_image_of(asked).image.as_deref(),
                Some(expected),
                "{asked:?}"
            );
        }
    }
}
