//! The contract: what is complete, what is missing, how an issue reads, what a hash binds, how
//! alike issues are and how they are searched for.

use super::*;
use crate::phrase::Language;

fn bug() -> Draft {
    Draft {
        kind: Kind::Bug,
        title: "count.sh leaves out the last word of a line".to_owned(),
        environment: "Commit 1a2b3c4, sh on Linux.".to_owned(),
        reproduction: vec![
            "Run `printf 'a b' | sh count.sh`.".to_owned(),
            "Look at the number.".to_owned(),
        ],
        observed: vec![Observation {
            statement: "It prints 1 for a line of two words.".to_owned(),
            file: "src/count.sh:3".to_owned(),
            symbol: "count_words".to_owned(),
            command: "printf 'a b' | sh count.sh".to_owned(),
            log: "error: expected 2\n1\n".to_owned(),
        }],
        expected: vec!["It prints 2.".to_owned()],
        hypotheses: vec!["The script subtracts one for a line break that is not there.".to_owned()],
        impact: "Every count is one too small.".to_owned(),
        severity: String::new(),
        context: String::new(),
        goal: String::new(),
        scope: vec!["`count.sh` with and without a line break at the end.".to_owned()],
        non_goals: Vec::new(),
        acceptance_criteria: vec!["`printf 'a b' | sh count.sh` prints 2.".to_owned()],
        validation: vec!["`sh test.sh` passes.".to_owned()],
        dependencies_and_risks: Vec::new(),
        labels: vec!["bug".to_owned()],
        part_of: String::new(),
    }
}

fn feature() -> Draft {
    Draft {
        kind: Kind::Feature,
        title: "Count characters beside words".to_owned(),
        context: "`count.sh` prints words only; people pipe into `wc -c` for the rest.".to_owned(),
        goal: "`count.sh -c` prints the number of characters.".to_owned(),
        non_goals: vec!["Counting bytes.".to_owned()],
        dependencies_and_risks: vec!["Nothing is known.".to_owned()],
        environment: String::new(),
        reproduction: Vec::new(),
        observed: Vec::new(),
        expected: Vec::new(),
        hypotheses: Vec::new(),
        impact: String::new(),
        ..bug()
    }
}

#[track_caller]
fn check(change: impl Fn(&mut Draft), expected: &[&str]) {
    check_of(bug(), change, expected);
}

#[track_caller]
fn check_of(mut draft: Draft, change: impl Fn(&mut Draft), expected: &[&str]) {
    change(&mut draft);
    let labels = ["Bug".to_owned(), "docs".to_owned()];
    let problems: Vec<String> = draft.check(Some(&labels)).iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, words) in problems.iter().zip(expected) {
        assert!(problem.contains(words), "{problem:?} does not say {words:?}");
    }
}

#[test]
fn complete_drafts_keep_the_contract() {
    check(|_| {}, &[]);
    for kind in [Kind::Feature, Kind::Chore, Kind::Infra] {
        check_of(feature(), |draft| draft.kind = kind, &[]);
    }
    let to_security = |draft: &mut Draft| {
        draft.kind = Kind::Security;
        draft.severity = "High".to_owned();
    };
    check(to_security, &[]);
    check(|draft| draft.title = "最后一个单词没有被计数".to_owned(), &[]);
}

#[test]
fn every_broken_rule_is_named_at_once() {
    check(
        |draft| {
            draft.environment.clear();
            draft.reproduction = vec!["n/a".to_owned()];
            draft.observed[0].statement = "It is slow.".to_owned();
            draft.observed[0] = Observation {
                statement: "It is slow.".to_owned(),
                ..Observation::default()
            };
            draft.acceptance_criteria.clear();
            draft.labels.push("urgent".to_owned());
        },
        &[
            "environment: a bug needs it",
            "reproduction: a bug needs it; number the steps",
            "acceptance_criteria: a bug needs it",
            "observed: statement 1 has no evidence",
            "labels: the repository has no label urgent; it has Bug, docs",
        ],
    );
    check(|draft| draft.observed.clear(), &["observed: a bug needs it"]);
    check(|draft| draft.expected.clear(), &["expected: a bug needs it"]);
    check(|draft| draft.impact = "TBD.".to_owned(), &["impact: a bug needs it"]);
    check(|draft| draft.scope.clear(), &["scope: a bug needs it"]);
    check(|draft| draft.validation.clear(), &["validation: a bug needs it"]);
    for kind in [Kind::Feature, Kind::Chore, Kind::Infra] {
        check_of(
            feature(),
            |draft| {
                draft.kind = kind;
                draft.context.clear();
                draft.goal.clear();
                draft.non_goals.clear();
                draft.dependencies_and_risks.clear();
            },
            &["context", "goal", "non_goals", "dependencies_and_risks"],
        );
    }
    check(|draft| draft.kind = Kind::Security, &["severity: it is one of low"]);
}

