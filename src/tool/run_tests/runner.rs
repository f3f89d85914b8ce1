//! The line that runs wanted tests with a project's runner. Called by `run_tests`. Pure. Never runs
//! more than was asked for without saying so: a runner that cannot choose is a problem in words.

use crate::tool::alias::quoted;
use crate::workspace::Commands;

/// Which tests.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) names: Vec<String>,
    /// Relative to the project; empty for all.
    pub(super) file: String,
}

/// How a project runs its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runner {
    Cargo,
    Pytest,
    /// With the whole line for all tests.
    Unittest(String),
    /// A script of package.json, and what it runs.
    Node(String, NodeRunner),
    Go,
    Ctest(Vec<String>),
    /// Maven, or its wrapper.
    Maven(String),
    /// Gradle, or its wrapper.
    Gradle(String),
    /// Something that cannot choose.
    Other(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeRunner {
    Vitest,
    Jest,
    Mocha,
    Node,
    Unknown,
}

impl Runner {
    /// From what is known of the project. `None`: nothing is.
    pub(super) fn of(commands: &Commands, read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let lines = &commands.test;
        let first = lines.first()?.as_str();
        Some(match first {
            "cargo test" => Self::Cargo,
            "go test ./..." => Self::Go,
            _ if first.starts_with("python3 -m pytest") => Self::Pytest,
            _ if first.starts_with("python3 -m unittest") => Self::Unittest(first.to_owned()),
            _ if lines.iter().any(|line| line.starts_with("ctest ")) => Self::Ctest(lines.clone()),
            _ if first.ends_with(" -B -q test") => Self::Maven(first.trim_end_matches(" -B -q test").to_owned()),
            _ if first.contains("gradle") => Self::Gradle(first.trim_end_matches(" test").to_owned()),
            "npm test" | "pnpm test" | "yarn test" | "bun run test" => Self::Node(
                first.to_owned(),
                NodeRunner::of(&read("package.json").unwrap_or_default()),
            ),
            _ => Self::Other(lines.clone()),
        })
    }

    /// The shell line. `has` tells whether the project has a file.
    pub(super) fn line(&self, wanted: &Wanted, has: impl Fn(&str) -> bool) -> Result<String, String> {
        let Wanted { names, file } = wanted;
        if !file.is_empty() && !has(file) {
            return Err(format!("{file} does not exist"));
        }
        Ok(match self {
            Self::Cargo => cargo(wanted, has),
            Self::Pytest => pytest(wanted),
            Self::Unittest(all) => {
                let start = if file.is_empty() {
                    all.clone()
                } else {
                    format!("python3 -m unittest {}", quoted(file))
                };
                names
                    .iter()
                    .fold(start, |line, name| format!("{line} -k {}", quoted(name)))
            }
            Self::Go => go(wanted),
            Self::Node(all, runner) => return runner.line(all, wanted),
            Self::Ctest(lines) if file.is_empty() => {
                let choice = if names.is_empty() {
                    String::new()
                } else {
                    format!(" -R {}", quoted(&any_of(names)))
                };
                format!("{}{choice}", lines.join(" && "))
            }
            Self::Maven(program) => {
                let mut tests = names.clone();
                tests.extend(stem(file).map(str::to_owned));
                let choice = match tests.as_slice() {
                    [] => String::new(),
                    tests => format!(
                        " -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false -Dtest={}",
                        quoted(&tests.join(","))
                    ),
                };
                format!("{program} -B test{choice}")
            }
            Self::Gradle(program) => {
                let stem = stem(file).map(|stem| format!("*{stem}"));
                names.iter().chain(&stem).fold(format!("{program} test"), |line, name| {
                    format!("{line} --tests {}", quoted(name))
                })
            }
            Self::Ctest(_) | Self::Other(_) if names.is_empty() && file.is_empty() => self.all(),
            Self::Ctest(_) | Self::Other(_) => {
                return Err(format!(
                    "`{}` cannot run a part of the tests; leave out tests and file to run all of them, or use run_command",
                    self.all()
                ));
            }
        })
    }

    fn all(&self) -> String {
        match self {
            Self::Ctest(lines) | Self::Other(lines) => lines.join(" && "),
            _ => String::new(),
        }
    }
}

fn cargo(wanted: &Wanted, has: impl Fn(&str) -> bool) -> String {
    let mut line = "cargo test --no-fail-fast".to_owned();
    let mut filters = wanted.names.clone();
    if !wanted.file.is_empty() {
        // The nearest package above the file.
        let folders = wanted.file.match_indices('/').map(|(at, _)| &wanted.file[..at]);
        let package = folders.filter(|folder| has(&format!("{folder}/Cargo.toml"))).last();
        if let Some(package) = package {
            line.push_str(&format!(
                " --manifest-path {}",
                quoted(&format!("{package}/Cargo.toml"))
            ));
        }
        let inside = package
            .and_then(|package| wanted.file.strip_prefix(package))
            .unwrap_or(&wanted.file);
        let inside = inside.trim_start_matches('/');
        if let Some(test) = inside.strip_prefix("tests/") {
            let name = test.split('/').next().unwrap_or(test);
            line.push_str(&format!(" --test {}", quoted(name.trim_end_matches(".rs"))));
        } else if let Some(module) = inside.strip_prefix("src/").and_then(module)
            && filters.is_empty()
        {
            filters.push(module);
        }
    }
    if !filters.is_empty() {
        line.push_str(" --");
        for filter in &filters {
            line.push_str(&format!(" {}", quoted(filter)));
        }
    }
    line
}

/// `a/b.rs` is the module `a::b::`; the root of a crate has no name.
fn module(file: &str) -> Option<String> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (!["lib", "main"].contains(&path)).then(|| format!("{}::", path.replace('/', "::")))
}

