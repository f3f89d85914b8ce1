//! What is taken from the texts that people write.

use super::*;

#[track_caller]
fn weight(text: &str, word: &str) -> f32 {
    let query = Query::parse(text);
    query
        .words
        .iter()
        .find(|(known, _)| known == word)
        .map_or(0.0, |(_, weight)| *weight)
}

#[test]
fn words_of_the_author_count_more_than_what_is_quoted() {
    let text = "Crash in the loader\n\n### Describe the bug\n<!-- A clear description\nof the problem -->\nReading breaks.\n\
                > quoted words\n```rust\nlet fragment = 1;\n```\n2024-01-01T10:00:00Z INFO scheduler: started\n\
                - [x] I searched existing issues\n### Environment\nlinux gigabyte\n";
    for (word, expected) in [
        ("loader", 1.0),
        ("reading", 1.0),
        ("quoted", QUOTED),
        ("fragment", CODE),
        ("scheduler", LOG),
        ("gigabyte", LOG),
        ("describe", 0.0),
        ("problem", 0.0),
        ("searched", 0.0),
    ] {
        assert_eq!(weight(text, word), expected, "{word}");
    }
    assert!(weight("parse parse parse", "parse") > 1.9);
}

#[track_caller]
fn check_paths(text: &str, expected: &[(&str, Option<u32>)]) {
    let query = Query::parse(text);
    let got: Vec<(&str, Option<u32>)> = query.paths.iter().map(|(path, line)| (path.as_str(), *line)).collect();
    assert_eq!(got, expected, "{text}");
}

#[test]
fn paths_and_lines_of_traces() {
    check_paths("panicked at src/net/tcp.rs:12:5:", &[("src/net/tcp.rs", Some(12))]);
    check_paths(
        "  File \"/usr/lib/app/main.py\", line 88, in run",
        &[("/usr/lib/app/main.py", Some(88))],
    );
    check_paths("    at load (./lib/load.js:7:11)", &[("lib/load.js", Some(7))]);
    check_paths("at Foo.Bar() in C:\\work\\Foo.cs", &[]);
    check_paths("see `config.go` and https://example.org/x/y.go", &[("config.go", None)]);
    check_paths("version 1.2.3, e.g. this. And ...", &[]);
}

#[test]
fn names_are_one_however_they_are_written() {
    let query = Query::parse("`tmp_path` and tmpPath break in tmp path factory of HTTPServer, not iOS");
    assert_eq!(query.names, ["http_server", "ios", "tmp_path"]);
    assert!(query.joined.contains_key("tmppathfactory") && query.joined.contains_key("tmppath"));
    assert!(!query.joined.contains_key("and"));
    assert_eq!(query.joined["tmppathfactory"], "tmp_path_factory");
    assert_eq!(spellings("tmp_path").collect::<Vec<_>>(), ["tmp_path", "tmppath"]);
    assert_eq!(spellings("path").collect::<Vec<_>>(), ["path"]);
}

#[test]
fn any_text_is_survived_and_bounded() {
    for text in [
        "",
        "```",
        "<!--",
        "\u{0}\u{1}",
        "ß".repeat(40_000).as_str(),
        "a_b ".repeat(20_000).as_str(),
    ] {
        let query = Query::parse(text);
        assert!(query.words.len() <= MAX_WORDS && query.names.len() <= MAX_NAMES);
    }
    let many: String = (0..2000)
        .map(|at| format!("word{at} x{at}.py:3 some_name{at}\n"))
        .collect();
    let query = Query::parse(&many);
    assert_eq!(
        (query.words.len(), query.names.len(), query.paths.len()),
        (MAX_WORDS, MAX_NAMES, MAX_PATHS)
    );
    assert!(Query::parse(" \n").is_empty());
}
