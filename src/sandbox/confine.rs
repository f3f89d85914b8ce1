//! The last walls before a command starts: resource limits, Landlock and seccomp. Called by the
//! helper after capabilities are gone; everything it starts inherits them.
//! Never allows what it does not know to be needed: sockets are listed by family, not excluded.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};

use super::identity::Walls;
use super::root::View;
use super::spec::{Failure, Isolation, Limits, Step};

/// Newest Landlock that the rules below were written for.
const LANDLOCK: ABI = ABI::V7;

/// The watch must see the limit passed before the kernel merely refuses to fork.
const NPROC_HEADROOM: u64 = 16;

/// Whom the kernel kills first when the machine's memory ends (from -1000 to 1000).
const OOM_SCORE: &str = "500";

/// How much the service's own work goes before that of commands.
const NICENESS: i32 = 5;

/// Compilers and node open more than the usual 1024 files.
const OPEN_FILES: u64 = 8192;

pub(super) fn restrict(view: &View, limits: &Limits, isolation: Isolation) -> Result<Walls, Failure> {
    let mut walls = Walls::default();
    resource_limits(limits, isolation)?;
    // Both only make the service more robust; a kernel may refuse them.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let _ = rustix::process::nice(NICENESS);
    walls.layer("resource limits");
    landlock(view, isolation, &mut walls)?;
    seccomp().map_err(|error| Failure::broken(format!("apply seccomp: {error}")))?;
    walls.layer("seccomp");
    Ok(walls)
}

fn resource_limits(limits: &Limits, isolation: Isolation) -> Result<(), Failure> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, limits.disk_mib.saturating_mul(1024 * 1024)),
        // Counted per user namespace, so that other processes of the same user do not matter.
        (Resource::Nproc, limits.max_processes.saturating_add(NPROC_HEADROOM)),
    ] {
        // In a container it may count all processes of the machine's user; the engine counts there.
        if isolation == Isolation::Container && resource == Resource::Nproc {
            continue;
        }
        let most = match getrlimit(resource).maximum {
            Some(hard) => most.min(hard),
            None => most,
        };
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).step(|| format!("limit {resource:?}"))?;
    }
    Ok(())
}

fn landlock(view: &View, isolation: Isolation, walls: &mut Walls) -> Result<(), Failure> {
    let status =
        landlock_ruleset(view, isolation).map_err(|error| Failure::broken(format!("apply Landlock: {error}")))?;
    match (status.landlock, status.ruleset) {
        (LandlockStatus::Available { effective_abi, .. }, RulesetStatus::FullyEnforced) => {
            walls.layer(format!("landlock abi {}", effective_abi as i32));
        }
        (LandlockStatus::Available { effective_abi, .. }, _) => {
            let abi = effective_abi as i32;
            walls.layer(format!("landlock abi {abi}"));
            walls.warning(format!("this kernel's Landlock (abi {abi}) lacks newer rules"));
        }
        (LandlockStatus::NotEnabled, _) => {
            walls.warning("Landlock is not enabled (add `landlock` to the kernel's `lsm=` list)");
        }
        (LandlockStatus::NotImplemented, _) => walls.warning("this kernel has no Landlock (Linux 5.13 brings it)"),
    }
    Ok(())
}

fn landlock_ruleset(view: &View, isolation: Isolation) -> Result<RestrictionStatus, landlock::RulesetError> {
    let everything = AccessFs::from_all(LANDLOCK);
    let mut ruleset = Ruleset::default()
        .handle_access(everything)?
        .scope(Scope::from_all(LANDLOCK))?;
    // In a network namespace of its own a command reaches nothing but itself.
    if isolation == Isolation::None {
        ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
    }
    let own_shared_memory = (isolation != Isolation::None).then_some("/dev/shm");
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let devices = ["null", "zero", "full", "random", "urandom"].map(|name| Path::new("/dev").join(name));
    ruleset
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(LANDLOCK)))?
        .add_rules(path_beneath_rules(view.writable(), everything))?
        .add_rules(path_beneath_rules(own_shared_memory, everything))?
        .add_rules(path_beneath_rules(devices, device))?
        .restrict_self()
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System calls that no build or test needs and that kernels were broken through.
const DENIED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Flags of clone(2) that would make namespaces.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: TargetArch = TargetArch::riscv64;

fn seccomp() -> Result<(), Box<dyn std::error::Error>> {
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    denied.insert(libc::SYS_clone, namespace_rules()?);
    denied.insert(libc::SYS_socket, socket_rules()?);
    denied.insert(libc::SYS_ioctl, terminal_rules()?);
    denied.insert(libc::SYS_personality, personality_rules()?);
    // The flags of clone3 lie in memory where a filter cannot look; "no such call" makes the C
    // library fall back to clone.
    let unknown: Rules = [(libc::SYS_clone3, Vec::new())].into();
    for (rules, errno) in [(denied, libc::EPERM), (unknown, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, ARCHITECTURE)?;
        apply_filter(&seccompiler::BpfProgram::try_from(filter)?)?;
    }
    #[cfg(target_arch = "x86_64")]
    apply_filter(&x32_filter())?;
    Ok(())
}

fn namespace_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |flag: &i32| {
        let flag = u64::from(flag.cast_unsigned());
        let set = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![set])
    };
    NAMESPACE_FLAGS.iter().map(rule).collect()
}

/// Unix and internet sockets, and netlink for routes, which the C library asks for addresses.
fn socket_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let differs = |argument, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
    };
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other_family = families
        .iter()
        .map(|family| differs(0, *family))
        .collect::<Result<_, _>>()?;
    let netlink = u64::from(libc::AF_NETLINK.cast_unsigned());
    let is_netlink = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, netlink)?;
    Ok(vec![
        SeccompRule::new(other_family)?,
        SeccompRule::new(vec![is_netlink, differs(2, libc::NETLINK_ROUTE)?])?,
    ])
}

/// Requests that type into a terminal; there is none, but it may become one.
fn terminal_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |request: u64| {
        SeccompRule::new(vec![SeccompCondition::new(
            1,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            request,
        )?])
    };
    [libc::TIOCSTI, libc::TIOCLINUX].into_iter().map(rule).collect()
}

/// Only asking (all ones) and the ordinary personality (0).
fn personality_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let differs = |value| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value);
    Ok(vec![SeccompRule::new(vec![differs(0)?, differs(0xffff_ffff)?])?])
}

/// The x32 calls carry the x86-64 mark and numbers from 2^30 on, which would match no rule above.
#[cfg(target_arch = "x86_64")]
fn x32_filter() -> [seccompiler::sock_filter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_NOT_BELOW: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let line = |code, jt, k| seccompiler::sock_filter { code, jt, jf: 0, k };
    [
        line(LOAD_WORD, 0, 0),
        line(JUMP_IF_NOT_BELOW, 1, X32_BIT),
        line(RETURN, 0, ALLOW),
        line(RETURN, 0, ERRNO | libc::ENOSYS as u32),
    ]
}
