//! A terminal for the program: a pseudo-terminal with a person's keys, and what its screen shows.
//! Never lets a control code pass that the program has no reason to write: it fails the test.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Longest time until something is on the screen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program at a terminal.
pub(super) struct Terminal {
    master: Arc<OwnedFd>,
    child: Child,
    columns: usize,
    written: Arc<(Mutex<Written>, Condvar)>,
    before: Termios,
}

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Terminal {
    /// Starts a program at a terminal that is so wide.
    pub(super) fn start(mut command: Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let side = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
        let before = tcgetattr(side()).unwrap();
        // A session of its own, whose terminal this is: Ctrl-C is a key, as for people.
        let program = command.get_program().to_owned();
        let arguments: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(program).args(arguments).env_clear();
        for (name, value) in command.get_envs() {
            session.env(name, value.unwrap_or_default());
        }
        session.current_dir(command.get_current_dir().unwrap());
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            session.env("TERM", "xterm-256color");
        }
        command = session;
        let child = command
            .stdin(Stdio::from(side()))
            .stdout(Stdio::from(side()))
            .stderr(Stdio::from(side()))
            .spawn()
            .unwrap();
        drop(command);
        let terminal = Self {
            master: Arc::new(master),
            child,
            columns: usize::from(columns),
            written: Arc::default(),
            before,
        };
        terminal.read_on();
        terminal
    }

    fn read_on(&self) {
        let (master, written) = (self.master.clone(), self.written.clone());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            loop {
                // When nobody has the other side open any more, reading fails.
                let read = rustix::io::read(master.as_fd(), &mut part).unwrap_or(0);
                let mut all = written.0.lock().unwrap();
                all.bytes.extend_from_slice(&part[..read]);
                all.is_over = read == 0;
                written.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
    }

    /// Presses keys.
    pub(super) fn press(&self, keys: &str) {
        rustix::io::write(self.master.as_fd(), keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows something, and returns it.
    #[track_caller]
    pub(super) fn until(&self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut written = self.written.0.lock().unwrap();
        loop {
            let screen = shown(&written.bytes, self.columns);
            if screen.contains(part) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !written.is_over, "{part:?} never came:\n{screen}");
            written = self.written.1.wait_timeout(written, left).unwrap().0;
        }
    }

    /// Waits for the end: the exit code, what stays on the screen, and the bytes written. The
    /// terminal must be as it was.
    #[track_caller]
    pub(super) fn end(mut self) -> (Option<i32>, String, Vec<u8>) {
        let code = self.child.wait().unwrap().code();
        let mut written = self.written.0.lock().unwrap();
        while !written.is_over {
            let (next, waited) = self.written.1.wait_timeout(written, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "somebody still holds the terminal");
            written = next;
        }
        let after = tcgetattr(self.master.as_fd()).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (
                self.before.local_modes,
                self.before.input_modes,
                self.before.output_modes
            )
        );
        (code, shown(&written.bytes, self.columns), written.bytes.clone())
    }
}

/// The rows of a screen that never scrolls.
fn shown(bytes: &[u8], columns: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                assert_eq!(chars.next().unwrap_or('['), '[', "only CSI is ours: {text:?}");
                let mut number = String::new();
                let end = chars.by_ref().find(|c| {
                    if c.is_ascii_digit() {
                        number.push(*c);
                    }
                    !c.is_ascii_digit()
                });
                match end {
                    Some('A') => row -= number.parse::<usize>().unwrap().min(row),
                    Some('J') => {
                        assert_eq!(number, "", "only what is below is erased");
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    // Half a code may have been read.
                    Some('m') | None => {}
                    Some(other) => panic!("a control code {other:?} in {text:?}"),
                }
            }
            c if c.is_control() => panic!("a control character {c:?} in {text:?}"),
            c => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                while rows.len() <= row {
                    rows.push(Vec::new());
                }
                let length = rows[row].len().max(column + 1);
                rows[row].resize(length, ' ');
                rows[row][column] = c;
                column += 1;
            }
        }
        while rows.len() <= row {
            rows.push(Vec::new());
        }
    }
    let rows: Vec<String> = rows
        .iter()
        .map(|row| row.iter().collect::<String>().trim_end().to_owned())
        .collect();
    rows.join("\n")
}
