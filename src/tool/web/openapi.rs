//! OpenAPI and Swagger descriptions, in JSON or YAML: found on a page and read into one line for
//! each end point. Called by `reverse_api`. Never resolves references, and of YAML reads only what
//! its indentation shows.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use url::Url;

use super::page::unescaped;
use crate::net::Page;

/// Most end points of one description.
const MAX_ENTRIES: usize = 2_000;

/// Most links of a page that are looked at.
const MAX_LINKS: usize = 20;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

static LINK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)["'=(\s]((?:https?:/)?/?[^"'\s<>()]*(?:openapi|swagger|api-docs)[^"'\s<>()]*\.(?:json|ya?ml)|/[^"'\s<>()]*/api-docs)["'\s>)]"#)
        .expect("the pattern is valid")
});

/// Addresses of descriptions that a page names, resolved against it.
pub(super) fn links(page: &Page) -> Vec<Url> {
    let mut links: Vec<Url> = Vec::new();
    for found in LINK.captures_iter(&page.text).take(MAX_LINKS) {
        if let Ok(url) = page.url.join(&unescaped(&found[1]))
            && !links.contains(&url)
        {
            links.push(url);
        }
    }
    links
}

/// The end points of a description; `None` for text that is none.
pub(super) fn read(text: &str) -> Option<Vec<String>> {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => from_json(&value),
        Err(_) => from_yaml(text),
    }
}

fn from_json(value: &Value) -> Option<Vec<String>> {
    value.get("openapi").or_else(|| value.get("swagger"))?;
    let base = value["basePath"].as_str().unwrap_or_default().trim_end_matches('/');
    let mut entries = Vec::new();
    for (path, item) in value["paths"].as_object()? {
        for method in METHODS {
            let Some(end_point) = item.get(method) else { continue };
            if entries.len() < MAX_ENTRIES {
                entries.push(entry(method, &format!("{base}{path}"), item, end_point));
            }
        }
    }
    Some(entries)
}

fn entry(method: &str, path: &str, item: &Value, end_point: &Value) -> String {
    let lists = [&item["parameters"], &end_point["parameters"]];
    let named = lists.iter().filter_map(|list| list.as_array()).flatten();
    let mut parameters: Vec<String> = named
        .filter_map(|parameter| {
            let name = parameter["name"].as_str()?;
            let optional = if parameter["required"] == true { "" } else { "?" };
            Some(format!("{name}{optional}"))
        })
        .collect();
    if end_point.get("requestBody").is_some() {
        parameters.push("body".to_owned());
    }
    let parameters = match parameters.as_slice() {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    };
    let words = ["summary", "operationId"]
        .iter()
        .find_map(|key| end_point[*key].as_str());
    let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
    let words = match words.join(" ") {
        words if words.is_empty() => words,
        words => format!(" · {words}"),
    };
    format!("{} {path}{parameters}{words}", method.to_uppercase())
}

/// Paths, methods and summaries by their indentation.
fn from_yaml(text: &str) -> Option<Vec<String>> {
    let is_description = text
        .lines()
        .take(200)
        .any(|line| line.starts_with("openapi:") || line.starts_with("swagger:"));
    if !is_description {
        return None;
    }
    let mut entries: Vec<String> = Vec::new();
    let mut path: Option<(usize, String)> = None;
    let mut method: Option<usize> = None;
    let below_paths = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim_end() != "paths:")
        .skip(1)
        .take_while(|(_, line)| line.is_empty() || line.starts_with([' ', '#', '\t']));
    for (at, line) in below_paths {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let Some((key, value)) = trimmed.split_once(':') else {
            continue;
        };
        let key = key.trim_matches(['"', '\'']);
        let outer = path.as_ref().map_or(usize::MAX, |(outer, _)| *outer);
        if key.starts_with('/') && indent <= outer {
            path = Some((indent, key.to_owned()));
            method = None;
        } else if let Some((_, name)) = &path
            && METHODS.contains(&key)
            && indent > outer
            && method.is_none_or(|sibling| indent <= sibling)
            && entries.len() < MAX_ENTRIES
        {
            method = Some(indent);
            entries.push(format!("line {}: {} {name}", at + 1, key.to_uppercase()));
        } else if key == "summary"
            && method.is_some_and(|method| indent > method)
            && let Some(last) = entries.last_mut()
            && !last.contains(" · ")
        {
            last.push_str(&format!(" · {}", value.trim().trim_matches(['"', '\''])));
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_description_becomes_a_line_for_each_end_point() {
        let description = json!({
            "openapi": "3.1.0",
            "paths": {"/users/{id}": {
                "parameters": [{"name": "id", "required": true}],
                "get": {"summary": "One user", "parameters": [{"name": "fields"}]},
                "put": {"operationId": "replaceUser", "requestBody": {}}
            }}
        });
        let expected = [
            "GET /users/{id} (id, fields?) · One user",
            "PUT /users/{id} (id, body) · replaceUser",
        ];
        assert_eq!(read(&description.to_string()).unwrap(), expected);
        let old = json!({"swagger": "2.0", "basePath": "/v1/", "paths": {"/a": {"delete": {}}}});
        assert_eq!(read(&old.to_string()).unwrap(), ["DELETE /v1/a"]);
        for other in [
            json!({"paths": {}}).to_string(),
            "[1]".to_owned(),
            "<html>".to_owned(),
            "openapi".to_owned(),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }

    #[test]
    fn yaml_is_read_by_its_indentation() {
        let text = "openapi: 3.0.0\ninfo:\n  title: x\npaths:\n  /users:\n    get:\n      summary: \"All users\"\n      \
                    parameters:\n        - name: get\n      responses:\n        '200':\n          description: ok\n    post:\n      \
                    description: no summary\n  '/users/{id}':\n    get:\n      operationId: one\ncomponents:\n  x:\n    /no:\n      get:\n";
        let expected = [
            "line 6: GET /users · All users",
            "line 13: POST /users",
            "line 16: GET /users/{id}",
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn links_to_descriptions_are_found_on_a_page() {
        let page = Page {
            url: "https://api.example.com/docs/".parse().unwrap(),
            status: 200,
            media_type: "text/html".to_owned(),
            text: "<a href=\"openapi.json\">x</a><script>ui({url: '/v3/swagger.yaml'})</script>\
                   <link href=https://other.example.com/openapi.yml?x=1&amp;y=2 ><a href=\"openapi.html\">no</a>"
                .to_owned(),
            is_cut: false,
        };
        let found: Vec<String> = links(&page).iter().map(Url::to_string).collect();
        assert_eq!(
            found[..2],
            [
                "https://api.example.com/docs/openapi.json",
                "https://api.example.com/v3/swagger.yaml"
            ]
        );
        assert!(found.len() <= 3, "{found:?}");
    }
}
