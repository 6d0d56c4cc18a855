//! What server and client show of themselves: metrics, the page, the control
//! socket, traces; and who may look.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{Chromium, Ctcp, Key, Net, Web, assert_ok, curl_command, has_curl, link, wait_until};
use ctcp_link::LossModel;
use ctcp_units::LossRate;
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// Status and whole answer of a request.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut tcp = TcpStream::connect(address).expect("it listens");
    tcp.write_all(request.as_bytes()).expect("open");
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).expect("text");
    let status = answer.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), answer)
}

fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let (status, answer) = ask(address, &request);
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Where the metrics are, of `http://ADDR:PORT/`.
fn metrics_of(ctcp: &Ctcp) -> SocketAddr {
    let url = ctcp.result("metrics");
    let address = url.strip_prefix("http://").expect("a URL");
    address.trim_end_matches('/').parse().expect("an address")
}

fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    let value = line.rsplit(' ').next().expect("a value");
    value.parse().expect("a number")
}

#[test]
fn a_transfer_shows_in_metrics_status_and_traces() {
    let (control, qlog) = (tempfile::tempdir(), tempfile::tempdir());
    let (control, qlog) = (control.expect("a folder"), qlog.expect("a folder"));
    let at = |folder: &tempfile::TempDir| folder.path().join("deep").display().to_string();
    let (control, qlog_path) = (at(&control), at(&qlog));
    let args = ["--metrics", "127.0.0.1:0", "--control", &control];
    let args = [&args[..], &["--qlog", &qlog_path]].concat();
    let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.02)));
    let (web, net) = (Web::start(), Net::start_with(lossy, &args));
    let mut stream = common::socks_connect(net.socks, web.address());
    stream
        .write_all(b"GET /bytes/1/1000000 HTTP/1.0\r\n\r\n")
        .expect("open");
    let mut read = 0;
    let mut buffer = [0; 16 << 10];
    while read < 1_000_000 {
        let len = stream.read(&mut buffer).expect("it goes on");
        assert!(len > 0, "ended after {read} bytes");
        read += len;
    }

    let address = metrics_of(&net.client);
    let text = get(address, "/metrics");
    assert!(sample(&text, "ctcp_path_rtt_seconds{") >= 0.02, "{text}");
    assert!(sample(&text, "ctcp_path_useful_bytes_total{") >= 1e6);
    assert!(sample(&text, "ctcp_symbols_recovered_total{") > 0.0);
    assert!(sample(&text, "ctcp_proxy_bytes_total{direction=\"down\"}") >= 1e6);
    let recovered = sample(&text, "ctcp_symbols_recovered_total{");
    let decoded = sample(&text, "ctcp_decode_delay_seconds_count{");
    assert!(decoded >= recovered, "a later line is no smaller: {text}");

    // A machine that is late makes a path look silent for a moment.
    wait_until("the path is shown active", PATIENCE, || {
        let status = Ctcp::run(&["status", "--control", &control]);
        assert_ok(&status);
        String::from_utf8_lossy(&status.stdout).contains("path 0 active")
    });
    wait_until("it is in the JSON, too", PATIENCE, || {
        let status = Ctcp::run(&["status", "--json", "--control", &control]);
        let status: Value = serde_json::from_slice(&status.stdout).expect("one object");
        assert_eq!(status["role"], "client");
        status["connections"][0]["paths"][0]["state"] == "active"
    });
    let top = Ctcp::run(&[
        "top",
        "--count",
        "2",
        "--interval",
        "300ms",
        "--control",
        &control,
    ]);
    assert_ok(&top);
    assert!(String::from_utf8_lossy(&top.stdout).contains("now "));

    let Net { mut client, .. } = net;
    drop(stream);
    client.terminate();
    assert!(ctcp_sockets(&control).is_empty(), "the socket goes with it");
    let files: Vec<_> = fs::read_dir(&qlog_path).expect("traces").collect();
    assert_eq!(files.len(), 1);
    let file = files[0].as_ref().expect("readable").path();
    check_qlog(&fs::read_to_string(file).expect("text"));
    let gone = Ctcp::run(&["status", "--control", &control]);
    assert_eq!(gone.status.code(), Some(4));
}