fn pytest(wanted: &Wanted) -> String {
    let mut line = "python3 -m pytest -q -rfE".to_owned();
    let (ids, words): (Vec<&String>, Vec<&String>) = wanted.names.iter().partition(|name| name.contains("::"));
    for id in &ids {
        line.push_str(&format!(" {}", quoted(id)));
    }
    if ids.is_empty() && !wanted.file.is_empty() {
        line.push_str(&format!(" {}", quoted(&wanted.file)));
    }
    if !words.is_empty() {
        let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
        line.push_str(&format!(" -k {}", quoted(&words.join(" or "))));
    }
    line
}

fn go(wanted: &Wanted) -> String {
    let package = match wanted.file.rsplit_once('/') {
        Some((folder, _)) => format!("./{folder}"),
        None if wanted.file.is_empty() => "./...".to_owned(),
        None => ".".to_owned(),
    };
    let plain = wanted.names.iter().all(|name| !name.contains('/'));
    match wanted.names.as_slice() {
        [] => format!("go test {}", quoted(&package)),
        names if plain => format!(
            "go test {} -run {}",
            quoted(&package),
            quoted(&format!("^({})$", any_of(names)))
        ),
        names => format!("go test {} -run {}", quoted(&package), quoted(&names.join("|"))),
    }
}

impl NodeRunner {
    fn of(package: &str) -> Self {
        let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
        let script = package["scripts"]["test"].as_str().unwrap_or_default();
        let has = |word: &str| script.contains(word);
        if has("vitest") {
            Self::Vitest
        } else if has("jest") || has("react-scripts test") {
            Self::Jest
        } else if has("mocha") {
            Self::Mocha
        } else if has("node --test") || has("node:test") || has("--test ") {
            Self::Node
        } else {
            Self::Unknown
        }
    }

    fn line(self, all: &str, wanted: &Wanted) -> Result<String, String> {
        if wanted.names.is_empty() && wanted.file.is_empty() {
            return Ok(all.to_owned());
        }
        let file = if wanted.file.is_empty() {
            String::new()
        } else {
            format!(" {}", quoted(&wanted.file))
        };
        let named = |flag: &str| match wanted.names.as_slice() {
            [] => String::new(),
            names => format!(" {flag}{}", quoted(&any_of(names))),
        };
        Ok(match self {
            Self::Vitest => format!("npx --no-install vitest run{file}{}", named("-t ")),
            Self::Jest => format!("npx --no-install jest{file}{}", named("-t ")),
            Self::Mocha => format!("npx --no-install mocha{file}{}", named("-g ")),
            Self::Node => format!("node --test{}{file}", named("--test-name-pattern=")),
            Self::Unknown => {
                return Err(format!(
                    "it is not known how `{all}` runs a part of the tests; leave out tests and file to run all of them, or use \
                     run_command"
                ));
            }
        })
    }
}

/// A regular expression that finds any of the names.
fn any_of(names: &[String]) -> String {
    names
        .iter()
        .map(|name| regex::escape(name))
        .collect::<Vec<_>>()
        .join("|")
}

