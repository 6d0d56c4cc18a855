//! `ctcp sim`: its outputs, and what it says of bad files.

#![cfg(feature = "lab")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/scenarios")
        .join(name)
}

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ctcp"))
        .arg("sim")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_scenario_prints_a_table_with_its_seed_and_repeats() {
    let file = example("one-flow.toml");
    let arguments = [
        file.to_str().unwrap(),
        "--seed",
        "5",
        "--set",
        "time_limit=20 s",
        "--set",
        "warmup=2s",
    ];
    let one = sim(&arguments);
    assert!(one.status.success(), "{}", text(&one.stderr));
    let table = text(&one.stdout);
    assert!(table.starts_with("one-flow: 1 runs, seed 5\n"), "{table}");
    assert!(table.contains("goodput_mbit"), "{table}");
    assert_eq!(text(&sim(&arguments).stdout), table);
}

#[test]
fn json_csv_trace_and_plot_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = example("radio-with-outages.toml");
    let (csv, svg, trace) = (path("runs.csv"), path("run.svg"), path("run.qlog"));
    let output = sim(&[
        file.to_str().unwrap(),
        "--set",
        "time_limit=5 s",
        "--json",
        "--csv",
        &csv,
        "--plot",
        &svg,
        "--trace",
        &trace,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["seed"], 1);
    assert!(line["flows"][0]["goodput_mbit"].as_f64().unwrap() > 1.0);
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 2);
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.lines().count() > 1000);
    for line in trace.lines().take(50) {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn what_cannot_end_is_said_on_stderr() {
    let file = example("dead-link.toml");
    let output = sim(&[file.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("0/1"));
    let said = text(&output.stderr);
    assert!(said.contains("had not ended at 300.000 s"), "{said}");
}

#[test]
fn a_bad_file_is_refused_with_file_line_key_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let good = std::fs::read_to_string(example("one-flow.toml")).unwrap();
    std::fs::write(&file, good.replace("25 mbit", "25 furlongs")).unwrap();
    let output = sim(&[file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let line = good
        .lines()
        .position(|line| line.contains("25 mbit"))
        .unwrap();
    assert!(said.contains(&format!("bad.toml:{}:", line + 1)), "{said}");
    assert!(said.contains("a rate with its unit"), "{said}");
}

#[test]
fn a_missing_file_and_an_unknown_key_are_refused() {
    let output = sim(&["no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no-such-file.toml: cannot be read"));
    let file = example("one-flow.toml");
    let output = sim(&[file.to_str().unwrap(), "--set", "network.ring=3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("ring"));
}
