//! The HTML of the set-up page: plain, without scripts, everything from outside escaped.
//! Never contains a credential other than the token that opened the page.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem;\
color:#1f2328;background:#fff}pre{background:#f6f8fa;padding:1rem;overflow:auto}\
button,input{font:inherit;padding:.4rem .8rem}.warn{border-left:.3rem solid #9a6700;padding-left:1rem}";

/// The only style that the page's policy allows.
static STYLE_HASH: LazyLock<String> =
    LazyLock::new(|| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes())));

/// What the form is made from.
pub(super) struct Form<'a> {
    pub(super) web_url: &'a str,
    pub(super) org: Option<&'a str>,
    pub(super) state: &'a str,
    pub(super) token: &'a str,
    pub(super) manifest: &'a Value,
    pub(super) has_public_url: bool,
}

/// The page that sends the manifest to GitHub.
pub(super) fn form(form: &Form<'_>) -> Response {
    let web_url = form.web_url.trim_end_matches('/');
    let (action, owner) = match form.org {
        Some(org) => (
            format!("{web_url}/organizations/{org}/settings/apps/new"),
            format!("the organisation <b>{}</b>", escape(org)),
        ),
        None => (format!("{web_url}/settings/apps/new"), "your own account".to_owned()),
    };
    let warning = if form.has_public_url {
        ""
    } else {
        "<p class=\"warn\"><code>server.public_url</code> is not set, so GitHub cannot deliver webhooks here. The App \
         gets a webhook address that does not exist, and the service reads the calls from GitHub's log every few \
         seconds instead. With a public address, set it first and open this page again.</p>"
    };
    let pretty = serde_json::to_string_pretty(form.manifest).unwrap_or_default();
    let body = format!(
        "<h1>Register the GitHub App</h1>
<p>This sends the manifest below to GitHub, which shows it to you once more and creates the App under {owner}. \
GitHub then hands this service the App's private key and webhook secret.</p>
{warning}
<form action=\"{action}?state={state}\" method=\"post\">
<input type=\"hidden\" name=\"manifest\" value=\"{manifest}\">
<button type=\"submit\">Continue on GitHub</button>
</form>
<h2>Under an organisation</h2>
<form action=\"/setup\" method=\"get\">
<input type=\"hidden\" name=\"token\" value=\"{token}\">
<label>Name of the organisation, empty for your own account: <input name=\"org\" value=\"{org}\"></label>
<button type=\"submit\">Change</button>
</form>
<h2>The manifest</h2>
<pre>{shown}</pre>",
        action = escape(&action),
        state = escape(form.state),
        manifest = escape(&form.manifest.to_string()),
        token = escape(form.token),
        org = escape(form.org.unwrap_or_default()),
        shown = escape(&pretty),
    );
    html(StatusCode::OK, &body, &origin(form.web_url))
}

/// The page after success.
pub(super) fn done(web_url: &str, slug: &str, app_url: &str) -> Response {
    // The link leads to GitHub or nowhere.
    let install = if !app_url.is_empty() && origin(app_url) == origin(web_url) {
        format!(
            "<a href=\"{}/installations/new\">install it on repositories</a>",
            escape(app_url.trim_end_matches('/'))
        )
    } else {
        "install it on repositories from its settings page on GitHub".to_owned()
    };
    let body = format!(
        "<h1>The App {} is registered</h1>
<p>Its private key and webhook secret are stored in the folder <code>credentials</code> of the state folder, for the service's user only.</p>
<ol><li>Restart the service, so that it uses them.</li><li>Then {install}.</li></ol>",
        escape(slug),
    );
    html(StatusCode::OK, &body, "")
}

/// A page that says why not.
pub(super) fn refusal(status: StatusCode, problem: &str) -> Response {
    html(status, &format!("<h1>Not done</h1><p>{}</p>", escape(problem)), "")
}

fn origin(url: &str) -> String {
    Url::parse(url)
        .map(|url| url.origin().ascii_serialization())
        .unwrap_or_default()
}

fn html(status: StatusCode, body: &str, form_target: &str) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Forgehand</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>"
    );
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self' {form_target}; frame-ancestors 'none'; base-uri 'none'",
        *STYLE_HASH
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (status, headers, page).into_response()
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
