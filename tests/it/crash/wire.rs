//! The wire between one process and GitHub, which keeps what the process says: whatever a worker that
//! woke up too late would send passes here, before anybody looks at what it means.
//! Never holds anything up.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::process::{Place, Site};

/// Of each piece, what a failure shows.
const SHOWN: usize = 100;

/// One process's way to GitHub, by the interface and by git.
pub struct Wire {
    address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Wire {
    /// Leads to the GitHub of a site.
    pub async fn lay(site: &Site) -> Self {
        let web = site.double.web_url();
        let to: SocketAddr = web.strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, said) = (listener.local_addr().unwrap(), Arc::default());
        let accepting = accept(listener, to, Arc::clone(&said));
        Self {
            address,
            said,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }

    /// Where a process stands that reaches GitHub in this way.
    pub fn place(&self, site: &Site) -> Place {
        let (web, here) = (site.double.web_url(), format!("http://{}", self.address));
        Place {
            api: site.double.api_url().replacen(&web, &here, 1),
            web: here,
            ..site.here()
        }
    }

    /// How many pieces were sent to GitHub so far.
    pub fn count(&self) -> usize {
        self.said.lock().unwrap().len()
    }

    /// The beginnings of those after the first so many.
    pub fn said_after(&self, count: usize) -> Vec<String> {
        self.said.lock().unwrap()[count..].to_vec()
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, said: Arc<Mutex<Vec<String>>>) {
    loop {
        let Ok((process, _)) = listener.accept().await else {
            continue;
        };
        let said = Arc::clone(&said);
        tokio::spawn(async move {
            if let Ok(github) = TcpStream::connect(to).await {
                let _ = carry(process, github, &said).await;
            }
        });
    }
}

/// Ends with either side.
async fn carry(process: TcpStream, github: TcpStream, said: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (mut from_process, mut to_process) = process.into_split();
    let (mut from_github, mut to_github) = github.into_split();
    let forth = async {
        let mut piece = vec![0; 64 * 1024];
        loop {
            let length = from_process.read(&mut piece).await?;
            if length == 0 {
                return to_github.shutdown().await;
            }
            let beginning = &piece[..length.min(SHOWN)];
            said.lock()
                .unwrap()
                .push(String::from_utf8_lossy(beginning).into_owned());
            to_github.write_all(&piece[..length]).await?;
        }
    };
    let back = async {
        copy(&mut from_github, &mut to_process).await?;
        to_process.shutdown().await
    };
    tokio::try_join!(forth, back).map(|_| ())
}
