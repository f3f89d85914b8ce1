//! Files with secrets are read only when nobody else can read them and no repository holds them.

use std::os::unix::fs::PermissionsExt as _;

use super::{User, ended};

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

#[test]
fn r08_a_secret_inside_a_repository_is_refused() {
    let user = User::new();
    let secret = "correct-horse-battery-staple";
    let key = |name: &str| {
        let file = user.write(name, secret);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    };
    let git = |folder: &str, arguments: &[&str]| {
        let who = ["-c", "user.name=Mona", "-c", "user.email=mona@example.org"];
        let mut command = user.command("git", &user.path(folder));
        let ended = ended(command.args(who).args(arguments).output().unwrap());
        ended.assert_code(0);
    };
    git(".", &["init", "--quiet", "checkout"]);
    git("checkout", &["commit", "--quiet", "--allow-empty", "-m", "begin"]);
    git("checkout", &["worktree", "add", "--quiet", "../linked"]);
    git(".", &["init", "--quiet", "--bare", "bare.git"]);
    let outside = key("outside/app.pem");
    let inside = [
        key("checkout/app.pem"),
        key("checkout/below/of/it/app.pem"),
        key("checkout/.git/app.pem"),
        key("linked/app.pem"),
        key("bare.git/app.pem"),
        key("bare.git/objects/app.pem"),
        user.path("outside/link.pem"),
    ];
    // What is left out of commits today is not left out of archives, images and `git add --force`.
    user.write("checkout/.gitignore", "*.pem\n");
    std::os::unix::fs::symlink(&inside[0], &inside[6]).unwrap();
    for file in &inside {
        for setting in ["github.private_key_file", "model.api_key_file"] {
            let set = format!("{setting}={}", file.display());
            for command in [&["config", "show"][..], &["serve"]] {
                let ended = user.run(&[command, &["--set", &set]].concat());
                ended
                    .assert_code(78)
                    .assert_err(setting.trim_end_matches("_file"))
                    .assert_err(&file.display().to_string())
                    .assert_err("lies inside the git repository")
                    .assert_err("move it to a folder outside");
                assert!(!format!("{}{}", ended.out, ended.err).contains(secret));
            }
        }
    }
    // A link in a repository to a file elsewhere tells where it is, not what is in it.
    let link = user.path("checkout/link.pem");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    // Anybody can make an empty folder of this name in a shared place.
    let shared = key("shared/app.pem");
    std::fs::create_dir(user.path("shared/.git")).unwrap();
    for file in [&outside, &link, &shared] {
        let set = format!("model.api_key_file={}", file.display());
        user.run(&["config", "show", "--set", &set]).assert_code(0);
    }
}
