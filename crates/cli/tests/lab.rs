//! `ctcp lab` end to end: one experiment beside the kernel's TCP, in seconds.
#![cfg(feature = "lab")]

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctcp"));
    command.arg("lab").args(arguments).env_remove("CTCP_SEED");
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    lab(arguments).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether this machine lets nobody have namespaces; says so if that is it.
fn must_skip(output: &Output) -> bool {
    let said = said(output);
    let no_namespaces = output.status.code() == Some(2) && said.contains("namespace");
    if no_namespaces {
        eprintln!("SKIPPED: {}", said.trim());
    }
    no_namespaces
}

fn records(folder: &Path, id: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(format!("{id}.jsonl"))).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("whole records"))
        .collect()
}

/// A folder for results as an argument.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    let text = results.to_str().expect("UTF-8").to_owned();
    (folder, text)
}

#[test]
fn an_experiment_runs_beside_the_kernels_tcp_and_is_reported() {
    let (_folder, out) = folder();
    let points = ["CTCP/loss=0.01", "Reno/loss=0.01", "CUBIC/loss=0.01"];
    let mut arguments = vec!["run", "cc14-fig2a", "--quick", "--out", &out];
    points
        .iter()
        .for_each(|point| arguments.extend(["--only", point]));
    let output = run(&arguments);
    if must_skip(&output) {
        return;
    }
    common::assert_ok(&output);
    let records = records(Path::new(&out), "cc14-fig2a");
    assert_eq!(records.len(), 3);
    let goodput = |series: &str| {
        let its = records
            .iter()
            .find(|record| record["point"]["series"] == series)
            .expect("it ran");
        assert_eq!(its["error"], Value::Null);
        let lost = its["paths"][0]["down"]["lost"].as_f64().expect("a count");
        let offered = its["paths"][0]["down"]["offered"].as_f64().expect("one");
        assert!(
            (0.002..0.03).contains(&(lost / offered)),
            "{series}: {lost}"
        );
        its["flows"][0]["goodput_mbit"].as_f64().expect("a number")
    };
    let (ctcp, reno, cubic) = (goodput("CTCP"), goodput("Reno"), goodput("CUBIC"));
    println!("CTCP {ctcp:.2}, Reno {reno:.2}, CUBIC {cubic:.2} Mbit/s at 1 % loss");
    // √(1.5/p) gives 5.7 Mbit/s; ten seconds and a busy machine are rough.
    for tcp in [reno, cubic] {
        assert!((2.0..9.0).contains(&tcp), "{tcp} Mbit/s");
    }
    assert!(ctcp > 2.0 * reno, "{ctcp} against {reno} Mbit/s");

    // The same command finds everything done, and the report stands on it.
    let output = run(&arguments);
    common::assert_ok(&output);
    assert!(
        said(&output).contains("3 points have a result"),
        "{output:?}"
    );
    let output = run(&["report", "--results", &out]);
    common::assert_ok(&output);
    let page = std::fs::read_dir(Path::new(&out).join("report")).expect("written");
    assert!(page.count() > 0);
}

#[test]
fn an_interrupted_run_leaves_whole_lines_and_goes_on() {
    let (_folder, out) = folder();
    let arguments = [
        "run",
        "cc14-fig2a",
        "--quick",
        "--jobs",
        "1",
        "--out",
        &out,
        "--only",
        "CUBIC/loss=0.2",
        "--only",
        "CTCP/loss=0.2",
    ];
    let child = lab(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // In the middle of the first point.
    thread::sleep(Duration::from_secs(5));
    let pid = Pid::from_raw(child.id() as i32).expect("it has a number");
    let _ = kill_process(pid, Signal::INT);
    let began = Instant::now();
    let output = child.wait_with_output().expect("it is ours");
    if must_skip(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("interrupted: 2 points are left"),
        "{}",
        said(&output)
    );
    assert!(began.elapsed() < Duration::from_secs(120));
    assert_eq!(records(Path::new(&out), "cc14-fig2a").len(), 0);
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is_set_up() {
    let (_folder, out) = folder();
    for (arguments, expected) in [
        (vec!["run", "cc14-fig99"], "cc14-fig2a"),
        (vec!["run", "cc14-fig2a", "--only", "BBR9"], "--only"),
        (vec!["run", "cc14-fig2a", "--external", "x"], "{port}"),
        (vec!["run", "/none/such.toml"], "/none/such.toml"),
        (vec!["report"], "ctcp lab run"),
    ] {
        let mut arguments = arguments.clone();
        let option = match arguments[0] {
            "report" => "--results",
            _ => "--out",
        };
        arguments.extend([option, &out]);
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
    let output = run(&["run", "mp12-proxy", "--out", &out, "--ctcp-binary", "/none"]);
    if !must_skip(&output) {
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let (_folder, out) = folder();
    let mut command = lab(&["run", "mp12-proxy", "--quick", "--out", &out]);
    // None of them is a program of the system's own folders.
    let output = command.env("PATH", "/none").output().expect("it runs");
    if must_skip(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("apt-get install curl"),
        "{}",
        said(&output)
    );
}

#[test]
fn the_list_tells_what_each_experiment_takes() {
    let output = run(&["list", "--json"]);
    common::assert_ok(&output);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let all: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let fig2a = all
        .iter()
        .find(|entry| entry["id"] == "cc14-fig2a")
        .expect("listed");
    assert!(fig2a["quick"]["seconds"].as_f64() < fig2a["full"]["seconds"].as_f64());
    assert!(fig2a["full"]["points"].as_u64() > Some(0));
}