#[test]
fn guesses_stand_apart_from_what_was_seen() {
    check(
        |draft| draft.observed[0].statement = "The shell probably drops it.".to_owned(),
        &["observed: statement 1 is a guess"],
    );
    check(
        |draft| draft.observed[0].statement = " ".to_owned(),
        &["observed: statement 1 says nothing"],
    );
}

#[test]
fn one_issue_has_one_goal() {
    check(
        |draft| draft.title = "Count the last word as well as characters".to_owned(),
        &["title: it states several goals"],
    );
    check_of(
        feature(),
        |draft| draft.goal = "Count characters; print them as JSON.".to_owned(),
        &["goal: it states several goals"],
    );
    check_of(
        feature(),
        |draft| draft.goal = "- Count characters\n- Count lines".to_owned(),
        &["goal: it states several goals"],
    );
    check(
        |draft| draft.acceptance_criteria = vec!["It prints 2.".to_owned(); 9],
        &["acceptance_criteria: 9 criteria"],
    );
    check(
        |draft| {
            draft.kind = Kind::Security;
            draft.severity = "low".to_owned();
            draft.part_of = "An epic".to_owned();
        },
        &["part_of"],
    );
}

#[test]
fn what_is_too_long_or_says_nothing_is_named() {
    check(
        |draft| draft.title = "Bug report".to_owned(),
        &["title: it says too little"],
    );
    check(|draft| draft.title = "x".repeat(101), &["title: it is longer"]);
    check(
        |draft| draft.title = "one line\nand another".to_owned(),
        &["title: it is one line", "title: it states several"],
    );
    check(
        |draft| draft.impact = "x".repeat(2_001),
        &["impact: it is longer than 2000"],
    );
    check(
        |draft| draft.scope = vec!["x".repeat(501)],
        &["scope: an item is longer"],
    );
    check(
        |draft| draft.scope = vec!["x".to_owned(); 13],
        &["scope: it has 13 items"],
    );
    check(
        |draft| draft.scope.push(" ".to_owned()),
        &["scope: one of its items is empty"],
    );
    check(
        |draft| draft.observed[0].log = "x".repeat(1_501),
        &["observed: the log of statement 1"],
    );
    check(|draft| draft.labels = vec!["bug".to_owned(); 7], &["labels: at most 6"]);
    check(|draft| draft.hypotheses = vec!["word ".repeat(99); 12], &[]);
    check(
        |draft| {
            draft.hypotheses = vec!["word ".repeat(99); 12];
            draft.expected = vec!["word ".repeat(99); 12];
        },
        &["draft: the issue has"],
    );
}

#[test]
fn an_issue_reads_from_what_was_seen_to_how_it_is_done() {
    insta::assert_snapshot!("bug", render(&bug(), Language::English, &str::to_owned));
    insta::assert_snapshot!(
        "feature_in_chinese",
        render(&feature(), Language::Chinese, &str::to_owned)
    );
}

#[test]
fn a_line_of_a_list_cannot_begin_a_section() {
    let mut draft = bug();
    draft.expected = vec!["a\n### Impact\nnone".to_owned()];
    draft.observed[0].log = "a\n```\n### Impact".to_owned();
    let body = render(&draft, Language::English, &str::to_owned);
    assert_eq!(
        body.lines().filter(|line| line.starts_with("### Impact")).count(),
        1,
        "{body}"
    );
}

