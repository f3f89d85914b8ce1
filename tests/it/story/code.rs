//! What an agent is shown of the code before it looks itself, and what it is told of symbols: from the
//! index that the run makes of the commit it starts from.

use forgehand::demo::double::RepositorySeed;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{Service, usual};

fn shop(seed: RepositorySeed) -> RepositorySeed {
    seed.file("shop/tax.py", "def rate(country):\n    return 0.2\n")
        .file(
            "shop/price.py",
            "from shop.tax import rate\n\n\ndef gross(net, country):\n    return net * (1 + rate(country))\n",
        )
        .file("shop/mail.py", "def send(address, text):\n    print(address, text)\n")
        .file("README.md", "# A shop\n")
        .commit("A shop")
}

#[tokio::test]
async fn the_first_prompt_names_where_it_belongs_and_search_code_who_uses_it() {
    usual()
        .repository(shop)
        .tell(async |service: &mut Service| {
            service.model.play([
                Reply::call("search_code", json!({"find": "callers", "query": "rate"})),
                Reply::call("search_code", json!({"query": "gross price of a country"})),
                Reply::call("finish", json!({"answer": "`gross` in shop/price.py uses it."})),
            ]);
            let issue = service.issue();
            service.comment(
                issue,
                "/agent ask The tax rate of a country is always the same. Who uses rate?",
            );
            service.done().await;
            let requests = service.model.requests();
            let brief = requests[0].last();
            let at = brief.find("## Where this may belong").expect(brief);
            let places = &brief[at..];
            let first = places.find("shop/tax.py:1-2 rate").expect(brief);
            assert!(
                places.find("shop/mail.py").is_none_or(|other| first < other),
                "{places}"
            );
            assert!(brief.contains("## The repository in outline"), "{brief}");
            assert_eq!(
                requests[1].last(),
                "Uses of `rate` (shop/tax.py:1):\n\
                 shop/price.py:5 in `gross` (exact: import)  return net * (1 + rate(country))"
            );
            let ranked = requests[2].last();
            assert!(ranked.starts_with("shop/price.py:4-5 gross ("), "{ranked}");
        })
        .await;
}

#[tokio::test]
async fn a_run_without_an_index_says_so_and_searches_by_letters() {
    usual()
        .repository(shop)
        .configuration(|config| config.retrieval.enabled = false)
        .tell(async |service: &mut Service| {
            service.model.play([
                Reply::call("search_code", json!({"find": "callers", "query": "rate"})),
                Reply::call("search_code", json!({"query": "rate country"})),
                Reply::call("finish", json!({"answer": "`gross` in shop/price.py uses it."})),
            ]);
            let issue = service.issue();
            service.comment(issue, "/agent ask Who uses rate?");
            service.done().await;
            let requests = service.model.requests();
            assert!(!requests[0].last().contains("## Where this may belong"));
            assert!(
                requests[1]
                    .last()
                    .contains("the index of the code is unavailable: this run has none")
            );
            assert!(requests[2].last().contains("shop/tax.py"), "{}", requests[2].last());
        })
        .await;
}
