//! What there is to be reached on the machine, the program that tries to, and how it is run bare.
//! Never anything that does harm when it is reached: files are the test's own, servers answer nobody.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::corpus::{Attempt, Bare};
use super::*;

/// What stands in every file that is not the sandbox's.
const MARK: &str = "FORGEHAND-CANARY";

/// A variable that the test runner sets, and therefore a process outside has.
const VARIABLE: &str = "CARGO_MANIFEST_DIR=";

/// Addresses for documentation, resolvers and metadata services: tried from inside a sandbox only.
const OUTSIDE: [(u8, &str); 4] = [
    (
        35,
        "tcp/198.51.100.1/80 udp/198.51.100.1/53 tcp/2001:db8::1/80 udp/2001:db8::1/53",
    ),
    (37, "udp/198.51.100.53/53 tcp/198.51.100.53/53 udp/2001:db8::53/53"),
    (38, "tcp/1.1.1.1/443 tcp/8.8.8.8/443 tcp/2606:4700:4700::1111/443"),
    (
        39,
        "tcp/169.254.169.254/80 udp/169.254.169.254/80 tcp/fd00:ec2::254/80 tcp/100.100.100.200/80 tcp/168.63.129.16/80",
    ),
];

/// How an attempt says it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Escaped(String),
    Blocked(Vec<String>),
}

/// The last verdict of this number in an output.
pub fn verdict(number: u8, output: &str) -> Option<Verdict> {
    let (blocked, escaped) = (format!("BLOCKED {number} "), format!("ESCAPED {number} "));
    output.lines().rev().find_map(|line| {
        if let Some(reasons) = line.strip_prefix(&blocked) {
            let reasons = reasons.split(',').filter(|reason| !reason.is_empty());
            return Some(Verdict::Blocked(reasons.map(str::to_owned).collect()));
        }
        line.strip_prefix(&escaped).map(|why| Verdict::Escaped(why.to_owned()))
    })
}

/// The attempts, built as one program that needs no library.
pub fn program() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = scratch();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("an open folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sandbox/escape");
        let sources = fs::read_dir(sources)
            .expect("the sources")
            .flatten()
            .map(|entry| entry.path());
        let built = Command::new("cc")
            .args([
                "-static",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-missing-field-initializers",
                "-o",
            ])
            .arg(folder.path().join("escape"))
            .args(sources.filter(|path| path.extension().is_some_and(|kind| kind == "c")))
            .output()
            .expect("cc, which tests/run installs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        folder
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| folder.path().join("escape"))
}

/// Everything on this machine that an attempt may go for.
pub struct Machine {
    folder: tempfile::TempDir,
    in_tmp: tempfile::NamedTempFile,
    tcp: TcpListener,
    tcp_v6: Option<TcpListener>,
    udp: UdpSocket,
    by_path: UnixListener,
    by_name: UnixListener,
    bystander: std::process::Child,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.bystander.kill().and_then(|()| self.bystander.wait());
    }
}

/// What the attempts are told of it.
pub struct Told {
    values: Vec<(u8, String)>,
}

