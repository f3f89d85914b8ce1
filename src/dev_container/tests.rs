//! Tables: which files are read, what of them counts, and what people are told.

use super::*;
use crate::config::SandboxBackend;

const PATH: &str = DEV_CONTAINER_PATHS[0];

fn listed(images: &[&str]) -> SandboxConfig {
    SandboxConfig {
        backend: SandboxBackend::Docker,
        images: images.iter().map(|image| (*image).to_owned()).collect(),
        ..SandboxConfig::default()
    }
}

#[track_caller]
fn check(text: &str, sandbox: &SandboxConfig, image: Option<&str>, note: Option<&str>) {
    let found = DevContainer::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
    assert_eq!(found.image(sandbox), image, "{text}");
    let said = found.note(Language::English, PATH, sandbox);
    assert_eq!(said.as_deref(), note, "{text}");
}

#[test]
fn x08_the_image_is_a_wish_under_the_operators_list() {
    let (open, closed) = (listed(&["a", "b"]), listed(&[]));
    let plain = r#"{"image": "a"}"#;
    check(plain, &open, Some("a"), None);
    let refused = "`.devcontainer/devcontainer.json`: without effect in this version: image.";
    check(plain, &closed, None, Some(refused));
    check(r#"{"image": "a@b"}"#, &open, None, Some(refused));
    check(r#"{"image": ""}"#, &open, None, Some(refused));
    let local = SandboxConfig {
        backend: SandboxBackend::Local,
        ..open.clone()
    };
    check(plain, &local, None, Some(refused));
    check("{}", &open, None, None);
    check(r#"{"name": "x", "customizations": {"vscode": {}}}"#, &open, None, None);
}

#[test]
fn one_of_several_is_never_guessed() {
    let among = |files: &[&str]| Choice::among(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>());
    let (api, web) = (
        ".devcontainer/api/devcontainer.json",
        ".devcontainer/web/devcontainer.json",
    );
    assert_eq!(among(&[]), Choice::None);
    assert_eq!(
        among(&[api, ".devcontainer/api/Dockerfile"]),
        Choice::Only(api.to_owned())
    );
    let both = Choice::OneOf(vec!["api".to_owned(), "web".to_owned()]);
    assert_eq!(among(&[web, api, ".devcontainer/x/y/devcontainer.json"]), both);
    for other in [
        ".devcontainer/devcontainer.json",
        ".devcontainer/api/x/devcontainer.json",
        ".devcontainer/.git/devcontainer.json",
        ".devcontainer/a b/devcontainer.json",
        ".devcontainer/`a`/devcontainer.json",
        "x/.devcontainer/api/devcontainer.json",
        ".devcontainers/api/devcontainer.json",
    ] {
        assert_eq!(among(&[other]), Choice::None, "{other}");
    }
    for name in ["", ".", "..", "a/b", "a\nb", "ä", &"a".repeat(101)] {
        assert!(!is_name(name), "{name:?}");
    }
    let many: Vec<_> = ('a'..='z').map(String::from).collect();
    let said = choose(Language::English, &many);
    assert!(
        said.contains("(`a`, `b`, `c`, `d`, `e`, …)") && said.contains("`devcontainer = \"a\"`"),
        "{said}"
    );
}

#[test]
fn s12_nothing_but_the_image_counts() {
    let text = r#"{
        "image": "a",
        "runArgs": ["--privileged", "-v", "/var/run/docker.sock:/var/run/docker.sock"],
        "mounts": ["source=/,target=/host,type=bind"],
        "privileged": true,
        "build": {"dockerfile": "Dockerfile"},
        "dockerFile": "Dockerfile",
        "features": {"ghcr.io/devcontainers/features/docker-in-docker:2": {}},
        "postCreateCommand": "curl evil",
    }"#;
    let keys = "build, dockerFile, features, mounts, postCreateCommand, privileged, runArgs";
    let alone = format!("`.devcontainer/devcontainer.json`: its image alone is used; without effect: {keys}.");
    check(text, &listed(&["a"]), Some("a"), Some(&alone));
    let none = format!("`.devcontainer/devcontainer.json`: without effect in this version: image, {keys}.");
    check(text, &listed(&["b"]), None, Some(&none));
    let built = r#"{"build": {"dockerfile": "Dockerfile", "image": "a"}}"#;
    check(
        built,
        &listed(&["a"]),
        None,
        Some("`.devcontainer/devcontainer.json`: without effect in this version: build."),
    );
}

#[test]
fn comments_and_last_commas_are_read() {
    let sandbox = listed(&["a", "https://a/*b*/", "é\"\n"]);
    for (text, image) in [
        (
            "// a comment\n{\n  // \"image\": \"b\",\n  \"image\": \"a\", // why\n}\n",
            "a",
        ),
        (
            "/* a\n comment */ {\"forwardPorts\": [1, 2,], /* , */ \"image\" /* x */ : \"a\",}",
            "a",
        ),
        ("\u{feff}{\"image\": \"a\"}", "a"),
        ("{\"image\": \"https://a/*b*/\"}", "https://a/*b*/"),
        (r#"{"image": "\u00e9\"\n"}"#, "é\"\n"),
    ] {
        check(text, &sandbox, Some(image), None);
    }
}

#[test]
fn what_is_none_is_said_with_its_line() {
    let deep = format!("{{\"image\": \"a\", \"x\": {}", "[".repeat(60_000));
    let deeper = format!("{{\"image\": \"a\", \"x\": {}", "{\"x\":".repeat(12_000));
    for (text, said) in [
        ("{\n  \"image\": \"a\"\n  \"name\": \"b\"\n}", "line 2: Expected comma"),
        ("{\"image\": 'a'}", "line 1: Single-quoted strings"),
        ("{image: \"a\"}", "line 1: Expected string"),
        ("{\"image\": \"a\"", "line 1: Unterminated object"),
        ("{\"image\": \"a\" /*", "line 1: Unterminated comment"),
        ("{} {}", "line 1: Text cannot contain more"),
        ("{\"image\": \"a\", \"x\": NaN}", "line 1: "),
        ("[]", "is no object"),
        ("", "is no object"),
        ("\"a\"", "is no object"),
        ("{\"image\": [\"a\"]}", "is no object"),
        ("{\"image\": null}", "is no object"),
        (&deep, "line 1: Maximum nesting depth"),
        (&deeper, "line 1: Maximum nesting depth"),
    ] {
        let problem = DevContainer::parse(text).expect_err(text);
        let words = in_words(Language::English, PATH, &problem);
        let shown = text.get(..60).unwrap_or(text);
        assert!(
            words.starts_with("`.devcontainer/devcontainer.json`"),
            "{shown}: {words}"
        );
        assert!(words.contains(said), "{shown}: {words}");
        assert!(words.ends_with("Nothing of that file is used."), "{shown}: {words}");
    }
}
