//! Words of names and texts, and whose they are.

use super::super::facts::{Symbol, SymbolKind};
use super::*;

#[track_caller]
fn check(name: &str, expected: &[&str]) {
    let mut found = Vec::new();
    parts(name, |part| found.push(part.to_owned()));
    assert_eq!(found, expected, "{name}");
}

#[test]
fn names_split_where_a_reader_would() {
    check("getUser", &["get", "user"]);
    check("get_user__name", &["get", "user", "name"]);
    check("__init__", &["init"]);
    check("HTTPServer", &["http", "server"]);
    check("parseURL2Path", &["parse", "url2", "path"]);
    check("sha256", &["sha256"]);
    check("x86_64", &["x86", "64"]);
    check("iPhone", &["phone"]);
    check("MAX_SIZE", &["max", "size"]);
    check("ÜberGröße", &["über", "größe"]);
    check("配置文件", &["配置", "置文", "文件"]);
    check("load配置", &["load", "配置"]);
    check("_", &[]);
    check("", &[]);
    check(&"a".repeat(41), &[]);
}

fn symbol(name: &str, kind: SymbolKind, lines: (u32, u32)) -> Symbol {
    Symbol {
        name: name.into(),
        kind,
        line: lines.0,
        end_line: lines.1,
        parent: None,
        owner: None,
    }
}

fn count(of: &(Vec<Unit>, Vec<Term>), field: Field, word: &str, unit: u32) -> u32 {
    let mut terms = of.1.iter();
    terms
        .find(|term| term.field == field && &*term.text == word && term.unit == unit)
        .map_or(0, |term| term.count)
}

#[test]
fn a_word_belongs_to_the_innermost_function() {
    let text = "use fast_path;\n\n/// Reads the header.\nfn outer() {\n    readHeader();\n    fn inner() {\n        readHeader(header)\n    }\n}\nconst LIMIT: u8;\n";
    let symbols = [
        symbol("outer", SymbolKind::Function, (4, 9)),
        symbol("inner", SymbolKind::Function, (6, 8)),
        symbol("LIMIT", SymbolKind::Variable, (10, 10)),
    ];
    let found = terms(text, &symbols);
    assert_eq!(
        found.0.iter().map(|unit| unit.symbol).collect::<Vec<_>>(),
        [None, Some(0), Some(1)]
    );
    for (field, word, counts) in [
        (Field::Part, "header", [0, 2, 2]),
        (Field::Part, "path", [1, 0, 0]),
        (Field::Whole, "fast_path", [1, 0, 0]),
        (Field::Whole, "readheader", [0, 1, 1]),
        (Field::Defined, "outer", [0, 1, 0]),
        (Field::Defined, "inner", [0, 0, 1]),
        (Field::Defined, "limit", [1, 0, 0]),
        (Field::Part, "the", [0, 0, 0]),
    ] {
        let got = [0, 1, 2].map(|unit| count(&found, field, word, unit));
        assert_eq!(got, counts, "{field:?} {word}");
    }
}

#[test]
fn symbols_that_lie_about_their_lines_are_survived() {
    let symbols = [
        symbol("a", SymbolKind::Function, (0, 0)),
        symbol("b", SymbolKind::Function, (9, 3)),
        symbol("c", SymbolKind::Method, (u32::MAX, u32::MAX)),
    ];
    let found = terms("one two\nthree", &symbols);
    assert_eq!(found.0.len(), 4);
    assert_eq!(count(&found, Field::Part, "three", 0), 1);
}

#[test]
fn a_file_of_data_has_a_bounded_number_of_words() {
    let text: String = (0..200_000).map(|at| format!("k{at}x ")).collect();
    let found = terms(&text, &[]);
    assert_eq!(found.1.len(), MAX_NAMES);
    assert!(terms(&"é".repeat(5_000_000), &[]).1.is_empty());
}

#[test]
fn noise_is_in_order() {
    assert!(NOISE.is_sorted());
    assert!(NOISE.iter().all(|word| word.len() <= 5));
    assert!(is_noise("the") && !is_noise("parse"));
}
