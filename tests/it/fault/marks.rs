//! Rules about the failpoints themselves: each has a name of its own and a story, and no build that
//! people run has any.

use std::collections::BTreeMap;
use std::path::Path;

/// Every failpoint and how often it stands in the source.
pub fn marks() -> BTreeMap<String, u32> {
    let mut marks = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.file_name().is_some_and(|name| name == "fault.rs") {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            for (at, _) in text.match_indices("fp!(") {
                let name = text[at..].split('"').nth(1).unwrap();
                *marks.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    marks
}

#[test]
fn every_failpoint_has_a_name_of_its_own() {
    let marks = marks();
    assert!(marks.len() >= 40, "{} failpoints", marks.len());
    for (name, count) in marks {
        assert_eq!(count, 1, "{name}");
        let well_formed =
            name.split('.').count() == 2 && name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
        assert!(well_formed, "{name}: it is written place.moment");
    }
}

#[test]
fn no_build_for_people_has_failpoints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        manifest["features"].get("default").is_none(),
        "no feature is on by default"
    );
    let guard = std::fs::read_to_string(root.join("src/fault.rs")).unwrap();
    assert!(
        guard.contains("#[cfg(all(feature = \"failpoints\", not(debug_assertions)))]\ncompile_error!"),
        "a release with failpoints does not compile"
    );
    for profile in ["release", "dist"] {
        assert!(
            manifest["profile"][profile].get("debug-assertions").is_none(),
            "{profile}"
        );
    }
}
