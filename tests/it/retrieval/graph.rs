//! Who uses what, from outside: small repositories in several languages are committed, indexed and
//! asked, and each answer is compared whole: every use, with how sure it is and by which rule.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use forgehand::git::Git;
use forgehand::retrieval::graph::{Certainty, Edges, Graph, Impact, SymbolId};
use forgehand::retrieval::index::{Bounds, Index, Limits, Reader};
use tokio_util::sync::CancellationToken;

/// The graph of a repository with these files, committed and indexed.
fn graph(files: &[(&str, &str)]) -> Graph {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    for (path, text) in files {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&work).env("GIT_CONFIG_GLOBAL", "/dev/null").args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
        ]);
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    run(&["init", "-q"]);
    run(&["add", "-A"]);
    run(&["commit", "-q", "-m", "all"]);
    let commit = run(&["rev-parse", "HEAD"]).parse().unwrap();
    let index = Index::open(&folder.path().join("index"), Limits::default(), Reader::default()).unwrap();
    let bounds = Bounds {
        cancel: &CancellationToken::new(),
        until: Instant::now() + Duration::from_secs(60),
        progress: &|_| {},
    };
    let view = index
        .update(&Git::find().unwrap(), &work.join(".git"), &commit, &bounds)
        .unwrap();
    Graph::of(view)
}

#[track_caller]
fn one(graph: &Graph, name: &str) -> SymbolId {
    let found = graph.symbols(name, 10).symbols;
    assert_eq!(found.len(), 1, "{name}: {:?}", names(graph, &found));
    found[0]
}

fn names(graph: &Graph, ids: &[SymbolId]) -> Vec<String> {
    let name = |id: &SymbolId| format!("{}:{}", graph.view().path(id.file), graph.full_name(*id));
    ids.iter().map(name).collect()
}

fn lines(graph: &Graph, edges: &Edges) -> Vec<String> {
    let line = |edge: &forgehand::retrieval::graph::Edge| {
        let from = edge.from.map_or("-".to_owned(), |from| graph.full_name(from));
        let path = graph.view().path(edge.file);
        let sure = match edge.certainty {
            Certainty::Possible => format!("possible among {}", edge.among),
            sure => sure.name().to_owned(),
        };
        format!("{path}:{} {from} {sure}, {}", edge.line, edge.why.name())
    };
    edges.edges.iter().map(line).collect()
}

#[track_caller]
fn check_callers(graph: &Graph, name: &str, expected: &[&str]) {
    let edges = graph.callers(one(graph, name), 50);
    assert_eq!(lines(graph, &edges), expected, "{name}");
}

#[track_caller]
fn check_callees(graph: &Graph, name: &str, expected: &[&str]) {
    let edges = graph.callees(one(graph, name), 50);
    let called =
        |edge: &forgehand::retrieval::graph::Edge| format!("{} {}", graph.full_name(edge.to), edge.certainty.name());
    let called: Vec<String> = edges.edges.iter().map(called).collect();
    assert_eq!(called, expected, "{name}");
}

fn reached(graph: &Graph, impact: &Impact) -> Vec<String> {
    let line = |reached: &forgehand::retrieval::graph::Reached| {
        let name = reached.symbol.map_or("-".to_owned(), |id| graph.full_name(id));
        let test = if reached.is_test { " test" } else { "" };
        format!("{} {}:{name}{test}", reached.distance, graph.view().path(reached.file))
    };
    impact.reached.iter().map(line).collect()
}

