//! Tables of repositories and the commands found for them.

use super::*;

/// Setup and test commands joined by ` | `, for files given as (path, text).
#[track_caller]
fn check(files: &[(&str, &str)], expected: &str) {
    let names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let read = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let commands = detect_commands(&names, read);
    let found: Vec<String> = commands.setup.into_iter().chain(commands.test).collect();
    assert_eq!(found.join(" | "), expected, "{files:?}");
}

/// Only what is fetched where there is a network.
#[track_caller]
fn check_fetch(files: &[(&str, &str)], fetch: &str, test: &str) {
    check(files, test);
    let names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let read = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    assert_eq!(detect_commands(&names, read).fetch.join(" | "), fetch, "{files:?}");
}

#[test]
fn what_a_lockfile_names_is_fetched_where_there_is_a_network() {
    check_fetch(
        &[("Cargo.toml", ""), ("Cargo.lock", "")],
        "cargo fetch --locked",
        "cargo test",
    );
    check_fetch(&[("Cargo.toml", "")], "", "cargo test");
    check_fetch(&[("go.mod", ""), ("go.sum", "")], "go mod download", "go test ./...");
    check_fetch(
        &[("mix.exs", ""), ("mix.lock", "")],
        "mix deps.get --check-locked",
        "mix test",
    );
    check_fetch(
        &[("App.sln", ""), ("src/App.csproj", "")],
        "dotnet restore",
        "dotnet test",
    );
    check_fetch(&[("sub/App.csproj", "")], "", "");
    check_fetch(
        &[("Gemfile", ""), ("Gemfile.lock", ""), ("spec/a_spec.rb", "")],
        "BUNDLE_PATH=\"$HOME/bundle\" BUNDLE_FROZEN=true bundle install --quiet",
        "BUNDLE_PATH=\"$HOME/bundle\" bundle exec rspec",
    );
    check_fetch(
        &[("Gemfile", ""), ("Rakefile", ""), ("test/a_test.rb", "")],
        "",
        "bundle exec rake test",
    );
    let composer = ("composer.json", "{\"scripts\": {\"test\": \"phpunit\"}}");
    let lock = ("composer.lock", "{}");
    check_fetch(&[composer, lock], "", "composer test");
    check_fetch(
        &[composer, lock, (".gitignore", "/vendor/\n")],
        "composer install --no-interaction --no-progress --quiet",
        "composer test",
    );
    check_fetch(&[("pom.xml", "")], "mvn -B -q dependency:go-offline", "mvn -B -q test");
}

const WITH_PACKAGES: &str = r#"{"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "1"}}"#;
const WITHOUT_PACKAGES: &str = r#"{"scripts": {"test": "node --test"}}"#;

#[test]
fn nothing_is_found_where_nothing_is() {
    check(&[], "");
    check(&[("README.md", "run the tests")], "");
    check(&[("sub/Cargo.toml", "")], "");
}

#[test]
fn manifests_decide_before_makefiles_and_scripts() {
    check(
        &[("Cargo.toml", ""), ("Makefile", "test:\n"), ("test.sh", "")],
        "cargo test",
    );
    check(&[("go.mod", ""), ("Makefile", "test:\n")], "go test ./...");
    check(&[("package.json", "{}"), ("Makefile", "test:\n")], "make test");
}

#[test]
fn node_follows_the_lockfile() {
    check(
        &[("package.json", WITH_PACKAGES), ("package-lock.json", "")],
        "npm ci --prefer-offline --no-audit --no-fund | npm test",
    );
    check(
        &[("package.json", WITH_PACKAGES), ("pnpm-lock.yaml", "")],
        "pnpm install --frozen-lockfile --prefer-offline | pnpm test",
    );
    check(
        &[("package.json", WITH_PACKAGES), ("yarn.lock", "")],
        "yarn install --frozen-lockfile --prefer-offline | yarn test",
    );
    check(
        &[("package.json", WITH_PACKAGES), ("yarn.lock", ""), (".yarnrc.yml", "")],
        "yarn install --immutable | yarn test",
    );
    check(
        &[("package.json", WITH_PACKAGES)],
        "npm install --no-package-lock --prefer-offline --no-audit --no-fund | npm test",
    );
    check(
        &[("package.json", WITHOUT_PACKAGES), ("package-lock.json", "")],
        "npm test",
    );
    let placeholder = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    check(&[("package.json", placeholder)], "");
    check(&[("package.json", "not json"), ("go.mod", "")], "go test ./...");
}

