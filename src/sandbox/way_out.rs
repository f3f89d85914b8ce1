//! What leads out of a sandbox: the socket of a proxy that the service runs, and what makes programs
//! use it. Given to `open` by callers that have such a proxy. Never a way around it: there is no
//! other network.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Port on the sandbox's own loopback that leads to the proxy. Fixed, so that what a program wrote
/// into its settings holds for the next command, and below those that the kernel hands out.
pub const PROXY_PORT: u16 = 17_128;

/// The way out through a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayOut {
    /// The proxy's Unix socket on this machine.
    pub socket: PathBuf,
    /// Variables that every command gets.
    pub environment: Vec<(String, String)>,
    /// Files that appear read-only in the sandbox: absolute path and content.
    pub files: Vec<(PathBuf, String)>,
}

impl WayOut {
    /// With the variables by which programs find a proxy; both spellings, since programs differ.
    pub fn through_proxy(socket: PathBuf) -> Self {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let own = "localhost,127.0.0.1,::1";
        let pairs = [
            ("http_proxy", proxy.as_str()),
            ("https_proxy", &proxy),
            ("HTTP_PROXY", &proxy),
            ("HTTPS_PROXY", &proxy),
            ("no_proxy", own),
            ("NO_PROXY", own),
            // Node looks at the others only when it is told to.
            ("NODE_USE_ENV_PROXY", "1"),
        ];
        Self {
            socket,
            environment: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            files: Vec::new(),
        }
    }
}
