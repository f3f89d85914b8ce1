//! What a reviewer should know of a difference that its author may not say: fewer tests, tests that
//! are skipped, assertions that got weaker, exit codes that are swallowed, changed automation. Plain
//! rules over lines, so that they are quick to read and may be wrong: remarks, not a verdict.
//! Never believes a summary.

use std::sync::LazyLock;

use regex::Regex;

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

/// One file of a difference.
#[derive(Debug, Default)]
struct File<'a> {
    path: &'a str,
    is_deleted: bool,
    added: Vec<&'a str>,
    removed: Vec<&'a str>,
}

/// What a reviewer should know of a difference in git's format. Lines and paths are shown as code.
pub fn risks_of(diff: &str) -> Vec<String> {
    let mut risks: Vec<String> = files(diff).iter().flat_map(risks_of_file).collect();
    if risks.len() > MAX_RISKS {
        let more = risks.len() - MAX_RISKS;
        risks.truncate(MAX_RISKS);
        risks.push(format!("and {more} more remarks like these"));
    }
    if diff.trim_end().ends_with(CUT) {
        risks.push("The change is too long to be looked through for weakened tests".to_owned());
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
        } else if let Some(added) = line.strip_prefix('+') {
            file.added.push(added);
        } else if let Some(removed) = line.strip_prefix('-') {
            file.removed.push(removed);
        }
    }
    files
}

fn risks_of_file(file: &File<'_>) -> Vec<String> {
    let path = code(file.path);
    let mut risks = Vec::new();
    let is_test = is_test(file.path);
    let count = |lines: &[&str], pattern: &Regex| lines.iter().filter(|line| pattern.is_match(line)).count();
    let fewer = |pattern: &Regex| {
        let (before, after) = (count(&file.removed, pattern), count(&file.added, pattern));
        before.saturating_sub(after)
    };
    if is_automation(file.path) {
        risks.push(format!("Automation was changed: {path}"));
    }
    if file.is_deleted {
        return risks; // that a test was deleted is said of the list of files
    }
    let skipped = file.added.iter().find(|line| SKIP.is_match(line) && !is_remark(line));
    let may_hold_tests = is_test || !is_prose(file.path);
    if let Some(line) = skipped.filter(|_| may_hold_tests) {
        risks.push(format!(
            "A test is skipped or narrowed in {path}: {}",
            code(line.trim())
        ));
    }
    if let Some(line) = file.added.iter().find(|line| SWALLOWED.is_match(line))
        && (is_test || is_script(file.path))
    {
        risks.push(format!("A failure may be swallowed in {path}: {}", code(line.trim())));
    }
    let tests = fewer(&TEST);
    if tests > 0 {
        risks.push(format!("{path} has {} fewer than before", in_words(tests, "test")));
    }
    if is_test || count(&file.removed, &TEST) > 0 {
        let assertions = fewer(&ASSERTION);
        if assertions > 0 && tests == 0 {
            risks.push(format!(
                "{path} has {} fewer than before",
                in_words(assertions, "assertion")
            ));
        } else if tests == 0 && fewer(&EXACT) > 0 {
            risks.push(format!("An exact comparison became a looser one in {path}"));
        }
        if let Some(line) = file.added.iter().find(|line| ALWAYS_TRUE.is_match(line)) {
            risks.push(format!("An assertion in {path} is always true: {}", code(line.trim())));
        }
    }
    risks
}

fn in_words(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
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
        let risks = risks_of(&diff(path, lines));
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
    fn hostile_and_long_differences_are_bounded() {
        let wide = format!("+#[ignore] {}`|\n", "x".repeat(10_000));
        let many: String = (0..50).map(|at| diff(&format!("tests/{at}.rs"), &wide)).collect();
        let risks = risks_of(&format!("{many}\n{CUT}"));
        assert_eq!(risks.len(), MAX_RISKS + 2);
        assert!(risks.iter().all(|risk| risk.chars().count() < 1_000), "{risks:#?}");
        assert_eq!(risks_of(""), Vec::<String>::new());
        assert_eq!(risks_of("+#[ignore]\n@@\ndiff --git"), Vec::<String>::new());
    }
}
