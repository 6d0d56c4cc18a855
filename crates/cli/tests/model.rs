//! `ctcp model`: what the documents show, tables, plots, and bad input.
#![cfg(feature = "lab")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ctcp_model::{model_by_name, models, table1};
use serde_json::Value;

fn ctcp(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctcp"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    ctcp(args).output().expect("it is built")
}

/// What a command that works prints.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert!(output.stderr.is_empty(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The fields of comma-separated values, without the header, and the header.
fn csv(text: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    let mut lines = text.lines().map(|line| line.split(',').collect());
    let header = lines.next().expect("a header");
    (header, lines.collect())
}

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    fs::read_to_string(path).expect("it exists")
}

#[test]
fn the_document_s_examples_print_what_it_shows() {
    let document = document();
    let folder = tempfile::tempdir().expect("a folder");
    let mut checked = 0;
    for block in document.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").expect("it ends");
        let mut commands = block.split("$ ctcp ");
        assert_eq!(commands.next(), Some(""), "a block begins with a command");
        for example in commands {
            let (line, shown) = example.split_once('\n').expect("a line");
            let args: Vec<&str> = line.split_whitespace().collect();
            let output = ctcp(&args).current_dir(folder.path()).output();
            let output = output.expect("it is built");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {stderr}");
            // An example may leave its output out.
            if !shown.trim().is_empty() {
                let stdout = String::from_utf8_lossy(&output.stdout);
                assert_eq!(stdout.trim_end(), shown.trim_end(), "{line}");
            }
            if let Some(at) = args.iter().position(|arg| *arg == "--plot") {
                let svg = fs::read_to_string(folder.path().join(args[at + 1]));
                assert!(svg.expect("drawn").ends_with("</svg>\n"), "{line}");
            }
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked} examples");
}

/// The document's table is the registry's; the message has the row to put in.
#[test]
fn the_document_lists_every_model_as_it_is() {
    let document = document();
    let mut rows = 0;
    for model in models() {
        let readings: Vec<_> = model
            .readings
            .iter()
            .map(|reading| format!("`{}`", reading.name))
            .collect();
        let row = format!(
            "| `{}` | {} | {} | {} | {} |",
            model.name,
            model.title,
            model.equation.replace('|', "\\|"),
            model.source,
            readings.join(", ")
        );
        assert!(document.lines().any(|line| line == row), "missing: {row}");
        rows += 1;
    }
    let is_model = |line: &&str| line.starts_with("| `") && !line.starts_with("| `--");
    let documented = document.lines().filter(is_model);
    assert_eq!(documented.count(), rows, "no model that there is not");
}

#[test]
fn table_1_stands_beside_the_print() {
    let text = printed(&["model", "table1", "--csv"]);
    let (header, rows) = csv(&text);
    assert_eq!(rows.len(), 3);
    let column = |row: &Vec<&str>, name: &str| -> f64 {
        let at = header.iter().position(|column| *column == name);
        row[at.expect("a column")].parse().expect("a number")
    };
    for (row, print) in rows.iter().zip(table1::PRINTED) {
        assert_eq!(column(row, "q"), print.q);
        assert_eq!(column(row, "e2e_printed"), print.e2e);
        assert_eq!(column(row, "tcp_printed"), print.tcp);
        let e2e = column(row, "e2e");
        assert!((e2e / print.e2e - 1.0).abs() <= 0.0015, "{e2e}");
        assert!(column(row, "e2e_error_percent").abs() <= 0.15);
        let tcp = column(row, "tcp");
        assert_eq!((tcp * 1e4).round() / 1e4, print.tcp, "four decimals");
    }
    // The reading that does not fit is there to be seen.
    let text = printed(&[
        "model",
        "table1",
        "--q",
        "0.05",
        "--reading",
        "down",
        "--csv",
    ]);
    assert!(
        text.lines().nth(1).expect("a row").contains(",0.0051"),
        "{text}"
    );
}

#[test]
fn a_grid_is_what_the_library_computes() {
    let text = printed(&[
        "model",
        "eta",
        "--p",
        "0.05,0.1",
        "--block",
        "16..32/2",
        "--reading",
        "A,C",
        "--csv",
    ]);
    let (header, rows) = csv(&text);
    assert_eq!(header[..3], ["reading", "p", "block"]);
    assert_eq!(rows.len(), 2 * 2 * 2);
    let model = model_by_name("eta").expect("it exists");
    for row in &rows {
        let numbers: Vec<f64> = row[1..].iter().map(|n| n.parse().expect("n")).collect();
        let given = [("p", numbers[0]), ("block", numbers[1])];
        let outputs = model.evaluate(&given, Some(row[0])).expect("in range");
        assert_eq!(numbers[2..], outputs[..], "{row:?}");
    }
}

#[test]
fn json_lines_carry_the_same_numbers() {
    let args = [
        "model",
        "tcp",
        "--p",
        "0,0.01",
        "--output",
        "window,rate",
        "--json",
    ];
    let text = printed(&args);
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2);
    // Without loss the window has no limit, and JSON no infinity.
    assert_eq!(rows[0]["window"], Value::Null);
    assert_eq!(rows[0]["rate"], 112.5);
    assert_eq!(rows[1]["model"], "tcp");
    assert_eq!(rows[1]["reading"], "nearest");
    assert_eq!(rows[1]["rtt"], 0.8);
    let rate = rows[1]["rate"].as_f64().expect("a number");
    assert!((rate - 12.643956).abs() < 1e-6, "{rate}");
    assert!(rows[1].get("rate_mbit").is_none(), "not asked for");
}

