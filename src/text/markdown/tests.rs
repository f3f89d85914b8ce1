//! What may be posted, as tables.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(neutralise_markdown(text, "/agent"), expected);
}

#[test]
fn o01_nothing_hides() {
    check("zero\u{200b}width \u{1b}[31mred\u{1b}[0m", "zerowidth red");
    check("a <!-- hidden --> b", "a &lt;!-- hidden --> b");
    check("a <!<!-- x -->-- b", "a &lt;!&lt;!-- x -->-- b");
}

#[test]
fn o02_nobody_is_called_and_nothing_is_closed() {
    check("hello @octo/team and a@b.c", "hello `@octo/team` and a@b.c");
    check("Fixes #99, closes other/repo#1", "Fixes `#99`, closes `other/repo#1`");
    // In code too: a squashed pull request takes its body into the commit message.
    check("`fixes #97` `closes o/r#1`", "`fixes no. 97` `closes o/r no. 1`");
    check("see GH-7 and C#7", "see `GH-7` and C#7");
    check("&#64;octo &commat;octo", "`&#64;`octo &amp;commat;octo");
    check(r"\@octo", "`@octo`");
    // A backtick that is no code must not unmake ours.
    check("one ` @octo", "one &#96; `@octo`");
    check(r"\`@octo\`", "&#96;`@octo`&#96;");
    check("`a`@octo", "`a` `@octo`");
    check(
        "closes https://github.com/o/r/issues/9.",
        "closes `https://github.com/o/r/issues/9`.",
    );
}

#[test]
fn o02_names_in_code_close_and_skip_nothing_either() {
    assert_eq!(code_span("fixes #1.txt"), "`fixes no. 1.txt`");
    check("`[skip ci]` and [No Actions]", "`(skip ci)` and (No Actions)");
}

#[test]
fn o03_nothing_is_loaded_or_linked() {
    check("![x](https://evil/?d=1)", "[image left out]");
    check("![a\nb](https://evil/?d=1)", "[image left out]");
    check("![x][r]\n\n[r]: //evil/x", "[image left out]\n\n[r] : //evil/x");
    check("[t](//evil/x) [t](javascript:x)", "[t] (//evil/x) [t] (javascript:x)");
    check("<https://evil/x>", "&lt;`https://evil/x`>");
    check("www.evil.com", "`www.evil.com`");
    check("<img src=x>", "&lt;img src=x>");
    check("<a href='x'>", "&lt;a href='x'>");
    let long = format!("https://evil/?d={}", "x".repeat(500));
    assert!(neutralise_markdown(&long, "/agent").chars().count() < 210);
}

#[test]
fn o04_nothing_stays_open() {
    check("```\nopen", "```\nopen\n```");
    check("- a\n  ~~~\n  @x", "- a\n```\n@x\n```");
    check("<details>\n~~~\nopen", "&lt;details>\n\\~~~\nopen");
    check("````\n```\n````\nafter", "````\n```\n````\nafter");
    check("```mermaid\na\n```", "```\na\n```");
}

#[test]
fn o05_no_line_is_a_command() {
    check("/agent fix", "`/agent` fix");
    check("> - /AGENT stop", "> - `/AGENT` stop");
    check("use /agents", "use /agents");
}

#[test]
fn sections_of_the_program_cannot_be_imitated() {
    check("# Verification", "#### Verification");
    check("> ## Verification", "> #### Verification");
    check("Verification\n---", "Verification\n\\---");
    check(
        "<div>\nVerification\n===\n</div>",
        "&lt;div>\nVerification\n\\===\n&lt;/div>",
    );
}

#[test]
fn e16_code_stays_as_it_is() {
    check("in `@code <b>` stays", "in `@code <b>` stays");
    check(
        "```python\n@property\ndef x(self): <b> #1\n```\n",
        "```python\n@property\ndef x(self): <b> #1\n```\n",
    );
    check("text\n\n    @indented\n", "text\n\n```\n@indented\n```\n");
    check("``a ` b``", "``a ` b``");
}

#[test]
fn spans_hold_in_tables() {
    for (code, expected) in [
        ("cargo test", "`cargo test`"),
        ("a | b", "<code>a &#124; b</code>"),
        ("a`b", "``a`b``"),
        ("`a", "`` `a ``"),
        ("a\nb\u{202e}", "`a b⟦U+202E⟧`"),
        ("", "`  `"),
    ] {
        assert_eq!(code_span(code), expected);
    }
}

#[test]
fn it_grows_little() {
    for risky in ["<a", "@a ", "#1 ", "![]()", "#\n", "`", "&a;", "](", "|`|`"] {
        let text = risky.repeat(2_000);
        let grown = neutralise_markdown(&text, "/agent").chars().count();
        assert!(grown <= text.chars().count() * 5, "{risky}: {grown}");
    }
}

#[test]
fn g22_commit_messages_sign_for_nobody_and_steer_nothing() {
    for (words, expected) in [
        ("Fixes #99 and GH-3", "Fixes no. 99 and no. 3"),
        ("closes https://x/y/issues/1", "closes at https://x/y/issues/1"),
        ("x [Skip CI] [no ci]", "x (Skip CI) (no ci)"),
        ("a\n\nSigned-off-by: admin <a@b>", "a\n\n(Signed-off-by: admin <a@b>)"),
        ("skip-checks: true", "(skip-checks: true)"),
        ("thanks @octo", "thanks octo"),
    ] {
        assert_eq!(plain_words(words), expected);
    }
}

#[test]
fn o04_a_cut_leaves_nothing_open_and_no_half_of_a_span() {
    let filler = "word\n".repeat(200);
    let cut = |text: &str| cap_markdown(text, 700);
    assert_eq!(cut("short"), "short");
    let block = format!("````rust\n{filler}````\n");
    assert!(cut(&block).ends_with("word\n````\n\n[…]\n"), "{}", cut(&block));
    let hidden = format!("<details><summary>x</summary>\n\n{filler}</details>\n");
    assert!(cut(&hidden).ends_with("[…]\n\n</details>\n"), "{}", cut(&hidden));
    let line = format!("first\n{}", "`@octo` ".repeat(200));
    assert_eq!(cut(&line), "first\n\n\n[…]\n");
    let closed = format!("```\na\n```\n{filler}");
    assert!(cut(&closed).ends_with("word\n\n\n[…]\n"));
    let of_all = [block, hidden, closed].map(|text| cut(&text).chars().count() <= 700);
    assert_eq!(of_all, [true; 3]);
}
