//! The helper in a sandbox that another server made: `settle` lays down the run's files, and `remote`
//! does one task. Started by that server's daemon, which knows no input and only lines of text, so
//! that orders are read from a file that grows and all that is said goes out in lines of base64.
//! Never trusts that the sandbox is hard: it builds its own walls and says which could not stand.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::DumpableBehavior;

use super::contained::{self, Behind, LONGEST_HOLD, Surroundings};
use super::identity::Walls;
use super::raw;
use super::spec::{Failure, Step};

/// Stage that unpacks an archive of ours.
pub(super) const SETTLE: &str = "settle";

/// Stage that does one task.
pub(super) const REMOTE: &str = "remote";

/// Stage that ends everything of the commands' user.
pub(super) const SWEEP: &str = "sweep";

/// Stage that ends everything of the user who carries the way out.
pub(super) const SWEEP_WAY: &str = "sweep-way";

/// The user of all commands.
pub(super) const USER: u32 = 10_001;

/// First letter of a line that carries a piece of the reports.
pub(super) const REPORT: char = 'r';

/// First letter of a line that carries a piece of the command's output.
pub(super) const OUTPUT: char = 'o';

/// First letter of a line with the number of bytes of output that are left out before the next.
pub(super) const LEFT_OUT: char = 's';

/// Bytes in a line; daemons read lines into memory.
const LINE_BYTES: usize = 24 * 1024;

/// The daemon keeps all output in files, so that whoever writes without end is cut off here: the
/// beginning goes out as it comes, and of the rest the end.
const MAX_SENT: u64 = 32 * 1024 * 1024;
const MAX_TAIL: usize = 1024 * 1024;

/// How often the file with orders is looked at once it was read to its end.
const LOOK_AGAIN: Duration = Duration::from_millis(40);

/// How long everything may take to end.
const LONGEST_SWEEP: Duration = Duration::from_secs(5);

/// How long output may take to pass once its command is gone.
const DRAIN: Duration = Duration::from_secs(2);

/// Unpacks an archive from standard input over the root, with the owners that it names.
pub(super) fn settle() -> ExitCode {
    let mut archive = tar::Archive::new(std::io::stdin());
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_overwrite(true);
    ended(archive.unpack("/").step(|| "unpack the files of the run".to_owned()))
}

/// Ends every process of a user; whoever forks meanwhile is found in the next round.
pub(super) fn sweep(user: u32) -> ExitCode {
    let started = Instant::now();
    while started.elapsed() < LONGEST_SWEEP {
        let left = processes_of(user);
        if left.is_empty() {
            return ExitCode::SUCCESS;
        }
        for pid in left {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let left = processes_of(user).len();
    ended(Err(Failure::broken(format!(
        "{left} processes in the sandbox do not end"
    ))))
}

/// Those that are alive: what ended and was not collected by its parent is no danger.
fn processes_of(user: u32) -> Vec<rustix::process::Pid> {
    let wanted = |status: &str| {
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
        };
        let owner = field("Uid:").split_whitespace().nth(1).and_then(|id| id.parse().ok());
        owner == Some(user) && !field("State:").trim().starts_with(['Z', 'X'])
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            wanted(&status).then(|| rustix::process::Pid::from_raw(pid))?
        })
        .collect()
}

/// Does one task.
pub(super) fn run() -> ExitCode {
    ended(task())
}

/// Says why, if it went wrong.
pub(super) fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}", failure.into_problem());
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::disallowed_methods)] // the environment of the image, of which this process is all there is
fn task() -> Result<(), Failure> {
    let prepare = || "prepare the helper".to_owned();
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step(prepare)?;
    raw::close_all_on_exec().step(prepare)?;
    let _ = rustix::process::setsid();
    let out = std::io::stdout().as_fd().try_clone_to_owned().step(prepare)?;
    let lines = Lines(Arc::new(Mutex::new(File::from(out))));
    let (reader, writer) = std::io::pipe().step(prepare)?;
    rustix::stdio::dup2_stdout(&writer).step(prepare)?;
    rustix::stdio::dup2_stderr(&writer).step(prepare)?;
    drop(writer);
    let (passed, has_passed) = mpsc::channel();
    let output = lines.clone();
    std::thread::spawn(move || {
        pass_output(reader, &output);
        let _ = passed.send(());
    });
    let orders = Orders {
        file: std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from)
            .step(prepare)?,
        until: Instant::now() + LONGEST_HOLD,
    };
    let surroundings = Surroundings {
        look: look_around,
        behind: Behind::Unknown,
        environment: super::inherited::of_image(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        ),
    };
    let done = contained::serve(orders, lines, surroundings);
    // What the command left open would keep the pipe from its end.
    let nothing = File::open("/dev/null").step(prepare)?;
    rustix::stdio::dup2_stdout(&nothing).step(prepare)?;
    rustix::stdio::dup2_stderr(&nothing).step(prepare)?;
    let _ = has_passed.recv_timeout(DRAIN);
    done
}

