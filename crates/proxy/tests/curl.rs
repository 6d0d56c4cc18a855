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
        ("http", "web.test"),
        ("http", "127.0.0.1"),
    ] {
        let proxy = format!("{scheme}://{}", rig.address);
        let url = format!("http://{host}:{port}/");
        // Of HTTP's ways, curl takes CONNECT for plain addresses only if it is told.
        let mut fetch = ["--proxy".to_owned(), proxy, url].to_vec();
        if scheme == "http" {
            fetch.push("--proxytunnel".to_owned());
        }
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
    let fetch_by = |scheme: &str, login: &str, url: String| {
        curl(vec![
            "--proxytunnel".to_owned(),
            "--proxy".to_owned(),
            format!("{scheme}://{login}@{}", rig.address),
            url,
        ])
    };
    let fetch = |login: &str, url: String| fetch_by("socks5h", login, url);
    for scheme in ["socks5h", "http"] {
        let url = format!("http://web.test:{port}/");
        let (code, out) = fetch_by(scheme, "anna:secret", url).await;
        assert_eq!((code, &out[..]), (Some(0), &b"hello"[..]), "{scheme}");
    }
    // 56 is what curl says of a proxy that refuses CONNECT.
    let (code, _) = fetch_by("http", "anna:wrong", "http://web.test/".to_owned()).await;
    assert_eq!(code, Some(56));
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

#[tokio::test]
async fn curl_is_told_what_http_cannot_do_here_and_why_a_target_failed() {
    if curl_is_missing() {
        return;
    }
    let rig = rig(Plan::default()).await;
    let ask = |more: &[&str], url: &str| {
        let proxy = format!("http://{}", rig.address);
        let mut args = vec!["--proxy".to_owned(), proxy, url.to_owned()];
        args.extend(["-w".to_owned(), "%{http_code} %{http_connect}".to_owned()]);
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        curl(args)
    };
    let (code, out) = ask(&[], "http://web.test/").await;
    let out = String::from_utf8(out).expect("text");
    assert_eq!(code, Some(0));
    assert!(
        out.contains("socks5h://") && out.ends_with("405 000"),
        "{out}"
    );
    let refusing = format!("http://127.0.0.1:{}/", refusing_port().await);
    for (url, status) in [
        ("http://unknown.test/", "502"),
        ("http://10.0.0.1/", "403"),
        (&refusing, "502"),
    ] {
        let (code, out) = ask(&["--proxytunnel"], url).await;
        let out = String::from_utf8(out).expect("text");
        assert_eq!((code, &out[out.len() - 3..]), (Some(56), status), "{url}");
    }
}