fn ctcp_sockets(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// The rules of the format, and that the story is a possible one.
fn check_qlog(text: &str) {
    let mut records = text.split('\u{1e}');
    assert_eq!(records.next(), Some(""), "each record begins with RS");
    let mut records = records.map(|record| {
        assert!(record.ends_with('\n'), "each record ends with LF");
        serde_json::from_str::<Value>(record).expect("each record is JSON")
    });
    let header = records.next().expect("a header");
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["qlog_format"], "JSON-SEQ");
    // What qvis asks of a file before it reads on, by its source: a name that ends
    // in .sqlog, this version and format, one `trace`, a number for the beginning.
    assert!(header["trace"].is_object(), "{header}");
    assert!(header["trace"]["common_fields"]["reference_time"].is_number());
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    assert_eq!(header["trace"]["common_fields"]["time_format"], "relative");
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut time, mut next_sent) = (0.0, None);
    for record in records {
        let name = record["name"].as_str().expect("a name").to_owned();
        let data = &record["data"];
        let now = record["time"].as_f64().expect("a time");
        assert!(now >= time, "time goes back: {record}");
        time = now;
        assert_eq!(record["group_id"], "path 0");
        let number = || data["header"]["packet_number"].as_u64().expect("a number");
        match name.as_str() {
            "transport:packet_sent" => {
                assert!(next_sent.is_none_or(|next| next == number()), "{record}");
                next_sent = Some(number() + 1);
                let len = data["raw"]["length"].as_u64().expect("a length");
                assert!((20..=65_507).contains(&len), "{record}");
                assert!(data["frames"][0]["frame_type"].is_string(), "{record}");
            }
            "transport:packet_received" => {
                for frame in data["frames"].as_array().expect("frames") {
                    for range in frame["acked_ranges"].as_array().into_iter().flatten() {
                        let largest = range[1].as_u64().expect("a number");
                        // Packets of the handshake left before the trace began.
                        assert!(next_sent.is_none_or(|next| largest < next), "{record}");
                    }
                }
            }
            "recovery:packet_lost" => {
                // Where qvis's graph of congestion looks for it.
                assert_eq!(data["packet_number"], data["header"]["packet_number"]);
                assert!(next_sent.is_none_or(|next| number() < next), "{record}");
            }
            "recovery:metrics_updated" => {
                for field in [
                    "min_rtt",
                    "smoothed_rtt",
                    "congestion_window",
                    "bytes_in_flight",
                ] {
                    assert!(data[field].is_number(), "{field}: {record}");
                }
            }
            "ctcp:symbols_decoded" => assert!(data["symbols_recovered"].is_u64()),
            "connectivity:connection_closed" => assert_eq!(data["owner"], "local"),
            other => panic!("unknown event {other}"),
        }
        *counts.entry(name).or_default() += 1;
    }
    for name in [
        "transport:packet_sent",
        "transport:packet_received",
        "recovery:metrics_updated",
        "ctcp:symbols_decoded",
        "connectivity:connection_closed",
    ] {
        assert!(counts.contains_key(name), "no {name}: {counts:?}");
    }
}

#[test]
fn strangers_learn_nothing() {
    let net = Net::start_with(
        link(),
        &["--metrics", "127.0.0.1:0", "--metrics-host", "ctcp.lan"],
    );
    let address = metrics_of(&net.client);
    let with_host = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        ask(address, &request).0
    };
    assert_eq!(with_host("evil.example"), 421, "DNS rebinding");
    assert_eq!(with_host("localhost"), 200);
    assert_eq!(with_host("ctcp.lan:80"), 200);
    let post = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(ask(address, &post).0, 405, "it is read-only");
    let unknown = format!("GET /x HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    assert_eq!(ask(address, &unknown).0, 404);
    let page = get(address, "/");
    assert!(page.contains("content-security-policy: default-src 'none'"));
    assert!(!page.contains("access-control-allow-origin"));
}