#[test]
fn a_hash_binds_place_title_body_labels_and_parts() {
    let text = |title: &str| IssueText {
        title: title.to_owned(),
        body: "body".to_owned(),
        labels: vec!["a".to_owned(), "b".to_owned()],
        parts: Vec::new(),
    };
    let repo = RepoId(7);
    let whole = IssueText {
        parts: vec![text("one"), text("two")],
        ..text("epic")
    };
    let hash = whole.hash(repo);
    assert_eq!((hash.len(), hash.as_str()), (64, whole.clone().hash(repo).as_str()));
    let mut same = whole.clone();
    same.labels.reverse();
    assert_eq!(same.hash(repo), hash, "the order of labels says nothing");
    let changes: [fn(&mut IssueText); 7] = [
        |text| text.title.push('x'),
        |text| text.body.push('x'),
        |text| text.labels[0].push('x'),
        |text| drop(text.labels.pop()),
        |text| text.parts[1].body.push('x'),
        |text| text.parts.reverse(),
        |text| {
            text.title = "ep".to_owned();
            text.body = "icbody".to_owned();
        },
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut other = whole.clone();
        change(&mut other);
        assert_ne!(other.hash(repo), hash, "change {at}");
    }
    assert_ne!(whole.hash(RepoId(8)), hash);
    assert_eq!(short_hash(&hash).len(), 10);
}

#[track_caller]
fn check_alike(one: (&str, &str), other: (&str, &str), range: std::ops::RangeInclusive<u8>) {
    let score = similarity(one, other);
    assert_eq!(score, similarity(other, one));
    assert!(range.contains(&score), "{score}: {one:?} and {other:?}");
}

#[test]
fn likeness_is_of_words_and_not_of_letters() {
    let title = "count.sh leaves out the last word of a line";
    check_alike((title, "It prints 1."), (title, "It prints 1."), 100..=100);
    check_alike((title, ""), (title, "Anything."), 100..=100);
    check_alike(
        (title, "It prints one."),
        (title, "My numbers are wrong since Monday"),
        ALMOST_THE_SAME..=95,
    );
    check_alike(
        (title, ""),
        ("Count.sh left out last words of lines", ""),
        WORTH_A_LOOK..=95,
    );
    check_alike(
        (title, ""),
        ("Support Windows paths in the configuration", ""),
        0..=WORTH_A_LOOK - 1,
    );
    check_alike(
        ("最后一个单词没有被计数", ""),
        ("最后一个单词没有计数", ""),
        ALMOST_THE_SAME..=99,
    );
    check_alike(("", ""), ("x", ""), 0..=0);
}

#[track_caller]
fn check_queries(draft: &Draft, expected: &[&str]) {
    assert_eq!(queries(draft), expected);
}

#[test]
fn searches_differ_and_cannot_hold_operators() {
    check_queries(&bug(), &["count.sh leaves last", "count_words count.sh", "expected"]);
    check_queries(&feature(), &["count characters beside", "count.sh characters prints"]);
    let mut draft = feature();
    draft.title = "repo:evil/x is:closed NOT \"quoted\"".to_owned();
    draft.goal.clear();
    draft.context.clear();
    draft.scope.clear();
    let found = queries(&draft);
    assert!(found.len() >= 2, "{found:?}");
    for query in found {
        assert!(
            query.chars().all(|c| c.is_lowercase() || c == ' ' || c == '.'),
            "{query}"
        );
    }
    draft.title = "最后一个单词没有被计数".to_owned();
    draft.goal = "`count.sh` 输出正确的数目".to_owned();
    assert!(queries(&draft).len() >= 2, "{:?}", queries(&draft));
}

#[test]
fn parts_go_to_the_epic_that_they_name() {
    let mut epic = feature();
    epic.title = "Count everything".to_owned();
    let mut part = bug();
    part.part_of = "count  Everything".to_owned();
    let alone = feature();
    let found = proposals(&[epic, part.clone(), alone]);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].parts, [part]);
}

proptest::proptest! {
    #[test]
    fn no_texts_make_it_panic(title in "\\PC{0,40}", body in "\\PC{0,200}") {
        let mut draft = bug();
        draft.title = title.clone();
        draft.observed[0].log = body.clone();
        draft.goal = body.clone();
        draft.check(None);
        queries(&draft);
        similarity((&title, &body), (&body, &title));
        render(&draft, Language::Chinese, &str::to_owned);
    }
}
