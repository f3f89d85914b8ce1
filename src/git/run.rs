//! One git process under the hardened profile: environment built from empty, absolute program,
//! configuration pinned on the command line, own process group, deadline and bounded output.
//! Called by everything in `git`. Never runs a shell, never inherits configuration, and never lets
//! git reach the network unless the call names a remote.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::GitError;
use super::remote::Target;
use crate::right::Right;
use crate::text;

/// Keys that decide whether git runs programs, follows links or believes what it receives. They
/// stand on the command line because that beats every configuration file.
const PROFILE: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.attributesFile=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.autocrlf=false",
    "credential.helper=",
    "http.followRedirects=false",
    // A server that goes silent is given up before the deadline of the whole call.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "fetch.unpackLimit=1",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.bareRepository=explicit",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "log.showSignature=false",
    "protocol.ext.allow=never",
    "uploadpack.packObjectsHook=",
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_LFS_SKIP_SMUDGE", "1"),
];

/// Longest time of a call that stays on this machine.
pub(super) const LOCAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Output kept of calls that answer with a line or two.
const SMALL_OUTPUT: usize = 64 * 1024;
/// Error output that is read into memory; the rest is drained and dropped.
const MAX_STDERR: usize = 64 * 1024;
/// Longest record of output that is read piece by piece: a path with its blob, and to spare.
const MAX_RECORD: u64 = 64 * 1024;
/// Error output that reaches a person.
const SHOWN_STDERR: usize = 2 * 1024;
/// Largest file that git may write, so that an endless pack cannot fill the disk.
const MAX_WRITTEN_FILE: u64 = 20 << 30;

/// How a call ended, when it was not killed for a limit.
#[derive(Debug)]
pub(super) struct Output {
    /// Standard output, at most as long as the call allowed.
    pub(super) stdout: Vec<u8>,
    /// Standard error as plain text.
    pub(super) stderr: String,
    /// Whether there was more output than allowed; git was killed then.
    pub(super) truncated: bool,
    /// Exit code; `None` after a signal.
    pub(super) code: Option<i32>,
}

impl Output {
    /// Standard output as trimmed text.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

/// A git call being put together.
pub(super) struct Call<'a> {
    program: &'a Path,
    right: &'a Right,
    git_dir: Option<&'a Path>,
    config: Vec<String>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    stdin_file: Option<std::fs::File>,
    remote: Option<&'a Target>,
    protocols: &'static str,
    timeout: Duration,
    max_stdout: usize,
    max_file: u64,
    max_memory: Option<u64>,
}

impl<'a> Call<'a> {
    /// A call of `program` with the subcommand and its fixed options.
    pub(super) fn new(program: &'a Path, right: &'a Right, fixed: &[&str]) -> Self {
        Self {
            program,
            right,
            git_dir: None,
            config: Vec::new(),
            arguments: fixed.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            stdin: Vec::new(),
            stdin_file: None,
            remote: None,
            protocols: "none",
            timeout: LOCAL_TIMEOUT,
            max_stdout: SMALL_OUTPUT,
            max_file: MAX_WRITTEN_FILE,
            max_memory: None,
        }
    }

    /// The repository, always named and never searched for.
    pub(super) fn git_dir(mut self, path: &'a Path) -> Self {
        self.git_dir = Some(path);
        self
    }

    /// One more pinned configuration value, stronger than the profile.
    pub(super) fn config(mut self, assignment: impl Into<String>) -> Self {
        self.config.push(assignment.into());
        self
    }

    /// One more argument; callers put `--` or `--end-of-options` before anything variable.
    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// One more environment variable.
    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Standard input.
    pub(super) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Standard input from where an open file stands.
    pub(super) fn stdin_file(mut self, file: std::fs::File) -> Self {
        self.stdin_file = Some(file);
        self
    }

    /// The remote this call may talk to; also known to git as `origin`.
    pub(super) fn remote(mut self, target: &'a Target) -> Self {
        self.protocols = target.protocol();
        self.config.push(format!("remote.origin.url={}", target.url()));
        self.environment.extend(target.credentials());
        self.remote = Some(target);
        self
    }

    /// Deadline.
    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Most bytes of standard output.
    pub(super) fn max_stdout(mut self, bytes: usize) -> Self {
        self.max_stdout = bytes;
        self
    }

    /// Most bytes of a file it writes, and of memory: for input that nobody vouches for.
    pub(super) fn limits(mut self, max_file: u64, max_memory: u64) -> Self {
        self.max_file = max_file;
        self.max_memory = Some(max_memory);
        self
    }

    /// Runs it; anything but exit code 0 is an error, and so is too much output.
    pub(super) async fn run(self) -> Result<Output, GitError> {
        let name = self.name();
        let remote = self.remote;
        let max = self.max_stdout;
        let output = self.output().await?;
        if output.truncated {
            return Err(GitError::Failed(format!("{name}: more than {max} bytes of output")));
        }
        if output.code == Some(0) {
            return Ok(output);
        }
        Err(super::remote::classify(&name, &output, remote.is_some()))
    }

