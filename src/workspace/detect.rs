//! How a repository is tested, read from its own files. Pure: the caller brings the list of files
//! and a way to read one. The first match of this order decides: Cargo, npm and its kin, Python,
//! Go, Perl, Ruby, PHP, .NET, Elixir, a Makefile, CMake, Meson, Maven, Gradle, then scripts with a telling name. A repository
//! that wants something else says so in its own configuration. Never guesses inside subfolders.

use std::collections::HashSet;

/// Commands found, as shell lines for the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commands {
    /// Prepare the checkout, for example install what a lockfile names.
    pub setup: Vec<String>,
    /// Fetch what a lockfile names, so that `test` finds it: of use only where there is a network.
    pub fetch: Vec<String>,
    /// Verify a change.
    pub test: Vec<String>,
}

/// Scripts that run a project's tests, by name.
const SCRIPTS: &[&str] = &[
    "tests/run",
    "tests/run.sh",
    "test.sh",
    "run-tests.sh",
    "run_tests.sh",
    "tests/test.sh",
    "script/test",
    "scripts/test.sh",
    "scripts/test",
    "bin/test",
];

/// Interpreters that a script's first line may name.
const INTERPRETERS: &[&str] = &["sh", "bash", "dash", "python3", "python", "node", "perl", "ruby"];

/// Test files that are looked into for pytest.
const MAX_PEEKS: usize = 20;

/// The commands for a repository with these files; `read` gives a file's text, or nothing.
pub fn detect_commands(files: &[String], read: impl Fn(&str) -> Option<String>) -> Commands {
    let checkout = Checkout {
        files: files.iter().map(String::as_str).collect(),
        read: &read,
    };
    let detectors: [fn(&Checkout<'_>) -> Option<Commands>; 15] = [
        cargo, node, python, go, perl, ruby, php, dotnet, elixir, make, cmake, meson, maven, gradle, script,
    ];
    detectors
        .iter()
        .find_map(|detector| detector(&checkout))
        .unwrap_or_default()
}

struct Checkout<'a> {
    files: HashSet<&'a str>,
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Checkout<'_> {
    fn has(&self, path: &str) -> bool {
        self.files.contains(path)
    }

    /// The text of a file that is there.
    fn text(&self, path: &str) -> Option<String> {
        self.has(path).then(|| (self.read)(path)).flatten()
    }

    /// Whether the file is there and mentions the word.
    fn mentions(&self, path: &str, word: &str) -> bool {
        self.text(path).is_some_and(|text| text.contains(word))
    }
}

/// Commands that only test.
fn testing(lines: &[&str]) -> Commands {
    Commands {
        setup: Vec::new(),
        fetch: Vec::new(),
        test: lines.iter().map(|line| (*line).to_owned()).collect(),
    }
}

/// Commands that test, and one that fetches what they need.
fn fetching(fetch: &str, lines: &[&str]) -> Commands {
    Commands {
        fetch: vec![fetch.to_owned()],
        ..testing(lines)
    }
}

fn cargo(checkout: &Checkout<'_>) -> Option<Commands> {
    if !checkout.has("Cargo.toml") {
        return None;
    }
    let test = ["cargo test"];
    // Without a lockfile, fetching would leave one in the change, as testing does.
    Some(match checkout.has("Cargo.lock") {
        true => fetching("cargo fetch --locked", &test),
        false => testing(&test),
    })
}

fn node(checkout: &Checkout<'_>) -> Option<Commands> {
    let package: serde_json::Value = serde_json::from_str(&checkout.text("package.json")?).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?;
    // What `npm init` writes; it always fails.
    if script.trim().is_empty() || script.contains("no test specified") {
        return None;
    }
    let needs_packages = ["dependencies", "devDependencies", "workspaces"]
        .iter()
        .filter_map(|key| package.get(key))
        .any(|value| match value {
            serde_json::Value::Object(entries) => !entries.is_empty(),
            serde_json::Value::Array(entries) => !entries.is_empty(),
            _ => false,
        });
    let has = |path: &str| checkout.has(path);
    let (install, test) = if has("pnpm-lock.yaml") {
        ("pnpm install --frozen-lockfile --prefer-offline", "pnpm test")
    } else if has("yarn.lock") && has(".yarnrc.yml") {
        ("yarn install --immutable", "yarn test")
    } else if has("yarn.lock") {
        ("yarn install --frozen-lockfile --prefer-offline", "yarn test")
    } else if has("bun.lock") || has("bun.lockb") {
        ("bun install --frozen-lockfile", "bun run test")
    } else if has("package-lock.json") || has("npm-shrinkwrap.json") {
        ("npm ci --prefer-offline --no-audit --no-fund", "npm test")
    } else {
        // Without a lockfile, installing would leave one in the change.
        (
            "npm install --no-package-lock --prefer-offline --no-audit --no-fund",
            "npm test",
        )
    };
    Some(Commands {
        setup: needs_packages.then(|| install.to_owned()).into_iter().collect(),
        ..testing(&[test])
    })
}

