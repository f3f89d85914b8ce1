//! What leaves a sandbox: one bundle with one commit, whatever happened to the workspace's `.git`.

use std::process::Command;

use forgehand::ids::CommitSha;

use super::*;

/// A run whose workspace is a checkout of a small repository.
pub struct Checkout {
    pub run: Run,
    base: CommitSha,
}

impl Checkout {
    pub async fn open() -> Self {
        Self::open_with(config()).await
    }

    pub async fn open_with(config: SandboxConfig) -> Self {
        let folder = scratch();
        let script = r#"
            git init -q --bare base.git; mkdir workspace; cd workspace
            mkdir -p src target; echo one > src/one.txt; echo two > two.txt; echo tool > tool; echo tracked > target/tracked
            git init -q .; git add --force --all; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,module; git commit -q -m base; git push -q ../base.git HEAD:refs/heads/main; git rev-parse HEAD"#;
        let base = git(folder.path(), script);
        let sandbox = sandbox::open(&config, Run::folders(folder.path()), 7)
            .await
            .expect("the sandbox opens");
        Self {
            run: Run { folder, sandbox },
            base: base.trim().parse().expect("a commit"),
        }
    }

    async fn export(&self) -> Option<PathBuf> {
        self.run
            .sandbox
            .export(&self.base, &CancellationToken::new())
            .await
            .expect("an export")
    }

    /// The changes in the bundle as `git diff-tree` names them.
    pub async fn exported(&self) -> String {
        let bundle = self.export().await.expect("a bundle");
        let script = format!(
            "git init -q --bare fresh.git; cd fresh.git; echo {0}/base.git/objects > objects/info/alternates; \
             git -c fetch.fsckObjects=true fetch -q {1} refs/heads/change:refs/heads/change; \
             test $(git rev-list --count {2}..refs/heads/change) = 1; test $(git rev-parse change^) = {2}; \
             git diff-tree -r --raw --abbrev=4 {2} change | cut -d' ' -f2,5-; cd ..; rm -r fresh.git",
            self.run.folder.path().display(),
            bundle.display(),
            self.base,
        );
        git(self.run.folder.path(), &script)
    }
}