    /// Runs it and leaves the judgement of exit code and output to the caller.
    pub(super) async fn output(mut self) -> Result<Output, GitError> {
        let name = self.name();
        // Right before: whoever waited for its turn may have waited for too long.
        if self.remote.is_some() && !self.right.holds() {
            return Err(GitError::Withheld(name));
        }
        let stdin = std::mem::take(&mut self.stdin);
        let mut command = self.command();
        command.stdin(self.stdin_file.take().map_or_else(Stdio::piped, Stdio::from));
        let mut child = command
            .spawn()
            .map_err(|error| GitError::Failed(format!("{}: cannot be started: {error}", self.program.display())))?;
        let group = Group::of(&child);
        self.limit(pid_of(&child));
        let (max_stdout, scrub) = (self.max_stdout, self.remote);
        let talk = async {
            let input = child.stdin.take();
            let (out, err) = (child.stdout.take(), child.stderr.take());
            let (_, stdout, stderr) = tokio::join!(
                feed(input, stdin),
                collect(out, max_stdout, OnOverflow::Kill(&group)),
                collect(err, MAX_STDERR, OnOverflow::Drain),
            );
            (stdout, stderr, child.wait().await)
        };
        let talked = tokio::time::timeout(self.timeout, talk).await;
        let Ok(((stdout, truncated), (stderr, _), status)) = talked else {
            let problem = format!("{name}: took longer than {}", text::duration_in_words(self.timeout));
            return Err(match self.remote {
                Some(_) => GitError::Unavailable(problem),
                None => GitError::Failed(problem),
            });
        };
        let status = status.map_err(|error| GitError::Failed(format!("{name}: {error}")))?;
        group.done();
        let stderr = text::plain_output(&String::from_utf8_lossy(&stderr));
        let stderr = scrub.map_or(stderr.clone(), |target| target.scrub(&stderr));
        Ok(Output {
            stdout,
            stderr: text::cap_middle(stderr.trim(), SHOWN_STDERR),
            truncated,
            code: status.code(),
        })
    }

    /// Starts it for a caller that reads the output while it comes, on a thread of its own.
    pub(super) fn stream(mut self) -> Result<Stream, GitError> {
        let name = self.name();
        let mut command = self.command().into_std();
        command.stdin(self.stdin_file.take().map_or_else(Stdio::null, Stdio::from));
        // What is wrong with one object is told on standard output; nobody would read this.
        command.stderr(Stdio::null());
        let fail = |problem: String| GitError::Failed(format!("{name}: {problem}"));
        let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = Group(pid);
        self.limit(pid);
        let stdout = child.stdout.take().ok_or_else(|| fail("no output".to_owned()))?;
        let until = Instant::now() + self.timeout;
        Ok(Stream {
            stdout: BufReader::with_capacity(256 * 1024, Timed { stdout, until }),
            child,
            group: Some(group),
        })
    }