const RUST: &[(&str, &str)] = &[
    (
        "words/src/lib.rs",
        "pub mod count;\npub mod shout;\n\npub use count::total as sum;\n",
    ),
    (
        "words/src/count.rs",
        "pub struct Counter { seen: usize }\n\nimpl Counter {\n    pub fn new() -> Self {\n        Self { seen: 0 }\n    }\n\
         \x20   pub fn add(&mut self, word: &str) {\n        self.bump();\n        drop(clean(word));\n    }\n\
         \x20   fn bump(&mut self) {\n        self.seen += 1;\n    }\n}\n\n\
         fn clean(word: &str) -> String {\n    word.trim().to_owned()\n}\n\n\
         pub fn total(words: &[&str]) -> usize {\n    let mut counter = Counter::new();\n    for word in words {\n\
         \x20       counter.add(word);\n    }\n    counter.seen\n}\n\n\
         #[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn words_are_counted() {\n        assert_eq!(total(&[\"a\"]), 1);\n    }\n}\n",
    ),
    (
        "words/src/shout.rs",
        "use crate::count;\n\nfn clean(word: &str) -> String {\n    word.to_uppercase()\n}\n\n\
         pub fn shout(words: &[&str]) -> usize {\n    let loud = clean(words[0]);\n    count::total(&[&loud])\n}\n",
    ),
    (
        "app/src/main.rs",
        "use words::sum;\n\nfn main() {\n    println!(\"{}\", sum(&[\"a\"]));\n}\n",
    ),
];

#[test]
fn rust_functions_of_one_name_are_told_apart_and_reexports_are_followed() {
    let graph = graph(RUST);
    check_callers(
        &graph,
        "count.rs:clean",
        &["words/src/count.rs:9 Counter.add exact, same scope"],
    );
    check_callers(
        &graph,
        "shout.rs:clean",
        &["words/src/shout.rs:8 shout exact, same scope"],
    );
    check_callers(
        &graph,
        "total",
        &[
            "app/src/main.rs:4 main exact, import",
            "words/src/count.rs:34 words_are_counted exact, same scope",
            "words/src/shout.rs:9 shout exact, import",
        ],
    );
}

#[test]
fn rust_methods_are_found_by_owner_and_by_the_type_of_a_variable() {
    let graph = graph(RUST);
    check_callers(
        &graph,
        "Counter::bump",
        &["words/src/count.rs:8 Counter.add exact, owner"],
    );
    check_callers(
        &graph,
        "Counter.new",
        &["words/src/count.rs:21 total exact, same scope"],
    );
    check_callers(
        &graph,
        "Counter.add",
        &["words/src/count.rs:23 total exact, declared type"],
    );
    check_callees(&graph, "Counter.add", &["Counter.bump exact", "clean exact"]);
}

#[test]
fn impact_goes_over_several_steps_to_tests_and_a_path_is_the_shortest() {
    let graph = graph(RUST);
    let impact = graph.impact(one(&graph, "Counter.bump"), 4, 50);
    assert_eq!(
        reached(&graph, &impact),
        [
            "1 words/src/count.rs:Counter.add",
            "2 words/src/count.rs:total",
            "3 app/src/main.rs:main",
            "3 words/src/count.rs:words_are_counted test",
            "3 words/src/shout.rs:shout",
        ]
    );
    let tests = graph.tests(one(&graph, "Counter.bump"), 50);
    assert_eq!(reached(&graph, &tests), ["3 words/src/count.rs:words_are_counted test"]);
    let path = graph.path(one(&graph, "shout"), one(&graph, "Counter.bump")).unwrap();
    let steps: Vec<String> = path.iter().map(|edge| graph.full_name(edge.to)).collect();
    assert_eq!(steps, ["total", "Counter.add", "Counter.bump"]);
    assert_eq!(graph.path(one(&graph, "Counter.bump"), one(&graph, "shout")), None);
}

#[test]
fn near_names_are_offered_when_there_is_none() {
    let graph = graph(RUST);
    assert_eq!(graph.symbols("Countr", 5).near, ["Counter"]);
    assert_eq!(graph.symbols("words_are_count", 5).near, ["words_are_counted"]);
    assert!(graph.symbols("zzz", 5).near.is_empty());
    assert!(graph.symbols("", 5).symbols.is_empty());
}

