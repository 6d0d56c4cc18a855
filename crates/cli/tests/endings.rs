//! How things end: applications and servers that disappear, drains, restarts.

mod common;

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{Ctcp, Net, Seen, Web, assert_ok, curl_command, has_curl, link, start_server};
use rustix::process::Signal;

#[test]
fn the_target_sees_a_reset_when_the_application_is_gone() {
    let (web, net) = (Web::start(), Net::start(link()));
    let application = common::socks_connect(net.socks, web.address());
    (&application)
        .write_all(b"GET /endless HTTP/1.0\r\n\r\n")
        .expect("open");
    application.peek(&mut [0]).expect("the answer begins");
    // Bytes wait unread, so the system resets the connection, as it does when a
    // program is killed in the middle of a download.
    drop(application);
    assert_eq!(web.next_end(), Seen::Reset);
}

#[test]
fn the_application_sees_a_reset_when_the_target_breaks_off() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(link()));
    let output = net.curl(&[&web.url("/broken")]);
    // An answer without a length would look whole if it ended cleanly.
    assert_eq!(output.status.code(), Some(56), "curl: failure in receiving");
}

#[test]
fn the_target_sees_a_reset_when_a_second_sigterm_ends_the_client() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(link()));
    let mut curl = curl_command(net.socks)
        .arg(web.url("/endless"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("curl runs");
    web.next_request();
    let Net {
        mut client, server, ..
    } = net;
    client.signal(Signal::TERM);
    // Until it is taken, the system makes one signal of both.
    client.wait_for_stderr("stopping");
    client.signal(Signal::TERM);
    assert!(client.wait().code().is_some());
    assert_eq!(web.next_end(), Seen::Reset);
    assert!(!curl.wait().expect("it is ours").success());
    drop(server);
}

#[test]
fn sigterm_lets_connections_end_and_exits_with_0() {
    if !has_curl() {
        return;
    }
    let web = Web::start();
    let mut net = Net::start_with(link(), &["--drain", "90s"]);
    thread::scope(|scope| {
        let transfer = scope.spawn(|| {
            let url = web.url("/bytes/9/8000000");
            common::curl(net.socks, &[&url])
        });
        web.next_request();
        net.client.signal(Signal::TERM);
        let output = transfer.join().expect("no panic");
        assert_ok(&output);
        assert!(output.stdout == common::body(9, 8_000_000), "bytes differ");
    });
    assert_eq!(net.client.wait().code(), Some(0));
    net.server.terminate();
}

#[test]
fn a_restarted_server_is_found_again_within_seconds() {
    if !has_curl() {
        return;
    }
    let (web, mut net) = (Web::start(), Net::start(link()));
    net.download(&web, 1, 100_000);
    let listening = net.server.result("listening");
    net.server.signal(Signal::KILL);
    net.server.wait();
    net.server = start_server(&net.server_key, &net.client_key, &listening);
    common::wait_until("a download", Duration::from_secs(60), || {
        let url = web.url("/bytes/1/100000");
        common::curl(net.socks, &["--max-time", "10", &url])
            .status
            .success()
    });
    net.download(&web, 2, 100_000);
}

#[test]
fn a_drained_server_is_found_again_when_it_is_back() {
    if !has_curl() {
        return;
    }
    let (web, mut net) = (Web::start(), Net::start(link()));
    net.download(&web, 1, 100_000);
    let listening = net.server.result("listening");
    net.server.terminate();
    net.client.wait_for_stderr("the server stops");
    net.server = start_server(&net.server_key, &net.client_key, &listening);
    common::wait_until("a download", Duration::from_secs(60), || {
        let url = web.url("/bytes/1/100000");
        common::curl(net.socks, &["--max-time", "10", &url])
            .status
            .success()
    });
}

#[test]
fn two_commands_of_one_identity_do_not_disturb_one_another() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(link()));
    thread::scope(|scope| {
        let long = scope.spawn(|| net.download(&web, 1, 8_000_000));
        for _ in 0..3 {
            let server = net.relay.local_addr().to_string();
            let target = web.address().to_string();
            let mut connect = Ctcp::command(&["connect", &target, "--server", &server]);
            connect.args(["--server-key", &net.server_key.public]);
            connect.args(["--key", net.client_key.path()]);
            assert_ok(&connect.output().expect("ctcp runs"));
        }
        long.join().expect("every byte");
    });
}
