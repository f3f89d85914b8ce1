//! Which process holds a milestone, and whether it still lives. A number alone names no process:
//! it is given again; together with when it began, on which boot, it is not.
//! Never calls a process gone that may live where this one cannot see.

use std::fs;

use crate::milestone::Holder;
use crate::secret::random_hex;

/// This process, as a holder.
pub(super) fn me() -> Holder {
    let name = seen_from().and_then(|place| {
        let pid = std::process::id();
        Some(format!("{place}/{pid}/{}", began(pid)?))
    });
    // Elsewhere than on Linux only time says that a process is gone.
    Holder::Process(name.unwrap_or_else(|| format!("unknown/{}", random_hex::<8>())))
}

/// Whether a holder is known to be gone: it ran where this process runs, and no such process does.
pub(super) fn is_gone(holder: &Holder) -> bool {
    let Holder::Process(name) = holder else {
        return false;
    };
    let mut parts = name.rsplitn(3, '/');
    let (start, pid, place) = (parts.next(), parts.next(), parts.next());
    let (Some(start), Some(pid), Some(place)) = (start, pid.and_then(|pid| pid.parse().ok()), place) else {
        return false;
    };
    seen_from().as_deref() == Some(place) && began(pid).as_deref() != Some(start)
}

/// What numbers of processes mean here: this boot of the kernel, and this namespace of it.
fn seen_from() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let number: String = namespace
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    Some(format!("{}/{number}", boot.trim()))
}

/// When a living process began, in ticks since the boot.
fn began(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before this may hold anything, also brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // The 22nd field of all; what nobody has waited for yet runs no more.
    let start = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| start.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_when_its_number_means_another_one() {
        let here = me();
        assert!(!is_gone(&here));
        let Holder::Process(name) = &here else { panic!("{here}") };
        let (place, _) = name.rsplit_once('/').unwrap();
        assert!(is_gone(&Holder::Process(format!("{place}/1"))), "began at another time");
        let (place, _) = place.rsplit_once('/').unwrap();
        assert!(
            is_gone(&Holder::Process(format!("{place}/4194305/7"))),
            "no such process"
        );
        let elsewhere = name.replacen(|c: char| c.is_ascii_hexdigit(), "x", 1);
        assert!(!is_gone(&Holder::Process(elsewhere)), "another boot or machine");
        assert!(!is_gone(&Holder::Person));
    }

    #[test]
    fn a_process_that_ended_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("300").spawn().unwrap();
        let place = seen_from().unwrap();
        let holder = Holder::Process(format!("{place}/{}/{}", child.id(), began(child.id()).unwrap()));
        assert!(!is_gone(&holder));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&holder));
    }
}
