//! `ctcp emulate netns`: programs in namespaces, changes under way, bad input,
//! and nothing left behind. Skips visibly where namespaces are not allowed.

mod common;

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::Ctcp;
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether networks can be put up here; says so if not.
fn can_emulate() -> bool {
    let output = Ctcp::run(&["emulate", "netns", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("SKIPPED: no namespaces here: {said}");
    }
    output.status.success()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn netns(args: &[&str]) -> Output {
    Ctcp::run(&[&["emulate", "netns"], args].concat())
}

/// Shells that run this script.
fn shells_with(script: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("there is one").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sh\0-c\0{script}\0");
    lines.filter(|line| line == wanted.as_bytes()).count()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_finds_the_other_side_and_its_status_is_ours() {
    if !can_emulate() {
        return;
    }
    let script = "test -n \"$EMULATE_RIGHT_1\" && echo $EMULATE_LEFT $EMULATE_RIGHT; exit 7";
    let output = netns(&[
        "--path",
        "rate=5mbit",
        "--path",
        "",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "10.77.0.1 10.77.0.2\n");
    let output = netns(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn counters_are_json_lines_in_a_file() {
    if !can_emulate() {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().to_str().expect("UTF-8");
    // A datagram needs no program but the shell that bash is; so does this.
    let script = "exec 3<>/dev/udp/$EMULATE_RIGHT/9 && echo x >&3; sleep 2";
    let args = [
        "--counters",
        name,
        "--interval",
        "100ms",
        "--",
        "bash",
        "-c",
        script,
    ];
    let output = netns(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(file.path()).expect("written");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(lines.len() >= 3, "{lines:?}");
    let last = lines.last().expect("several");
    assert_eq!(last["paths"][0]["up"]["delivered"], 1, "{last}");
    assert!(last["timing"]["p99_us"].is_number(), "{last}");
}

#[test]
fn paths_change_under_way_and_bad_lines_are_answered() {
    if !can_emulate() {
        return;
    }
    let name = format!("ctcp-test-{}", std::process::id());
    let set = |change: &str| Ctcp::run(&["emulate", "set", "--control", &name, change]);
    let mut args = vec!["emulate", "netns", "--control", &name, "--json"];
    args.extend(["--path", "", "--path", "loss=1%"]);
    let (stdin, mut lines) = std::io::pipe().expect("a pipe");
    let mut ctcp = Ctcp::spawn(Ctcp::command(&args).stdin(stdin));
    wait_until("it answers", || set("counters").status.success());
    for change in [
        "rate 5mbit",
        "path 1 up loss 5% burst 4",
        "path 0 off",
        "path 0 on",
    ] {
        let output = set(change);
        assert!(
            output.status.success(),
            "{change}: {}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "ok\n");
    }
    for (change, part) in [
        ("path 2 off", "there are 2"),
        ("rate", "NAME VALUE"),
        ("rate fast", "25mbit"),
        ("speed 3", "there are rate, "),
        ("burst 0.5", "from 1 on"),
        ("", "NAME VALUE"),
    ] {
        let output = set(change);
        assert_eq!(output.status.code(), Some(2), "{change}");
        assert!(
            text(&output.stderr).contains(part),
            "{change}: {}",
            text(&output.stderr)
        );
    }
    lines.write_all(b"counters\nnonsense\n").expect("it reads");
    ctcp.wait_for_stderr("`nonsense`");
    ctcp.signal(Signal::INT);
    assert!(ctcp.wait().success(), "{}", ctcp.stderr());
    let stdout = ctcp.stdout();
    let counters = stdout.lines().filter(|line| line.contains("\"paths\""));
    assert_eq!(counters.count(), 2, "{stdout}");
    assert_eq!(set("counters").status.code(), Some(4));
}

/// Starts one with programs in both namespaces, one of them in the background and
/// in a session of its own; ends it by `signal`; nothing must be left.
fn ends_without_a_trace(signal: Signal, tag: &str) {
    let background = format!("setsid sh -c 'sleep 600; : {tag}' & sleep 600");
    let server = format!("sleep 600; : {tag}");
    let script = format!("{background}; : {tag}");
    let args = [
        "emulate", "netns", "--server", &server, "--", "sh", "-c", &script,
    ];
    let mut ctcp = Ctcp::start(&args);
    wait_until("the program runs", || shells_with(&script) == 1);
    let in_background = format!("sleep 600; : {tag}");
    wait_until("all of them", || shells_with(&in_background) == 2);
    ctcp.signal(signal);
    ctcp.wait();
    wait_until("all have ended", || {
        shells_with(&script) + shells_with(&in_background) == 0
    });
}

#[test]
fn nothing_is_left_after_sigint() {
    if can_emulate() {
        ends_without_a_trace(Signal::INT, "int");
    }
}

#[test]
fn nothing_is_left_after_sigterm() {
    if can_emulate() {
        ends_without_a_trace(Signal::TERM, "term");
    }
}

#[test]
fn nothing_is_left_after_sigkill() {
    if can_emulate() {
        ends_without_a_trace(Signal::KILL, "kill");
    }
}

#[test]
fn nothing_is_left_when_it_is_killed_while_it_starts() {
    if !can_emulate() {
        return;
    }
    let script = "sleep 600; : early";
    for delay_ms in [0, 5, 10, 20, 30, 40, 60, 80] {
        let args = [
            "emulate", "netns", "--server", script, "--", "sh", "-c", script,
        ];
        let mut ctcp = Ctcp::spawn(&mut Ctcp::command(&args));
        thread::sleep(Duration::from_millis(delay_ms));
        ctcp.signal(Signal::KILL);
        ctcp.wait();
    }
    wait_until("all have ended", || shells_with(script) == 0);
}

#[test]
fn bad_input_is_one_line_with_a_remedy() {
    for (args, part) in [
        (&["--path", "rate"][..], "NAME=VALUE"),
        (&["--path", "rate=5mbit,loss=7"], "--path 0: loss: "),
        (
            &["--up-rate-trace", "/no/such/file"],
            "cannot read the rate trace",
        ),
        (&["--burst", "1", "--loss", "90%"], "bursts of 1 packets"),
        (&["--interval", "0"], "write 1s"),
        (&["--tcp", "carrierpigeon"], "modprobe tcp_carrierpigeon"),
        (
            &["--counters", "/no/such/folder/file"],
            "/no/such/folder/file",
        ),
    ] {
        let output = netns(&[args, &["--", "true"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        // Where namespaces are not allowed, that is said first.
        let is_named = said.contains(part) || said.contains("namespace");
        assert!(is_named, "{args:?}: {said}");
    }
}

#[test]
fn a_missing_program_is_named() {
    if !can_emulate() {
        return;
    }
    let output = netns(&["--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("`no-such-program`"), "{said}");
    assert!(said.contains("is it installed?"), "{said}");
}

#[test]
fn it_works_for_users_without_privileges() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !common::has("setpriv", "util-linux") || !can_emulate() {
        // Whoever is not root runs all the other tests so.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("ctcp");
    std::fs::copy(env!("CARGO_BIN_EXE_ctcp"), &copy).expect("copied");
    for path in [folder.path(), &copy] {
        use std::os::unix::fs::PermissionsExt;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, all).expect("ours");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
        .arg(&copy)
        .args(["emulate", "netns", "--loss", "10%", "--"]);
    command
        .args(["sh", "-c", "echo $EMULATE_RIGHT"])
        .current_dir("/");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv runs");
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let pipes = (child.stdout.take(), child.stderr.take());
    pipes
        .0
        .expect("piped")
        .read_to_string(&mut stdout)
        .expect("UTF-8");
    pipes
        .1
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("UTF-8");
    if !child.wait().expect("it ends").success() {
        eprintln!("SKIPPED: no namespaces for ordinary users here: {stderr}");
        return;
    }
    assert_eq!(stdout, "10.77.0.2\n");
}

#[test]
fn the_check_compares_every_path() {
    if !can_emulate() {
        return;
    }
    let args = [
        "--rate", "8mbit", "--rtt", "20ms", "--loss", "3%", "--check", "--json",
    ];
    let output = netns(&args);
    let stdout = text(&output.stdout);
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let quantities = lines.iter().filter_map(|line| line["quantity"].as_str());
    let quantities: Vec<_> = quantities.collect();
    for wanted in [
        "delay_ms",
        "rtt_ms",
        "loss_share",
        "rate_mbit",
        "timing_p99_us",
    ] {
        assert!(quantities.contains(&wanted), "{stdout}");
    }
    // A busy machine may fail it; then it says so.
    let failed = lines.iter().any(|line| line["verdict"] == "fail");
    assert_eq!(output.status.success(), !failed, "{stdout}");
}
