//! The addresses that package managers read, by kind: indexes and files, and nothing that writes,
//! searches or logs in. Sources: the Cargo book's chapter on registries, the npm registry's API, PEP
//! 503 and 691, the Go modules reference (GOPROXY protocol), Debian's repository format. Never a
//! query, never a dot segment.

use super::Kind;

/// Longest path below a registry's address.
const MAX_BYTES: usize = 1_024;

/// Most parts of a path.
const MAX_PARTS: usize = 24;

/// What a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::egress) enum Role {
    /// Text with addresses in it, which are rewritten.
    Index,
    /// Cargo's description of a registry, which says where its files lie.
    CargoConfig,
    /// Bytes that stay as they are.
    File,
}

/// What a path below a registry's address is for; nothing when it is no path of packages. `beside`:
/// the address is one for files.
pub(super) fn role(kind: Kind, beside: bool, path: &str) -> Option<Role> {
    if path.is_empty() || path.len() > MAX_BYTES {
        return None;
    }
    let is_folder = path.ends_with('/');
    let parts: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
    if parts.len() > MAX_PARTS || !parts.iter().all(|part| is_plain(part)) {
        return None;
    }
    // Only the index of Python ends its names with a slash.
    if is_folder && kind != Kind::Pip {
        return None;
    }
    match (kind, beside) {
        (Kind::Cargo, false) => cargo(&parts),
        (Kind::Cargo, true) => cargo_file(&parts),
        (Kind::Npm, _) => npm(&parts),
        (Kind::Pip, false) => pip(&parts, is_folder),
        (Kind::Pip, true) => (!is_folder && pip_file(&parts)).then_some(Role::File),
        (Kind::Go, _) => go(&parts).then_some(Role::File),
        (Kind::Apt, _) => apt(&parts).then_some(Role::File),
    }
}

/// Whether a part of a path means the same to everybody who reads it.
pub(super) fn is_plain(part: &str) -> bool {
    let escapes = ["%2b", "%7e", "%3a", "%40"];
    let mut rest = part;
    while let Some(at) = rest.find('%') {
        let escape = rest.get(at..at + 3).map(str::to_ascii_lowercase);
        if !escape.is_some_and(|escape| escapes.contains(&escape.as_str())) && !is_scope(part) {
            return false;
        }
        rest = &rest[at + 1..];
    }
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+!:@%-".contains(&byte);
    !part.is_empty() && part.len() <= 255 && part.bytes().all(usual) && part != "." && part != ".."
}

/// `@scope%2fname`, as npm writes it.
fn is_scope(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    let name = |name: &str| !name.is_empty() && !name.contains('%') && !name.starts_with('.');
    let scoped = lower.strip_prefix('@').and_then(|scoped| scoped.split_once("%2f"));
    scoped.is_some_and(|(scope, package)| name(scope) && name(package))
}

fn is_name(name: &str, more: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && name.chars().all(usual)
}

/// `config.json`, and the index by the beginning of names.
fn cargo(parts: &[&str]) -> Option<Role> {
    let is_name = |name: &str| is_name(name, "-_") && name.len() <= 64;
    match *parts {
        ["config.json"] => Some(Role::CargoConfig),
        ["1", name] => (name.len() == 1 && is_name(name)).then_some(Role::File),
        ["2", name] => (name.len() == 2 && is_name(name)).then_some(Role::File),
        ["3", first, name] => (name.len() == 3 && is_name(name) && name.get(..1) == Some(first)).then_some(Role::File),
        [first, second, name] if name.len() > 3 && is_name(name) => {
            (name.get(..2) == Some(first) && name.get(2..4) == Some(second)).then_some(Role::File)
        }
        // A registry may keep its files beside its index.
        _ => cargo_file(parts),
    }
}

fn cargo_file(parts: &[&str]) -> Option<Role> {
    let is_file = match *parts {
        [.., name, version, "download"] => is_name(name, "-_") && is_version(version),
        [.., name, file] => is_name(name, "-_") && file.starts_with(name) && file.ends_with(".crate"),
        _ => false,
    };
    (is_file && parts.len() <= 8).then_some(Role::File)
}

fn is_version(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
}

fn npm(parts: &[&str]) -> Option<Role> {
    let is_package = |name: &str| is_name(name, "-._~") || is_scope(name);
    let is_scope_alone = |name: &str| name.strip_prefix('@').is_some_and(|name| is_name(name, "-._~"));
    let parts = match parts {
        [scope, rest @ ..] if is_scope_alone(scope) => rest,
        parts => parts,
    };
    match *parts {
        [name] if is_package(name) => Some(Role::Index),
        [name, "-", file] if is_package(name) && file.ends_with(".tgz") => Some(Role::File),
        [name, version] if is_package(name) && is_name(version, "-._+") => Some(Role::Index),
        _ => None,
    }
}

/// One project's page; files may lie beside it.
fn pip(parts: &[&str], is_folder: bool) -> Option<Role> {
    match *parts {
        [project] if is_name(project, "-._") => Some(Role::Index),
        _ if !is_folder && pip_file(parts) => Some(Role::File),
        _ => None,
    }
}

