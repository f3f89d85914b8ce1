//! Tables of rules and keys.

use super::*;

mod bash;

fn policy(allow: &[&str], ask: &[&str], deny: &[&str]) -> Policy {
    let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    let config = PermissionConfig {
        allow: list(allow),
        ask: list(ask),
        deny: list(deny),
        ..PermissionConfig::default()
    };
    Policy::new(&config, &[]).unwrap()
}

/// What the rules say, as a word.
#[track_caller]
fn check(policy: &Policy, key: &str, expected: &str) {
    let word = match policy.decide(key) {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny(_) => "deny",
    };
    assert_eq!(word, expected, "{key}: {:?}", policy.decide(key));
}

/// The words of a plain command, or nothing for a line that is keyed whole.
#[track_caller]
fn check_plain(line: &str, expected: Option<&[&str]>) {
    let key = command_key(line);
    let words: Option<Vec<&str>> = key.plain().map(|words| words.iter().map(String::as_str).collect());
    assert_eq!(words.as_deref(), expected, "{line:?}");
    let again = command_key(&key.text());
    assert_eq!(
        again.plain(),
        key.plain(),
        "the key of {line:?} is read as the line was"
    );
}

#[test]
fn a_plain_command_is_known_by_its_program_and_arguments() {
    for (line, words) in [
        ("git status", &["git", "status"][..]),
        ("  cargo   test --lib  ", &["cargo", "test", "--lib"]),
        ("/usr/bin/git log -5", &["git", "log", "-5"]),
        ("./git status", &["./git", "status"]),
        ("/tmp/git status", &["/tmp/git", "status"]),
        (r#"grep -n "a b" 'c d' e\ f"#, &["grep", "-n", "a b", "c d", "e f"]),
        (r#"git commit -m "it's done""#, &["git", "commit", "-m", "it's done"]),
        ("cargo test 2>&1", &["cargo", "test"]),
        ("make test > /dev/null 2>&1", &["make", "test"]),
        ("ls src/*.rs", &["ls", "src/*.rs"]),
        ("find . -name '*.rs'", &["find", ".", "-name", "*.rs"]),
        ("npm run test:unit", &["npm", "run", "test:unit"]),
    ] {
        check_plain(line, Some(words));
    }
}

#[test]
fn s10_everything_else_is_keyed_whole() {
    for line in [
        "",
        "git status && curl evil",
        "git status || curl evil",
        "git status; curl evil",
        "git status | sh",
        "git status & curl evil",
        "git status &",
        "git status\ncurl evil",
        "git status \\\n; curl evil",
        "git status\rcurl evil",
        "ls `cat /etc/passwd`",
        "ls $(cat x)",
        "ls \"$(cat x)\"",
        "diff <(a) <(b)",
        "cat <<EOF\nx\nEOF",
        "cat <<< x",
        "echo x > out",
        "echo x >> .git/config",
        "X=1 git status",
        "git $X",
        "git${IFS}status",
        "git \"$X\"",
        "git $'\\x70ush'",
        "rg foo *",
        "rg {--pre,x}",
        "env git status",
        "sudo git status",
        "nice git status",
        "timeout 5 git status",
        "xargs git status",
        "bash -c 'git status'",
        "sh -lc 'git status'",
        "eval git status",
        ". ./evil",
        "exec git status",
        "(git status)",
        "{ git status; }",
        "! git status",
        "if true; then git status; fi",
        "f() { git status; }",
        "for x in a; do git status; done",
        "find . -exec sh {} +",
        "find . -execdir rm {} ;",
        "git status 'unclosed",
        "sed 1e x",
        "awk 'BEGIN{system(\"id\")}'",
        "time git status",
    ] {
        check_plain(line, None);
    }
}

#[test]
fn s1_options_that_run_other_programs_are_never_part_of_a_prefix() {
    let rules = policy(
        &[
            "run_command:rg",
            "run_command:sort *",
            "run_command:git",
            "run_command:tar",
        ],
        &["run_command:*"],
        &[],
    );
    for line in [
        "rg --pre ./evil x f",
        "rg --pre=./evil x f",
        "sort -S1 --compress-program=./evil f",
        "sort -S1 --compress-p ./evil f",
        "git -c alias.x='!sh' x",
        "git -calias.x=!sh x",
        "git --config-env=alias.x=E x",
        "git -C /tmp/evil status",
        "git --exec-path=/tmp/evil status",
        "git submodule foreach ./evil",
        "git rebase -x ./evil",
        "git grep --open-files-in-pager=./evil x",
        "git grep -O./evil x",
        "git ls-remote --upload-pack=./evil .",
        "tar -xf a --checkpoint-action=exec=./evil",
        "tar -xf a --to-comm=./evil",
        "tar -xIf ./evil a",
    ] {
        check(&rules, &key::of_command("run_command", line), "ask");
    }
    for line in [
        "rg foo src",
        "sort -n f",
        "git status",
        "git log -p -5",
        "tar -xzf a",
        "git diff --stat",
    ] {
        check(&rules, &key::of_command("run_command", line), "allow");
    }
}

#[test]
fn the_longest_rule_counts_and_the_stricter_of_equal_ones() {
    let rules = policy(
        &["run_command:git", "run_command:git fetch origin", "run_command:make"],
        &["run_command:git fetch", "run_command:make"],
        &["run_command:cargo publish *"],
    );
    check(&rules, "run_command:git status", "allow");
    check(&rules, "run_command:git fetch upstream", "ask");
    check(&rules, "run_command:git fetch origin main", "allow");
    check(&rules, "run_command:make", "ask");
    check(&rules, "run_command:cargo test", "allow");
    check(&rules, "run_command:cargo publish", "deny");
    check(&rules, "run_command:cargo publish --dry-run", "deny");
    check(&rules, "run_command:gitk", "allow");
    let closed = policy(&["run_command:git"], &["run_command:*"], &[]);
    check(&closed, "run_command:gitk", "ask");
    check(&closed, "run_command:git", "allow");
    check(&closed, "run_command:./git status", "ask");
}

#[test]
fn c06_a_line_gets_the_verdict_of_its_worst_part() {
    let rules = policy(
        &["run_command:true"],
        &["run_command:npm publish"],
        &["run_command:curl"],
    );
    let mut line = "true; ".repeat(51);
    line.push_str("curl evil");
    check(&rules, &key::of_command("run_command", &line), "deny");
    check(&rules, &key::of_command("run_command", &"true; ".repeat(51)), "allow");
    let strict = policy(&["run_command:true"], &["run_command:*"], &[]);
    check(&strict, "run_command:true", "allow");
    check(&strict, &key::of_command("run_command", &"true; ".repeat(51)), "ask");
    for line in [
        "grep x f && curl evil",
        "echo $(curl evil)",
        "echo `curl evil`",
        "cat <(curl evil)",
        "env X=1 curl evil",
        "sudo -u root curl evil",
        "timeout 5 nice curl evil",
        "bash -c 'curl evil'",
        "sh -lc \"true; curl evil\"",
        "bash -c 'bash -c \"curl evil\"'",
        "find . -exec curl {} +",
        "ls | xargs curl",
        "X=1 curl evil",
        "/usr/bin/curl evil",
        "./curl evil",
        "if true; then curl evil; fi",
        "f() { curl evil; }; f",
        "eval 'curl evil'",
        "c\\url evil",
        "'cu'rl evil",
        // What the line does is not to be seen: the strictest rule counts.
        "$X evil",
        "bash <<EOF\ncurl evil\nEOF",
        "echo curl evil | sh",
        "bash -c \"$X\"",
        "eval \"$X\"",
        "curl 'unclosed",
        "npm $X",
        "cu$X evil",
    ] {
        let decision = rules.decide(&key::of_command("run_command", line));
        assert_ne!(decision, Decision::Allow, "{line}");
    }
    check(&rules, "run_command:npm --silent publish", "ask");
    check(&rules, "run_command:npm --prefix web publish", "ask");
    check(&rules, "run_command:npm run publish", "allow");
}

#[test]
fn a_whole_line_is_allowed_by_an_equal_rule_only() {
    let rules = policy(
        &["run_command:cargo", "run_command:cargo test && cargo doc"],
        &["run_command:*"],
        &[],
    );
    check(&rules, "run_command:cargo test", "allow");
    check(
        &rules,
        &key::of_command("run_command", " cargo test && cargo doc "),
        "allow",
    );
    check(
        &rules,
        &key::of_command("run_command", "cargo test && cargo doc --open"),
        "ask",
    );
    check(
        &rules,
        &key::of_command("run_command", "cargo test && cargo clippy"),
        "ask",
    );
}

#[test]
fn files_are_matched_by_pattern_and_writing_is_one_thing() {
    let rules = policy(
        &["write_file:src/**", "read_file:*"],
        &["write_file:*"],
        &["write_file:src/generated/", "edit_file:Cargo.lock"],
    );
    check(&rules, &key::of_paths("write_file", ["src/a/b.rs"]), "allow");
    check(&rules, &key::of_paths("edit_file", ["src/a.rs"]), "allow");
    check(&rules, &key::of_paths("write_file", ["README.md"]), "ask");
    check(&rules, &key::of_paths("write_file", ["src/../README.md"]), "ask");
    check(&rules, &key::of_paths("write_file", ["../src/a.rs"]), "ask");
    check(&rules, &key::of_paths("write_file", ["/etc/passwd"]), "ask");
    check(
        &rules,
        &key::of_paths("apply_patch", ["src/a.rs", "src/generated/x.rs"]),
        "deny",
    );
    check(&rules, &key::of_paths("apply_patch", ["src/a.rs", "src/b.rs"]), "allow");
    check(&rules, &key::of_paths("edit_file", ["docs/../src/generated/x"]), "deny");
    check(&rules, &key::of_paths("edit_file", ["Cargo.lock"]), "deny");
    check(&rules, &key::of_paths("write_file", ["Cargo.lock"]), "ask");
    check(&rules, &key::of_paths("list_directory", [""]), "allow");
}

#[test]
fn hosts_of_the_web_are_asked_about_unless_listed() {
    let hosts = [
        HostRule::parse("docs.rs").unwrap(),
        HostRule::parse("*.python.org").unwrap(),
    ];
    let config = PermissionConfig {
        deny: vec!["web_fetch:docs.python.org".to_owned()],
        ..PermissionConfig::default()
    };
    let rules = Policy::new(&config, &hosts).unwrap();
    check(&rules, "web_fetch:docs.rs", "allow");
    check(&rules, "reverse_api:docs.rs", "allow");
    check(&rules, "web_fetch:wiki.python.org", "allow");
    check(&rules, "web_fetch:docs.python.org", "deny");
    check(&rules, "web_fetch:evil.example", "ask");
    check(&rules, "web_fetch", "ask");
    check(&rules.clone().unattended(), "web_fetch:evil.example", "deny");
    check(&rules.unattended(), "web_fetch:docs.rs", "allow");
}

#[test]
fn s4_a_rule_that_is_not_understood_is_a_mistake_in_the_configuration() {
    for (rule, words) in [
        ("run_command", "run_command:*"),
        ("*", "names no tool"),
        ("", "names no tool"),
        ("Bash(gh:*)", "names no tool"),
        ("View,Bash", "names no tool"),
        ("run_comand:git", "names no tool"),
        (" run_command:git", "names no tool"),
        ("run_command:", "nothing, or space"),
        ("run_command: git", "nothing, or space"),
        ("run_command:git*", "at the end only"),
        ("run_command:git * push", "at the end only"),
        ("run_command:git 'x", "can be read"),
        ("run_command:git status && ls *", "without `*`"),
        ("run_command:env git *", "without `*`"),
        ("write_file:/etc/**", "relative"),
        ("write_file:../x", "relative"),
        ("write_file:src/[a", "unclosed"),
        ("write_file", "write_file:*"),
        ("web_fetch:*.com", "top-level"),
        ("web_fetch:http://docs.rs", "no host"),
        ("finish:x", "written `finish`"),
    ] {
        let config = PermissionConfig {
            ask: vec![rule.to_owned()],
            ..PermissionConfig::default()
        };
        let problems = Policy::new(&config, &[]).unwrap_err();
        let right = problems.len() == 1 && problems[0].starts_with("permission.ask: ") && problems[0].contains(words);
        assert!(right, "{rule:?}: {problems:?}");
    }
    for rule in [
        "run_command:*",
        "run_command:git push *",
        "write_file:src/**",
        "web_fetch:docs.rs",
        "finish",
        "plan:*",
    ] {
        policy(&[rule], &[], &[]);
    }
}

#[test]
fn what_is_never_done_is_lifted_by_nothing() {
    let rules = policy(&["run_command:*", "write_file:*", "read_file:*"], &[], &[]);
    for line in [
        "git push",
        "git push origin HEAD",
        "git -C sub push",
        "git -c x.y=z push",
        "cd sub && git push",
        "sudo git push",
        "bash -c 'git push'",
        "gh auth token",
        "rm -rf /",
        "rm -r -f /*",
        "rm --recursive ~",
        "cat /etc/shadow",
        "ls `cat /etc/shadow`",
        "cat ~/.ssh/id_rsa",
        "cat /root/.aws/credentials",
        "cat /proc/1/environ",
        "echo x > .git/hooks/pre-commit",
        "echo x >> sub/.git/config",
    ] {
        let key = key::of_command("run_command", line);
        check(&rules, &key, "deny");
        rules.grant(&key, Scope::Run).unwrap();
        check(&rules, &key, "deny");
    }
    for line in [
        "git stash push",
        "git commit -m push",
        "rm -rf target",
        "rm -rf ./",
        "cat tests/.ssh/config",
        "cat /workspace/fixtures/.ssh/config",
        "cat .git/config",
        "echo x > .gitignore",
        "grep -r 'git push' .",
    ] {
        check(&rules, &key::of_command("run_command", line), "allow");
    }
    for path in [
        ".git/config",
        ".git/hooks/x",
        "a/.GIT/config",
        "./.git/x",
        "a/../.git/config",
        ".git./x",
    ] {
        check(&rules, &key::of_paths("write_file", [path]), "deny");
        check(&rules, &key::of_paths("apply_patch", ["a", path]), "deny");
    }
    check(&rules, &key::of_paths("write_file", [".github/x"]), "allow");
    check(&rules, &key::of_paths("read_file", [".git/config"]), "allow");
}

#[test]
fn an_approval_covers_what_was_shown_for_as_long_as_was_said() {
    let rules = policy(&[], &["run_command:git"], &["run_command:git fetch"]);
    check(&rules, "run_command:git status", "ask");
    rules.grant("run_command:git status", Scope::Run).unwrap();
    check(&rules, "run_command:git status", "allow");
    check(&rules, "run_command:git status -s", "ask");
    check(&rules.clone().unattended(), "run_command:git status", "allow");
    check(&rules.for_run(), "run_command:git status", "ask");
    rules.grant("run_command:git fetch", Scope::Run).unwrap();
    check(&rules, "run_command:git fetch", "deny");
    assert!(
        rules.grant("run_command:git log", Scope::Repository).is_err(),
        "there is no place to keep it"
    );
    check(&rules, "run_command:git log", "allow");
}

#[test]
fn long_and_deep_lines_are_read_in_time_or_not_at_all() {
    let rules = policy(&["run_command:true"], &[], &["run_command:curl"]);
    let deep = format!("{}curl{}", "echo $(".repeat(4_000), ")".repeat(4_000));
    let shells = (0..8).fold("curl evil".to_owned(), |line, _| {
        format!("bash -c {}", shell::written(&line))
    });
    let wrapped = format!("sudo {}-c 'curl evil'", "bash ".repeat(5_000));
    for line in [
        deep,
        shells,
        wrapped,
        "true;".repeat(20_000),
        format!("echo {}", "x".repeat(1 << 20)),
    ] {
        let started = std::time::Instant::now();
        let key = key::of_command("run_command", &line);
        assert_ne!(rules.decide(&key), Decision::Allow, "{}", &line[..40]);
        assert!(
            started.elapsed() < std::time::Duration::from_secs(10),
            "{}",
            &line[..40]
        );
    }
}

/// The list of a repository on top of a policy.
fn with_list(policy: Policy, allow: &[&str], ask: &[&str], deny: &[&str]) -> Policy {
    let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    let list = PermissionConfig {
        allow: list(allow),
        ask: list(ask),
        deny: list(deny),
        ..PermissionConfig::default()
    };
    policy.with_list_of(&list).unwrap()
}

#[test]
fn a_repository_narrows_and_allows_within_what_it_may() {
    let config = PermissionConfig {
        allow: vec!["run_command:make".to_owned()],
        ask: vec!["run_command:cargo publish".to_owned(), "web_fetch:*".to_owned()],
        deny: vec!["run_command:curl".to_owned()],
        repository: vec!["run_command:cargo".to_owned(), "write_file:docs/**".to_owned()],
        sandboxed: PermissionMode::Ask,
        ..PermissionConfig::default()
    };
    let operator = Policy::new(&config, &[]).unwrap();
    let everything = [
        "run_command:*",
        "run_command:cargo publish",
        "run_command:curl",
        "write_file:*",
        "web_fetch:*",
        "run_command:git push",
    ];
    let policy = with_list(
        operator.clone(),
        &everything,
        &["run_command:make clean"],
        &["read_file:secret/**"],
    );
    for (key, expected) in [
        ("run_command:make", "allow"),
        ("run_command:make clean", "ask"),
        ("run_command:cargo test", "allow"),
        ("run_command:cargo publish", "ask"),
        ("run_command:curl a", "deny"),
        ("run_command:git push", "deny"),
        ("run_command:ls", "ask"),
        ("write_file:docs/a.md", "allow"),
        ("write_file:docs/a.md\ndocs/b.md", "allow"),
        ("write_file:docs/a.md\nsrc/b.rs", "ask"),
        ("write_file:docs/../src/b.rs", "ask"),
        ("web_fetch:docs.rs", "ask"),
        ("read_file:secret/a", "deny"),
        ("read_file:a", "ask"),
    ] {
        check(&policy, key, expected);
    }
    let bounded = with_list(Policy::default(), &everything, &[], &["run_command:rm"]);
    check(&bounded, "web_fetch:docs.rs", "ask");
    check(&bounded, "run_command:rm a", "deny");
    check(&bounded, "run_command:ls", "allow");
    assert!(
        operator
            .with_list_of(&PermissionConfig {
                allow: vec!["bash:*".into()],
                ..config
            })
            .is_err()
    );
}

#[test]
fn the_rule_that_is_named_is_one_that_allows() {
    let ask = PermissionConfig {
        deny: vec!["run_command:curl".to_owned(), "write_file:migrations/**".to_owned()],
        sandboxed: PermissionMode::Ask,
        ..PermissionConfig::default()
    };
    let policy = Policy::new(&ask, &[]).unwrap();
    for (key, named) in [
        (
            "run_command:cargo test",
            Some("permission.allow = [\"run_command:cargo test\"]"),
        ),
        (
            "run_command:cat a | wc -l",
            Some("permission.allow = [\"run_command:cat a | wc -l\"]"),
        ),
        ("start_command:make", Some("permission.allow = [\"run_command:make\"]")),
        ("read_file:a/b.rs", Some("permission.allow = [\"read_file:a/b.rs\"]")),
        (
            "edit_file:a\nb",
            Some("permission.allow = [\"write_file:a\", \"write_file:b\"]"),
        ),
        ("web_fetch:docs.rs", Some("permission.allow = [\"web_fetch:docs.rs\"]")),
        ("grep", Some("permission.allow = [\"grep\"]")),
        ("run_command:curl", None),
        ("run_command:git push", None),
        ("read_file:../a", None),
        ("finish", None),
    ] {
        assert_eq!(policy.allowing(key).as_deref(), named, "{key}");
        if let Some(line) = named {
            let rules: toml::Table = line.replace("permission.", "").parse().unwrap();
            let allow: Vec<String> = rules["allow"].clone().try_into().unwrap();
            let allowed = Policy::new(&PermissionConfig { allow, ..ask.clone() }, &[]).unwrap();
            check(&allowed, key, "allow");
        }
    }
    let denied = with_list(policy, &[], &[], &["run_command:make"]);
    assert_eq!(
        denied.allowing("run_command:make"),
        None,
        "the repository's own rule stays"
    );
}

#[test]
fn j17_nothing_is_allowed_where_all_is_asked_about() {
    let policy = |sandboxed, allow: &[&str], repository: &[&str]| {
        let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
        let config = PermissionConfig {
            allow: list(allow),
            repository: list(repository),
            sandboxed,
            ..PermissionConfig::default()
        };
        Policy::new(&config, &[HostRule::parse("docs.rs").unwrap()]).unwrap()
    };
    let ask = PermissionMode::Ask;
    assert!(policy(ask, &[], &[]).allows_nothing() && policy(PermissionMode::Deny, &[], &[]).allows_nothing());
    assert!(policy(ask, &["web_fetch:docs.rs"], &["run_command:*"]).allows_nothing());
    assert!(!policy(PermissionMode::Allow, &[], &[]).allows_nothing());
    assert!(!policy(ask, &["read_file:*"], &[]).allows_nothing());
    let listed = with_list(policy(ask, &[], &["run_command:*"]), &["run_command:make"], &[], &[]);
    assert!(!listed.allows_nothing());
}
