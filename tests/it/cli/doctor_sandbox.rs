//! `forgehand doctor --sandbox`: every layer is tried in a real sandbox, and what is missing has a
//! remedy.

use serde_json::Value;

use super::User;

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let layers = report["layers"].as_array().expect("layers");
    layers
        .iter()
        .find(|layer| layer["name"] == name)
        .unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn every_layer_is_tried_from_inside() {
    let user = User::new();
    let json = user.run(&["doctor", "--sandbox", "--json"]);
    let report = json.assert_code(0).json();
    assert_eq!(
        (report["ok"].as_bool(), report["backend"].as_str()),
        (Some(true), Some("local"))
    );
    for name in [
        "namespaces",
        "minimal root",
        "user",
        "Landlock",
        "seccomp",
        "end of everything",
        "no network",
        "way out",
    ] {
        assert_eq!(row(&report, name)["state"], "in_force", "{report}");
    }
    for name in ["memory limit", "process limit", "processor limit", "disk limit"] {
        let row = row(&report, name);
        // What is not in force says what to do.
        assert_eq!(row["state"] == "in_force", row["remedy"].is_null(), "{row}");
    }
    let text = user.run(&["doctor", "--sandbox"]);
    text.assert_code(0)
        .assert_out("the sandbox `local`, tried from inside")
        .assert_out("namespaces         in force  its own: user, mnt, pid, net, ipc, uts, cgroup")
        .assert_out("user 1000 inside; capabilities 0000000000000000")
        .assert_out("a connection outside: refused (Network is unreachable")
        .assert_out("none is configured, and none is there");
    user.assert_tidy();
}

#[test]
fn a_way_out_is_tried_and_a_dangerous_one_is_named() {
    let user = User::new();
    let listed = user.run(&["doctor", "--sandbox", "--json", "--set", "egress.hosts=docs.rs"]);
    let report = listed.assert_code(0).json();
    assert_eq!(row(&report, "way out")["detail"], "the guarded proxy alone answers");
    assert_eq!(row(&report, "no network")["state"], "in_force");
    let open = user.run(&["doctor", "--sandbox", "--set", "egress.unsafe_allow_all=true"]);
    open.assert_code(0)
        .assert_out("hosts that may be reached")
        .assert_out("→ List the hosts that are needed in egress.hosts instead");
}

#[test]
fn without_isolation_layers_are_missing_and_have_remedies() {
    let user = User::new();
    let nowhere = user.run(&["doctor", "--sandbox", "--set", "sandbox.helper=/no/such/program"]);
    nowhere
        .assert_code(1)
        .assert_out("MISSING")
        .assert_out("/no/such/program")
        .assert_out("→ Let sandbox.helper name a forgehand program")
        .assert_out("1 missing: do not run strangers' code here before that is mended");
}