#[test]
fn python_imports_shadowing_and_methods() {
    let graph = graph(&[
        ("shop/__init__.py", "from .cart import Cart\n"),
        (
            "shop/cart.py",
            "from .money import total as add_up\n\n\nclass Base:\n    def save(self):\n        self.check()\n\n\n\
             class Cart(Base):\n    def check(self):\n        return add_up([])\n\n\
             \x20   def pay(self):\n        self.save()\n",
        ),
        (
            "shop/money.py",
            "def total(items):\n    def inner():\n        return total\n    return inner()\n",
        ),
        (
            "shop/other.py",
            "from .money import total\n\n\ndef run():\n    def total(items):\n        return 0\n    return total([])\n",
        ),
        (
            "tests/test_cart.py",
            "from shop import Cart\n\n\ndef test_pay():\n    cart = Cart()\n    cart.pay()\n\n\n\
             def test_unknown(thing):\n    thing.pay()\n",
        ),
    ]);
    check_callers(
        &graph,
        "money.py:total",
        &[
            "shop/cart.py:11 Cart.check exact, import",
            "shop/money.py:3 total.inner exact, same scope",
        ],
    );
    check_callers(&graph, "other.py:total", &["shop/other.py:7 run exact, same scope"]);
    check_callers(&graph, "Base.save", &["shop/cart.py:14 Cart.pay exact, owner"]);
    check_callers(
        &graph,
        "Cart.pay",
        &[
            "tests/test_cart.py:6 test_pay exact, declared type",
            "tests/test_cart.py:10 test_unknown likely, only one of this name",
        ],
    );
    let tests = graph.tests(one(&graph, "Cart.pay"), 10);
    assert_eq!(
        reached(&graph, &tests),
        [
            "1 tests/test_cart.py:test_pay test",
            "1 tests/test_cart.py:test_unknown test"
        ]
    );
    let found = graph.implementors(one(&graph, "Base"), 10);
    let found: Vec<SymbolId> = found.into_iter().map(|(id, _)| id).collect();
    assert_eq!(names(&graph, &found), ["shop/cart.py:Cart"]);
    assert_eq!(
        names(&graph, &graph.supertypes(one(&graph, "Cart"))),
        ["shop/cart.py:Base"]
    );
}

#[test]
fn python_fields_that_only_methods_set_have_a_type() {
    let graph = graph(&[(
        "shop/run.py",
        "class Writer:\n    def show(self):\n        pass\n\n\nclass Base:\n    def __init__(self):\n        self.out = Writer()\n\n\n\
         class Result(Base):\n    pass\n\n\ndef run() -> Result:\n    return Result()\n\n\n\
         def use():\n    result = run()\n    result.out.show()\n\n\nclass Other:\n    def show(self):\n        pass\n",
    )]);
    check_callers(&graph, "Writer.show", &["shop/run.py:21 use exact, declared type"]);
    check_callers(&graph, "Other.show", &[]);
}

#[test]
fn rust_types_of_one_name_in_two_files_keep_their_methods() {
    let graph = graph(&[
        ("src/lib.rs", "pub mod dice;\npub mod map;\n"),
        (
            "src/dice.rs",
            "pub struct Rand;\n\nimpl Rand {\n    pub fn roll(&self) {\n        self.step();\n    }\n\n    fn step(&self) {}\n}\n",
        ),
        (
            "src/map.rs",
            "mod rand {\n    pub struct Rand;\n\n    impl Rand {\n        pub fn step(&self) {}\n    }\n}\n",
        ),
    ]);
    check_callers(&graph, "dice.rs:step", &["src/dice.rs:5 Rand.roll exact, owner"]);
    check_callers(&graph, "map.rs:step", &[]);
}

#[test]
fn rust_values_are_seen_through_what_wraps_them() {
    let graph = graph(&[(
        "src/lib.rs",
        "use std::sync::Arc;\n\npub struct Lamp;\n\nimpl Lamp {\n    pub fn open() -> Result<Self, ()> {\n        Ok(Self)\n    }\n\n\
         \x20   pub fn glow(&self) {}\n}\n\npub struct Fire;\n\nimpl Fire {\n    pub fn glow(&self) {}\n}\n\n\
         pub fn shared() {\n    let lamp = Arc::new(Lamp);\n    let other = Arc::new(Lamp::open().unwrap());\n    other.glow();\n\
         \x20   let again = other.clone();\n    again.glow();\n    lamp.glow();\n}\n",
    )]);
    check_callers(
        &graph,
        "Lamp.glow",
        &[
            "src/lib.rs:22 shared exact, declared type",
            "src/lib.rs:24 shared exact, declared type",
            "src/lib.rs:25 shared exact, declared type",
        ],
    );
    check_callers(&graph, "Fire.glow", &[]);
}

