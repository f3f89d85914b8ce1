//! A pattern as a syntax tree of one language, and where it occurs in a text. Called by `syntax`.
//! Never matches by text: white space and comments do not matter.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

use ast_grep_core::matcher::PatternBuilder;
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc, TSLanguage};
use ast_grep_core::{AstGrep, Language as _, Node, Pattern, PatternError};

use super::Refusal;
use crate::language::Language;

/// A language as the matcher knows it.
#[derive(Clone, Copy)]
struct Grammar(&'static Language);

impl ast_grep_core::Language for Grammar {
    fn pre_process_pattern<'q>(&self, pattern: &'q str) -> Cow<'q, str> {
        Cow::Owned(with_placeholders(pattern, self.0.placeholder))
    }

    fn expando_char(&self) -> char {
        self.0.placeholder
    }

    fn kind_to_id(&self, kind: &str) -> u16 {
        self.0.grammar().id_for_node_kind(kind, true)
    }

    fn field_to_id(&self, field: &str) -> Option<u16> {
        self.0.grammar().field_id_for_name(field).map(std::num::NonZero::get)
    }

    fn build_pattern(&self, builder: &PatternBuilder<'_>) -> Result<Pattern, PatternError> {
        builder.build(|text| StrDoc::try_new(text, *self))
    }
}

impl LanguageExt for Grammar {
    fn get_ts_language(&self) -> TSLanguage {
        self.0.grammar()
    }
}

/// A pattern in one language.
pub(super) struct Shape {
    language: Grammar,
    pattern: Pattern,
    /// A word without which no text has the shape.
    word: Option<String>,
}

impl Shape {
    /// Reads a pattern, or says why it is none in this language.
    pub(super) fn of(language: &'static Language, pattern: &str, until: Instant) -> Result<Self, Refusal> {
        let grammar = Grammar(language);
        let pattern = pattern.trim();
        let code = grammar.pre_process_pattern(pattern);
        if grammar.extract_meta_var(&code).is_some() {
            return Err(format!(
                "the pattern {pattern} alone matches everything; write the code around it"
            ));
        }
        let bare: &[(&str, &str)] = if language.contexts.contains(&("", "")) {
            &[]
        } else {
            &[("", "")]
        };
        let built = bare
            .iter()
            .chain(language.contexts)
            .find_map(|(before, after)| in_context(grammar, before, &code, after, until));
        Ok(Self {
            language: grammar,
            pattern: built.ok_or_else(|| {
                format!(
                    "the pattern is no {} code by itself; write one whole expression, statement or definition, with $NAME \
                     for any one piece and $$$ for any number of them",
                    language.name
                )
            })?,
            word: longest_word(pattern),
        })
    }

    pub(super) fn is_in(&self, language: &Language) -> bool {
        std::ptr::eq(self.language.0, language)
    }

    pub(super) fn may_be_in(&self, text: &str) -> bool {
        self.word.as_ref().is_none_or(|word| text.contains(word.as_str()))
    }

    /// Calls `found` with the first and last line, from 0, of each match while it says so. `None`:
    /// the text was not parsed in time.
    pub(super) fn find(&self, text: &str, until: Instant, found: &mut dyn FnMut(usize, usize) -> bool) -> Option<()> {
        let root = AstGrep::doc(StrDoc {
            src: text.to_owned(),
            lang: self.language,
            tree: self.language.0.parse(text, until)?,
        });
        let mut last = None;
        for node in root.root().find_all(&self.pattern) {
            let lines = (node.start_pos().line(), node.end_pos().line());
            if last == Some(lines.0) {
                continue;
            }
            last = Some(lines.0);
            if !found(lines.0, lines.1) {
                break;
            }
        }
        Some(())
    }
}

/// The part of a tree that is the pattern's code, if the whole is without errors.
fn in_context(language: Grammar, before: &str, code: &str, after: &str, until: Instant) -> Option<Pattern> {
    let src = format!("{before}{code}{after}");
    let tree = language.0.parse(&src, until)?;
    if tree.root_node().has_error() {
        return None;
    }
    let root = AstGrep::doc(StrDoc {
        src,
        lang: language,
        tree,
    });
    let wanted = before.len()..before.len() + code.len();
    let node = innermost(root.root(), &wanted);
    (node.range() == wanted).then(|| Pattern::from(node))
}

fn innermost<'t>(mut node: Node<'t, StrDoc<Grammar>>, wanted: &Range<usize>) -> Node<'t, StrDoc<Grammar>> {
    loop {
        let covers =
            |child: &Node<'t, StrDoc<Grammar>>| child.range().start <= wanted.start && child.range().end >= wanted.end;
        let inner = node.children().find(covers);
        match inner {
            Some(inner) => node = inner,
            None => return node,
        }
    }
}

