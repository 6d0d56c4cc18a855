//! Each kind of check, by a small table of made-up runs.

use std::collections::BTreeMap;

use super::{Claim, Outcome, Results, Verdict, judge};
use crate::point::{Flow, Loss, Path, Point, Position, Process, Program, System, Venue, Workload};
use crate::record::{FlowOutcome, Record};
use crate::testbed::test_support;

fn point(series: &str, at: &[(&str, f64)]) -> Point {
    let at: BTreeMap<String, f64> = at.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    let process = match at.get("loss") {
        Some(&share) if share > 0.0 => Process::Bernoulli { share },
        _ => Process::None,
    };
    let loss = |process| Loss {
        position: Position::Before,
        process,
    };
    let path = Path {
        rate_mbit: 10.0,
        rtt_ms: 24.0,
        loss_down: loss(process),
        ..test_support::path()
    };
    let flow = |name: &str| Flow {
        name: name.to_owned(),
        system: System::Tcp {
            congestion: "reno".to_owned(),
        },
        workload: Workload::Fetch {
            bytes: 1_000_000,
            count: 2,
            program: Program::Own,
            cold: false,
        },
        start_s: 0.0,
        extra_rtt_ms: 0.0,
        paths_each: 1,
    };
    Point {
        experiment: "small".to_owned(),
        series: series.to_owned(),
        at,
        repetition: 0,
        seed: 1,
        loss_seed: 1,
        venue: Venue::Testbed,
        paths: vec![path],
        flows: vec![flow("first"), flow("second")],
        time_limit_s: 300.0,
        sample_s: None,
    }
}

/// A run in which both flows get the same.
fn run(series: &str, at: &[(&str, f64)], goodput_mbit: f64) -> Record {
    let point = point(series, at);
    let outcome = |name: &str| FlowOutcome {
        name: name.to_owned(),
        goodput_mbit,
        completion_s: vec![8.0 / goodput_mbit; 2],
        ..FlowOutcome::default()
    };
    Record {
        flows: vec![outcome("first"), outcome("second")],
        point,
        started_at: String::new(),
        elapsed_s: 0.0,
        provenance: Default::default(),
        fidelity: None,
        paths: Vec::new(),
        error: None,
    }
}

fn verdict(checks: &str, records: &[Record]) -> Verdict {
    let text = format!("id = \"C1\"\ntext = \"t\"\n{checks}");
    let claim: Claim = toml::from_str(&text).expect("a claim");
    judge(&claim, &Results::new(records))
}

fn outcome(checks: &str, records: &[Record]) -> Outcome {
    verdict(checks, records).outcome
}

/// Series A at 8, 6, 2 and B at 4, 4, 1 Mbit/s over the loss.
fn two_series() -> Vec<Record> {
    let table = [(0.0, 8.0, 4.0), (0.01, 6.0, 4.0), (0.1, 2.0, 1.0)];
    let runs = table.iter().flat_map(|&(loss, a, b)| {
        [
            run("A", &[("loss", loss)], a),
            run("B", &[("loss", loss)], b),
        ]
    });
    runs.collect()
}

#[test]
fn a_range_is_met_at_its_edges_and_missed_beyond() {
    let check = |limits: &str| {
        format!(
            "[[check]]\nvalue = {{ metric = \"goodput_mbit\", series = \"A\" }}\n\
             where = {{ loss = 0.01 }}\n{limits}"
        )
    };
    let table = [
        ("min = 6.0", Outcome::Met),
        ("max = 6.0", Outcome::Met),
        ("min = 6.1", Outcome::NotMet),
        ("max = 5.9", Outcome::NotMet),
        ("min = 5\nmax = 7", Outcome::Met),
    ];
    for (limits, wanted) in table {
        assert_eq!(outcome(&check(limits), &two_series()), wanted, "{limits}");
    }
}

#[test]
fn what_was_not_run_is_not_measured() {
    let check = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"A\" }\n\
                 where = { loss = 0.5 }\nmin = 1";
    assert_eq!(outcome(check, &two_series()), Outcome::NotMeasured);
    let other = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"Z\" }\nmin = 1";
    assert_eq!(outcome(other, &two_series()), Outcome::NotMeasured);
}

#[test]
fn a_ratio_is_checked_everywhere_and_names_the_worst_place() {
    let check = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"A\", \
                 over = { metric = \"goodput_mbit\", series = \"B\" } }\nmin = 1.8";
    let found = verdict(check, &two_series());
    assert_eq!(found.outcome, Outcome::NotMet);
    let finding = &found.findings[0];
    let (at, value) = finding.decisive.as_ref().unwrap();
    assert_eq!((at["loss"], value.mean), (0.01, 1.5));
    assert_eq!((finding.looked_at, finding.missed), (3, 1));
    let forgiving = format!("{check}\nmisses_allowed = 1");
    assert_eq!(outcome(&forgiving, &two_series()), Outcome::Met);
}

#[test]
fn a_place_can_be_compared_with_another() {
    let check = "[[check]]\nvalue = { metric = \"completion_s\", series = \"A\", \
                 over = { metric = \"completion_s\", series = \"A\", at = { loss = 0 } } }\n\
                 where = { loss = 0.1 }\nmin = 4\nmax = 4";
    assert_eq!(outcome(check, &two_series()), Outcome::Met);
}