/// Runs a server that is not to start, and returns what it says.
fn refused_server(args: &[&str]) -> String {
    let key = Key::generate();
    let mut all = vec!["server", "--listen", "127.0.0.1:0", "--key", key.path()];
    all.extend(["--allow", &key.public]);
    all.extend(args);
    let output = Ctcp::run(&all);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text
}

#[test]
fn beyond_loopback_a_token_is_demanded() {
    let text = refused_server(&["--metrics", "0.0.0.0:0"]);
    assert!(text.contains("--metrics-token"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token").display().to_string();
    fs::write(&file, "short\n").expect("writable");
    owner_only(&file);
    let text = refused_server(&["--metrics", "127.0.0.1:0", "--metrics-token", &file]);
    assert!(text.contains("16 characters"), "{text}");

    fs::write(&file, "0123456789abcdef\n").expect("writable");
    let args = ["--metrics", "0.0.0.0:0", "--metrics-token", &file];
    let net = Net::start_with(link(), &args);
    let bound = metrics_of(&net.client);
    let address = SocketAddr::from(([127, 0, 0, 1], bound.port()));
    let with = |header: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n"
        );
        ask(address, &request)
    };
    let (status, answer) = with("");
    assert_eq!(status, 401);
    assert!(answer.contains("www-authenticate: Basic"), "{answer}");
    assert_eq!(with("Authorization: Bearer 0123456789abcdeF\r\n").0, 401);
    assert_eq!(with("Authorization: Bearer 0123456789abcdef\r\n").0, 200);
}

fn owner_only(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("ours");
}

#[test]
fn a_port_in_use_and_folders_that_refuse_are_said_before_anything_starts() {
    let busy = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let taken = busy.local_addr().expect("bound").to_string();
    let text = refused_server(&["--metrics", &taken]);
    assert!(
        text.contains("--metrics") && text.contains(&taken),
        "{text}"
    );
    drop(busy);
    let text = refused_server(&["--qlog", "/dev/null/traces"]);
    assert!(text.contains("--qlog DIR"), "{text}");
    let text = refused_server(&["--control", "/dev/null/run"]);
    assert!(text.contains("--control DIR"), "{text}");
}

#[test]
fn a_server_is_configured_by_a_file_and_reads_it_again_at_sighup() {
    if !has_curl() {
        return;
    }
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ctcp.toml");
    let write = |egress: &str| {
        let text = format!(
            "log-format = \"json\"\n[server]\nlisten = \"127.0.0.1:0\"\nkey = {:?}\n\
             allow = [{:?}]\negress_allow = [{egress}]\n",
            server_key.path(),
            client_key.public
        );
        fs::write(&file, text).expect("writable");
    };
    write("");
    let path = file.display().to_string();
    let checked = Ctcp::run(&["check-config", &path]);
    assert_ok(&checked);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("good (server)"));
    let server = Ctcp::start(&["server", "--config", &path]);
    let listening = server.result("listening");
    let mut args = vec!["client", "--server", &listening];
    args.extend([
        "--server-key",
        &server_key.public,
        "--key",
        client_key.path(),
    ]);
    args.extend(["--socks", "127.0.0.1:0"]);
    let client = Ctcp::start(&args);
    let socks = client.result("socks5").parse().expect("an address");
    let web = Web::start();
    let url = web.url("/bytes/1/1000");
    assert!(
        !common::curl(socks, &[&url]).status.success(),
        "not allowed"
    );

    write("\"127.0.0.0/8\"");
    server.signal(Signal::HUP);
    wait_until("the rules are read again", PATIENCE, || {
        server.stderr().contains("read again")
    });
    assert_ok(&common::curl(socks, &[&url]));

    write("\"127.0.0.0/8\"\nlisten_on = 1");
    server.signal(Signal::HUP);
    wait_until("the mistake is noticed", PATIENCE, || {
        server.stderr().contains("stay as they were")
    });
    assert_ok(&common::curl(socks, &[&url]));
    let checked = Ctcp::run(&["check-config", &path]);
    assert_eq!(checked.status.code(), Some(2));
    let line = server.stderr();
    let line = line.lines().find(|line| line.contains("read again"));
    let line: Value = serde_json::from_str(line.expect("said")).expect("a line of JSON");
    assert!(line["fields"]["message"].is_string());
}