    /// What to call this call in an error: `git fetch`, with the remote if there is one.
    fn name(&self) -> String {
        let verb = self.arguments.first().map(|verb| verb.to_string_lossy().into_owned());
        let verb = verb.unwrap_or_default();
        match self.remote {
            Some(target) => format!("git {verb} with {}", target.url()),
            None => format!("git {verb}"),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command
            .env_clear()
            .envs(ENVIRONMENT.iter().copied())
            .env("GIT_ALLOW_PROTOCOL", self.protocols)
            .current_dir("/")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if self.remote.is_none() {
            command.env("GIT_NO_LAZY_FETCH", "1");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        for assignment in PROFILE.iter().copied().chain(self.config.iter().map(String::as_str)) {
            command.arg("-c").arg(assignment);
        }
        if let Some(git_dir) = self.git_dir {
            let mut option = OsString::from("--git-dir=");
            option.push(git_dir);
            command.arg(option);
        }
        command.args(&self.arguments);
        #[cfg(target_os = "linux")]
        super::orphan::die_with_us(&mut command);
        command
    }

    /// Sets the kernel's limits on the fresh process; its own children inherit them.
    #[cfg(target_os = "linux")]
    fn limit(&self, pid: Option<Pid>) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let Some(pid) = pid else { return };
        let exactly = |bytes| Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        // A process that is already gone has nothing left to limit.
        let _ = prlimit(Some(pid), Resource::Fsize, exactly(self.max_file));
        let _ = prlimit(Some(pid), Resource::Core, exactly(0));
        if let Some(bytes) = self.max_memory {
            let _ = prlimit(Some(pid), Resource::Data, exactly(bytes));
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn limit(&self, _pid: Option<Pid>) {}
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

/// The process group of a call; killed as a whole unless the call ended by itself.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(pid_of(child))
    }

    fn kill(&self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of a running git; it is killed when this is dropped.
pub(super) struct Stream {
    /// What it writes; a read fails at the deadline of the call.
    pub(super) stdout: BufReader<Timed>,
    child: std::process::Child,
    group: Option<Group>,
}

impl Stream {
    /// Its output cut at each `end`.
    pub(super) fn records(self, end: u8) -> Records {
        Records {
            stream: self,
            end,
            record: Vec::new(),
        }
    }
}

/// Output in records.
pub(super) struct Records {
    stream: Stream,
    end: u8,
    record: Vec<u8>,
}

impl Records {
    /// The next record without its end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, GitError> {
        self.record.clear();
        let mut from = (&mut self.stream.stdout).take(MAX_RECORD);
        let read = from.read_until(self.end, &mut self.record);
        read.map_err(|error| GitError::Failed(format!("git: {error}")))?;
        match self.record.pop() {
            None => Ok(None),
            Some(last) if last == self.end => Ok(Some(&self.record)),
            Some(_) => Err(GitError::Failed("git: the output ends in the middle".to_owned())),
        }
    }

    /// The next record without its end and without what is beyond `max` bytes.
    pub(super) fn next_cut(&mut self, max: u64) -> Result<Option<&[u8]>, GitError> {
        self.record.clear();
        let fail = |error: std::io::Error| GitError::Failed(format!("git: {error}"));
        let from = &mut self.stream.stdout;
        from.by_ref()
            .take(max)
            .read_until(self.end, &mut self.record)
            .map_err(fail)?;
        match self.record.last() {
            None => return Ok(None),
            Some(last) if *last == self.end => {
                self.record.pop();
            }
            Some(_) => {
                from.skip_until(self.end).map_err(fail)?;
            }
        }
        Ok(Some(&self.record))
    }

    /// Whether git was content, after the last record.
    pub(super) fn finish(mut self, of: &str) -> Result<(), GitError> {
        let status = self.stream.child.wait();
        if let Some(group) = self.stream.group.take() {
            group.done();
        }
        let status = status.map_err(|error| GitError::Failed(format!("git: {error}")))?;
        if status.success() {
            return Ok(());
        }
        Err(GitError::NotFound(of.to_owned()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            group.kill();
            let _ = self.child.wait();
            // The number may be somebody else's from here on.
            group.done();
        }
    }
}

/// A pipe that is read until a deadline.
pub(super) struct Timed {
    stdout: std::process::ChildStdout,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let left = self.until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| std::io::ErrorKind::TimedOut)?;
        let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => Err(std::io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => Err(std::io::ErrorKind::Interrupted.into()),
            Err(error) => Err(error.into()),
            Ok(_) => self.stdout.read(into),
        }
    }
}

enum OnOverflow<'a> {
    Kill(&'a Group),
    Drain,
}

async fn feed(stdin: Option<tokio::process::ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        // A git that stops reading early says why on its own error output.
        let _ = stdin.write_all(&bytes).await;
        let _ = stdin.shutdown().await;
    }
}

async fn collect(from: Option<impl AsyncRead + Unpin>, max: usize, overflow: OnOverflow<'_>) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let Some(mut from) = from else {
        return (kept, false);
    };
    let mut truncated = false;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return (kept, truncated),
            Ok(read) => read,
        };
        let room = max - kept.len();
        kept.extend_from_slice(&chunk[..read.min(room)]);
        if read > room {
            truncated = true;
            if let OnOverflow::Kill(group) = overflow {
                group.kill();
                return (kept, true);
            }
        }
    }
}

/// Folders where git is looked for; the service's own `PATH` does not matter.
const PLACES: &[&str] = &[
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
];

/// Oldest git that has everything the profile needs (`safe.bareRepository`, `cat-file -z`).
const OLDEST: (u32, u32) = (2, 39);

/// The first git that is new enough, and its version.
pub(super) fn find() -> Result<(PathBuf, String), GitError> {
    let mut seen = Vec::new();
    for program in PLACES.iter().map(|folder| Path::new(folder).join("git")) {
        if !program.is_file() {
            continue;
        }
        let version = version_of(&program);
        if version
            .as_deref()
            .and_then(parse_version)
            .is_some_and(|found| found >= OLDEST)
        {
            return Ok((program, version.unwrap_or_default()));
        }
        let version = version.unwrap_or_else(|| "does not tell its version".to_owned());
        seen.push(format!("{}: {version}", program.display()));
    }
    Err(GitError::Failed(format!(
        "git {}.{} or newer is needed in one of {}; found: {}. Install it from your distribution",
        OLDEST.0,
        OLDEST.1,
        PLACES.join(", "),
        if seen.is_empty() {
            "none".to_owned()
        } else {
            seen.join("; ")
        }
    )))
}

fn version_of(program: &Path) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(ENVIRONMENT.iter().copied())
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .ok()?;
    let text = text::plain_output(&String::from_utf8_lossy(&output.stdout));
    Some(text::cap_chars(text.trim().strip_prefix("git version ")?, 60))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: &str, expected: Option<(u32, u32)>) {
        assert_eq!(parse_version(version), expected, "{version}");
    }

    #[test]
    fn versions_of_all_vendors_are_understood() {
        check("2.47.3", Some((2, 47)));
        check("2.39.5 (Apple Git-154)", Some((2, 39)));
        check("2.51.0.windows.1", Some((2, 51)));
        check("3.0", Some((3, 0)));
        check("unknown", None);
    }
}