/// `$A`, `$_` and `$$$` with a character that the grammar takes in names.
fn with_placeholders(pattern: &str, placeholder: char) -> String {
    let mut code = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('$') {
        code.push_str(&rest[..at]);
        let run = rest[at..].len() - rest[at..].trim_start_matches('$').len();
        let after = &rest[at + run..];
        let is_name = after.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
        let mark = if is_name && run <= 3 || run == 3 {
            placeholder
        } else {
            '$'
        };
        code.extend(std::iter::repeat_n(mark, run));
        rest = after;
    }
    code.push_str(rest);
    code
}

/// The longest word of a pattern that is no `$NAME`.
fn longest_word(pattern: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    pattern
        .split(|c| !is_word(c))
        .filter(|word| word.len() > 1 && !word.contains('$'))
        .max_by_key(|word| word.len())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::language::by_name;

    #[track_caller]
    fn check(language: &str, pattern: &str, text: &str, lines: &[usize]) {
        let until = Instant::now() + Duration::from_secs(20);
        let shape =
            Shape::of(by_name(language).unwrap(), pattern, until).unwrap_or_else(|why| panic!("{language}: {why}"));
        let mut found = Vec::new();
        let done = shape.find(text, until, &mut |first, _| {
            found.push(first + 1);
            true
        });
        assert_eq!((done, found.as_slice()), (Some(()), lines), "{language}: {pattern}");
        assert!(lines.is_empty() || shape.may_be_in(text), "{language}: {pattern}");
    }

    #[test]
    fn every_language_is_searched_by_shape() {
        check("bash", "rm -rf $A", "echo x\nrm -rf \"$dir\"\n", &[2]);
        check("c", "free($P)", "void f() {\n  free(a);\n  free (b->c);\n}\n", &[2, 3]);
        check(
            "c-sharp",
            "Console.WriteLine($A)",
            "class A {\n void F() { Console.WriteLine( x ); }\n}\n",
            &[2],
        );
        check("cpp", "delete $P", "void f() {\n  delete a;\n}\n", &[2]);
        check("css", "color: $C", "a {\n  color: red;\n}\n", &[2]);
        check(
            "go",
            "fmt.Println($$$A)",
            "package p\nfunc f() {\n\tfmt.Println(a, b)\n}\n",
            &[3],
        );
        check(
            "go",
            "if err != nil { return err }",
            "package p\nfunc f() error {\n\tif err != nil {\n\t\treturn err\n\t}\n}\n",
            &[3],
        );
        check(
            "java",
            "foo.bar($A)",
            "class A {\n void f() {\n  foo.bar(1);\n }\n}\n",
            &[3],
        );
        check(
            "javascript",
            "console.log($$$A)",
            "function f() {\n  console.log('a',\n b);\n}\n",
            &[2],
        );
        check("kotlin", "println($A)", "fun f() {\n  println(x)\n}\n", &[2]);
        check("php", "foo($A)", "<?php\nfunction f() {\n  foo($x);\n}\n", &[3]);
        check(
            "python",
            "print($A)",
            "def f():\n    print( x )\n    print(1, 2)\n",
            &[2],
        );
        check(
            "python",
            "def $F($$$A): $$$B",
            "class A:\n    def f(self):\n        pass\n",
            &[2],
        );
        check("ruby", "puts $A", "def f\n  puts x\nend\n", &[2]);
        check(
            "rust",
            "$A.unwrap()",
            "fn f() {\n    a.b().unwrap();\n    // c.unwrap()\n}\n",
            &[2],
        );
        check(
            "rust",
            "println!($$$A)",
            "fn f() {\n    println!(\"{}\", a);\n}\n",
            &[2],
        );
        check("rust", "let $A = $B;", "fn f() {\n    let x = 1;\n}\n", &[2]);
        check("scala", "println($A)", "object O {\n  println(x)\n}\n", &[2]);
        check("swift", "print($A)", "func f() {\n  print(x)\n}\n", &[2]);
        check(
            "tsx",
            "useState($A)",
            "const f = () => {\n  const [a, b] = useState(0);\n  return <p/>;\n};\n",
            &[2],
        );
        check("typescript", "foo<$T>($A)", "foo<string>(x);\n", &[1]);
        check("html", "<br>", "<p>\n<br>\n</p>\n", &[2]);
        check("json", "\"version\"", "{\n \"version\": 1\n}\n", &[2]);
        check("toml", "version = \"1\"", "[a]\nversion = \"1\"\n", &[2]);
        check("yaml", "name: x", "a: 1\nname: x\n", &[2]);
    }

    #[test]
    fn what_is_no_code_is_refused_with_a_reason() {
        let until = Instant::now() + Duration::from_secs(20);
        let refused = |pattern| Shape::of(by_name("rust").unwrap(), pattern, until).err().unwrap();
        assert!(refused("$A").contains("everything"));
        assert!(refused("fn fn fn ((").contains("no rust code"));
        assert_eq!(with_placeholders("$A.b($$$C, $1, $$$)", 'µ'), "µA.b(µµµC, $1, µµµ)");
        assert_eq!(longest_word("$FOO.unwrap_or(x)").as_deref(), Some("unwrap_or"));
    }
}