#[test]
fn a_derived_parameter_may_be_given() {
    let rate = |args: &[&str]| {
        let args = [
            &["model", "e2e", "--p", "0.2", "--output", "rate", "--csv"],
            args,
        ]
        .concat();
        let text = printed(&args);
        let (_, rows) = csv(&text);
        let rate: f64 = rows[0].last().expect("a rate").parse().expect("a number");
        rate
    };
    assert!((rate(&[]) - rate(&["--redundancy", "1.25"])).abs() < 1e-9);
    assert!(rate(&["--redundancy", "1.5"]) < rate(&[]));
}

#[test]
fn every_model_runs_with_its_defaults_and_its_help_says_all() {
    for model in models() {
        let text = printed(&["model", model.name]);
        assert!(
            text.contains(model.equation) && text.contains(model.source),
            "{text}"
        );
        let help = printed(&["model", model.name, "--help"]);
        for parameter in model.parameters {
            let flag = format!("--{}", parameter.name.replace('_', "-"));
            assert!(help.contains(&flag), "{}: {help}", model.name);
        }
        let readings = model.readings.iter().map(|reading| reading.name);
        for name in readings.chain(model.outputs.iter().map(|output| output.name)) {
            assert!(help.contains(name), "{}: {help}", model.name);
        }
    }
}

#[test]
fn the_list_is_the_registry() {
    let text = printed(&["model", "list", "--json"]);
    let names: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|model| model["name"].as_str().expect("a name").to_owned())
        .collect();
    let expected: Vec<_> = models().map(|model| model.name.to_owned()).collect();
    assert_eq!(names, expected);
    let text = printed(&["model", "list"]);
    assert_eq!(text.lines().count(), expected.len() + 1, "and a header");
}

#[test]
fn a_plot_is_drawn_where_something_varies() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("eta.svg");
    let path = file.to_str().expect("UTF-8");
    let range = "0.001..0.2/20log";
    printed(&[
        "model",
        "eta",
        "--p",
        range,
        "--reading",
        "A,C",
        "--plot",
        path,
    ]);
    let svg = fs::read_to_string(&file).expect("drawn");
    assert!(svg.contains("#0072B2") && svg.contains("#D55E00"), "{svg}");
    assert!(
        svg.contains("reading A") && svg.contains("reading C"),
        "{svg}"
    );
    for (args, said) in [
        (vec!["--p", "0.1", "--plot", path], "--p FROM..TO/50"),
        (
            vec!["--p", range, "--plot", "/nowhere/eta.svg"],
            "/nowhere/eta.svg",
        ),
        (
            vec!["--p", range, "--output", "coded,eta", "--plot", path],
            "different units",
        ),
        (
            vec!["--p", "0..0.2/40", "--block", "1..99/50", "--plot", path],
            "cannot be told apart",
        ),
    ] {
        let args = [vec!["model", "eta"], args].concat();
        let output = run(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn bad_input_is_named_with_what_is_allowed() {
    for (args, said) in [
        (vec!["etta"], vec!["`etta`", "header-budget", "table1"]),
        (
            vec!["eta", "--q", "1"],
            vec!["--q", "--p VALUES", "--block"],
        ),
        (
            vec!["eta", "--p", "1.5"],
            vec!["--p", "1.5", "at least 0, at most 0.99"],
        ),
        (vec!["eta", "--p", "-1"], vec!["p = -1", "at least 0"]),
        (vec!["eta", "--p", "x"], vec!["`x`", "at least 0"]),
        (vec!["eta", "--p", "0..1"], vec!["FROM..TO/COUNT"]),
        (vec!["eta", "--block", "1.5"], vec!["block = 1.5", "whole"]),
        (
            vec!["eta", "--reading", "E"],
            vec!["`E`", "C, A, B, D, printed"],
        ),
        (vec!["padhye", "--reading", "A"], vec!["--reading", "--bdp"]),
        (
            vec!["eta", "--output", "theta"],
            vec!["`theta`", "bound_before"],
        ),
        (
            vec!["table1", "--q", "0.02"],
            vec!["q = 0.02", "one of 0.015, 0.025, 0.05"],
        ),
        (
            vec!["e2e", "--p", "0.1,0.3", "--redundancy", "1.25"],
            vec!["redundancy = 1.25", "1.428571", "p = 0.3"],
        ),
        (
            vec!["eta", "--p", "0..0.5/9999", "--block", "1..255/255"],
            vec!["rows are too many", "100000"],
        ),
        (vec!["eta", "--csv", "--json"], vec!["--csv", "--json"]),
    ] {
        let args = [vec!["model"], args].concat();
        let output = run(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for part in said {
            assert!(stderr.contains(part), "{args:?} lacks {part}: {stderr}");
        }
    }
}

#[test]
fn the_environment_gives_what_the_command_line_does_not() {
    let window = |args: &[&str]| {
        let mut command =
            ctcp(&[&["model", "padhye", "--output", "window", "--csv"], args].concat());
        let output = command.env("CTCP_MODEL_P", "0.06").output().expect("built");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.trim_end()
            .rsplit(',')
            .next()
            .expect("a cell")
            .to_owned()
    };
    assert_eq!(window(&[]), "5");
    assert_eq!(window(&["--p", "0.015"]), "10");
}
