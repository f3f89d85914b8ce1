//! A PostgreSQL of the benchmark's own, on disk and with every promise of durability kept, so that
//! what is measured is what a careful operator gets. Needs `initdb`, `pg_ctl` and `pgbench`.
//! Never touches a cluster that is there already.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forgehand::secret::Secret;

/// A running cluster; ended and removed when dropped.
pub struct Cluster {
    bin: PathBuf,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Makes and starts one, or says what is missing.
    pub fn start() -> Result<Self, String> {
        let bin = newest_bin().ok_or("no PostgreSQL below /usr/lib/postgresql; install it to measure on it")?;
        let folder = tempfile::Builder::new()
            .prefix("forgehand-bench-")
            .tempdir_in("/var/tmp")
            .map_err(|error| error.to_string())?;
        let cluster = Self { bin, folder };
        run(Command::new("chmod").arg("711").arg(cluster.folder.path()))?;
        let home = cluster.folder.path().join("pg");
        std::fs::create_dir(&home).map_err(|error| error.to_string())?;
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&home))?;
        }
        let data = home.join("data");
        run(cluster.program("initdb").arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]))?;
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c max_connections=200 -c shared_buffers=512MB \
             -c max_wal_size=4GB -c checkpoint_timeout=15min",
            home.display()
        );
        run(cluster
            .program("pg_ctl")
            .arg("-D")
            .arg(&data)
            .arg("-l")
            .arg(home.join("log"))
            .args(["-w", "-o"])
            .arg(options)
            .arg("start"))?;
        Ok(cluster)
    }

    /// Where its socket is.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    /// A new database.
    pub fn database(&self, name: &str) -> Result<Secret, String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(Secret::new(format!(
            "postgresql:///{name}?host={}&user=postgres",
            self.socket().display()
        )))
    }

    /// Runs statements in a database.
    pub fn sql(&self, database: &str, statements: &str) -> Result<(), String> {
        run(self
            .program("psql")
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-h"])
            .arg(self.socket())
            .args(["-c", statements]))
        .map(drop)
    }

    /// One of its programs, as the user that the cluster belongs to.
    pub fn program(&self, name: &str) -> Command {
        let path = self.bin.join(name);
        if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
            command.arg(path).current_dir("/");
            command
        } else {
            Command::new(path)
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.socket().join("data");
        let _ = run(self
            .program("pg_ctl")
            .arg("-D")
            .arg(data)
            .args(["-m", "immediate", "stop"]));
    }
}

/// Runs a program to its end and gives what it said.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

fn newest_bin() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    versions.sort_by_key(|bin| version(bin));
    versions.pop()
}

fn version(bin: &Path) -> u32 {
    let name = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}
