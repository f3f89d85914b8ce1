//! Which tests failed, from what a runner printed. Called by `run_tests`. Pure. Never the judge of
//! whether tests passed: that is the exit code.

use std::sync::LazyLock;

use regex::Regex;

use super::runner::{NodeRunner, Runner};

/// Most failed tests that are remembered.
const MAX_FAILED: usize = 500;

/// What could be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Names, each once, in the order of the output.
    pub(super) failed: Vec<String>,
    /// The runner's own words about how many there were.
    pub(super) counts: String,
    /// The runner says that no test was run.
    pub(super) ran_nothing: bool,
}

impl Report {
    pub(super) fn of(runner: &Runner, output: &str) -> Self {
        let mut report = Self::default();
        let known = patterns(runner);
        let mut counts: Vec<&str> = Vec::new();
        for line in output.lines() {
            for pattern in &known {
                if let Some(name) = pattern.captures(line).and_then(|found| found.get(1))
                    && report.failed.len() < MAX_FAILED
                    && !report.failed.iter().any(|known| known == name.as_str().trim())
                {
                    report.failed.push(name.as_str().trim().to_owned());
                }
            }
            if COUNTS.is_match(line) {
                counts.push(line.trim().trim_matches('=').trim());
            }
        }
        let cargo = *runner == Runner::Cargo;
        let ran_some = |line: &&str| RAN_SOME.is_match(line);
        report.ran_nothing = report.failed.is_empty()
            && !counts.iter().any(ran_some)
            && (NOTHING.is_match(output) || cargo && !counts.is_empty());
        report.counts = if cargo {
            cargo_counts(&counts)
        } else {
            counts.last().copied().unwrap_or_default().to_owned()
        };
        report
    }
}

/// Lines in which runners say how many tests there were.
static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^test result: |^=* ?\d+ (passed|failed|errors?|skipped|deselected)\b.* in |^Ran \d+ tests? in |^Tests:? +.*\d+ |^\s+Tests +\d+|^\s+\d+ (passing|failing)\b|^# (pass|fail) \d+|^ℹ (pass|fail) \d+|^\[?(INFO|ERROR|WARNING)?\]? *Tests run: \d+|\d+ tests completed|^\d+% tests passed",
    )
});

/// Such a line that speaks of at least one test.
static RAN_SOME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"[1-9]\d* (passed|failed|errors?|passing|failing|tests?\b)|(Ran|run:|pass|fail|Tests) +[1-9]|^[1-9]\d*% tests",
    )
});

/// What runners say when nothing fits.
static NOTHING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?m)no tests ran|^=* ?\d+ deselected in|^Ran 0 tests|no tests to run|No tests found|No test files? found|^# tests 0$|^ℹ tests 0$|No tests were found|No tests were executed|\b0 passing\b",
    )
});

/// All of cargo's targets together.
fn cargo_counts(lines: &[&str]) -> String {
    let sum = |word: &str| -> u64 {
        let number = |line: &&str| {
            let before = line.split(word).next()?.trim_end();
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        lines.iter().filter(|line| line.contains(word)).filter_map(number).sum()
    };
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "{} passed; {} failed; {} ignored",
        sum("passed"),
        sum("failed;"),
        sum("ignored")
    )
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

struct Patterns {
    cargo: Vec<Regex>,
    python: Vec<Regex>,
    go: Vec<Regex>,
    node: Vec<Regex>,
    mocha: Vec<Regex>,
    java: Vec<Regex>,
    other: Vec<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let all = |texts: &[&str]| texts.iter().map(|text| pattern(text)).collect();
    Patterns {
        cargo: all(&[
            r"^test (.+?) \.\.\. FAILED$",
            r"^\s+(?:FAIL|TIMEOUT) \[[^\]]*\] (?:\([^)]*\) )?(.+)$",
        ]),
        python: all(&[
            r"^(?:FAILED|ERROR) ([^\s(]\S*?(?:::.*?)?)(?: - .*)?$",
            r"^(?:FAIL|ERROR): (\w+ \([^)]*\))",
        ]),
        go: all(&[r"^\s*--- FAIL: (\S+)", r"^FAIL\s+(\S+ \[(?:build|setup) failed\])"]),
        node: all(&[
            r"^\s+● (.+ › .+)$",
            r"^\s+● (Test suite failed to run)$",
            r"^\s*(?:×|✗|✕) (.+?)(?: \(?\d+ ?ms\)?)?$",
            r"^\s*FAIL\s+(\S+(?: > .+)?)$",
            r"^\s*not ok \d+ (?:- )?(.+)$",
            r"^\s*✖ (.+?) \([\d.]+ms\)$",
        ]),
        mocha: all(&[r"^\s+\d+\) (.+?):?$"]),
        java: all(&[r"^\[ERROR\]\s+([\w.$]+[.#]\w+):\d+", r"^(.+ > .+) FAILED$"]),
        other: all(&[r"^\s*\d+ - (\S+) \((?:Failed|Timeout|Not Run|SEGFAULT)[^)]*\)"]),
    }
});

