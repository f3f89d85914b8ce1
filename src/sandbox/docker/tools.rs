//! Where git comes from for snapshots and exports. The image's own is used where it is there: nothing
//! inside can change it, since the root is read-only. Images without one (or without a shell) get a
//! container with this machine's system programs mounted read-only over the image's, as the local
//! sandbox shows them: the tree is then read by a git that is as contained as any command, and the
//! alternative, a copy of the whole tree on the host for each look at it, would put a hostile tree
//! before the host's git. Called by `docker`. Never lets git of the host run outside a container.

use super::image::Image;
use crate::sandbox::inherited;
use crate::sandbox::spec::Report;

/// Whose git and shell the scripts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    /// The image's.
    OfImage,
    /// This machine's.
    OfMachine,
}

/// The scripts need what git 2.30 brought, and small tools that know these options.
const LOOK: &str = r#"
for tool in find mktemp cut tail rm mkdir cat; do command -v $tool >/dev/null || exit 1; done
[ "$(printf 'a\0' | sed -zn 's/a/b/p' | tr '\0' c)" = bc ] || exit 1
find / -maxdepth 0 -mindepth 0 >/dev/null || exit 1
git --version
"#;
const LEAST_GIT: (u32, u32) = (2, 30);

impl Tools {
    /// From what the look came to.
    pub(super) fn found(reports: &[Report], said: &str) -> Self {
        let version = said.lines().find_map(|line| line.strip_prefix("git version "));
        let numbers = version.and_then(|version| {
            let mut parts = version.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        match (reports.last(), numbers) {
            (Some(Report::Exited(0)), Some(numbers)) if numbers >= LEAST_GIT => Tools::OfImage,
            _ => Tools::OfMachine,
        }
    }
}

/// The command that looks.
pub(super) fn look() -> Vec<String> {
    ["/bin/sh", "-c", LOOK].map(str::to_owned).to_vec()
}

/// The image's environment for commands.
pub(super) fn environment_of(image: &Image) -> Vec<(String, String)> {
    inherited::of_image(image.environment.iter().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_of_the_image_is_used_where_it_will_do() {
        for (code, said, expected) in [
            (0, "git version 2.39.5\n", Tools::OfImage),
            (0, "git version 2.54.0.windows\n", Tools::OfImage),
            (0, "git version 2.20.1\n", Tools::OfMachine),
            (0, "git version x\n", Tools::OfMachine),
            (127, "sh: git: not found\n", Tools::OfMachine),
            (1, "", Tools::OfMachine),
        ] {
            assert_eq!(Tools::found(&[Report::Exited(code)], said), expected, "{code} {said}");
        }
        assert_eq!(Tools::found(&[], "git version 2.39.5"), Tools::OfMachine);
    }
}
