//! Every way in which a call can end badly, and what was written when it did.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::github::{Access, GitHub, GitHubError, RepoClient};
use forgehand::ids::IssueNumber;

use super::{REPO, Stage, count, name};

const COMMENTS: &str = "POST /repos/octo/widgets/issues/*/comments";

async fn write(stage: &Stage, number: IssueNumber, fault: Fault) -> GitHubError {
    stage.double.fault(COMMENTS, fault, 1);
    stage
        .client(Access::Write)
        .create_comment(number, "hello")
        .await
        .unwrap_err()
}

fn headers(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn rate_limits_say_until_when() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let reset = (super::noon().timestamp() + 900).to_string();
    for (fault_headers, message, seconds) in [
        (headers(&[("retry-after", "33")]), "slow down", 33),
        (
            headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)]),
            "API rate limit exceeded",
            900,
        ),
        (headers(&[]), "You have exceeded a secondary rate limit", 60),
    ] {
        for status in [403, 429] {
            let body = serde_json::json!({ "message": message }).to_string();
            let error = write(&stage, number, Fault::Status(status, fault_headers.clone(), body)).await;
            let GitHubError::RateLimited { until, .. } = error else {
                panic!("{status} {message}: {error}");
            };
            assert_eq!((until - super::noon()).num_seconds(), seconds, "{status} {message}");
        }
    }
    assert_eq!(stage.double.comments(REPO, number.0).unwrap().len(), 0);
}

#[tokio::test]
async fn the_hourly_limit_is_felt_and_ends() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    client.repository().await.unwrap();
    stage.double.spend_rate(4_998);
    let limited = client.repository().await;
    let Err(GitHubError::RateLimited { until, .. }) = limited else {
        panic!("{limited:?}");
    };
    stage.clock.advance((until - stage.clock.now()).to_std().unwrap());
    client.repository().await.unwrap();
}

#[tokio::test]
async fn a_write_with_an_unclear_end_is_sent_once() {
    let stage = Stage::set_with(|config| config.call_timeout_seconds = Duration::from_millis(400)).await;
    let number = stage.issue();
    let garbage = |status| Fault::ApplyThenStatus(status, Vec::new(), "<html>oops".to_owned());
    for (fault, applied) in [
        (Fault::ApplyThenReset, 1),
        (Fault::ApplyThenHang, 1),
        (garbage(201), 1),
        (garbage(502), 1),
        (Fault::ResetBeforeApply, 0),
        (Fault::Hang, 0),
        (Fault::status(503, "unavailable"), 0),
    ] {
        let words = format!("{fault:?}");
        let before = stage.double.comments(REPO, number.0).unwrap().len();
        let sent = count(&stage.double, "POST", "/comments");
        let error = write(&stage, number, fault).await;
        assert!(matches!(error, GitHubError::Unclear { .. }), "{words}: {error}");
        let after = stage.double.comments(REPO, number.0).unwrap().len();
        assert_eq!(after - before, applied, "{words}");
        assert_eq!(count(&stage.double, "POST", "/comments") - sent, 1, "{words}");
    }
}

#[tokio::test]
async fn a_read_is_tried_three_times_within_its_time() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    client.repository().await.unwrap();
    let before = count(&stage.double, "GET", REPO);
    stage
        .double
        .fault("GET /repos/octo/widgets", Fault::status(502, "bad gateway"), 1);
    stage
        .double
        .fault("GET /repos/octo/widgets", Fault::ResetBeforeApply, 1);
    client.repository().await.unwrap();
    assert_eq!(count(&stage.double, "GET", REPO) - before, 3);
    stage
        .double
        .fault("GET /repos/octo/widgets", Fault::status(502, "bad gateway"), 3);
    let error = client.repository().await.unwrap_err();
    assert!(matches!(error, GitHubError::Unclear { .. }), "{error}");
    assert_eq!(count(&stage.double, "GET", REPO) - before, 6);
}