#[test]
fn functions_of_one_name_in_different_blocks_are_not_called_certain() {
    let graph = graph(&[(
        "src/build.spec.js",
        "describe('a', () => {\n  function build() {}\n  build()\n})\n\ndescribe('b', () => {\n  function build() {}\n})\n",
    )]);
    let first = graph.symbols("build", 10).symbols[0];
    assert_eq!(
        lines(&graph, &graph.callers(first, 10)),
        ["src/build.spec.js:3 - likely, same scope"]
    );
}

#[test]
fn go_packages_are_folders() {
    let graph = graph(&[
        ("go.mod", "module example.org/store\n"),
        (
            "main.go",
            "package main\n\nimport (\n\t\"fmt\"\n\t\"example.org/store/db\"\n)\n\nfunc main() {\n\tfmt.Println(db.Open().Close())\n}\n",
        ),
        (
            "db/open.go",
            "package db\n\ntype Conn struct{}\n\nfunc Open() *Conn {\n\treturn dial()\n}\n\nfunc (c *Conn) Close() error {\n\treturn nil\n}\n",
        ),
        ("db/dial.go", "package db\n\nfunc dial() *Conn {\n\treturn &Conn{}\n}\n"),
        ("fmt/print.go", "package fmt\n\nfunc Println() {}\n"),
        (
            "net/dial.go",
            "package net\n\nfunc dial() {}\n\nfunc Start() {\n\tdial()\n}\n",
        ),
    ]);
    check_callers(&graph, "db/dial.go:dial", &["db/open.go:6 Open exact, same package"]);
    check_callers(&graph, "net/dial.go:dial", &["net/dial.go:6 Start exact, same scope"]);
    check_callers(&graph, "Open", &["main.go:9 main exact, import"]);
    check_callers(&graph, "Conn.Close", &["main.go:9 main exact, declared type"]);
    check_callers(&graph, "Println", &[]);
}

#[test]
fn go_types_implement_an_interface_by_their_methods() {
    let graph = graph(&[
        (
            "mill/grinder.go",
            "package mill\n\ntype Stopper interface {\n\tStop()\n}\n\ntype Grinder interface {\n\tStopper\n\tGrind(grain string) (int, error)\n}\n",
        ),
        (
            "mill/stone.go",
            "package mill\n\ntype Stone struct{}\n\nfunc (s *Stone) Grind(grain string) (int, error) {\n\treturn 0, nil\n}\n\nfunc (s *Stone) Stop() {}\n",
        ),
        (
            "mill/others.go",
            "package mill\n\ntype Wide struct {\n\tStone\n}\n\ntype Half struct{}\n\nfunc (h Half) Grind(grain string) (int, error) {\n\treturn 1, nil\n}\n\n\
             type Odd struct{}\n\nfunc (o Odd) Grind(grain string) string {\n\treturn grain\n}\n\nfunc (o Odd) Stop() {}\n",
        ),
    ]);
    let implementors = |name: &str| {
        let found = graph.implementors(one(&graph, name), 10);
        let found: Vec<SymbolId> = found.into_iter().map(|(id, _)| id).collect();
        names(&graph, &found)
    };
    assert_eq!(
        implementors("Grinder"),
        ["mill/others.go:Wide", "mill/stone.go:Stone"],
        "Half does not stop, Odd returns something else"
    );
    assert_eq!(
        implementors("Stopper"),
        [
            "mill/grinder.go:Grinder",
            "mill/others.go:Wide",
            "mill/others.go:Odd",
            "mill/stone.go:Stone"
        ]
    );
}