fn python(checkout: &Checkout<'_>) -> Option<Commands> {
    let named_for_pytest = checkout.has("pytest.ini")
        || checkout.files.iter().any(|file| base_name(file) == "conftest.py")
        || checkout.mentions("pyproject.toml", "pytest")
        || checkout.mentions("setup.cfg", "[tool:pytest]")
        || checkout.mentions("tox.ini", "pytest");
    if named_for_pytest {
        return Some(testing(&["python3 -m pytest -q"]));
    }
    if checkout.has("tox.ini") {
        return Some(testing(&["tox -q"]));
    }
    let mut tests: Vec<&str> = checkout
        .files
        .iter()
        .copied()
        .filter(|file| is_python_test(file))
        .collect();
    // A set has no order, and the answer must not depend on chance.
    tests.sort_unstable();
    let first = tests.first()?;
    if tests
        .iter()
        .take(MAX_PEEKS)
        .any(|file| checkout.mentions(file, "pytest"))
    {
        return Some(testing(&["python3 -m pytest -q"]));
    }
    // unittest enters only folders that are packages, so a plain folder is named to it.
    match first.rsplit_once('/') {
        Some((folder, _)) if !checkout.has(&format!("{folder}/__init__.py")) && is_plain_word(folder) => {
            Some(testing(&[&format!("python3 -m unittest discover -s {folder}")]))
        }
        _ => Some(testing(&["python3 -m unittest discover"])),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_python_test(file: &str) -> bool {
    let name = base_name(file);
    name.starts_with("test") && name.ends_with(".py")
}

/// Whether a path can stand in a shell line as it is.
fn is_plain_word(path: &str) -> bool {
    !path.starts_with('-')
        && path
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'.'))
}

fn go(checkout: &Checkout<'_>) -> Option<Commands> {
    if !checkout.has("go.mod") {
        return None;
    }
    let test = ["go test ./..."];
    Some(match checkout.has("go.sum") {
        true => fetching("go mod download", &test),
        false => testing(&test),
    })
}

/// Ruby with bundler. The gems go into the home folder: in the checkout they would become part of the
/// change.
fn ruby(checkout: &Checkout<'_>) -> Option<Commands> {
    if !checkout.has("Gemfile") {
        return None;
    }
    let mut files = checkout.files.iter();
    let has_specs = files.any(|file| file.starts_with("spec/") && file.ends_with("_spec.rb"));
    let mut files = checkout.files.iter();
    let has_tests = files.any(|file| file.starts_with("test/") && file.ends_with(".rb"));
    let test = match (has_specs, has_tests && checkout.has("Rakefile")) {
        (true, _) => "bundle exec rspec",
        (false, true) => "bundle exec rake test",
        (false, false) => return None,
    };
    let install = "BUNDLE_PATH=\"$HOME/bundle\" BUNDLE_FROZEN=true bundle install --quiet";
    Some(match checkout.has("Gemfile.lock") {
        true => fetching(install, &[&format!("BUNDLE_PATH=\"$HOME/bundle\" {test}")]),
        false => testing(&[test]),
    })
}

/// PHP with composer.
fn php(checkout: &Checkout<'_>) -> Option<Commands> {
    let text = checkout.text("composer.json")?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    let has_script = package.pointer("/scripts/test").is_some();
    let has_unit = ["phpunit.xml", "phpunit.xml.dist"]
        .iter()
        .any(|name| checkout.has(name));
    let test = match (has_script, has_unit) {
        (true, _) => "composer test",
        (false, true) => "vendor/bin/phpunit",
        (false, false) => return None,
    };
    let install = "composer install --no-interaction --no-progress --quiet";
    let ignores_vendor = checkout.text(".gitignore").is_some_and(|text| {
        let lines = text.lines().map(|line| line.trim().trim_matches('/'));
        lines.into_iter().any(|line| line == "vendor")
    });
    // What is not ignored would become part of the change.
    Some(match checkout.has("composer.lock") && ignores_vendor {
        true => fetching(install, &[test]),
        false => testing(&[test]),
    })
}

