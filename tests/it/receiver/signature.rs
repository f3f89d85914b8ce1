//! Only what GitHub signed is read.

use super::payloads::label;
use super::{Answer, PREVIOUS_SECRET, SECRET, Service, is_stored, jobs, send, signature};
use crate::databases::each;

#[tokio::test]
async fn w01_w02_without_a_sha256_signature_nothing_is_read() {
    each(async |store| {
        let service = Service::on(&store).await;
        let body = label("labeled", 12, 0).to_string();
        let call = |body: &str| service.unsigned("g1", "issues", body.as_bytes().to_vec());
        assert_eq!(send(call(&body)).await.status, 401);
        assert_eq!(send(call("not JSON")).await.status, 401);
        let sha1 = call(&body).header("X-Hub-Signature", "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6");
        assert_eq!(send(sha1).await.status, 401);
        assert!(!is_stored(&store, "g1").await && jobs(&store).await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w03_githubs_own_test_vector_is_accepted() {
    each(async |store| {
        let service = Service::on(&store).await;
        let call = service.unsigned("g1", "issues", b"Hello, World!".to_vec()).header(
            "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        );
        let answer = send(call).await;
        assert_eq!(answer.status, 400, "signed, but not JSON: {answer:?}");
        assert!(
            answer.body["error"]
                .as_str()
                .unwrap()
                .starts_with("the body is not JSON"),
            "{answer:?}"
        );
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w04_t7_the_raw_bytes_are_signed() {
    each(async |store| {
        let service = Service::on(&store).await;
        let body = label("labeled", 12, 0);
        let signed = signature(SECRET, body.to_string().as_bytes());
        let with = |bytes: Vec<u8>| {
            service
                .unsigned("g1", "issues", bytes)
                .header("X-Hub-Signature-256", &signed)
        };
        let mut flipped = body.to_string().into_bytes();
        flipped[20] ^= 1;
        assert_eq!(send(with(flipped)).await.status, 401);
        let respaced = serde_json::to_vec_pretty(&body).unwrap();
        assert_eq!(send(with(respaced)).await.status, 401);
        assert_eq!(send(with(body.to_string().into_bytes())).await.status, 202);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w05_malformed_signatures_are_refused() {
    each(async |store| {
        let service = Service::on(&store).await;
        let body = label("labeled", 12, 0).to_string();
        let good = signature(SECRET, body.as_bytes());
        let with = async |signatures: &[&[u8]]| -> Answer {
            let mut call = service.unsigned("g1", "issues", body.clone().into_bytes());
            for signature in signatures {
                call = call.header("X-Hub-Signature-256", *signature);
            }
            send(call).await
        };
        let mut wrong: Vec<Vec<u8>> = ["sha256=", &good[..70], &format!("{good}0"), &"x".repeat(71), &good[7..]]
            .map(|text| text.as_bytes().to_vec())
            .to_vec();
        wrong.push(b"sha256=\xff\xfe".to_vec());
        wrong.push(vec![b'a'; 60_000]);
        for signature in &wrong {
            assert_eq!(with(&[signature]).await.status, 401);
        }
        assert_eq!(
            with(&[b"sha256=00", good.as_bytes()]).await.status,
            401,
            "one bad and one good"
        );
        assert_eq!(
            with(&[good.as_bytes(), good.as_bytes()]).await.status,
            401,
            "two good ones"
        );
        let huge = service
            .unsigned("g1", "issues", body.clone().into_bytes())
            .header("X-Hub-Signature-256", vec![b'a'; 1_000_000]);
        // The HTTP server itself refuses it, sometimes while the rest is still being sent.
        if let Ok(answer) = huge.send().await {
            assert_eq!(answer.status(), 431);
        }
        assert_eq!(with(&[good.as_bytes()]).await.status, 202);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w06_two_secrets_are_good_during_a_rotation_and_no_third() {
    each(async |store| {
        let service = Service::on(&store).await;
        for (secret, number, status) in [
            (SECRET, 1, 202),
            (PREVIOUS_SECRET, 2, 202),
            ("another secret of 16", 3, 401),
        ] {
            let body = label("labeled", number, 0).to_string().into_bytes();
            let signed = signature(secret, &body);
            let call = service
                .unsigned(&format!("g{number}"), "issues", body)
                .header("X-Hub-Signature-256", signed);
            assert_eq!(send(call).await.status, status, "{secret}");
        }
        assert_eq!(jobs(&store).await.len(), 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w09_w10_other_kinds_of_body_are_refused() {
    each(async |store| {
        let service = Service::on(&store).await;
        let body = label("labeled", 12, 0).to_string();
        let gzip = service
            .call("g1", "issues", body.clone())
            .header("Content-Encoding", "gzip");
        assert_eq!(send(gzip).await.status, 415);
        let form = format!("payload={body}");
        let signed = signature(SECRET, form.as_bytes());
        let form = service
            .client
            .post(service.url("/webhook"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("X-GitHub-Delivery", "g1")
            .header("X-GitHub-Event", "issues")
            .header("X-Hub-Signature-256", signed)
            .body(form);
        let answer = send(form).await;
        assert_eq!(answer.status, 415);
        assert!(
            answer.body["error"].as_str().unwrap().contains("application/json"),
            "{answer:?}"
        );
        assert!(!is_stored(&store, "g1").await);
        service.stop().await;
    })
    .await;
}
