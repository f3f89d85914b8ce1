//! Which variables of an image its commands get: its PATH and what its compilers need. Called by
//! backends whose sandboxes are made from images. Never what the helper sets itself, nor what would
//! load code into programs or lead around the way out.

/// Names that the helper sets itself and that an image may not change.
const OURS: &[&str] = &[
    "HOME",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "CI",
    "PAGER",
    "HOSTNAME",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "LD_PRELOAD",
    "LD_AUDIT",
];

/// Beginnings of names that are ours, or of a server's own daemon.
const PREFIXES: &[&str] = &["GIT_", "OPENSANDBOX_", "EXECD_", "FORGEHAND_"];

/// Those that pass.
pub(super) fn of_image(all: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    all.into_iter().filter(|(name, _)| passes(name)).collect()
}

fn passes(name: &str) -> bool {
    // Where the way out is, the image does not know.
    let of_a_proxy = name.to_ascii_lowercase().ends_with("_proxy");
    let ours = OURS.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !(name.is_empty() || ours || of_a_proxy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_cannot_take_over_what_the_helper_sets() {
        for (name, expected) in [
            ("PATH", true),
            ("GOPATH", true),
            ("HOME", false),
            ("GIT_DIR", false),
            ("LD_PRELOAD", false),
            ("https_proxy", false),
            ("NO_PROXY", false),
            ("OPENSANDBOX_EGRESS_TOKEN", false),
            ("", false),
        ] {
            assert_eq!(passes(name), expected, "{name}");
        }
    }
}
