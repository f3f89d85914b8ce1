//! A view on segments against the same view from plain maps. Never needs git or a folder.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::language;
use crate::retrieval::extract::facts_of;

/// What a file of Python says.
fn facts(text: &str) -> Facts {
    let until = Instant::now() + Duration::from_secs(60);
    facts_of("file.py", text.as_bytes(), until).facts
}

fn view(files: &[(&str, &str)]) -> View {
    let of = |(path, text): &(&str, &str)| ((*path).to_owned(), language::of_path(path), Arc::new(facts(text)));
    View::of(files.iter().map(of).collect())
}

fn paths<T>(view: &View, found: &[(FileId, T)]) -> Vec<String> {
    found.iter().map(|(file, _)| view.path(*file).to_owned()).collect()
}

#[test]
fn files_are_found_by_path_and_told_with_their_facts() {
    let view = view(&[
        ("b/two.py", "def second(): pass\nfirst()\n"),
        ("a.py", "def first(): pass\n"),
        ("b.rs", ""),
    ]);
    assert_eq!(view.len(), 3);
    let all: Vec<&str> = view.files().map(|file| view.path(file)).collect();
    assert_eq!(all, ["a.py", "b.rs", "b/two.py"]);
    let two = view.file("b/two.py").unwrap();
    assert_eq!(view.language(two).unwrap().name, "python");
    assert_eq!(view.lines(two), 2);
    assert_eq!(&*view.symbols(two)[0].name, "second");
    assert_eq!(view.symbol(two, 0), Some(view.symbols(two)[0].clone()));
    assert_eq!(view.references_at(two, &[0]), view.references(two));
    assert_eq!(view.units(two).len(), 2);
    assert_eq!(view.unit_count(two), 2);
    assert_eq!(paths(&view, &view.defined("first")), ["a.py"]);
    assert_eq!(paths(&view, &view.referred("first")), ["b/two.py"]);
    assert_eq!(view.names_from("", 9), ["first", "second"]);
    assert_eq!(view.names_from("s", 9), ["second"]);
    assert_eq!(view.names_from("", 1), ["first"]);
    assert!(view.file("b").is_none() && view.file("").is_none());
    assert!(view.defined("third").is_empty());
}

#[test]
fn an_overlay_hides_what_is_below_it() {
    let base = view(&[
        ("a.py", "def one(): pass\n"),
        ("b.py", "def two(): pass\none()\n"),
        ("c.py", "def three(): pass\n"),
    ]);
    let mut top = base.joined(0).unwrap();
    // More edits than segments may lie upon each other, so they are put together on the way.
    for round in 0..20 {
        let text = format!("def four{round}(): pass\n");
        let mut builder = Builder::default();
        let key = BlobKey::new(BlobId([round; 20]), "b.py");
        builder.add(key, Traits::default(), &facts(&text), None);
        let segment = Arc::new(in_memory(builder).unwrap());
        let changes = [
            ("b.py".to_owned(), Some(0)),
            ("c.py".to_owned(), None),
            ("d.py".to_owned(), Some(0)),
        ];
        top = top.with(segment, &changes).joined(3).unwrap();
        assert!(top.segments().len() <= 4);
    }
    let all: Vec<&str> = top.files().map(|file| top.path(file)).collect();
    assert_eq!(all, ["a.py", "b.py", "d.py"]);
    assert!(top.defined("two").is_empty() && top.referred("one").is_empty() && top.defined("three").is_empty());
    assert_eq!(paths(&top, &top.defined("four19")), ["b.py", "d.py"]);
    assert!(top.defined("four18").is_empty());
    assert_eq!(top.names_from("", 9), ["four19", "one"]);
    assert_eq!(top.postings(Field::Part, "one").len(), 1);
}

#[test]
fn a_word_is_where_it_stands_whatever_lies_below() {
    let texts = [
        "def get_user(): pass\nget_user()\n",
        "user\n",
        "def load(): pass\nget_user()\nuser()\n",
        "x\n",
    ];
    let files: Vec<(String, &str)> = (0..40).map(|at| (format!("f{at:02}.py"), texts[at % 4])).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let whole = view(&files);
    // The same files as ten segments one upon the other.
    let mut layers = View::default();
    for (number, few) in (0u8..).zip(files.chunks(4)) {
        let mut builder = Builder::default();
        let mut changes = Vec::new();
        for (at, (path, text)) in (0u8..).zip(few) {
            let mut id = [number; 20];
            id[0] = at;
            builder.add(BlobKey::new(BlobId(id), path), Traits::default(), &facts(text), None);
            changes.push(((*path).to_owned(), Some(u32::from(at))));
        }
        layers = layers.with(Arc::new(in_memory(builder).unwrap()), &changes);
    }
    for (field, word) in [
        (Field::Part, "user"),
        (Field::Part, "get"),
        (Field::Whole, "get_user"),
        (Field::Defined, "load"),
    ] {
        let mut model = BTreeMap::new();
        for (at, (_, text)) in (0..).zip(&files) {
            for term in facts(text)
                .terms
                .iter()
                .filter(|term| term.field == field && &*term.text == word)
            {
                model.insert((FileId(at), term.unit), term.count);
            }
        }
        let model: Vec<Posting> = model
            .into_iter()
            .map(|((file, unit), count)| Posting { file, unit, count })
            .collect();
        assert!(!model.is_empty());
        assert_eq!(whole.postings(field, word), model, "{word}");
        assert_eq!(layers.postings(field, word), model, "{word}");
    }
    assert_eq!(whole.defined("get_user"), layers.defined("get_user"));
    assert_eq!(whole.spread(Field::Part, "user"), 30);
}

#[test]
fn a_literal_names_the_files_that_may_hold_it() {
    let files = [
        ("a.py", "raise ValueError('the user has no name yet')\n"),
        ("b.py", "raise ValueError('the user has a name')\n"),
        ("c.py", "get_user_name()\n"),
        ("d.py", "getUserNames()\n"),
    ];
    let view = view(&files);
    #[track_caller]
    fn check(view: &View, files: &[(&str, &str)], literal: &str, expected: &[&str]) {
        let found = view.literal(literal);
        let found: Vec<&str> = found.files.iter().map(|file| view.path(*file)).collect();
        assert_eq!(found, expected, "{literal}");
        for (path, text) in files {
            assert!(
                !text.contains(literal) || found.contains(path),
                "{literal} is in {path}"
            );
        }
    }
    check(&view, &files, "user has no name", &["a.py"]);
    check(&view, &files, "the user has", &["a.py", "b.py", "c.py", "d.py"]);
    check(&view, &files, "user_name", &["c.py"]);
    check(&view, &files, "UserName", &["d.py"]);
    check(&view, &files, "et_user_na", &["c.py"]);
    check(&view, &files, "ValueError('the", &["a.py", "b.py"]);
    check(&view, &files, "nowhere", &[]);
    check(&view, &files, "('", &["a.py", "b.py", "c.py", "d.py"]);
    assert!(view.literal("('").is_all && !view.literal("nowhere").is_all);
}
