//! Extraction as a whole: one program of each language with all that it gave, and what is kept of
//! files that cannot be parsed.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;
use crate::code::facts::{Import, Reference, Symbol};

mod limit;

const PROGRAMS: &[(&str, &str)] = &[
    ("bash.sh", include_str!("golden/bash.sh")),
    ("c.c", include_str!("golden/c.c")),
    ("c-sharp.cs", include_str!("golden/c-sharp.cs")),
    ("cpp.cpp", include_str!("golden/cpp.cpp")),
    ("go.go", include_str!("golden/go.go")),
    ("java.java", include_str!("golden/java.java")),
    ("javascript.jsx", include_str!("golden/javascript.jsx")),
    ("kotlin.kt", include_str!("golden/kotlin.kt")),
    ("php.php", include_str!("golden/php.php")),
    ("python.py", include_str!("golden/python.py")),
    ("ruby.rb", include_str!("golden/ruby.rb")),
    ("rust.rs", include_str!("golden/rust.rs")),
    ("scala.scala", include_str!("golden/scala.scala")),
    ("swift.swift", include_str!("golden/swift.swift")),
    ("tsx.tsx", include_str!("golden/tsx.tsx")),
    ("typescript.ts", include_str!("golden/typescript.ts")),
];

/// Nothing here may depend on how fast a machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn patient() -> Instant {
    Instant::now() + PATIENCE
}

#[test]
fn every_program_gives_its_symbols_references_and_imports() {
    for (path, text) in PROGRAMS {
        let found = extracted(path, text.as_bytes(), patient(), PATIENCE);
        assert_eq!(found.note, None, "{path}");
        let name = found.language.map(|language| language.name);
        insta::assert_snapshot!(name.unwrap_or(path), shown(&found.facts));
    }
}

fn shown(facts: &Facts) -> String {
    let mut text = String::new();
    for symbol in &facts.symbols {
        let _ = writeln!(text, "{}", shown_symbol(symbol, &facts.symbols));
    }
    text.push_str("--- references, by line\n");
    let mut line = None;
    for reference in &facts.references {
        if line != Some((reference.line, reference.within)) {
            line = Some((reference.line, reference.within));
            let within = reference.within.map_or("-", |at| &facts.symbols[at as usize].name);
            let _ = write!(text, "\n{} {within}:", reference.line);
        }
        let _ = write!(text, " {}", shown_reference(reference));
    }
    text.push_str("\n--- imports\n");
    for import in &facts.imports {
        let _ = writeln!(text, "{}", shown_import(import));
    }
    text
}

fn shown_symbol(symbol: &Symbol, symbols: &[Symbol]) -> String {
    let mut path = symbol.name.to_string();
    let mut parent = symbol.parent;
    while let Some(at) = parent {
        path = format!("{} > {path}", symbols[at as usize].name);
        parent = symbols[at as usize].parent;
    }
    let owner = symbol
        .owner
        .as_ref()
        .map(|owner| format!(" of {owner}"))
        .unwrap_or_default();
    format!("{}-{} {:?} {path}{owner}", symbol.line, symbol.end_line, symbol.kind)
}

fn shown_reference(reference: &Reference) -> String {
    let kind = format!("{:?}", reference.kind).to_lowercase();
    match &reference.receiver {
        Some(receiver) => format!("{kind}({receiver}.{})", reference.name),
        None => format!("{kind}({})", reference.name),
    }
}

fn shown_import(import: &Import) -> String {
    let name = import.name.as_deref().unwrap_or("*");
    let alias = import
        .alias
        .as_ref()
        .map(|alias| format!(" as {alias}"))
        .unwrap_or_default();
    format!("{} {} : {name}{alias}", import.line, import.module)
}
