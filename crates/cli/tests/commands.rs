//! What scripts may rely on: exit codes, output, files, pairing.

mod common;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::{Ctcp, Key, Net, Web, assert_ok, curl, has_curl, link, start_client, start_server};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The exit code and what was said on stderr.
fn failed(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

#[test]
fn keygen_prints_the_public_key_alone_and_keeps_the_private_one_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let path = file.to_str().expect("UTF-8");
    let output = Ctcp::run(&["keygen", "--out", path]);
    assert_ok(&output);
    let public = text(&output.stdout);
    assert_eq!((public.len(), public.lines().count()), (44, 1));
    assert!(output.stderr.is_empty());
    let mode = file.metadata().expect("made").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let (code, said) = failed(&Ctcp::run(&["keygen", "--out", path]));
    assert_eq!(code, Some(2));
    assert!(said.contains("--force"), "{said}");
    assert_ok(&Ctcp::run(&["keygen", "--out", path, "--force"]));
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let key = Key::generate();
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(key.file(), open).expect("ours");
    let (code, said) = failed(&Ctcp::run(&[
        "server",
        "--key",
        key.path(),
        "--allow",
        &key.public,
        "--listen",
        "127.0.0.1:0",
    ]));
    assert_eq!(code, Some(2));
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn a_server_that_would_let_nobody_in_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    let (code, said) = failed(&Ctcp::run(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--state",
        state,
    ]));
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--allow") && said.contains("--invite"),
        "{said}"
    );
}

#[test]
fn a_client_that_is_not_on_the_list_exits_with_3_and_the_remedy() {
    let (server_key, friend, stranger) = (Key::generate(), Key::generate(), Key::generate());
    let server = start_server(&server_key, &friend, "127.0.0.1:0");
    let address = server.result("listening");
    let identity = ["--server", &address, "--server-key", &server_key.public];
    let connect = [
        &["connect", "example.com:80", "--key", stranger.path()],
        &identity[..],
    ]
    .concat();
    let client = [
        &["client", "--socks", "127.0.0.1:0", "--key", stranger.path()],
        &identity[..],
    ]
    .concat();
    for args in [connect, client] {
        let (code, said) = failed(&Ctcp::run(&args));
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("--allow") && said.contains(&stranger.public),
            "{said}"
        );
    }
}

#[test]
fn connect_exits_with_4_and_the_causes_when_nobody_answers() {
    let (server_key, wrong_key, client_key) = (Key::generate(), Key::generate(), Key::generate());
    let server = start_server(&server_key, &client_key, "127.0.0.1:0");
    let address = server.result("listening");
    let (code, said) = failed(&Ctcp::run(&[
        "connect",
        "example.com:80",
        "--server",
        &address,
        "--server-key",
        &wrong_key.public,
        "--key",
        client_key.path(),
    ]));
    assert_eq!(code, Some(4), "{said}");
    for cause in [address.as_str(), "firewall", "--server-key"] {
        assert!(said.contains(cause), "no {cause} in: {said}");
    }
}

#[test]
fn socks_says_within_seconds_that_there_is_no_answer() {
    if !has_curl() {
        return;
    }
    let (server_key, client_key) = (Key::generate(), Key::generate());
    // A port that is bound, and where nobody speaks.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound").to_string();
    let mut client = start_client(&address, &server_key, &client_key, &[]);
    let socks = client.result("socks5").parse().expect("an address");
    let started = Instant::now();
    let output = curl(socks, &["http://192.0.2.1/"]);
    assert_eq!(output.status.code(), Some(97), "curl: the proxy refuses");
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    client.wait_for_stderr("firewall");
    client.wait_for_stderr("--server-key");
    client.terminate();
}

