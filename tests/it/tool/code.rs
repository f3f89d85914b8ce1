//! What a model asks of symbols, on a checkout with an index that a process of its own makes.

use serde_json::json;

use super::*;

const SHOP: &str = "mkdir src tests
cat > src/price.py <<'EOF'
from src.tax import rate

def price(net):
    return net * (1 + rate())
EOF
cat > src/tax.py <<'EOF'
def rate():
    return 0.2
EOF
cat > src/bill.py <<'EOF'
from src.price import price

class Bill:
    def total(self, items):
        return sum(price(item) for item in items)
EOF
cat > tests/test_bill.py <<'EOF'
from src.bill import Bill

def test_total():
    assert Bill().total([1]) == 1.2
EOF";

#[tokio::test]
async fn symbols_are_asked_about_and_edits_count_at_once() {
    let desk = Desk::checkout(SHOP).await.indexed();
    assert_eq!(
        desk.call("search_code", json!({"find": "callers", "query": "rate"}))
            .await,
        "Uses of `rate` (src/tax.py:1):\nsrc/price.py:4 in `price` (exact: import)  return net * (1 + rate())"
    );
    assert_eq!(
        desk.call("search_code", json!({"find": "impact", "query": "rate"}))
            .await,
        "What a change of `rate` (src/tax.py:1) can reach:\n\
         src/price.py:4 `price`, 1 step away (exact)  return net * (1 + rate())\n\
         src/bill.py:5 `Bill.total`, 2 steps away (exact)  return sum(price(item) for item in items)\n\
         tests/test_bill.py:4 `test_total`, 3 steps away (exact), a test  assert Bill().total([1]) == 1.2"
    );
    let path = json!({"find": "path", "query": "test_total", "to": "rate"});
    assert_eq!(
        desk.call("search_code", path).await,
        "From `test_total` to `rate` in 3 calls:\n\
         tests/test_bill.py:4 → `Bill` (src/bill.py:3) (exact: import)  assert Bill().total([1]) == 1.2\n\
         src/bill.py:5 → `price` (src/price.py:3) (exact: import)  return sum(price(item) for item in items)\n\
         src/price.py:4 → `rate` (src/tax.py:1) (exact: import)  return net * (1 + rate())"
    );
    // A new caller, written by a command, and a file that goes.
    desk.sh("printf 'from src.tax import rate\\n\\ndef show():\\n    print(rate())\\n' > src/show.py; rm -r tests")
        .await;
    assert_eq!(
        desk.call("search_code", json!({"find": "callers", "query": "src/tax.py:rate"}))
            .await,
        "Uses of `rate` (src/tax.py:1):\n\
         src/price.py:4 in `price` (exact: import)  return net * (1 + rate())\n\
         src/show.py:4 in `show` (exact: import)  print(rate())"
    );
    let tests = desk
        .call("search_code", json!({"find": "tests", "query": "Bill.total"}))
        .await;
    assert!(tests.ends_with("[1 more stood in files that are gone]"), "{tests}");
    let near = desk
        .call("search_code", json!({"find": "symbol", "query": "prices"}))
        .await;
    assert!(near.contains("names like it: price"), "{near}");
    let refused = desk
        .refused("search_code", json!({"find": "path", "query": "rate"}))
        .await;
    assert_eq!(refused, "a path needs `to`, the symbol at its end");
}

#[tokio::test]
async fn without_an_index_it_says_why_and_what_to_do() {
    let desk = Desk::checkout(SHOP).await;
    let refused = desk
        .refused("search_code", json!({"find": "callers", "query": "rate"}))
        .await;
    assert_eq!(
        refused,
        "the index of the code is unavailable: this run has none; use grep or ast_grep instead"
    );
}
