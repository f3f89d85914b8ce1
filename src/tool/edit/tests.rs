//! Edits by the rows of the failure catalogue, and what no edit may do.

use super::*;

fn edit(content: &[u8], old: &str, new: &str) -> Result<Edited, EditProblem> {
    apply_edit(content, old, new, EditMode::Unique)
}

#[track_caller]
fn check(content: &[u8], old: &str, new: &str, expected: &[u8]) {
    match edit(content, old, new) {
        Ok(edited) => assert_eq!(
            String::from_utf8_lossy(&edited.content),
            String::from_utf8_lossy(expected)
        ),
        Err(problem) => panic!("{problem}"),
    }
}

#[track_caller]
fn check_problem(content: &str, old: &str, new: &str, words: &[&str]) {
    let problem = edit(content.as_bytes(), old, new).expect_err("a problem").to_string();
    for word in words {
        assert!(problem.contains(word), "{word:?} is not in: {problem}");
    }
}

#[test]
fn e1_surrounding_space_is_passed_over_and_the_new_text_kept_verbatim() {
    check(
        b"a\nhello world\nb\n",
        " hello world",
        "HELLO WORLD  ",
        b"a\nHELLO WORLD  \nb\n",
    );
    let loose = edit(b"a\nhello world\nb\n", " hello world", "HELLO").unwrap();
    assert!(loose.doubt.is_some_and(|doubt| doubt.contains("white space")));
    // an indentation that the new text would change is somebody's mistake
    check_problem("\tf()\n", "    f()", "    g()", &["line 1", "white space", "\tf()"]);
    check(
        b"a\nhello world\nb\n",
        "hello world",
        "HELLO WORLD  ",
        b"a\nHELLO WORLD  \nb\n",
    );
}

#[test]
fn e2_a_file_in_another_encoding_keeps_its_bytes() {
    let latin1 = b"caf\xe9 = 1\nx = 2\n";
    check(latin1, "x = 2", "x = 3", b"caf\xe9 = 1\nx = 3\n");
    check(latin1, "caf\u{e9} = 1", "caf\u{e9} = 2", b"caf\xe9 = 2\nx = 2\n");
    assert_eq!(edit(latin1, "x = 2", "x → 2"), Err(EditProblem::NotInEncoding('→')));
    assert_eq!(edit(b"\xff\xfea\0b\0", "a", "b"), Err(EditProblem::Binary));
}

#[test]
fn e4_lines_are_inserted_after_the_named_one() {
    for (content, after, expected) in [
        ("1\n2\n3\n", 0, "x\n1\n2\n3\n"),
        ("1\n2\n3\n", 2, "1\n2\nx\n3\n"),
        ("1\n2\n3\n", 3, "1\n2\n3\nx\n"),
        ("1\n2", 2, "1\n2\nx"),
        ("1\r\n2\r\n", 1, "1\r\nx\r\n2\r\n"),
        ("", 0, "x\n"),
    ] {
        for new in ["x", "x\n"] {
            let edited = apply_edit(content.as_bytes(), "", new, EditMode::InsertAfter(after)).unwrap();
            assert_eq!(String::from_utf8(edited.content).unwrap(), expected);
            assert_eq!(edited.first_line, after + 1);
        }
    }
    let beyond = apply_edit(b"1\n", "", "x", EditMode::InsertAfter(2));
    assert_eq!(beyond, Err(EditProblem::NoSuchLine(1)));
}

#[test]
fn e5_indentation_and_blank_lines_of_the_new_text_stay() {
    check(
        b"def f():\n    pass\n",
        "    pass\n",
        "    a()\n\n    b()\n",
        b"def f():\n    a()\n\n    b()\n",
    );
}

#[test]
fn e7_a_part_of_a_line_is_enough_when_it_is_unique() {
    check(
        b"let total = price * count;\n",
        "price * count",
        "price * count + tax",
        b"let total = price * count + tax;\n",
    );
}

#[test]
fn e8_an_edit_made_before_is_recognised() {
    check_problem(
        "let x = new_name();\n",
        "old_name()",
        "new_name()",
        &["already stands at line 1"],
    );
    check_problem(
        "use a;\nuse b;\n",
        "use a;\n",
        "use a;\nuse b;\n",
        &["already stands at line 1"],
    );
    // a first half that also stands elsewhere is still an edit to make
    check(
        b"use a;\nuse c;\n",
        "use a;\n",
        "use a;\nuse b;\n",
        b"use a;\nuse b;\nuse c;\n",
    );
}

#[test]
fn e13_carriage_returns_of_the_model_do_not_get_into_the_file() {
    check(b"a\nb\nc\n", "a\r\nb", "x\r\ny", b"x\ny\nc\n");
}