#[test]
fn an_invite_pairs_once_and_is_remembered() {
    if !has_curl() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (far, near, late) = (path("far"), path("near"), path("late"));
    let mut server_command = Ctcp::command(&["server", "--listen", "127.0.0.1:0", "--state", &far]);
    server_command.args(["--egress-allow", "127.0.0.0/8", "--public", "127.0.0.1"]);
    server_command.args(["--invite", "anna"]);
    let mut server = Ctcp::start_command(&mut server_command);
    let invite = server.result("invite");
    assert!(invite.starts_with("ctcp://"));
    assert!(server.stdout().contains("mode 0600"), "{}", server.stdout());
    let listening = server.result("listening");

    let mut pairing = Ctcp::command(&["client", "-", "--socks", "127.0.0.1:0", "--state", &near]);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writeln!(writer, "{invite}").expect("room");
    drop(writer);
    let mut client = Ctcp::start_command(pairing.stdin(Stdio::from(reader)));
    let web = Web::start();
    let url = web.url("/bytes/1/100000");
    let socks = client.result("socks5").parse().expect("an address");
    assert_ok(&curl(socks, &[&url]));
    client.terminate();

    // Once is once: for another client the invite is spent.
    std::fs::write(path("invite"), &invite).expect("written");
    let (code, said) = failed(&Ctcp::run(&[
        "client",
        &path("invite"),
        "--socks",
        "127.0.0.1:0",
        "--state",
        &late,
    ]));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("invite"), "{said}");
    server.terminate();

    // After restarts of both, neither needs to be told again.
    let server = Ctcp::start(&[
        "server",
        "--listen",
        &listening,
        "--state",
        &far,
        "--egress-allow",
        "127.0.0.0/8",
    ]);
    let client = Ctcp::start(&["client", "--socks", "127.0.0.1:0", "--state", &near]);
    let socks = client.result("socks5").parse().expect("an address");
    assert_ok(&curl(socks, &[&url]));
    drop(server);
}

#[test]
fn an_invite_is_not_taken_from_the_command_line() {
    let (code, said) = failed(&Ctcp::run(&["client", "ctcp://token.key@host:1"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("ctcp client -"), "{said}");
    assert!(!said.contains("token.key"), "{said}");
}

#[test]
fn a_client_that_knows_no_server_says_how_to_get_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    let (code, said) = failed(&Ctcp::run(&["client", "--state", state]));
    assert_eq!(code, Some(2));
    assert!(
        said.contains("ctcp client -") && said.contains("--server-key"),
        "{said}"
    );
}

#[test]
fn a_forward_leads_to_its_target() {
    if !has_curl() {
        return;
    }
    let web = Web::start();
    let forward = format!("0={}", web.address());
    let net = Net::start_with(link(), &["--forward", &forward]);
    let printed = net.client.result("forward");
    let (listening, target) = printed.split_once('=').expect("LISTEN=TARGET");
    assert_eq!(target, web.address().to_string());
    let url = format!("http://{listening}/bytes/4/100000");
    let output = std::process::Command::new("curl")
        .args(["--silent", "--noproxy", "*", &url])
        .output()
        .expect("curl runs");
    assert!(output.stdout == common::body(4, 100_000), "bytes differ");
}

#[test]
fn a_password_keeps_other_applications_out() {
    if !has_curl() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("auth");
    std::fs::write(&file, "anna:open sesame\n").expect("written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, private).expect("ours");
    let auth = file.to_str().expect("UTF-8");
    let (web, net) = (
        Web::start(),
        Net::start_with(link(), &["--socks-auth", auth]),
    );
    let url = web.url("/bytes/1/1000");
    assert_ok(&net.curl(&["--proxy-user", "anna:open sesame", &url]));
    assert!(
        !net.curl(&["--proxy-user", "anna:guess", &url])
            .status
            .success()
    );
    assert!(!net.curl(&[&url]).status.success());
}

#[test]
fn targets_inside_are_refused_unless_allowed() {
    if !has_curl() {
        return;
    }
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let server = Ctcp::start(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--key",
        server_key.path(),
        "--allow",
        &client_key.public,
    ]);
    let address = server.result("listening");
    let client = start_client(&address, &server_key, &client_key, &[]);
    let socks = client.result("socks5").parse().expect("an address");
    let web = Web::start();
    let output = curl(socks, &[&web.url("/bytes/1/10")]);
    assert_eq!(output.status.code(), Some(97), "curl: the proxy refuses");
    let (code, said) = failed(&Ctcp::run(&[
        "connect",
        &web.address().to_string(),
        "--server",
        &address,
        "--server-key",
        &server_key.public,
        "--key",
        client_key.path(),
    ]));
    assert_eq!(code, Some(1));
    assert!(said.contains("--egress-allow"), "{said}");
}

#[test]
fn a_ready_file_comes_and_goes_with_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ready");
    let key = Key::generate();
    let mut server = Ctcp::start(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--key",
        key.path(),
        "--allow",
        &key.public,
        "--ready-file",
        file.to_str().expect("UTF-8"),
    ]);
    assert_eq!(std::fs::read_to_string(&file).expect("ready"), "READY\n");
    server.terminate();
    assert!(!file.exists());
}

#[test]
fn results_come_as_json_lines_when_asked_for() {
    let key = Key::generate();
    let server = Ctcp::start(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--key",
        key.path(),
        "--allow",
        &key.public,
        "--json",
    ]);
    let printed = server.stdout();
    let lines: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["identity"], key.public.as_str());
    assert!(lines[1]["listening"].is_string());
}

