//! The dialects as curl speaks them. Skipped, and said so, where there is no curl.

mod common;

use std::process::Command;

use common::*;
use ctcp_proxy::forward::ForwardConfig;
use ctcp_proxy::socks::Credentials;
use ctcp_units::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn curl_is_missing() -> bool {
    let missing = Command::new("curl").arg("--version").output().is_err();
    if missing {
        eprintln!("SKIPPED: curl is not installed");
    }
    missing
}

/// Runs curl; its exit code and what it printed.
async fn curl(args: Vec<String>) -> (Option<i32>, Vec<u8>) {
    let run = move || {
        let fixed = ["--silent", "--max-time", "20", "--noproxy", ""];
        Command::new("curl").args(fixed).args(args).output()
    };
    let output = tokio::task::spawn_blocking(run).await.expect("no panic");
    let output = output.expect("curl runs");
    (output.status.code(), output.stdout)
}

/// A web server that returns a body, or the body that it got.
async fn web_server(body: Vec<u8>) -> std::net::SocketAddr {
    target_on("127.0.0.1:0", move |mut tcp| {
        let body = body.clone();
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tcp.read_u8().await.expect("a request"));
            }
            let head = String::from_utf8(head).expect("text").to_lowercase();
            let mut answer = body;
            if let Some((_, rest)) = head.split_once("content-length: ") {
                let len = rest.lines().next().and_then(|n| n.trim().parse().ok());
                answer = vec![0; len.expect("a length")];
                tcp.read_exact(&mut answer).await.expect("a body");
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            tcp.write_all(head.as_bytes()).await.expect("open");
            tcp.write_all(&answer).await.expect("open");
        }
    })
    .await
}

#[tokio::test]
async fn curl_downloads_and_uploads_through_every_dialect() {
    if curl_is_missing() {
        return;
    }
    let mut body = vec![0; 3_000_000];
    Random::from_seed(seed()).fill(&mut body);
    let port = web_server(body.clone()).await.port();
    let rig = rig(Plan::default()).await;
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &body).expect("written");
    let upload = format!("@{}", file.path().display());
    for (scheme, host) in [
        ("socks5h", "web.test"),
        ("socks5", "127.0.0.1"),
        ("socks4a", "web.test"),
        ("socks4", "127.0.0.1"),
    ] {
        let proxy = format!("{scheme}://{}", rig.address);
        let url = format!("http://{host}:{port}/");
        let fetch = ["--proxy".to_owned(), proxy, url].to_vec();
        let (code, out) = curl(fetch.clone()).await;
        assert_eq!(code, Some(0), "{scheme}");
        assert!(out == body, "download by {scheme}");
        let post = ["--data-binary".to_owned(), upload.clone()];
        let expect = ["-H".to_owned(), "Expect:".to_owned()];
        let (code, out) = curl([fetch, post.to_vec(), expect.to_vec()].concat()).await;
        assert_eq!(code, Some(0), "{scheme}");
        assert!(out == body, "upload by {scheme}");
    }
}

#[tokio::test]
async fn curl_gives_its_password_and_reports_what_failed() {
    if curl_is_missing() {
        return;
    }
    let credentials = Credentials::new("anna", "secret").expect("lengths fit");
    let plan = Plan {
        forward: ForwardConfig {
            credentials: Some(credentials),
            ..ForwardConfig::default()
        },
        ..Plan::default()
    };
    let rig = rig(plan).await;
    let port = web_server(b"hello".to_vec()).await.port();
    let fetch = |login: &str, url: String| {
        curl(vec![
            "--proxy".to_owned(),
            format!("socks5h://{login}@{}", rig.address),
            url,
        ])
    };
    let (code, out) = fetch("anna:secret", format!("http://web.test:{port}/")).await;
    assert_eq!((code, &out[..]), (Some(0), &b"hello"[..]));
    // 97 is curl's code for a proxy that said no.
    for (login, url) in [
        ("anna:wrong", format!("http://web.test:{port}/")),
        ("anna:secret", "http://unknown.test/".to_owned()),
        ("anna:secret", "http://10.0.0.1/".to_owned()),
    ] {
        let (code, _) = fetch(login, url).await;
        assert_eq!(code, Some(97), "{login}");
    }
}
