//! What a file is by its path alone: code to change, a test of it, or something aside. Called by
//! ranking when a view is taken up. Never reads a file; knows habits of many languages, no repository.

use crate::language::Language;

/// Folders that hold tests and what they need.
const TEST_FOLDERS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "__tests__",
    "spec",
    "specs",
    "testdata",
    "e2e",
    "__mocks__",
    "fixtures",
    "__snapshots__",
    "androidtest",
    "jvmtest",
    "commontest",
    "integrationtest",
    "testfixtures",
    "jmh",
];
/// Folders of code that is not the program itself.
const ASIDE_FOLDERS: &[&str] = &[
    "examples",
    "example",
    "demo",
    "demos",
    "bench",
    "benches",
    "benchmarks",
    "benchmark",
    "playground",
    "docs",
    "doc",
    "vendor",
    "third_party",
    "thirdparty",
    "node_modules",
    "dist",
    "samples",
    "sample",
    "extra",
    "scripts",
    "tools",
    "deps",
    "external",
    "generated",
];
/// Languages of data, pages and styles: searched, but rarely what an issue is about.
const NOT_CODE: &[&str] = &["css", "html", "json", "toml", "yaml"];

/// Whether a language is one that programs are written in.
pub(super) fn is_code(language: Option<&Language>) -> bool {
    language.is_some_and(|language| !NOT_CODE.contains(&language.name))
}

/// Whether a path is a test's.
pub(super) fn is_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_folder = |folder: &str| {
        let folder = folder.to_lowercase();
        TEST_FOLDERS.contains(&folder.as_str()) || folder.ends_with(".tests") || folder.ends_with("-tests")
    };
    if folders.split('/').any(is_folder) {
        return true;
    }
    let stem = name.split('.').next().unwrap_or_default();
    let small = stem.to_lowercase();
    let ends = ["_test", "_tests", "-test", "_spec"]
        .iter()
        .any(|end| small.ends_with(end));
    ends || small.starts_with("test_")
        || ["test", "tests", "conftest"].contains(&small.as_str())
        || name.contains(".test.")
        || name.contains(".spec.")
        // `ParserTest.java`, but not `latest.js`.
        || stem.ends_with("Test")
        || stem.ends_with("Tests")
}

/// Whether a path is of an example, a benchmark, a tool or a copy of another project.
pub(super) fn is_aside(path: &str) -> bool {
    let (folders, _) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|folder| {
        let folder = folder.to_lowercase();
        ASIDE_FOLDERS.contains(&folder.as_str()) || folder.starts_with("_vendor")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_a_file_is() {
        for (path, test, aside) in [
            ("src/parser.rs", false, false),
            ("tests/it/main.rs", true, false),
            ("testing/test_mark.py", true, false),
            ("pkg/server_test.go", true, false),
            ("src/a/ParserTest.java", true, false),
            ("src/latest.js", false, false),
            ("tokio-test/src/io.rs", false, false),
            ("lib/x.spec.ts", true, false),
            ("spec/models/user.rb", true, false),
            ("Src/Newtonsoft.Json.Tests/A.cs", true, false),
            ("examples/chat.rs", false, true),
            ("src/_vendored/x.py", false, true),
            ("vendor/github.com/x/y.go", false, true),
            ("examples.rs", false, false),
        ] {
            assert_eq!((is_test(path), is_aside(path)), (test, aside), "{path}");
        }
    }
}