#[test]
fn what_was_not_looked_at_is_counted() {
    let users: Vec<(String, String)> = (0..300)
        .map(|number| {
            let path = format!("shop/user{number:03}.py");
            (
                path,
                "from .money import total\n\n\ndef run():\n    return total([])\n".to_owned(),
            )
        })
        .collect();
    let mut files: Vec<(&str, &str)> = users.iter().map(|(path, text)| (&**path, &**text)).collect();
    files.push(("shop/money.py", "def total(items):\n    return 0\n"));
    files.push(("elsewhere/sum.py", "from shop.money import total\n\ntotal([])\n"));
    let graph = graph(&files);
    let edges = graph.callers(one(&graph, "total"), 20);
    assert_eq!(edges.edges.len() + edges.cut, 20);
    assert!(edges.edges.iter().all(|edge| edge.certainty == Certainty::Exact));
    let near = |edge: &forgehand::retrieval::graph::Edge| graph.view().path(edge.file).starts_with("shop/");
    assert!(edges.edges.iter().all(near), "the nearest files come first");
    assert_eq!(edges.edges.len() + edges.cut + edges.unexamined, 301);
    let all = graph.callers(one(&graph, "total"), 1000);
    assert_eq!((all.edges.len(), all.cut, all.unexamined), (301, 0, 0));
}

#[test]
fn rust_traits_are_implemented_in_other_files_too() {
    let graph = graph(&[
        ("src/lib.rs", "pub mod shape;\npub mod draw;\npub mod other;\n"),
        (
            "src/shape.rs",
            "pub struct Circle;\n\npub trait Named {\n    fn name(&self) -> String;\n}\n",
        ),
        (
            "src/draw.rs",
            "use crate::shape::{Circle, Named};\n\nimpl Named for Circle {\n    fn name(&self) -> String {\n        String::new()\n    }\n}\n\n\
             pub fn show(circle: &Circle) {\n    circle.name();\n}\n",
        ),
        (
            "src/other.rs",
            "pub struct Circle;\n\npub trait Loud {}\n\nimpl Loud for Circle {}\n",
        ),
    ]);
    assert_eq!(
        names(&graph, &graph.supertypes(one(&graph, "shape.rs:Circle"))),
        ["src/shape.rs:Named"],
        "the circle of another module is another one"
    );
    assert_eq!(
        names(&graph, &graph.supertypes(one(&graph, "other.rs:Circle"))),
        ["src/other.rs:Loud"]
    );
    let found = graph.implementors(one(&graph, "Named"), 10);
    assert_eq!(names(&graph, &[found[0].0]), ["src/shape.rs:Circle"]);
    assert_eq!(found[0].1, 3, "the line that says so");
}

#[test]
fn typescript_modules_reexports_and_cycles() {
    let graph = graph(&[
        (
            "src/index.ts",
            "export * from './ping'\nexport { pong as answer } from './pong'\n",
        ),
        (
            "src/ping.ts",
            "import { pong } from './pong'\n\nexport function ping(n: number): number {\n  return n > 0 ? pong(n - 1) : 0\n}\n",
        ),
        (
            "src/pong.ts",
            "import { ping } from './ping.js'\n\nexport const pong = (n: number) => {\n  return ping(n)\n}\n",
        ),
        (
            "app/main.ts",
            "import * as game from '../src'\nimport { answer } from '../src/index'\nimport { pong } from 'elsewhere'\n\nfunction start() {\n  game.ping(1)\n  answer(2)\n  pong(3)\n}\n",
        ),
    ]);
    check_callers(
        &graph,
        "pong",
        &["app/main.ts:7 start exact, import", "src/ping.ts:4 ping exact, import"],
    );
    check_callers(
        &graph,
        "ping",
        &["app/main.ts:6 start exact, import", "src/pong.ts:4 pong exact, import"],
    );
    let impact = graph.impact(one(&graph, "ping"), 5, 50);
    assert_eq!(reached(&graph, &impact), ["1 app/main.ts:start", "1 src/pong.ts:pong"]);
    let file = |path: &str| graph.view().file(path).unwrap();
    let paths = |files: Vec<forgehand::retrieval::view::FileId>| -> Vec<String> {
        files
            .into_iter()
            .map(|file| graph.view().path(file).to_owned())
            .collect()
    };
    assert_eq!(
        paths(graph.used_by(file("src/pong.ts"), 9)),
        ["app/main.ts", "src/index.ts", "src/ping.ts"]
    );
    assert_eq!(paths(graph.uses(file("src/ping.ts"), 9)), ["src/pong.ts"]);
}

