//! Tests by name with the runners that this machine has.

use serde_json::json;

use super::*;

async fn python() -> Desk {
    let desk = Desk::empty().await;
    desk.write(
        "tests/test_sum.py",
        "import unittest\nclass Sum(unittest.TestCase):\n    def test_right(self): self.assertEqual(1 + 1, 2)\n    def test_wrong(self): self.assertEqual(1 + 1, 3)\n",
    );
    desk.write("tests/__init__.py", "");
    desk
}

#[tokio::test]
async fn failed_tests_are_named_and_one_can_be_run_alone() {
    let desk = python().await;
    let said = desk.call("run_tests", json!({})).await;
    check_words(
        &said,
        &[
            "unittest discover",
            "exit code 1",
            "Failed (1):\n- test_wrong (tests.test_sum.Sum",
            "Ran 2 tests",
            "AssertionError",
        ],
    );
    let said = desk.call("run_tests", json!({"tests": "test_right"})).await;
    check_words(&said, &["[exit code 0", "-k test_right`]", "Ran 1 test in"]);
    assert!(!said.contains("Failed"), "{said}");
    let said = desk
        .call(
            "run_tests",
            json!({"file": "tests/test_sum.py", "tests": ["test_wrong"]}),
        )
        .await;
    check_words(&said, &["unittest tests/test_sum.py -k test_wrong", "Failed (1)"]);
    let said = desk.call("run_tests", json!({"tests": ["zebra"]})).await;
    check_words(&said, &["No test was run"]);
    check_words(
        &desk.refused("run_tests", json!({"file": "tests/none.py"})).await,
        &["tests/none.py does not exist"],
    );
}

#[tokio::test]
async fn a_project_in_a_folder_and_one_that_cannot_choose() {
    let desk = Desk::empty().await;
    desk.write("sub/Makefile", "test:\n\t@echo ran; exit 1\n");
    desk.write("README", "x\n");
    let said = desk.refused("run_tests", json!({})).await;
    check_words(
        &said,
        &[
            "nothing in the workspace says how it is tested",
            "there are projects in sub",
        ],
    );
    let said = desk.call("run_tests", json!({"folder": "sub"})).await;
    check_words(
        &said,
        &["[exit code 2", "`make test`]", "No failed test could be told", "ran"],
    );
    let said = desk
        .refused("run_tests", json!({"folder": "sub", "tests": ["a"]}))
        .await;
    check_words(&said, &["not run: `make test` cannot run a part"]);
}

#[tokio::test]
async fn node_runs_a_part_of_its_own_tests() {
    let desk = Desk::empty().await;
    desk.write("package.json", "{\"scripts\": {\"test\": \"node --test\"}}");
    desk.write(
        "a.test.js",
        "const { test } = require('node:test');\ntest('adds', () => {});\ntest('takes away', () => { throw new Error('no'); });\n",
    );
    let version = desk.sh("node --version").await;
    assert!(
        version.starts_with("[exit code 0"),
        "tests/run installs node: {version}"
    );
    let said = desk.call("run_tests", json!({"tests": ["takes away"]})).await;
    check_words(
        &said,
        &[
            "node --test --test-name-pattern='takes away'",
            "exit code 1",
            "Failed (1):\n- takes away\n",
        ],
    );
}
