//! Files with secrets are read only when nobody else can read them.

use std::os::unix::fs::PermissionsExt as _;

use super::User;

#[test]
fn r08_a_secret_that_others_can_read_is_refused() {
    let user = User::new();
    user.write("work/key", &"k".repeat(40));
    let file = user.work().join("key");
    let set = format!("model.api_key_file={}", file.display());
    for (mode, code) in [(0o644, 78), (0o640, 78), (0o604, 78), (0o600, 0), (0o400, 0)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let ended = user.run(&["config", "show", "--set", &set]);
        ended.assert_code(code);
        assert_eq!(
            ended.err.contains("can be read by other users; run `chmod 600"),
            code == 78,
            "{mode:o}: {}",
            ended.err
        );
        assert!(!ended.out.contains(&"k".repeat(40)) && !ended.err.contains(&"k".repeat(40)));
    }
}