/// The marks of a runner; of one that is not known, all that cannot mean anything else.
fn patterns(runner: &Runner) -> Vec<&'static Regex> {
    let all = &*PATTERNS;
    match runner {
        Runner::Cargo => all.cargo.iter().collect(),
        Runner::Pytest | Runner::Unittest(_) => all.python.iter().collect(),
        Runner::Go => all.go.iter().collect(),
        Runner::Node(_, NodeRunner::Mocha) => all.mocha.iter().collect(),
        Runner::Node(..) => all.node.iter().collect(),
        Runner::Maven(_) | Runner::Gradle(_) => all.java.iter().collect(),
        Runner::Ctest(_) => all.other.iter().collect(),
        Runner::Other(_) => [&all.cargo, &all.python, &all.go, &all.node, &all.java, &all.other]
            .into_iter()
            .flatten()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runner: &Runner, output: &str, failed: &[&str], counts: &str, ran_nothing: bool) {
        let expected = Report {
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            counts: counts.to_owned(),
            ran_nothing,
        };
        assert_eq!(Report::of(runner, output), expected);
    }

    fn node(runner: NodeRunner) -> Runner {
        Runner::Node("npm test".to_owned(), runner)
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn failed_tests_are_named() {
        check(
            &Runner::Cargo,
            "test a::b ... ok\ntest a::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s\nrunning 0 tests\ntest result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            &["a::c"],
            "1 passed; 1 failed; 2 ignored",
            false,
        );
        check(
            &Runner::Pytest,
            "FAILED t/test_x.py::test_a[1] - assert 1 == 2\nERROR t/test_y.py\n==== 1 failed, 2 passed in 0.03s ====\n",
            &["t/test_x.py::test_a[1]", "t/test_y.py"],
            "1 failed, 2 passed in 0.03s",
            false,
        );
        check(
            &Runner::Unittest(String::new()),
            "FAIL: test_a (tests.test_x.Case.test_a)\n----\nERROR: test_b (x.Case)\nRan 3 tests in 0.001s\nFAILED (failures=1, errors=1)\n",
            &["test_a (tests.test_x.Case.test_a)", "test_b (x.Case)"],
            "Ran 3 tests in 0.001s",
            false,
        );
        check(
            &Runner::Go,
            "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\nFAIL\texample/p\t0.1s\nFAIL\texample/q [build failed]\n",
            &["TestA", "TestA/x", "example/q [build failed]"],
            "",
            false,
        );
        check(
            &node(NodeRunner::Jest),
            "  ● sum › adds\n\n  ● sum › adds\nTests:       1 failed, 2 passed, 3 total\n",
            &["sum › adds"],
            "Tests:       1 failed, 2 passed, 3 total",
            false,
        );
        check(
            &node(NodeRunner::Vitest),
            " FAIL  a.test.ts > sum > adds\n   × sum > adds 3ms\n      Tests  1 failed | 1 passed (2)\n",
            &["a.test.ts > sum > adds", "sum > adds"],
            "Tests  1 failed | 1 passed (2)",
            false,
        );
        check(
            &node(NodeRunner::Mocha),
            "  1 passing (3ms)\n  1 failing\n\n  1) sum adds:\n",
            &["sum adds"],
            "1 failing",
            false,
        );
        check(
            &node(NodeRunner::Node),
            "not ok 2 - adds\n# pass 1\n# fail 1\n",
            &["adds"],
            "# fail 1",
            false,
        );
        check(
            &node(NodeRunner::Node),
            "✖ adds (1.2ms)\nℹ pass 0\nℹ fail 1\n",
            &["adds"],
            "ℹ fail 1",
            false,
        );
        check(
            &Runner::Maven(String::new()),
            "[ERROR]   CalcTest.adds:12 expected: <1>\n[ERROR] Tests run: 2, Failures: 1\n",
            &["CalcTest.adds"],
            "[ERROR] Tests run: 2, Failures: 1",
            false,
        );
        check(
            &Runner::Gradle(String::new()),
            "CalcTest > adds() FAILED\n2 tests completed, 1 failed\n",
            &["CalcTest > adds()"],
            "2 tests completed, 1 failed",
            false,
        );
        check(
            &Runner::Ctest(Vec::new()),
            "50% tests passed, 1 tests failed out of 2\n\t  2 - adds (Failed)\n",
            &["adds"],
            "50% tests passed, 1 tests failed out of 2",
            false,
        );
        check(
            &Runner::Other(Vec::new()),
            "not ok 1 - x\nwhatever\n",
            &["x"],
            "",
            false,
        );
    }

    #[test]
    fn a_name_that_fits_nothing_is_noticed() {
        let none = "running 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
        check(&Runner::Cargo, none, &[], "0 passed; 0 failed; 0 ignored", true);
        check(&Runner::Pytest, "no tests ran in 0.01s\n", &[], "", true);
        check(
            &Runner::Pytest,
            "3 deselected in 0.01s\n",
            &[],
            "3 deselected in 0.01s",
            true,
        );
        check(
            &Runner::Unittest(String::new()),
            "Ran 0 tests in 0.000s\nNO TESTS RAN\n",
            &[],
            "Ran 0 tests in 0.000s",
            true,
        );
        check(&Runner::Go, "ok  \texample/p\t0.1s [no tests to run]\n", &[], "", true);
        check(
            &node(NodeRunner::Jest),
            "No tests found, exiting with code 1\n",
            &[],
            "",
            true,
        );
        check(
            &node(NodeRunner::Node),
            "# tests 0\n# pass 0\n# fail 0\n",
            &[],
            "# fail 0",
            true,
        );
        check(&Runner::Cargo, "error[E0425]: cannot find value `x`\n", &[], "", false);
    }
}