#[test]
fn python_says_how_it_is_tested_in_many_places() {
    check(
        &[("pyproject.toml", "[tool.pytest.ini_options]")],
        "python3 -m pytest -q",
    );
    check(&[("pyproject.toml", "[project]\nname = 'x'")], "");
    check(&[("tests/conftest.py", "")], "python3 -m pytest -q");
    check(&[("setup.cfg", "[tool:pytest]\n")], "python3 -m pytest -q");
    check(&[("tox.ini", "[testenv]\ncommands = nose2")], "tox -q");
    check(&[("tests/test_a.py", "import pytest\n")], "python3 -m pytest -q");
    check(
        &[("tests/test_a.py", "import unittest\n")],
        "python3 -m unittest discover -s tests",
    );
    check(
        &[("tests/test_a.py", ""), ("tests/__init__.py", "")],
        "python3 -m unittest discover",
    );
    check(&[("test_a.py", "")], "python3 -m unittest discover");
    check(&[("my tests;x/test_a.py", "")], "python3 -m unittest discover");
}

#[test]
fn make_needs_a_real_target() {
    check(&[("Makefile", "all: x\n\ntest: all\n\t./t\n")], "make test");
    check(&[("Makefile", ".PHONY: check\ncheck:\n")], "make check");
    check(&[("Makefile", "lint test: all\n")], "make test");
    check(&[("Makefile", ".PHONY: test\n# test: x\ntest := 1\n\ttest: x\n")], "");
}

#[test]
fn other_builds_are_known() {
    let cmake = "cmake -S . -B \"$HOME/cmake-build\" | cmake --build \"$HOME/cmake-build\" \
                 | ctest --test-dir \"$HOME/cmake-build\" --output-on-failure";
    check(&[("CMakeLists.txt", "Enable_Testing()\n")], cmake);
    check(&[("CMakeLists.txt", "project(x)\n")], "");
    check(&[("pom.xml", ""), ("mvnw", "")], "sh ./mvnw -B -q test");
    check(&[("pom.xml", "")], "mvn -B -q test");
    check(&[("build.gradle.kts", ""), ("gradlew", "")], "sh ./gradlew test");
    check(&[("gradlew", "")], "");
}

#[test]
fn perl_distributions_are_proved_unless_they_need_a_build() {
    check(&[("Makefile.PL", ""), ("t/00-load.t", "")], "prove -lr t");
    check(
        &[("dist.ini", ""), ("t/unit/a.t", ""), ("GNUmakefile", "test:\n")],
        "prove -lr t",
    );
    check(&[("Makefile.PL", ""), ("lib/A.pm", "")], "");
    check(&[("Makefile.PL", ""), ("A.xs", ""), ("t/a.t", "")], "");
    check(&[("t/a.t", "")], "");
}

#[test]
fn meson_counts_where_it_declares_tests() {
    let lines = "meson setup \"$HOME/meson-build\" | meson test -C \"$HOME/meson-build\" --print-errorlogs";
    check(&[("meson.build", "project('x')\n  test('a', b)\n")], lines);
    check(
        &[
            ("meson.build", "subdir('tests')\n"),
            ("tests/meson.build", "test('a', b)\n"),
        ],
        lines,
    );
    check(&[("meson.build", "project('x')\n# test('a', b)\nlatest(x)\n")], "");
    check(&[("tests/meson.build", "test('a', b)\n")], "");
}

#[test]
fn scripts_run_with_their_own_interpreter() {
    check(&[("tests/run", "#!/usr/bin/env bash\n")], "bash tests/run");
    check(&[("tests/run", "#!/usr/bin/env -S python3 -u\n")], "python3 tests/run");
    check(&[("test.sh", "#!/bin/sh -e\n")], "sh test.sh");
    check(&[("run-tests.sh", "no first line")], "sh run-tests.sh");
    check(&[("test.sh", "#!/tmp/evil\n")], "sh test.sh");
}
