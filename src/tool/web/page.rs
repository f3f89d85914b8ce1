//! A fetched page as lines of text: HTML rendered with its links as footnotes, everything else as
//! it is. Called by the tools of the web. Never runs scripts, loads images or follows a link.

use std::sync::LazyLock;

use regex::Regex;

use super::ToolError;
use crate::net::Page;
use crate::text;

/// Width of rendered text. Narrower breaks code, wider makes tables unreadable.
const WIDTH: usize = 110;

/// Longest title.
const MAX_TITLE_CHARS: usize = 200;

/// Deepest nesting that is rendered: beyond it, a page is no page.
const MAX_DEPTH: usize = 400;

static TITLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<title[^>]*>(.*?)</title").expect("the pattern is valid"));
static CANONICAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<link\b[^>]*\brel\s*=\s*.?canonical\b[^>]*>").expect("the pattern is valid"));
static HREF: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?is)\bhref\s*=\s*["']?([^"'\s>]+)"#).expect("the pattern is valid"));
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<(/?)([a-zA-Z][a-zA-Z0-9]*)[^>]*?(/?)>").expect("the pattern is valid"));

/// A page, ready to be shown.
pub(super) struct Shown {
    /// Address, status, title.
    pub(super) head: String,
    /// Lines.
    pub(super) text: String,
    /// Whether the page goes on.
    pub(super) is_cut: bool,
}

/// Renders a page on a thread of its own, since large ones take a while.
pub(super) async fn read(page: Page) -> Result<Shown, ToolError> {
    if !(200..300).contains(&page.status) {
        let about = text::cap_chars(&plain(&page).unwrap_or_default(), 300);
        return Err(ToolError::ForModel(format!(
            "{} answered {}{}{}",
            page.url,
            page.status,
            if about.trim().is_empty() { "" } else { ": " },
            about.trim()
        )));
    }
    let shown = tokio::task::spawn_blocking(move || {
        let text = plain(&page)?;
        Ok(Shown {
            head: head(&page),
            text,
            is_cut: page.is_cut,
        })
    });
    match shown.await {
        Ok(shown) => shown,
        Err(_) => Err(ToolError::ForModel("the page cannot be rendered".to_owned())),
    }
}

/// Whether a page is HTML.
pub(super) fn is_html(page: &Page) -> bool {
    let start = page
        .text
        .trim_start()
        .get(..200)
        .unwrap_or(page.text.trim_start())
        .to_lowercase();
    page.media_type.contains("html") || start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The text of a page.
pub(super) fn plain(page: &Page) -> Result<String, ToolError> {
    if !is_html(page) {
        return Ok(page.text.clone());
    }
    if depth(&page.text) > MAX_DEPTH {
        return Err(ToolError::ForModel("the page nests too deep to be rendered".to_owned()));
    }
    let rendered = html2text::config::plain()
        .link_footnotes(true)
        .no_link_wrapping()
        .no_table_borders()
        .allow_width_overflow()
        .string_from_read(page.text.as_bytes(), WIDTH)
        .map_err(|error| ToolError::ForModel(format!("the page cannot be rendered: {error}")))?;
    let lines: Vec<&str> = rendered.lines().map(str::trim_end).collect();
    let mut text = String::with_capacity(rendered.len());
    let mut blank = 0;
    for line in lines {
        blank = if line.is_empty() { blank + 1 } else { 0 };
        if blank < 2 {
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text.trim_matches('\n').to_owned())
}

/// How deep the tags stand in each other; void elements and forgotten ends count too, but a page
/// of real text has a few hundred of them open at most.
fn depth(html: &str) -> usize {
    const VOID: [&str; 9] = ["area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"];
    // Ends that people leave out: the next of its kind ends it.
    const LOOSE: [&str; 8] = ["li", "p", "td", "tr", "th", "dt", "dd", "option"];
    let (mut deepest, mut now) = (0_usize, 0_usize);
    for tag in TAG.captures_iter(html) {
        let name = tag[2].to_ascii_lowercase();
        if VOID.contains(&name.as_str()) || LOOSE.contains(&name.as_str()) || !tag[3].is_empty() {
            continue;
        }
        now = if tag[1].is_empty() {
            now + 1
        } else {
            now.saturating_sub(1)
        };
        deepest = deepest.max(now);
    }
    deepest
}

/// Address, status and title in a line or two.
pub(super) fn head(page: &Page) -> String {
    let mut head = format!("{} · {}", page.url, page.status);
    if is_html(page) {
        if let Some(title) = TITLE.captures(&page.text) {
            let words: Vec<&str> = title[1].split_whitespace().collect();
            head.push_str(" · ");
            head.push_str(&text::cap_chars(&unescaped(&words.join(" ")), MAX_TITLE_CHARS));
        }
        let canonical = CANONICAL.find(&page.text).and_then(|link| HREF.captures(link.as_str()));
        if let Some(canonical) = canonical.and_then(|href| page.url.join(&unescaped(&href[1])).ok())
            && canonical != page.url
        {
            head.push_str(&format!("\ncanonical: {}", text::cap_chars(canonical.as_str(), 300)));
        }
    }
    head
}

/// The escapes that stand in titles and addresses.
pub(super) fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#x27;", "'")
        .replace("&nbsp;", " ")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> Page {
        Page {
            url: "https://docs.rs/a".parse().unwrap(),
            status: 200,
            media_type: "text/html".to_owned(),
            text: text.to_owned(),
            is_cut: false,
        }
    }

    #[test]
    fn a_page_is_its_text_with_links_below() {
        let page = html(
            "<html><head><title>The  API &amp;\nmore</title><link rel=\"canonical\" href=\"/b\"></head><body>\
             <script>alert(1)</script><style>p{}</style><h1>Head</h1><p>Some <a href=\"/x\">link</a> here.</p>\
             <pre>fn main() {\n    body\n}</pre><ul><li>one<li>two</ul></body></html>",
        );
        assert_eq!(
            head(&page),
            "https://docs.rs/a · 200 · The API & more\ncanonical: https://docs.rs/b"
        );
        let text = plain(&page).unwrap();
        for part in ["# Head", "[link][1]", "[1]: /x", "fn main() {\n    body\n}", "* one"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("alert") && !text.contains("p{}"), "{text}");
    }

    #[test]
    fn pages_that_are_made_to_break_a_reader_do_not() {
        let started = std::time::Instant::now();
        for bomb in [
            "<div>".repeat(100_000),
            "<table><tr><td>".repeat(30_000),
            "<b><i>".repeat(50_000),
            "<ul><li>".repeat(50_000),
            "<blockquote>".repeat(50_000),
            "<p>".repeat(200_000),
            "<li>".repeat(200_000),
            "<a href=x>".repeat(50_000),
            "<".repeat(500_000),
            "&".repeat(500_000),
        ] {
            let page = html(&bomb);
            let _ = plain(&page);
            let _ = head(&page);
            assert!(started.elapsed().as_secs() < 60, "{}", &bomb[..20]);
        }
    }
}
