//! `forgehand index` and `forgehand graph` on a checkout: the commit is indexed once, edits that are
//! not committed are seen at once, and what has no answer says what is near.

use serde_json::Value;

use super::checkout::{Checkout, finish};

fn checkout() -> Checkout {
    let checkout = Checkout::new();
    checkout.write("shop/__init__.py", "");
    checkout.write("shop/money.py", "def total(items):\n    return sum(items)\n");
    checkout.write(
        "shop/cart.py",
        "from .money import total\n\n\nclass Cart:\n    def pay(self):\n        return total([1])\n",
    );
    checkout.commit("A shop");
    checkout
}

#[test]
fn words_find_their_place_and_say_what_spoke_for_it() {
    let checkout = checkout();
    let found = checkout.user.run(&["search", ".", "the total of all items is wrong"]);
    found.assert_code(0);
    let first = found.out.lines().next().unwrap_or_default();
    assert!(first.starts_with("shop/money.py:1-2 total ("), "{}", found.out);
    let as_json = json(&checkout.user.run(&["search", ".", "Cart pay", "--json"]).out);
    assert_eq!(as_json["places"][0]["path"], "shop/cart.py");
    assert!(
        as_json["places"][0]["by"].as_array().is_some_and(|by| !by.is_empty()),
        "{as_json}"
    );
    // Nothing has to do with it, and that is said.
    let nothing = checkout.user.run(&["search", ".", "zzyzx"]);
    assert!(nothing.err.contains("no file has the words"), "{}", nothing.err);
    checkout.user.run(&["search", ".", " "]).assert_code(64);
}

#[track_caller]
fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[test]
fn files_are_parsed_once_and_edits_lie_on_top() {
    let checkout = checkout();
    let first = checkout.user.run(&["index", ".", "--json"]);
    first.assert_code(0);
    assert_eq!(json(&first.out)["parsed"], 6);
    let second = json(&checkout.user.run(&["index", ".", "--json"]).out);
    assert_eq!((&second["parsed"], &second["edited"]), (&0.into(), &0.into()));

    let callers = checkout.user.run(&["graph", ".", "callers", "total"]);
    callers.assert_code(0);
    assert_eq!(
        callers.out,
        "shop/money.py:1 total\n  shop/cart.py:6 Cart.pay  exact, import\n"
    );
    checkout.write("shop/late.py", "from shop.money import total\n\nprint(total([]))\n");
    let callers = checkout.user.run(&["graph", "shop", "callers", "total"]);
    assert_eq!(
        callers.out,
        "shop/money.py:1 total\n  shop/cart.py:6 Cart.pay  exact, import\n  shop/late.py:3  exact, import\n"
    );
}

#[test]
fn paths_impact_and_near_names_are_told() {
    let checkout = checkout();
    let path = checkout.user.run(&["graph", ".", "path", "Cart.pay", "total"]);
    path.assert_code(0);
    assert_eq!(
        path.out,
        "shop/cart.py:5 Cart.pay\n  shop/money.py:1 total  called at shop/cart.py:6, exact\n"
    );
    let impact = checkout.user.run(&["graph", ".", "impact", "total", "--json"]);
    assert_eq!(json(&impact.out)[0]["reached"][0]["symbol"], "Cart.pay");

    let near = checkout.user.run(&["graph", ".", "callers", "totl"]);
    near.assert_code(1).assert_err("near it: total");
    let wrong = checkout.user.run(&["graph", ".", "path", "total"]);
    wrong.assert_code(64).assert_err("takes two names");
}

#[test]
fn a_bare_repository_is_read_without_a_checkout() {
    let checkout = checkout();
    let bare = checkout.user.path("bare.git");
    checkout.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let symbols = checkout.user.run(&["graph", bare.to_str().unwrap(), "symbols", "Cart"]);
    symbols.assert_code(0);
    assert_eq!(symbols.out, "shop/cart.py:4 Cart\n");
    let nothing = checkout.user.run(&["index", "/"]);
    nothing.assert_code(64);
}

/// What a run has indexed need not be indexed again at the terminal, and nobody else reads it.
#[test]
fn a_run_and_the_commands_share_one_index() {
    use std::os::unix::fs::PermissionsExt as _;
    let checkout = checkout();
    let turns = serde_json::json!([finish("nothing_to_do", "It is right as it is.")]);
    checkout.task(&turns, &[]).assert_code(0);
    let index = json(&checkout.user.run(&["index", ".", "--json"]).out);
    assert_eq!(index["parsed"], 0, "{index}");
    let folder = index["folder"].as_str().expect("a folder");
    let mode = std::fs::metadata(folder).expect("the folder").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}
