//! `--check`: the emulator measured against what was asked for.

use ctcp_emu::Network;
use ctcp_emu::check::{self, CheckLine, Verdict};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::print_line;

/// Checks, prints, and fails if something is off.
pub(super) fn run(network: &Network, is_json: bool) -> Result<(), Failure> {
    let lines = check::run(network).map_err(Failure::failed)?;
    if !is_json {
        let head = format!(
            "{:<6}{:<6}{:<16}{:>12}{:>12}{:>12}  verdict",
            "path", "way", "quantity", "expected", "measured", "tolerance"
        );
        print_line(&head);
    }
    for line in &lines {
        print_line(&match is_json {
            true => to_json(line).to_string(),
            false => to_text(line),
        });
    }
    let failed = lines.iter().filter(|line| line.verdict == Verdict::Fail);
    match failed.count() {
        0 => Ok(()),
        count => Err(Failure::failed(format!(
            "{count} of {} checks failed; on a busy machine run again, and use fewer or slower \
             paths if it stays so",
            lines.len()
        ))),
    }
}

fn to_text(line: &CheckLine) -> String {
    let number = |value: f64| match value.is_finite() {
        true => format!("{value:.4}"),
        false => "-".to_owned(),
    };
    let verdict = match &line.verdict {
        Verdict::Pass => "pass".to_owned(),
        Verdict::Fail => "FAIL".to_owned(),
        Verdict::NotChecked(why) => format!("not checked: {why}"),
    };
    format!(
        "{:<6}{:<6}{:<16}{:>12}{:>12}{:>12}  {verdict}",
        line.path,
        line.direction,
        line.quantity,
        number(line.expected),
        number(line.measured),
        number(line.tolerance),
    )
}

fn to_json(line: &CheckLine) -> Value {
    let (verdict, why) = match &line.verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Fail => ("fail", None),
        Verdict::NotChecked(why) => ("not_checked", Some(why)),
    };
    json!({
        "path": line.path,
        "direction": line.direction,
        "quantity": line.quantity,
        "expected": line.expected,
        "measured": line.measured,
        "tolerance": line.tolerance,
        "verdict": verdict,
        "why": why,
    })
}
