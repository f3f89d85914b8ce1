//! Rules about the source itself: layers, sizes, headers, where SQL may stand, and that every
//! statement has a conformance test. Each failure names the file and the rule.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
            }
        }
    }
    assert!(!files.is_empty(), "no Rust files in {folder}");
    files.sort();
    files
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Module → layer number, from the order and the headings in lib.rs.
fn layers() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut layer = 0;
    let mut layers = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with("// ") {
            layer += 1;
        } else if let Some(module) = line.strip_prefix("pub mod ") {
            layers.insert(module.trim_end_matches(';').to_owned(), layer);
        }
    }
    assert!(layers.len() > 20, "lib.rs lists its modules under layer headings");
    layers
}

/// The module names that a source file refers to by `crate::NAME`.
fn uses(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let group = &group[..group.find("};").unwrap_or(group.len())];
            let mut depth = 0;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(std::mem::take(&mut name)),
                    c if depth == 0 && !c.is_whitespace() => name.push(c),
                    _ => {}
                }
            }
            names.push(name);
        } else {
            names.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    names
        .into_iter()
        .map(|name| name.split("::").next().unwrap_or_default().trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn a_module_uses_only_layers_above_its_own() {
    let layers = layers();
    let mut problems = Vec::new();
    for (path, text) in rust_files("src") {
        let module = path
            .trim_start_matches("src/")
            .split(['/', '.'])
            .next()
            .unwrap()
            .to_owned();
        let Some(own) = layers.get(&module) else { continue };
        for used in uses(&text) {
            let Some(layer) = layers.get(&used) else { continue };
            // Words and nouns are plain data and may name their neighbours.
            if used != module && (layer > own || (layer == own && *own > 2)) {
                problems.push(format!(
                    "{path} uses crate::{used}, which is not in a layer above `{module}`"
                ));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_module_is_in_the_map() {
    let layers = layers();
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        if name.ends_with(".rs") && !["lib", "main"].contains(&module) && !layers.contains_key(module) {
            problems.push(format!("src/{name} is not declared in lib.rs"));
        }
    }
    assert_none(&problems);
}

#[test]
fn files_are_short_and_begin_with_what_they_are() {
    let mut problems = Vec::new();
    for (path, text) in rust_files("src").into_iter().chain(rust_files("tests")) {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!("{path} has {lines} lines; split it before {MAX_LINES}"));
        }
        if !text.starts_with("//!") {
            problems.push(format!("{path} does not begin with a `//!` header"));
        }
        if path.ends_with("mod.rs") {
            problems.push(format!("{path}: a module's door is named after it"));
        }
    }
    assert_none(&problems);
}

#[test]
fn sources_say_what_they_never_do() {
    let problems: Vec<String> = rust_files("src")
        .into_iter()
        .filter(|(path, text)| {
            let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
            path != "src/lib.rs" && !path.ends_with("tests.rs") && !header.join(" ").contains("Never")
        })
        .map(|(path, _)| format!("{path}: the header says what the module never does"))
        .collect();
    assert_none(&problems);
}

#[test]
fn sql_stands_in_the_store_only() {
    let words = [
        "INSERT INTO",
        "UPDATE jobs",
        "DELETE FROM",
        "SELECT * FROM",
        "sqlx::query",
    ];
    let mut problems = Vec::new();
    for (path, text) in rust_files("src") {
        if path.starts_with("src/store") {
            continue;
        }
        for word in words {
            if text.contains(word) {
                problems.push(format!("{path} contains `{word}`; SQL belongs to src/store"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_statement_has_a_conformance_test() {
    let tests: String = rust_files("tests")
        .into_iter()
        .filter(|(path, _)| path.starts_with("tests/it/store"))
        .map(|(_, text)| text)
        .collect();
    let mut problems = Vec::new();
    for (path, text) in rust_files("src") {
        if !path.starts_with("src/store") {
            continue;
        }
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub async fn ") else {
                continue;
            };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if rest.contains("&mut self") && !tests.contains(&format!(".{name}(")) {
                problems.push(format!("{path}: Tx::{name} is not called in tests/it/store"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let mut problems = Vec::new();
    for folder in ["src", "tests", "deploy", "migrations"] {
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let Ok(text) = std::fs::read_to_string(&path) else {
                    continue;
                };
                // Written in two parts, so that this file does not name them either.
                for word in [
                    concat!("/wo", "rk/"),
                    concat!("todo", "!("),
                    concat!("unimpl", "emented!("),
                    concat!("dbg", "!("),
                ] {
                    if text.contains(word) {
                        problems.push(format!("{} contains `{word}`", path.display()));
                    }
                }
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn the_lockfile_names_the_ordinary_registry_only() {
    let lock = std::fs::read_to_string(Path::new(&root()).join("Cargo.lock")).unwrap();
    let odd: Vec<String> = lock
        .lines()
        .filter(|line| {
            line.starts_with("source = ") && !line.contains("registry+https://github.com/rust-lang/crates.io-index")
        })
        .map(str::to_owned)
        .collect();
    assert_none(&odd);
}