fn pip_file(parts: &[&str]) -> bool {
    let endings = [".whl", ".tar.gz", ".zip", ".tar.bz2", ".egg"];
    let last = parts.last().copied().unwrap_or_default();
    let last = last.strip_suffix(".metadata").unwrap_or(last);
    parts.len() > 1 && endings.iter().any(|ending| last.ends_with(ending))
}

fn go(parts: &[&str]) -> bool {
    match *parts {
        ["sumdb", _, "supported" | "latest"] => true,
        ["sumdb", _, "lookup" | "tile", ref rest @ ..] => !rest.is_empty(),
        [ref module @ .., "@latest"] => is_module(module),
        [ref module @ .., "@v", "list"] => is_module(module),
        [ref module @ .., "@v", file] => {
            let endings = [".info", ".mod", ".zip"];
            is_module(module) && file.starts_with('v') && endings.iter().any(|ending| file.ends_with(ending))
        }
        _ => false,
    }
}

/// Capitals are written `!c` in a module's path.
fn is_module(parts: &[&str]) -> bool {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._~!-+".contains(c);
    !parts.is_empty() && parts.iter().all(|part| part.chars().all(usual))
}

fn apt(parts: &[&str]) -> bool {
    match *parts {
        ["dists", ref rest @ ..] => !rest.is_empty(),
        ["pool", .., file] => [".deb", ".udeb", ".dsc", ".tar.xz", ".tar.gz", ".tar.bz2", ".tar.zst"]
            .iter()
            .any(|ending| file.ends_with(ending)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, path: &str, expected: Option<Role>) {
        assert_eq!(role(kind, false, path), expected, "{kind:?} {path:?}");
    }

    #[test]
    fn n10_what_package_managers_read_passes() {
        for (kind, path, expected) in [
            (Kind::Cargo, "config.json", Role::CargoConfig),
            (Kind::Cargo, "1/a", Role::File),
            (Kind::Cargo, "2/cc", Role::File),
            (Kind::Cargo, "3/u/url", Role::File),
            (Kind::Cargo, "se/rd/serde_json", Role::File),
            (Kind::Cargo, "api/v1/crates/serde/1.0.0/download", Role::File),
            (Kind::Cargo, "serde/serde-1.0.0.crate", Role::File),
            (Kind::Npm, "left-pad", Role::Index),
            (Kind::Npm, "@types%2fnode", Role::Index),
            (Kind::Npm, "@types/node", Role::Index),
            (Kind::Npm, "left-pad/1.3.0", Role::Index),
            (Kind::Npm, "left-pad/-/left-pad-1.3.0.tgz", Role::File),
            (Kind::Npm, "@types/node/-/node-20.1.0.tgz", Role::File),
            (Kind::Pip, "requests/", Role::Index),
            (Kind::Pip, "zope.interface/", Role::Index),
            (Kind::Go, "github.com/!burnt!sushi/toml/@v/list", Role::File),
            (Kind::Go, "golang.org/x/mod/@v/v0.1.0.zip", Role::File),
            (Kind::Go, "golang.org/x/mod/@latest", Role::File),
            (Kind::Go, "sumdb/sum.example/lookup/golang.org/x/mod@v0.1.0", Role::File),
            (Kind::Apt, "dists/stable/InRelease", Role::File),
            (Kind::Apt, "pool/main/g/gcc/g%2b%2b_12_amd64.deb", Role::File),
        ] {
            check(kind, path, Some(expected));
        }
        assert_eq!(
            role(Kind::Pip, true, "aa/bb/x-1.0-py3-none-any.whl.metadata"),
            Some(Role::File)
        );
        assert_eq!(role(Kind::Cargo, true, "serde/1.0.0/download"), Some(Role::File));
    }

    #[test]
    fn n10_everything_else_does_not() {
        for (kind, path) in [
            (Kind::Cargo, "api/v1/crates/new"),
            (Kind::Cargo, "api/v1/crates?q=secret"),
            (Kind::Cargo, "se/rd/other"),
            (Kind::Cargo, "config.json/"),
            (Kind::Npm, "-/npm/v1/tokens"),
            (Kind::Npm, "-/user/org.couchdb.user:x"),
            (Kind::Npm, "left-pad?write=true"),
            (Kind::Npm, "left-pad/../-/whoami"),
            (Kind::Npm, "left-pad/%2e%2e/x"),
            (Kind::Npm, "left%00pad"),
            (Kind::Npm, "@types%2f..%2fx"),
            (Kind::Pip, ""),
            (Kind::Pip, "legacy/upload/x"),
            (Kind::Pip, "requests//"),
            (Kind::Go, "github.com/x/y/@v/upload"),
            (Kind::Go, "git-receive-pack"),
            (Kind::Apt, "etc/passwd"),
            (Kind::Apt, "pool/main/x.sh"),
        ] {
            check(kind, path, None);
        }
        check(Kind::Npm, &"a".repeat(300), None);
        check(Kind::Apt, &format!("dists/{}", "a/".repeat(200)), None);
    }
}
