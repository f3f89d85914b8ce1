use super::*;

#[track_caller]
fn check_path(path: &[u8], refused: bool) {
    assert_eq!(path_problem(path).is_some(), refused, "{}", shown_path(path));
}

#[test]
fn names_that_hide_or_trick_are_refused() {
    for path in [
        "a",
        "src/lib.rs",
        "ünï/日本.md",
        "a b.txt",
        ".github/x.yml",
        ".gitignore",
        ".gitattributes",
        "a.git/b",
    ] {
        check_path(path.as_bytes(), false);
    }
    let tricky = [
        "a\rb",
        "a\nb",
        "a\u{1b}[2J",
        "a\u{202e}b",
        "a\u{200b}b",
        "../x",
        "a/./b",
        "a//b",
        ".git/config",
        "a/.GIT/x",
        "a/.git ",
        ".git.",
        "git~1",
        "GIT~12/x",
        ".g\u{200c}it",
        ".git::$INDEX_ALLOCATION",
        ".git\\x",
        "x\\.git\\config",
    ];
    for path in tricky {
        check_path(path.as_bytes(), true);
    }
    check_path(b"caf\xe9", true);
    check_path("x".repeat(5000).as_bytes(), true);
}

#[track_caller]
fn check_link(path: &str, target: &str, refused: bool) {
    assert_eq!(
        link_problem(path.as_bytes(), target.as_bytes()).is_some(),
        refused,
        "{path} -> {target}"
    );
}

#[test]
fn links_stay_in_the_tree() {
    check_link("a", "b", false);
    check_link("a/b", "../c", false);
    check_link("a/b/c", "../../d/e", false);
    check_link("a", "nowhere/yet", false);
    check_link("a", "/etc/passwd", true);
    check_link("a", "../x", true);
    check_link("a/b", "../../x", true);
    check_link("a/b", "c/../../x", true);
    check_link("hooks", ".git/hooks", true);
    check_link("a/hooks", "../.GIT/hooks", true);
    check_link("a", "", true);
    check_link("a", "x\ny", true);
}

fn change(mode: &str, path: &str) -> RawChange {
    RawChange {
        old_mode: "000000".to_owned(),
        new_mode: mode.to_owned(),
        new_id: path.to_owned(),
        status: 'A',
        path: path.as_bytes().to_vec(),
    }
}

/// Judges additions of 10-byte files with these modes to a tree that already has `old`.
fn judged(additions: &[(&str, &str)], old: &[&str], policy: &TreePolicy) -> Vec<String> {
    let changes: Vec<RawChange> = additions.iter().map(|(mode, path)| change(mode, path)).collect();
    let sizes = changes.iter().map(|change| (change.new_id.clone(), 10)).collect();
    let all_paths: Vec<Vec<u8>> = additions
        .iter()
        .map(|(_, path)| path.as_bytes().to_vec())
        .chain(old.iter().map(|path| path.as_bytes().to_vec()))
        .collect();
    let facts = Facts {
        sizes: &sizes,
        links: &HashMap::new(),
        all_paths: &all_paths,
    };
    judge(&changes, &facts, policy)
}

#[track_caller]
fn check_one(mode: &str, path: &str, expected: &str) {
    let problems = judged(&[(mode, path)], &["README.md", "src/lib.rs"], &TreePolicy::default());
    let joined = problems.join("\n");
    if expected.is_empty() {
        assert_eq!(joined, "", "{path}");
    } else {
        assert!(problems.len() == 1 && joined.contains(expected), "{path}: {joined}");
    }
}

#[test]
fn modes_and_places_are_judged() {
    check_one("100644", "src/new.rs", "");
    check_one("100755", "run.sh", "");
    check_one("104755", "setuid", "mode 104755");
    check_one("120777", "odd", "mode 120777");
    check_one("160000", "vendor/lib", "submodules");
    check_one("100644", ".gitmodules", "fetch from elsewhere");
    check_one("100644", "sub/.lfsconfig", "fetch from elsewhere");
    check_one("100644", ".github/workflows/ci.yml", "a person has to make this change");
    check_one("100644", ".GitHub/Workflows/ci.yml", "a person has to make this change");
    check_one(
        "100644",
        ".github/actions/x/action.yml",
        "a person has to make this change",
    );
    check_one("100644", "CODEOWNERS", "a person has to make this change");
    check_one("100644", "docs/CODEOWNERS", "a person has to make this change");
    check_one("100644", ".github/forgehand.toml", "a person has to make this change");
    check_one("100644", ".github/ISSUE_TEMPLATE/bug.md", "");
    check_one("100644", "readme.md", "differ only in case");
    check_one("100644", "SRC/new.rs", "differ only in case");
}

