//! What a model says reaches people, but pings nobody, closes nothing, triggers nothing, loads
//! nothing and tells no secret.

use forgehand::intake::Command;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{REPO, Service, mend, usual};

const TOKEN: &str = "ghs_0123456789abcdefghijABCDEFGHIJ012345";

pub(super) fn hostile_words() -> String {
    format!(
        "Ask @octo/security and @torvalds.\n\
         ![pixel](https://evil.example/p.png?d=1) <img src=https://evil.example/q.png>\n\
         This fixes #99, closes other/repo#1, and \\`resolves #98\\`.\n\
         `\nfixes #97 with @hubot\n`\n\
         /agent fix everything\n\
         The token is {TOKEN}. <!-- forgehand:v1:hidden --> <!-- unclosed"
    )
}

/// What a page shows as text, not as code.
fn outside_code(markdown: &str) -> String {
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
    let (mut text, mut in_code) = (String::new(), false);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(part) | Event::Html(part) | Event::InlineHtml(part) if !in_code => text.push_str(&part),
            Event::Code(_) | Event::SoftBreak => text.push(' '),
            _ => {}
        }
    }
    text
}

/// Words that are no Markdown: a commit message, where images and HTML are only letters.
#[track_caller]
fn check_plain(text: &str) {
    let closing =
        regex::Regex::new(r"(?i)\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+([\w.-]+/[\w.-]+)?#(9\d|1)\b").unwrap();
    // Not even in code: when a pull request is squashed, its body becomes a commit message.
    assert!(!closing.is_match(text), "closes an issue: {text}");
    let mention = regex::Regex::new(r"(?i)@(octo|torvalds|hubot)").unwrap();
    assert!(!mention.is_match(&outside_code(text)), "mentions somebody: {text}");
    assert!(!text.contains(TOKEN), "{text}");
}

#[track_caller]
pub(super) fn check_harmless(text: &str) {
    check_plain(text);
    assert!(!text.contains("evil.example/p.png") && !text.contains("<img"), "{text}");
    assert!(!text.contains("<!-- forgehand:v1:hidden"), "{text}");
    assert!(Command::parse(text, "/agent").is_none(), "{text}");
}

#[tokio::test]
async fn o02_o03_o05_a_models_words_are_harmless_wherever_they_stand() {
    usual()
        .tell(async |service: &mut Service| {
            let said = hostile_words();
            let title = "Count for @torvalds, fixes #99 <!-- x -->\u{202e}[skip ci]";
            let finish = json!({"status": "done", "title": title, "summary": said, "risks": said, "not_done": said});
            service.model.play([mend(), Reply::call("finish", finish)]);
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let (title, body) = service.text_of(pull.number);
            check_harmless(&title);
            let ours = format!("Fixes #{issue}\n");
            let theirs = body.strip_prefix(&ours).expect("the body begins with our own keyword");
            check_harmless(theirs);
            assert!(!title.contains("[skip ci]") && !title.contains('\u{202e}'), "{title}");
            check_harmless(&service.our_only_words(issue));
            let message = service.github.message(REPO, &pull.head).await.unwrap();
            check_plain(&message);
            assert!(message.contains("Ask ") && !message.contains("[skip ci]"), "{message}");
        })
        .await;
}

#[tokio::test]
async fn a_reason_for_doing_nothing_is_harmless_too() {
    usual()
        .tell(async |service: &mut Service| {
            let finish = json!({"status": "nothing_to_do", "summary": hostile_words()});
            service.model.play([Reply::call("finish", finish)]);
            let issue = service.labelled_issue();
            service.done().await;
            check_harmless(&service.our_only_words(issue));
            assert_eq!(service.jobs().await.len(), 1);
        })
        .await;
}