/// Loads, moves during a transfer, survives a restart; with CTCP_SCREENSHOTS set
/// to a folder it leaves pictures there.
#[test]
fn the_page_lives_in_a_browser() {
    if !Chromium::is_there() || !has_curl() {
        return;
    }
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let metrics = free.local_addr().expect("bound").to_string();
    drop(free);
    let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.02)));
    let args = ["--metrics", metrics.as_str()];
    let (web, net) = (Web::start(), Net::start_with(lossy, &args));
    let mut page = Chromium::open(&format!("http://{metrics}/"));
    page.wait_for("document.getElementById('link')?.textContent === 'live'");
    page.wait_for("!!document.querySelector('.path .chip.good')");
    let mut curl = curl_command(net.socks)
        .arg(web.url("/bytes/7/400000000"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("curl runs");
    page.wait_for("/[kM]bit/.test(document.querySelector('.figure').textContent)");
    let line = "document.querySelector('#hero .stroke').getAttribute('d')";
    let before = page.value(line);
    page.wait_for(&format!("{line} !== {before}"));
    page.wait_for("document.querySelectorAll('tbody tr').length === 1");
    page.value("document.getElementById('explain').click()");
    let described = page.value(
        "[...document.querySelectorAll('.metric')].every(m => m.querySelector('.desc').offsetHeight > 0 || m.offsetParent === null)",
    );
    assert_eq!(described, true, "every number says what it means");
    page.value("document.getElementById('explain').click()");
    if let Some(folder) = std::env::var_os("CTCP_SCREENSHOTS") {
        take_pictures(&mut page, Path::new(&folder));
    }

    let Net {
        mut client,
        relay,
        server_key,
        client_key,
        server,
        ..
    } = net;
    let _ = curl.kill();
    let _ = curl.wait();
    client.terminate();
    page.wait_for("document.getElementById('link').textContent !== 'live'");
    let path = relay.local_addr().to_string();
    let mut args = vec![
        "client",
        "--server",
        &path,
        "--server-key",
        &server_key.public,
    ];
    args.extend(["--key", client_key.path(), "--socks", "127.0.0.1:0"]);
    args.extend(["--metrics", &metrics]);
    let again = Ctcp::start(&args);
    page.wait_for("document.getElementById('link').textContent === 'live'");
    page.wait_for("!!document.querySelector('.path .chip.good')");
    assert_eq!(page.errors(), [] as [String; 0]);
    drop((again, server));
}

fn take_pictures(page: &mut Chromium, folder: &Path) {
    use std::process::Command;
    let wait: u64 = std::env::var("CTCP_SCREENSHOTS_AFTER")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    thread::sleep(Duration::from_secs(wait));
    for (name, width, height, scheme) in [
        ("light", 1200, 1180, "light"),
        ("dark", 1200, 1180, "dark"),
        ("phone", 390, 1500, "light"),
    ] {
        page.look(width, height, scheme);
        thread::sleep(Duration::from_secs(2));
        let file = folder.join(format!("page-{name}.png"));
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(file).expect("writable"))
            .spawn()
            .expect("base64 runs");
        let mut input = decode.stdin.take().expect("piped");
        input
            .write_all(page.picture().as_bytes())
            .expect("it reads");
        drop(input);
        assert!(decode.wait().expect("it is ours").success());
    }
}