#[test]
fn twins_are_found_among_the_new_names_and_in_other_encodings() {
    let policy = TreePolicy::default();
    let both_new = judged(&[("100644", "a/X"), ("100644", "a/x")], &[], &policy);
    assert_eq!(
        both_new,
        ["`a/X` and `a/x` differ only in case or in how accents are encoded"]
    );
    let accents = judged(&[("100644", "cafe\u{301}")], &["caf\u{e9}"], &policy);
    assert_eq!(accents.len(), 1, "{accents:?}");
    let before = judged(&[("100644", "lib/new")], &["LIB/old", "lib/old"], &policy);
    assert!(
        before.is_empty(),
        "twins of before are not this change's fault: {before:?}"
    );
}

#[track_caller]
fn check_protected(pattern: &str, path: &str, refused: bool) {
    let policy = TreePolicy {
        protected: vec![pattern.to_owned()],
        ..TreePolicy::default()
    };
    assert_eq!(
        !judged(&[("100644", path)], &[], &policy).is_empty(),
        refused,
        "{pattern} on {path}"
    );
}

#[test]
fn protected_paths_read_like_ignore_files() {
    check_protected("migrations/**", "migrations/1.sql", true);
    check_protected("migrations/", "migrations/1.sql", true);
    check_protected("migrations", "db/migrations/1.sql", true);
    check_protected("/migrations", "db/migrations/1.sql", false);
    check_protected("src/*.rs", "src/a.rs", true);
    check_protected("src/*.rs", "src/deep/a.rs", false);
    check_protected("*.lock", "deep/down/x.lock", true);
    check_protected("Cargo.lock", "cargo.LOCK", true);
    check_protected("docs/**", "src/docs.rs", false);
    check_protected("[", "anything", true);
}

#[test]
fn everything_is_reported_at_once_and_bounded() {
    let many: Vec<String> = (0..80).map(|n| format!(".github/workflows/{n}.yml")).collect();
    let additions: Vec<(&str, &str)> = many.iter().map(|path| ("100644", path.as_str())).collect();
    let problems = judged(&additions, &[], &TreePolicy::default());
    assert_eq!(problems.len(), SHOWN + 1);
    assert_eq!(problems.last().unwrap(), "and 30 more");
    let small = TreePolicy {
        max_changes: 1,
        max_file_bytes: 5,
        ..TreePolicy::default()
    };
    let problems = judged(&[("100644", "a"), ("100644", "b")], &[], &small).join("\n");
    assert!(
        problems.contains("2 changed paths") && problems.contains("`b`: 10 B are more"),
        "{problems}"
    );
}

#[test]
fn raw_records_are_parsed_and_anything_else_is_not() {
    let raw = b":100644 000000 aaa 000 D\0old name\0:000000 120000 000 bbb A\0new\0";
    let changes = parse_raw(raw).unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!((changes[0].status, changes[0].path.as_slice()), ('D', &b"old name"[..]));
    assert_eq!(
        (changes[1].new_mode.as_str(), changes[1].new_id.as_str()),
        ("120000", "bbb")
    );
    assert_eq!(parse_raw(b"").unwrap(), []);
    for broken in [&b"100644 x"[..], b":100644 000000 aaa", b":1 2 3 4 A"] {
        assert_eq!(parse_raw(broken), None);
    }
}

#[test]
fn paths_are_shown_without_what_does_not_show() {
    assert_eq!(shown_path(b"caf\xe9\r"), "caf\\xe9\\u{d}");
    assert_eq!(shown_path("a\u{202e}b".as_bytes()), "a\\u{202e}b");
}
