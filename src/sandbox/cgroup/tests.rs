//! What is written into groups of both versions, on plain folders: the kernel of one machine has only
//! one of them. That they hold is told in `tests/it/sandbox/groups.rs`.

use super::*;

fn limits() -> Limits {
    Limits {
        memory_mib: 100,
        max_processes: 50,
        disk_mib: 10,
    }
}

/// The files of the group that is made below a base of this version, and what is in them.
fn written(version: Version) -> Vec<(String, String)> {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().to_path_buf();
    let bases = Bases {
        bases: vec![Base {
            version,
            folder,
            limits: Resource::ALL.into(),
        }],
        why: None,
    };
    let group = bases.make(&limits(), 1.5).unwrap();
    let mut files: Vec<(String, String)> = fs::read_dir(&group.folders[0])
        .unwrap()
        .flatten()
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    fs::remove_dir_all(&group.folders[0]).unwrap();
    files
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn each_version_has_its_own_files() {
    let bytes = (116 << 20).to_string();
    assert_eq!(
        written(Version::Two),
        pairs(&[
            ("cpu.max", "150000 100000"),
            ("memory.max", &bytes),
            ("memory.swap.max", "0"),
            ("pids.max", "54")
        ])
    );
    assert_eq!(
        written(Version::One),
        pairs(&[
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "150000"),
            ("memory.limit_in_bytes", &bytes),
            ("memory.memsw.limit_in_bytes", &bytes),
            ("pids.max", "54")
        ])
    );
}

#[test]
fn a_limit_that_was_hit_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Some(path)
    };
    let check = |memory: &str, processes: &str, expected: Option<&str>| {
        let membership = Membership {
            procs: Vec::new(),
            memory_events: write("memory", memory),
            process_events: write("processes", processes),
        };
        assert_eq!(
            membership.open().unwrap().passed(&limits()).as_deref(),
            expected,
            "{memory} {processes}"
        );
    };
    check(
        "low 0\nhigh 9\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n",
        "max 0\n",
        None,
    );
    check(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "max 0\n",
        Some("memory over 100 MiB"),
    );
    check(
        "low 0\nmax 7\noom 1\noom_kill 1\n",
        "max 5\n",
        Some("memory over 100 MiB"),
    );
    check("oom_kill 0\n", "max 3\n", Some("more than 50 processes and threads"));
    assert_eq!(Membership::default().open().unwrap().passed(&limits()), None);
}