fn git(folder: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command
        .args(["-ec", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    for (name, value) in [("NAME", "test"), ("EMAIL", "test@example.invalid")] {
        command
            .env(format!("GIT_AUTHOR_{name}"), value)
            .env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.output().expect("git");
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_kind_of_change_is_exported() {
    on_each_as_each_user(async || {
        let checkout = Checkout::open().await;
        assert_eq!(checkout.export().await, None, "nothing changed");
        checkout
            .run
            .ok("echo more >> src/one.txt; mv two.txt 'two new.txt'; chmod +x tool; echo edited > target/tracked; mkdir new; echo n > new/file; ln -s one.txt src/link; touch empty; echo a > .hidden")
            .await;
        assert_eq!(
            checkout.exported().await,
            "100644 A\t.hidden\n100644 A\tempty\n100644 A\tnew/file\n120000 A\tsrc/link\n100644 M\tsrc/one.txt\n\
             100644 M\ttarget/tracked\n100755 M\ttool\n100644 A\ttwo new.txt\n000000 D\ttwo.txt\n"
        );
        checkout
            .run
            .ok("git add -A; git commit -qm mine; git branch -m other; git gc -q")
            .await;
        assert!(
            checkout.exported().await.contains("A\tnew/file"),
            "commits of the agent change nothing"
        );
        checkout.run.ok("git reset -q --hard HEAD~1").await;
        assert_eq!(checkout.export().await, None, "all was undone");
    });
}

/// G10: neither what builds leave nor what is written beside the workspace is part of the change.
#[test]
fn g10_litter_of_builds_and_scratch_files_stay() {
    on_each_and_far_away(async || {
        let checkout = Checkout::open().await;
        checkout
        .run
        .ok("mkdir -p target/debug node_modules/x a/__pycache__ .venv/bin; touch target/debug/x node_modules/x/y a/__pycache__/z.pyc b.pyc .venv/bin/python; echo '*.log' > .gitignore; touch x.log kept.txt ~/scratch /tmp/scratch")
        .await;
        assert_eq!(checkout.exported().await, "100644 A\t.gitignore\n100644 A\tkept.txt\n");
    });
}

/// A service that was killed in the middle of an export leaves git's lock behind.
#[test]
fn what_a_killed_export_left_does_not_stop_the_next_one() {
    on_each(async || {
        let checkout = Checkout::open().await;
        checkout.run.ok("echo x > kept.txt").await;
        let out = checkout.run.folder.path().join("out");
        std::fs::create_dir_all(&out).unwrap();
        for left in ["change.bundle.lock", "change.bundle"] {
            std::fs::write(out.join(left), "torn").unwrap();
        }
        assert_eq!(checkout.exported().await, "100644 A\tkept.txt\n");
    });
}

/// G01 to G07 as far as they concern the way out.
#[test]
fn a_poisoned_repository_runs_nothing_and_hides_nothing() {
    on_each_as_each_user(async || {
        for poison in [
            "rm -rf .git",
            "rm -rf .git; echo 'gitdir: /tmp/evil' > .git; cp -r . /tmp/evil",
            "rm -rf .git; ln -s /tmp .git",
            "git config core.fsmonitor /workspace/canary.sh; git config core.hooksPath /workspace; cp canary.sh post-index-change",
            "echo '* filter=evil diff=evil' > .gitattributes; git config filter.evil.clean /workspace/canary.sh; git config --global filter.evil.clean /workspace/canary.sh; git config filter.evil.required true",
            "mkdir sub; cd sub; git init -q; git config core.fsmonitor /workspace/canary.sh; echo x > f; git add f; git commit -qm x",
            "cd src; git init -q; git config core.fsmonitor /workspace/canary.sh; git add one.txt; git commit -qm x",
            "mkdir '!a [b]*'; cd '!a [b]*'; git init -q; echo x > f; git add f; git commit -qm x",
            "mkdir -p bare/objects bare/refs; echo 'ref: refs/heads/main' > bare/HEAD; printf '[core]\\nfsmonitor = /workspace/canary.sh\\n' > bare/config",
            "git update-index --assume-unchanged src/one.txt; git replace HEAD $(git commit-tree -m x HEAD^{tree}); echo '*' > .git/info/exclude",
            "git config --global core.excludesFile /workspace/all; echo '*' > all; mkdir -p ~/.config/git; echo '*' > ~/.config/git/ignore",
        ] {
            let checkout = Checkout::open().await;
            checkout
                .run
                .ok("printf '#!/bin/sh\\ntouch /workspace/CANARY\\ncat\\n' > canary.sh; chmod +x canary.sh")
                .await;
            checkout.run.ok(poison).await;
            checkout.run.ok("rm -f CANARY; echo changed > src/one.txt").await;
            let exported = checkout.exported().await;
            assert!(exported.contains("100644 M\tsrc/one.txt\n"), "{poison}: {exported}");
            assert!(!exported.contains("160000"), "{poison}: {exported}");
            assert!(!checkout.run.workspace().join("CANARY").exists(), "{poison}");
        }
    });
}

/// S04: a name that the sandbox prepared is not taken for the bundle.
#[test]
fn s04_the_way_out_cannot_be_prepared() {
    on_each_and_far_away(async || {
        let checkout = Checkout::open().await;
        let touched = checkout
            .run
            .sh("ln -s /etc/passwd /run/forgehand/out/change.bundle")
            .await;
        assert_ne!(touched.exit, Exit::Code(0));
        checkout.run.ok("echo x > x").await;
        let bundle = checkout.export().await.expect("a bundle");
        assert!(fs::symlink_metadata(&bundle).expect("the bundle").is_file());
    });
}

#[test]
fn an_export_of_an_unknown_base_fails_with_a_reason() {
    on_each(async || {
        let checkout = Checkout::open().await;
        let unknown: CommitSha = "1234567890123456789012345678901234567890".parse().expect("a commit");
        let failed = checkout
            .run
            .sandbox
            .export(&unknown, &CancellationToken::new())
            .await
            .expect_err("no export");
        assert!(
            matches!(failed, SandboxError::Broken(_)) && failed.to_string().contains("1234567890"),
            "{failed}"
        );
    });
}