fn dotnet(checkout: &Checkout<'_>) -> Option<Commands> {
    let at_root = |ending: &str| {
        let mut files = checkout.files.iter();
        files.any(|file| !file.contains('/') && file.ends_with(ending))
    };
    [".sln", ".slnx", ".csproj", ".fsproj"]
        .iter()
        .any(|ending| at_root(ending))
        .then(|| fetching("dotnet restore", &["dotnet test"]))
}

fn elixir(checkout: &Checkout<'_>) -> Option<Commands> {
    if !checkout.has("mix.exs") {
        return None;
    }
    Some(match checkout.has("mix.lock") {
        true => fetching("mix deps.get --check-locked", &["mix test"]),
        false => testing(&["mix test"]),
    })
}

/// A distribution of Perl. One with C in it has to be built first, which would leave a Makefile and
/// more in the change.
fn perl(checkout: &Checkout<'_>) -> Option<Commands> {
    let is_distribution = ["Makefile.PL", "Build.PL", "dist.ini", "cpanfile"]
        .iter()
        .any(|name| checkout.has(name));
    let has_tests = |file: &&str| file.starts_with("t/") && file.ends_with(".t");
    let needs_build = checkout.files.iter().any(|file| file.ends_with(".xs"));
    (is_distribution && !needs_build && checkout.files.iter().any(has_tests)).then(|| testing(&["prove -lr t"]))
}

fn make(checkout: &Checkout<'_>) -> Option<Commands> {
    // In the order in which make itself looks.
    let text = ["GNUmakefile", "makefile", "Makefile"]
        .iter()
        .find_map(|name| checkout.text(name))?;
    let has_target = |target: &str| {
        text.lines().any(|line| {
            line.split_once(':').is_some_and(|(names, rest)| {
                !rest.starts_with('=') && names.split_whitespace().any(|name| name == target)
            }) && !line.starts_with(['\t', '#', '.'])
        })
    };
    ["test", "check"]
        .iter()
        .find(|target| has_target(target))
        .map(|target| testing(&[&format!("make {target}")]))
}

fn cmake(checkout: &Checkout<'_>) -> Option<Commands> {
    let text = checkout.text("CMakeLists.txt")?.to_lowercase();
    let tested = ["enable_testing", "include(ctest", "add_test"]
        .iter()
        .any(|word| text.contains(word));
    // Built in the home folder, since a build folder in the checkout would become part of the change.
    tested.then(|| {
        testing(&[
            "cmake -S . -B \"$HOME/cmake-build\"",
            "cmake --build \"$HOME/cmake-build\"",
            "ctest --test-dir \"$HOME/cmake-build\" --output-on-failure",
        ])
    })
}

fn meson(checkout: &Checkout<'_>) -> Option<Commands> {
    let files = ["meson.build", "test/meson.build", "tests/meson.build"];
    let tested = checkout.has("meson.build")
        && files.iter().any(|file| {
            let calls = |text: String| text.lines().any(|line| line.trim_start().starts_with("test("));
            checkout.text(file).is_some_and(calls)
        });
    // Built in the home folder for the same reason.
    tested.then(|| {
        testing(&[
            "meson setup \"$HOME/meson-build\"",
            "meson test -C \"$HOME/meson-build\" --print-errorlogs",
        ])
    })
}

fn maven(checkout: &Checkout<'_>) -> Option<Commands> {
    if !checkout.has("pom.xml") {
        return None;
    }
    Some(match checkout.has("mvnw") {
        true => fetching("sh ./mvnw -B -q dependency:go-offline", &["sh ./mvnw -B -q test"]),
        false => fetching("mvn -B -q dependency:go-offline", &["mvn -B -q test"]),
    })
}

fn gradle(checkout: &Checkout<'_>) -> Option<Commands> {
    let has_build = [
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "settings.gradle.kts",
    ]
    .iter()
    .any(|name| checkout.has(name));
    let wrapper = checkout.has("gradlew");
    has_build.then(|| testing(&[if wrapper { "sh ./gradlew test" } else { "gradle test" }]))
}

fn script(checkout: &Checkout<'_>) -> Option<Commands> {
    let path = SCRIPTS.iter().find(|path| checkout.has(path))?;
    // The list of files does not say what is executable, so the interpreter is named.
    let text = checkout.text(path).unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let named = first.strip_prefix("#!").and_then(|line| {
        let words = line.split_whitespace().map(base_name);
        words.filter(|word| *word != "env").find(|word| !word.starts_with('-'))
    });
    let interpreter = INTERPRETERS
        .iter()
        .find(|known| named == Some(**known))
        .unwrap_or(&"sh");
    Some(testing(&[&format!("{interpreter} {path}")]))
}

#[cfg(test)]
mod tests;