#[tokio::test]
async fn nobody_there_is_told_from_no_answer() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let client = client_at(&stage, &format!("http://{address}/api/v3"));
    let error = client.create_comment(number, "hello").await.unwrap_err();
    assert!(matches!(error, GitHubError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn the_token_goes_to_no_other_host() {
    let stage = Stage::set().await;
    let trap = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = format!("http://{}/repos", trap.local_addr().unwrap());
    let client = stage.client(Access::Read);
    for status in [301, 302, 307] {
        let fault = Fault::Status(status, headers(&[("location", &elsewhere)]), String::new());
        stage.double.fault("GET /repos/octo/widgets", fault, 1);
        let error = client.repository().await.unwrap_err();
        assert!(error.to_string().contains("another host"), "{error}");
    }
    let number = stage.issue();
    let link = format!("<{elsewhere}>; rel=\"next\"");
    let fault = Fault::Status(200, headers(&[("link", &link)]), "[]".to_owned());
    stage
        .double
        .fault("GET /repos/octo/widgets/issues/*/comments", fault, 1);
    let error = client.comments(number, None, 10).await.unwrap_err();
    assert!(error.to_string().contains("another host"), "{error}");
    let nobody = tokio::time::timeout(Duration::from_millis(50), trap.accept()).await;
    assert!(nobody.is_err(), "somebody came to the other host");
}

#[tokio::test]
async fn a_redirect_in_a_circle_ends() {
    let stage = Stage::set().await;
    let here = format!("{}/repos/octo/widgets", stage.double.api_url());
    let fault = Fault::Status(302, headers(&[("location", &here)]), String::new());
    stage.double.fault("GET /repos/octo/widgets", fault, 4);
    let error = stage.client(Access::Read).repository().await.unwrap_err();
    assert!(error.to_string().contains("in a circle"), "{error}");
}

#[tokio::test]
async fn an_endless_answer_is_not_held_in_memory() {
    let stage = Stage::set().await;
    let huge = Fault::Status(200, Vec::new(), " ".repeat(11 * 1024 * 1024));
    stage.double.fault("GET /repos/octo/widgets", huge, 3);
    let error = stage.client(Access::Read).repository().await.unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_list_that_never_ends_is_no_answer() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let here = format!("{}/repos/octo/widgets/issues/{number}/comments", stage.double.api_url());
    let link = format!("<{here}>; rel=\"next\"");
    let fault = Fault::Status(200, headers(&[("link", &link)]), "[]".to_owned());
    stage
        .double
        .fault("GET /repos/octo/widgets/issues/*/comments", fault, 100);
    let error = stage.client(Access::Read).comments(number, None, 10).await.unwrap_err();
    assert!(error.to_string().contains("more than 100 pages"), "{error}");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_rejected_for_good() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let client = stage.client(Access::Write);
    client.create_comment(number, &"é".repeat(65_536)).await.unwrap();
    let error = client.create_comment(number, &"é".repeat(65_537)).await.unwrap_err();
    assert!(matches!(error, GitHubError::Rejected { .. }), "{error}");
    assert!(error.to_string().contains("body is too long"), "{error}");
}

#[tokio::test]
async fn a_list_may_lag_behind() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let client = stage.client(Access::Write);
    client.create_comment(number, "hello").await.unwrap();
    let lag = Fault::StaleList(Duration::from_secs(5));
    stage.double.fault("GET /repos/octo/widgets/issues/*/comments", lag, 2);
    assert_eq!(client.comments(number, None, 10).await.unwrap(), []);
    stage.clock.advance(Duration::from_secs(6));
    assert_eq!(client.comments(number, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_route_that_the_double_lacks_fails_by_name() {
    let stage = Stage::set().await;
    let token = stage.client(Access::Read).git_token().await.unwrap();
    let address = format!("{}/repos/octo/widgets/hovercraft", stage.double.api_url());
    let response = reqwest::Client::builder().build().unwrap();
    let response = response.get(&address).bearer_auth(token.expose()).send().await.unwrap();
    assert_eq!(response.status(), 501);
    let double = stage.double.clone();
    std::mem::forget(stage); // its end would fail, as it should
    assert_eq!(double.unknown_routes(), ["GET /repos/octo/widgets/hovercraft"]);
}

fn client_at(stage: &Stage, api_url: &str) -> RepoClient {
    let mut config = stage.config.clone();
    api_url.clone_into(&mut config.api_url);
    let github = GitHub::new(&config, stage.clock.clone(), stage.redactor.clone()).unwrap();
    let id = stage.double.repo_id(REPO).unwrap();
    github.repo(stage.double.installation(), id, name(REPO), Access::Write)
}