#[test]
fn the_environment_gives_what_the_command_line_does_not() {
    let key = Key::generate();
    let mut command = Ctcp::command(&["server", "--allow", &key.public]);
    command
        .env("CTCP_KEY", key.path())
        .env("CTCP_LISTEN", "127.0.0.1:0");
    let server = Ctcp::start_command(&mut command);
    assert!(server.result("listening").starts_with("127.0.0.1:"));
}

#[test]
fn the_emulator_counts_what_it_lost() {
    let echo = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let target = echo.local_addr().expect("bound").to_string();
    let mut emulator = Ctcp::start(&[
        "emulate",
        "udp",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &target,
        "--loss",
        "100%",
        "--json",
    ]);
    let first = emulator.stdout();
    let first: serde_json::Value = serde_json::from_str(first.trim()).expect("JSON");
    let listening = first["listening"].as_str().expect("an address").to_owned();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for _ in 0..5 {
        sender.send_to(b"lost", &listening).expect("sent");
    }
    std::thread::sleep(Duration::from_secs(2));
    emulator.terminate();
    let printed = emulator.stdout();
    let last: serde_json::Value =
        serde_json::from_str(printed.lines().last().expect("counters")).expect("JSON");
    assert_eq!(last["up"]["offered"], 5);
    assert_eq!(last["up"]["lost_before"], 5);
}

#[test]
fn the_demo_tells_what_happened() {
    let output = Ctcp::run(&["demo", "--alone", "--size", "2MB", "--json", "--seed", "3"]);
    assert_ok(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["is_whole"], true);
    assert_eq!(report["bytes"], 2_000_000);
    assert_eq!(report["seed"], 3);
    assert!(report["down"]["packets_lost"].as_u64() > Some(0));
    assert!(report["symbols_recovered"].as_u64() > Some(0));
    assert!(report["goodput_mbit"].as_f64() > Some(1.0));
    assert_eq!(report["plain_tcp_absent"], "asked for by --alone");
    let words = Ctcp::run(&["demo", "--size", "1MB", "--alone"]);
    assert_ok(&words);
    let words = text(&words.stdout);
    for part in ["whole", "rate", "lost", "coded", "recovered", "delay"] {
        assert!(words.contains(part), "no {part} in:\n{words}");
    }
}

#[test]
fn the_demo_lets_plain_tcp_race_where_namespaces_are_allowed() {
    let output = Ctcp::run(&[
        "demo",
        "--size",
        "1MB",
        "--json",
        "--loss",
        "0%",
        "--to-the-end",
    ]);
    assert_ok(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    if let Some(reason) = report["plain_tcp_absent"].as_str() {
        // The demo says why, and runs as before.
        assert!(!reason.is_empty());
        eprintln!("skipped, no plain TCP here: {reason}");
        return;
    }
    let rivals = report["plain_tcp"].as_array().expect("a list");
    assert!(rivals.iter().any(|rival| rival["congestion"] == "cubic"));
    for rival in rivals {
        assert_eq!(rival["outcome"], "finished", "{rival}");
        assert_eq!(rival["bytes"], 1_000_000, "{rival}");
        assert!(rival["wire_bytes_per_byte"].as_f64() > Some(1.0), "{rival}");
    }
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    for (args, part) in [
        (&["demo", "--loss", "5"][..], "0% to 100%"),
        (&["demo", "--rate", "25"], "25mbit"),
        (&["connect", "example.com"], "example.com:443"),
        (&["server", "--allow", "nobody"], "neither a public key"),
        (&["client", "--server", "host:1"], "--server-key"),
        (&["demo", "--congestion", "bbr9"], "cc14"),
        (&["demo", "--block", "0"], "1 to 255"),
        (&["server", "--invite", "anna"], "--public"),
    ] {
        let (code, said) = failed(&Ctcp::run(args));
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: no {part} in: {said}");
    }
}

#[test]
fn a_kernel_that_is_not_there_is_named_with_those_that_are() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ctcp"));
    let output = command
        .args(["demo", "--size", "1kB"])
        .env("CTCP_GF256_KERNEL", "abacus")
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("abacus") && said.contains("naive"), "{said}");
}

#[test]
fn completions_and_man_pages_are_complete() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Ctcp::run(&["completions", shell]);
        assert_ok(&output);
        assert!(text(&output.stdout).contains("emulate"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    assert_ok(&Ctcp::run(&["man", "--out", path]));
    for page in ["ctcp.1", "ctcp-client.1", "ctcp-emulate-udp.1"] {
        let page = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(page.contains(".SH"), "{page}");
    }
}
