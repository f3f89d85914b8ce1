//! The web as tools reach it: real HTTP servers on loopback that count who came, a resolver that
//! answers as a test wants it, and the vetting between them.

mod pages;
pub(crate) mod site;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use forgehand::config::WebConfig;
use forgehand::net::{Address, Get, Net, NetError, Page, Reach, Resolve};

use site::{Answer, Site};

/// A resolver that gives these answers in this order.
struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn answering(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        Arc::new(Self {
            answers: Mutex::new(answers.iter().map(parse).collect()),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let next = self.answers.lock().unwrap().pop_front();
        next.ok_or_else(|| std::io::Error::other("no answer is left"))
    }
}

fn config(hosts: &[&str], private: &[String]) -> WebConfig {
    WebConfig {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        allow_private: private.to_vec(),
        timeout_seconds: Duration::from_secs(10),
        ..WebConfig::default()
    }
}

async fn get(net: &Net, url: &str, reach: Reach) -> Result<Page, NetError> {
    let address = Address::parse(url)?;
    net.get(Get {
        address: &address,
        reach,
        accept: "text/html",
        bearer: None,
    })
    .await
}

#[track_caller]
fn assert_refused(result: Result<Page, NetError>, words: &str) {
    match result {
        Err(NetError::Refused(why)) if why.contains(words) => {}
        other => panic!("{other:?}, and a refusal with {words:?} was expected"),
    }
}

#[tokio::test]
async fn n04_private_addresses_are_refused_however_they_are_written() {
    let site = Site::start(|_| Answer::text("secret")).await;
    let port = site.port();
    // Another server on the same machine is meant, not this one.
    let net = Net::new(&config(&[], &["127.0.0.1:1".to_owned()])).unwrap();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "localhost",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "metadata.google.internal",
        "10.0.0.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
    ] {
        for url in [format!("http://{host}/"), format!("http://{host}:{port}/")] {
            let result = get(&net, &url, Reach::Permitted).await;
            assert!(matches!(result, Err(NetError::Refused(_))), "{url}: {result:?}");
        }
    }
    assert_eq!(site.hits(), 0);
}

#[tokio::test]
async fn n05_s10_the_connection_goes_to_the_address_that_was_vetted() {
    let inside = Site::start(|_| Answer::text("inside")).await;
    let meant = Site::start_at("127.0.0.2", inside.port(), |_| Answer::text("meant")).await;
    let names = Names::answering(&[&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.1"]]);
    let private = format!("rebind.example:{}", inside.port());
    let net = Net::with_resolver(&config(&["rebind.example"], &[private]), names.clone()).unwrap();
    let url = format!("http://rebind.example:{}/", inside.port());
    let page = get(&net, &url, Reach::Listed).await.unwrap();
    assert_eq!((page.text.as_str(), page.url.as_str()), ("meant", url.as_str()));
    assert_eq!((meant.hits(), inside.hits()), (1, 0));
    assert_eq!(
        names.asked(),
        ["rebind.example"],
        "it is resolved once, for one connection"
    );
    assert_eq!(meant.requests()[0].host, format!("rebind.example:{}", inside.port()));
}

#[tokio::test]
async fn n05_one_private_address_among_public_ones_is_enough_to_refuse() {
    for answer in [
        &["127.0.0.1"][..],
        &["93.184.216.34", "127.0.0.1"],
        &["93.184.216.34", "::ffff:10.0.0.1"],
        &["2606:2800:220:1::1", "fe80::1"],
    ] {
        let names = Names::answering(&[answer]);
        let net = Net::with_resolver(&config(&["rebind.example"], &[]), names).unwrap();
        let result = get(&net, "http://rebind.example/", Reach::Listed).await;
        assert_refused(result, "no public address");
    }
    let net = Net::with_resolver(&config(&["gone.example"], &[]), Names::answering(&[&[]])).unwrap();
    let result = get(&net, "http://gone.example/", Reach::Listed).await;
    assert!(matches!(result, Err(NetError::Failed(_))), "{result:?}");
}

#[tokio::test]
async fn n02_without_hosts_nothing_is_reached_and_a_permitted_host_is_one_host() {
    let site = Site::start(|_| Answer::text("page")).await;
    let other = Site::start_at("127.0.0.2", 0, |_| Answer::text("other")).await;
    let private = [site.authority(), other.authority()];
    let net = Net::new(&config(&[], &private)).unwrap();
    assert_refused(get(&net, &site.url("/"), Reach::Listed).await, "not among the hosts");
    assert_eq!(site.hits(), 0);
    assert_eq!(get(&net, &site.url("/"), Reach::Permitted).await.unwrap().text, "page");
    let listed = Net::new(&config(&["127.0.0.1"], &private)).unwrap();
    assert_eq!(get(&listed, &site.url("/"), Reach::Listed).await.unwrap().text, "page");
    assert_refused(
        get(&listed, &other.url("/"), Reach::Listed).await,
        "not among the hosts",
    );
    assert_eq!(other.hits(), 0);
}

#[tokio::test]
async fn n06_every_redirect_is_vetted_again() {
    let other = Site::start_at("127.0.0.2", 0, |_| Answer::text("other")).await;
    let elsewhere = other.url("/");
    let to = elsewhere.clone();
    let site = Site::start(move |path| match path {
        "/" => Answer::text("home"),
        "/home" => Answer::redirect("/a/.."),
        "/other" => Answer::redirect(&to),
        "/metadata" => Answer::redirect("http://169.254.169.254/latest/meta-data/"),
        "/number" => Answer::redirect("http://2130706433/"),
        "/file" => Answer::redirect("file:///etc/passwd"),
        "/user" => Answer::redirect("http://a:b@127.0.0.1/"),
        "/none" => Answer::redirect(""),
        "/loop" => Answer::redirect("/loop"),
        path => match path.strip_prefix("/hop/").and_then(|hops| hops.parse::<u32>().ok()) {
            Some(0) => Answer::text("arrived"),
            Some(hops) => Answer::redirect(&format!("/hop/{}", hops - 1)),
            None => Answer::status(404),
        },
    })
    .await;
    let private = [site.authority(), other.authority()];
    let net = Net::new(&config(&["127.0.0.1"], &private)).unwrap();
    let fetch = async |path: &str| get(&net, &site.url(path), Reach::Permitted).await;

    assert_eq!(fetch("/home").await.unwrap().text, "home");
    assert_refused(fetch("/other").await, &elsewhere);
    for path in ["/metadata", "/number", "/file", "/user", "/none"] {
        let result = fetch(path).await;
        assert!(matches!(result, Err(NetError::Refused(_))), "{path}: {result:?}");
    }
    assert_eq!(other.hits(), 0);
    assert_eq!(fetch("/hop/5").await.unwrap().text, "arrived");
    let before = site.hits();
    let result = fetch("/loop").await;
    assert!(
        matches!(&result, Err(NetError::Failed(why)) if why.contains("more than 5")),
        "{result:?}"
    );
    assert_eq!(site.hits() - before, 6);

    // The other host is listed: then it may lead there.
    let both = Net::new(&config(&["127.0.0.1", "127.0.0.2"], &private)).unwrap();
    let page = get(&both, &site.url("/other"), Reach::Listed).await.unwrap();
    assert_eq!((page.text.as_str(), page.url.as_str()), ("other", elsewhere.as_str()));
}
