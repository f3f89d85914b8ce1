//! A PostgreSQL server of a story's own, which may be restarted, followed by a second one and lost.
//! Called by the stories of database faults. Never the server of the other tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use forgehand::secret::Secret;

/// A server on a private socket.
pub struct Cluster {
    folder: tempfile::TempDir,
    bin: PathBuf,
}

impl Cluster {
    /// A new, running one.
    pub async fn start() -> Self {
        let cluster = Self::place();
        let data = cluster.data();
        cluster
            .run(
                "initdb",
                &[
                    "-D",
                    &data,
                    "-U",
                    "postgres",
                    "-A",
                    "trust",
                    "--no-sync",
                    "-E",
                    "UTF8",
                    "--locale=C",
                ],
            )
            .await;
        cluster
            .configure("wal_level=replica\nmax_wal_senders=4\nfsync=off\nshared_buffers=32MB\nmax_connections=100\n");
        cluster.pg_ctl(&["start"]).await;
        cluster
    }

    /// A second server that follows this one, as it is now and as it goes on.
    pub async fn follower(&self) -> Self {
        let follower = Self::place();
        let (data, from) = (
            follower.data(),
            format!("host={} user=postgres", self.folder().display()),
        );
        let arguments = [
            "-D",
            &data,
            "-d",
            &from,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ];
        follower.run("pg_basebackup", &arguments).await;
        follower.configure("");
        follower.pg_ctl(&["start"]).await;
        follower
    }

    fn place() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::Builder::new()
            .prefix("forgehand-pg-")
            .tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let bin = bin();
        let cluster = Self { folder, bin };
        std::fs::create_dir(cluster.folder()).unwrap();
        if is_root() {
            let given = Command::new("chown")
                .arg("postgres")
                .arg(cluster.folder())
                .status()
                .unwrap();
            assert!(given.success(), "there is a user postgres");
        }
        cluster
    }

    /// Where its socket is.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    fn data(&self) -> String {
        self.folder().join("data").display().to_string()
    }

    /// Address of its first database.
    pub fn address(&self) -> Secret {
        Secret::new(format!(
            "postgresql:///postgres?host={}&user=postgres",
            self.folder().display()
        ))
    }

    fn configure(&self, more: &str) {
        use std::io::Write as _;
        let file = Path::new(&self.data()).join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
        let folder = self.folder().display().to_string();
        writeln!(file, "listen_addresses=''\nunix_socket_directories='{folder}'\n{more}").unwrap();
    }

    /// As after a crash of the server: nothing is flushed, all sessions end.
    pub async fn restart(&self) {
        self.pg_ctl(&["restart", "-m", "immediate"]).await;
    }

    /// Ends it at once.
    pub async fn lose(&self) {
        self.pg_ctl(&["stop", "-m", "immediate"]).await;
    }

    /// Makes a follower a server of its own.
    pub async fn promote(&self) {
        self.pg_ctl(&["promote"]).await;
    }

    async fn pg_ctl(&self, arguments: &[&str]) {
        let (data, log) = (self.data(), self.folder().join("log").display().to_string());
        let mut all = vec!["-D", &data, "-w", "-t", "30"];
        if !matches!(arguments[0], "stop" | "promote") {
            all.extend(["-l", &log]);
        }
        all.extend(arguments);
        self.run("pg_ctl", &all).await;
    }

    async fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = tokio::process::Command::from(as_postgres(&self.bin.join(program)));
        command
            .args(arguments)
            .current_dir("/")
            .stdin(std::process::Stdio::null());
        // A server that goes on must not hold the pipe of the one who started it.
        let said = tempfile::NamedTempFile::new().unwrap();
        command.stdout(said.reopen().unwrap()).stderr(said.reopen().unwrap());
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), command.status()).await;
        let ended = ended.expect("it ends in time").unwrap();
        let said = std::fs::read_to_string(said.path()).unwrap();
        assert!(ended.success(), "{program} {arguments:?}: {said}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = as_postgres(&self.bin.join("pg_ctl"))
            .args(["-D", &self.data(), "-m", "immediate", "stop"])
            .current_dir("/")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        drop(stopped); // it may be stopped already
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// PostgreSQL does not run as root.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"])
        .arg(program);
    command
}

/// The newest one that is installed.
fn bin() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().expect("PostgreSQL is installed, as tests/run does").1
}
