//! A kernel that refuses isolation: here a filter in the thread refuses unshare, as containers do.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::*;

fn refuse_namespaces() {
    let rules = BTreeMap::from([(libc::SYS_unshare, Vec::new())]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter");
    seccompiler::apply_filter(&BpfProgram::try_from(filter).expect("a program")).expect("a filter in force");
}

/// S18: never silently less.
#[test]
fn without_isolation_there_is_no_sandbox() {
    on_a_thread(refuse_namespaces, async || {
        let refused = Run::open_with(config(), 7).await.map(drop).expect_err("no sandbox");
        let SandboxError::Unavailable { problem, remedy } = &refused else {
            panic!("{refused:?}")
        };
        assert!(problem.contains("namespace"), "{refused}");
        assert!(!remedy.is_empty(), "{refused}");
    });
}

#[test]
fn the_administrator_may_accept_less_and_everybody_sees_it() {
    on_a_thread(refuse_namespaces, async || {
        let mut config = config();
        config.unsafe_local = true;
        let folder = scratch();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("a way through");
        let folders = Run::folders(folder.path());
        fs::create_dir(&folders.workspace).expect("a folder");
        fs::create_dir(&folders.base_git).expect("a folder");
        let sandbox = sandbox::open(&config, folders, 7).await.expect("a weaker sandbox");
        let run = Run { folder, sandbox };
        let description = run.sandbox.description().to_string();
        assert!(description.contains("NO ISOLATION"), "{description}");
        assert!(!description.contains("namespaces (mount"), "{description}");

        let marker = format!("72001.{}", std::process::id());
        let line = format!("pwd; echo x > file; setsid nohup sleep {marker} & sleep {marker} & env; exit 4");
        let output = run.sh(&line).await;
        assert_eq!(output.exit, Exit::Code(4), "{}", output.output);
        assert!(
            output.output.starts_with(&run.workspace().display().to_string()),
            "{}",
            output.output
        );
        assert!(!output.output.contains("CARGO_MANIFEST_DIR"), "{}", output.output);
        assert!(!alive(&marker), "orphans end with their command");
        assert_ne!(
            run.sh("echo x > ../escaped").await.exit,
            Exit::Code(0),
            "Landlock still keeps writes in"
        );
        let reply = run
            .files(serde_json::json!({"op": "read", "path": "file", "max_bytes": 9}))
            .await;
        assert!(matches!(reply, FileReply::Content { bytes: 2, .. }), "{reply:?}");
        let exec = Exec {
            timeout: Some(Duration::from_millis(300)),
            ..Exec::shell(format!("sleep {marker}"))
        };
        assert_eq!(run.exec(exec).await.exit, Exit::Limit("timeout after 0.3 s".to_owned()));
        assert!(!alive(&marker));
    });
}