#[test]
fn flows_can_be_added_up() {
    let check = "[[check]]\nvalue = { metric = \"efficiency\", series = \"A\", flow = \"all\" }\n\
                 where = { loss = 0 }\nmin = 1.6\nmax = 1.6";
    assert_eq!(outcome(check, &two_series()), Outcome::Met);
}

#[test]
fn a_spread_is_taken_within_its_group() {
    let grid = [
        (0.0, 10.0, 8.0),
        (0.0, 50.0, 8.5),
        (0.1, 10.0, 3.0),
        (0.1, 50.0, 3.2),
    ];
    let records: Vec<Record> = grid
        .iter()
        .map(|&(loss, rtt, got)| run("A", &[("loss", loss), ("rtt_ms", rtt)], got))
        .collect();
    let check = |max: f64| {
        format!(
            "[[check]]\nvalue = {{ metric = \"goodput_mbit\", series = \"A\" }}\n\
             take = \"spread\"\nper = [\"loss\"]\nmax = {max}"
        )
    };
    assert_eq!(outcome(&check(0.5), &records), Outcome::Met);
    assert_eq!(outcome(&check(0.4), &records), Outcome::NotMet);
    // Without groups the spread is that of the whole grid.
    let whole = check(5.0).replace("per = [\"loss\"]\n", "");
    assert_eq!(outcome(&whole, &records), Outcome::NotMet);
}

#[test]
fn a_mean_lies_between() {
    let check = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"B\" }\n\
                 take = \"mean\"\nmin = 3\nmax = 3";
    assert_eq!(outcome(check, &two_series()), Outcome::Met);
}

#[test]
fn a_formula_is_evaluated_where_the_run_was() {
    // √(1.5/0.01) packets in 24 ms are 12.25 of the 20 that fill the path.
    let check = |limits: &str| {
        format!(
            "[[check]]\nvalue = {{ metric = \"efficiency\", series = \"A\", \
             over = {{ formula = \"sqrt_efficiency\" }} }}\nwhere = {{ loss = 0.01 }}\n{limits}"
        )
    };
    assert_eq!(
        outcome(&check("min = 0.979\nmax = 0.981"), &two_series()),
        Outcome::Met
    );
    assert_eq!(
        outcome(&check("min = 0.99"), &two_series()),
        Outcome::NotMet
    );
}

#[test]
fn a_direction_allows_for_noise_and_no_more() {
    let check = |rises: bool, slack: f64| {
        format!(
            "[[check]]\nvalue = {{ metric = \"goodput_mbit\", series = \"B\" }}\n\
             monotone = {{ along = \"loss\", rises = {rises}, slack = {slack} }}"
        )
    };
    assert_eq!(outcome(&check(false, 0.0), &two_series()), Outcome::Met);
    assert_eq!(outcome(&check(true, 0.5), &two_series()), Outcome::NotMet);
    assert_eq!(outcome(&check(true, 0.8), &two_series()), Outcome::Met);
}

#[test]
fn a_run_cut_short_decides_only_what_its_bound_decides() {
    let mut records = two_series();
    for record in &mut records {
        if record.point.series == "A" && record.point.at["loss"] == 0.1 {
            record.flows[0].completion_s.clear();
            record.flows[0].is_censored = true;
        }
    }
    // At least 300 s over 8 s: 37.5 or more.
    let check = |limit: &str| {
        format!(
            "[[check]]\nvalue = {{ metric = \"completion_s\", series = \"A\", \
             over = {{ metric = \"completion_s\", series = \"B\" }} }}\n\
             where = {{ loss = 0.1 }}\n{limit}"
        )
    };
    assert_eq!(outcome(&check("min = 30"), &records), Outcome::Met);
    assert_eq!(outcome(&check("min = 40"), &records), Outcome::NotMeasured);
    assert_eq!(outcome(&check("max = 30"), &records), Outcome::NotMet);
    assert_eq!(outcome(&check("max = 40"), &records), Outcome::NotMeasured);
}

#[test]
fn all_checks_of_a_claim_must_hold() {
    let good = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"A\" }\nmin = 1\n";
    let bad = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"A\" }\nmin = 100\n";
    assert_eq!(
        outcome(&format!("{good}{good}"), &two_series()),
        Outcome::Met
    );
    assert_eq!(
        outcome(&format!("{good}{bad}"), &two_series()),
        Outcome::NotMet
    );
    assert_eq!(
        outcome("unchecked = \"no such network\"", &two_series()),
        Outcome::NotMeasured
    );
}

#[test]
fn repetitions_become_one_estimate() {
    let records: Vec<Record> = [4.0, 5.0, 6.0]
        .map(|got| run("A", &[("loss", 0.0)], got))
        .into();
    let check = "[[check]]\nvalue = { metric = \"goodput_mbit\", series = \"A\" }\nmin = 5";
    let found = verdict(check, &records);
    let value = found.findings[0].decisive.as_ref().unwrap().1;
    assert_eq!(
        (value.mean, value.runs, found.outcome),
        (5.0, 3, Outcome::Met)
    );
    assert!(value.half_width.is_some());
}
