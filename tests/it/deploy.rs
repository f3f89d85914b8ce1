//! The files that people install the service with: what they name exists. Never starts a container.

use std::path::Path;

use forgehand::config::sections;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_image_copies_what_is_there() {
    for line in read("Dockerfile").lines() {
        let Some(parts) = line.strip_prefix("COPY ").filter(|parts| !parts.starts_with("--from")) else {
            continue;
        };
        let sources: Vec<&str> = parts.split_whitespace().collect();
        for source in &sources[..sources.len() - 1] {
            assert!(
                Path::new(env!("CARGO_MANIFEST_DIR")).join(source).exists(),
                "Dockerfile copies {source}, which is not there"
            );
        }
    }
}

#[test]
fn every_variable_that_is_set_is_a_key() {
    let known: Vec<String> = sections()
        .iter()
        .flat_map(|section| {
            section.keys.iter().flat_map(|key| {
                let name = format!("FORGEHAND_{}__{}", section.name, key.name).to_uppercase();
                [format!("{name}_FILE"), name]
            })
        })
        .chain(["FORGEHAND_SECTION__KEY", "FORGEHAND_CONFIG"].map(str::to_owned))
        .collect();
    for file in [
        "Dockerfile",
        "deploy/compose.yml",
        "deploy/forgehand.service",
        "README.md",
    ] {
        let text = read(file);
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for word in words.filter(|word| word.starts_with("FORGEHAND_")) {
            assert!(
                known.iter().any(|name| name == word),
                "{file} sets {word}, which is no key"
            );
        }
    }
}
