//! The toolbox: names, keys of permission, specifications as a model reads them.

use super::*;

#[test]
fn paths_are_taken_as_models_write_them() {
    for (path, expected) in [
        ("src/a.rs", "src/a.rs"),
        ("./src/a.rs", "src/a.rs"),
        ("/workspace/src/a.rs", "src/a.rs"),
        ("/workspace", ""),
        (".", ""),
        ("/workspaces/a", "/workspaces/a"),
        ("../a", "../a"),
    ] {
        assert_eq!(relative(path), expected);
    }
}

#[test]
fn the_way_of_editing_that_suits_a_model_comes_first() {
    let names = |tools: &Toolbox| -> Vec<String> { tools.specs().iter().map(|spec| spec.name.clone()).collect() };
    let (replace, patch) = (Toolbox::standard(), Toolbox::preferring(EditFormat::Patch));
    assert_eq!(names(&replace)[2..4], ["edit_file", "apply_patch"]);
    assert_eq!(names(&patch)[2..4], ["apply_patch", "edit_file"]);
    assert!(patch.specs()[3].description.starts_with("Second choice; apply_patch"));
    assert!(patch.specs()[2].description.starts_with("Changes"));
    let mut sorted = (names(&replace), names(&patch));
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);
}

#[test]
fn rules_of_permission_can_name_every_tool() {
    for spec in Toolbox::standard().specs() {
        assert!(
            crate::permission::is_known_tool(&spec.name),
            "{} is missing in the table of permission/rule.rs",
            spec.name
        );
    }
}

#[track_caller]
fn check_key(name: &str, arguments: &str, key: &str) {
    let call = ToolCall {
        id: String::new(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    assert_eq!(Toolbox::standard().permission_key(&call), key);
}

#[test]
fn a_call_is_keyed_by_what_it_will_do_however_it_is_written() {
    check_key(
        "run_command",
        r#"{"command": "/usr/bin/git  status"}"#,
        "run_command:git status",
    );
    check_key("bash", r#"{"command": ["git", "push"]}"#, "run_command:git push");
    check_key("git", r#"{"command": "push"}"#, "run_command:git push");
    check_key("run_command", r#"{"command": "a && b"}"#, "run_command:a && b");
    check_key(
        "write_file",
        r#"{"path": "/workspace/src/a.rs", "content": ""}"#,
        "write_file:src/a.rs",
    );
    check_key(
        "edit",
        r#"{"file_path": "./a", "old_str": "x", "new_str": "y"}"#,
        "edit_file:a",
    );
    check_key("read_file", r#"{"path": "a"}"#, "read_file:a");
    check_key("list_directory", "{}", "list_directory:.");
    let patch =
        "*** Begin Patch\\n*** Update File: b\\n*** Move to: c\\n@@\\n-x\\n+y\\n*** Add File: a\\n+z\\n*** End Patch";
    check_key(
        "apply_patch",
        &format!(r#"{{"patch": "{patch}"}}"#),
        "apply_patch:a\nb\nc",
    );
    check_key("run_command", r#"{"comm": "x"}"#, "run_command");
    check_key("run_command", "{", "run_command");
    check_key("start_command", r#"{"command": "npm  test"}"#, "start_command:npm test");
    check_key(
        "patch",
        r#"{"input": "*** Update File: b\n*** Move to: a\n-x\n+y"}"#,
        "apply_patch:a\nb",
    );
    check_key("apply_patch", r#"{"patch": "x"}"#, "apply_patch");
    check_key("nonsense", "{}", "nonsense");
}

#[test]
fn every_specification_is_a_plain_schema() {
    for spec in Toolbox::standard().asking_people().specs() {
        let schema = &spec.parameters;
        assert_eq!(schema["type"], "object", "{}", spec.name);
        for (key, property) in schema["properties"].as_object().unwrap() {
            assert!(property["type"].is_string(), "{}.{key}: {property}", spec.name);
            assert!(
                property["description"].is_string(),
                "{}.{key} explains itself",
                spec.name
            );
        }
        assert!(jsonschema::meta::is_valid(schema), "{}", spec.name);
        assert!(!schema.to_string().contains("$ref"), "{}", spec.name);
        assert!(spec.description.len() > 20);
    }
}
