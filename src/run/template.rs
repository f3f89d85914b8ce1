//! Where a repository keeps its pull request template. Pure.
//! Never chooses between several templates that nobody named the default.

/// Folders that GitHub looks into, the first one first.
const FOLDERS: [&str; 3] = [".github/", "", "docs/"];

/// The path of the template that GitHub would offer, or the default one of several.
pub(super) fn template_of(files: &[String]) -> Option<&str> {
    let lower: Vec<(String, &str)> = files.iter().map(|path| (path.to_lowercase(), path.as_str())).collect();
    let named = |name: &str| lower.iter().find(|(path, _)| path == name).map(|(_, path)| *path);
    let single = FOLDERS.iter().find_map(|folder| {
        ["md", "markdown", "txt"]
            .iter()
            .find_map(|ending| named(&format!("{folder}pull_request_template.{ending}")))
    });
    single.or_else(|| {
        FOLDERS.iter().find_map(|folder| {
            let folder = format!("{folder}pull_request_template/");
            let here: Vec<(&str, &str)> = lower
                .iter()
                .filter_map(|(path, real)| Some((path.strip_prefix(&folder)?, *real)))
                .filter(|(name, _)| !name.contains('/') && (name.ends_with(".md") || name.ends_with(".txt")))
                .collect();
            let default = here.iter().find(|(name, _)| {
                matches!(
                    name.rsplit_once('.').map_or(*name, |(stem, _)| stem),
                    "default" | "pull_request_template"
                )
            });
            match (default, here.as_slice()) {
                (Some((_, path)), _) | (None, [(_, path)]) => Some(*path),
                _ => None,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_found_where_github_finds_them() {
        let table: [(&[&str], Option<&str>); 8] = [
            (&[], None),
            (&["README.md", "src/pull_request_template.md"], None),
            (&["PULL_REQUEST_TEMPLATE.md"], Some("PULL_REQUEST_TEMPLATE.md")),
            (
                &["docs/pull_request_template.md", ".github/Pull_Request_Template.md"],
                Some(".github/Pull_Request_Template.md"),
            ),
            (
                &["docs/PULL_REQUEST_TEMPLATE.txt"],
                Some("docs/PULL_REQUEST_TEMPLATE.txt"),
            ),
            (
                &[
                    ".github/PULL_REQUEST_TEMPLATE/bug.md",
                    ".github/PULL_REQUEST_TEMPLATE/default.md",
                ],
                Some(".github/PULL_REQUEST_TEMPLATE/default.md"),
            ),
            (
                &["PULL_REQUEST_TEMPLATE/only.md"],
                Some("PULL_REQUEST_TEMPLATE/only.md"),
            ),
            (&["PULL_REQUEST_TEMPLATE/a.md", "PULL_REQUEST_TEMPLATE/b.md"], None),
        ];
        for (files, expected) in table {
            let files: Vec<String> = files.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(template_of(&files), expected, "{files:?}");
        }
    }
}