#[test]
fn script_classes_inherit() {
    let base = "export class Base {\n  open() {}\n}\n";
    for end in ["ts", "js"] {
        let door = format!(
            "import {{ Base }} from './base.{end}'\n\nexport class Door extends Base {{\n  enter() {{\n    this.open()\n  }}\n}}\n"
        );
        let (base_path, door_path) = (format!("src/base.{end}"), format!("src/door.{end}"));
        let graph = graph(&[(&base_path, base), (&door_path, &door)]);
        check_callers(
            &graph,
            "Base.open",
            &[&format!("{door_path}:5 Door.enter exact, owner")],
        );
        let found = graph.implementors(one(&graph, "Base"), 10);
        assert_eq!(found.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [3], "{end}");
    }
}

#[test]
fn java_interfaces_fields_and_overrides() {
    let base = "src/main/java/org/example";
    let path = |name: &str| format!("{base}/{name}.java");
    let (store, memory, disk, user) = (
        path("io/Store"),
        path("io/MemoryStore"),
        path("io/DiskStore"),
        path("app/User"),
    );
    let graph = graph(&[
        (
            &store,
            "package org.example.io;\n\npublic interface Store {\n    void put(String key);\n}\n",
        ),
        (
            &memory,
            "package org.example.io;\n\npublic class MemoryStore implements Store {\n    public void put(String key) {\n    }\n}\n",
        ),
        (
            &disk,
            "package org.example.io;\n\npublic class DiskStore implements Store {\n    public void put(String key) {\n        flush();\n    }\n\n    private void flush() {\n    }\n}\n",
        ),
        (
            &user,
            "package org.example.app;\n\nimport org.example.io.Store;\nimport org.example.io.DiskStore;\n\nclass User {\n    private final Store store;\n\n    void run(DiskStore disk) {\n        this.store.put(\"a\");\n        disk.put(\"b\");\n    }\n}\n",
        ),
    ]);
    check_callers(
        &graph,
        "Store.put",
        &[&format!("{user}:10 User.run exact, declared type")],
    );
    check_callers(
        &graph,
        "DiskStore.put",
        &[
            &format!("{user}:11 User.run exact, declared type"),
            &format!("{user}:10 User.run possible among 2, through what it implements"),
        ],
    );
    check_callers(&graph, "flush", &[&format!("{disk}:5 DiskStore.put exact, same scope")]);
    let found = graph.implementors(one(&graph, "Store"), 10);
    let found: Vec<SymbolId> = found.into_iter().map(|(id, _)| id).collect();
    assert_eq!(
        names(&graph, &found),
        [format!("{disk}:DiskStore"), format!("{memory}:MemoryStore")]
    );
}

#[test]
fn the_map_shows_what_is_used_most_within_its_budget() {
    let graph = graph(RUST);
    let words = |text: &str| text.split_whitespace().count();
    let whole = forgehand::retrieval::map::map(&graph, &[], 1000, &words);
    assert_eq!(
        whole,
        "words/src/\n  count.rs: total, clean, Counter\n  lib.rs\n  shout.rs: clean, shout\n"
    );
    let short = forgehand::retrieval::map::map(&graph, &[], 5, &words);
    assert_eq!(short, "words/src/\n  count.rs: total, clean, Counter\n");
    let main = graph.view().file("app/src/main.rs").unwrap();
    let asked = forgehand::retrieval::map::map(&graph, &[main], 3, &words);
    assert_eq!(asked, "app/src/\n  main.rs: main\n");
    assert_eq!(forgehand::retrieval::map::map(&graph, &[], 0, &words), "");
}