impl Machine {
    pub fn new() -> Self {
        let folder = scratch();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("home/.ssh")).expect("a home");
        fs::create_dir(path("workspace")).expect("another run's workspace");
        for file in [
            "token",
            "workspace/secret",
            "forgehand.sqlite",
            "program",
            "home/.ssh/id_ed25519",
        ] {
            fs::write(path(file), MARK).expect("a file");
        }
        let in_tmp = tempfile::NamedTempFile::new_in("/tmp").expect("a file in /tmp");
        fs::write(in_tmp.path(), MARK).expect("a file in /tmp");
        let name = SocketAddr::from_abstract_name(abstract_name(&folder)).expect("a name");
        let machine = Self {
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            tcp_v6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            by_path: UnixListener::bind(path("service.sock")).expect("a socket"),
            by_name: UnixListener::bind_addr(&name).expect("an abstract socket"),
            bystander: Command::new("sleep").arg("600").spawn().expect("a bystander"),
            in_tmp,
            folder,
        };
        for listener in [Some(&machine.tcp), machine.tcp_v6.as_ref()].into_iter().flatten() {
            listener.set_nonblocking(true).expect("a listener that does not wait");
        }
        machine.udp.set_nonblocking(true).expect("a socket that does not wait");
        for listener in [&machine.by_path, &machine.by_name] {
            listener.set_nonblocking(true).expect("a listener that does not wait");
        }
        machine
    }

    /// Nothing that was tried has arrived anywhere, and nobody was hit.
    #[track_caller]
    pub fn nobody_came(&mut self) {
        let ended = self.bystander.try_wait().expect("how the bystander is");
        assert_eq!(ended, None, "a process of the machine was ended");
        assert!(self.tcp.accept().is_err() && self.tcp_v6.as_ref().is_none_or(|tcp| tcp.accept().is_err()));
        assert!(self.udp.recv(&mut [0; 8]).is_err());
        assert!(self.by_path.accept().is_err() && self.by_name.accept().is_err());
    }

    /// For a sandbox: the outside is where it usually is. `holds_memory`: whether the kernel stops
    /// memory at its limit, however quickly it fills.
    pub fn seen_from_inside(&self, holds_memory: bool) -> Told {
        let mut told = self.told();
        told.values
            .extend(OUTSIDE.map(|(number, targets)| (number, format!("to={targets}"))));
        told.values.push((36, "ping=198.51.100.1 2001:db8::1".to_owned()));
        told.values.push((47, "to=tcp/198.51.100.1/443".to_owned()));
        // Limits that are watched need a moment to be seen.
        told.values
            .extend([56, 57, 58].map(|number| (number, "wait=1".to_owned())));
        told.values.push((54, "seconds=7".to_owned()));
        if holds_memory {
            told.values.push((56, "fast=1".to_owned()));
        }
        told
    }

    /// For a bare attempt: a server of the test stands in for whatever is far away.
    pub fn seen_from_outside(&self) -> Told {
        let mut told = self.told();
        let here = format!("to=tcp/127.0.0.1/{}", self.port());
        told.values
            .extend([35, 37, 38, 39, 47].map(|number| (number, here.clone())));
        told.values.push((36, "ping=127.0.0.1 ::1".to_owned()));
        told.values.push((37, "only=1".to_owned()));
        told.values.push((54, "seconds=1".to_owned()));
        told
    }

    fn port(&self) -> u16 {
        self.tcp.local_addr().expect("an address").port()
    }

    fn told(&self) -> Told {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut own_port = format!("to=tcp/127.0.0.1/{}", self.port());
        if let Some(tcp) = &self.tcp_v6 {
            own_port.push_str(&format!(" tcp/::1/{}", tcp.local_addr().expect("an address").port()));
        }
        let mark = || format!("mark={MARK}");
        let outside = fs::read_link("/proc/self/ns/pid").expect("our namespace");
        let outside = format!("outside={}", outside.display());
        let values = [
            (2, format!("home={}", path("home"))),
            (3, format!("variable={VARIABLE}")),
            (4, format!("secret={} {}", path("token"), path("forgehand.sqlite"))),
            (4, mark()),
            (10, format!("tmp={}", self.in_tmp.path().display())),
            (10, mark()),
            (11, format!("workspace={}", path("workspace/secret"))),
            (11, mark()),
            (12, format!("database={}", path("forgehand.sqlite"))),
            (12, mark()),
            (13, format!("program={} {}", path("program"), helper().display())),
            (40, own_port),
            (41, format!("to=@{}", abstract_name(&self.folder))),
            (42, format!("to={}", path("service.sock"))),
            (43, format!("to={}", path("service.sock"))),
            (49, "most=200".to_owned()),
            (50, format!("marker={}", marker(50))),
            (51, outside.clone()),
            (53, outside),
            (54, format!("marker={}", marker(54))),
            (56, "mib=256".to_owned()),
            (57, "mib=64".to_owned()),
            (58, "files=30000".to_owned()),
            (59, "files=9000".to_owned()),
            (60, "mib=16".to_owned()),
        ];
        Told { values: values.into() }
    }
}

/// As no other machine of this test program has it.
fn abstract_name(folder: &tempfile::TempDir) -> String {
    let name = folder.path().file_name().expect("a name");
    format!("forgehand-escape-{}", name.to_string_lossy())
}

/// Number and values of an attempt.
pub fn arguments(number: u8, told: &Told) -> Vec<String> {
    let own = told.values.iter().filter(|(of, _)| *of == number);
    [number.to_string()]
        .into_iter()
        .chain(own.map(|(_, value)| value.clone()))
        .collect()
}

/// Runs an attempt outside of a sandbox; nothing where that would do harm.
pub fn bare(attempt: &Attempt, arguments: &[String]) -> Option<Verdict> {
    let wrapper: &[&str] = match attempt.bare {
        Bare::Plainly | Bare::OpenProxy => &[],
        Bare::MountSpace => &["unshare", "--mount", "--"],
        Bare::ProcessSpace => &[
            "unshare",
            "-pf",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            "sleep 30 & \"$@\"; true",
            "sh",
        ],
        Bare::WithDescriptor => &["sh", "-c", "exec \"$@\" 5</dev/null", "sh"],
        Bare::BelowShell => &["sh", "-c", "\"$@\"; true", "sh"],
        Bare::Never(_) => return None,
    };
    let folder = scratch();
    let argv: Vec<&str> = wrapper
        .iter()
        .copied()
        .chain(program().to_str())
        .chain(arguments.iter().map(String::as_str))
        .collect();
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().expect("the attempt");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    match attempt.number {
        50 => Some(left_behind(&output)),
        _ => verdict(attempt.number, &output),
    }
}

/// A daemon that lives on got out; it is ended.
fn left_behind(output: &str) -> Verdict {
    let is_it = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.starts_with("escape\0") && line.contains(&marker(50))
        })
    };
    let found = fs::read_dir("/proc").expect("/proc").flatten().find(is_it);
    let pid = found.and_then(|entry| entry.file_name().to_str()?.parse().ok());
    match pid.and_then(rustix::process::Pid::from_raw) {
        Some(pid) => {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("its end");
            Verdict::Escaped(output.to_owned())
        }
        None => Verdict::Blocked(vec![output.to_owned()]),
    }
}