/// What this process may do as it was started. The daemon changes its user; the rest are our own
/// walls, which are built afterwards.
pub(super) fn look_around() -> Result<Walls, Failure> {
    let status = std::fs::read_to_string("/proc/self/status").step(|| "read the state of the sandbox".to_owned())?;
    if rustix::process::geteuid().is_root() || !contained::has_no_capabilities(&status) {
        return Err(Failure::refused("commands in the sandbox would have capabilities"));
    }
    let mut walls = Walls::default();
    walls.layer("an ordinary user without capabilities");
    Ok(walls)
}

/// A file that grows while it is read; its end is only a pause.
struct Orders {
    file: File,
    until: Instant,
}

impl Read for Orders {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.file.read(buffer)? {
                0 if !buffer.is_empty() && Instant::now() < self.until => std::thread::sleep(LOOK_AGAIN),
                length => return Ok(length),
            }
        }
    }
}

/// Lines of base64, from several threads.
#[derive(Clone)]
struct Lines(Arc<Mutex<File>>);

impl Lines {
    fn say(&self, kind: char, bytes: &[u8]) -> std::io::Result<()> {
        for piece in bytes.chunks(LINE_BYTES) {
            self.line(&format!("{kind}{}\n", BASE64_STANDARD.encode(piece)))?;
        }
        Ok(())
    }

    fn line(&self, line: &str) -> std::io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }
}

/// What is written here are reports.
impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.say(REPORT, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Passes on what the command writes, as it comes; too much is cut down to its two ends.
fn pass_output(mut from: impl Read, to: &Lines) {
    let mut block = vec![0; 64 * 1024];
    let (mut sent, mut left_out, mut tail) = (0, 0, VecDeque::new());
    while let Ok(length @ 1..) = from.read(&mut block) {
        let bytes = &block[..length];
        if sent < MAX_SENT {
            sent += length as u64;
            if to.say(OUTPUT, bytes).is_err() {
                break;
            }
            continue;
        }
        tail.extend(bytes);
        let surplus = tail.len().saturating_sub(MAX_TAIL);
        left_out += surplus as u64;
        tail.drain(..surplus);
    }
    if left_out > 0 {
        let _ = to.line(&format!("{LEFT_OUT}{left_out}\n"));
    }
    let _ = to.say(OUTPUT, tail.make_contiguous());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came through, as the other side reads it.
    fn passed(bytes: &[u8]) -> (Vec<u8>, u64) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let lines = Lines(Arc::new(Mutex::new(file.reopen().expect("the file"))));
        pass_output(bytes, &lines);
        let (mut kept, mut left_out) = (Vec::new(), 0);
        for line in std::fs::read_to_string(file.path()).expect("lines").lines() {
            match line.split_at(1) {
                ("o", base64) => kept.extend(BASE64_STANDARD.decode(base64).expect("base64")),
                ("s", number) => left_out += number.parse::<u64>().expect("a number"),
                other => panic!("{other:?}"),
            }
        }
        (kept, left_out)
    }

    #[test]
    fn output_passes_whole_until_it_is_too_much() {
        assert_eq!(passed(b"a\0\xff\n"), (b"a\0\xff\n".to_vec(), 0));
        assert_eq!(passed(b""), (Vec::new(), 0));
        let mut much = vec![b'x'; usize::try_from(MAX_SENT).unwrap() + 3 * MAX_TAIL];
        much.extend_from_slice(b"the end");
        let (kept, left_out) = passed(&much);
        assert!(kept.ends_with(b"the end"));
        assert_eq!(kept.len() as u64 + left_out, much.len() as u64);
        assert!(kept.len() as u64 <= MAX_SENT + MAX_TAIL as u64 + 64 * 1024);
    }

    #[test]
    fn a_file_of_orders_is_read_as_it_grows() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut orders = Orders {
            file: file.reopen().expect("the file"),
            until: Instant::now() + Duration::from_secs(20),
        };
        let mut writer = file.reopen().expect("the file");
        let reading = std::thread::spawn(move || {
            let mut order = [0; 2];
            orders.read_exact(&mut order).map(|()| order)
        });
        writer.write_all(b"T").expect("an order");
        writer.write_all(b"K").expect("an order");
        assert_eq!(reading.join().expect("a thread").expect("orders"), *b"TK");
    }
}
