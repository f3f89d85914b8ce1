//! A model server that nobody here wrote: aimock (npm `@copilotkit/aimock`), started on a free port
//! with fixtures of our own.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The server. It stops when it is dropped.
pub struct Aimock {
    process: Child,
    url: String,
}

/// The folder of the npm package.
fn folder() -> PathBuf {
    std::env::var_os("FORGEHAND_TEST_AIMOCK").map(PathBuf::from).expect(
        "FORGEHAND_TEST_AIMOCK must name the folder of the npm package @copilotkit/aimock; start the tests with \
         tests/run, or run `npm install @copilotkit/aimock` and point to it",
    )
}

impl Aimock {
    /// Starts the server and waits until it listens.
    pub fn start() -> Self {
        let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/facts/aimock.json");
        let mut process = Command::new("node")
            .arg(folder().join("dist/cli.js"))
            .args(["-h", "127.0.0.1", "-p", "0", "--strict", "--chunk-size", "7", "-f"])
            .arg(fixtures)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (found, url) = mpsc::channel();
        // Reads on after the address was found, so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("listening on ") {
                    drop(found.send(url.trim().to_owned()));
                }
            }
        });
        match url.recv_timeout(Duration::from_secs(60)) {
            Ok(url) => Self { process, url },
            Err(_) => {
                drop(process.kill());
                panic!("aimock does not say where it listens");
            }
        }
    }

    /// Its base address.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
