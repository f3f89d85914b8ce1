//! The files that people install the service with: what they name exists, systemd reads its units, and
//! cron gets a result out of `forgehand run`. Never starts a container.

use std::path::Path;
use std::process::Command;

use forgehand::config::sections;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// What all files below a folder say.
fn all_of(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.is_dir() {
            true => all_of(&path),
            false => std::fs::read_to_string(&path).unwrap_or_default(),
        })
        .collect()
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
        .filter(|section| !section.is_list)
        .flat_map(|section| {
            section.keys.iter().flat_map(|key| {
                let name = format!("FORGEHAND_{}__{}", section.name, key.name).to_uppercase();
                [format!("{name}_FILE"), name]
            })
        })
        .chain(["FORGEHAND_SECTION__KEY", "FORGEHAND_CONFIG"].map(str::to_owned))
        .collect();
    let read_by_tests: String = ["tests/it", "src"]
        .map(|folder| all_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)))
        .concat();
    for file in [
        "Dockerfile",
        "deploy/compose.yml",
        "deploy/forgehand.service",
        "deploy/forgehand-run@.service",
        "deploy/github-actions.yml",
        "README.md",
    ] {
        let text = read(file);
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for word in words.filter(|word| word.starts_with("FORGEHAND_")) {
            let is_of_tests = word.starts_with("FORGEHAND_TEST_") && read_by_tests.contains(&format!("\"{word}\""));
            assert!(
                is_of_tests || known.iter().any(|name| name == word),
                "{file} sets {word}, which is no key"
            );
        }
    }
}

/// Whether a tool is there. Without `FORGEHAND_TEST_ALL`, what needs it is left out and says so.
fn has(tool: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
    if there.unwrap().status.success() {
        return true;
    }
    let missing = format!("{tool} is not there; tests/run installs it");
    assert!(std::env::var_os("FORGEHAND_TEST_ALL").is_none(), "{missing}");
    eprintln!("left out: {missing}");
    false
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    if !has("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for name in ["forgehand.service", "forgehand-run@.service", "forgehand-run@.timer"] {
        // Verified where the program is, and as an instance.
        let text = read(&format!("deploy/{name}")).replace("/usr/local/bin/forgehand", env!("CARGO_BIN_EXE_forgehand"));
        let unit = folder.path().join(name.replace('@', "@nightly"));
        std::fs::write(&unit, text).unwrap();
        units.push(unit);
    }
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
    // It would have said something.
    std::fs::write(&units[2], "[Timer]\nOnCalendar=often\n").unwrap();
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&units[2])
        .output()
        .unwrap();
    assert!(!output.status.success());
}

/// Every `forgehand run …` of the examples.
fn runs() -> Vec<(&'static str, String)> {
    let mut runs = Vec::new();
    for file in [
        "deploy/forgehand-run@.service",
        "deploy/crontab.example",
        "deploy/github-actions.yml",
    ] {
        let text = read(file);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let found: Vec<_> = lines
            .filter_map(|line| Some(line.split_once("forgehand run ")?.1.to_owned()))
            .collect();
        assert_eq!(found.len(), 1, "{file}");
        runs.extend(found.into_iter().map(|run| (file, run)));
    }
    runs
}

#[test]
fn the_examples_use_options_that_are_there() {
    let help = Command::new(env!("CARGO_BIN_EXE_forgehand"))
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for (file, run) in runs() {
        let options: Vec<&str> = run.split(' ').filter(|word| word.starts_with("--")).collect();
        assert!(
            options.contains(&"--unattended") && options.contains(&"--task"),
            "{file}: {run}"
        );
        for option in options {
            assert!(
                help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n")),
                "{file}: {option}"
            );
        }
    }
}
