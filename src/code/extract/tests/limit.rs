//! Files that are not parsed, or not to their end: each says why, and keeps its words.
//! Never measures time.

use super::*;

#[track_caller]
fn check(path: &str, bytes: &[u8], note: Option<&str>) -> Extracted {
    let found = extracted(path, bytes, patient(), PATIENCE);
    assert_eq!(found.note.as_deref(), note, "{path}");
    assert!(!found.facts.units.is_empty() || found.language.is_none(), "{path}");
    found
}

#[track_caller]
fn has_word(found: &Extracted, word: &str) {
    let has = found.facts.terms.iter().any(|term| &*term.text == word);
    assert!(has, "{word}");
}

#[test]
fn a_file_of_no_language_has_words_and_lines() {
    let found = check("README.md", b"# Parcels\n\nSend one.", None);
    assert_eq!(found.facts.lines, 3);
    assert_eq!(found.facts.units.len(), 1);
    has_word(&found, "parcels");
}

#[test]
fn a_binary_file_has_nothing() {
    let found = extracted("logo.rs", b"\x89PNG\0\0fn main() {}", patient(), PATIENCE);
    assert_eq!(found.note.as_deref(), Some("binary"));
    assert_eq!(found.facts, Facts::default());
}

#[test]
fn a_minified_file_has_words_only() {
    let text = format!("function greet(){{{}}}", "hello();".repeat(4_000));
    let found = check(
        "greet.min.js",
        text.as_bytes(),
        Some("not parsed: minified or generated"),
    );
    assert_eq!(found.facts.symbols, []);
    has_word(&found, "greet");
}

#[test]
fn a_long_file_has_the_words_of_its_beginning() {
    let mut text = "def first(): pass\n".to_owned();
    text.push_str(&"x = 1\n".repeat(400_000));
    text.push_str("def lastword(): pass\n");
    let found = check(
        "data.py",
        text.as_bytes(),
        Some("not parsed: longer than 1048576 bytes"),
    );
    assert_eq!(found.facts.lines, 400_002);
    assert_eq!(found.facts.symbols, []);
    has_word(&found, "first");
    assert!(!found.facts.terms.iter().any(|term| &*term.text == "lastword"));
}

#[test]
fn a_parse_that_is_not_ready_in_time_leaves_words() {
    let text = "fn late() {}\n".repeat(20_000);
    let found = extracted("late.rs", text.as_bytes(), Instant::now(), PATIENCE);
    assert_eq!(found.note.as_deref(), Some("not parsed in time"));
    assert_eq!(found.facts.symbols, []);
    has_word(&found, "late");
}

#[test]
fn bytes_that_are_not_utf8_are_read_around() {
    let found = check("latin.py", b"# caf\xe9\ndef order():\n    return tea()\n", None);
    assert_eq!(&*found.facts.symbols[0].name, "order");
    assert_eq!(found.facts.symbols[0].line, 2);
    assert_eq!(&*found.facts.references[0].name, "tea");
}

#[test]
fn bash_is_read_around_letters_that_its_grammar_cannot_take() {
    // In one run with a brace before it, each of these ended the process.
    let text = "größe() {\n  echo {\u{1F680}..9} {\u{10FFFF} {\u{FFFD}\n}\ngröße\n";
    let found = check("letters.sh", text.as_bytes(), None);
    assert_eq!(&*found.facts.symbols[0].name, "größe");
    assert!(
        found
            .facts
            .references
            .iter()
            .any(|reference| &*reference.name == "größe")
    );
}

#[test]
fn a_byte_order_mark_and_an_empty_file_are_nothing_special() {
    let found = check("mark.go", b"\xEF\xBB\xBFpackage p\nfunc f() {}\n", None);
    assert_eq!(found.facts.symbols.len(), 2);
    let found = check("empty.go", b"", None);
    assert_eq!((found.facts.lines, found.facts.symbols.len()), (0, 0));
}

#[test]
fn deep_nesting_ends_no_stack() {
    for (path, open, close) in [
        ("deep.rs", "fn f() { ", "}"),
        ("deep.py", "(", ")"),
        ("deep.js", "function f() { (", ") }"),
        ("deep.ts", "a(() => { ", "})"),
        ("deep.go", "func() { ", "}"),
        ("deep.java", "class A { ", "}"),
        ("deep.cpp", "namespace a { ", "}"),
        ("deep.rb", "module A\n", "end\n"),
        ("deep.rs", "use a::{", "};"),
        ("deep.sh", "$(", ")"),
    ] {
        let text = format!("{}{}", open.repeat(20_000), close.repeat(20_000));
        let lines = text.replace("{ ", "{\n").replace("((((((((", "((((((((\n");
        let found = extracted(path, lines.as_bytes(), patient(), PATIENCE);
        assert!(!found.facts.units.is_empty(), "{path}");
    }
}

#[test]
fn a_table_of_names_is_cut() {
    let mut text = String::new();
    for at in 0..60_000 {
        let _ = writeln!(text, "A{at}=1");
    }
    let found = check("table.py", text.as_bytes(), Some("only the first 50000 names"));
    assert!(found.facts.symbols.len() <= 50_000);
}

#[test]
fn a_header_of_cpp_is_read_as_cpp() {
    let found = check(
        "track.h",
        b"#pragma once\n\nnamespace a {\nclass B { void c(); };\n}\n",
        None,
    );
    assert_eq!(found.language.map(|language| language.name), Some("cpp"));
    let names: Vec<&str> = found.facts.symbols.iter().map(|symbol| &*symbol.name).collect();
    assert_eq!(names, ["a", "B", "c"]);
    let found = check("ring.h", b"struct ring { int head; };\n", None);
    assert_eq!(found.language.map(|language| language.name), Some("c"));
}