#[test]
fn e17_a_blank_line_is_not_an_indentation() {
    let file = "\ndef foo():\n    print(\"hello\")\n";
    check_problem(
        file,
        "def  foo():\n    print(\"hello\")",
        "def foo():\n    x()\n    y()",
        &["line 2", "def foo():\n    print(\"hello\")\nRepeat"],
    );
}

#[test]
fn e19_nothing_is_expanded() {
    check(
        b"log(`x`);\n",
        "`x`",
        "`${from}..${to} $1 $& \\1`",
        b"log(`${from}..${to} $1 $& \\1`);\n",
    );
    check(b"a `${from}..${to}` b\n", "`${from}..${to}`", "$&", b"a $& b\n");
}

#[test]
fn e20_text_escaped_once_too_often_is_doubted_aloud() {
    let edited = edit(b"a = 1\n", "a = 1", "a = 1\\nb = 2").unwrap();
    assert_eq!(edited.content, b"a = 1\\nb = 2\n");
    assert!(edited.doubt.is_some_and(|doubt| doubt.contains("backslash")));
    assert_eq!(
        edit(b"p(\"a\\n\")\n", "p(\"a\\n\")", "p(\"b\\n\")").unwrap().doubt,
        None
    );
    check_problem("a\nb\n", "a\\nb", "c", &["escaped once too often"]);
}

#[test]
fn e22_e25_the_file_keeps_its_line_ends() {
    let crlf = b"one\r\ntwo\r\nthree\r\n";
    check(crlf, "one\ntwo", "1\n2\n2b", b"1\r\n2\r\n2b\r\nthree\r\n");
    check(crlf, "one\r\ntwo", "1\r\n2", b"1\r\n2\r\nthree\r\n");
    check(crlf, "two", "2\n2b", b"one\r\n2\r\n2b\r\nthree\r\n");
    check(crlf, "two\n", "", b"one\r\nthree\r\n");
    // mixed: the ends of the replaced lines win, the others stay
    check(b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n");
    check(b"a\nb\nc\r\nd\n", "c\n", "x\n", b"a\nb\nx\r\nd\n");
    check("\u{feff}a\r\nb".as_bytes(), "b", "c", "\u{feff}a\r\nc".as_bytes());
}

#[test]
fn e26_several_places_are_named_by_line() {
    let file = "x = 1\ny = 2\nx = 1\n\nx = 1\n";
    check_problem(file, "x = 1", "x = 2", &["3 times", "lines 1, 3, 5", "replace_all"]);
    let edited = apply_edit(file.as_bytes(), "x = 1", "x = 2", EditMode::All).unwrap();
    assert_eq!(edited.content, b"x = 2\ny = 2\nx = 2\n\nx = 2\n");
    assert_eq!((edited.places, edited.first_line), (3, 1));
    assert_eq!(edit(b"aaa", "aa", "b"), Err(EditProblem::Ambiguous(vec![1, 1])));
}

#[test]
fn what_cannot_be_found_is_answered_with_what_is_near() {
    let file = "fn main() {\n    let total = count_words(&text);\n    println!(\"{total}\");\n}\n";
    check_problem(
        file,
        "let total = count_lines(&text);",
        "x",
        &["     2\t    let total = count_words(&text);"],
    );
    check_problem(file, "     1\tfn main() {", "x", &["line numbers"]);
    check_problem(file, "zebra", "x", &["Read the file again"]);
    check_problem(file, "", "x", &["write_file"]);
    check_problem(file, "main", "main", &["the same"]);
}

#[test]
fn characters_shown_as_marks_are_found_again() {
    check(
        "a\u{200b}b ⚠\u{fe0f}\n".as_bytes(),
        "a⟦U+200B⟧b ⚠⟦U+FE0F⟧",
        "c⟦U+FE0F⟧",
        "c\u{fe0f}\n".as_bytes(),
    );
}

proptest::proptest! {
    #[test]
    fn bytes_outside_the_place_never_change(
        before in "[a-c\r\n\u{e9}]{0,30}",
        after in "[a-c\r\n\u{e9}]{0,30}",
        new in "[x-z\n]{0,10}",
    ) {
        let content = format!("{before}NEEDLE{after}");
        let edited = edit(content.as_bytes(), "NEEDLE", &new).unwrap().content;
        proptest::prop_assert!(edited.starts_with(before.as_bytes()));
        proptest::prop_assert!(edited.ends_with(after.as_bytes()));
        let middle = &edited[before.len()..edited.len() - after.len()];
        proptest::prop_assert_eq!(String::from_utf8_lossy(middle).replace("\r\n", "\n"), new);
    }

    #[test]
    fn no_input_makes_it_panic(content: Vec<u8>, old in "\\PC{0,6}|[a\\n\\r ]{0,6}", new in "\\PC{0,6}") {
        let _ = edit(&content, &old, &new);
        let _ = apply_edit(&content, &old, &new, EditMode::All);
        let _ = apply_edit(&content, &old, &new, EditMode::InsertAfter(content.len() / 2));
    }
}