/// The name of a file without folders and extension.
fn stem(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next()?;
    let stem = name.split('.').next()?;
    (!stem.is_empty()).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(test: &[&str], package: &str, names: &[&str], file: &str, expected: &str) {
        let commands = Commands {
            setup: Vec::new(),
            fetch: Vec::new(),
            test: test.iter().map(|line| (*line).to_owned()).collect(),
        };
        let runner = Runner::of(&commands, |_| Some(package.to_owned())).unwrap();
        let wanted = Wanted {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            file: file.to_owned(),
        };
        let line = runner.line(&wanted, |path| path == file || path == "crates/x/Cargo.toml");
        assert_eq!(line.unwrap_or_else(|problem| problem), expected);
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn every_runner_is_told_what_is_wanted() {
        check(&["cargo test"], "", &[], "", "cargo test --no-fail-fast");
        check(
            &["cargo test"],
            "",
            &["a::b", "c d"],
            "",
            "cargo test --no-fail-fast -- a::b 'c d'",
        );
        check(
            &["cargo test"],
            "",
            &[],
            "tests/it.rs",
            "cargo test --no-fail-fast --test it",
        );
        check(
            &["cargo test"],
            "",
            &["x"],
            "tests/it/a.rs",
            "cargo test --no-fail-fast --test it -- x",
        );
        check(
            &["cargo test"],
            "",
            &[],
            "crates/x/src/a/b.rs",
            "cargo test --no-fail-fast --manifest-path crates/x/Cargo.toml -- a::b::",
        );
        let pytest = ["python3 -m pytest -q"];
        check(&pytest, "", &["a", "b"], "", "python3 -m pytest -q -rfE -k 'a or b'");
        check(
            &pytest,
            "",
            &["t/x.py::test_a[1]"],
            "",
            "python3 -m pytest -q -rfE 't/x.py::test_a[1]'",
        );
        check(&pytest, "", &["a"], "t/x.py", "python3 -m pytest -q -rfE t/x.py -k a");
        let unittest = ["python3 -m unittest discover -s tests"];
        check(
            &unittest,
            "",
            &["a", "b"],
            "",
            "python3 -m unittest discover -s tests -k a -k b",
        );
        check(&unittest, "", &[], "tests/x.py", "python3 -m unittest tests/x.py");
        check(
            &["go test ./..."],
            "",
            &["TestA", "TestB"],
            "p/a_test.go",
            "go test ./p -run '^(TestA|TestB)$'",
        );
        check(&["go test ./..."], "", &["TestA/b"], "", "go test ./... -run TestA/b");
        for (script, expected) in [
            ("vitest", "npx --no-install vitest run a.js -t 'x\\.y'"),
            ("jest --ci", "npx --no-install jest a.js -t 'x\\.y'"),
            ("mocha", "npx --no-install mocha a.js -g 'x\\.y'"),
            ("node --test", "node --test --test-name-pattern='x\\.y' a.js"),
        ] {
            check(
                &["npm test"],
                &format!("{{\"scripts\": {{\"test\": \"{script}\"}}}}"),
                &["x.y"],
                "a.js",
                expected,
            );
        }
        check(&["npm test"], "{}", &[], "", "npm test");
        check(
            &["mvn -B -q test"],
            "",
            &["ATest#b"],
            "",
            "mvn -B test -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false -Dtest='ATest#b'",
        );
        check(
            &["sh ./gradlew test"],
            "",
            &["A.b"],
            "src/X.kt",
            "sh ./gradlew test --tests A.b --tests '*X'",
        );
        check(
            &["cmake -S .", "ctest --test-dir b"],
            "",
            &["a"],
            "",
            "cmake -S . && ctest --test-dir b -R a",
        );
        check(&["make test"], "", &[], "", "make test");
    }

    #[test]
    fn what_cannot_be_chosen_is_said() {
        check(
            &["make test"],
            "",
            &["a"],
            "",
            "`make test` cannot run a part of the tests; leave out tests and file to run all of them, or use run_command",
        );
        check(
            &["npm test"],
            "{}",
            &["a"],
            "",
            "it is not known how `npm test` runs a part of the tests; leave out tests and file to run all of them, or use run_command",
        );
        let none = Runner::of(&Commands::default(), |_| None);
        assert_eq!(none, None);
        let wanted = Wanted {
            names: Vec::new(),
            file: "none.py".to_owned(),
        };
        assert_eq!(
            Runner::Pytest.line(&wanted, |_| false),
            Err("none.py does not exist".to_owned())
        );
    }
}
