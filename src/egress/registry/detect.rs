//! Registries that the package managers of this machine are set up for, read from their own files.
//! Called at start where the operator wants it. Never runs a package manager, and never reads a
//! token: an address with a user name in it is left out.

use std::fs;
use std::path::{Path, PathBuf};

use super::Registry;

/// Largest file of settings that is read.
const MAX_BYTES: u64 = 256 * 1024;

/// Most registries that are found.
const MAX_FOUND: usize = 32;

/// Entries for `egress.registries` from the settings below `home` and, as `root` is usually `/`, of
/// the machine.
pub fn detect_registries(home: &Path, root: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |kind: &str, addresses: Vec<String>| {
        for address in addresses {
            let entry = format!("{kind} {address}");
            if Registry::parse(&entry).is_ok() && !found.contains(&entry) && found.len() < MAX_FOUND {
                found.push(entry);
            }
        }
    };
    // The first file that says something counts, as for the programs themselves.
    let first = |paths: Vec<PathBuf>, read_in: fn(&str) -> Vec<String>| {
        let texts = paths.iter().filter_map(|path| read(path));
        texts
            .map(|text| read_in(&text))
            .find(|addresses| !addresses.is_empty())
            .unwrap_or_default()
    };
    let cargo = [home.join(".cargo/config.toml"), home.join(".cargo/config")];
    add("cargo", first(cargo.into(), in_cargo));
    let npm = [home.join(".npmrc"), root.join("etc/npmrc"), root.join("usr/etc/npmrc")];
    add("npm", first(npm.into(), in_npm));
    let pip = [
        home.join(".config/pip/pip.conf"),
        home.join(".pip/pip.conf"),
        root.join("etc/pip.conf"),
    ];
    add("pip", first(pip.into(), in_pip));
    let go = [
        home.join(".config/go/env"),
        root.join("usr/local/go/go.env"),
        root.join("usr/lib/go/go.env"),
        root.join("usr/share/go/go.env"),
    ];
    add("go", first(go.into(), in_go));
    let mut apt = vec![root.join("etc/apt/sources.list")];
    let more = fs::read_dir(root.join("etc/apt/sources.list.d"))
        .into_iter()
        .flatten()
        .flatten();
    apt.extend(more.map(|entry| entry.path()));
    apt.sort();
    for text in apt.iter().filter_map(|path| read(path)) {
        add("apt", in_apt(&text));
    }
    found
}

fn read(path: &Path) -> Option<String> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    is_small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// What crates.io is replaced with.
fn in_cargo(text: &str) -> Vec<String> {
    let Ok(settings) = text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let look = |path: &[&str]| {
        let (first, rest) = path.split_first()?;
        let mut value = settings.get(*first)?;
        for key in rest {
            value = value.get(key)?;
        }
        value.as_str().map(str::to_owned)
    };
    let source = look(&["source", "crates-io", "replace-with"]);
    let replaced =
        source.and_then(|name| look(&["source", &name, "registry"]).or_else(|| look(&["registries", &name, "index"])));
    replaced.into_iter().collect()
}

/// The value of `registry`, not of a scope.
fn in_npm(text: &str) -> Vec<String> {
    pairs(text)
        .filter(|(key, _)| *key == "registry")
        .map(|(_, value)| value)
        .collect()
}

fn in_pip(text: &str) -> Vec<String> {
    let keys = ["index-url", "index_url"];
    pairs(text)
        .filter(|(key, _)| keys.contains(key))
        .map(|(_, value)| value)
        .collect()
}

/// The addresses of `GOPROXY`; `direct` and `off` are none.
fn in_go(text: &str) -> Vec<String> {
    let values = pairs(text).filter(|(key, _)| *key == "GOPROXY").map(|(_, value)| value);
    values
        .flat_map(|value| value.split([',', '|']).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Addresses of lines `deb [options] ADDRESS …` and of fields `URIs:`.
fn in_apt(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| {
            let is_entry = ["deb ", "deb-src ", "URIs:"]
                .iter()
                .any(|start| line.starts_with(start));
            let words = line.split_whitespace().filter(move |_| is_entry);
            words.filter(|word| word.contains("://")).map(str::to_owned)
        })
        .collect()
}

/// Lines `KEY = VALUE` of simple files.
fn pairs(text: &str) -> impl Iterator<Item = (&str, String)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        Some((key.trim(), value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_and_tokens_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (home, root) = (folder.path().join("home"), folder.path().join("root"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(detect_registries(&home, &root).is_empty());
        write(
            home.join(".cargo/config.toml"),
            "[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+https://cargo.example/index/\"\n",
        );
        write(
            home.join(".npmrc"),
            "//npm.example/:_authToken=secret\n@own:registry=https://own.example/\nregistry = https://npm.example/\n",
        );
        write(
            root.join("etc/pip.conf"),
            "[global]\nindex-url = https://u:secret@pypi.example/simple\n",
        );
        write(
            root.join("usr/local/go/go.env"),
            "# x\nGOPROXY=https://go.example,direct\n",
        );
        write(
            root.join("etc/apt/sources.list"),
            "# deb http://old.example/debian stable main\ndeb [arch=amd64] http://deb.example/debian stable main\n",
        );
        write(
            root.join("etc/apt/sources.list.d/x.sources"),
            "Types: deb\nURIs: http://more.example/debian cdrom://x\nSuites: stable\n",
        );
        let found = detect_registries(&home, &root);
        assert_eq!(
            found,
            [
                "cargo sparse+https://cargo.example/index/",
                "npm https://npm.example/",
                "go https://go.example",
                "apt http://deb.example/debian",
                "apt http://more.example/debian",
            ]
        );
    }
}
