//! What the process that indexes may still do: read the repository and the programs of the machine,
//! write the index, and nothing else. Called once, at its start. Never loosened afterwards.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, path_beneath_rules};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Newest Landlock that the rules below were written for.
const LANDLOCK: ABI = ABI::V7;

/// Most memory of the process beside the files that it maps.
const MAX_MEMORY: u64 = 4 << 30;

/// How much everything else on the machine goes before indexing.
const NICENESS: i32 = 5;

/// Where git and the libraries of this program and of git are.
const PROGRAMS: &[&str] = &["/usr", "/bin", "/lib", "/lib64", "/etc", "/nix", "/opt", "/proc/self"];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: TargetArch = TargetArch::riscv64;

/// Closes the walls around this process and everything that it starts.
///
/// # Errors
/// When a limit or a filter cannot be set. A kernel without Landlock is no error: the process holds
/// no secret, and the limits and the filter stay.
pub(super) fn close(readable: &[&Path], writable: &Path) -> io::Result<()> {
    for (resource, most) in [(Resource::Core, 0), (Resource::Data, MAX_MEMORY)] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    // Both only make the rest of the machine quicker.
    let _ = rustix::process::nice(NICENESS);
    let _ = std::fs::write("/proc/self/oom_score_adj", "800");
    landlock(readable, writable).map_err(io::Error::other)?;
    no_sockets().map_err(|error| io::Error::other(error.to_string()))
}

fn landlock(readable: &[&Path], writable: &Path) -> Result<(), landlock::RulesetError> {
    let everything = AccessFs::from_all(LANDLOCK);
    let null = [Path::new("/dev/null")];
    Ruleset::default()
        .handle_access(everything)?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(PROGRAMS, AccessFs::from_read(LANDLOCK)))?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(LANDLOCK)))?
        .add_rules(path_beneath_rules([writable], everything))?
        .add_rules(path_beneath_rules(null, AccessFs::ReadFile | AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(())
}

/// Landlock knows TCP alone; without sockets there is nothing to send with.
fn no_sockets() -> Result<(), Box<dyn std::error::Error>> {
    let denied = BTreeMap::from([
        (libc::SYS_socket, Vec::new()),
        (libc::SYS_ptrace, Vec::new()),
        (libc::SYS_process_vm_readv, Vec::new()),
        (libc::SYS_process_vm_writev, Vec::new()),
        (libc::SYS_io_uring_setup, Vec::new()),
        (libc::SYS_bpf, Vec::new()),
    ]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(denied, SeccompAction::Allow, refuse, ARCHITECTURE)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}
